"""Kernels that are kept between processes: one file each, in a folder named by a hash of all that goes into it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from onebit.engine import code_cache
from onebit.engine.reach import fingerprint

COMPILERS = ("numba", "numba-cuda", "llvmlite", "cuda-bindings", "cuda-core", "cuda-toolkit")
FOLDER, FILE = "gpu", "kernel.bin"


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Those of what compiles a kernel: every package of NVIDIA's has its part."""
    found = {one.metadata["Name"] or "": one.version for one in metadata.distributions()}
    return tuple(sorted((name, one) for name, one in found.items() if name in COMPILERS or name.startswith("nvidia-")))


def kept_kernel(plain: Callable[..., None], *facts: object) -> KeptKernel | None:
    """Where the kernel of a function is kept, whose names are all bound to plain functions and constants; None where nothing can be."""
    folder = code_cache.folder_for(fingerprint([plain], (), versions(), *facts), FOLDER)
    return None if folder is None else KeptKernel(folder / FILE)


class KeptKernel:
    """What numba-cuda asks for a kernel before it compiles one, and gives the one that it has compiled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def is_there(self) -> bool:
        """Whether one has been kept."""
        return self._path.exists()

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The kernel that is kept, or None. What cannot be read, for whatever reason, is built anew."""
        from numba.cuda.dispatcher import _Kernel

        try:
            kept = code_cache.kept_code(self._path.parent, self._path.name)
            return None if kept is None else _Kernel._rebuild(**pickle.loads(kept))
        except Exception:
            return None

    def save_overload(self, signature: Any, kernel: Any) -> None:
        """Keep a kernel; where that fails, it is built again by the next process."""
        code_cache.keep_code(self._path.parent, pickle.dumps(kernel._reduce_states()), self._path.name)
