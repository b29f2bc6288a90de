"""A source gives the data of each run: fresh draws from a generator, or always the same rows of a file or of arrays."""

from __future__ import annotations

import inspect
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data import synthetic
from onebit.errors import OnebitError, nearest
from onebit.features import refuse_what_is_no_table
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
    if not path.is_file():
        raise OnebitError(f"there is no file {path}")
    try:
        if not zipfile.is_zipfile(path):
            raise OnebitError(f"{path} is not an .npz file, whatever its name says")
        with np.load(path, allow_pickle=False) as archive:
            parts = {name: archive[name] for name in archive.files}
    except OnebitError:
        raise
    except Exception as error:  # NumPy and zipfile raise half a dozen unrelated types for a damaged file
        why = "it holds Python objects, which are not read" if "pickle" in str(error) else f"it is damaged ({error})"
        raise OnebitError(f"{path} cannot be read: {why}") from None
    for name, part in parts.items():
        if not isinstance(part, np.ndarray):
            raise OnebitError(f"{name} in {path} is no array")
    if "y" not in parts:
        raise OnebitError(f"{path} has no y, only {listed(parts)}")
    if "X" in parts:
        rows: Any = parts["X"]
    elif all(name in parts for name in ("data", "indices", "indptr", "shape")):
        whole = parts["shape"].shape == (2,) and parts["shape"].dtype.kind in "iu"
        if not whole or any(parts[name].ndim != 1 for name in ("data", "indices", "indptr")):
            raise OnebitError(f"data, indices and indptr of {path} must be vectors, and shape two whole numbers")
        if "format" in parts and parts["format"].item() not in ("csr", b"csr"):  # as SciPy writes it
            raise OnebitError(f"{path} holds a sparse matrix in the format {parts['format']}, but must be csr")
        shape = tuple(int(size) for size in parts["shape"])
        rows = Csr(parts["data"], parts["indices"], parts["indptr"], shape)
    else:
        raise OnebitError(f"{path} has neither X nor data, indices, indptr and shape, only {listed(parts)}")
    if "classes" not in parts:
        return labelled(rows, parts["y"], None)
    if parts["classes"].ndim == 0:
        raise OnebitError(f"classes of {path} is one thing, {parts['classes']}, but must be a list of names")
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
    labels = _label_names(y)
    if classes is None:
        # Numbers in their order, then strings in theirs.
        known = checked_classes(sorted(set(labels), key=lambda name: (isinstance(name, str), name)))
    else:
        known = checked_classes(classes)
    place = {name: index for index, name in enumerate(known)}
    for row, label in enumerate(labels):
        if label not in place:
            raise OnebitError(f"y[{row}] is {label!r}, but the classes are {listed(known)}")
    return _matched(X, np.array([place[label] for label in labels], dtype=np.int64), known)


def _label_names(y: Any) -> list[ClassName]:
    """Labels as whole numbers and strings; what is neither is refused with its place."""
    if isinstance(y, np.ndarray) and y.ndim != 1:
        raise OnebitError(f"y has shape {y.shape}, but must be one label for each row")
    if isinstance(y, str) or not isinstance(y, Iterable):
        raise OnebitError(f"y is {y!r}, but must be one label for each row")
    found: list[ClassName] = []
    for row, given in enumerate(y.tolist() if isinstance(y, np.ndarray) else y):
        label = given.item() if isinstance(given, np.generic) else given
        if isinstance(label, float) and label.is_integer() and abs(label) < 2**53:
            label = int(label)
        if isinstance(label, list | tuple | np.ndarray):
            raise OnebitError(f"y[{row}] is {label!r}, but y must be one label for each row")
        if isinstance(label, bool) or not isinstance(label, str | int):
            kind = type(label).__name__
            raise OnebitError(f"y[{row}] is {label!r}, a {kind}, but labels must be whole numbers or strings")
        found.append(label)
    if not found:
        raise OnebitError("there are no rows")
    return found


def _matched(X: Any, y: NDArray[np.int64], classes: tuple[ClassName, ...]) -> Dataset:
    refuse_what_is_no_table(X)
    rows = int(X.shape[0]) if hasattr(X, "shape") else len(X)
    if rows != len(y):
        raise OnebitError(f"there are {rows} rows and {len(y)} labels")
    if rows == 0:
        raise OnebitError("there are no rows")
    return Dataset(X, y, classes)
