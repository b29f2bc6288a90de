"""Rounds per second of the GPU engine, rule by rule, beside one core; and of sparse rows beside threads of the host.

    python -m benchmarks gpu                             # each kernel is built first, which is not timed
    python -m benchmarks gpu --only banditron epabf

A line is the best of three walks with twice as many replicates as run at the same time, on the clock, from the first launch to the
last, with the whole contract: random ties, full draws, curves; rows, orders and keys are on the device before. Floating-point operations
are those of the scores and of the heads that Banditron moves, 2 d (heads + 2) a round. Sparse rows are those of 20 Newsgroups where
ONEBIT_DATA has them, and else of their size: Banditron with 1,000 settings and 10 seeds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measuring import Table
from benchmarks.streams.recipes import at_hand, held
from onebit.data.streams import stream
from onebit.data.synthetic import synsep10
from onebit.engine.gpu import device, launch
from onebit.engine.gpu.build import count_resident, kernel_for, layout_for
from onebit.engine.gpu.layout import Layout, Shape
from onebit.engine.schedule import Schedule, list_events
from onebit.engine.stream import Tally
from onebit.errors import OnebitError
from onebit.experiments.executors.gpu.ahead import KernelBuilder
from onebit.experiments.executors.threads import ThreadsExecutor
from onebit.experiments.trials import Trial, choose_marks, make_entry
from onebit.learner.learner import Learner, learner_class
from onebit.rules import rule_named
from onebit.spaces.sparse import SparseRows

ROWS = 20_000
SCHEDULES = 4
CORE_ROUNDS = 20_000  # by which a core is measured
SECONDS = 1.0  # that a walk should take
FP32_PEAK = 66.9e12  # of an H200, by its data sheet
NEWS_ROWS, WORDS, WORDS_A_ROW, GROUPS = 18_846, 75_916, 158, 20  # of 20 Newsgroups
SETTINGS, SEEDS = 1000, 10


class Line(NamedTuple):
    """A line of the table: what is run."""

    rule: str
    classes: int
    features: int
    options: dict[str, Any]
    delay: int | None = (
        None  # rounds that feedback is late in a walk over events; in 0 none is late, and events are walked all the same
    )


LINES = [
    Line("banditron", 10, 100, {}),
    Line("banditron", 10, 256, {}),
    Line("banditron", 10, 784, {}),
    Line("banditron", 4, 36, {}),
    Line("banditron", 3, 4, {}),
    Line("bpa", 10, 100, {}),
    Line("bandit-perceptron", 10, 100, {}),
    Line("conservative-ova", 10, 100, {}),
    Line("offset-tree", 10, 100, {}),
    Line("policy-gradient", 10, 100, {}),
    Line("exact-pa", 10, 100, {}),
    Line("gaptron", 10, 100, {"rate": 0.1, "exploration": 0.05}),
    Line("epabf", 10, 100, {"variant": "PA"}),
    Line("epabf", 10, 100, {}),
    Line("epabf", 10, 100, {"variant": "PA-II"}),
    Line("epabf", 10, 100, {"update": "stated"}),
    Line("conservative-ova", 10, 100, {"coding": "all-pairs", "aggressiveness": 0.001}),
    Line("pab", 10, 100, {}),
    Line("perceptron", 10, 100, {}),
    Line("passive-aggressive", 10, 100, {}),
    Line("linucb", 10, 100, {}),
    Line("epsilon-greedy", 10, 100, {}),
    Line("epsilon-greedy", 10, 100, {"model": "logistic"}),
    Line("thompson", 10, 100, {}),
    Line("squarecb", 10, 100, {}),
    Line("softmax", 10, 100, {}),
    Line("confidit", 10, 100, {}),
    Line("soba", 10, 100, {}),
    Line("newtron", 10, 100, {}),
    Line("arow", 10, 100, {}),
    Line("second-order-perceptron", 10, 100, {}),
    Line("linucb", 10, 784, {}),
    Line("banditron", 10, 100, {}, delay=0),
    Line("banditron", 10, 100, {}, delay=20),
    Line("epabf", 10, 100, {}, delay=0),
    Line("linucb", 10, 100, {}, delay=0),
    Line("linucb", 10, 100, {}, delay=20),
    Line("epabf", 28, 10, {}),
    Line("conservative-ova", 10, 784, {"coding": "all-pairs", "aggressiveness": 0.001}),
]


def rows_of(classes: int, features: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """SynSep10 where it fits, else rows of about length one with labels of a linear teacher."""
    if (classes, features) == (10, 100):
        values, labels = synsep10(ROWS, 0)
        return np.asarray(values, dtype=np.float32), np.asarray(labels)
    generator = np.random.default_rng(0)
    values = (generator.standard_normal((ROWS, features)) / np.sqrt(features)).astype(np.float32)
    return values, (values @ generator.standard_normal((features, classes))).argmax(axis=1)


def kernel_of(line: Line) -> tuple[Shape, Layout]:
    rule = rule_named(line.rule)
    params, memory = rule.settle(line.classes, line.options)
    shape = Shape.of(rule, params, len(memory), line.features, line.delay is not None)
    layout = layout_for(shape)
    assert layout is not None
    return shape, layout


def prepare_walk(line: Line, rounds: int) -> tuple[Shape, Layout, launch.DeviceSchedules, launch.Replicates]:
    shape, layout = kernel_of(line)
    params, memory = shape.rule.settle(line.classes, line.options)
    values, labels = rows_of(line.classes, line.features)
    ways = []
    for seed in range(SCHEDULES):
        order = np.resize(np.random.default_rng(seed).permutation(ROWS), rounds)
        schedule = Schedule(labels[order].astype(np.int64), order)
        if line.delay is not None:
            schedule = schedule._replace(events=list_events(np.arange(rounds) + line.delay))
        ways.append(schedule)
    device_rows = launch.DeviceRows([values], False, layout.padded(shape))
    schedules = launch.DeviceSchedules(device_rows, [(0, schedule) for schedule in ways])
    count = 2 * count_resident(shape, layout)
    beginnings = [(params, memory, 1e300)] * count
    replicates = launch.Replicates.of(
        shape, beginnings, [place * SCHEDULES // count for place in range(count)], range(count)
    )
    return shape, layout, schedules, replicates


def measure_line(line: Line) -> dict[str, Any]:
    shape, layout, schedules, replicates = prepare_walk(line, 2000)
    count = len(replicates.keys)
    trial = launch.walk(shape, layout, schedules, replicates, choose_marks(2000), lambda done: None)
    rounds = int(np.clip(2000 * SECONDS / trial.seconds, 2000, 1_000_000))
    shape, layout, schedules, replicates = prepare_walk(line, rounds)
    counts = [
        launch.walk(shape, layout, schedules, replicates, choose_marks(rounds), lambda done: None) for _ in range(3)
    ]
    seconds = min(one.seconds for one in counts)
    (kernel,) = kernel_for(shape, layout).overloads.values()
    rate = count * rounds / seconds
    core = core_rate(line)
    return {
        **line._asdict(),
        "heads": shape.heads,
        "lanes": layout.lanes,
        "where": layout.where,
        "registers": int(kernel.regs_per_thread),
        "spilled": int(kernel.local_mem_per_thread),
        "replicates": count,
        "rounds": rounds,
        "rounds_per_second": rate,
        "head_rounds_per_second": rate * shape.heads,
        "peak": rate * 2 * line.features * (shape.heads + 2) / FP32_PEAK,
        "cores": None if core is None else rate / core,
        "error": float(counts[0].mistakes[:, 0].mean() / rounds),
    }


def core_rate(line: Line) -> float | None:
    """Return the rounds a second of one core of this host; None if the run failed."""
    values, labels = rows_of(line.classes, line.features)
    streamed = stream(values, labels, rounds=CORE_ROUNDS, order="shuffle", delay=line.delay or None)
    (record,) = ThreadsExecutor(1).run([Trial(make_entry(line.rule, line.options), streamed, 0)], lambda count: None)
    return None if record.why else CORE_ROUNDS / max(1e-9, record.seconds)


def table_row(one: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the table."""
    options = one["options"] | ({} if one["delay"] is None else {"delay": one["delay"]})
    return {
        "rule": ", ".join([one["rule"], *(f"{name}={value}" for name, value in options.items())]),
        "K": one["classes"],
        "d": one["features"],
        "lanes": one["lanes"],
        "weights": one["where"] + (f", {one['spilled']} bytes spilled" if one["spilled"] else ""),
        "registers": one["registers"],
        "billion rounds/s": one["rounds_per_second"] / 1e9,
        "of peak, %": 100 * one["peak"],
        "cores": one["cores"],
    }


