"""How fast onebit is: every rule, against Vowpal Wabbit, a C loop and river, one step, start-up, memory, experiments.

    python benchmarks/throughput.py                    # all of it: two minutes, and two more where no rule is compiled yet
    python benchmarks/throughput.py --quick            # a look, on shorter streams
    python benchmarks/throughput.py --only peers --json peers.json
    python benchmarks/throughput.py --only auto --write    # and its table into docs/explanation/auto.md

Streams are timed in CPU seconds of one core, the best of five, contenders taking turns; start-up is on the clock. The bars are
those of an idle machine. A missed bar is printed as missed; the exit code is 0 all the same, since a timing is not a test.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.auto_speed import auto
from benchmarks.experiments import many_runs, memory_of_runs, pages, sweeps
from benchmarks.kernels import budgets, feature_maps, kernels, merging
from benchmarks.measuring import FULL, QUICK, circumstances, markdown, show, where_and_when, write_block
from benchmarks.processes import memory, startup
from benchmarks.second_order import second_order
from benchmarks.steps import steps
from benchmarks.streams import peers, rules, sparse_rows

PAGE = 132  # columns where no terminal says how many it has

SECTIONS = {
    "rules": rules,
    "peers": peers,
    "sparse": sparse_rows,
    "second-order": second_order,
    "auto": auto,
    "steps": steps,
    "startup": startup,
    "memory": memory,
    "sweeps": sweeps,
    "many-runs": many_runs,
    "memory-of-runs": memory_of_runs,
    "pages": pages,
    "kernels": kernels,
    "merging": merging,
    "feature-maps": feature_maps,
    "budgets": budgets,
}

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = {"auto": (ROOT / "docs" / "explanation" / "auto.md", "the table of costs")}  # what --write writes, and where


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write everything to this file")
    parser.add_argument("--quick", action="store_true", help="shorter streams and fewer repetitions")
    parser.add_argument("--only", choices=SECTIONS, metavar="SECTION", help=f"one of {', '.join(SECTIONS)}")
    parser.add_argument("--write", action="store_true", help=f"put the tables of {', '.join(BLOCKS)} into their pages")
    chosen = parser.parse_args()
    effort = QUICK if chosen.quick else FULL
    console = Console(emoji=False) if sys.stdout.isatty() else Console(width=PAGE, emoji=False)
    report = {**circumstances(), "quick": chosen.quick, "rounds": effort.rounds, "sections": {}}
    console.print(
        f"{report['cpu']}, {report['cores']} cores, load {report['load']}; {effort.rounds:,} rounds", highlight=False
    )
    started = time.perf_counter()
    for name in [chosen.only] if chosen.only else SECTIONS:
        section = SECTIONS[name]
        measured = section(effort)
        show(console, f"{name}: {(section.__doc__ or '').rstrip('.')}", measured)
        if chosen.write and name in BLOCKS:
            write_block(*BLOCKS[name], [where_and_when(), "", *markdown(measured)])
        report["sections"][name] = [one.to_dict() for one in measured]
    report["seconds"] = round(time.perf_counter() - started, 1)
    console.print(f"measured in {report['seconds']} s")
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
