"""Items of known data sets, for the page on which a person tries a task."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from onebit.contract.validation import ClassName
from onebit.data import real
from onebit.data.dataset import Dataset
from onebit.errors import OnebitError, nearest
from onebit.service.errors import InvalidError, NotFoundError


def require_items(name: str, features: dict[str, Any], classes: list[ClassName]) -> None:
    """Read a data set; raise InvalidError if it does not fit a task."""
    data = _read(name)
    if features["kind"] != "numbers" or data.X.shape[1] != features["size"]:
        raise InvalidError(
            f"items {name!r} are rows of {data.X.shape[1]} numbers, and features asks for others", "items"
        )
    texts = {str(one) for one in classes}
    missing = [one for one in data.classes if str(one) not in texts]
    if missing:
        raise InvalidError(f"items {name!r} have the class {missing[0]!r}, which is not among the classes", "items")


def read_item(name: str, number: int, classes: list[ClassName]) -> dict[str, Any]:
    """Return an item of a data set, with its class under the task's name for it."""
    data = _read(name)
    if number >= data.rows:
        raise NotFoundError(f"there are {data.rows} items, so number must be below that", "number")
    called = {str(one): one for one in classes}
    truth = called[str(data.classes[int(data.y[number])])]
    return {
        "number": number,
        "of": data.rows,
        "x": np.asarray(data.X[number], dtype=float).tolist(),
        "truth": truth,
    }


@cache
def _read(name: str) -> Dataset:
    """Return a data set that onebit knows; other names are refused, so that no request can name a file on this machine."""
    if name not in real.REAL:
        raise InvalidError(f"there are no items {name!r}; {nearest(name, real.REAL)}", "items")
    try:
        data = real.load(name)
    except OnebitError as error:
        raise InvalidError(f"items {name!r} cannot be had: {error}", "items") from None
    if not isinstance(data.X, np.ndarray):
        raise InvalidError(f"items {name!r} are sparse rows, which cannot be shown", "items")
    return data
