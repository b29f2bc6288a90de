"""What a comparison found, in sentences: who is best, on how many data sets, and who cannot be told from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onebit.experiments.drawing import achieved

if TYPE_CHECKING:
    from onebit.experiments.compare import DataResult
    from onebit.experiments.summary import Summary

MOST_NAMED = 4  # learners in one sentence


def rivals(result: DataResult) -> list[Summary]:
    """Those whose difference to the best has 0 in its interval: by these runs, they may be as good."""
    best = result.best
    if best is None:
        return []
    others = [one for one in result.summaries if one is not best and one.full_information == best.full_information]
    return [one for one in others if result.difference(one).low <= 0.0]


def finding(results: Sequence[DataResult]) -> str:
    """Who is best and where, who is within its interval, and what failed everywhere."""
    decided = [(result, result.best) for result in results if result.best is not None]
    said = [_one(*decided[0])] if len(results) == 1 and decided else _several(decided, len(results))
    without = [result.stream.name for result in results if result.best is None]
    if without:
        said.append(f"On {listed(without)} no learner was run without a failure.")
    if any(math.isnan(best.error.low) for _, best in decided):
        said.append("One run has no interval: more runs would say how sure this is.")
    return " ".join(said)


def _one(result: DataResult, best: Summary) -> str:
    said = f"`{best.entry.title}` is best on {result.stream.name}, with {achieved(best)}"
    if len(result.summaries) == 1 or math.isnan(best.error.low):
        return f"{said}."
    near = rivals(result)
    return f"{said}; {_within(near)}." if near else f"{said}; no other is within its interval."


def _several(decided: Sequence[tuple[DataResult, Summary]], count: int) -> list[str]:
    places: dict[str, list[str]] = {}
    for result, best in decided:
        places.setdefault(best.entry.title, []).append(result.stream.name)
    ranked = sorted(places.items(), key=lambda item: -len(item[1]))
    said = []
    if ranked:
        (title, where), *others = ranked
        wins = [f"`{title}` is best on {len(where)} of {count}: {listed(where)}"]
        wins += [f"`{title}` on {listed(where)}" for title, where in others]
        said.append(f"{'; '.join(wins)}.")
    near = [(result.stream.name, rivals(result)) for result, _ in decided]
    said += [f"On {name} {_within(some)}." for name, some in near if some]
    return said


def _within(near: Sequence[Summary]) -> str:
    names = [f"`{one.entry.title}`" for one in near]
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    return f"{listed(names)} {'is' if len(near) == 1 else 'are'} within its interval"


def listed(words: Sequence[str]) -> str:
    """Words as they stand in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
