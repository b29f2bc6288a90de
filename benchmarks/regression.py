"""Speed and errors of every rule in one source tree over those in another, pass by pass in turn.

    git worktree add ../before v1.0.0rc1
    python -m benchmarks regression ../before/src src --pairs 15
    python -m benchmarks regression ../before/src src --only banditron auto

For every rule both trees walk the same rows in turn, each in a process of its own, first the one and then the other, and the next time
the other way round. A ratio is the speed of the second tree over that of the first in one such pair, by the CPU time of the loop
(`Result.rounds_per_second`), which leaves out reading and compiling. The table has the median over the pairs, and a 95 % interval for it
that assumes nothing of their distribution (from the ranks of the sorted ratios). A pass takes at least --seconds. Only `onebit.run` is
used, so that any two versions can be compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table
from onebit.errors import OnebitError
from onebit.rules import chosen_rules

CLASSES, FEATURES, ROWS = 10, 100, 4000
OPTIONS: dict[str, dict[str, Any]] = {
    "gaptron": {"rate": 0.1, "exploration": 0.1, "max_norm": 1.0},
    "newtron": {"radius": 10.0},
}

WORKER = f"""
import json, sys, warnings
import numpy as np
import onebit
warnings.simplefilter("ignore")
generator = np.random.default_rng(7)
X = generator.normal(size=({ROWS}, {FEATURES})).astype(np.float32)
X /= np.linalg.norm(X, axis=1, keepdims=True)
y = np.argmax(X @ generator.normal(size=({FEATURES}, {CLASSES})), axis=1)
print(json.dumps(onebit.__version__), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    result = onebit.run(asked["rule"], X, y, rounds=asked["rounds"], order="file", **asked["options"])
    print(json.dumps([asked["rounds"] / result.rounds_per_second, result.error]), flush=True)
"""


class Tree:
    """A source tree, and the process that runs it."""

    def __init__(self, source: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", WORKER],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(source.resolve()), os.environ.get("PYTHONPATH", "")]),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.version = self._answer()

    def seconds(self, rule: str, rounds: int) -> tuple[float, float]:
        """The CPU seconds of a pass, and its error."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"rule": rule, "rounds": rounds, "options": OPTIONS.get(rule, {})}) + "\n")
        self._process.stdin.flush()
        seconds, error = self._answer()
        return float(seconds), float(error)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OnebitError("a tree has ended: its error is above")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """The median, and the ends of a 95 % interval for it: the ranks between which a fair coin falls in 95 % of cases."""
    ordered, count = sorted(values), len(values)
    below, total = 0, 0.0
    while total + math.comb(count, below) / 2.0**count <= 0.025:
        total += math.comb(count, below) / 2.0**count
        below += 1
    low = max(0, below - 1)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2.0
    return middle, ordered[low], ordered[count - 1 - low]


def compare_rule(before: Tree, after: Tree, rule: str, pairs: int, least: float) -> dict[str, Any]:
    """The ratios of one rule."""
    rounds = 2000
    while before.seconds(rule, rounds)[0] < least:
        rounds *= 2
    after.seconds(rule, rounds)
    ratios, errors = [], []
    for pair in range(pairs):
        first, second = (before, after) if pair % 2 == 0 else (after, before)
        found = {tree: tree.seconds(rule, rounds) for tree in (first, second)}
        ratios.append(found[before][0] / found[after][0])
        errors.append(found[before][1] == found[after][1])
    median, low, high = median_interval(ratios)
    return {
        "rule": rule,
        "rounds": rounds,
        "median": f"{median:.3f}",
        "95 % from": f"{low:.3f}",
        "to": f"{high:.3f}",
        "same error": all(errors),
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("before", type=Path, help="the first tree: a folder with the package onebit in it")
    parser.add_argument("after", type=Path, help="the second tree")
    parser.add_argument("--pairs", type=int, default=15, metavar="N", help="of passes (default 15)")
    parser.add_argument("--seconds", type=float, default=0.2, metavar="S", help="of a pass, at least (default 0.2)")
    parser.add_argument("--only", nargs="+", metavar="RULE", help="some rules")


def measure(options: argparse.Namespace) -> list[Table]:
    """Compare the rules one after the other."""
    before, after = Tree(options.before), Tree(options.after)
    rows = []
    for name in options.only or chosen_rules():
        rows.append(compare_rule(before, after, name, options.pairs, options.seconds))
        print(rows[-1], file=sys.stderr, flush=True)
    before.close()
    after.close()
    title = f"Speed of {after.version} over {before.version}, {options.pairs} pairs, K = {CLASSES}, d = {FEATURES}"
    return [Table(title, rows)]
