"""The bodies of requests, as JSON: what is decided on, what is said of decisions, and what is wanted of tasks."""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from onebit.contract.validation import ClassName
from onebit.errors import InputError, brief
from onebit.service.replies import DecisionReply

MOST_ROWS = 10_000  # of one request, as the service takes them where it is told nothing else
MOST_BYTES = 8 * 2**20  # of one request; the service takes twice that
KEEP: Literal["keep"] = "keep"  # where None has a meaning of its own

Said = tuple[bool | None, float | None, ClassName | None]  # right, reward and truth, of which one is there


def new_id() -> str:
    """An id that nobody else makes, and that sorts by time (a UUID of version 7), which keeps the log's index compact."""
    chance = int.from_bytes(os.urandom(10))
    number = (time.time_ns() // 1_000_000) << 80 | chance
    return str(uuid.UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62))


def encoded(value: Any) -> bytes:
    """As JSON; NumPy's numbers become plain ones."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_item).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"what is to be sent cannot be written as JSON: {error}") from None


def plain(x: Any, place: str = "x") -> list[float] | dict[str, float] | str:
    """What is decided on, as JSON can hold it.

    >>> plain(np.array([1, 2], dtype=np.int8)), plain({"rain": True}), plain("late goal")
    ([1.0, 2.0], {'rain': 1.0}, 'late goal')
    """
    if isinstance(x, str):
        return str(x)
    if isinstance(x, Mapping):
        return {_name(name, place): number(value, f"{place}[{name!r}]") for name, value in x.items()}
    try:
        numbers = np.asarray(x)
        if numbers.dtype.kind not in "biufO" or numbers.ndim != 1:
            raise TypeError
        values: list[float] = numbers.astype(np.float64).tolist()
    except (TypeError, ValueError):
        raise InputError(
            f"{place} is {_short(x)}, but must be a row of numbers, a dict of names and numbers, or a text"
        ) from None
    for position, value in enumerate(values):
        if not math.isfinite(value):
            raise InputError(f"{place}[{position}] is {value}, but must be a finite number")
    return values


def each(X: Any, name: str = "X") -> Iterator[Any]:
    """The items of a matrix, a frame, or anything else that can be gone through; not of one text or one dict."""
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__"):
        raise InputError(f"{name} is {_short(X)}, but must hold several: a matrix or a list")
    if hasattr(X, "__array__"):
        X = np.asarray(X)  # going through a frame would give the names of its columns
        if X.ndim == 0:
            raise InputError(f"{name} is {_short(X.item())}, but must hold several: a matrix or a list")
    return iter(X)


def batches(items: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Items of JSON in groups that fit into one request each."""
    batch: list[bytes] = []
    size = 0
    for item in items:
        if batch and (len(batch) == MOST_ROWS or size + len(item) > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item) + 1
    if batch:
        yield batch


def truth(right: Any, place: str = "right") -> bool:
    """Right or wrong, and nothing that only looks like it."""
    if not isinstance(right, bool | np.bool_):
        raise InputError(f"{place} is {_short(right)}, but must be True or False")
    return bool(right)


def number(value: Any, place: str) -> float:
    """A finite number."""
    try:
        found = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{place} is {_short(value)}, but must be a finite number")
    return found


