"""Compile learners into the user's cache ahead of their first use, so that nobody has to wait later."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np

from onebit.cli.options import add_rule_option
from onebit.contract.covariance import Covariance
from onebit.contract.options import Options
from onebit.contract.rule import Rule
from onebit.engine.compile import compile_elsewhere, form_of, is_compiled, is_known, loop_for
from onebit.engine.processes import CompilingProcesses, cores
from onebit.rules import chosen_rules, rule_named
from onebit.spaces.choose import Form, choose

FORMS = ((True, 1), (True, 1000), (False, 1))  # dense rows, narrow and wide, and sparse ones


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit warmup`."""
    command.add_argument("rules", metavar="RULE", nargs="*", help="the learners to compile (default: all)")
    add_rule_option(command)
    command.add_argument("--dtype", choices=["float32", "float64"], default="float32", help="precision of the weights")
    command.add_argument("--json", action="store_true", help="print what was done as JSON")


def execute(chosen: argparse.Namespace) -> None:
    """Compile, and say how long it took."""
    rules = [rule_named(name) for name in chosen.rules] or chosen.own_rules or list(chosen_rules().values())
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
    pairs = [(rule, space) for rule in rules for space in spaces(rule, dtype)]
    new = [pair for pair in pairs if is_known(pair[0]) and not is_compiled(*pair)]
    if min(len(new), processes) < 2:
        yield from (compiled(rule, space, dtype) for rule, space in pairs)
        return
    pool = ThreadPoolExecutor(processes)
    try:
        with closing(CompilingProcesses(processes)) as others:
            coming = {id(pair): pool.submit(_seconds_elsewhere, others, *pair) for pair in new}
            for pair in pairs:
                yield compiled(*pair, dtype, coming[id(pair)].result() if id(pair) in coming else None)
    finally:
        pool.shutdown(cancel_futures=True)


def _seconds_elsewhere(others: CompilingProcesses, rule: Rule, space: Any) -> float:
    """Have another process compile a pair; how long that took."""
    started = time.perf_counter()
    compile_elsewhere(others, rule, space, rule.title)
    return time.perf_counter() - started


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
    choice = choose(rule, Options())
    heads = rule.heads(params)
    return [choice.blueprint(settled, form, heads, heads).make() for settled, form in ways]


def compiled(rule: Rule, space: Any, dtype: str, elsewhere_s: float | None = None) -> dict[str, object]:
    """Compile one pair, at which another process was for so long if it was; what was done."""
    before = elsewhere_s is None and is_compiled(rule, space)
    started = time.perf_counter()
    loop_for(rule, space)
    seconds = time.perf_counter() - started + (elsewhere_s or 0.0)
    return {
        "rule": rule.name,
        "space": form_of(space),
        "dtype": dtype,
        "was_compiled": before,
        "seconds": seconds,
    }