def pairs_against_banditron(found: list[dict[str, Any]]) -> Iterator[str]:
    """Compare all pairs with Banditron by head-rounds a second, at K = 10 and d = 100."""
    plain = [
        one
        for one in found
        if (one["rule"], one["classes"], one["features"], one["delay"]) == ("banditron", 10, 100, None)
    ]
    pairs = [one for one in found if one["options"].get("coding") == "all-pairs" and one["features"] == 100]
    for one in plain:
        for other in pairs:
            share = other["head_rounds_per_second"] / one["head_rounds_per_second"]
            yield f"all pairs: {share:.2f} of Banditron's head-rounds a second"


def late_against_immediate(found: list[dict[str, Any]]) -> Iterator[str]:
    """Compare walks over events, late or not, with walks over rounds."""
    plain = [one for one in found if one["features"] == 100 and not one["options"]]
    rates = {(one["rule"], one["delay"]): one["rounds_per_second"] for one in plain}
    for (rule, delay), rate in rates.items():
        if delay is not None and (rule, None) in rates:
            yield f"{rule}, {delay} rounds late: {rate / rates[rule, None]:.2f} of the rounds a second without events"


def fitted_speeds(found: list[dict[str, Any]]) -> Iterator[str]:
    """What `--on auto` should reckon with (`experiments/executors/gpu/__init__.py`): geometric means over rules, K = 10, d = 100."""
    lines = [one for one in found if (one["classes"], one["features"], one["delay"]) == (10, 100, None)]
    if lines:
        together = np.array([one["replicates"] / 2 for one in lines])
        rates = np.array([one["rounds_per_second"] for one in lines])
        cores = np.array([one["rounds_per_second"] / one["cores"] for one in lines if one["cores"]])
        core = f", one core {geometric_mean(cores):,.0f}" if len(cores) else ""
        yield f"{geometric_mean(rates / together):,.0f} of each of {geometric_mean(together):,.0f}{core}"


