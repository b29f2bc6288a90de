"""Compile learners ahead of their first use, so that nobody waits for it later."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from onebit.auto.dense import AutoDense
from onebit.auto.sparse import AutoSparse
from onebit.contract.rule import Rule
from onebit.engine.compile import form_of, is_compiled, loop_for
from onebit.rules import registry, rule_named
from onebit.spaces.dense import Dense
from onebit.spaces.diagonal_dense import DiagonalDense
from onebit.spaces.diagonal_sparse import DiagonalSparse
from onebit.spaces.full_dense import FullDense
from onebit.spaces.joint_dense import JointDense
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
        for space in spaces(rule, chosen.dtype):
            row = compiled(rule, space, chosen.dtype)
            rows.append(row)
            if not chosen.json:
                how = "was compiled already" if row["was_compiled"] else f"compiled in {row['seconds']:.1f} s"
                print(f"{row['rule']}, {row['space']}: {how}")
    if chosen.json:
        print(json.dumps(rows, indent=2))


def spaces(rule: Rule, dtype: str) -> list[Any]:
    """A small space of every kind that the rule may have."""
    if rule.second_order is None:
        return [kind.empty(1, 1, False, dtype) for kind in (Dense, Sparse)]
    order = rule.second_order(rule.settle(2, {})[0])
    if rule.composite:
        dense = [AutoDense.planned(2, features, dtype, order, 0, 2) for features in (1, 1000)]
        return [*dense, AutoSparse.planned(2, 1, dtype)]
    kinds = (DiagonalDense, JointDense if order.joint else FullDense, DiagonalSparse)
    return [kind.ordered(2, 1, False, dtype, order) for kind in kinds]


def compiled(rule: Rule, space: Any, dtype: str) -> dict[str, object]:
    """Compile one pair; what was done."""
    before = is_compiled(rule, space)
    started = time.perf_counter()
    loop_for(rule, space)
    seconds = time.perf_counter() - started
    return {
        "rule": rule.name,
        "space": form_of(space),
        "dtype": dtype,
        "was_compiled": before,
        "seconds": seconds,
    }
