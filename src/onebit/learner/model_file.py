"""The file format of a learner: arrays and a JSON manifest as safetensors, without pickle.

Nothing is executed on loading. The manifest holds everything that is not an array, and a checksum over all of it
and all arrays; a truncated or altered file is refused. Anyone can compute a checksum anew, so it is no defence
against attacks: whatever is read is also validated (`state.require_manifest`, and `layout` of every space) before
anything is allocated or created from it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.files import write_atomically
from onebit.contract.validation import is_whole_number
from onebit.errors import InputError, OnebitError, OnebitWarning, brief
from onebit.version import VERSION

FORMAT = 4
Arrays = dict[str, NDArray[Any]]
# Errors that safetensors raises for shapes and dtypes that NumPy does not support.
_UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, MemoryError)


def encode_file(manifest: dict[str, Any], arrays: Arrays) -> bytes:
    """Return the content of a learner file: the manifest with a checksum, and the arrays."""
    import safetensors.numpy

    signed_manifest = {**manifest, "checksum": _compute_checksum(manifest, arrays)}
    content: bytes = safetensors.numpy.save(arrays, metadata={"onebit": json.dumps(signed_manifest)})
    return content


def write_file(manifest: dict[str, Any], arrays: Arrays, path: Any) -> None:
    write_atomically(Path(path), encode_file(manifest, arrays))


@contextmanager
def name_file_in_errors(path: Any) -> Iterator[None]:
    """Add the file's name to errors raised inside."""
    try:
        yield
    except OnebitError as error:
        raise InputError(f"{path} cannot be used: {error}") from None


def read_file(path: Any) -> tuple[dict[str, Any], Arrays]:
    """Read a learner file from disk; return its manifest and arrays, verified by the checksum."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    return decode_file(content, str(path))


def decode_file(content: bytes, source: str = "the content") -> tuple[dict[str, Any], Arrays]:
    """Return the manifest and the arrays of a learner file, verified; errors name `source`."""
    import safetensors
    import safetensors.numpy

    try:
        arrays = safetensors.numpy.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        text = header.get("__metadata__", {}).get("onebit")
    except (safetensors.SafetensorError, RecursionError, *_UNREADABLE) as error:
        raise InputError(f"{source} is not a learner file, or is incomplete: {error}") from None
    return _verify(text, arrays, source)


def _verify(text: str | None, arrays: Arrays, path: str) -> tuple[dict[str, Any], Arrays]:
    """Parse the manifest and check format and checksum; warn if it was written on another machine."""
    if text is None:
        raise InputError(f"{path} is not a learner: it has no onebit manifest")
    try:
        manifest = json.loads(text)
        checksum = manifest.pop("checksum")
    except (ValueError, KeyError, AttributeError, TypeError, IndexError, RecursionError):
        raise InputError(f"{path} is damaged: its manifest cannot be read") from None
    if is_whole_number(manifest.get("format"), FORMAT + 1):
        raise InputError(f"{path} was written by a newer onebit ({brief(manifest.get('version'))}); this is {VERSION}")
    if manifest.get("format") != FORMAT:
        raise InputError(f"{path} has format {brief(manifest.get('format'))}, but this version reads format {FORMAT}")
    try:
        is_intact = checksum == _compute_checksum(manifest, arrays)
    except RecursionError:
        raise InputError(f"{path} is damaged: its manifest is nested too deeply") from None
    if not is_intact:
        raise InputError(f"{path} is damaged: its content does not match its checksum")
    with name_file_in_errors(path):
        for name, array in arrays.items():
            _require_finite(name, array)
    machine = manifest.get("machine")
    differences = [
        f"{name} {brief(machine.get(name))} there, {value} here"
        for name, value in platform_info().items()
        if isinstance(machine, dict) and machine.get(name) != value
    ]
    if differences:
        warnings.warn(
            f"{path} was saved on another machine ({'; '.join(differences)}): results agree up to rounding, not bit for bit",
            OnebitWarning,
            stacklevel=4,
        )
    return manifest, arrays


def _require_finite(name: str, array: NDArray[Any]) -> None:
    """Raise InputError for an array with NaN or infinity, which would spread to every score."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        number = array[~np.isfinite(array)].flat[0]
        raise InputError(f"the array {brief(name)} has the value {number}, but all numbers must be finite")


def platform_info() -> dict[str, str]:
    """Return the kind of CPU and the library versions, on which bit-for-bit equality depends."""
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


def _compute_checksum(manifest: dict[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
