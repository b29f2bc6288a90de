"""Rounds per second of every rule and of `auto`, beside Vowpal Wabbit and plain C loops.

    python -m benchmarks throughput                      # some minutes, and two more where no rule is compiled yet
    python -m benchmarks throughput --quick              # shorter streams
    python -m benchmarks throughput --auto digits iris   # `auto` alone, on these data

CPU seconds of one core, the best of five, contenders taking turns; VW reads the same rows from its binary cache.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import (
    FULL,
    QUICK,
    Contender,
    Effort,
    Measurement,
    Outcome,
    PeerMissingError,
    Table,
    best_in_turns,
    measurement_table,
)
from benchmarks.peers import EPSILON, c_pass, compile_reference, vw_pass
from benchmarks.steps import time_steps
from benchmarks.streams.recipes import absent, at_hand
from benchmarks.workloads import SEED, Workload, dense, onebit_pass, resampled, shuffled, sparse
from onebit.engine.schedule import Schedule
from onebit.engine.stream import Tally
from onebit.errors import OnebitError
from onebit.learner.learner import Learner
from onebit.rules import chosen_rules

SPEED = "million rounds/s"
AGGRESSIVENESS = 1.0
BANDITRON, CONSERVATIVE, LINUCB = "onebit, Banditron", "onebit, Conservative OVA", "onebit, LinUCB"
C_BANDITRON, C_CONSERVATIVE = "C loop, Banditron", "C loop, Conservative OVA"
VW = "VW, epsilon-greedy, from its binary cache"
AUTO = "auto"
PYTHON_STEPS = 5000
# The data set that must be there, and how its rows come.
WORKLOADS: dict[str, tuple[str | None, Callable[[int], Workload]]] = {
    "digits": ("digits", lambda rounds: resampled("digits", min(20_000, rounds))),
    "iris": ("iris", lambda rounds: resampled("iris", min(20_000, rounds))),
    "satimage": ("satimage", lambda rounds: resampled("satimage", min(20_000, rounds))),
    "SynSep10": (None, dense),
    "MNIST": ("mnist", lambda rounds: shuffled("mnist", rounds=min(20_000, rounds))),
    "USPS": ("usps", lambda rounds: shuffled("usps", rounds=min(9298, rounds))),
    "20 Newsgroups": ("20newsgroups", lambda rounds: shuffled("20newsgroups", "binary", min(18_846, rounds))),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--quick", action="store_true", help="shorter streams and fewer repetitions")
    parser.add_argument(
        "--auto", nargs="+", choices=WORKLOADS, metavar="DATA", help=f"auto alone, on some of {', '.join(WORKLOADS)}"
    )


def measure(options: argparse.Namespace) -> list[Table]:
    """Time every rule, then the best-known ones beside their peers on dense and on sparse rows, then `auto`."""
    effort = QUICK if options.quick else FULL
    if options.auto:
        return [time_auto(options.auto, effort)]
    return [
        Table("Every rule, million rounds/s", time_rules(effort)),
        compare_with_peers("SynSep10, 10 classes and 100 dense features", dense(effort.rounds), effort),
        compare_with_peers("Sparse rows, 4 classes and 75 of 47,236 features", sparse(effort.rounds), effort),
        time_auto(WORKLOADS, effort),
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


def time_auto(names: Iterable[str], effort: Effort) -> Table:
    """Time `auto` beside VW on these data sets, as far as they are here; its slowest round, its memory, and a step from Python."""
    measured = []
    for name in names:
        data, make = WORKLOADS[name]
        if data is not None and not at_hand(data):
            measured.append(Measurement(name, None, remark=absent(data)))
            continue
        workload = make(effort.rounds)
        measured += [*_rates(name, workload, effort.repeats), _slowest(name, workload)]
        measured.append(Measurement(f"{name}, arrays of the learner", held_bytes(AUTO, workload) / 1e6, "MB"))
    return measurement_table("`auto`", [*measured, _python_step(effort.repeats)])


def _rates(name: str, workload: Workload, repeats: int) -> list[Measurement]:
    with TemporaryDirectory() as folder:
        found, missing = available_contenders(
            {AUTO: lambda: onebit_pass(AUTO, {}, workload), VW: lambda: vw_pass(workload, Path(folder))}
        )
        best = best_in_turns(found, repeats)
    rates = {contender: workload.rounds / outcome.seconds / 1e3 for contender, outcome in best.items()}
    remark = f"error {100 * best[AUTO].error:.2f} %; {workload.rounds:,} rounds"
    measured = [Measurement(f"{name}, auto", rates[AUTO], "thousand rounds/s", remark)]
    if VW not in best:
        return [*measured, *missing]
    remark = f"VW {rates[VW]:.3g} thousand rounds/s, error {100 * best[VW].error:.2f} %"
    return [*measured, Measurement(f"{name}, auto : VW", rates[AUTO] / rates[VW], "times", remark)]


def _slowest(name: str, workload: Workload) -> Measurement:
    spent = round_times(workload) / 1e3  # microseconds
    middle, nearly_all = np.percentile(spent, [50, 99.9])
    remark = f"half of them within {middle:.0f} us, 99.9 % within {nearly_all:,.0f} us; each called from Python"
    return Measurement(f"{name}, the slowest round", float(spent.max()) / 1e3, "ms", remark)


def round_times(workload: Workload) -> NDArray[np.int64]:
    """CPU nanoseconds of every single round: of deciding and learning, and of a call from Python."""
    learner = Learner(AUTO, classes=workload.classes, seed=SEED)
    rows, schedule = learner.runtime.read_table(workload.X), Schedule(workload.y)
    learner.runtime.fix_features(workload.X)
    kept, tally = schedule.choices, Tally.empty(np.zeros(0, dtype=np.int64))
    spent = np.empty(workload.rounds, dtype=np.int64)
    for number in range(workload.rounds):
        started = time.thread_time_ns()
        learner.runtime.walk(rows, schedule, kept, tally, number, number + 1)
        spent[number] = time.thread_time_ns() - started
    return spent


def held_bytes(rule: str, workload: Workload) -> int:
    """The bytes of the arrays of a learner for these rows."""
    learner = Learner(rule, classes=workload.classes)
    learner.runtime.fix_features(workload.X)
    return _bytes_of(learner.runtime.model.space)


def _bytes_of(part: Any) -> int:
    if isinstance(part, np.ndarray):
        return part.nbytes
    return sum(map(_bytes_of, part)) if isinstance(part, tuple) else 0


def _python_step(repeats: int) -> Measurement:
    """A decision and its lesson from Python, against the same rounds in the compiled loop."""
    workload = dense(PYTHON_STEPS)
    rows = list(workload.X)

    def steps() -> Outcome:
        learner = Learner(AUTO, classes=workload.classes, seed=SEED)
        learner.runtime.fix_features(workload.X)
        return time_steps(learner, rows, workload)

    best = best_in_turns({"steps": steps, "loop": onebit_pass(AUTO, {}, workload)}, repeats)
    took, inside = (1e6 * best[name].seconds / workload.rounds for name in ("steps", "loop"))
    remark = f"{took:.1f} us, and {inside:.1f} in the compiled loop; SynSep10, {workload.rounds:,} rounds"
    return Measurement("decide and learn from Python, beyond the compiled round", took - inside, "us", remark)
