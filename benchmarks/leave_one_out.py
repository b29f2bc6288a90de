"""Are the constants of `auto` fitted to the data it was built on? Each is chosen on all streams but one, and judged on that one.

    python benchmarks/leave_one_out.py [--json FILE]

For every constant three values are tried, the one in the code in the middle. For every stream the value with the lowest mean rank on all
other streams is taken, and its error on that stream is set beside that of the value in the code and of the best in hindsight. If
choosing on the others does as well as the code does, the code was not fitted to the stream. Each value is another compilation, so
each runs in a process of its own. One core; about ten minutes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from benchmarks.auto import TARGETS, Problem
from benchmarks.unseen import UNSEEN

from onebit.experiments.run import run

SEEDS = 2
ROUNDS = {"digits": 2000, "iris": 300, "satimage": 4000, "usps": 3000, "synsep10": 15_000, "synnonsep10": 15_000}
SMALLER = {"100 Gaussians": 10_000, "waveform": 2000, "LED display": 2000, "blobs, 2 features, 12 classes": 2000}
DENSE = (*ROUNDS, "ecoli", *SMALLER)
SPARSE = ("20newsgroups, counts", "20newsgroups, binary", "topics, sparse")
# Where a constant lives, under which names it was imported elsewhere, the values, and the streams that it plays a part in.
CONSTANTS: dict[str, tuple[tuple[str, ...], tuple[float, ...], tuple[str, ...]]] = {
    "START": (("onebit.auto.dense.linear",), (30.0, 100.0, 300.0), DENSE),
    "EVENLY": (("onebit.auto.dense.laplace",), (0.03, 0.1, 0.3), DENSE),
    "SLOWER": (("onebit.auto.dense.mixture",), (1.1, 1.3, 2.0), DENSE),
    "BACKGROUND": (
        tuple(f"onebit.auto.sparse.{room}" for room in ("arrays", "scoring", "learning")),
        (5.0, 10.0, 20.0),
        SPARSE,
    ),
}


def problems() -> dict[str, Problem]:
    """Every stream there is, by name."""
    named = {problem.name: problem for problem in TARGETS}
    return named | {name: Problem(name, recipe) for name, recipe in UNSEEN.items()}


def errors(constant: str, value: float) -> dict[str, float]:
    """The error on every stream that the constant plays a part in, with this value; in this process, once."""
    modules, _, streams = CONSTANTS[constant]
    for module in modules:
        setattr(importlib.import_module(module), constant, value)
    known, found = problems(), {}
    for name in streams:
        rounds = {**ROUNDS, **SMALLER}.get(name)
        result = run("auto", known[name].stream(rounds), runs=SEEDS, seed=2000, threads=1)
        found[name] = 100.0 * result.error
    return found


@cache
def in_the_code(streams: tuple[str, ...]) -> dict[str, float]:
    """The same with all constants as they are."""
    constant = next(name for name, (_, _, those) in CONSTANTS.items() if those == streams)
    return elsewhere(constant, CONSTANTS[constant][1][1])


def elsewhere(constant: str, value: float) -> dict[str, float]:
    """The errors with one constant changed, in a process of its own."""
    command = [sys.executable, __file__, "--one", constant, str(value)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def judged(table: dict[float, dict[str, float]], usual: float) -> dict[str, Any]:
    """For every stream: the value chosen on the others, and the errors of that, of the code's and of the best."""
    values, streams = list(table), list(table[usual])
    grid = np.array([[table[value][name] for name in streams] for value in values])
    ranks = grid.argsort(axis=0).argsort(axis=0)
    found = {}
    for place, name in enumerate(streams):
        chosen = values[int(np.delete(ranks, place, axis=1).mean(axis=1).argmin())]
        best = float(grid[:, place].min())
        found[name] = {"chosen": chosen, "error": table[chosen][name], "code": table[usual][name], "best": best}
    return found


def main() -> None:
    """Try everything, and print a table for each constant."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--one", nargs=2, metavar=("CONSTANT", "VALUE"), help=argparse.SUPPRESS)
    reader.add_argument("--json", type=Path, help="write the numbers into this file")
    chosen = reader.parse_args()
    if chosen.one:
        print(json.dumps(errors(chosen.one[0], float(chosen.one[1]))))
        return
    everything = {}
    for constant, (_, values, streams) in CONSTANTS.items():
        low, usual, high = values
        table = {low: elsewhere(constant, low), usual: in_the_code(streams), high: elsewhere(constant, high)}
        everything[constant] = judged(table, values[1])
        print(f"\n{constant} of {', '.join(f'{value:g}' for value in values)} (the code has {values[1]:g})\n")
        print("| stream | chosen on the others | error | with the code's | best |")
        print("|---|---:|---:|---:|---:|")
        for name, row in everything[constant].items():
            print(
                f"| {name} | {row['chosen']:g} | {row['error']:.2f} | {row['code']:.2f} | {row['best']:.2f} |",
                flush=True,
            )
        if chosen.json:
            chosen.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
