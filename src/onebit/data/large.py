"""Large files: converted once, block by block, to arrays in the cache, which are then memory-mapped.

A conversion is written to a temporary folder, which is renamed when it is complete. The name is made from the file's
path, its size and time, and the options it is read with. A file that has changed is converted again, and conversions of
its former versions are removed. A process that needs a file that another is converting waits for it.
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
from typing import Any

import numpy as np

from onebit.data.dataset import Csr, Dataset
from onebit.data.file_blocks import FileProgress, FileReader, FileStore, assemble_dataset, fill_store, no_space
from onebit.data.preparation import prepared
from onebit.engine import code_cache
from onebit.errors import InputError, brief

LARGE = 256 << 20  # bytes above which a text file is not held in memory
LARGE_COMPRESSED = 64 << 20  # the same for a compressed file
LARGE_PARQUET = 128 << 20
_FORMAT = 2  # version of the files written below; a new one makes all files be converted again


def cached_data() -> Path:
    """Return the folder for data in the cache."""
    return code_cache.root() / "data"


def is_large(path: Path) -> bool:
    """Return True if a file is too large to hold in memory; `ONEBIT_LARGE_FILE` sets the limit in bytes."""
    named = os.environ.get("ONEBIT_LARGE_FILE")
    ending = path.suffix.lower()
    usual = LARGE_PARQUET if ending == ".parquet" else LARGE_COMPRESSED if ending in (".gz", ".bz2", ".xlsx") else LARGE
    if named and not (named.isascii() and named.isdigit()):
        raise InputError(f"ONEBIT_LARGE_FILE is {brief(named)}, but must be a number of bytes")
    return path.stat().st_size > (int(named) if named else usual)


def convert_file(
    path: Path, how: object, reader: Callable[[], FileReader], progress: FileProgress | None, anew: bool = False
) -> tuple[Dataset, str]:
    """Return the data of a large file, mapped from the cache, and the note of its reader.

    `how` holds everything besides the file that determines the result. If that cannot be fully expressed, set `anew`:
    the file is then converted again, and the result replaces the cached one.
    """
    folder = _folder(path, how)
    if anew or not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with lock_conversion(folder):
                if anew:
                    for former in folder.parent.glob(f"{folder.name}*"):  # including the prepared rows beside it
                        shutil.rmtree(former)
                if not folder.is_dir():
                    _convert(reader(), folder, progress)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise no_space(cached_data(), f"to convert {path}") from None
            raise InputError(f"{path} cannot be converted in {folder.parent}: {error.strerror}") from None
    facts = json.loads((folder / "facts.json").read_text())
    columns = None if facts["columns"] is None else tuple(facts["columns"])
    arrays = {file.stem: np.load(file, mmap_mode="r") for file in folder.glob("*.npy")}
    return assemble_dataset(arrays, tuple(facts["classes"]), facts["width"], columns), facts["note"]


def _convert(reader: FileReader, folder: Path, progress: FileProgress | None) -> None:
    same_file = folder.name.split("-")[0]
    for leftover in folder.parent.glob(f"{same_file}-*.part"):
        shutil.rmtree(leftover, ignore_errors=True)
    part = folder.with_name(folder.name + ".part")
    part.mkdir()
    store = FileStore(part, f"to convert {reader.path}")
    try:
        classes, width = fill_store(store, reader, f"converting {reader.path.name}", progress)
        store.finish()
        facts = {"file": str(reader.path), "classes": classes, "width": width}
        (part / "facts.json").write_text(json.dumps({**facts, "columns": reader.columns, "note": reader.note}))
        part.rename(folder)
    except BaseException:
        store.clear()
        shutil.rmtree(part, ignore_errors=True)
        raise
    for former in folder.parent.glob(f"{same_file}-*"):
        if former.name.split("-")[1] != folder.name.split("-")[1]:
            shutil.rmtree(former, ignore_errors=True)


@contextmanager
def lock_conversion(folder: Path) -> Iterator[None]:
    """Wait until no other process converts this file; go on at once where the system has no file locks."""
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


def prepared_rows(X: Any, steps: tuple[str, ...]) -> Any:
    """Return the rows after all steps: in memory, or mapped if X is itself mapped from the cache."""
    values = X.data if hasattr(X, "indptr") else X
    home = Path(values.filename).parent if isinstance(values, np.memmap) and values.filename else None
    if home is None or home.parent.resolve() != cached_data().resolve() or not steps:
        return prepared(X, steps)
    # Kept beside the conversion under a name that starts like it: when the file changes, both are removed.
    mark = hashlib.sha256(repr(steps).encode()).hexdigest()[:16]
    folder = home.with_name(f"{home.name}-{mark}")
    facts = folder / "facts.json"
    with lock_conversion(folder):
        if not facts.exists():  # written last, so a folder that has it is complete
            shape = prepared(X, steps, folder).shape
            facts.write_text(json.dumps({"steps": steps, "shape": [int(size) for size in shape]}))
    arrays = {file.stem: np.load(file, mmap_mode="r") for file in folder.glob("*.npy")}
    if "X" in arrays:
        return arrays["X"]
    return Csr(**arrays, shape=tuple(json.loads(facts.read_text())["shape"]))
