"""Large files: converted once, block by block, to arrays in the cache, which are then memory-mapped.

The name of a conversion's folder is made from the file's path, its size and time, and the options it is read with. A
folder is complete once it has facts.json, which is written last. A file that has changed is converted again, and
conversions of its former versions are removed. A process that needs a file that another is converting waits for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.dataset import Csr, Dataset
from onebit.data.file_blocks import FileProgress, FileReader, FileStore, assemble_dataset, fill_store
from onebit.data.preparation import prepare_rows
from onebit.engine import code_cache
from onebit.errors import InputError, brief

LARGE = 256 << 20  # bytes above which a text file is not held in memory
LARGE_COMPRESSED = 64 << 20  # the same for a compressed file
LARGE_PARQUET = 128 << 20
FACTS = "facts.json"


def data_folder() -> Path:
    """Return the folder for data in the cache."""
    return code_cache.root() / "data"


def is_large(path: Path) -> bool:
    """Return True if a file is too large to hold in memory; `ONEBIT_LARGE_FILE` sets the limit in bytes."""
    setting = os.environ.get("ONEBIT_LARGE_FILE")
    ending = path.suffix.lower()
    default = (
        LARGE_PARQUET if ending == ".parquet" else LARGE_COMPRESSED if ending in (".gz", ".bz2", ".xlsx") else LARGE
    )
    if setting and not (setting.isascii() and setting.isdigit()):
        raise InputError(f"ONEBIT_LARGE_FILE is {brief(setting)}, but must be a number of bytes")
    return path.stat().st_size > (int(setting) if setting else default)


def convert_file(
    path: Path, options: object, reader: Callable[[], FileReader], progress: FileProgress | None
) -> Dataset:
    """Return the data of a large file, mapped from the cache.

    `options` holds everything besides the file that determines the result.
    """
    folder, purpose = _folder(path, options), f"to convert {path}"

    def convert() -> dict[str, Any]:
        rows = reader()
        classes, width = fill_store(FileStore(folder, purpose), rows, f"converting {path.name}", progress)
        same_file, version, _ = folder.name.split("-")
        for entry in folder.parent.glob(f"{same_file}-*"):  # of former versions, or left by a process that was killed
            if entry.name.split("-")[1] != version or not (entry == folder or (entry / FACTS).exists()):
                shutil.rmtree(entry, ignore_errors=True)
        return {"file": str(path), "classes": classes, "width": width, "columns": rows.columns, "note": rows.note}

    arrays, facts = _cached_arrays(folder, purpose, convert)
    columns = None if facts["columns"] is None else tuple(facts["columns"])
    return assemble_dataset(arrays, tuple(facts["classes"]), facts["width"], columns, facts["note"])


def _cached_arrays(
    folder: Path, purpose: str, write: Callable[[], dict[str, Any]]
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the memory-mapped arrays of a cache folder and their metadata.

    Unless the folder is complete, `write` first writes the arrays into it and returns the facts.
    """
    facts_file = folder / FACTS
    if not facts_file.exists():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _lock_conversion(folder):
                if not facts_file.exists():
                    _write_folder(folder, write)
        except OSError as error:
            reason = f"{error.strerror or error}; set ONEBIT_CACHE to another folder"
            raise InputError(f"{folder.parent} cannot be written {purpose}: {reason}") from None
    arrays = {file.stem: np.load(file, mmap_mode="r") for file in folder.glob("*.npy")}
    return arrays, json.loads(facts_file.read_text())


def _write_folder(folder: Path, write: Callable[[], dict[str, Any]]) -> None:
    """Let `write` fill a new folder of the cache; after an error there is none."""
    shutil.rmtree(folder, ignore_errors=True)  # left by a process that was killed
    folder.mkdir()
    try:
        facts = folder / f"{FACTS}.part"
        facts.write_text(json.dumps(write()))
        facts.replace(folder / FACTS)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def _lock_conversion(folder: Path) -> Iterator[None]:
    """Wait until no other process converts this file; go on at once where the system has no file locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with folder.with_name(f".{folder.name.split('-')[0]}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _folder(path: Path, options: object) -> Path:
    status = path.stat()
    parts = (str(path.resolve()), (status.st_size, status.st_mtime_ns), options)
    return data_folder() / "-".join(hashlib.sha256(repr(part).encode()).hexdigest()[:16] for part in parts)


def prepare_cached_rows(X: Any, steps: tuple[str, ...]) -> Any:
    """Return the rows after all steps: in memory, or mapped if X is itself mapped from the cache."""
    values = X.data if hasattr(X, "indptr") else X
    conversion = Path(values.filename).parent if isinstance(values, np.memmap) and values.filename else None
    if conversion is None or conversion.parent.resolve() != data_folder().resolve() or not steps:
        return prepare_rows(X, steps)
    # Kept beside the conversion under a name that starts like it: when the file changes, both are removed.
    digest = hashlib.sha256(repr(steps).encode()).hexdigest()[:16]
    folder, purpose = conversion.with_name(f"{conversion.name}-{digest}"), "for the prepared rows"

    def write() -> dict[str, Any]:
        rows = prepare_rows(X, steps, FileStore(folder, purpose))
        return {"steps": steps, "shape": [int(size) for size in rows.shape]}

    arrays, facts = _cached_arrays(folder, purpose, write)
    return arrays["X"] if "X" in arrays else Csr(**arrays, shape=tuple(facts["shape"]))
