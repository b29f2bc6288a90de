"""How fast the GPU engine is, rule by rule, with the whole contract: random ties, full draws, curves. Beside it one core.

    python benchmarks/gpu.py                             # every line of the table; each kernel is built first, which is not timed
    python benchmarks/gpu.py --only banditron --json gpu.json
    python benchmarks/gpu.py --write gpu.json            # the table of that run into the documentation, which needs no GPU
    ncu --clock-control none -k regex:replicate -c 1 python benchmarks/gpu.py --profile epabf 10 100

A line is the best of three walks with twice as many replicates as run at the same time, on the clock, from the first launch to the
last; rows, orders and keys are on the device before. Floating-point operations are those of the scores and of the heads that
Banditron moves, 2 d (heads + 2) a round: what the draws, the choice and the step cost is overhead in this count.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import circumstances, write_block

from onebit.data.streams import stream
from onebit.data.synthetic import synsep10
from onebit.engine.gpu import device, launch
from onebit.engine.gpu.build import kernel_for, layout_for, resident
from onebit.engine.gpu.layout import Layout, Shape
from onebit.engine.schedule import Schedule, events_of
from onebit.executors.gpu.ahead import KernelBuilder
from onebit.executors.gpu.executor import gpu_executor
from onebit.executors.gpu.speeds import family_of
from onebit.rules import rule_named
from onebit.trials.trial import Trial, entry_of, marks_for

ROWS = 20_000
SCHEDULES = 4
SECONDS = 1.0  # that a walk should take
PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "performance.md"
FP32_PEAK = 66.9e12  # of an H200, by its data sheet


class Line(NamedTuple):
    """A line of the table: what is run, and what it must and should reach, in billions of rounds a second."""

    rule: str
    classes: int
    features: int
    options: dict[str, Any]
    bar: float | None = None
    goal: float | None = None
    delay: int | None = (
        None  # rounds that feedback is late in a walk over events; in 0 none is late, and events are walked all the same
    )


LINES = [
    Line("banditron", 10, 100, {}, 1.3, 1.8),
    Line("banditron", 10, 256, {}, 1.0, None),
    Line("banditron", 10, 784, {}, 0.2, 0.4),
    Line("banditron", 4, 36, {}),
    Line("banditron", 3, 4, {}),
    Line("bpa", 10, 100, {}, 0.6),
    Line("bandit-perceptron", 10, 100, {}, 0.6),
    Line("conservative-ova", 10, 100, {}, 0.6),
    Line("offset-tree", 10, 100, {}, 0.6),
    Line("policy-gradient", 10, 100, {}, 0.6),
    Line("exact-pa", 10, 100, {}, 0.15, 0.4),
    Line("gaptron", 10, 100, {"rate": 0.1, "exploration": 0.05}, 0.15, 0.4),
    Line("epabf", 10, 100, {"variant": "PA"}, 0.15, 0.4),
    Line("epabf", 10, 100, {}, 0.15, 0.4),
    Line("epabf", 10, 100, {"variant": "PA-II"}, 0.15, 0.4),
    Line("epabf", 10, 100, {"update": "stated"}),
    Line("conservative-ova", 10, 100, {"coding": "all-pairs", "aggressiveness": 0.001}),
    Line("pab", 10, 100, {}),
    Line("perceptron", 10, 100, {}),
    Line("passive-aggressive", 10, 100, {}),
    Line("linucb", 10, 100, {}, None, 0.8),
    Line("epsilon-greedy", 10, 100, {}, None, 0.8),
    Line("epsilon-greedy", 10, 100, {"model": "logistic"}, None, 0.3),
    Line("thompson", 10, 100, {}, None, 0.3),
    Line("squarecb", 10, 100, {}, None, 0.3),
    Line("softmax", 10, 100, {}, None, 0.3),
    Line("confidit", 10, 100, {}, None, 0.3),
    Line("soba", 10, 100, {}, None, 0.3),
    Line("newtron", 10, 100, {}, None, 0.3),
    Line("arow", 10, 100, {}, None, 0.3),
    Line("second-order-perceptron", 10, 100, {}, None, 0.3),
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


def prepared(line: Line, rounds: int) -> tuple[Shape, Layout, launch.DeviceSchedules, launch.Replicates]:
    shape, layout = kernel_of(line)
    params, memory = shape.rule.settle(line.classes, line.options)
    values, labels = rows_of(line.classes, line.features)
    ways = []
    for seed in range(SCHEDULES):
        order = np.resize(np.random.default_rng(seed).permutation(ROWS), rounds)
        schedule = Schedule(labels[order].astype(np.int64), order)
        if line.delay is not None:
            schedule = schedule._replace(events=events_of(np.arange(rounds) + line.delay))
        ways.append(schedule)
    device_rows = launch.DeviceRows([values], False, layout.padded(shape))
    schedules = launch.DeviceSchedules(device_rows, [(0, schedule) for schedule in ways])
    count = 2 * resident(shape, layout)
    beginnings = [(params, memory, 1e300)] * count
    replicates = launch.Replicates.of(
        shape, beginnings, [place * SCHEDULES // count for place in range(count)], range(count)
    )
    return shape, layout, schedules, replicates


def measured(line: Line, with_core: bool = True) -> dict[str, Any]:
    shape, layout, schedules, replicates = prepared(line, 2000)
    count = len(replicates.keys)
    trial = launch.walk(shape, layout, schedules, replicates, marks_for(2000), lambda done: None)
    rounds = int(np.clip(2000 * SECONDS / trial.seconds, 2000, 1_000_000))
    shape, layout, schedules, replicates = prepared(line, rounds)
    counts = [launch.walk(shape, layout, schedules, replicates, marks_for(rounds), lambda done: None) for _ in range(3)]
    seconds = min(one.seconds for one in counts)
    (kernel,) = kernel_for(shape, layout).overloads.values()
    rate = count * rounds / seconds
    core = core_rate(line) if with_core else None
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
    """Rounds a second of one core of this host."""
    values, labels = rows_of(line.classes, line.features)
    streamed = stream(values, labels, order="shuffle", delay=line.delay or None)
    return gpu_executor().core_rate(Trial(entry_of(line.rule, line.options), streamed, 0))


TITLES = ("rule", "K", "d", "lanes", "weights", "registers", "billion rounds/s", "bar", "goal", "of peak", "cores")


def cells_of(one: dict[str, Any]) -> tuple[str, ...]:
    """A line of the table."""
    options = one["options"] | ({} if one["delay"] is None else {"delay": one["delay"]})
    rate = one["rounds_per_second"] / 1e9

    def held_to(limit: float | None) -> str:
        return "" if limit is None else f"{limit:g}: {'met' if rate >= limit else '**missed**'}"

    return (
        ", ".join([one["rule"], *(f"{name}={value}" for name, value in options.items())]),
        str(one["classes"]),
        str(one["features"]),
        str(one["lanes"]),
        one["where"] + (f", {one['spilled']} bytes spilled" if one["spilled"] else ""),
        str(one["registers"]),
        f"{rate:.3g}",
        held_to(one["bar"]),
        held_to(one["goal"]),
        f"{100 * one['peak']:.1f} %",
        "" if one["cores"] is None else f"{one['cores']:,.0f}",
    )


def table_of(found: list[dict[str, Any]]) -> Table:
    table = Table(title=f"GPU engine on {device.name()}")
    for title in TITLES:
        table.add_column(title, justify="left" if title in ("rule", "weights") else "right")
    for one in found:
        table.add_row(*cells_of(one))
    return table


def sentences(found: list[dict[str, Any]]) -> list[str]:
    """What follows from the table."""
    return [*pairs_against_banditron(found), *late_against_immediate(found), *fitted(found)]


def markdown(report: dict[str, Any]) -> list[str]:
    """The table of a run for the documentation."""
    found = report["lines"]
    day, host = report["date"][:10], f"a host with {report['cores']} cores, load {report['load']}"
    aligned = ["---" if title in ("rule", "weights") else "---:" for title in TITLES]
    return [
        f"{day}, {report['device']}, {host}, walks of {report['walk_seconds']:g} s.",
        "",
        *(f"| {' | '.join(cells)} |" for cells in (TITLES, aligned, *map(cells_of, found))),
        "",
        *(f"- {sentence}" for sentence in sentences(found)),
    ]


def pairs_against_banditron(found: list[dict[str, Any]]) -> Iterator[str]:
    """All pairs should do a third of the head-rounds a second of Banditron's, at K = 10 and d = 100."""
    plain = [
        one
        for one in found
        if (one["rule"], one["classes"], one["features"], one["delay"]) == ("banditron", 10, 100, None)
    ]
    pairs = [one for one in found if one["options"].get("coding") == "all-pairs" and one["features"] == 100]
    for one in plain:
        for other in pairs:
            share = other["head_rounds_per_second"] / one["head_rounds_per_second"]
            yield f"all pairs: {share:.2f} of Banditron's head-rounds a second (bar 0.33)"


