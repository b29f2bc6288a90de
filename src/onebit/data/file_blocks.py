"""Block-wise reading of files into array stores, in memory or on disk.

A small file and one that does not fit into memory take the same path and give the same data. Values that are not
numbers (labels, categories) are numbered as they appear, and renumbered at the end when all are known, so that one
pass over the file is enough.
"""

from __future__ import annotations

import bz2
import gzip
import io
import shutil
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from onebit.contract.validation import ClassName
from onebit.data.candidate_sets import CandidateSets, cumulate_sizes
from onebit.data.dataset import Csr, Dataset
from onebit.data.labels import MOST_CLASSES, Codes, resolve_classes
from onebit.errors import InputError, OnebitWarning
from onebit.features.frames import Names

FileProgress = Callable[[str, int, int], None]  # the current activity, bytes done, total bytes

CHUNK = 1 << 16  # rows changed at a time, as they may be on disk
LINES = 1 << 13  # lines of a text parsed at a time


class RestartReading(Exception):  # noqa: N818 - no error: the reader goes on in another way
    """Signal that the file must be read again from the start, in another way that the reader has chosen."""


ArrayBlock = dict[str, NDArray[Any]]
RESERVE = 256 << 20  # bytes left free on a disk


class ArrayStore(ABC):
    """Growing arrays by name, to which the blocks of a table are appended; `lengths` are those so far."""

    def __init__(self) -> None:
        self.lengths: dict[str, int] = {}

    def append(self, block: ArrayBlock) -> None:
        """Append the parts of a block to the arrays of the same names; `indptr` starts at 0 in each block."""
        if "indptr" in block:
            starts = block["indptr"] + self.lengths.get("data", 0)
            block = {**block, "indptr": starts[1:] if "indptr" in self.lengths else starts}
        for name, part in block.items():
            self._write(name, np.ascontiguousarray(part))
            self.lengths[name] = self.lengths.get(name, 0) + len(part)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name."""
        return {name: self.array(name) for name in self.lengths}

    def take(self, name: str) -> NDArray[Any]:
        """Remove an array from the store and return it."""
        array = self.array(name)
        self._remove(name)
        del self.lengths[name]
        return array

    @abstractmethod
    def array(self, name: str) -> NDArray[Any]:
        """Return the complete array as a writable array."""

    @abstractmethod
    def _write(self, name: str, part: NDArray[Any]) -> None: ...

    @abstractmethod
    def _remove(self, name: str) -> None: ...


class MemoryStore(ArrayStore):
    """Growing arrays held in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[str, list[NDArray[Any]]] = {}

    def array(self, name: str) -> NDArray[Any]:
        parts = self._parts[name]
        if len(parts) > 1:
            whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=parts[0].dtype)
            end = len(whole)
            while parts:  # release each part as soon as it is copied
                part = parts.pop()
                whole[end - len(part) : end] = part
                end -= len(part)
            parts.append(whole)
        return parts[0]

    def _write(self, name: str, part: NDArray[Any]) -> None:
        self._parts.setdefault(name, []).append(part)

    def _remove(self, name: str) -> None:
        del self._parts[name]


class FileStore(ArrayStore):
    """Growing arrays in the .npy files of a folder; `purpose` says in messages what they are for."""

    def __init__(self, folder: Path, purpose: str) -> None:
        super().__init__()
        self._folder, self._purpose = folder, purpose

    def array(self, name: str) -> NDArray[Any]:
        return npy.open_memmap(self._path(name), mode="r+")

    def _write(self, name: str, part: NDArray[Any]) -> None:
        if shutil.disk_usage(self._folder).free < part.nbytes + RESERVE:
            raise InputError(
                f"there is not enough space in {self._folder} {self._purpose}: free some, or set ONEBIT_CACHE to a folder "
                "on another disk"
            )
        shape = (self.lengths.get(name, 0) + len(part), *part.shape[1:])
        header = {"descr": npy.dtype_to_descr(part.dtype), "fortran_order": False, "shape": shape}
        with self._path(name).open("r+b" if name in self.lengths else "wb") as file:
            npy.write_array_header_1_0(file, header)  # NumPy pads it so that the length can grow
            file.seek(0, io.SEEK_END)
            file.write(part.data)

    def _remove(self, name: str) -> None:
        self._path(name).unlink()  # who has it mapped keeps it

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.npy"


