"""What a fresh process takes: import, commands, and the first use of a learner, compiled before or not.

    python -m benchmarks startup            # minutes: every rule is compiled in an empty cache
    python -m benchmarks startup --quick    # Banditron and `auto` alone, once

Every process runs several times; the quickest counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measuring import FULL, QUICK, Ended, Table, time_python
from onebit.rules import chosen_rules, rule_named

DENSE, SPARSE = "[0.5] * 100", "{'a': 1.0}"
IMPORT = (
    "import time; started = time.perf_counter(); import onebit; print(time.perf_counter() - started); "
    "import sys; assert 'numba' not in sys.modules"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--quick", action="store_true", help="Banditron and auto alone, once each")


def measure(options: argparse.Namespace) -> list[Table]:
    """Time processes that find compiled code, and processes that compile."""
    starts = (QUICK if options.quick else FULL).starts
    imported = min(float(time_python(["-c", IMPORT]).output) for _ in range(starts))
    warm = [
        {"process": "import onebit, inside of it", "seconds": imported, "CPU seconds": None},
        time_process("onebit learners", starts, partial(time_python, ["-m", "onebit", "learners"])),
    ]
    with TemporaryDirectory() as folder:
        for rule in ("banditron", "auto"):
            code = first_use(rule, DENSE)
            time_python(["-c", code], Path(folder))
            warm.append(time_process(f"first use of {rule}", starts, partial(time_python, ["-c", code], Path(folder))))
        run = ["-m", "onebit", "run", "digits", "--quiet"]
        time_python(run, Path(folder))
        warm.append(time_process("onebit run digits", starts, partial(time_python, run, Path(folder))))
    uses = [("banditron", "dense", DENSE), ("auto", "dense", DENSE), ("auto", "sparse", SPARSE)]
    if not options.quick:
        uses += [(name, "dense", DENSE) for name in chosen_rules() if name not in ("banditron", "auto")]
    cold = [time_process(f"{rule}, {form} rows", starts, partial(cold_use, rule, row)) for rule, form, row in uses]
    return [Table("With compiled code", warm), Table("First use, nothing compiled yet", cold)]


def time_process(name: str, starts: int, start: Callable[[], Ended]) -> dict[str, Any]:
    """Return the seconds of the quickest of several processes, on the clock and of CPU."""
    ended = min(start() for _ in range(starts))
    return {"process": name, "seconds": ended.wall, "CPU seconds": ended.cpu}


def first_use(rule: str, row: str) -> str:
    """Return a program that makes a learner and decides once."""
    options = dict(rule_named(rule).examples[0])
    return f"import onebit; onebit.{rule_named(rule).title}(classes=10, **{options!r}).decide({row})"


def cold_use(rule: str, row: str) -> Ended:
    """Time the first use of a rule with an empty cache, the start of the process included."""
    with TemporaryDirectory() as empty:
        return time_python(["-c", first_use(rule, row)], Path(empty))
