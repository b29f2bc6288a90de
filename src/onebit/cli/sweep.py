"""Try a grid of settings on all cores, a GPU or a cluster: the best is chosen on tuning streams and reported on fresh ones.

The grid has a range FROM..TO:log:HOW_MANY (or :linear:), or a list A,B,C, for each parameter. Finished runs are kept in the folder --out:
after Ctrl-C or a crash, the same command resumes. Examples:

    onebit sweep banditron synsep10 --grid exploration=0.001..0.3:log:8
    onebit sweep bpa digits --prepare scale --grid exploration=0.001..0.3:log:8 aggressiveness=0.0001..1:log:9
    onebit sweep epabf iris --rounds 100_000 --grid variant=PA-I,PA-II aggressiveness=0.01,0.1 --set exploration=0.05
    onebit sweep bpa mnist --grid exploration=0.001..0.3:log:12 aggressiveness=0.0001..1:log:12 --runs 100 --on gpu
"""

from __future__ import annotations

import argparse
import json
from functools import partial

from onebit.cli.experiment import add_experiment_options, print_cost, result_folder, run_experiment
from onebit.cli.options import (
    add_run_options,
    own_or,
    positive,
    read_stream,
    settings,
)
from onebit.errors import InputError
from onebit.experiments.drawing import achieved, in_words
from onebit.experiments.grid import Grid
from onebit.experiments.sweep import FRESH_RUNS, TUNING_RUNS, Sweep, sweep
from onebit.experiments.trials import shown
from onebit.experiments.trials.cost import number_of


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit sweep`."""
    command.add_argument(
        "rule", metavar="RULE", nargs="?", help="a learner; `onebit learners` lists them (default: the one of --rule)"
    )
    command.add_argument("data", metavar="DATA", help="a data set or a file")
    command.add_argument("--grid", metavar="NAME=VALUES", nargs="+", required=True, help="parameters and their values")
    command.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a parameter that stays the same"
    )
    command.add_argument(
        "--runs", type=positive, default=TUNING_RUNS, help=f"tuning runs of each setting (default {TUNING_RUNS})"
    )
    command.add_argument(
        "--fresh-runs", type=positive, default=FRESH_RUNS, help=f"runs of the setting chosen (default {FRESH_RUNS})"
    )
    add_experiment_options(command)
    add_run_options(command)


def execute(chosen: argparse.Namespace) -> int:
    """Run the grid, print the setting chosen and write the page; Ctrl-C keeps what is done."""
    chosen.rule = chosen.rule or own_or(chosen, "")
    if not chosen.rule:
        raise InputError(f"RULE is missing: which learner is to be tried on {chosen.data}?")
    axes, options = settings(chosen.grid, "--grid", str), settings(chosen.set)
    cells = len(Grid(chosen.rule, axes, options).entries)
    given = read_stream(chosen, chosen.data)
    folder = result_folder(chosen, chosen.rule, chosen.data)
    total = given.rounds * (cells * chosen.runs + chosen.fresh_runs)
    run = partial(sweep, chosen.rule, given, grid=axes, options=options, fresh_runs=chosen.fresh_runs)
    return run_experiment(chosen, folder, (f"{cells} settings of {chosen.rule}", total), run, show, False)


def show(found: Sweep, as_json: bool) -> None:
    """Print what was chosen."""
    if as_json:
        print(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
        return
    print(
        f"{found.grid.rule.name} on {found.stream.name}: {len(found.grid.entries)} settings, {found.stream.rounds:,} rounds"
    )
    _show_choice(found)
    if found.stream.caveat:
        print(f"  but     {found.stream.caveat}")
    print_cost(found.cost)


def _show_choice(found: Sweep) -> None:
    if found.best is None or found.chosen is None:
        print("  no setting was run without a failure")
        return
    tuned = found.summaries[found.chosen]
    print(f"  best    {shown(found.best)}")
    if tuned is not None:
        print(
            f"  tuning  {achieved(tuned)}, {number_of(found.runs, 'run')}: too {'high, since it is the highest' if tuned.rewarded else 'low, since it is the lowest'} of many"
        )
    for name in found.edges():
        print(f"  edge    {name} is at the end of its grid: a wider one may do better")
    if found.fresh is not None:
        print(
            f"  fresh   {achieved(found.fresh)}, {number_of(found.fresh_runs, 'run')}; greedy {in_words(found.fresh.greedy_error)} %"
        )