def geometric_mean(numbers: np.ndarray[Any, Any]) -> float:
    return float(np.exp(np.log(numbers).mean()))


# --- sparse rows --------------------------------------------------------------------------------------------------------


def load_newsgroups() -> tuple[SparseRows, np.ndarray[Any, Any], str]:
    """Return the rows, their labels, and what they are."""
    if at_hand("20newsgroups"):
        X, labels = held("20newsgroups")
        counts, columns, starts, said = X.data, X.indices, X.indptr, "20 Newsgroups"
    else:
        generator = np.random.default_rng(0)
        sizes = generator.geometric(1 / (1.25 * WORDS_A_ROW), size=NEWS_ROWS)  # of which some are the same word
        words = [np.unique((WORDS ** generator.random(size)).astype(np.int32) - 1) for size in sizes]
        columns, starts = np.concatenate(words), np.cumsum([0, *map(len, words)])
        counts, labels = np.ones(len(columns)), generator.integers(0, GROUPS, size=NEWS_ROWS)
        said = f"rows like 20 Newsgroups ({len(columns) / NEWS_ROWS:.0f} values a row)"
    lengths = np.sqrt(np.maximum(1, np.diff(starts)))
    values = (np.sign(counts) / np.repeat(lengths, np.diff(starts))).astype(np.float32)
    return SparseRows(values, columns.astype(np.int32), starts.astype(np.int64), WORDS), labels, said


