"""Request bodies as plain values and as JSON, after checks that need Python's types.

They catch what JSON cannot express and what the service could not explain.
"""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from onebit.contract.validation import ClassName
from onebit.errors import InputError, brief
from onebit.service.replies import DecisionReply

MOST_ROWS = 10_000  # in one request, the default limit of the service
MOST_BYTES = 8 * 2**20  # in one request, half the default limit of the service

Body = dict[str, Any]
Answer = tuple[bool | None, float | None, ClassName | None]  # right, reward and truth, exactly one of which is given


def new_id() -> str:
    """Return a unique id that sorts by time (a UUID of version 7).

    The order keeps the index of the log compact.
    """
    chance = int.from_bytes(os.urandom(10))
    number = (time.time_ns() // 1_000_000) << 80 | chance
    return str(uuid.UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62))


def encode(value: Body) -> bytes:
    """Return a body as JSON; numbers of NumPy become plain ones."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain_number).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"what is to be sent cannot be written as JSON: {error}") from None


def batches(items: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield JSON items in groups that fit into one request each."""
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


def each(X: Any, name: str = "X") -> Iterator[Any]:
    """Return an iterator over a matrix, a frame or another iterable; raise InputError for a single item.

    A text, a dict and a scalar are single items.
    """
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__"):
        raise InputError(f"{name} is {brief(X)}, but must hold several: a matrix or a list")
    if hasattr(X, "__array__"):
        X = np.asarray(X)  # iterating over a frame would give its column names
        if X.ndim == 0:
            raise InputError(f"{name} is {brief(X.item())}, but must hold several: a matrix or a list")
    return iter(X)


def plain_features(x: Any, name: str = "x") -> list[float] | dict[str, float] | str:
    """Return the features of one row as plain values for JSON.

    >>> plain_features(np.array([1, 2], dtype=np.int8)), plain_features({"rain": True}), plain_features("late goal")
    ([1.0, 2.0], {'rain': 1.0}, 'late goal')
    """
    if isinstance(x, str):
        return str(x)
    if isinstance(x, Mapping):
        for key in x:
            if not isinstance(key, str):
                raise InputError(f"{name} has the name {brief(key)}, but names must be texts")
        return {str(key): _number(value, f"{name}[{key!r}]") for key, value in x.items()}
    try:
        numbers = np.asarray(x)
        if numbers.dtype.kind not in "biufO" or numbers.ndim != 1:
            raise TypeError
        values: list[float] = numbers.astype(np.float64).tolist()
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {brief(x)}, but must be a row of numbers, a dict of names and numbers, or a text"
        ) from None
    for position, value in enumerate(values):
        if not math.isfinite(value):
            raise InputError(f"{name}[{position}] is {value}, but must be a finite number")
    return values


def identity(id: str | DecisionReply) -> str:  # noqa: A002
    """Return the id of a decision, or the id itself if one is given."""
    if isinstance(id, DecisionReply):
        return id.id
    if not isinstance(id, str) or not id:
        raise InputError(f"id is {brief(id)}, but must be a text that is not empty, or a decision")
    return id


def without_none(**values: Any) -> Body:
    """Return the arguments that are not None; the service has defaults for the others."""
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


# --- decisions and feedback ------------------------------------------------------------------------------------------


def build_decide(
    x: Any,
    id: str | None,  # noqa: A002
    among: Any,
    complete: bool,
    sure: float | None,
    risk: float | None,
    names: tuple[str, str] = ("x", "among"),
) -> Body:
    """Return the request for one decision; if it has no id, it gets a new one before it is sent.

    `names` are those of x and of the candidates in error messages.
    """
    if sure is not None and risk is not None:
        raise InputError("give either sure or risk: a risk chooses the confidence from which decisions are sure")
    bounds = {"sure": sure, "risk": risk}
    return {
        "id": new_id() if id is None else identity(id),
        "x": plain_features(x, names[0]),
        **({} if among is None else {"among": list(each(among, names[1]))}),
        **{name: _number(bound, name) for name, bound in bounds.items() if bound is not None},
        **({"complete": True} if _truth(complete, "complete") else {}),
    }


