"""Run trials on this machine's GPU, thousands of replicates at a time, and the others on threads."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Generator, Hashable, Sequence
from contextlib import closing
from typing import NamedTuple

from onebit.contract.parameters import Real
from onebit.contract.rule import Rule
from onebit.engine.gpu import device
from onebit.errors import InputError
from onebit.experiments.executors.gpu.ahead import KernelBuilder
from onebit.experiments.executors.gpu.scheduler import StreamScheduler
from onebit.experiments.executors.threads import ThreadsExecutor, threads_executor
from onebit.experiments.trials import Progress, Trial
from onebit.experiments.trials.cost import Resource
from onebit.experiments.trials.records import Record
from onebit.learner.learner import Learner

LOG = logging.getLogger("onebit.experiments")

ALLOWED = {"bias", "dtype", "features", "space"}  # learner options that the GPU supports besides rule parameters
KERNEL_S = 4.0  # seconds to build a kernel; measured: 2 to 8


class Speeds(NamedTuple):
    """Rounds per second of one family of rules on a GPU and on a CPU core; `--on auto` uses them."""

    replicate: float  # speed of one replicate while the GPU is full
    together: int  # replicates that run at the same time
    core: float  # speed of one CPU core


# Geometric means of measurements with 10 classes and 100 features on an H200 and a core of its host (18 November 2026);
# `python -m benchmarks gpu` prints these numbers below its table.
FITTED = {
    "first-order": Speeds(309_000, 4050, 2_150_000),
    "second-order": Speeds(294_000, 2250, 1_180_000),
}


def gpu_executor(threads: int | None = None, only_if_it_pays: bool = False) -> GpuExecutor:
    """Return an executor on this machine's GPU; raise InputError if there is no usable one."""
    trouble = device.trouble()
    if trouble is not None:
        raise InputError(trouble)
    return GpuExecutor(threads_executor(threads), only_if_it_pays)


def why_not(trial: Trial) -> str | None:
    """Return why a trial cannot run on the GPU, or None if nothing known so far prevents it.

    The text is a continuation of "runs on threads: ".
    """
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


class GpuExecutor:
    """Runs trials on one GPU, and those that the GPU cannot run on threads."""

    def __init__(self, threads: ThreadsExecutor, only_if_it_pays: bool) -> None:
        self._threads, self._only_if_it_pays = threads, only_if_it_pays
        self._used = False  # True once the GPU has run a trial
        self._built: set[Hashable] = set()
        self._left: list[Trial] = []  # trials left to threads; `_reasons` says why
        self._reasons: dict[str, None] = {}

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The GPU, and the threads with the reasons why they were needed."""
        if not self._reasons:
            return (Resource(device.name()),)
        threads = tuple(one._replace(reasons=tuple(self._reasons)) for one in self._threads.resources)
        return (Resource(device.name()), *threads) if self._used else threads

    def run(self, trials: Sequence[Trial], progress: Progress) -> Generator[Record, None, None]:
        """Run the trials stream by stream on the GPU, the remaining ones on threads; yield their records."""
        self._left = []
        streams: dict[str, list[Trial]] = {}
        for trial in trials:
            reason = why_not(trial)
            if reason is None:
                streams.setdefault(trial.stream.key, []).append(trial)
            else:
                self._leave([trial], reason)
        with closing(KernelBuilder()) as builder:
            for alike in streams.values():
                if self._only_if_it_pays and not pays(alike, self._threads.threads, self._built):
                    self._leave(alike, "few rounds", announce=False)
                    continue
                self._built |= {speed_kind(trial) for trial in {id(trial.entry): trial for trial in alike}.values()}
                with closing(StreamScheduler(alike, self._leave, builder).records(progress)) as records:
                    for record in records:
                        self._used = True
                        yield record
        yield from self._threads.run(self._left, progress)

    def _leave(self, trials: Sequence[Trial], reason: str, announce: bool = True) -> None:
        """Leave trials to the threads; announce each reason once.

        The reason is a continuation of "runs on threads: ".
        """
        self._left.extend(trials)
        is_new = reason not in self._reasons
        self._reasons.setdefault(reason)
        if announce and is_new:
            name, stream = trials[0].entry.rule.name, trials[0].stream.name
            LOG.info("%s on %s runs on threads: %s", name, stream, reason)

    def close(self) -> None:
        """Do nothing: no thread or process outlives a run."""


def speed_kind(trial: Trial) -> Hashable:
    """Return the key that determines a trial's speed: stream, rule, enum parameters and bias.

    Numeric parameters hardly change the speed.
    """
    entry, rule = trial.entry, trial.entry.rule
    codes = [str(entry.settings[name]) for name, kind in rule.parameters.items() if not isinstance(kind, Real)]
    return trial.stream.key, rule.name, bool(entry.options.get("bias")), *codes


def cost_family(rule: Rule) -> str:
    """Return the name of the family of rules that cost about as much as this one."""
    return "first-order" if rule.second_order is None else "second-order"


def pays(trials: Sequence[Trial], threads: int, built: Container[Hashable] = ()) -> bool:
    """Return True if the GPU is expected to finish the trials of a stream before the threads do.

    Kernels of the kinds in `built` exist already. The others are built and run one after the other, and each takes at least as long as one
    replicate needs for all its rounds.
    """
    rounds = trials[0].stream.rounds
    counts = Counter((speed_kind(trial), cost_family(trial.entry.rule)) for trial in trials)
    on_gpu = KERNEL_S * sum(kind not in built for kind, _ in counts)
    for (_, family), count in counts.items():
        on_gpu += -(-count // FITTED[family].together) * rounds / FITTED[family].replicate
    families = Counter(cost_family(trial.entry.rule) for trial in trials)
    on_threads = sum(count * rounds / FITTED[family].core for family, count in families.items()) / threads
    alone = rounds / max(FITTED[family].core for family in families)  # a run uses only one thread
    return on_gpu < max(on_threads, alone)
