"""What a comparison found, in sentences: who is best, on how many data sets, and who cannot be distinguished from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onebit.data.rewards import best_constant
from onebit.data.streams import Stream
from onebit.errors import brief
from onebit.experiments.drawing import achieved

if TYPE_CHECKING:
    from onebit.experiments.compare import DataResult
    from onebit.experiments.summary import Summary

MOST_NAMED = 4  # learners in one sentence


def rivals(result: DataResult) -> list[Summary]:
    """Those that cannot be distinguished from the best: their difference to it, taken run by run, has 0 in its interval."""
    return [one for one in _others(result) if result.difference(one).low <= 0.0]


def _others(result: DataResult) -> list[Summary]:
    """Those with the feedback of the best, but for itself."""
    best = result.best
    if best is None:
        return []
    return [one for one in result.summaries if one is not best and one.full_information == best.full_information]


def constant_said(stream: Stream, reward: float) -> str:
    """That always naming one class gets more than this mean reward; nothing where it does not, or where that cannot be done or has no reward."""
    if not stream.source.rewards or stream.restricted:
        return ""
    data = stream.data(0)
    assert data.rewards is not None
    best, mean = best_constant(data.rewards[: stream.rounds] if stream.order == "file" else data.rewards)
    return f"always naming {brief(data.classes[best])} has a mean reward of {mean:.4f}" if mean > reward else ""


def finding(results: Sequence[DataResult]) -> str:
    """Who is best and where, who cannot be distinguished from it, what no learner beats, and what failed everywhere."""
    decided = [(result, result.best) for result in results if result.best is not None]
    said = [_one(*decided[0])] if len(results) == 1 and decided else _several(decided, len(results))
    for result, _ in decided:
        constant = (
            constant_said(result.stream, max(one.reward.mean for one in result.summaries)) if result.rewarded else ""
        )
        if constant:
            said.append(f"On {result.stream.name} {constant}, more than every learner.")
    without = [result for result in results if result.best is None]
    for some, why in (
        ([one for one in without if one.failures], "no learner was run without a failure"),
        ([one for one in without if not one.failures], "no learner has run to the end"),
    ):
        if some:
            said.append(f"On {listed([one.stream.name for one in some])} {why}.")
    if any(math.isnan(best.error.low) for _, best in decided):
        said.append("One run has no interval: more runs would say how sure this is.")
    return " ".join(said)


def _one(result: DataResult, best: Summary) -> str:
    said = f"`{best.entry.title}` is best on {result.stream.name}, with {achieved(best)}"
    if not _others(result) or math.isnan(best.error.low):
        return f"{said}."
    near = rivals(result)
    return (
        f"{said}; {_untold(near)}."
        if near
        else f"{said}; it can be distinguished from every other with {best.runs} runs."
    )


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
    said += [f"On {name} {_untold(some)}." for name, some in near if some]
    return said


def _untold(near: Sequence[Summary]) -> str:
    """Who they are, and that a paired test over so many runs does not tell them from the best."""
    names = [f"`{one.entry.rule.name}`" + (f" ({one.entry.said})" if one.entry.said else "") for one in near]
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    return f"{listed(names)} cannot be distinguished from it with {near[0].runs} runs"


def listed(words: Sequence[str]) -> str:
    """Words as they stand in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
