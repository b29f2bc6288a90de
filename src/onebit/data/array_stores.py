"""Arrays that grow block by block while a file is read or rows are prepared: in memory, or in the .npy files of a folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from onebit.errors import InputError

ArrayBlock = dict[str, NDArray[Any]]
RESERVE = 256 << 20  # bytes that are left free on a disk


class MemoryStore:
    """Arrays that fit into memory."""

    def __init__(self) -> None:
        self._parts: dict[str, list[NDArray[Any]]] = {}

    def clear(self) -> None:
        self._parts = {}

    def append(self, block: ArrayBlock) -> None:
        """Append to the end of each array."""
        for name, part in block.items():
            self._parts.setdefault(name, []).append(np.ascontiguousarray(part))

    def array(self, name: str) -> NDArray[Any]:
        """Return an array, complete and writable."""
        parts = self._parts[name]
        if len(parts) > 1:
            whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=parts[0].dtype)
            end = len(whole)
            while parts:  # each part is let go of as soon as it is copied
                part = parts.pop()
                whole[end - len(part) : end] = part
                end -= len(part)
            parts.append(whole)
        return parts[0]

    def replace(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a new array of the same dtype that takes the place of another."""
        self._parts[name] = [np.empty(shape, dtype=self.array(name).dtype)]
        return self._parts[name][0]

    def finish(self) -> dict[str, NDArray[Any]]:
        """Return all arrays."""
        return {name: self.array(name) for name in self._parts}


class FileStore:
    """Arrays in a folder, each in a .npy file that gets its name when all are complete; `purpose` is for a sentence."""

    def __init__(self, folder: Path, purpose: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._purpose = folder, purpose
        self._files: dict[str, IO[bytes]] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}

    def clear(self) -> None:
        for name in self._dtypes:
            self._close(name)
            self._path(name).unlink()
        self._dtypes.clear()

    def append(self, block: ArrayBlock) -> None:
        """Append to the end of each array."""
        self._require_space(sum(part.nbytes for part in block.values()))
        for name, part in block.items():
            if name not in self._files:
                self._files[name] = self._path(name).open("w+b")
                self._dtypes[name], self._shapes[name] = part.dtype, (0, *part.shape[1:])
                self._write_header(name)
            self._shapes[name] = (self._shapes[name][0] + len(part), *part.shape[1:])
            self._files[name].write(np.ascontiguousarray(part).data)

    def array(self, name: str) -> NDArray[Any]:
        """Return an array, complete and writable."""
        self._close(name)
        return npy.open_memmap(self._path(name), mode="r+")

    def replace(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a new array of the same dtype that takes the place of another; whoever has mapped that one keeps it."""
        self._close(name)
        self._require_space(int(np.prod(shape)) * self._dtypes[name].itemsize)
        self._path(name).unlink()
        return npy.open_memmap(self._path(name), mode="w+", dtype=self._dtypes[name], shape=shape)

    def finish(self) -> dict[str, NDArray[Any]]:
        """Give all files their names, and return their arrays, mapped."""
        for name in self._dtypes:
            self._close(name)
        paths = {name: self._path(name).replace(self._folder / f"{name}.npy") for name in self._dtypes}
        return {name: np.load(path, mmap_mode="r") for name, path in paths.items()}

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.npy.part"

    def _close(self, name: str) -> None:
        if name in self._files:
            self._files[name].seek(0)
            self._write_header(name)
            self._files.pop(name).close()

    def _write_header(self, name: str) -> None:
        # NumPy leaves room in it for the first number of the shape to grow.
        about = {"descr": npy.dtype_to_descr(self._dtypes[name]), "fortran_order": False, "shape": self._shapes[name]}
        npy.write_array_header_1_0(self._files[name], about)

    def _require_space(self, coming: int) -> None:
        if shutil.disk_usage(self._folder).free < coming + RESERVE:
            raise no_space(self._folder, self._purpose)


ArrayStore = MemoryStore | FileStore


def no_space(folder: Path, purpose: str) -> InputError:
    """Return the refusal of what does not fit onto a disk."""
    return InputError(
        f"there is not enough space in {folder} {purpose}: make room, or let ONEBIT_CACHE name a folder on another disk"
    )
