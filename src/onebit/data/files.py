"""The user's own files: .npz archives, CSV, Parquet and svmlight, by their endings."""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.blocks import FileProgress, FileReader, Memory, assembled, fill
from onebit.data.large import converted, is_large
from onebit.data.tables import Csr, Dataset, labelled, matched
from onebit.errors import InputError, MissingExtraError, OnebitError, brief
from onebit.installation import install_command
from onebit.validation import ClassName, checked_classes, listed

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
SVMLIGHT = tuple(name + zipped for name in (".svmlight", ".libsvm", ".svm") for zipped in ("", ".gz", ".bz2"))
ENDINGS = (".npz", *TABLES, *SVMLIGHT)


def is_data_file(name: str) -> bool:
    """Whether a name ends like a file that can be read.

    >>> is_data_file("flowers.csv"), is_data_file("flowers")
    (True, False)
    """
    return name.lower().endswith(ENDINGS)


def read(
    path: Path,
    *,
    label: str | None = None,
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    classes: Iterable[ClassName] | None = None,
    progress: FileProgress | None = None,
) -> Dataset:
    """A file of labelled rows; what cannot be used in it is refused with its place.

    `label` names the label column of a CSV or Parquet file, by itself `label`, `y`, `class` or `target`; `categorical` those
    that become one 0/1 column for each value, `drop` those that are left out. `classes` are those that occur, in order, unless they are given. Large files
    are converted once and then mapped from the cache; `progress` hears what is done, bytes done and bytes in all.
    """
    path = Path(path)
    if not is_data_file(path.name):
        raise InputError(f"{path} is not a data file by its ending, which may be {', '.join(ENDINGS)}")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if classes is not None:
        classes = checked_classes(classes)
    if not path.name.lower().endswith(TABLES) and (label is not None or categorical or drop):
        given = "label" if label is not None else "categorical" if categorical else "drop"
        raise InputError(f"{given} was given with {path}, but names columns of CSV and Parquet files")
    try:
        if path.suffix.lower() == ".npz":
            return read_npz(path, classes)
        if is_large(path):
            how = (label, tuple(categorical), tuple(drop), classes)
            return converted(path, how, lambda: _reader(path, label, categorical, drop, classes), progress)
        store = Memory()
        known, width = fill(store, _reader(path, label, categorical, drop, classes), f"reading {path.name}", progress)
        return assembled(store.array, path.name.lower().endswith(SVMLIGHT), known, width)
    except PermissionError:
        raise InputError(f"{path} may not be read: its owner has not allowed it") from None


def _reader(
    path: Path,
    label: str | None,
    categorical: Sequence[str],
    drop: Sequence[str],
    classes: tuple[ClassName, ...] | None,
) -> FileReader:
    if path.name.lower().endswith(SVMLIGHT):
        require("sklearn", str(path))
        from onebit.data.svmlight import Svmlight

        return Svmlight(path, classes)
    require("pyarrow", str(path))
    from onebit.data.delimited import Delimited
    from onebit.data.parquet import Parquet

    kind = Parquet if path.suffix.lower() == ".parquet" else Delimited
    return kind(path, label, categorical, drop, classes)


def require(module: str, what: str) -> None:
    """Refuse to go on where an optional dependency is missing, with the way to get it."""
    try:
        importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(f"{what} needs {module}, which comes with {install_command('experiments')}") from None


def read_npz(path: Path, classes: Iterable[ClassName] | None = None) -> Dataset:
    """A file with X and y, or with data, indices, indptr, shape and y; `classes`, where there, names the labels 0, 1, ..."""
    return dataset_of(arrays_of(path), path, classes)


def arrays_of(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz file."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        if not zipfile.is_zipfile(path):
            raise InputError(f"{path} is not an .npz file, whatever its name says")
        with np.load(path, allow_pickle=False) as archive:
            parts = {name: archive[name] for name in archive.files}
    except OnebitError:
        raise
    except Exception as error:  # NumPy and zipfile raise half a dozen unrelated types for a damaged file
        why = "it holds Python objects, which are not read" if "pickle" in str(error) else f"it is damaged ({error})"
        raise InputError(f"{path} cannot be read: {why}") from None
    for name, part in parts.items():
        if not isinstance(part, np.ndarray):
            raise InputError(f"{name} in {path} is no array")
    return parts


def dataset_of(parts: dict[str, NDArray[Any]], path: Path, given: Iterable[ClassName] | None = None) -> Dataset:
    """The data that the arrays of a file are."""
    if "y" not in parts:
        raise InputError(f"{path} has no y, only {listed(parts)}")
    if "X" in parts:
        rows: Any = parts["X"]
    elif all(name in parts for name in ("data", "indices", "indptr", "shape")):
        whole = parts["shape"].shape == (2,) and parts["shape"].dtype.kind in "iu"
        if not whole or any(parts[name].ndim != 1 for name in ("data", "indices", "indptr")):
            raise InputError(f"data, indices and indptr of {path} must be vectors, and shape two whole numbers")
        if "format" in parts and parts["format"].item() not in ("csr", b"csr"):  # as SciPy writes it
            raise InputError(f"{path} holds a sparse matrix in the format {parts['format']}, but must be csr")
        shape = tuple(int(size) for size in parts["shape"])
        rows = Csr(parts["data"], parts["indices"], parts["indptr"], shape)
    else:
        raise InputError(f"{path} has neither X nor data, indices, indptr and shape, only {listed(parts)}")
    if "classes" not in parts:
        data = labelled(rows, parts["y"], given)
        if given is None:
            _refuse_seen_once(data, path)
        return data
    if given is not None:
        raise InputError(f"classes were given with {path}, which brings its own")
    if parts["classes"].ndim == 0:
        raise InputError(f"classes of {path} is one thing, {parts['classes']}, but must be a list of names")
    classes = checked_classes(parts["classes"].tolist())
    y = parts["y"]
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise InputError(f"y of {path} must be whole numbers that index its {len(classes)} classes")
    outside = np.flatnonzero((y < 0) | (y >= len(classes)))
    if len(outside):
        raise InputError(f"y[{outside[0]}] of {path} is {y[outside[0]]}, but there are {len(classes)} classes")
    return matched(rows, y.astype(np.int64), classes)


def _refuse_seen_once(data: Dataset, path: Path) -> None:
    once = np.flatnonzero(np.bincount(data.y) == 1)
    if len(once):
        row = int(np.flatnonzero(np.isin(data.y, once))[0])
        raise InputError(
            f"y[{row}] of {path} is {brief(data.classes[data.y[row]])} and no other is, and nothing can be learnt of a label "
            "seen once: leave the row out, or name the classes in an array `classes`"
        )
