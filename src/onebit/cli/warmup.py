"""Compile learners into the user's cache ahead of their first use, so that nobody has to wait later."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from onebit.cli.options import add_rule_option
from onebit.contract.covariance import Covariance
from onebit.contract.rule import Rule
from onebit.engine.compile import form_of, is_compiled, loop_for
from onebit.rules import registry, rule_named, usual_rules
from onebit.spaces.choose import USUAL, Form, choose
from onebit.trials.trial import cores

FORMS = ((True, 1), (True, 1000), (False, 1))  # dense rows, narrow and wide, and sparse ones


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit warmup`."""
    command.add_argument("rules", metavar="RULE", nargs="*", help="the learners to compile (default: all but auto-0.3)")
    add_rule_option(command)
    command.add_argument("--dtype", choices=["float32", "float64"], default="float32", help="precision of the weights")
    command.add_argument("--json", action="store_true", help="print what was done as JSON")


def execute(chosen: argparse.Namespace) -> None:
    """Compile, and say how long it took."""
    rules = [rule_named(name) for name in chosen.rules] or chosen.own_rules or list(usual_rules().values())
    rows = []
    for row in all_compiled(rules, chosen.dtype, cores()):
        rows.append(row)
        if not chosen.json:
            how = "was compiled already" if row["was_compiled"] else f"compiled in {row['seconds']:.1f} s"
            print(f"{row['rule']}, {row['space']}: {how}", flush=True)
    if chosen.json:
        print(json.dumps(rows, indent=2))


def all_compiled(rules: Sequence[Rule], dtype: str, processes: int) -> Iterator[dict[str, object]]:
    """Compile every pair of these rules; what was done, rule by rule. Those that are new to the machine are shared out over processes."""
    known = registry()
    new = [rule.name for rule in rules if known.get(rule.name) is rule and not _ready(rule, dtype)]
    if min(len(new), processes) < 2:
        yield from (row for rule in rules for row in compiled_pairs(rule, dtype))
        return
    with ProcessPoolExecutor(min(len(new), processes), get_context("spawn")) as pool:
        coming = {name: pool.submit(compiled_by_name, name, dtype) for name in new}
        for rule in rules:
            yield from coming[rule.name].result() if rule.name in coming else compiled_pairs(rule, dtype)


def _ready(rule: Rule, dtype: str) -> bool:
    return all(is_compiled(rule, space) for space in spaces(rule, dtype))


def compiled_by_name(name: str, dtype: str) -> list[dict[str, object]]:
    """Compile every pair of a rule of onebit's, in a process that has been given its name."""
    return compiled_pairs(rule_named(name), dtype)


def compiled_pairs(rule: Rule, dtype: str) -> list[dict[str, object]]:
    """Compile every pair of a rule; what was done."""
    return [compiled(rule, space, dtype) for space in spaces(rule, dtype)]


def spaces(rule: Rule, dtype: str) -> list[Any]:
    """A small space of every kind that the rule may have without a kernel."""
    params, _ = rule.settle(2, rule.examples[0])
    narrow, wide, sparse = (Form(dense, columns, False, np.dtype(dtype)) for dense, columns in FORMS)
    if rule.composite:
        ways = [(params, narrow), (params, wide), (params, sparse)]
    elif rule.second_order is not None:
        diagonal, full = (params._replace(matrix=int(kind)) for kind in (Covariance.DIAGONAL, Covariance.FULL))
        ways = [(diagonal, narrow), (full, narrow), (diagonal, sparse)]
    else:
        ways = [(params, narrow), (params, sparse)]
    choice = choose(rule, bias=False, seed=0, kernel=None, max_support=USUAL, when_full="merge")
    heads = rule.heads(params)
    return [choice.blueprint(settled, form, heads, heads).make() for settled, form in ways]


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