def late_against_immediate(found: list[dict[str, Any]]) -> Iterator[str]:
    """Where nothing is late, a walk over events should do four fifths of the rounds a second of one over rounds."""
    plain = [one for one in found if one["features"] == 100 and not one["options"]]
    rates = {(one["rule"], one["delay"]): one["rounds_per_second"] for one in plain}
    for (rule, delay), rate in rates.items():
        if delay is not None and (rule, None) in rates:
            yield f"{rule}, {delay} rounds late: {rate / rates[rule, None]:.2f} of the rounds a second without events (bar 0.80 where none is late)"


def fitted(found: list[dict[str, Any]]) -> Iterator[str]:
    """What `--on auto` should reckon with (`executors/gpu/speeds.py`): geometric means over the rules of a family, K = 10, d = 100."""
    families: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        if (one["classes"], one["features"], one["delay"]) == (10, 100, None):
            families.setdefault(family_of(rule_named(one["rule"])), []).append(one)
    for family, lines in families.items():
        together = np.array([one["replicates"] / 2 for one in lines])
        rates = np.array([one["rounds_per_second"] for one in lines])
        cores = np.array([one["rounds_per_second"] / one["cores"] for one in lines if one["cores"]])
        core = f", one core {geometric_mean(cores):,.0f}" if len(cores) else ""
        yield f"{family}: {geometric_mean(rates / together):,.0f} of each of {geometric_mean(together):,.0f}{core}"


