"""Compile learners ahead of their first use, so that nobody waits for it later."""

from __future__ import annotations

import argparse
import json
import time

from onebit.contract.rule import Rule
from onebit.engine.compile import is_compiled, loop_for
from onebit.rules import registry, rule_named
from onebit.spaces.dense import Dense
from onebit.spaces.sparse import Sparse


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit warmup`."""
    command.add_argument("rules", metavar="RULE", nargs="*", help="the learners to compile (default: all)")
    command.add_argument("--dtype", choices=["float32", "float64"], default="float32", help="precision of the weights")
    command.add_argument("--json", action="store_true", help="print what was done as JSON")


def execute(chosen: argparse.Namespace) -> None:
    """Compile, and say how long it took."""
    rules = [rule_named(name) for name in chosen.rules] or list(registry().values())
    rows = []
    for rule in rules:
        for kind in (Dense, Sparse):
            row = compiled(rule, kind, chosen.dtype)
            rows.append(row)
            if not chosen.json:
                how = "was compiled already" if row["was_compiled"] else f"compiled in {row['seconds']:.1f} s"
                print(f"{row['rule']}, {row['space']}: {how}")
    if chosen.json:
        print(json.dumps(rows, indent=2))


def compiled(rule: Rule, kind: type[Dense] | type[Sparse], dtype: str) -> dict[str, object]:
    """Compile one pair; what was done."""
    space = kind.empty(1, 1, False, dtype)
    before = is_compiled(rule, space)
    started = time.perf_counter()
    loop_for(rule, space)
    seconds = time.perf_counter() - started
    return {
        "rule": rule.name,
        "space": kind.__name__.lower(),
        "dtype": dtype,
        "was_compiled": before,
        "seconds": seconds,
    }
