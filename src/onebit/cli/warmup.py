"""Compile learners into the user's cache before their first use, so that nobody has to wait later."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np

from onebit.cli.options import add_rule_option
from onebit.cli.terminal import print_json
from onebit.contract.covariance import Covariance
from onebit.contract.options import Options
from onebit.contract.rule import Rule
from onebit.engine.compile import form_of, helped_by, is_compiled, loop_for
from onebit.engine.processes import CompilingProcesses, cores
from onebit.rules import chosen_rules, rule_named
from onebit.spaces.choose import Form, choose

FORMS = ((True, 1), (True, 1000), (False, 1))  # dense rows, narrow and wide, and sparse ones


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("rules", metavar="RULE", nargs="*", help="the learners to compile (default: all)")
    add_rule_option(command)
    command.add_argument("--dtype", choices=["float32", "float64"], default="float32", help="precision of the weights")


def execute(args: argparse.Namespace) -> None:
    """Compile the learners, and print how long it took."""
    rules = [rule_named(name) for name in args.rules] or args.own_rules or list(chosen_rules().values())
    rows = []
    for row in compile_all(rules, args.dtype, cores()):
        rows.append(row)
        if not args.json:
            how = "already compiled" if row["was_compiled"] else f"compiled in {row['seconds']:.1f} s"
            print(f"{row['rule']}, {row['space']}: {how}", flush=True)
    if args.json:
        print_json(rows, indent=2)


def compile_all(rules: Sequence[Rule], dtype: str, processes: int) -> Iterator[dict[str, object]]:
    """Compile every rule for all its spaces, several at a time; yield a report on each, in order."""
    helpers = CompilingProcesses()

    def compile_pair(pair: tuple[Rule, Any]) -> dict[str, object]:
        rule, space = pair
        was_compiled, started = is_compiled(rule, space), time.perf_counter()
        with helped_by(helpers):
            loop_for(rule, space)
        seconds = time.perf_counter() - started
        return {
            "rule": rule.name,
            "space": form_of(space),
            "dtype": dtype,
            "was_compiled": was_compiled,
            "seconds": seconds,
        }

    with ThreadPoolExecutor(processes) as pool, closing(helpers):
        yield from pool.map(compile_pair, [(rule, space) for rule in rules for space in build_spaces(rule, dtype)])


def build_spaces(rule: Rule, dtype: str) -> list[Any]:
    """Return a small space of every kind that a rule may have without a kernel."""
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
