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
        self._enter = kept(loop, folder, signature, **OPTIONS)

    def __call__(self, *arguments: Any) -> int:
        """Walk, as the function does."""
        walked: int = self._enter(*self._as_compiled(arguments))
        return walked

    def _as_compiled(self, arguments: Sequence[Any]) -> list[Any]:
        """Return arguments of the types that were compiled for: rows are never written, other arrays may be."""
        return [_fitted(kind, value) for kind, value in zip(self._kinds, arguments, strict=True)]


def kept(function: Callable[..., Any], folder: Path | None, *signature: Any, **options: Any) -> Any:
    """Return a function that Numba compiles, for a signature if one is given, and whose machine code it keeps in the folder."""
    if folder is None:
        return numba.njit(*signature, **options)(function)
    return numba.njit(*signature, cache=True, **options)(_in_folder(function, folder))


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
