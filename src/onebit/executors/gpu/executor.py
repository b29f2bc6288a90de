"""The GPU of this machine: the replicates of a rule run together, thousands at a time; what it cannot run, threads run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Container, Generator, Hashable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from onebit.engine.compile import ANNOUNCED
from onebit.engine.gpu import device
from onebit.engine.gpu.launch import REPLICATE_RATE, TOGETHER
from onebit.errors import OnebitError
from onebit.executors.gpu.scheduler import StreamScheduler
from onebit.executors.threads import ThreadsExecutor, threads_executor
from onebit.learner import Learner
from onebit.trials.cost import Resource, kind_of
from onebit.trials.records import Record
from onebit.trials.shared_data import SharedData, by_shared_data, run_trial
from onebit.trials.trial import Progress, Trial

SAMPLE = 20_000  # rounds by which a core is measured
CORE_RATE = 3e6  # rounds a second of one core, roughly, by which `auto` decides
KERNEL_S = 4.0  # and so long it takes to build a kernel: 2 to 4 s were measured
ALLOWED = {"bias", "dtype", "features", "space"}  # what is said of a learner besides the parameters of its rule


def gpu_executor(threads: int | None = None, only_if_it_pays: bool = False) -> GpuExecutor:
    """The GPU, or a sentence where there is none."""
    trouble = device.trouble()
    if trouble is not None:
        raise OnebitError(trouble)
    return GpuExecutor(threads_executor(threads), only_if_it_pays)


def why_not(trial: Trial) -> str | None:
    """Why a trial cannot run on the GPU, in words that go on from "runs on threads: "; None where it can, as far as can be seen."""
    rule, options, stream = trial.entry.rule, trial.entry.options, trial.stream
    if isinstance(trial.entry.template, Learner):
        return "a learner that has learnt already"
    if rule.composite or rule.second_order is not None:
        return f"{rule.name} keeps covariances"
    if stream.delay is not None or stream.missing:
        return "feedback comes late or never"
    if options.get("dtype", "float32") != "float32":
        return "weights of 64 bits"
    other = sorted(set(options) - set(rule.parameters) - ALLOWED)
    if other:
        return f"{other[0]} is set"
    return "rows are sparse" if options.get("space") == "sparse" else None


def pays(trials: Sequence[Trial], threads: int, built: Container[Hashable] = ()) -> bool:
    """Whether the GPU is done with the trials of a stream before so many threads are; kernels of kinds that are `built` are there.

    Kernels are built and run one after the other, and each takes at least as long as one replicate for all its rounds.
    """
    rounds = trials[0].stream.rounds
    kinds = Counter(kind_of(trial) for trial in trials)
    launches = sum(-(-count // TOGETHER) for count in kinds.values())
    on_gpu = KERNEL_S * sum(kind not in built for kind in kinds) + launches * rounds / REPLICATE_RATE
    return on_gpu < -(-len(trials) // threads) * rounds / CORE_RATE


class GpuExecutor:
    """One GPU, and threads for what it cannot run."""

    def __init__(self, threads: ThreadsExecutor, only_if_it_pays: bool) -> None:
        self._threads, self._only_if_it_pays = threads, only_if_it_pays
        self._reasons: dict[str, None] = {}  # why threads were needed in the last run
        self._used = False  # whether the GPU was, too
        self._said: set[str] = set()
        self._built: set[Hashable] = set()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What the last run ran on: the device, threads and what they were needed for."""
        gpu = (Resource(device.name()),) if self._used or not self._reasons else ()
        threads = [one._replace(reasons=tuple(self._reasons)) for one in self._threads.resources]
        return (*gpu, *threads) if self._reasons else gpu

    def run(self, groups: Sequence[Sequence[Trial]], progress: Progress) -> Generator[Record, None, None]:
        """The records of these trials: stream by stream on the GPU, and then what is left on threads."""
        self._reasons, self._used = {}, False
        left: list[Trial] = []
        leave = partial(self._leave, left)
        streams: dict[str, list[Trial]] = {}
        for trial in (trial for group in groups for trial in group):
            reason = why_not(trial)
            if reason is None:
                streams.setdefault(trial.stream.key, []).append(trial)
            else:
                leave([trial], reason)
        for trials in streams.values():
            if self._only_if_it_pays and not pays(trials, self._threads.threads, self._built):
                left += trials
                self._reasons.setdefault("few rounds")
                continue
            with closing(StreamScheduler(trials, leave).records(progress)) as records:
                for record in records:
                    self._used = True
                    yield record
            self._built |= {kind_of(trial) for trial in trials}
        yield from self._threads.run(by_shared_data(left), progress)

    def _leave(self, left: list[Trial], trials: Sequence[Trial], reason: str) -> None:
        left.extend(trials)
        self._reasons.setdefault(reason)
        self._say(f"{trials[0].entry.rule.name} on {trials[0].stream.name} runs on threads: ", reason)

    def _say(self, sentence: str, once: str) -> None:
        if once not in self._said:
            self._said.add(once)
            ANNOUNCED[-1](sentence + once)

    def core_rate(self, trial: Trial) -> float | None:
        """Rounds a second of one core of this machine, measured by running the trial's first rounds there."""
        self._say("", "measuring one core, for comparison")
        short = replace(trial, stream=replace(trial.stream, rounds=min(trial.stream.rounds, SAMPLE)))
        outcome = run_trial(short, SharedData(short, {}), threading.Event(), lambda count: None)
        if outcome is None or outcome.why is not None:
            return None
        return short.stream.rounds / max(1e-9, outcome.seconds)

    def close(self) -> None:
        """Nothing was started that goes on."""
