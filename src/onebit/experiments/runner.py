"""Run the trials of an experiment that have no record yet. Where all runs fail that is an error, where some do a warning, and either says why."""

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

MOST_CAUSES = 3  # in one sentence, and learners of each; the page has all


class FailedRunsWarning(OnebitWarning):
    """Some runs of an experiment failed; those whose they were have no place in its tables."""


def group_failures(failed: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """The runs that failed by whose they were, as it was set, and by their data."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in failed:
        found.setdefault((_learner_title(record), str(record.stream["data"])), []).append(record)
    return found


def _learner_title(record: Record) -> str:
    return f"{record.learner} {format_options(record.options)}".strip()


def describe_causes(failed: Sequence[Record]) -> str:
    """Why runs failed, each learner in the first of its own that did: those who failed of the same together."""
    first: dict[str, str] = {}
    for record in failed:
        first.setdefault(_learner_title(record), record.failed or "")
    by_cause: dict[str, list[str]] = {}
    for who, why in first.items():
        by_cause.setdefault(why, []).append(who)
    said = [f"{_join_first(who, 'more')}: {truncate(why)}" for why, who in by_cause.items()]
    return _join_first(said, "more causes", "; ")


def describe_failures(failed: Sequence[Record], done: int | None = None) -> str:
    """How many runs failed, of those that were done where that is known, and why."""
    count = format_count(len(failed), "run") if done is None else f"{len(failed)} of {done} runs"
    return f"{count} failed ({describe_causes(failed)})"


def refuse_or_warn(failed: Sequence[Record], done: int) -> None:
    """Raise where every run that was done failed; where only some did, warn whoever called the experiment."""
    if not failed:
        return
    if len(failed) == done:
        raise InputError(f"every run failed ({describe_causes(failed)})")
    warnings.warn(f"{describe_failures(failed, done)}; `.failures` has them", FailedRunsWarning, stacklevel=3)


def _join_first(words: Sequence[str], rest: str, between: str = ", ") -> str:
    left = len(words) - MOST_CAUSES
    return between.join(words[:MOST_CAUSES]) + (f"{between}and {left} {rest}" if left > 0 else "")


Callback = Callable[[Record], object]  # told of each run once it is kept; what it returns does not matter


class TrialCollector:
    """Runs the trials of an experiment that have no record yet, and has the records of all; after Ctrl-C, of those that were done.

    `callback` is told of each record once, in this thread and after it is kept: first of those that were there, then of the others as they come.
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
        """Run those of these trials that have no record, and keep their records as they come."""
        missing: dict[str, Trial] = {}
        found: list[Record] = []
        for trial in trials:
            record = self._kept.get(trial)
            if record is not None:
                found.append(record)
                self._progress(trial.stream.rounds)
            elif trial.identity not in missing or trial.curve:  # where two ask for the same, the one that wants more
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
                    if (
                        missing.pop(record.id, None) is not None
                    ):  # an executor may give what was lost and done again twice
                        self._records[record.id] = self._kept.add(record)
                        self._rounds += 0 if record.failed else record.rounds
                        self._callback(record)
        finally:
            if len(self._records) > before:
                self._seconds += time.perf_counter() - started

    @property
    def cost(self) -> Cost:
        """What the trials took that were run here, and how many were there."""
        return Cost(self._executor.resources, self._rounds, self._seconds, self._found)

    def records_of(self, trials: Iterable[Trial]) -> list[Record]:
        """The records of those of these trials that were run, failed or not, in their order."""
        return [self._records[trial.identity] for trial in trials if trial.identity in self._records]

    def failures(self, trials: Iterable[Trial]) -> list[Record]:
        return [record for record in self.records_of(trials) if record.failed]

    def summary(self, entry: ComparisonEntry, stream: Stream, seeds: range) -> Summary | None:
        """How a learner did with all of these seeds; None where a run failed or was not done."""
        records = self.records_of(Trial(entry, stream, seed) for seed in seeds)
        is_whole = len(records) == len(seeds) and not any(record.failed for record in records)
        return Summary(entry, records) if is_whole else None
