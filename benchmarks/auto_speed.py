"""What `auto` costs: rounds a second beside Vowpal Wabbit, its slowest round, its first use, its memory, a step from Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.measuring import Bar, Effort, Measurement, Outcome, at_least, at_most, interleaved
from benchmarks.peers_vw import VowpalWabbit
from benchmarks.processes import DENSE_ROW, SPARSE_ROW, cold_use
from benchmarks.recipes import absent, at_hand
from benchmarks.steps import stepped
from benchmarks.streams import VW, present
from benchmarks.workloads import SEED, Workload, dense, onebit_pass, resampled, shuffled
from numpy.typing import NDArray

from onebit.engine.schedule import Schedule
from onebit.engine.stream import Tally
from onebit.learner import Learner
from onebit.rules import registry, rule_named

AUTO, EARLIER = "auto", "auto-0.3"
LEAST_RATE = at_least(8)  # thousand rounds a second, wherever there are at most 100 classes and 1,000 columns
SLOWEST = at_most(50)  # milliseconds
HALF, QUARTER = at_least(0.5), at_least(0.25)  # of the rounds a second of VW
PYTHON_STEPS = 5000
# What speed is measured on: the data set that must be there, how its rows come, and the share of VW's rate that is wanted.
WORKLOADS: dict[str, tuple[str | None, Callable[[int], Workload], Bar]] = {
    "digits": ("digits", lambda rounds: resampled("digits", min(20_000, rounds)), HALF),
    "iris": ("iris", lambda rounds: resampled("iris", min(20_000, rounds)), HALF),
    "satimage": ("satimage", lambda rounds: resampled("satimage", min(20_000, rounds)), HALF),
    "SynSep10": (None, dense, HALF),
    "MNIST": ("mnist", lambda rounds: shuffled("mnist", rounds=min(20_000, rounds)), HALF),
    "USPS": ("usps", lambda rounds: shuffled("usps", rounds=min(9298, rounds)), QUARTER),
    "20 Newsgroups": ("20newsgroups", lambda rounds: shuffled("20newsgroups", "binary", min(18_846, rounds)), HALF),
}


def auto(effort: Effort) -> list[Measurement]:
    """Auto: rounds a second beside VW from its cache, the slowest round, memory; first use; a step from Python."""
    measured = []
    for name, (data, make, share) in WORKLOADS.items():
        if data is not None and not at_hand(data):
            measured.append(Measurement(name, None, remark=absent(data)))
            continue
        workload = make(effort.rounds)
        measured += [*_rates(name, workload, share, effort.repeats), _slowest(name, workload), _memory(name, workload)]
    return [*measured, *_first_uses(effort), _python_step(effort.repeats)]


def _rates(name: str, workload: Workload, share: Bar, repeats: int) -> list[Measurement]:
    with TemporaryDirectory() as folder:
        found, missing = present(
            {
                AUTO: lambda: onebit_pass(AUTO, {}, workload),
                VW: lambda: VowpalWabbit(workload, Path(folder)).cached_pass,
            }
        )
        best = interleaved(found, repeats)
    rates = {contender: workload.rounds / outcome.seconds / 1e3 for contender, outcome in best.items()}
    narrow = workload.classes <= 100 and workload.X.shape[1] <= 1000
    remark = f"error {100 * best[AUTO].error:.2f} %; {workload.rounds:,} rounds"
    measured = [Measurement(f"{name}, auto", rates[AUTO], "thousand rounds/s", LEAST_RATE if narrow else None, remark)]
    if VW not in best:
        return [*measured, *missing]
    remark = f"VW {rates[VW]:.3g} thousand rounds/s, error {100 * best[VW].error:.2f} %"
    return [*measured, Measurement(f"{name}, auto : VW", rates[AUTO] / rates[VW], "times", share, remark)]


def _slowest(name: str, workload: Workload) -> Measurement:
    spent = round_times(workload) / 1e3  # microseconds
    middle, nearly_all = np.percentile(spent, [50, 99.9])
    remark = f"half of them within {middle:.0f} us, 99.9 % within {nearly_all:,.0f} us; each called from Python"
    return Measurement(f"{name}, the slowest round", float(spent.max()) / 1e3, "ms", SLOWEST, remark)


def round_times(workload: Workload) -> NDArray[np.int64]:
    """CPU nanoseconds of every single round: of deciding and learning, and of a call from Python."""
    learner = Learner(AUTO, classes=workload.classes, seed=SEED)
    rows, schedule = learner.runtime.table(workload.X), Schedule(workload.y)
    learner.runtime.fix_features(workload.X)
    kept, tally = schedule.choices, Tally.empty(np.zeros(0, dtype=np.int64))
    spent = np.empty(workload.rounds, dtype=np.int64)
    for number in range(workload.rounds):
        started = time.thread_time_ns()
        learner.runtime.walk(rows, schedule, kept, tally, number, number + 1)
        spent[number] = time.thread_time_ns() - started
    return spent


def _memory(name: str, workload: Workload) -> Measurement:
    title = f"{name}, memory of auto : {EARLIER}"
    here = held_bytes(AUTO, workload)
    if EARLIER not in registry():
        return Measurement(title, None, "times", remark=f"{here / 1e6:.1f} MB; this version has no rule {EARLIER}")
    before = held_bytes(EARLIER, workload)
    return Measurement(
        title, here / before, "times", at_most(2), f"{here / 1e6:.1f} and {before / 1e6:.1f} MB of arrays"
    )


def held_bytes(rule: str, workload: Workload) -> int:
    """The bytes of the arrays of a learner for these rows."""
    learner = Learner(rule, classes=workload.classes)
    learner.runtime.fix_features(workload.X)
    return _bytes_of(learner.runtime.model.space)


def _bytes_of(part: Any) -> int:
    if isinstance(part, np.ndarray):
        return part.nbytes
    return sum(map(_bytes_of, part)) if isinstance(part, tuple) else 0


def _first_uses(effort: Effort) -> list[Measurement]:
    measured = []
    for form, row, limit in (("dense", DENSE_ROW, 8.0), ("sparse", SPARSE_ROW, 5.0)):
        ended = min(cold_use(rule_named(AUTO), row) for _ in range(effort.starts))
        remark = f"{ended.wall:.1f} s on the clock; with an empty cache, the start of the process included"
        measured.append(Measurement(f"first use, {form} rows", ended.cpu, "s of CPU", at_most(limit), remark))
    return measured


def _python_step(repeats: int) -> Measurement:
    """A decision and its lesson from Python, against the same rounds in the compiled loop."""
    workload = dense(PYTHON_STEPS)
    rows = list(workload.X)

    def steps() -> Outcome:
        learner = Learner(AUTO, classes=workload.classes, seed=SEED)
        learner.runtime.fix_features(workload.X)
        return stepped(learner, rows, workload)

    best = interleaved({"steps": steps, "loop": onebit_pass(AUTO, {}, workload)}, repeats)
    took, inside = (1e6 * best[name].seconds / workload.rounds for name in ("steps", "loop"))
    remark = f"{took:.1f} us, and {inside:.1f} in the compiled loop; SynSep10, {workload.rounds:,} rounds"
    return Measurement(
        "decide and learn from Python, beyond the compiled round", took - inside, "us", at_most(2), remark
    )