def rate_on_device(rows: SparseRows, labels: np.ndarray[Any, Any]) -> float:
    """Rounds a second of all settings and seeds on the GPU, as many at a time as it has room for."""
    rule = rule_named("banditron")
    settled = [rule.settle(GROUPS, {"exploration": float(one)}) for one in np.geomspace(0.001, 0.5, SETTINGS)]
    shape = Shape.of(rule, settled[0][0], len(settled[0][1]), WORDS, sparse=True)
    layout = layout_for(shape)
    assert layout is not None
    schedules = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(rows.height)
        schedules.append((0, Schedule(labels[order], order)))
    sent = launch.DeviceSchedules(launch.DeviceSparseRows([rows], False), schedules)
    beginnings = [(params, memory, 1e300) for params, memory in settled for _ in range(SEEDS)]
    most = launch.most_at_once(shape, layout, rows.height)
    seconds = 0.0
    for first in range(0, len(beginnings), most):
        some = beginnings[first : first + most]
        places = [(first + place) % SEEDS for place in range(len(some))]
        replicates = launch.Replicates.of(shape, some, places, places)
        counts = launch.walk(shape, layout, sent, replicates, choose_marks(rows.height), lambda done: None)
        seconds += counts.seconds
    return len(beginnings) * rows.height / seconds


def rate_on_threads(rows: SparseRows, labels: np.ndarray[Any, Any], threads: int) -> float:
    """Rounds a second of so many learners at a time, each on its own thread."""
    made = learner_class(rule_named("banditron"))

    def learner(exploration: float) -> Learner:
        one = made(GROUPS, exploration=exploration, features=WORDS, space="sparse")
        one.runtime.model.allocate()
        return one

    def walk(one: Learner) -> None:
        one.runtime.walk(rows, Schedule(labels), np.zeros((0, 0)), Tally.empty(np.array([rows.height])), 0, rows.height)

    walk(learner(0.1))
    learners = [learner(float(one)) for one in np.geomspace(0.001, 0.5, threads)]
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(walk, learners))
        return threads * rows.height / (time.perf_counter() - started)


# --- what is measured ---------------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--only", nargs="+", metavar="RULE", help="the lines of some rules, without sparse rows")
    parser.add_argument(
        "--threads", type=int, default=16, metavar="N", help="of the host, for sparse rows (default 16)"
    )


def measure(options: argparse.Namespace) -> list[Table]:
    """Build all kernels, walk each, and compare sparse rows with threads of the host."""
    trouble = device.find_problem()
    if trouble is not None:
        raise OnebitError(trouble)
    found: list[dict[str, Any]] = []
    lines = [line for line in LINES if not options.only or line.rule in options.only]
    with closing(KernelBuilder()) as builder:
        kernels = list(map(kernel_of, lines))
        builder.build(kernels)
        for kernel in kernels:
            builder.wait(kernel)
    for line in lines:
        found.append(measure_line(line))
        print(table_row(found[-1]), file=sys.stderr, flush=True)
    sentences = [*pairs_against_banditron(found), *late_against_immediate(found), *fitted_speeds(found)]
    tables = [
        Table(f"{device.device_name()}, walks of {SECONDS:g} s", [table_row(one) for one in found]),
        Table("What follows", [{"what": sentence} for sentence in sentences]),
    ]
    if options.only:
        return tables
    rows, labels, said = load_newsgroups()
    threads, gpu = rate_on_threads(rows, labels, options.threads), rate_on_device(rows, labels)
    rates = {f"{options.threads} threads": threads, device.device_name(): gpu}
    return [*tables, Table(said, [{"where": name, "million rounds/s": rate / 1e6} for name, rate in rates.items()])]
