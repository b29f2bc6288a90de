"""A source gives the data of each run: fresh draws from a generator, or always the same rows of a file or of arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data import synthetic
from onebit.errors import OnebitError, nearest
from onebit.names import ClassName, checked_classes, listed

ROUNDS = 100_000  # of a generator, where nothing is said

_NO_MARGIN = (
    "SynSep10 has no margin: rules that insist on one in every step (C = 1, plain EPABF) undo what they learnt, and Banditron's "
    "steps of K/exploration never settle. Small steps (aggressiveness = 0.001) work."
)


@dataclass(frozen=True)
class Generator:
    """A synthetic stream: rows and labels for a number of rounds and a seed."""

    make: Callable[[int, int], synthetic.Labelled]
    classes: int
    features: int
    note: str = ""

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return inspect.getdoc(self.make).split("\n")[0]  # type: ignore[union-attr]


GENERATORS = {
    "synsep10": Generator(synthetic.synsep10, 10, 100, _NO_MARGIN),
    "synnonsep10": Generator(synthetic.synnonsep10, 10, 100, _NO_MARGIN),
    "synsep10-released": Generator(synthetic.synsep10_released, 10, 100),
    "synnonsep10-released": Generator(synthetic.synnonsep10_released, 10, 100),
    "synsep9": Generator(synthetic.synsep9, 9, 400),
    "synnonsep9": Generator(synthetic.synnonsep9, 9, 400),
}


@dataclass(frozen=True)
class Csr:
    """The parts of a CSR matrix, named as SciPy names them."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Dataset:
    """Rows, their labels as indices, and the names of the classes."""

    X: Any
    y: NDArray[np.int64]
    classes: tuple[ClassName, ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.y)


@dataclass(frozen=True)
class Source:
    """Data by name. `fixed` sources have the same rows in every run, others draw them from the run's seed."""

    name: str
    fixed: bool
    rounds: int
    make: Callable[[int, int], Dataset]
    note: str = ""


def names() -> list[str]:
    """The names of the data that onebit comes with."""
    return list(GENERATORS)


def source_of(
    X: Any, y: Any = None, *, rounds: int | None = None, classes: Iterable[ClassName] | None = None
) -> Source:
    """The source behind a name, a path to an .npz file, or rows with labels.

    >>> source_of("synsep10", rounds=50).make(50, 0).X.shape
    (50, 100)
    """
    if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 1):
        raise OnebitError(f"rounds is {rounds!r}, but must be a whole number of at least 1")
    if not isinstance(X, str | Path):
        if y is None:
            raise OnebitError("rows were given without labels: give y as well, or the name of a data set")
        data = labelled(X, y, classes)
        return Source("arrays", True, rounds or data.rows, lambda total, seed: data)
    if y is not None or classes is not None:
        raise OnebitError(f"labels or classes were given with {str(X)!r}, which brings its own")
    if str(X) in GENERATORS:
        generator = GENERATORS[str(X)]

        def draw(total: int, seed: int) -> Dataset:
            rows, labels = generator.make(total, seed)
            return Dataset(rows, labels, tuple(range(generator.classes)))

        return Source(str(X), False, rounds or ROUNDS, draw, generator.note)
    path = Path(X)
    if path.suffix != ".npz":
        raise OnebitError(
            f"there is no data {str(X)!r}, nor is it the path of an .npz file; {nearest(str(X), GENERATORS)}"
        )
    data = read_npz(path)
    return Source(str(X), True, rounds or data.rows, lambda total, seed: data)


def read_npz(path: Path) -> Dataset:
    """A file with X and y, or with data, indices, indptr, shape and y; `classes`, where there, names the labels 0, 1, ..."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            parts = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise OnebitError(f"there is no file {path}") from None
    except Exception as error:  # NumPy and zipfile raise half a dozen unrelated types for a file that is not one
        raise OnebitError(f"{path} is not an .npz file that can be read: {error}") from None
    if "y" not in parts:
        raise OnebitError(f"{path} has no y, only {listed(parts)}")
    if "X" in parts:
        rows: Any = parts["X"]
    elif all(name in parts for name in ("data", "indices", "indptr", "shape")):
        shape = tuple(int(size) for size in parts["shape"])
        rows = Csr(parts["data"], parts["indices"], parts["indptr"], shape)
    else:
        raise OnebitError(f"{path} has neither X nor data, indices, indptr and shape, only {listed(parts)}")
    if "classes" not in parts:
        return labelled(rows, parts["y"], None)
    classes = checked_classes(parts["classes"].tolist())
    y = parts["y"]
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise OnebitError(f"y of {path} must be whole numbers that index its {len(classes)} classes")
    outside = np.flatnonzero((y < 0) | (y >= len(classes)))
    if len(outside):
        raise OnebitError(f"y[{outside[0]}] of {path} is {y[outside[0]]}, but there are {len(classes)} classes")
    return _matched(rows, y.astype(np.int64), classes)


def labelled(X: Any, y: Any, classes: Iterable[ClassName] | None) -> Dataset:
    """Rows with labels of any name; the classes are those that occur, in order, unless they are given."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise OnebitError(f"y has shape {labels.shape}, but must be one label for each row")
    if len(labels) == 0:
        raise OnebitError("there are no rows")
    if labels.dtype.kind == "O":  # a column of strings, as pandas has it
        for row, label in enumerate(labels.tolist()):
            if not isinstance(label, str):
                raise OnebitError(f"y[{row}] is {label!r}, but labels must be all whole numbers or all strings")
        labels = labels.astype(str)
    if labels.dtype.kind == "f":
        whole = labels.astype(np.int64)
        bad = np.flatnonzero(whole != labels)
        if len(bad):
            raise OnebitError(f"y[{bad[0]}] is {labels[bad[0]]}, but labels must be whole numbers or strings")
        labels = whole
    if labels.dtype.kind not in "iuU":
        raise OnebitError(f"y has dtype {labels.dtype}, but labels must be whole numbers or strings")
    if classes is None:
        found, indices = np.unique(labels, return_inverse=True)
        return _matched(X, indices.astype(np.int64), checked_classes(found.tolist()))
    known = checked_classes(classes)
    place = {name: index for index, name in enumerate(known)}
    for row, label in enumerate(labels.tolist()):
        if label not in place:
            raise OnebitError(f"y[{row}] is {label!r}, but the classes are {listed(known)}")
    return _matched(X, np.array([place[label] for label in labels.tolist()], dtype=np.int64), known)


def _matched(X: Any, y: NDArray[np.int64], classes: tuple[ClassName, ...]) -> Dataset:
    rows = int(X.shape[0]) if hasattr(X, "shape") and len(X.shape) > 0 else len(X)
    if rows != len(y):
        raise OnebitError(f"there are {rows} rows and {len(y)} labels")
    if rows == 0:
        raise OnebitError("there are no rows")
    return Dataset(X, y, classes)
