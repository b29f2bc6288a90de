"""Recipes: streams that are drawn anew for every seed, and what their makers share.

A maker is a function of (rounds, seed), as in `onebit.data.synthetic`. A recipe has a mark, a hash of the code of its maker and of all
that this calls here: what was measured on a stream holds while that is the same.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data import real
from onebit.data.dataset import Csr, Dataset
from onebit.data.preparation import prepare_rows
from onebit.data.sources import Source
from onebit.data.streams import Stream, stream
from onebit.data.user_files import load_arrays
from onebit.engine.fingerprint import describe_code
from onebit.errors import OnebitError

Drawn = tuple[Any, NDArray[np.int64]]
Maker = Callable[[int, int], Drawn]

MAKERS = ("benchmarks.", "onebit.data.synthetic")  # the modules whose functions make rows
SHIPPED = ("wine", "breast_cancer", "diabetes")  # by scikit-learn, beside those that onebit knows by name


@dataclass(frozen=True)
class Recipe:
    """A stream that is drawn anew in every run; `needs` are the data sets that it takes its rows from."""

    make: Maker
    classes: int
    rounds: int = 20_000
    needs: tuple[str, ...] = ()

    @cached_property
    def mark(self) -> str:
        """A hash of the code that makes the stream."""
        parts = sorted(_parts(self.make, set()))
        return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()

    @property
    def lacking(self) -> str:
        """A sentence on the data that are not on this machine; empty where all are."""
        return next((absent(name) for name in self.needs if not at_hand(name)), "")

    def source(self, name: str, steps: tuple[str, ...] = ()) -> Source:
        """As onebit takes it, with the steps of a preparation."""

        def draw(rounds: int, seed: int) -> Dataset:
            X, y = _drawn(self.make, rounds, seed)
            return Dataset(prepare_rows(X, steps), y, tuple(range(self.classes)))

        return Source(name, False, self.rounds, draw, lambda: {"recipe": self.mark}, steps)

    def stream(self, name: str, steps: tuple[str, ...] = (), **settings: Any) -> Stream:
        """The stream, after the steps of a preparation, with noise, drift or delays."""
        return stream(self.source(name, steps), **settings)


@lru_cache(maxsize=1)
def _drawn(make: Maker, rounds: int, seed: int) -> Drawn:
    """Rows and labels; the last ones are kept, since rules in two preparations follow one another on the same stream."""
    X, y = make(rounds, seed)
    if len(y) != rounds:  # or a stream would pass twice
        raise OnebitError(f"a recipe gave {len(y)} rows for {rounds} rounds")
    return X, y


def _parts(thing: Any, seen: set[int]) -> Iterator[str]:
    """What makes a maker what it is, as text: code, and the plain values that go into it."""
    if isinstance(thing, partial):
        for part in (thing.func, thing.args, thing.keywords):
            yield from _parts(part, seen)
    elif isinstance(thing, dict):
        for name, value in thing.items():
            yield f"{name}:"
            yield from _parts(value, seen)
    elif isinstance(thing, list | tuple):
        for one in thing:
            yield from _parts(one, seen)
    elif isinstance(thing, int | float | str | bool):
        yield repr(thing)
    elif hasattr(thing, "__wrapped__"):
        yield from _parts(thing.__wrapped__, seen)
    elif isinstance(thing, FunctionType) and thing.__module__.startswith(MAKERS) and id(thing) not in seen:
        seen.add(id(thing))
        yield repr((thing.__qualname__, describe_code(thing.__code__), thing.__defaults__))
        for name in _names(thing.__code__):
            yield from _parts(thing.__globals__.get(name), seen)
        for cell in thing.__closure__ or ():
            yield from _parts(cell.cell_contents, seen)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def generator_of(seed: int) -> np.random.Generator:
    """The draws of a stream."""
    return np.random.default_rng([77, seed])


def dense(X: NDArray[Any]) -> NDArray[np.float32]:
    """Rows one after the other, as learners take them."""
    return np.ascontiguousarray(X, dtype=np.float32)


def sparse(matrix: Any) -> Csr:
    """A matrix of SciPy's, or a dense one, as the rows that learners take."""
    import scipy.sparse

    rows = scipy.sparse.csr_matrix(matrix)
    rows.sum_duplicates()
    parts = rows.data.astype(np.float32), rows.indices.astype(np.int32), rows.indptr.astype(np.int64)
    return Csr(*parts, rows.shape)


def zipf(count: int, exponent: float) -> NDArray[np.float64]:
    """The chances of so many things by Zipf's law."""
    chances = 1.0 / np.arange(1, count + 1) ** exponent
    return np.asarray(chances / chances.sum())


# --- data sets ----------------------------------------------------------------------------------------------------------


def at_hand(name: str) -> bool:
    """Whether a data set is on this machine; none is downloaded for a stream."""
    if name in SHIPPED:
        return _own_file(name) is not None or importlib.util.find_spec("sklearn") is not None
    where = real.describe_location(name)
    return importlib.util.find_spec("sklearn") is not None if where == "scikit-learn" else where != "to be downloaded"


def absent(name: str) -> str:
    """A sentence for a data set that is not."""
    return f"there is no {name}.npz in the folder that ONEBIT_DATA names"


def _own_file(name: str) -> Path | None:
    folder = real.user_folder()
    path = None if folder is None else folder / f"{name}.npz"
    return path if path is not None and path.is_file() else None


@cache
def held(name: str) -> Drawn:
    """The rows and labels of a data set; a sentence where it is not on this machine."""
    if not at_hand(name):
        raise OnebitError(absent(name))
    if name in SHIPPED:
        return _shipped(name)
    data = real.load(name)
    return data.X, data.y


def _shipped(name: str) -> Drawn:
    """A data set that scikit-learn brings along, from a file of ours where there is one."""
    path = _own_file(name)
    if path is not None:
        parts = load_arrays(path)
        return parts["X"], parts["y"].astype(np.int64)
    import sklearn.datasets

    if name == "diabetes":  # the classes are the quarters of the patients by the progress of the disease
        data = sklearn.datasets.load_diabetes(scaled=False)
        return data.data, np.searchsorted(np.quantile(data.target, [0.25, 0.5, 0.75]), data.target).astype(np.int64)
    data = getattr(sklearn.datasets, f"load_{name}")()
    return data.data, data.target.astype(np.int64)


def resampled(name: str, rounds: int, seed: int, chances: Any = None) -> Drawn:
    """Rows of a data set, drawn with replacement."""
    X, y = held(name)
    drawn = generator_of(seed).choice(len(y), rounds, p=chances)
    return dense(X[drawn]), y[drawn]


def shuffled(name: str, rounds: int, seed: int) -> Drawn:
    """The first rows of a data set in an order of its own."""
    X, y = held(name)
    order = generator_of(seed).permutation(len(y))[:rounds]
    return dense(X[order]), y[order]


def as_csr(make: Maker, rounds: int, seed: int) -> Drawn:
    """A dense stream handed over as sparse rows."""
    X, y = make(rounds, seed)
    return sparse(X), y
