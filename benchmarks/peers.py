"""What onebit is timed beside: the C loops of reference.c, Vowpal Wabbit, and Banditron written by hand over river.

Vowpal Wabbit is driven through its Python package: there may be no `vw` program. A Workspace that is given a file with `-d` has read all
of it when its constructor returns, as `vw` would; a pass from the binary cache needs the `-d` too. The parser is a thread of its own: the
CPU seconds are those of both. Features have names like f12: VW takes a name that is a number for the index itself, and `--cbify` then
mixes the weights of neighbours.
"""

from __future__ import annotations

import ctypes
import importlib.util
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measuring import Contender, Outcome, PeerMissingError
from benchmarks.workloads import SEED, Workload
from onebit.contract.draws import seed_key
from onebit.data.dataset import Csr

EPSILON = 0.05

# --- C ------------------------------------------------------------------------------------------------------------------

SOURCE = Path(__file__).with_name("reference.c")
OPTIONS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")


@cache
def compile_reference(folder: Path) -> ctypes.CDLL:
    """Compile reference.c into a folder, and load it."""
    if shutil.which("gcc") is None:
        raise PeerMissingError("there is no gcc")
    library = folder / "reference.so"
    subprocess.run(["gcc", *OPTIONS, str(SOURCE), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def c_pass(library: ctypes.CDLL, function: str, parameter: float, workload: Workload) -> Contender:
    """Return one of the loops over a stream, from weights of 0.

    That over sparse rows has the weights in the other order, and does not ask how many features there are.
    """
    rounds, features = workload.X.shape
    sparse = isinstance(workload.X, Csr)
    rows = (workload.X.data, workload.X.indices, workload.X.indptr) if sparse else (workload.X,)
    shape = (features, workload.classes) if sparse else (workload.classes, features)
    sizes = (rounds, workload.classes, features)[: 2 if sparse else 3]
    loop = getattr(library, function)
    loop.restype = ctypes.c_int64
    numbers = [*map(ctypes.c_int64, sizes), ctypes.c_double(parameter), ctypes.c_uint64(int(seed_key(SEED)))]

    def run() -> Outcome:
        arrays = (*rows, workload.y, np.zeros(shape, dtype=np.float32), np.zeros(workload.classes))
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        started = time.thread_time()
        mistakes = loop(*pointers, *numbers)
        return Outcome(time.thread_time() - started, mistakes / rounds)

    return run


# --- Vowpal Wabbit ------------------------------------------------------------------------------------------------------


def vw_pass(workload: Workload, folder: Path) -> Contender:
    """Return VW as an epsilon-greedy bandit (`--cbify`, mtr) over a stream, from its binary cache, which is made here."""
    if importlib.util.find_spec("vowpalwabbit") is None:
        raise PeerMissingError("vowpalwabbit is not installed")
    rows = vw_rows(workload, folder, seed=1)
    return lambda: run_vw(f"{rows} --epsilon {EPSILON} --cb_type mtr")


def vw_rows(workload: Workload, folder: Path, seed: int) -> str:
    """Write a stream as VW's binary cache, and return the options that name it."""
    text = folder / f"{workload.name}-{seed}.txt"
    write_text(workload, text)
    options = f"--cbify {workload.classes} --random_seed {seed} --quiet -d {text} --cache_file {text}.cache"
    run_vw(f"{options} -k")
    return options


def run_vw(options: str) -> Outcome:
    """Run VW once; its error is that of the labels played."""
    from vowpalwabbit import Workspace

    started = time.process_time()
    workspace = Workspace(options)
    mistakes, examples = workspace.get_sum_loss(), workspace.get_weighted_examples()
    workspace.finish()
    return Outcome(time.process_time() - started, mistakes / examples)


def write_text(workload: Workload, path: Path) -> None:
    """Write the rows as VW reads them, its labels counting from 1; it takes no notice of zeros, so that they are left out."""
    names = [f"f{column}:" for column in range(workload.X.shape[1])]
    with path.open("w", encoding="ascii") as file:
        for label, (columns, values) in zip((workload.y + 1).tolist(), _non_zeros(workload.X), strict=True):
            row = " ".join([f"{names[column]}{value:.7g}" for column, value in zip(columns, values, strict=True)])
            file.write(f"{label} | {row}\n")


def _non_zeros(X: Any) -> Iterator[tuple[list[int], list[float]]]:
    """Yield the columns and the values of each row that are not 0."""
    if isinstance(X, Csr):
        for first, last in pairwise(X.indptr.tolist()):
            yield X.indices[first:last].tolist(), X.data[first:last].tolist()
        return
    for row in X:
        columns = np.flatnonzero(row)
        yield columns.tolist(), row[columns].tolist()


# --- river --------------------------------------------------------------------------------------------------------------


class RiverDecision(NamedTuple):
    """What was played, what was thought best, and the features."""

    label: int
    greedy: int
    x: Any


class RiverBanditron:
    """Banditron over `river.utils.VectorDict`, one per class: of the ways tried with river 0.26 the fastest, since it is compiled."""

    def __init__(self, classes: int, exploration: float) -> None:
        if importlib.util.find_spec("river") is None:
            raise PeerMissingError("river is not installed")
        from river.utils import VectorDict

        self.vector = VectorDict
        self.classes, self.exploration = classes, exploration
        self.weights: list[Any] = [VectorDict() for _ in range(classes)]
        self.random = random.Random(0)

    def decide(self, features: dict[str, float]) -> RiverDecision:
        """Play the greedy label, ties at random, or explore."""
        x: Any = self.vector(features)
        scores = [weights @ x for weights in self.weights]
        top = max(scores)
        tied = [label for label, score in enumerate(scores) if score >= top]
        greedy = tied[0] if len(tied) == 1 else self.random.choice(tied)
        explores = self.random.random() < self.exploration
        return RiverDecision(self.random.randrange(self.classes) if explores else greedy, greedy, x)

    def learn(self, decision: RiverDecision, right: bool) -> None:
        """Make the perceptron step in expectation."""
        probability = self.exploration / self.classes
        if decision.label == decision.greedy:
            probability += 1.0 - self.exploration
        self.weights[decision.greedy] -= decision.x
        if right:
            self.weights[decision.label] += decision.x * (1.0 / probability)
