"""Validation of class names, decision ids, seeds and counts."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Set
from typing import Any

import numpy as np

from onebit.contract.memory import require_memory
from onebit.errors import InputError, brief

ClassName = str | int
IdLike = int | str | np.integer[Any] | uuid.UUID  # types accepted as the id of a decision
ID_LIMIT = 2**63  # exclusive upper limit of numeric ids and seeds
MAX_COUNT = 10**15  # machine code counts rounds in quarters; larger counts are unrealistic
CLASS_BYTES = 250  # memory taken by the name of a class
MOST_JOINED = 12  # names in a message
MAX_RUNS = 10**6  # each has a record in memory, and the new seeds of a sweep start at this offset


def checked_count(name: str, value: object, most: int = MAX_COUNT) -> int:
    """Return a validated count from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} is {brief(value)}, but must be a whole number of at least 1")
    if value > most:
        raise InputError(f"{name} is {value:,}, but must be at most {most:,}")
    return int(value)


def checked_classes(classes: int | Iterable[ClassName]) -> tuple[ClassName, ...]:
    """Return the validated class names; a number n stands for the classes 0 to n - 1.

    >>> checked_classes(3)
    (0, 1, 2)
    >>> checked_classes(["no"])
    Traceback (most recent call last):
        ...
    onebit.errors.InputError: there is 1 class ('no'), but at least 2 are needed
    """
    if isinstance(classes, bool | str):
        raise InputError(f"classes is {brief(classes)}, but must be a list of class names or their number")
    if isinstance(classes, Set):
        raise InputError(
            "classes is a set, whose order differs between processes: give a list, such as sorted(classes)"
        )
    if isinstance(classes, int | np.integer):
        if classes < 2:
            raise InputError(f"classes is {classes}, but must be at least 2")
        require_memory(int(classes) * CLASS_BYTES, f"a learner of {classes:,} classes", "give fewer")
        names: list[object] = list(range(int(classes)))
    else:
        try:
            names = [name.item() if isinstance(name, np.generic) else name for name in classes]
        except TypeError:
            raise InputError(
                f"classes is {brief(classes)}, but must be a list of class names or their number"
            ) from None
    checked: dict[ClassName, None] = {}
    for name in names:
        if (
            isinstance(name, bool)
            or not isinstance(name, str | int)
            or (isinstance(name, str) and not is_encodable(name))
        ):
            raise InputError(f"a class is named {brief(name)}, but names must be strings or whole numbers")
        if name in checked:
            raise InputError(f"two classes are named {brief(name)}")
        checked[name] = None
    if len(checked) < 2:
        problem = f"there is 1 class ({next(iter(checked))!r})" if checked else "there are no classes"
        raise InputError(f"{problem}, but at least 2 are needed")
    return tuple(checked)


def checked_id(identity: object) -> int | str:
    """Return a validated id: a string or a whole number of at least 0; a UUID becomes a string.

    NumPy numbers become ints.

    >>> checked_id(np.int32(7)), checked_id(uuid.UUID(int=10))
    (7, '00000000-0000-0000-0000-00000000000a')
    """
    if type(identity) is int and 0 <= identity < ID_LIMIT:
        return identity  # the common case
    if isinstance(identity, np.generic):
        identity = identity.item()
    elif isinstance(identity, uuid.UUID):
        identity = str(identity)
    if isinstance(identity, str):
        if not identity or not is_encodable(identity):
            raise InputError(f"the id is {brief(identity)}, but must be a valid, non-empty Unicode string")
        return identity
    if isinstance(identity, int) and not isinstance(identity, bool) and 0 <= identity < ID_LIMIT:
        return identity
    raise InputError(f"the id is {brief(identity)}, but must be a string, a UUID, or a whole number from 0 to 2^63 - 1")


def checked_ids(ids: object, count: int) -> list[int | str]:
    """Return validated ids, one for each of `count` rows."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputError(f"ids is {brief(ids)}, but must be a list with one id for each row")
    checked = [checked_id(identity) for identity in ids]
    if len(checked) != count:
        raise InputError(f"there are {len(checked)} ids for {count} rows")
    return checked


def is_encodable(string: str) -> bool:
    """Return True if a string can be encoded as UTF-8; lone surrogates cannot."""
    try:
        string.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_whole_number(value: object, least: int = 0, most: int = ID_LIMIT) -> bool:
    """Return True if a value is a whole number from `least` to `most`; booleans are not numbers."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= int(value) <= most


def checked_seed(seed: object) -> int:
    """Return a validated seed: a whole number of at least 0."""
    if is_whole_number(seed, most=ID_LIMIT - 1):
        return int(seed)  # type: ignore[call-overload, no-any-return]
    raise InputError(f"seed is {brief(seed)}, but must be a whole number from 0 to 2^63 - 1")


def join_names(names: Iterable[object]) -> str:
    """Join quoted names for a message, shortening long lists.

    >>> join_names(["a", "b"])
    "'a', 'b'"
    """
    listed = list(names)
    more = f" and {len(listed) - MOST_JOINED} more" if len(listed) > MOST_JOINED else ""
    return ", ".join(map(brief, listed[:MOST_JOINED])) + more
