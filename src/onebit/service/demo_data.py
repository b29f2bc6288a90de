"""Items of known data sets, for the page on which people try a task."""

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
            f"items {name!r} have {data.X.shape[1]} numbers per row, which features does not match", "items"
        )
    texts = {str(name) for name in classes}
    missing = [name for name in data.classes if str(name) not in texts]
    if missing:
        raise InvalidError(f"items {name!r} have the class {missing[0]!r}, which is missing in classes", "items")


def read_item(name: str, number: int, classes: list[ClassName]) -> dict[str, Any]:
    """Return an item of a data set, with its class under the task's name for it."""
    data = _read(name)
    if number >= data.rows:
        raise NotFoundError(f"number: expected less than {data.rows}, the number of items", "number")
    names = {str(name): name for name in classes}
    truth = names[str(data.classes[int(data.y[number])])]
    return {
        "number": number,
        "of": data.rows,
        "x": np.asarray(data.X[number], dtype=float).tolist(),
        "truth": truth,
    }


@cache
def _read(name: str) -> Dataset:
    """Return a known data set; refuse other names, so that no request can name a file on this machine."""
    if name not in real.REAL:
        raise InvalidError(f"there are no items {name!r}; {nearest(name, real.REAL)}", "items")
    try:
        data = real.load(name)
    except OnebitError as error:
        raise InvalidError(f"items {name!r} cannot be loaded: {error}", "items") from None
    if not isinstance(data.X, np.ndarray):
        raise InvalidError(f"items {name!r} are sparse rows, which cannot be shown", "items")
    return data
