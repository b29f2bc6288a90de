"""Whole streams: every rule, and the best-known ones against Vowpal Wabbit and against a C loop."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import (
    Bar,
    Contender,
    Effort,
    Measurement,
    Outcome,
    PeerMissingError,
    at_least,
    interleaved,
    onebit_command,
)
from benchmarks.peers_c import c_pass, compiled
from benchmarks.peers_vw import EPSILON, VowpalWabbit
from benchmarks.workloads import Workload, dense, onebit_pass, sparse

from onebit.errors import OnebitError
from onebit.rules import chosen_rules

SPEED = "million rounds/s"
AGGRESSIVENESS = 1.0

BANDITRON = "onebit, Banditron"
CONSERVATIVE = "onebit, Conservative OVA"
C_BANDITRON = "C loop, Banditron"
C_CONSERVATIVE = "C loop, Conservative OVA"
VW = "VW, epsilon-greedy"
END_TO_END = "file to error rate"


def rules(effort: Effort) -> list[Measurement]:
    """Every rule on dense and on sparse rows."""
    measured = []
    for rule in chosen_rules().values():
        for workload in (dense(effort.rounds), sparse(effort.rounds)):
            name = f"{rule.name}, {workload.name}"
            try:
                run = onebit_pass(rule.name, rule.examples[0], workload)
                measured.append(speed(name, workload, min(run() for _ in range(effort.repeats))))
            except OnebitError as error:
                measured.append(Measurement(name, None, SPEED, remark=str(error)))
    return measured


def peers(effort: Effort) -> list[Measurement]:
    """Banditron and Conservative OVA on SynSep10 against C and VW."""
    workload = dense(effort.rounds)
    with TemporaryDirectory() as name:
        folder = Path(name)
        vowpal_wabbit = cache(lambda: VowpalWabbit(workload, folder))
        found, missing = present(
            {
                BANDITRON: lambda: onebit_pass("banditron", {"exploration": EPSILON}, workload),
                C_BANDITRON: lambda: c_pass(compiled(folder), "banditron", EPSILON, workload),
                CONSERVATIVE: lambda: onebit_pass("conservative-ova", {"aggressiveness": AGGRESSIVENESS}, workload),
                C_CONSERVATIVE: lambda: c_pass(compiled(folder), "conservative_ova", AGGRESSIVENESS, workload),
                VW: lambda: vowpal_wabbit().cached_pass,
            }
        )
        best = interleaved(found, effort.repeats)
        return [
            *(speed(contender, workload, outcome) for contender, outcome in best.items()),
            *missing,
            *ratio("onebit : VW, Banditron", best, BANDITRON, VW, at_least(40)),
            *ratio("onebit : VW, Conservative OVA", best, CONSERVATIVE, VW, at_least(40)),
            *ratio("onebit : C, Banditron", best, BANDITRON, C_BANDITRON, at_least(0.85)),
            *ratio("onebit : C, Conservative OVA", best, CONSERVATIVE, C_CONSERVATIVE, at_least(0.85)),
            onebit_end_to_end(workload, folder, effort),
            *([vw_end_to_end(vowpal_wabbit(), effort)] if VW in found else []),
        ]


def sparse_rows(effort: Effort) -> list[Measurement]:
    """Banditron on CSR rows against a C loop and VW."""
    workload = sparse(effort.rounds)
    with TemporaryDirectory() as name:
        folder = Path(name)
        found, missing = present(
            {
                BANDITRON: lambda: onebit_pass("banditron", {"exploration": EPSILON}, workload),
                C_BANDITRON: lambda: c_pass(compiled(folder), "banditron_sparse", EPSILON, workload),
                VW: lambda: VowpalWabbit(workload, folder).cached_pass,
            }
        )
        best = interleaved(found, effort.repeats)
    bars = {BANDITRON: at_least(1.5)}
    return [
        *(speed(contender, workload, outcome, bars.get(contender)) for contender, outcome in best.items()),
        *missing,
        *ratio("onebit : C, Banditron", best, BANDITRON, C_BANDITRON, at_least(0.85)),
        *ratio("onebit : VW, Banditron", best, BANDITRON, VW, at_least(30)),
    ]


def speed(name: str, workload: Workload, outcome: Outcome, bar: Bar | None = None) -> Measurement:
    """How fast a stream was walked, and how well."""
    rate = workload.rounds / outcome.seconds / 1e6
    remark = f"error {100 * outcome.error:.2f} %" + ("; from its binary cache" if name == VW else "")
    return Measurement(name, rate, SPEED, bar, remark)


def present(makers: Mapping[str, Callable[[], Contender]]) -> tuple[dict[str, Contender], list[Measurement]]:
    """The contenders that can run here, and a line for each that cannot."""
    found, missing = {}, []
    for name, make in makers.items():
        try:
            found[name] = make()
        except PeerMissingError as error:
            missing.append(Measurement(name, None, SPEED, remark=str(error)))
    return found, missing


def ratio(name: str, best: Mapping[str, Outcome], first: str, second: str, bar: Bar) -> list[Measurement]:
    """How many times as fast the first is as the second, if there is a second."""
    if second not in best:
        return []
    return [Measurement(name, best[second].seconds / best[first].seconds, "times", bar)]


def onebit_end_to_end(workload: Workload, folder: Path, effort: Effort) -> Measurement:
    """From an .npz file to the error rate, on the clock: a whole process of `onebit run`."""
    path = folder / "rows.npz"
    workload.write_npz(path)
    command = ("run", "banditron", str(path), "--set", f"exploration={EPSILON}", "--json")
    ended = min(onebit_command(*command) for _ in range(effort.starts))
    error = json.loads(ended.output)["error_mean"]
    remark = f"error {100 * error:.2f} %; {ended.cpu:.2f} s of CPU; from .npz, with its process"
    return Measurement(f"{END_TO_END}: onebit run", ended.wall, "s", remark=remark)


def vw_end_to_end(peer: VowpalWabbit, effort: Effort) -> Measurement:
    """From a text file to the error rate, on the clock; nothing is counted for starting a process."""
    passes = []
    for _ in range(effort.starts):
        started = time.perf_counter()
        outcome = peer.text_pass()
        passes.append((time.perf_counter() - started, outcome))
    wall, outcome = min(passes)
    remark = f"error {100 * outcome.error:.2f} %; {outcome.seconds:.2f} s of CPU; from text, without its process"
    return Measurement(f"{END_TO_END}: VW", wall, "s", remark=remark)
