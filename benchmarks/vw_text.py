"""Vowpal Wabbit on 20 Newsgroups: the error of the label played, for a grid of its explorers, from the first message to the last.

    python benchmarks/vw_text.py                       # 79 settings on two forms of the rows, one order, then the best on others
    python benchmarks/vw_text.py --form binary --rounds 2000 --json vw.json

The rows have every token and length one, in the order in which `onebit.run(..., order="shuffle")` brings them for seed 0. `--cbify`
draws the label from the distribution of its explorer and gets feedback on that label alone; the error is the mean loss of
those labels.

The best of a grid is chosen by the very error that is reported. Neighbours in this grid differ by ten points and more, in no order:
much of the best one's lead is luck. So the best few are run again on orders that nothing was chosen on, and both errors are told.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import circumstances
from benchmarks.peers_vw import run, write_text
from benchmarks.workloads import SEED, shuffled

FORMS = {"binary": "binary,unit-norm", "counts": "unit-norm"}
BITS = 22  # 4 million weights: 75,916 tokens of 20 classes are 1.5 million
RATES = (0.02, 0.1, 0.5, 2.0, 8.0)  # the third is VW's own
EXPLORERS = (
    "--epsilon 0.0",
    "--epsilon 0.005",
    "--epsilon 0.02",
    "--epsilon 0.05",
    "--cb_explore_adf --softmax --lambda 50",
    "--cb_explore_adf --softmax --lambda 200",
    "--bag 5",
    "--cb_explore_adf --bag 5 --greedify --epsilon 0.0",
    "--cb_explore_adf --squarecb --gamma_scale 100",
    "--cb_explore_adf --squarecb --gamma_scale 1000",
    "--cb_explore_adf --squarecb --gamma_scale 10000",
    "--cb_explore_adf --regcbopt --mellowness 0.00001",
    "--cb_explore_adf --regcbopt --mellowness 0.0001",
    "--cb_explore_adf --regcbopt --mellowness 0.001",
    "--cb_explore_adf --regcbopt --mellowness 0.01",
)
DOUBLY_ROBUST = ("--epsilon 0.02", "--cover 3 --nounif")
SETTINGS = (
    *(f"{explorer} --cb_type mtr -l {rate:g}" for explorer in EXPLORERS for rate in RATES),
    *(f"{explorer} --cb_type dr -l {rate:g}" for explorer in DOUBLY_ROBUST for rate in RATES[1:3]),
)
AGAIN = 6  # so many of the best
FRESH_SEEDS = range(SEED + 1, SEED + 6)


def passed(form: str, settings: tuple[str, ...], seed: int, rounds: int | None) -> dict[str, float]:
    """The errors of some settings on one order of the messages."""
    workload = shuffled("20newsgroups", FORMS[form], rounds, seed)
    found = {}
    with TemporaryDirectory() as folder:
        text = Path(folder) / "rows.txt"
        write_text(workload, text)
        rows = (
            f"--cbify {workload.classes} -b {BITS} --random_seed {seed + 1} --quiet -d {text} --cache_file {text}.cache"
        )
        run(f"{rows} -k")
        for setting in settings:
            outcome = run(f"{rows} {setting}")
            found[setting] = outcome.error
            said = f"{form}, order {seed}: {100 * outcome.error:.2f} %, {outcome.seconds:.1f} s, {setting}"
            print(said, file=sys.stderr, flush=True)
    return found


def measured(form: str, rounds: int | None) -> list[dict[str, Any]]:
    """Every setting on one form of the rows, the best first; the best few on fresh orders too."""
    errors = passed(form, SETTINGS, SEED, rounds)
    ranked = sorted(errors, key=lambda setting: errors[setting])
    best = tuple(ranked[:AGAIN])
    fresh = [passed(form, best, seed, rounds) for seed in FRESH_SEEDS]
    return [
        {
            "form": form,
            "setting": setting,
            "error": errors[setting],
            "fresh_errors": [one[setting] for one in fresh] if setting in best else [],
        }
        for setting in ranked
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--form", choices=FORMS, help="one of them alone")
    parser.add_argument("--rounds", type=int, help="only so many messages")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write everything to this file")
    chosen = parser.parse_args()
    report: dict[str, Any] = {**circumstances(), "rounds": chosen.rounds, "results": []}
    started = time.perf_counter()
    for form in [chosen.form] if chosen.form else FORMS:
        found = measured(form, chosen.rounds)
        report["results"] += found
        orders = f"{len(FRESH_SEEDS)} fresh orders: mean (least to most)"
        print(f"\n| {form}: setting of `--cbify 20 -b {BITS}` | error, % | {orders} |\n|---|---:|---:|")
        for one in found:
            errors = [100 * error for error in one["fresh_errors"]]
            again = f"{statistics.mean(errors):.2f} ({min(errors):.2f} to {max(errors):.2f})" if errors else ""
            print(f"| `{one['setting']}` | {100 * one['error']:.2f} | {again} |", flush=True)
    report["seconds"] = round(time.perf_counter() - started, 1)
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
