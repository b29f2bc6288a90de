"""Rounds per second of every rule, beside Vowpal Wabbit and plain C loops.

    python -m benchmarks throughput            # two minutes, and two more where no rule is compiled yet
    python -m benchmarks throughput --quick    # shorter streams

CPU seconds of one core, the best of five, contenders taking turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measuring import (
    FULL,
    QUICK,
    Contender,
    Effort,
    Measurement,
    PeerMissingError,
    Table,
    best_in_turns,
    measurement_table,
)
from benchmarks.peers import EPSILON, c_pass, compile_reference, vw_pass
from benchmarks.workloads import Workload, dense, onebit_pass, sparse
from onebit.errors import OnebitError
from onebit.rules import chosen_rules

SPEED = "million rounds/s"
AGGRESSIVENESS = 1.0
BANDITRON, CONSERVATIVE, LINUCB = "onebit, Banditron", "onebit, Conservative OVA", "onebit, LinUCB"
C_BANDITRON, C_CONSERVATIVE = "C loop, Banditron", "C loop, Conservative OVA"
VW = "VW, epsilon-greedy, from its binary cache"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--quick", action="store_true", help="shorter streams and fewer repetitions")


def measure(options: argparse.Namespace) -> list[Table]:
    """Time every rule, then the best-known ones beside their peers on dense and on sparse rows."""
    effort = QUICK if options.quick else FULL
    return [
        Table("Every rule, million rounds/s", time_rules(effort)),
        compare_with_peers("SynSep10, 10 classes and 100 dense features", dense(effort.rounds), effort),
        compare_with_peers("Sparse rows, 4 classes and 75 of 47,236 features", sparse(effort.rounds), effort),
    ]


def time_rules(effort: Effort) -> list[dict[str, Any]]:
    """Time every rule on dense and on sparse rows; what a rule refuses has no figure."""
    rows = []
    for rule in chosen_rules().values():
        row: dict[str, Any] = {"rule": rule.name}
        for workload in (dense(effort.rounds), sparse(effort.rounds)):
            try:
                walk = onebit_pass(rule.name, rule.examples[0], workload)
                row[workload.name] = workload.rounds / min(walk() for _ in range(effort.repeats)).seconds / 1e6
            except OnebitError:
                row[workload.name] = None
        rows.append(row)
    return rows


def compare_with_peers(title: str, workload: Workload, effort: Effort) -> Table:
    """Time the rules that C and VW have, taking turns; the C loops over sparse rows are Banditron's alone."""
    is_dense = workload is dense(effort.rounds)
    with TemporaryDirectory() as name:
        folder = Path(name)
        makers: dict[str, Callable[[], Contender]] = {
            BANDITRON: lambda: onebit_pass("banditron", {"exploration": EPSILON}, workload),
            C_BANDITRON: lambda: c_pass(
                compile_reference(folder), "banditron" if is_dense else "banditron_sparse", EPSILON, workload
            ),
            LINUCB: lambda: onebit_pass("linucb", {}, workload),
            VW: lambda: vw_pass(workload, folder),
        }
        if is_dense:
            makers[CONSERVATIVE] = lambda: onebit_pass("conservative-ova", {"aggressiveness": AGGRESSIVENESS}, workload)
            makers[C_CONSERVATIVE] = lambda: c_pass(
                compile_reference(folder), "conservative_ova", AGGRESSIVENESS, workload
            )
        found, missing = available_contenders(makers)
        best = best_in_turns(found, effort.repeats)
    measured = [
        Measurement(name, workload.rounds / one.seconds / 1e6, SPEED, f"error {100 * one.error:.2f} %")
        for name, one in best.items()
    ]
    for first, second in (
        (BANDITRON, C_BANDITRON),
        (CONSERVATIVE, C_CONSERVATIVE),
        (BANDITRON, VW),
        (CONSERVATIVE, VW),
        (LINUCB, VW),
    ):
        if first in best and second in best:
            measured.append(Measurement(f"{first} : {second}", best[second].seconds / best[first].seconds, "times"))
    return measurement_table(title, [*measured, *missing])


def available_contenders(
    makers: Mapping[str, Callable[[], Contender]],
) -> tuple[dict[str, Contender], list[Measurement]]:
    """Return the contenders that can run here, and a line for each that cannot."""
    found, missing = {}, []
    for name, make in makers.items():
        try:
            found[name] = make()
        except PeerMissingError as error:
            missing.append(Measurement(name, None, remark=str(error)))
    return found, missing
