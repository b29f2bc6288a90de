"""Run an experiment: the trials without a record, the result after Ctrl-C, and the failed runs.

If all runs fail, that is an error; if some fail, a warning. Both say why.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from onebit.data.streams import Stream
from onebit.errors import InputError, OnebitWarning, truncate
from onebit.experiments.executors import Executor, make_executor
from onebit.experiments.run import Stopped
from onebit.experiments.statistics import Summary
from onebit.experiments.trials import ComparisonEntry, Progress, Trial, format_options
from onebit.experiments.trials.cost import Cost, format_count
from onebit.experiments.trials.records import Record, Records

ResultT = TypeVar("ResultT")

MOST_CAUSES = 3  # most causes in a sentence, and most learners per cause; the page has all


class FailedRunsWarning(OnebitWarning):
    """Some runs of an experiment failed; the learners concerned are left out of its tables."""


def group_failures(failures: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """Group the failed runs by learner title (with options) and by data."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in failures:
        title = f"{record.learner} {format_options(record.options)}".strip()
        groups.setdefault((title, str(record.stream["data"])), []).append(record)
    return groups


def describe_causes(failures: Sequence[Record]) -> str:
    """Describe why runs failed, with the first cause per learner and data; equal causes are grouped."""
    by_cause: dict[str, dict[str, None]] = {}
    for (title, _), records in group_failures(failures).items():
        by_cause.setdefault(records[0].why or "", {})[title] = None
    clauses = [f"{_join_first(list(titles), 'more')}: {truncate(cause)}" for cause, titles in by_cause.items()]
    return _join_first(clauses, "more causes", "; ")


def describe_failures(failures: Sequence[Record], run_count: int | None = None) -> str:
    """Describe how many runs failed (of the runs done, if given) and why."""
    count = format_count(len(failures), "run") if run_count is None else f"{len(failures)} of {run_count} runs"
    return f"{count} failed ({describe_causes(failures)})"


def check_failures(failures: Sequence[Record], run_count: int) -> None:
    """Raise an error if every run failed; if only some did, warn the caller of the experiment."""
    if not failures:
        return
    if len(failures) == run_count:
        raise InputError(f"every run failed ({describe_causes(failures)})")
    warnings.warn(f"{describe_failures(failures, run_count)}; `.failures` has them", FailedRunsWarning, stacklevel=3)


def _join_first(words: Sequence[str], noun: str, separator: str = ", ") -> str:
    """Join the first words, and count the others: "a, b, c, and 2 more"."""
    excess = len(words) - MOST_CAUSES
    return separator.join(words[:MOST_CAUSES]) + (f"{separator}and {excess} {noun}" if excess > 0 else "")


class TrialCollector:
    """Runs the trials of an experiment that have no record yet and collects all records.

    After Ctrl-C it holds the records of the runs that were done.
    """

    def __init__(self, records: Records, executor: Executor, progress: Progress | None = None) -> None:
        self.folder = records.folder
        self._stored, self._executor = records, executor
        self._progress = progress or (lambda count: None)
        self._records: dict[str, Record] = {}
        self._rounds, self._seconds, self._existing = 0, 0.0, 0

    def collect(self, trials: Iterable[Trial]) -> None:
        """Run those of the trials that have no record, and store their records as they come."""
        missing: dict[str, Trial] = {}
        existing: dict[str, Record] = {}
        for trial in trials:
            record = self._stored.get(trial)
            if record is not None:
                existing[record.id] = record
                self._progress(trial.stream.rounds)
            elif trial.identity not in missing or trial.curve:  # of two equal trials, keep the one with a curve
                missing[trial.identity] = trial
        self._records |= existing
        self._existing += len(existing)
        started, count = time.perf_counter(), len(self._records)
        try:
            with closing(self._executor.run(list(missing.values()), self._progress)) as records:
                for record in records:
                    if missing.pop(record.id, None) is not None:  # an executor may yield a repeated trial twice
                        self._stored.add(record)
                        self._records[record.id] = record
                        self._rounds += 0 if record.why else record.rounds
        finally:
            if len(self._records) > count:
                self._seconds += time.perf_counter() - started

    def has_record(self, trial: Trial) -> bool:
        """Return True if a trial has a record already, so that it is not run again."""
        return self._stored.get(trial) is not None

    @property
    def cost(self) -> Cost:
        """The cost of the trials that were run, and the number of those that already had records."""
        return Cost(self._executor.where, self._rounds, self._seconds, self._existing)

    def records_of(self, trials: Iterable[Trial]) -> list[Record]:
        """Return the records of those of the trials that were run, failed or not, in order."""
        return [self._records[trial.identity] for trial in trials if trial.identity in self._records]

    def failures(self, trials: Iterable[Trial]) -> list[Record]:
        return [record for record in self.records_of(trials) if record.why]

    def summary(self, entry: ComparisonEntry, stream: Stream, seeds: range) -> Summary | None:
        """Summarise a learner's runs with all of these seeds; None if a run failed or was not done."""
        records = self.records_of(Trial(entry, stream, seed) for seed in seeds)
        is_whole = len(records) == len(seeds) and not any(record.why for record in records)
        return Summary(entry, records) if is_whole else None


def run_experiment(
    collect: Callable[[TrialCollector], None],
    build_result: Callable[[TrialCollector], ResultT],
    out: str | Path | None,
    on: str,
    threads: int | None,
    progress: Progress | None,
) -> ResultT:
    """Let `collect` run trials in the folder `out` and on the executor `on`, and return their result.

    After Ctrl-C, raise `Stopped` with the result of the runs finished by then.
    """
    with closing(make_executor(on, threads)) as executor, closing(Records(out)) as records:
        collector = TrialCollector(records, executor, progress)
        try:
            collect(collector)
            return build_result(collector)
        except KeyboardInterrupt:
            raise Stopped(build_result(collector)) from None
