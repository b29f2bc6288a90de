"""The C loops of reference.c, compiled by gcc when they are asked for and called once for a whole stream."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

import numpy as np
from benchmarks.measuring import Contender, Outcome, PeerMissingError
from benchmarks.workloads import SEED, Workload

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
    loop = getattr(library, function)
    loop.restype = ctypes.c_int64
    rounds, features = workload.X.shape
    key = ctypes.c_uint64(int(key_of(SEED)))
    sparse = isinstance(workload.X, Csr)
    rows = (workload.X.data, workload.X.indices, workload.X.indptr) if sparse else (workload.X,)
    shape = (features, workload.classes) if sparse else (workload.classes, features)

    def run() -> Outcome:
        weights = np.zeros(shape, dtype=np.float32)
        scores = np.zeros(workload.classes)
        arrays = [ctypes.c_void_p(array.ctypes.data) for array in (*rows, workload.y, weights, scores)]
        sizes = [ctypes.c_int64(size) for size in (rounds, workload.classes, features)[: 2 if sparse else 3]]
        started = time.thread_time()
        mistakes = loop(*arrays, *sizes, ctypes.c_double(parameter), key)
        return Outcome(time.thread_time() - started, mistakes / rounds)

    return run