def replace_values(array: NDArray[Any], change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
    """Replace the values of an array, which may be on disk, by those that `change` returns, some at a time."""
    for start in range(0, len(array), CHUNK):
        array[start : start + CHUNK] = change(array[start : start + CHUNK])


class FileReader(ABC):
    """A reader of labelled rows in one file format, block by block.

    A block has the arrays X and y, or data, indices, indptr and y; with candidates also members and sizes of the sets,
    and with rewards also rewards. `too_many` is the error message for too many distinct labels.
    """

    def __init__(self, path: Path, classes: Iterable[ClassName] | None, too_many: str) -> None:
        self.path = path
        self.note = ""  # how columns were interpreted, once the file has been read
        self.columns: Names | None = None  # the names of the columns, if they are unchanged in X
        self.classes = None if classes is None else list(classes)
        self.labels = Codes(MOST_CLASSES, too_many)

    @abstractmethod
    def blocks(self) -> Iterator[tuple[ArrayBlock, int]]:
        """Yield the file in blocks, each with the number of bytes read so far."""

    @abstractmethod
    def finish(self, store: ArrayStore) -> tuple[tuple[ClassName, ...], int]:
        """Convert the stored arrays to their final form; return the classes and the number of features."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Return the location of a row, given from 0, as users count it, for messages."""

    def finish_labels(self, store: ArrayStore, names: Sequence[Any], subject: str) -> tuple[ClassName, ...]:
        """Convert label codes to class indices and return the classes; `names` are the labels by code."""
        classes, mapping = resolve_classes(self.labels, names, self.classes, subject, self.place)
        replace_values(store.array("y"), lambda codes: mapping[codes])
        return classes


class TextLine(NamedTuple):
    """A line of a text file, numbered from 1; `done` is the number of bytes read from disk so far."""

    number: int
    text: str
    done: int


class LineReader(FileReader):
    """A reader of sparse rows from a text file, plain or compressed, with a row on each line."""

    def __init__(self, path: Path, classes: Iterable[ClassName] | None) -> None:
        super().__init__(path, classes, f"{path} has more than {MOST_CLASSES:,} labels: are they classes?")

    @abstractmethod
    def parse_lines(self, lines: Sequence[str]) -> ArrayBlock:
        """Return a block whose y are labels; raise InputError if some line, tried alone, cannot be used."""

    def row_lines(self) -> Iterator[TextLine]:
        """Yield the lines that hold rows."""
        return numbered_lines(self.path)

    def blocks(self) -> Iterator[tuple[ArrayBlock, int]]:
        lines, rows = self.row_lines(), 0
        while chunk := list(islice(lines, LINES)):
            try:
                block = self.parse_lines([line.text for line in chunk])
            except InputError:
                self._refuse_bad_line(chunk)
                raise
            distinct, which = np.unique(block["y"], return_inverse=True)
            yield {**block, "y": self.labels.number(distinct.tolist(), which, rows)}, chunk[-1].done
            rows += len(chunk)

    def _refuse_bad_line(self, lines: Sequence[TextLine]) -> None:
        """Raise InputError for the first line that cannot be used, with its number."""
        for line in lines:
            try:
                self.parse_lines([line.text])
            except InputError as error:
                raise InputError(f"line {line.number} of {self.path}: {error}") from None

    def place(self, row: int) -> str:
        return f"line {next(islice(self.row_lines(), row, None)).number}"


def fill_store(
    store: ArrayStore, reader: FileReader, activity: str, progress: FileProgress | None
) -> tuple[tuple[ClassName, ...], int]:
    """Read a whole file into an empty store; return the classes and the number of features."""
    total = 0 if progress is None else reader.path.stat().st_size
    while True:
        try:
            for block, done in reader.blocks():
                store.append(block)
                if progress is not None:
                    progress(activity, min(done, total), total)
            if not store.lengths.get("y"):
                raise InputError(f"{reader.path} has no rows")
            return reader.finish(store)
        except RestartReading:
            for name in [*store.lengths]:
                store.take(name)


def read_into_memory(reader: FileReader, activity: str, progress: FileProgress | None = None) -> Dataset:
    """Return the data set of a whole file; `activity` is reported to `progress`."""
    store = MemoryStore()
    classes, width = fill_store(store, reader, activity, progress)
    return assemble_dataset(store.arrays(), classes, width, reader.columns, reader.note)


def assemble_dataset(
    arrays: Mapping[str, NDArray[Any]], classes: tuple[ClassName, ...], width: int, columns: Names | None, note: str
) -> Dataset:
    """Return the data set made of the arrays of a filled store; a note of their reader becomes a warning."""
    if note:
        warnings.warn(note, OnebitWarning, stacklevel=2)
    y, rewards = arrays["y"], arrays.get("rewards")
    sets = CandidateSets(arrays["members"], cumulate_sizes(arrays["sizes"])) if "members" in arrays else None
    if "X" in arrays:
        return Dataset(arrays["X"], y, classes, columns, sets, rewards)
    X = Csr(arrays["data"], arrays["indices"], arrays["indptr"], (len(y), width))
    return Dataset(X, y, classes, None, sets, rewards)


@contextmanager
def open_unpacked(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a possibly compressed file for reading bytes.

    Yield the decompressed file and the file on disk, whose position tells how much has been read.
    """
    with path.open("rb") as raw:
        ending = path.suffix.lower()
        if ending not in (".gz", ".bz2"):
            yield raw, raw
            return
        with gzip.open(raw) if ending == ".gz" else bz2.open(raw) as unpacked:
            yield unpacked, raw  # type: ignore[misc]


def unreadable(path: Path, error: Exception, form: str = "") -> InputError:
    """Return the error for an unreadable file, with the library's explanation on one line."""
    return InputError(f"{path} cannot be read{form}: {' '.join(str(error).split())}")


def numbered_lines(path: Path) -> Iterator[TextLine]:
    """Yield the lines of a text file that are not blank."""
    return (line for line in text_lines(path) if line.text.strip())


def text_lines(path: Path) -> Iterator[TextLine]:
    """Yield all lines of a text file."""
    number = 0
    try:
        with open_unpacked(path) as (file, raw):
            for number, line in enumerate(file, start=1):
                yield TextLine(number, line.decode("utf-8-sig" if number == 1 else "utf-8"), raw.tell())
    except UnicodeDecodeError:
        raise InputError(f"line {number} of {path} is not UTF-8 text: save the file as UTF-8") from None
    except (EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
