"""The candidates that a cell of a table lists: names of classes side by side in a text, a JSON list in one, or a list."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from onebit.data.tables import whole
from onebit.errors import InputError, brief
from onebit.validation import ClassName


def names_in(cell: Any) -> list[ClassName]:
    """The names in a cell, each once; none, or what is no name, is refused.

    >>> names_in("red|dark blue"), names_in("red, green"), names_in("1 3"), names_in('["a b", 2]'), names_in([1.0, 2.0])
    (['red', 'dark blue'], ['red', 'green'], ['1', '3'], ['a b', 2], [1, 2])
    """
    given = cell.tolist() if isinstance(cell, np.ndarray | np.generic) else cell
    if isinstance(given, str):
        given = _split(given)
    elif isinstance(given, int | float) and not isinstance(given, bool):
        given = [given]
    elif not isinstance(given, Iterable) or isinstance(given, bytes | dict):
        raise InputError(
            f"the candidates are {brief(cell)}, but must be names separated by |, by commas or by spaces, or a list of names"
        )
    names = [whole(name) for name in given]
    if not names:
        raise InputError("there is no candidate, but must be one at least")
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise InputError(f"a candidate is {brief(name)}, but must be a class: a whole number or a string")
    if len(set(names)) != len(names):
        raise InputError(f"the candidates {brief(cell)} have a name twice, but must have each once")
    return names


def _split(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            return list(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise InputError(f"the candidates are {brief(text)}, which is no JSON list: {error}") from None
    separator = next((one for one in "|," if one in text), None)
    return [name for part in text.split(separator) if (name := part.strip())]
