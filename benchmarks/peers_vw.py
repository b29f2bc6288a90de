"""Vowpal Wabbit as a bandit (`--cbify`, epsilon-greedy, mtr), driven through its Python package: there may be no `vw` program.

A Workspace that is given a file with `-d` has read all of it when its constructor returns, as `vw` would. A pass from the binary
cache needs the `-d` too, or nothing is read. The parser is a thread of its own: the CPU seconds are those of both. Features have
names like f12: VW takes a name that is a number for the index itself, and `--cbify` then mixes the weights of neighbours.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.measuring import Outcome, PeerMissingError
from benchmarks.workloads import Workload

from onebit.data.tables import Csr

EPSILON = 0.05


class VowpalWabbit:
    """VW on the rows of a workload, from a text file written here and from the binary cache that VW makes of it."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        if importlib.util.find_spec("vowpalwabbit") is None:
            raise PeerMissingError("vowpalwabbit is not installed")
        text = folder / f"{workload.name}.txt"
        write_text(workload, text)
        learner = f"--cbify {workload.classes} --epsilon {EPSILON} --cb_type mtr"
        self.from_text = f"{learner} --quiet --random_seed 1 -d {text}"
        self.from_cache = f"{self.from_text} --cache_file {text}.cache"
        run(f"{self.from_cache} -k")

    def text_pass(self) -> Outcome:
        """Read the text and learn."""
        return run(self.from_text)

    def cached_pass(self) -> Outcome:
        """Read the cache and learn."""
        return run(self.from_cache)


def run(options: str) -> Outcome:
    """One run of VW; its error is that of the labels played."""
    from vowpalwabbit import Workspace

    started = time.process_time()
    workspace = Workspace(options)
    mistakes, examples = workspace.get_sum_loss(), workspace.get_weighted_examples()
    workspace.finish()
    return Outcome(time.process_time() - started, mistakes / examples)


def write_text(workload: Workload, path: Path) -> None:
    """The rows as VW reads them, its labels counting from 1; it takes no notice of zeros, so that they are left out."""
    names = [f"f{column}:" for column in range(workload.X.shape[1])]
    with path.open("w", encoding="ascii") as file:
        for label, (columns, values) in zip((workload.y + 1).tolist(), _filled(workload.X), strict=True):
            row = " ".join([f"{names[column]}{value:.7g}" for column, value in zip(columns, values, strict=True)])
            file.write(f"{label} | {row}\n")


def _filled(X: Any) -> Iterator[tuple[list[int], list[float]]]:
    """The columns and the values of each row that are not 0."""
    if isinstance(X, Csr):
        for first, last in pairwise(X.indptr.tolist()):
            yield X.indices[first:last].tolist(), X.data[first:last].tolist()
        return
    for row in X:
        columns = np.flatnonzero(row)
        yield columns.tolist(), row[columns].tolist()
