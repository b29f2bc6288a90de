"""Whether a change has made a rule slower: two source trees side by side, pass by pass, each in a process of its own.

    git worktree add ../before v0.3.0
    python benchmarks/regression.py ../before/src src --pairs 15
    python benchmarks/regression.py ../before/src src --only banditron soba --json ratios.json

For every rule both trees walk the same rows in turn, first the one and then the other, and the next time the other way round. A ratio
is the speed of the second tree over that of the first in one such pair, by the CPU time of the loop (`Result.rounds_per_second`), which leaves out
reading and compiling. The table has the median over the pairs, and a 95 % interval for it that assumes nothing of their distribution (from the
ranks of the sorted ratios). A pass takes at least --seconds. Only `onebit.run` is used, so that any two versions can be compared.
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

from rich.console import Console
from rich.table import Table

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
            raise SystemExit("a tree has ended: its error is above")
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


def compared(before: Tree, after: Tree, rule: str, pairs: int, least: float) -> dict[str, Any]:
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
    return {"rule": rule, "rounds": rounds, "median": median, "low": low, "high": high, "same error": all(errors)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    names = chosen.only or _names()
    before, after = Tree(chosen.before), Tree(chosen.after)
    table = Table(
        title=f"speed of {after.version} over {before.version}, {chosen.pairs} pairs, K = {CLASSES}, d = {FEATURES}"
    )
    for column in ("rule", "rounds", "median", "95 % from", "to", "same error"):
        table.add_column(column, justify="left" if column == "rule" else "right")
    rows = []
    for name in names:
        row = compared(before, after, name, chosen.pairs, chosen.seconds)
        rows.append(row)
        numbers = (f"{row[key]:.3f}" for key in ("median", "low", "high"))
        table.add_row(name, f"{row['rounds']:,}", *numbers, "yes" if row["same error"] else "NO")
        print(row, file=sys.stderr, flush=True)
    before.close()
    after.close()
    Console().print(table)
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1))


def _names() -> list[str]:
    from onebit.rules import chosen_rules

    return list(chosen_rules())


if __name__ == "__main__":
    main()
