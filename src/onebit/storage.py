"""One file for a learner: arrays and a JSON manifest in the safetensors format. No pickle, nothing is executed on loading.

The manifest holds everything that is not an array, and a checksum over all of it and all arrays; a file that was cut or altered
is refused. Writing is atomic: the file is there whole, or as it was before.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from onebit.errors import OnebitError
from onebit.version import VERSION

FORMAT = 3  # 1 had no kernels, and 2 no covariances, floors and counts of right answers: both are read
Arrays = dict[str, NDArray[Any]]


def encode(manifest: dict[str, Any], arrays: Arrays) -> bytes:
    """A manifest and arrays as the bytes of a file."""
    import safetensors.numpy

    whole = {**manifest, "checksum": _checksum(manifest, arrays)}
    content: bytes = safetensors.numpy.save(arrays, metadata={"onebit": json.dumps(whole)})
    return content


def write(manifest: dict[str, Any], arrays: Arrays, path: Any) -> None:
    """Write a manifest and arrays to a file, atomically."""
    write_atomically(Path(path), encode(manifest, arrays))


def read(path: Any) -> tuple[dict[str, Any], Arrays]:
    """The manifest and the arrays of a file, checked."""
    import safetensors
    import safetensors.numpy

    path = Path(path)
    if not path.is_file():
        raise OnebitError(f"there is no file {path}")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("onebit")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except OSError as error:
        raise OnebitError(f"{path} cannot be read: {error.strerror or error}") from None
    except safetensors.SafetensorError as error:
        raise OnebitError(f"{path} is not a learner, or not all of one: {error}") from None
    return _checked(text, arrays, str(path))


def decode(content: bytes) -> tuple[dict[str, Any], Arrays]:
    """The manifest and the arrays in the bytes of `encode`, checked."""
    import safetensors
    import safetensors.numpy

    try:
        arrays = safetensors.numpy.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (safetensors.SafetensorError, TypeError, ValueError) as error:
        raise OnebitError(f"these bytes are not a learner, or not all of one: {error}") from None
    return _checked(header.get("__metadata__", {}).get("onebit"), arrays, "what was given")


def _checked(text: str | None, arrays: Arrays, path: str) -> tuple[dict[str, Any], Arrays]:
    """The manifest in a text, if the checksum in it is that of all that it comes with."""
    if text is None:
        raise OnebitError(f"{path} is not a learner: it has no onebit manifest")
    try:
        manifest = json.loads(text)
        checksum = manifest.pop("checksum")
    except (ValueError, KeyError, AttributeError):
        raise OnebitError(f"{path} is damaged: its manifest cannot be read") from None
    if manifest.get("format", FORMAT + 1) > FORMAT:
        raise OnebitError(f"{path} was written by a newer onebit ({manifest.get('version')}); this is {VERSION}")
    if checksum != _checksum(manifest, arrays):
        raise OnebitError(f"{path} is damaged: its content does not fit its checksum")
    there = manifest["machine"]
    differs = [
        f"{name} {there.get(name)} there, {what} here"
        for name, what in platform_info().items()
        if there.get(name) != what
    ]
    if differs:
        warnings.warn(
            f"{path} was saved on another machine ({'; '.join(differs)}): going on is equal to rounding, not bit for bit",
            stacklevel=4,
        )
    return manifest, arrays


def platform_info() -> dict[str, str]:
    """What bit-for-bit equality depends on: the kind of CPU and the versions of what computes."""
    import llvmlite
    import llvmlite.binding
    import numba

    return {
        "onebit": VERSION,
        "cpu": f"{platform.machine()} {llvmlite.binding.get_host_cpu_name()}",
        "python": ".".join(str(part) for part in sys.version_info[:2]),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
    }


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of one."""
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write into that takes its place when it is whole; where that fails, the old one stays. A pipe is written as it is."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as file:
                yield file
            return
        place = Path(os.path.realpath(path))  # a link stays, and what it leads to is replaced
        if place.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        temporary = place.with_name(f".{place.name[:50]}.{uuid.uuid4().hex}.part")
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(place.parent)
    except OSError as error:
        raise OnebitError(f"{path} cannot be written: {error.strerror or error}") from None


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk, too."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _checksum(manifest: dict[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
