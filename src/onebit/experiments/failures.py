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


def failed_of(failed: Sequence[Record]) -> dict[str, str]:
    """Who failed, as it was set, and of what in the first of its runs that did."""
    found: dict[str, str] = {}
    for record in failed:
        found.setdefault(f"{record.fields['learner']} {shown(record.fields['options'])}".strip(), record.failed or "")
    return found


def causes_said(failed: Sequence[Record]) -> str:
    """Why runs failed: those who failed of the same together."""
    by_cause: dict[str, list[str]] = {}
    for who, why in failed_of(failed).items():
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
