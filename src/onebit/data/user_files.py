"""Reading of the user's files by ending: tables, svmlight, Vowpal Wabbit's text and .npz archives."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.installation import require
from onebit.contract.validation import ClassName, checked_classes, join_names
from onebit.data.columns import TableReader
from onebit.data.dataset import Answers, Csr, Dataset, make_dataset, reward_answers
from onebit.data.delimited import CsvTable
from onebit.data.file_blocks import FileProgress, FileReader, read_into_memory, unreadable
from onebit.data.labels import encode_labels
from onebit.data.large import convert_file, is_large
from onebit.data.reading import Reading
from onebit.data.svmlight import Svmlight
from onebit.data.table_files import FrameTable, ParquetTable, TableFile, excel_table, json_table
from onebit.data.vw_text import VwText
from onebit.errors import InputError, OnebitError, brief
from onebit.features.frames import wrap_frame

JSON_LINES = (".jsonl", ".jsonl.gz")
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", *JSON_LINES, ".xlsx")
SVMLIGHT = tuple(name + zipped for name in (".svmlight", ".libsvm", ".svm") for zipped in ("", ".gz", ".bz2"))
VW = (".vw", ".vw.gz", ".vw.bz2")
USUAL = (".csv", ".parquet", ".jsonl", ".xlsx", ".svmlight", ".vw")  # the endings listed in messages
ENDINGS = (".npz", *TABLES, *SVMLIGHT, *VW)


def is_data_file(name: str) -> bool:
    """Return True if the name has the ending of a readable data file.

    >>> is_data_file("flowers.csv"), is_data_file("flowers")
    (True, False)
    """
    return name.lower().endswith(ENDINGS)


def read_file(
    path: Path, reading: Reading, classes: Iterable[ClassName] | None, progress: FileProgress | None = None
) -> Dataset:
    """Read a file of labelled rows; raise InputError with the location of anything unusable.

    The kinds of columns that `reading` does not name are guessed from their first values, and a warning tells if these
    are not numbers. The classes are those that occur, sorted, unless they are given. A large file is converted once and
    then mapped from the cache. `progress` is called with the current activity, bytes done and total bytes.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder, but must be a file: {', '.join(USUAL)} or .npz")
    if not is_data_file(path.name):
        raise InputError(f"{path} is not a data file by its ending, which may be {', '.join(ENDINGS)}")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if classes is not None:
        classes = checked_classes(classes)
    archive = path.suffix.lower() == ".npz"
    columns = replace(reading, rewards=(), candidates=None) if archive else reading  # in an archive these name arrays
    if not path.name.lower().endswith(TABLES) and columns.given is not None:
        raise InputError(
            f"{columns.given} was given with {path}, but applies only to the columns of tables ({', '.join(TABLES)})"
        )
    if archive:
        return dataset_from_arrays(load_arrays(path), path, classes, reading)
    if is_large(path):
        options = (reading.described(), classes)
        return convert_file(path, options, lambda: _make_reader(path, reading, classes), progress)
    return read_into_memory(_make_reader(path, reading, classes), f"reading {path.name}", progress)


def _make_reader(path: Path, reading: Reading, classes: tuple[ClassName, ...] | None) -> FileReader:
    name = path.name.lower()
    if name.endswith(SVMLIGHT):
        require("sklearn", str(path))
        return Svmlight(path, classes)
    if name.endswith(VW):
        return VwText(path, classes)
    require("pyarrow", str(path))
    return TableReader(_open_table(path, name, reading), reading, classes)


def _open_table(path: Path, name: str, reading: Reading) -> TableFile:
    if name.endswith(".xlsx"):
        require("pandas", str(path))
        require("openpyxl", str(path), "excel")
        return excel_table(path)
    if name.endswith(JSON_LINES):
        return json_table(path, reading.candidates)
    return ParquetTable(path) if name.endswith(".parquet") else CsvTable(path)


