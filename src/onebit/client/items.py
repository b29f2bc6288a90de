"""The items of requests: what is asked of the service, and what is said of its decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from onebit.client.rows import each, encoded, new_id, number, plain, truth
from onebit.client.values import Decided
from onebit.errors import InputError, brief
from onebit.validation import ClassName

Said = tuple[bool | None, float | None, ClassName | None]  # right, reward and truth, of which one is there


def identity(id: str | Decided) -> str:  # noqa: A002
    """The id of a decision, or an id given as such."""
    if isinstance(id, Decided):
        return id.id
    if not isinstance(id, str) or not id:
        raise InputError(f"id is {brief(id)}, but must be a text that is not empty, or a decision")
    return id


def hint_of(
    id: str | Decided,  # noqa: A002
    answer: dict[str, Any],
    shown: ClassName | None,
    shown_propensity: float | None,
    revise: bool,
) -> dict[str, Any]:
    """What is said of one decision."""
    hint: dict[str, Any] = {"id": identity(id), **answer}
    if revise:
        hint["revise"] = True
    if shown is not None:
        hint["shown"] = shown
    if shown_propensity is not None:
        hint["shown_propensity"] = number(shown_propensity, "shown_propensity")
    return hint


def terms_of(complete: bool, sure: float | None, risk: float | None) -> dict[str, Any]:
    """What is asked beside x, but for the candidates; what is not asked is not sent."""
    if sure is not None and risk is not None:
        raise InputError("give either sure or risk: a risk chooses the confidence from which decisions are sure")
    bounds = {"sure": sure, "risk": risk}
    terms: dict[str, Any] = {name: number(one, name) for name, one in bounds.items() if one is not None}
    return {**terms, "complete": True} if truth(complete, "complete") else terms


def among_of(candidates: Any, place: str) -> dict[str, Any]:
    """The candidates of one decision; nothing where all classes can be played."""
    return {} if candidates is None else {"among": list(each(candidates, place))}


def _candidates(among: Any, rows: int) -> list[dict[str, Any]]:
    """The candidates of each row: one list for all of them, or one for each."""
    given = None if among is None else list(each(among, "among"))
    if given is None or all(isinstance(one, str | int | np.generic) for one in given):
        return [among_of(given, "among")] * rows
    if len(given) != rows:
        raise InputError(f"X has {rows} items, but among has {len(given)} lists")
    return [among_of(one, f"among[{row}]") for row, one in enumerate(given)]


def asks_of(X: Any, ids: Any, among: Any, terms: dict[str, Any]) -> Iterator[bytes]:
    """What is asked of each row, as JSON."""
    rows = list(each(X, "X"))
    names = [new_id() for _ in rows] if ids is None else list(each(ids, "ids"))
    _same_length(X=rows, ids=names)
    sets = _candidates(among, len(rows))
    for row, (x, name, candidates) in enumerate(zip(rows, names, sets, strict=True)):
        yield encoded({"id": identity(name), "x": plain(x, f"X[{row}]"), **candidates, **terms})


def answer_of(said: Said, place: str) -> dict[str, Any]:
    """What is said of a decision: whether it was right, what it was worth, or what would have been right."""
    right, reward, named = said
    given = sum(one is not None for one in said)
    if given != 1:
        which = f"and not {given} of them" if given else f"and not None for all of them{place and f' (ids{place})'}"
        raise InputError(f"give one of right, reward and truth{place and ' for each decision'}, {which}")
    if reward is not None:
        worth = number(reward, f"reward{place}")
        if not 0.0 <= worth <= 1.0:
            raise InputError(
                f"reward{place} is {worth:g}, but must be a number from 0 to 1: of rewards from a to b, give (reward - a) / (b - a)"
            )
        return {"reward": worth}
    return {"right": truth(right, f"right{place}")} if named is None else {"truth": named}


def hints_of(
    ids: Any, said: tuple[Iterable[Any] | None, ...], shown: Any, shown_propensity: Any, revise: bool
) -> Iterator[bytes]:
    """What is said of each decision, as JSON."""
    names = list(each(ids, "ids"))
    none = [None] * len(names)
    given = dict(zip(("right", "rewards", "truths"), said, strict=True))
    columns = {**given, "shown": shown, "shown_propensity": shown_propensity}
    lists = {name: none if one is None else list(each(one, name)) for name, one in columns.items()}
    _same_length(ids=names, **lists)
    for row, (name, right, reward, named, label, chance) in enumerate(zip(names, *lists.values(), strict=True)):
        yield encoded(hint_of(name, answer_of((right, reward, named), f"[{row}]"), label, chance, revise))


def _same_length(**columns: list[Any]) -> None:
    (first, one), *others = columns.items()
    for name, other in others:
        if len(other) != len(one):
            raise InputError(f"{first} has {len(one)} items, but {name} has {len(other)}")
