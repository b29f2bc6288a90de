"""The GPU of this machine: the replicates of a rule run together, thousands at a time; what it cannot run, threads run."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Generator, Hashable, Sequence
from contextlib import closing
from typing import NamedTuple

from onebit.contract.rule import Rule
from onebit.engine.gpu import device
from onebit.errors import InputError
from onebit.experiments.executors.gpu.ahead import KernelBuilder
from onebit.experiments.executors.gpu.scheduler import StreamScheduler
from onebit.experiments.executors.threads import ThreadsExecutor, threads_executor
from onebit.experiments.trials.cost import Resource, kind_of
from onebit.experiments.trials.records import Record
from onebit.experiments.trials.shared_data import by_shared_data
from onebit.experiments.trials.trial import Progress, Trial
from onebit.learner.learner import Learner

LOG = logging.getLogger("onebit.experiments")

ALLOWED = {"bias", "dtype", "features", "space"}  # what is said of a learner besides the parameters of its rule
KERNEL_S = 4.0  # seconds in which a kernel is built: 2 to 8 were measured


class Speeds(NamedTuple):
    """Rounds a second of rules that are alike in cost, on a GPU and on a core beside it: what `--on auto` decides by."""

    replicate: float  # of one replicate on the GPU, beside all that run at the same time
    together: int  # replicates that do
    core: float  # of one core


# Geometric means of what was measured with 10 classes and 100 features on an H200 and a core of its host (18 November 2026);
# `python -m benchmarks gpu` prints them below its table.
FITTED = {
    "first-order": Speeds(309_000, 4050, 2_150_000),
    "second-order": Speeds(294_000, 2250, 1_180_000),
}


def gpu_executor(threads: int | None = None, only_if_it_pays: bool = False) -> GpuExecutor:
    """The GPU, or a sentence where there is none."""
    trouble = device.trouble()
    if trouble is not None:
        raise InputError(trouble)
    return GpuExecutor(threads_executor(threads), only_if_it_pays)


def why_not(trial: Trial) -> str | None:
    """Why a trial cannot run on the GPU, in words that go on from "runs on threads: "; None where it can, as far as can be seen."""
    rule, options, stream = trial.entry.rule, trial.entry.options, trial.stream
    if isinstance(trial.entry.template, Learner):
        return "a learner that has learnt already"
    if trial.measurement is not None:
        return f"{trial.measurement.what} is measured"
    if rule.composite:
        return f"{rule.name} has several members"
    if rule.second_order is not None and options.get("matrix", rule.defaults["matrix"]) != "diagonal":
        return f"{rule.name} keeps full matrices"
    if stream.restricted:
        return "rounds have candidates"
    if stream.source.rewards:
        return "rounds have rewards"
    if stream.corrected:
        return "wrong rounds are corrected"
    if options.get("dtype", "float32") != "float32":
        return "weights of 64 bits"
    other = sorted(set(options) - set(rule.parameters) - ALLOWED)
    return f"{other[0]} is set" if other else None


class Fallback:
    """Threads for the trials that the GPU cannot run, and the reasons why, each of which is said once."""

    def __init__(self, threads: ThreadsExecutor) -> None:
        self.threads = threads
        self._said: set[str] = set()
        self.begin()

    def begin(self) -> None:
        """Before a run: there are no trials and no reasons yet."""
        self._left: list[Trial] = []
        self._reasons: dict[str, None] = {}

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The threads and what they were needed for in the last run; nothing where they were not."""
        reasons = tuple(self._reasons)
        return tuple(one._replace(reasons=reasons) for one in self.threads.resources) if reasons else ()

    def leave(self, trials: Sequence[Trial], reason: str, said: bool = True) -> None:
        """Trials that are to be run on threads, and why, in words that go on from "runs on threads: "."""
        self._left.extend(trials)
        self._reasons.setdefault(reason)
        if said and reason not in self._said:
            self._said.add(reason)
            name, stream = trials[0].entry.rule.name, trials[0].stream.name
            LOG.info("%s on %s runs on threads: %s", name, stream, reason)

    def run(self, progress: Progress) -> Generator[Record, None, None]:
        """The records of the trials that were left."""
        yield from self.threads.run(by_shared_data(self._left), progress)


class GpuExecutor:
    """One GPU, and threads for what it cannot run."""

    def __init__(self, threads: ThreadsExecutor, only_if_it_pays: bool) -> None:
        self._fallback, self._only_if_it_pays = Fallback(threads), only_if_it_pays
        self._used = False  # whether the GPU was, in the last run
        self._built: set[Hashable] = set()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What the last run ran on: the device, threads and what they were needed for."""
        threads = self._fallback.resources
        return (Resource(device.name()), *threads) if self._used or not threads else threads

    def run(self, groups: Sequence[Sequence[Trial]], progress: Progress) -> Generator[Record, None, None]:
        """The records of these trials: stream by stream on the GPU, and then what is left on threads."""
        fallback, self._used = self._fallback, False
        fallback.begin()
        streams: dict[str, list[Trial]] = {}
        for trial in (trial for group in groups for trial in group):
            reason = why_not(trial)
            if reason is None:
                streams.setdefault(trial.stream.key, []).append(trial)
            else:
                fallback.leave([trial], reason)
        with closing(KernelBuilder()) as builder:
            chosen = []
            for trials in streams.values():
                if self._only_if_it_pays and not pays(trials, fallback.threads.threads, self._built):
                    fallback.leave(trials, "few rounds", said=False)
                    continue
                self._built |= {kind_of(trial) for trial in {id(trial.entry): trial for trial in trials}.values()}
                chosen.append(trials)
            builder.look_ahead([StreamScheduler(trials, fallback.leave, builder).kernels for trials in chosen[1:]])
            for trials in chosen:
                with closing(StreamScheduler(trials, fallback.leave, builder).records(progress)) as records:
                    for record in records:
                        self._used = True
                        yield record
        yield from fallback.run(progress)

    def close(self) -> None:
        """Nothing was started that goes on."""


def family_of(rule: Rule) -> str:
    """Which rules it is alike in cost."""
    return "first-order" if rule.second_order is None else "second-order"


def pays(trials: Sequence[Trial], threads: int, built: Container[Hashable] = ()) -> bool:
    """Whether the GPU is done with the trials of a stream before so many threads are; kernels of kinds that are `built` are there.

    Kernels are built and run one after the other, and each takes at least as long as one replicate for all its rounds.
    """
    rounds = trials[0].stream.rounds
    counts = Counter((kind_of(trial), family_of(trial.entry.rule)) for trial in trials)
    on_gpu = KERNEL_S * sum(kind not in built for kind, _ in counts)
    for (_, family), count in counts.items():
        on_gpu += -(-count // FITTED[family].together) * rounds / FITTED[family].replicate
    families = Counter(family_of(trial.entry.rule) for trial in trials)
    on_threads = sum(count * rounds / FITTED[family].core for family, count in families.items()) / threads
    alone = rounds / max(FITTED[family].core for family in families)  # a run has one thread, however many there are
    return on_gpu < max(on_threads, alone)
