"""Runs that failed: all of them is an error, some of them a warning, and either says why."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from onebit.errors import InputError, OnebitWarning, short
from onebit.trials.cost import number_of
from onebit.trials.records import Record
from onebit.trials.trial import shown

MOST_CAUSES = 3  # in one sentence, and learners of each; the page has all


class FailedRunsWarning(OnebitWarning):
    """Some runs of an experiment failed; those whose they were have no place in its tables."""


def failures_by_data(failed: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """The runs that failed by whose they were, as it was set, and by their data."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in failed:
        found.setdefault((_who(record), str(record.fields["stream"]["data"])), []).append(record)
    return found


def _who(record: Record) -> str:
    return f"{record.fields['learner']} {shown(record.fields['options'])}".strip()


def causes_said(failed: Sequence[Record]) -> str:
    """Why runs failed, each learner in the first of its own that did: those who failed of the same together."""
    first: dict[str, str] = {}
    for record in failed:
        first.setdefault(_who(record), record.failed or "")
    by_cause: dict[str, list[str]] = {}
    for who, why in first.items():
        by_cause.setdefault(why, []).append(who)
    said = [f"{_some(who, 'more')}: {short(why)}" for why, who in by_cause.items()]
    return _some(said, "more causes", "; ")


def failures_said(failed: Sequence[Record], done: int | None = None) -> str:
    """How many runs failed, of those that were done where that is known, and why."""
    count = number_of(len(failed), "run") if done is None else f"{len(failed)} of {done} runs"
    return f"{count} failed ({causes_said(failed)})"


def refuse_or_warn(failed: Sequence[Record], done: int) -> None:
    """Raise where every run that was done failed; where only some did, warn whoever called the experiment."""
    if not failed:
        return
    if len(failed) == done:
        raise InputError(f"every run failed ({causes_said(failed)})")
    warnings.warn(f"{failures_said(failed, done)}; `.failures` has them", FailedRunsWarning, stacklevel=3)


def _some(words: Sequence[str], rest: str, between: str = ", ") -> str:
    left = len(words) - MOST_CAUSES
    return between.join(words[:MOST_CAUSES]) + (f"{between}and {left} {rest}" if left > 0 else "")
