"""The picture of the README: errors so far on the handwritten digits, of `auto` and of others with the same feedback.

    python -m benchmarks readme_figure                         # some minutes of one core, most of them for the grid of VW
    python -m benchmarks readme_figure --setting '--epsilon 0.0 --cb_type mtr -l 0.5'    # without the grid

All see the same 20,000 rows, drawn with replacement from the 1,797 of scikit-learn, and are told right or wrong. `auto` gets them as
they are and has nothing set; the others get rows of length one. LinUCB and Banditron have their defaults. Vowpal Wabbit has the best of
79 settings, chosen by its error on a draw of its own; the curves are of five other draws.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import onebit
from benchmarks.measuring import Table
from benchmarks.peers import run_vw, vw_rows, write_text
from benchmarks.workloads import SEED, resampled

DATA, ROUNDS, STEPS = "digits", 20_000, "unit-norm"
SEEDS = range(1000, 1005)
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "start" / "digits.svg"
INK = "#7d8590"  # legible on white and on black, as the lines are
COLOURS = {"Banditron": "#8b7cf0", "Vowpal Wabbit, tuned": "#d9822b", "LinUCB": "#2f9e6e", "auto": "#2f81f7"}


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


def best_setting() -> str:
    """Return the setting of Vowpal Wabbit that errs least on a draw of its own."""
    errors = {}
    with TemporaryDirectory() as folder:
        rows = vw_rows(resampled(DATA, ROUNDS, STEPS, SEED), Path(folder), SEED + 1)
        for setting in SETTINGS:
            errors[setting] = run_vw(f"{rows} {setting}").error
            print(f"{100 * errors[setting]:.2f} %, {setting}", file=sys.stderr, flush=True)
    return min(errors, key=lambda setting: errors[setting])


def vw_curve(setting: str, seed: int, marks: NDArray[np.int64]) -> list[float]:
    """The error so far of Vowpal Wabbit at some rounds, row by row."""
    from vowpalwabbit import Workspace

    with TemporaryDirectory() as folder:
        text = Path(folder) / "rows.txt"
        workload = resampled(DATA, ROUNDS, STEPS, seed)
        write_text(workload, text)
        workspace = Workspace(f"--cbify {workload.classes} --random_seed {seed + 1} --quiet {setting}")
        wanted, found = set(marks.tolist()), []
        for number, line in enumerate(text.read_text(encoding="ascii").splitlines(), 1):
            workspace.learn(line)
            if number in wanted:
                found.append(workspace.get_sum_loss() / number)
        workspace.finish()
    return found


def own_curves() -> tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]]:
    """The rounds, and the errors so far of onebit's own learners: one row for each draw."""
    found, marks = {}, np.zeros(0, dtype=np.int64)
    for title, rule, prepare in (
        ("Banditron", "banditron", STEPS),
        ("LinUCB", "linucb", STEPS),
        ("auto", "auto", None),
    ):
        rows = onebit.stream(DATA, order="resample", rounds=ROUNDS, prepare=prepare)
        curve = onebit.run(rule, rows, seed=SEEDS[0], runs=len(SEEDS), threads=1).curve
        marks, found[title] = curve.rounds, curve.played
    return marks, found


def draw(marks: NDArray[np.int64], errors: Mapping[str, NDArray[np.float64]], path: Path) -> None:
    """The mean curves, each with its name and its last error at its end."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    mpl.rcParams.update({"font.size": 12, "svg.fonttype": "path", "svg.hashsalt": "onebit"})
    figure, axes = plt.subplots(figsize=(8.4, 4.2), layout="constrained")
    for title, colour in COLOURS.items():
        mean = 100 * errors[title].mean(axis=0)
        axes.plot(marks, mean, color=colour, linewidth=2.6)
        said = f" {title} {mean[-1]:.1f} %"
        axes.text(marks[-1], mean[-1], said, color=colour, va="center", fontweight="bold", clip_on=False)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(100, marks[-1])
    axes.set_ylim(0.8, 100)
    for axis, ticks in ((axes.xaxis, (100, 1000, 10_000)), (axes.yaxis, (1, 10, 100))):
        axis.set_ticks(ticks)
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.minorticks_off()
    axes.set_xlabel("rounds", color=INK)
    axes.set_ylabel("error so far, %", color=INK)
    axes.tick_params(colors=INK)
    axes.grid(color=INK, alpha=0.25)
    for side in axes.spines.values():
        side.set_visible(False)
    figure.savefig(path, transparent=True, metadata={"Date": None})


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--setting", metavar="OPTIONS", help="of Vowpal Wabbit, in place of the best of the grid")
    parser.add_argument("--out", type=Path, default=PICTURE, metavar="FILE", help="where the picture goes")


def measure(options: argparse.Namespace) -> list[Table]:
    """Draw the picture, and return the errors at its end."""
    marks, errors = own_curves()
    setting = options.setting or best_setting()
    errors["Vowpal Wabbit, tuned"] = np.array([vw_curve(setting, seed, marks) for seed in SEEDS])
    draw(marks, errors, options.out)
    last = {title: 100 * errors[title][:, -1] for title in COLOURS}
    rows = [
        {"learner": title, "error, %": float(found.mean()), "least": float(found.min()), "most": float(found.max())}
        for title, found in last.items()
    ]
    return [Table(f"Vowpal Wabbit with `--cbify 10 {setting}`, {len(SEEDS)} draws", rows)]