def build_decides(
    X: Any, ids: Any, among: Any, complete: bool, sure: float | None, risk: float | None
) -> Iterator[Body]:
    """Yield the request for a decision on each row."""
    rows = list(each(X, "X"))
    given = [None] * len(rows) if ids is None else list(each(ids, "ids"))
    _require_same_length(X=rows, ids=given)
    candidates = None if among is None else list(each(among, "among"))
    is_same = candidates is None or all(isinstance(item, str | int | np.generic) for item in candidates)
    sets = [candidates] * len(rows) if is_same or candidates is None else candidates
    if len(rows) != len(sets):
        raise InputError(f"X has {len(rows)} items, but among has {len(sets)} lists")
    for row, (x, name, offered) in enumerate(zip(rows, given, sets, strict=True)):
        places = (f"X[{row}]", "among" if is_same else f"among[{row}]")
        yield build_decide(x, name, offered, complete, sure, risk, places)


def build_feedback(
    id: str | DecisionReply,  # noqa: A002
    answer: Answer,
    shown: ClassName | None,
    shown_propensity: float | None,
    revise: bool,
    index: str = "",
) -> Body:
    """Return the feedback on one decision; `index` is its position in a list, for error messages."""
    feedback: Body = {"id": identity(id), **_checked_answer(answer, index)}
    if _truth(revise, "revise"):
        feedback["revise"] = True
    if shown is not None:
        feedback["shown"] = shown
    if shown_propensity is not None:
        feedback["shown_propensity"] = _number(shown_propensity, "shown_propensity")
    return feedback


def build_feedbacks(
    ids: Any, answers: tuple[Iterable[Any] | None, ...], shown: Any, shown_propensity: Any, revise: bool
) -> Iterator[Body]:
    """Yield the feedback on each decision."""
    names = list(each(ids, "ids"))
    none = [None] * len(names)
    given = dict(zip(("right", "rewards", "truths"), answers, strict=True))
    columns = {**given, "shown": shown, "shown_propensity": shown_propensity}
    lists = {name: none if column is None else list(each(column, name)) for name, column in columns.items()}
    _require_same_length(ids=names, **lists)
    for row, (name, right, reward, truth, label, chance) in enumerate(zip(names, *lists.values(), strict=True)):
        yield build_feedback(name, (right, reward, truth), label, chance, revise, f"[{row}]")


def _checked_answer(answer: Answer, index: str) -> Body:
    """Return the feedback itself, after checks: right or wrong, a reward, or the right class."""
    right, reward, truth = answer
    given = sum(value is not None for value in answer)
    if given != 1:
        which = f"and not {given} of them" if given else f"and not None for all of them{index and f' (ids{index})'}"
        raise InputError(f"give one of right, reward and truth{index and ' for each decision'}, {which}")
    if reward is not None:
        number = _number(reward, f"reward{index}")
        if not 0.0 <= number <= 1.0:
            raise InputError(
                f"reward{index} is {number:g}, but must be a number from 0 to 1: of rewards from a to b, give (reward - a) / (b - a)"
            )
        return {"reward": number}
    return {"right": _truth(right, f"right{index}")} if truth is None else {"truth": truth}


# --- values ----------------------------------------------------------------------------------------------------------


def _truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {brief(value)}, but must be True or False")
    return bool(value)


def _number(value: Any, name: str) -> float:
    try:
        number = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name} is {brief(value)}, but must be a finite number")
    return number


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{brief(value)} is nothing that JSON has")


def _require_same_length(**columns: list[Any]) -> None:
    (first, one), *others = columns.items()
    for name, other in others:
        if len(other) != len(one):
            raise InputError(f"{first} has {len(one)} items, but {name} has {len(other)}")