def _item(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{_short(value)} is nothing that JSON has")


def _name(name: Any, place: str) -> str:
    if not isinstance(name, str):
        raise InputError(f"{place} has the name {_short(name)}, but names must be texts")
    return str(name)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- decisions and feedback ------------------------------------------------------------------------------------------


def identity(id: str | DecisionReply) -> str:  # noqa: A002
    """The id of a decision, or an id given as such."""
    if isinstance(id, DecisionReply):
        return id.id
    if not isinstance(id, str) or not id:
        raise InputError(f"id is {brief(id)}, but must be a text that is not empty, or a decision")
    return id


def build_feedback(
    id: str | DecisionReply,  # noqa: A002
    said: Said,
    shown: ClassName | None,
    shown_propensity: float | None,
    revise: bool,
    place: str = "",
) -> dict[str, Any]:
    """Return the feedback on one decision; `place` is its index among many, for errors."""
    hint: dict[str, Any] = {"id": identity(id), **_answer(said, place)}
    if truth(revise, "revise"):
        hint["revise"] = True
    if shown is not None:
        hint["shown"] = shown
    if shown_propensity is not None:
        hint["shown_propensity"] = number(shown_propensity, "shown_propensity")
    return hint


def build_terms(complete: bool, sure: float | None, risk: float | None) -> dict[str, Any]:
    """Return what is asked beside x and the candidates; what is not asked is not sent."""
    if sure is not None and risk is not None:
        raise InputError("give either sure or risk: a risk chooses the confidence from which decisions are sure")
    bounds = {"sure": sure, "risk": risk}
    terms: dict[str, Any] = {name: number(one, name) for name, one in bounds.items() if one is not None}
    return {**terms, "complete": True} if truth(complete, "complete") else terms


def _among(candidates: Any, place: str) -> dict[str, Any]:
    """The candidates of one decision; nothing where all classes can be played."""
    return {} if candidates is None else {"among": list(each(candidates, place))}


def _candidates(among: Any, rows: int) -> list[dict[str, Any]]:
    """The candidates of each row: one list for all of them, or one for each."""
    given = None if among is None else list(each(among, "among"))
    if given is None or all(isinstance(one, str | int | np.generic) for one in given):
        return [_among(given, "among")] * rows
    if len(given) != rows:
        raise InputError(f"X has {rows} items, but among has {len(given)} lists")
    return [_among(one, f"among[{row}]") for row, one in enumerate(given)]


def build_decide(x: Any, id: str | None, among: Any, terms: dict[str, Any]) -> dict[str, Any]:  # noqa: A002
    """Return the request of one decision; without an id it gets a new one here, before it is sent."""
    return {"id": new_id() if id is None else identity(id), "x": plain(x), **terms, **_among(among, "among")}


def encode_decides(X: Any, ids: Any, among: Any, terms: dict[str, Any]) -> Iterator[bytes]:
    """Yield the request of a decision on each row, as JSON."""
    rows = list(each(X, "X"))
    names = [new_id() for _ in rows] if ids is None else list(each(ids, "ids"))
    _same_length(X=rows, ids=names)
    sets = _candidates(among, len(rows))
    for row, (x, name, candidates) in enumerate(zip(rows, names, sets, strict=True)):
        yield encoded({"id": identity(name), "x": plain(x, f"X[{row}]"), **candidates, **terms})


def _answer(said: Said, place: str) -> dict[str, Any]:
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


def encode_feedbacks(
    ids: Any, said: tuple[Iterable[Any] | None, ...], shown: Any, shown_propensity: Any, revise: bool
) -> Iterator[bytes]:
    """Yield the feedback on each decision, as JSON."""
    names = list(each(ids, "ids"))
    none = [None] * len(names)
    given = dict(zip(("right", "rewards", "truths"), said, strict=True))
    columns = {**given, "shown": shown, "shown_propensity": shown_propensity}
    lists = {name: none if one is None else list(each(one, name)) for name, one in columns.items()}
    _same_length(ids=names, **lists)
    for row, (name, right, reward, named, label, chance) in enumerate(zip(names, *lists.values(), strict=True)):
        yield encoded(build_feedback(name, (right, reward, named), label, chance, revise, f"[{row}]"))


def build_withdrawal(id: str | DecisionReply) -> dict[str, Any]:  # noqa: A002
    """Return the withdrawal of the feedback on one decision."""
    return {"id": identity(id), "withdraw": True}


def encode_withdrawals(ids: Any) -> Iterator[bytes]:
    """Yield the withdrawal of the feedback on each decision, as JSON."""
    return (encoded(build_withdrawal(one)) for one in each(ids, "ids"))


def _same_length(**columns: list[Any]) -> None:
    (first, one), *others = columns.items()
    for name, other in others:
        if len(other) != len(one):
            raise InputError(f"{first} has {len(one)} items, but {name} has {len(other)}")


# --- tasks -----------------------------------------------------------------------------------------------------------


def build_task(
    name: str, classes: Iterable[ClassName] | int, features: int | str | Mapping[str, Any], **rest: Any
) -> dict[str, Any]:
    """Return a new task as the service takes it; what is None is left to the service."""
    named = classes if isinstance(classes, int) else list(each(classes, "classes"))
    return {"name": name, "classes": named, "features": _features(features), **_given(rest)}


def build_changes(
    add_classes: Iterable[ClassName],
    mode: str | None,
    silence: str | None,
    remove_classes: Iterable[ClassName],
    bounds: Mapping[str, float | Literal["keep"] | None],
) -> dict[str, Any]:
    """Return the changes of a task; a bound of None takes it away, such as the deadline."""
    added, gone = list(each(add_classes, "add_classes")), list(each(remove_classes, "remove_classes"))
    changes = _given({"add_classes": added or None, "remove_classes": gone or None, "mode": mode, "silence": silence})
    return {**changes, **{name: value for name, value in bounds.items() if value != KEEP}}


def build_forget(ids: Iterable[Any] | None, before: float | None, unlearn: bool) -> dict[str, Any]:
    """Return which decisions are to be forgotten."""
    if (ids is None) is (before is None):
        raise InputError("give ids, or before, and one of them")
    if isinstance(ids, str):
        raise InputError(f"ids is {brief(ids)}, but must be a list of ids")
    which = {"before": before} if ids is None else {"ids": [identity(one) for one in ids]}
    return {**which, "unlearn": unlearn}


def build_switch(learner: str, **rest: Any) -> dict[str, Any]:
    """Return the learner that is to take over."""
    return {"learner": learner, **_given(rest)}


def _features(features: int | str | Mapping[str, Any]) -> dict[str, Any]:
    """What x is: a number of numbers, "dict", "text", or all of it as the service takes it."""
    if isinstance(features, int):
        return {"kind": "numbers", "size": features}
    return {"kind": features} if isinstance(features, str) else dict(features)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }
