"""Files that are not held in memory: converted once, block by block, into arrays in the cache, which are mapped from there.

A conversion is made in a folder of its own, which gets its name when all is done: what bears the name is whole. The name
speaks of the file's path, its size and time, and how it was asked to be read; a file that has changed is converted anew, and
the conversions of its former self are removed. A process that asks for a file while another converts it waits for that one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from onebit.data.blocks import ArrayBlock, FileProgress, FileReader, assembled, fill
from onebit.data.preparation import prepared
from onebit.data.tables import Csr, Dataset
from onebit.engine import code_cache
from onebit.errors import InputError, OnebitError, brief

LARGE = 256 << 20  # bytes of a text file that is not held in memory
LARGE_COMPRESSED = 64 << 20  # the same of a compressed one
LARGE_PARQUET = 128 << 20
RESERVE = 256 << 20  # bytes that a conversion leaves free on the disk
_FORMAT = 2  # of what is written below; another number, and all is converted anew


def cached_data() -> Path:
    """The folder of data in the cache."""
    return code_cache.root() / "data"


def is_large(path: Path) -> bool:
    """Whether a file is too large to be held in memory; `ONEBIT_LARGE_FILE` sets another limit, in bytes."""
    named = os.environ.get("ONEBIT_LARGE_FILE")
    ending = path.suffix.lower()
    usual = LARGE_PARQUET if ending == ".parquet" else LARGE_COMPRESSED if ending in (".gz", ".bz2", ".xlsx") else LARGE
    if named and not (named.isascii() and named.isdigit()):
        raise InputError(f"ONEBIT_LARGE_FILE is {brief(named)}, but must be a number of bytes")
    return path.stat().st_size > (int(named) if named else usual)


def converted(
    path: Path, how: object, reader: Callable[[], FileReader], progress: FileProgress | None, anew: bool = False
) -> tuple[Dataset, str]:
    """The data of a large file, mapped from the cache, and what its reader noted; `how` is what besides the file decides what comes out.

    Where more decides on it than can be said, it is converted `anew`, and takes the place of what was there.
    """
    folder = _folder(path, how)
    if anew or not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with alone(folder):
                if anew:
                    for former in folder.parent.glob(f"{folder.name}*"):  # with the prepared rows beside it
                        shutil.rmtree(former)
                if not folder.is_dir():
                    _convert(reader(), folder, progress)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _no_space(path) from None
            raise InputError(f"{path} cannot be converted in {folder.parent}: {error.strerror}") from None
    facts = json.loads((folder / "facts.json").read_text())
    columns = None if facts["columns"] is None else tuple(facts["columns"])
    data = assembled(
        lambda name: np.load(folder / f"{name}.npy", mmap_mode="r"),
        lambda name: (folder / f"{name}.npy").exists(),
        tuple(facts["classes"]),
        facts["width"],
        columns,
    )
    return data, facts["note"]


class Disk:
    """A store in a folder: one .npy file for each array, whose header is written again when its length is known."""

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder = folder
        self._path = path
        self._files: dict[str, IO[bytes]] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}

    def clear(self) -> None:
        """Forget all arrays."""
        for name in list(self._files):
            self._files.pop(name).close()
            (self._folder / f"{name}.npy").unlink()

    def append(self, block: ArrayBlock) -> None:
        """Add to the end of each array."""
        self._refuse_full(sum(part.nbytes for part in block.values()))
        for name, part in block.items():
            if name not in self._files:
                self._files[name] = (self._folder / f"{name}.npy").open("w+b")
                self._dtypes[name], self._shapes[name] = part.dtype, (0, *part.shape[1:])
                self._write_header(name)
            self._shapes[name] = (self._shapes[name][0] + len(part), *part.shape[1:])
            self._files[name].write(np.ascontiguousarray(part).data)

    def array(self, name: str) -> NDArray[Any]:
        """An array, complete and writable."""
        self._close(name)
        return npy.open_memmap(self._folder / f"{name}.npy", mode="r+")

    def replaced(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """A new array that takes the place of another; whoever has mapped that one keeps it."""
        self._close(name)
        self._refuse_full(int(np.prod(shape)) * self._dtypes[name].itemsize)
        (self._folder / f"{name}.npy").unlink()
        return npy.open_memmap(self._folder / f"{name}.npy", mode="w+", dtype=self._dtypes[name], shape=shape)

    def close(self) -> None:
        """Finish all files."""
        for name in list(self._files):
            self._close(name)

    def _close(self, name: str) -> None:
        if name in self._files:
            self._files[name].seek(0)
            self._write_header(name)
            self._files.pop(name).close()

    def _write_header(self, name: str) -> None:
        # NumPy leaves room in it for the first number of the shape to grow.
        about = {"descr": npy.dtype_to_descr(self._dtypes[name]), "fortran_order": False, "shape": self._shapes[name]}
        npy.write_array_header_1_0(self._files[name], about)

    def _refuse_full(self, coming: int) -> None:
        if shutil.disk_usage(self._folder).free < coming + RESERVE:
            raise _no_space(self._path)


def _convert(reader: FileReader, folder: Path, progress: FileProgress | None) -> None:
    same_file = folder.name.split("-")[0]
    for leftover in folder.parent.glob(f"{same_file}-*.part"):
        shutil.rmtree(leftover, ignore_errors=True)
    part = folder.with_name(folder.name + ".part")
    part.mkdir()
    store = Disk(part, reader.path)
    try:
        classes, width = fill(store, reader, f"converting {reader.path.name}", progress)
        store.close()
        facts = {"file": str(reader.path), "classes": classes, "width": width}
        (part / "facts.json").write_text(json.dumps({**facts, "columns": reader.columns, "note": reader.note}))
        part.rename(folder)
    except BaseException:
        store.close()
        shutil.rmtree(part, ignore_errors=True)
        raise
    for former in folder.parent.glob(f"{same_file}-*"):
        if former.name.split("-")[1] != folder.name.split("-")[1]:
            shutil.rmtree(former, ignore_errors=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until no other process converts this file; where the system has no such locks, go on."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with folder.with_name(f".{folder.name.split('-')[0]}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _folder(path: Path, how: object) -> Path:
    about = path.stat()
    parts = (str(path.resolve()), (about.st_size, about.st_mtime_ns), (_FORMAT, how))
    return cached_data() / "-".join(hashlib.sha256(repr(part).encode()).hexdigest()[:16] for part in parts)


def _no_space(path: Path) -> OnebitError:
    return InputError(
        f"there is not enough space in {cached_data()} to convert {path}: make room, or let ONEBIT_CACHE name a folder "
        "on another disk"
    )


def prepared_rows(X: Any, steps: tuple[str, ...]) -> Any:
    """The rows after all steps, in memory where X is, and mapped where X is mapped."""
    home = _home(X)
    if home is None or not steps:
        return prepared(X, steps)
    # Beside the conversion, under a name that goes with it: a file that has changed takes both away.
    mark = hashlib.sha256(repr(steps).encode()).hexdigest()[:16]
    folder = home.with_name(f"{home.name}-{mark}")
    facts = folder / "facts.json"
    with alone(folder):
        if not facts.exists():  # written last: what has it is whole
            shape = prepared(X, steps, folder).shape
            facts.write_text(json.dumps({"steps": steps, "shape": [int(size) for size in shape]}))
    if (folder / "X.npy").exists():
        return _load(folder, "X")
    return Csr(
        _load(folder, "data"),
        _load(folder, "indices"),
        _load(folder, "indptr"),
        tuple(json.loads(facts.read_text())["shape"]),
    )


def _home(X: Any) -> Path | None:
    """The folder of the file that rows are mapped from, if they are."""
    values = X.data if hasattr(X, "indptr") else X
    return Path(values.filename).parent if isinstance(values, np.memmap) and values.filename else None


def _load(folder: Path, name: str) -> Any:
    return np.load(folder / f"{name}.npy", mmap_mode="r")
