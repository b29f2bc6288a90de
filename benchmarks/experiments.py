"""Experiments: whether all cores work, what a hundred runs cost, what stays in memory, how heavy a page is."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measuring import (
    Effort,
    Measurement,
    Outcome,
    PeerMissingError,
    at_least,
    at_most,
    interleaved,
    onebit_command,
    timed_python,
)
from benchmarks.peers_vw import VowpalWabbit
from benchmarks.workloads import dense

from onebit.engine.processes import cores
from onebit.experiments.run import run
from onebit.experiments.sweep import sweep

SIDES = (8, 16)  # of the grids: 64 and 256 settings
RUNS = 100


def sweeps(effort: Effort) -> list[Measurement]:
    """Sweeps of 64 and 256 settings of BPA on SynSep10, 2 tuning runs each, on one core and on all; rows drawn afresh for each seed."""
    sweep("bpa", "synsep10", grid={"exploration": [0.1]}, rounds=100, runs=1, fresh_runs=1)  # compiled by now
    measured = []
    for side in SIDES:
        grid = {"exploration": f"0.001..0.3:log:{side}", "aggressiveness": f"0.0001..1:log:{side}"}
        best = {1: math.inf, cores(): math.inf}
        for _ in range(effort.repeats):
            for threads in (1, cores()):
                started = time.perf_counter()
                sweep("bpa", "synsep10", grid=grid, rounds=effort.rounds, runs=2, fresh_runs=2, threads=threads)
                best[threads] = min(best[threads], time.perf_counter() - started)
        done = effort.rounds * (side * side * 2 + 2) / 1e6
        for threads, seconds in best.items():
            name = f"{side * side} settings, {threads} core{'s' if threads > 1 else ''}"
            measured.append(Measurement(name, done / seconds, "million rounds/s", remark="on the clock"))
        share = 100 * best[1] / best[cores()] / cores()
        measured.append(Measurement(f"{side * side} settings, share of all cores", share, "%", at_least(95)))
    return measured


def many_runs(effort: Effort) -> list[Measurement]:
    """100 runs of Banditron on SynSep10, against two runs of VW, in CPU seconds."""
    workload = dense(effort.rounds)

    def onebit(**settings: Any) -> Outcome:
        started = time.process_time()
        found = run("banditron", "synsep10", rounds=effort.rounds, runs=RUNS, **settings)
        return Outcome(time.process_time() - started, found.error)

    same, shuffled, fresh = "100 runs, the same rows", "100 runs, the same rows shuffled", "100 runs, fresh rows"
    contenders = {
        same: lambda: onebit(same_rows=True),
        shuffled: lambda: onebit(same_rows=True, order="shuffle"),
        fresh: onebit,
    }
    measured = []
    with TemporaryDirectory() as name:
        try:
            vowpal_wabbit = VowpalWabbit(workload, Path(name))
            contenders["VW, one run, text"] = vowpal_wabbit.text_pass
            contenders["VW, one run, cache"] = vowpal_wabbit.cached_pass
        except PeerMissingError as error:
            measured.append(Measurement("VW, one run, text", None, "s", remark=str(error)))
        best = interleaved(contenders, effort.repeats)
    for title, outcome in best.items():
        measured.append(Measurement(title, outcome.seconds, "s of CPU", remark=f"error {100 * outcome.error:.2f} %"))
    for title in (same, shuffled, fresh):
        if "VW, one run, text" in best:
            ratio = best[title].seconds / (2 * best["VW, one run, text"].seconds)
            measured.append(Measurement(f"{title} : two runs of VW from text", ratio, "times", at_most(1)))
    if "VW, one run, cache" in best:
        ratio = best[same].seconds / (2 * best["VW, one run, cache"].seconds)
        measured.append(Measurement(f"{same} : two runs of VW from its cache", ratio, "times"))
    return measured


def memory_of_runs(effort: Effort) -> list[Measurement]:
    """The largest memory of a process, by the number of its runs."""
    program = (
        "import resource, onebit; onebit.run('banditron', 'synsep10', runs={runs}, rounds={rounds});"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    measured = []
    peaks = []
    for runs in (10, 100):
        ended = timed_python(program.format(runs=runs, rounds=effort.rounds))
        peaks.append(int(ended.output.split()[-1]) / 1024)
        measured.append(Measurement(f"{runs} runs", peaks[-1], "MB"))
    measured.append(Measurement("100 runs : 10 runs", peaks[1] / peaks[0], "times", at_most(1.1)))
    return measured


def pages(effort: Effort) -> list[Measurement]:
    """The page of a full comparison, and Chen et al. 2009 with --quick."""
    measured = []
    with TemporaryDirectory() as name:
        out = Path(name) / "compare"
        onebit_command(
            "compare", "synsep9", "synnonsep9", "group2d", "--rounds", str(effort.rounds), "--out", str(out), "--quiet"
        )
        page = out / "page.html"
        measured.append(Measurement("page, three data sets, all learners", page.stat().st_size / 1e6, "MB", at_most(3)))
        measured.append(_interactive(page))
        if not os.environ.get("ONEBIT_DATA"):
            measured.append(Measurement("reproduce chen2009 --quick", None, "s", remark="ONEBIT_DATA names no folder"))
        else:
            ended = onebit_command("reproduce", "chen2009", "--quick", "--out", str(Path(name) / "chen"), "--quiet")
            measured.append(Measurement("reproduce chen2009 --quick", ended.wall, "s", at_most(180)))
    return measured


def _interactive(page: Path) -> Measurement:
    """How long a reader waits until a table has been sorted by a click and the first chart is drawn."""
    from tests.report.browser import Browser, chromium

    name = "interactive in Chromium"
    if chromium() is None:
        return Measurement(name, None, "s", remark="Chromium is not installed: make browser")
    with TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        started = time.perf_counter()
        browser.open(page)
        browser.run("document.querySelector('.sortable thead button').click()")
        browser.run("document.querySelector('.chart').scrollIntoView()")
        browser.until("document.querySelector('.chart canvas') !== null")
        return Measurement(name, time.perf_counter() - started, "s", at_most(1), "opened, sorted, first chart drawn")
