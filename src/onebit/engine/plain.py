"""Loops compiled by what Numba documents alone: for a version whose internals the engine does not know.

Everything works and decides the same; compiling takes several times as long, and a single step from Python does too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np

from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


class PlainLoop:
    """A loop compiled by Numba, called like the function that it was made of."""

    def __init__(self, loop: Callable[..., int], prototype: Sequence[Any], folder: Path | None) -> None:
        """Compile, or load from the folder; arguments have the types of the prototype."""
        self._kinds = [type(value) for value in prototype]
        signature = tuple(map(numba.typeof, self._as_compiled(prototype)))
        if folder is None:
            self._enter: Callable[..., int] = numba.njit(signature, **OPTIONS)(loop)
        else:
            self._enter = numba.njit(signature, cache=True, **OPTIONS)(_in_folder(loop, folder))

    def __call__(self, *arguments: Any) -> int:
        """Walk, as the function does."""
        return self._enter(*self._as_compiled(arguments))

    def _as_compiled(self, arguments: Sequence[Any]) -> list[Any]:
        """Return arguments of the types that were compiled for: rows are never written, other arrays may be."""
        return [_fitted(kind, value) for kind, value in zip(self._kinds, arguments, strict=True)]


def _in_folder(function: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """Return a copy of a function that seems to stand in a file in the folder: beside that file Numba keeps machine code."""
    file = folder / f"{function.__name__}.py"
    if not file.is_file():  # whose time and size Numba compares
        file.touch()
    code = function.__code__.replace(co_filename=str(file))
    return FunctionType(code, function.__globals__, function.__name__)


def _fitted(kind: type[Any], value: Any) -> Any:
    if kind in (DenseRows, SparseRows):
        return kind(*map(_read_only, value))
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy()
    return value if isinstance(value, tuple) else kind(value)


def _read_only(part: Any) -> Any:
    if not isinstance(part, np.ndarray):
        return part
    view = part.view()
    view.flags.writeable = False
    return view
