"""Vowpal Wabbit as a bandit (`--cbify`, epsilon-greedy, mtr), through its Python package, which has no `vw` program.

A Workspace that is given a file with `-d` reads all of it before its constructor returns, as `vw` would; `-d` must be there for
a pass from the binary cache too, or nothing is read. The parser is a thread of its own: CPU seconds count both. Features have
names like f12: VW takes a name that is a number as the index itself, and `--cbify` then mixes the weights of neighbours.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

from benchmarks.measuring import Contender, Outcome, Unavailable
from benchmarks.workloads import Workload
from onebit.data.sources import Csr

EPSILON = 0.05


def write_text(workload: Workload, path: Path) -> None:
    """The rows as VW reads them, its labels counting from 1."""
    labels = (workload.y + 1).tolist()
    with path.open("w", encoding="ascii") as file:
        if isinstance(workload.X, Csr):
            tokens = [f"f{column}:{workload.X.data[0]:.7g}" for column in range(workload.X.shape[1])]
            columns = workload.X.indices.reshape(workload.rounds, -1)
            for label, row in zip(labels, columns, strict=True):
                file.write(f"{label} | {' '.join([tokens[column] for column in row.tolist()])}\n")
        else:
            form = "%d | " + " ".join(f"f{column}:%.7g" for column in range(workload.X.shape[1])) + "\n"
            for label, row in zip(labels, workload.X, strict=True):
                file.write(form % (label, *row.tolist()))


def text_pass(workload: Workload, text: Path) -> Contender:
    """Read the text file and learn from it."""
    return _pass(f"{_options(workload)} -d {text}")


def cached_pass(workload: Workload, text: Path) -> Contender:
    """Read the binary cache, made here from the text file, and learn from it."""
    options = f"{_options(workload)} -d {text} --cache_file {text}.cache"
    _pass(f"{options} -k")()
    return _pass(options)


def _options(workload: Workload) -> str:
    return f"--quiet --random_seed 1 --cbify {workload.classes} --epsilon {EPSILON} --cb_type mtr"


def _pass(options: str) -> Contender:
    if importlib.util.find_spec("vowpalwabbit") is None:
        raise Unavailable("vowpalwabbit is not installed")
    from vowpalwabbit import Workspace

    def run() -> Outcome:
        started = time.process_time()
        workspace = Workspace(options)
        mistakes, examples = workspace.get_sum_loss(), workspace.get_weighted_examples()
        workspace.finish()
        return Outcome(time.process_time() - started, mistakes / examples)

    return run
