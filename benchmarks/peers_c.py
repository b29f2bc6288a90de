"""The C loops of reference.c, compiled by gcc when they are asked for and called once for a whole stream."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.measuring import Contender, Outcome, PeerMissingError
from benchmarks.workloads import SEED, Workload
from numpy.typing import NDArray

from onebit.contract.draws import key_of
from onebit.data.tables import Csr

SOURCE = Path(__file__).with_name("reference.c")
OPTIONS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")


@cache
def compiled(folder: Path) -> ctypes.CDLL:
    """The library of reference.c."""
    if shutil.which("gcc") is None:
        raise PeerMissingError("there is no gcc")
    library = folder / "reference.so"
    subprocess.run(["gcc", *OPTIONS, str(SOURCE), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def c_pass(library: ctypes.CDLL, function: str, parameter: float, workload: Workload) -> Contender:
    """One of the loops over a stream, from weights of 0; that over sparse rows has them in the other order, and asks not how many features there are."""
    rounds, features = workload.X.shape
    sparse = isinstance(workload.X, Csr)
    rows = (workload.X.data, workload.X.indices, workload.X.indptr) if sparse else (workload.X,)
    shape = (features, workload.classes) if sparse else (workload.classes, features)
    sizes = (rounds, workload.classes, features)[: 2 if sparse else 3]

    def run() -> Outcome:
        weights, scores = np.zeros(shape, dtype=np.float32), np.zeros(workload.classes)
        return _timed(library, function, (*rows, workload.y, weights, scores), sizes, (parameter,), rounds)

    return run


def c_kernel_pass(
    library: ctypes.CDLL, workload: Workload, gamma: float, budget: int, exploration: float, merges: bool
) -> Contender:
    """Banditron with an RBF kernel and a budget over a stream."""
    rounds, features = workload.X.shape
    sizes = (rounds, workload.classes, features, budget, int(merges))

    def run() -> Outcome:
        weights, scores = np.zeros((budget, workload.classes), dtype=np.float32), np.zeros(workload.classes)
        stored, memory = np.zeros((budget, features), dtype=np.float32), np.zeros((3, budget))
        arrays = (workload.X, workload.y, weights, scores, stored, memory)
        return _timed(library, "banditron_kernel", arrays, sizes, (gamma, exploration), rounds)

    return run


def _timed(
    library: ctypes.CDLL,
    function: str,
    arrays: Sequence[NDArray[Any]],
    sizes: Sequence[int],
    parameters: Sequence[float],
    rounds: int,
) -> Outcome:
    """Call a loop, which gives its mistakes."""
    loop = getattr(library, function)
    loop.restype = ctypes.c_int64
    given = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    numbers = [*map(ctypes.c_int64, sizes), *map(ctypes.c_double, parameters), ctypes.c_uint64(int(key_of(SEED)))]
    started = time.thread_time()
    mistakes = loop(*given, *numbers)
    return Outcome(time.thread_time() - started, mistakes / rounds)
