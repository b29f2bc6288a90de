"""Run the trials that have no record yet, and report failed runs.

If all runs fail, that is an error; if some fail, a warning. Both say why.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from onebit.data.streams import Stream
from onebit.errors import InputError, OnebitWarning, truncate
from onebit.experiments.executors import Executor
from onebit.experiments.statistics import Summary
from onebit.experiments.trials import ComparisonEntry, Progress, Trial, format_options
from onebit.experiments.trials.cost import Cost, format_count
from onebit.experiments.trials.records import Record, Records

MOST_CAUSES = 3  # most causes in a sentence, and most learners per cause; the page has all


class FailedRunsWarning(OnebitWarning):
    """Some runs of an experiment failed; the learners concerned are left out of its tables."""


def group_failures(failed: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """Group the failed runs by learner title (with options) and by data."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in failed:
        found.setdefault((_learner_title(record), str(record.stream["data"])), []).append(record)
    return found


def _learner_title(record: Record) -> str:
    return f"{record.learner} {format_options(record.options)}".strip()


def describe_causes(failed: Sequence[Record]) -> str:
    """Describe why runs failed, with the first cause per learner; equal causes are grouped."""
    first: dict[str, str] = {}
    for record in failed:
        first.setdefault(_learner_title(record), record.failed or "")
    by_cause: dict[str, list[str]] = {}
    for who, why in first.items():
        by_cause.setdefault(why, []).append(who)
    said = [f"{_join_first(who, 'more')}: {truncate(why)}" for why, who in by_cause.items()]
    return _join_first(said, "more causes", "; ")


def describe_failures(failed: Sequence[Record], done: int | None = None) -> str:
    """Describe how many runs failed (of the runs done, if given) and why."""
    count = format_count(len(failed), "run") if done is None else f"{len(failed)} of {done} runs"
    return f"{count} failed ({describe_causes(failed)})"


def refuse_or_warn(failed: Sequence[Record], done: int) -> None:
    """Raise an error if every run failed; if only some did, warn the caller of the experiment."""
    if not failed:
        return
    if len(failed) == done:
        raise InputError(f"every run failed ({describe_causes(failed)})")
    warnings.warn(f"{describe_failures(failed, done)}; `.failures` has them", FailedRunsWarning, stacklevel=3)


def _join_first(words: Sequence[str], rest: str, between: str = ", ") -> str:
    left = len(words) - MOST_CAUSES
    return between.join(words[:MOST_CAUSES]) + (f"{between}and {left} {rest}" if left > 0 else "")


Callback = Callable[[Record], object]  # called with each record once it is stored; the result is ignored


class TrialCollector:
    """Runs the trials of an experiment that have no record yet and collects all records.

    After Ctrl-C it holds the records of the runs that were done. `callback` gets each record once, in this thread and after it is stored: first
    the existing records, then new ones as they come.
    """

    def __init__(
        self,
        records: Records,
        executor: Executor,
        progress: Progress | None = None,
        callback: Callback | None = None,
    ) -> None:
        self._kept, self._executor = records, executor
        self._progress = progress or (lambda count: None)
        self._callback = callback or (lambda record: None)
        self._records: dict[str, Record] = {}
        self._rounds, self._seconds, self._found = 0, 0.0, 0

    def collect(self, trials: Iterable[Trial]) -> None:
        """Run those of the trials that have no record, and store their records as they come."""
        missing: dict[str, Trial] = {}
        found: list[Record] = []
        for trial in trials:
            record = self._kept.get(trial)
            if record is not None:
                found.append(record)
                self._progress(trial.stream.rounds)
            elif trial.identity not in missing or trial.curve:  # of two equal trials, keep the one with a curve
                missing[trial.identity] = trial
        found = list({record.id: record for record in found}.values())
        self._records |= {record.id: record for record in found}
        self._found += len(found)
        for record in found:
            self._callback(record)
        started, before = time.perf_counter(), len(self._records)
        try:
            with closing(self._executor.run(list(missing.values()), self._progress)) as come:
                for record in come:
                    if missing.pop(record.id, None) is not None:  # an executor may yield a repeated trial twice
                        self._records[record.id] = self._kept.add(record)
                        self._rounds += 0 if record.failed else record.rounds
                        self._callback(record)
        finally:
            if len(self._records) > before:
                self._seconds += time.perf_counter() - started

    @property
    def cost(self) -> Cost:
        """The cost of the trials that were run now, and the number of those that had records already."""
        return Cost(self._executor.resources, self._rounds, self._seconds, self._found)

    def records_of(self, trials: Iterable[Trial]) -> list[Record]:
        """Return the records of those of the trials that were run, failed or not, in order."""
        return [self._records[trial.identity] for trial in trials if trial.identity in self._records]

    def failures(self, trials: Iterable[Trial]) -> list[Record]:
        return [record for record in self.records_of(trials) if record.failed]

    def summary(self, entry: ComparisonEntry, stream: Stream, seeds: range) -> Summary | None:
        """Summarise a learner's runs with all of these seeds; None if a run failed or was not done."""
        records = self.records_of(Trial(entry, stream, seed) for seed in seeds)
        is_whole = len(records) == len(seeds) and not any(record.failed for record in records)
        return Summary(entry, records) if is_whole else None