def geometric_mean(numbers: np.ndarray[Any, Any]) -> float:
    return float(np.exp(np.log(numbers).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="RULE", help="the lines of some rules")
    parser.add_argument("--without-cores", action="store_true", help="do not measure a core beside each line")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write everything to this file")
    parser.add_argument(
        "--write", type=Path, metavar="PATH", help="run nothing: put such a file's table into the documentation"
    )
    parser.add_argument("--profile", nargs=3, metavar=("RULE", "K", "D"), help="one walk of one rule, for a profiler")
    chosen = parser.parse_args()
    if chosen.write:
        write_block(PAGE, "gpu", markdown(json.loads(chosen.write.read_text(encoding="utf-8"))))
        return
    if device.trouble() is not None:
        sys.exit(f"benchmarks/gpu.py: {device.trouble()}")
    if chosen.profile:
        rule, classes, features = chosen.profile
        wanted = [line for line in LINES if (line.rule, str(line.classes), str(line.features)) == tuple(chosen.profile)]
        line = wanted[0] if wanted else Line(rule, int(classes), int(features), {})
        launch.walk(*prepared(line, 2000), marks_for(2000), lambda done: None)
        return
    where = circumstances()  # before this makes the host busy
    console = Console(width=150, emoji=False)
    found: list[dict[str, Any]] = []
    lines = [line for line in LINES if not chosen.only or line.rule in chosen.only]
    with closing(KernelBuilder()) as builder:
        kernels = list(map(kernel_of, lines))
        builder.build(kernels)
        for kernel in kernels:
            builder.wait(kernel)
    for line in lines:
        found.append(measured(line, not chosen.without_cores))
        console.print(f"{line.rule} {line.classes} {line.features}: {found[-1]['rounds_per_second'] / 1e9:.3f}")
    console.print(table_of(found))
    for sentence in sentences(found):
        console.print(sentence)
    if chosen.json:
        report = {"device": device.name(), **where, "walk_seconds": SECONDS, "lines": found}
        chosen.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
