"""The runs of the corpus: which there are, and those that have no record yet in processes side by side.

A run is a trial of onebit's, and its record a line of `rows.jsonl` as those of every experiment are: it is found by a hash of the rule's
code, the recipe's, and the seed, and what was done before the last Ctrl-C is not run again.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import NamedTuple

import numpy as np

from benchmarks.streams.corpus import CORPUS, CorpusStream
from onebit.errors import OnebitError
from onebit.experiments.trials import ComparisonEntry, Progress, Trial, make_entry
from onebit.experiments.trials.execution import run_trials
from onebit.experiments.trials.records import Record, Records, make_record
from onebit.experiments.trials.shared_data import SharedData, group_by_data
from onebit.learner.learner import Learner
from onebit.rules import chosen_rules

AUTO = "auto"
COST = 30  # so many rounds of a fixed rule, about, take as long as one of auto
VIEWS: tuple[tuple[str, ...], ...] = ((), ("unit-norm",))
WIDE = 2000  # columns, with which no rule has full matrices
SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Entrant(NamedTuple):
    """A rule with its defaults, and what is done to its rows."""

    rule: str
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"`{self.rule}`" + (f", {', '.join(self.steps)}" if self.steps else "")


def fixed_entrants() -> list[Entrant]:
    """Every rule with bandit feedback but auto, on rows as they are and on rows of length one."""
    fixed = [
        name
        for name, rule in chosen_rules().items()
        if name != AUTO and not rule.has_full_information(rule.record(classes=2))
    ]
    return [Entrant(name, steps) for name in fixed for steps in VIEWS]


class Unit(NamedTuple):
    """What one process does at a time: some rules on one stream with one seed, which is drawn once for all of them."""

    stream: str
    seed: int
    entrants: tuple[Entrant, ...]

    def trials(self) -> list[Trial]:
        """Its trials."""
        return [trial_of(CORPUS[self.stream], entrant, self.seed) for entrant in self.entrants]


def trial_of(one: CorpusStream, entrant: Entrant, seed: int) -> Trial:
    """A trial without a curve, which nobody looks at."""
    return Trial(_entry(entrant.rule), one.stream(entrant.steps), seed, curve=False)


@cache
def _entry(rule: str) -> ComparisonEntry:
    return make_entry(rule)


# --- running ------------------------------------------------------------------------------------------------------------


def missing_units(units: Iterable[Unit], records: Records) -> list[Unit]:
    """What of these has no record yet, the longest first."""
    found = []
    for unit in units:
        pairs = zip(unit.entrants, unit.trials(), strict=True)
        left = tuple(entrant for entrant, trial in pairs if records.get(trial) is None)
        if left:
            found.append(unit._replace(entrants=left))
    return sorted(found, key=lambda unit: -CORPUS[unit.stream].rounds)


def run_unit(unit: Unit, stop: threading.Event | Event) -> list[Record]:
    """The records of a unit, one trial after the other; fewer where it was stopped."""
    found = []
    for trials in group_by_data(unit.trials()):
        shared = SharedData(trials[0], {})
        for trial in trials:
            for outcome in run_trials([trial], shared, stop, lambda count: None) or ():  # type: ignore[arg-type]
                found.append(make_record(outcome))
    return found


def run_units(units: Sequence[Unit], records: Records, jobs: int, progress: Progress) -> list[Record]:
    """Run what has no record yet, in so many processes; Ctrl-C leaves what is done in the records. Those that failed are given back."""
    waiting, failed = missing_units(units, records), list[Record]()
    if not waiting:
        return failed
    context = get_context("spawn")
    stop = context.Event()
    with _single_threaded(), ProcessPoolExecutor(min(jobs, len(waiting)), context, _start_worker, (stop,)) as pool:
        try:
            if len(waiting) > 4 * jobs:
                rules = {entrant.rule for unit in waiting for entrant in unit.entrants}
                list(pool.map(_compile_rule, sorted(rules)))  # each once, or every process would begin with all of them
            sizes = {pool.submit(_run_in_pool, unit): _size(unit) for unit in waiting}
            for future in _as_they_come(set(sizes)):
                for record in future.result():
                    records.add(record)
                    failed += [record] if record.why else []
                progress(sizes[future])
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
    return failed


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Processes that begin in here have one thread for linear algebra: there are as many of them as cores."""
    before = {name: os.environ.get(name) for name in SINGLE_THREADED}
    os.environ.update(dict.fromkeys(SINGLE_THREADED, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def total_size(units: Iterable[Unit]) -> int:
    """How much there is to run, in rounds of a fixed rule."""
    return sum(map(_size, units))


def _size(unit: Unit) -> int:
    return CORPUS[unit.stream].rounds * sum(COST if one.rule == AUTO else 1 for one in unit.entrants)


def _as_they_come(left: set[Future[list[Record]]]) -> Iterator[Future[list[Record]]]:
    while left:
        come, left = wait(left, timeout=0.5, return_when=FIRST_COMPLETED)  # in short breaths, so that Ctrl-C is heard
        yield from come


_stop: Event | None = None


def _start_worker(stop: Event) -> None:
    """In a process of the pool: Ctrl-C is for the one that began it, which sets `stop`."""
    global _stop  # noqa: PLW0603 - what a process is begun with reaches its tasks in no other way
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _stop = stop


def _run_in_pool(unit: Unit) -> list[Record]:
    assert _stop is not None
    return run_unit(unit, _stop)


def _compile_rule(rule: str) -> None:
    """Compile a rule for dense and for sparse rows; what it refuses is said by its trials."""
    for x in ([0.5, 0.25], [0.5] * WIDE, {"a": 1.0}):
        try:
            Learner(rule, classes=3).decide(x)
        except OnebitError:
            continue


# --- the best fixed rule ------------------------------------------------------------------------------------------------


def choice_units(streams: Iterable[CorpusStream]) -> list[Unit]:
    """All fixed rules, on the seeds that the best of them is chosen on."""
    entrants = tuple(fixed_entrants())
    return [Unit(one.name, seed, entrants) for one in streams for seed in one.choice_seeds]


def compared_units(streams: Iterable[CorpusStream], records: Records, seeds: int | None) -> list[Unit]:
    """`auto` and the best fixed rule, on other seeds than that was chosen on."""
    units = []
    for one in streams:
        best = best_fixed(one, records)
        if best is not None:
            units += [Unit(one.name, seed, (Entrant(AUTO), best)) for seed in one.compared_seeds[:seeds]]
    return units


def errors_of(one: CorpusStream, entrant: Entrant, seeds: Iterable[int], records: Records) -> list[float] | None:
    """The error of a rule with each of these seeds; None where one has no record."""
    found = [records.get(trial_of(one, entrant, seed)) for seed in seeds]
    return None if None in found else [record.error for record in found if record is not None]


def best_fixed(one: CorpusStream, records: Records) -> Entrant | None:
    """The fixed rule that errs least on the seeds for choosing, of equals the first; None where they were not run."""
    errors = {entrant: errors_of(one, entrant, one.choice_seeds, records) for entrant in fixed_entrants()}
    known = {entrant: found for entrant, found in errors.items() if found is not None}
    return min(known, key=lambda entrant: float(np.mean(known[entrant])), default=None)