def read_frame(frame: Any, answers: Answers | None, reading: Reading, classes: Iterable[ClassName] | None) -> Dataset:
    """Return the data set of a frame of pandas, polars or Arrow; without `answers`, columns hold these."""
    require("pyarrow", "a frame that is not all numbers")
    import pyarrow as arrow

    if answers is not None and (reading.label is not None or reading.rewards):
        column = reading.rewards[0] if reading.label is None else reading.label
        raise InputError(f"the labels are given twice: as y, and by the column {brief(column)} of the frame")
    narwhals = wrap_frame(frame)
    names = list(narwhals.columns)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"a column of the frame is called {brief(name)}, but all column names must be strings")
    try:
        table = narwhals.to_arrow().select(names)
    except (arrow.ArrowException, OverflowError) as error:
        raise unreadable(Path("the frame"), error) from None
    if answers is not None:
        answers.refuse_unmatched(table)
    data = read_into_memory(TableReader(FrameTable(table), reading, classes, answers), "reading the frame")
    if answers is None:
        return data
    return replace(data, rewards=answers.rewards, candidates=answers.candidates or data.candidates)


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of an .npz file by name."""
    try:
        if not zipfile.is_zipfile(path):
            raise InputError(f"{path} is not an .npz file, despite its name")
        with np.load(path, allow_pickle=False) as archive:
            parts = {name: archive[name] for name in archive.files}
    except OnebitError:
        raise
    except Exception as error:  # NumPy and zipfile raise half a dozen unrelated types for a damaged file
        reason = "it holds Python objects, which are not read" if "pickle" in str(error) else f"it is damaged ({error})"
        raise InputError(f"{path} cannot be read: {reason}") from None
    for name, part in parts.items():
        if not isinstance(part, np.ndarray):
            raise InputError(f"{name} in {path} is not an array")
    return parts


def dataset_from_arrays(
    parts: dict[str, NDArray[Any]], path: Path, given: Iterable[ClassName] | None = None, reading: Reading | None = None
) -> Dataset:
    """Return the data set in the arrays of a file: X and y, or data, indices, indptr, shape and y.

    If there is an array `classes`, it names the labels 0, 1, ... In place of y there may be `rewards`, a matrix with
    one column per class. `reading` may name another array for rewards, and one for candidates.
    """
    options = reading or Reading()
    rewards_name = next(iter(options.rewards), None if "y" in parts else "rewards" if "rewards" in parts else None)
    if rewards_name is None and "y" not in parts:
        raise InputError(f"{path} has no y, only {join_names(parts)}")
    if rewards_name is not None and "y" in parts:
        raise InputError(f"{path} has a y, but labels follow from rewards: leave one of them out")
    if options.candidates is not None and options.candidates in ("y", rewards_name):
        content = "the label" if options.candidates == "y" else "rewards"
        raise InputError(f"{options.candidates} of {path} holds {content}, so it cannot hold candidates")
    rows = _read_rows(parts, path)
    if "classes" in parts:
        if given is not None:
            raise InputError(f"classes were given with {path}, which brings its own")
        given = checked_classes(parts["classes"].tolist())
    sets = None if options.candidates is None else _get_array(parts, path, options.candidates)
    candidates_subject = f"{options.candidates} of {path}"
    if rewards_name is not None:
        answers = reward_answers(
            _get_array(parts, path, rewards_name), given, sets, (f"{rewards_name} of {path}", candidates_subject)
        )
        return make_dataset(rows, answers)
    if "classes" in parts:
        classes = checked_classes(given or ())
        answers = Answers(_check_indices(parts["y"], classes, path), classes)
    else:
        answers = Answers(*encode_labels(parts["y"], given))
    data = make_dataset(rows, answers)
    if given is None:
        _refuse_single_labels(data, path)
    return data if sets is None else data.with_candidates(sets, candidates_subject)


def _read_rows(parts: dict[str, NDArray[Any]], path: Path) -> Any:
    if "X" in parts:
        return parts["X"]
    if not all(name in parts for name in ("data", "indices", "indptr", "shape")):
        raise InputError(f"{path} has neither X nor data, indices, indptr and shape, only {join_names(parts)}")
    has_valid_shape = parts["shape"].shape == (2,) and parts["shape"].dtype.kind in "iu"
    if not has_valid_shape or any(parts[name].ndim != 1 for name in ("data", "indices", "indptr")):
        raise InputError(f"data, indices and indptr of {path} must be vectors, and shape two whole numbers")
    if "format" in parts and parts["format"].item() not in ("csr", b"csr"):  # as SciPy writes it
        raise InputError(f"{path} holds a sparse matrix in the format {parts['format']}, but must be csr")
    shape = tuple(int(size) for size in parts["shape"])
    return Csr(parts["data"], parts["indices"], parts["indptr"], shape)


def _get_array(parts: dict[str, NDArray[Any]], path: Path, name: str) -> NDArray[Any]:
    if name not in parts:
        raise InputError(f"{path} has no array {brief(name)}, only {join_names(parts)}")
    return parts[name]


def _check_indices(y: NDArray[Any], classes: tuple[ClassName, ...], path: Path) -> NDArray[np.int64]:
    """Return labels that are positions in `classes`; raise InputError for others."""
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise InputError(f"y of {path} must be whole numbers that index its {len(classes)} classes")
    outside = np.flatnonzero((y < 0) | (y >= len(classes)))
    if len(outside):
        raise InputError(f"y[{outside[0]}] of {path} is {y[outside[0]]}, but there are {len(classes)} classes")
    return y.astype(np.int64)


def _refuse_single_labels(data: Dataset, path: Path) -> None:
    single_classes = np.flatnonzero(np.bincount(data.y) == 1)
    if len(single_classes):
        row = int(np.flatnonzero(np.isin(data.y, single_classes))[0])
        raise InputError(
            f"y[{row}] of {path} is {brief(data.classes[data.y[row]])} and no other is, and nothing can be learnt about a label "
            "that occurs once: leave the row out, or name the classes in an array `classes`"
        )
