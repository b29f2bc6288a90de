"""Run trials on this machine's GPU, thousands of replicates at a time, and the others on threads."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Hashable, Sequence
from contextlib import closing

from onebit.contract.parameters import Real
from onebit.engine.gpu import device
from onebit.errors import InputError
from onebit.experiments.executors.gpu.ahead import KernelBuilder
from onebit.experiments.executors.gpu.scheduler import StreamScheduler
from onebit.experiments.executors.threads import ThreadsExecutor
from onebit.experiments.trials import Progress, Trial
from onebit.experiments.trials.records import Record

LOG = logging.getLogger("onebit.experiments")

ALLOWED = {"bias", "dtype"}  # learner options that the GPU supports besides rule parameters
KERNEL_S = 4.0  # seconds to build a kernel; measured: 2 to 8

# The speeds with which `--on auto` reckons: geometric means over rules with 10 classes and 100 features on an H200 and
# a core of its host (18 November 2026); `python -m benchmarks gpu` prints these numbers below its table. First-order
# and second-order rules need no numbers of their own: both have the same ratio of a full GPU to a core.
REPLICATE_ROUNDS_S = 301_000  # rounds per second of one replicate while the GPU is full
TOGETHER = 3_020  # replicates that run at the same time
CORE_ROUNDS_S = 1_590_000  # rounds per second of one CPU core


def find_obstacle(trial: Trial) -> str | None:
    """Return why a trial cannot run on the GPU, or None if nothing known so far prevents it.

    The text is a continuation of "runs on threads: ".
    """
    rule, options, stream = trial.entry.rule, trial.entry.options, trial.stream
    if trial.measurement is not None:
        return f"{trial.measurement.subject} is measured"
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
    unsupported = sorted(set(options) - set(rule.parameters) - ALLOWED)
    return f"{unsupported[0]} is set" if unsupported else None


class GpuExecutor:
    """Runs trials on this machine's GPU, and those that it cannot run on threads."""

    def __init__(self, threads: ThreadsExecutor, only_if_it_pays: bool = False) -> None:
        """Prepare to run; raise InputError if there is no usable GPU."""
        trouble = device.find_problem()
        if trouble is not None:
            raise InputError(trouble)
        self._threads, self._only_if_it_pays = threads, only_if_it_pays
        self._used = False  # True once the GPU has run a trial
        self._remaining: list[Trial] = []  # trials for the threads; `_reasons` says why
        self._reasons: dict[str, None] = {}

    @property
    def where(self) -> str:
        """The GPU, and the threads with the reasons why they were needed."""
        threads = [f"{self._threads.where} ({'; '.join(self._reasons)})"] if self._reasons else []
        return " and ".join([device.device_name(), *threads] if self._used or not threads else threads)

    def run(self, trials: Sequence[Trial], progress: Progress) -> Generator[Record, None, None]:
        """Run the trials stream by stream on the GPU, the remaining ones on threads; yield their records."""
        self._remaining = []
        groups: dict[tuple[str, bool], list[Trial]] = {}  # by stream and bias, which rows on the device depend on
        for trial in trials:
            reason = find_obstacle(trial)
            if reason is None:
                groups.setdefault((trial.stream.key, bool(trial.entry.options.get("bias"))), []).append(trial)
            else:
                self._leave([trial], reason)
        with closing(KernelBuilder()) as builder:
            for group in groups.values():
                if self._only_if_it_pays and not is_worthwhile(group, self._threads.threads):
                    self._leave(group, "few rounds", announce=False)
                    continue
                with closing(StreamScheduler(group, self._leave, builder).records(progress)) as records:
                    for record in records:
                        self._used = True
                        yield record
        yield from self._threads.run(self._remaining, progress)

    def _leave(self, trials: Sequence[Trial], reason: str, announce: bool = True) -> None:
        """Leave trials to the threads; announce each reason once.

        The reason is a continuation of "runs on threads: ".
        """
        self._remaining.extend(trials)
        is_new = reason not in self._reasons
        self._reasons.setdefault(reason)
        if announce and is_new:
            name, stream = trials[0].entry.rule.name, trials[0].stream.name
            LOG.info("%s on %s runs on threads: %s", name, stream, reason)

    def close(self) -> None:
        """Do nothing: no thread or process outlives a run."""


def is_worthwhile(trials: Sequence[Trial], threads: int) -> bool:
    """Return True if the GPU is expected to finish these trials of a stream before the threads do.

    Kernels are built and run one after the other, and each takes at least as long as one replicate needs for all its rounds.
    """
    rounds = trials[0].stream.rounds
    kernels = Counter(kernel_key(trial) for trial in trials)
    waves = sum(-(-count // TOGETHER) for count in kernels.values())
    on_gpu = KERNEL_S * len(kernels) + waves * rounds / REPLICATE_ROUNDS_S
    on_threads = rounds / CORE_ROUNDS_S * max(1.0, len(trials) / threads)  # a run uses only one thread
    return on_gpu < on_threads


def kernel_key(trial: Trial) -> Hashable:
    """Return what a trial's kernel depends on within a stream and bias: its rule and enum parameters."""
    entry, rule = trial.entry, trial.entry.rule
    codes = [str(entry.settings[name]) for name, kind in rule.parameters.items() if not isinstance(kind, Real)]
    return rule.name, *codes
