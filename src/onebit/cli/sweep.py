"""Try a grid of settings; evaluate the best one on tuning streams again on fresh streams.

The grid has a range FROM..TO:log:HOW_MANY (or :linear:), or a list A,B,C, for each parameter. It runs on all cores, a GPU or a cluster
(--on). Finished runs are kept in the folder --out: after Ctrl-C or a crash, the same command resumes. Examples:

    onebit sweep banditron synsep10 --grid exploration=0.001..0.3:log:8
    onebit sweep bpa digits --prepare scale --grid exploration=0.001..0.3:log:8 aggressiveness=0.0001..1:log:9
    onebit sweep epabf iris --rounds 100_000 --grid variant=PA-I,PA-II aggressiveness=0.01,0.1 --set exploration=0.05
    onebit sweep bpa mnist --grid exploration=0.001..0.3:log:12 aggressiveness=0.0001..1:log:12 --runs 100 --on gpu
"""

from __future__ import annotations

import argparse
from functools import partial

from onebit.cli.experiment import add_experiment_options, pick_folder, print_cost, run_experiment
from onebit.cli.options import add_run_options, add_set_option, parse_positive, parse_settings, pick_rule, read_stream
from onebit.cli.terminal import print_note
from onebit.errors import InputError
from onebit.experiments.grid import Grid
from onebit.experiments.pages import describe_sweep
from onebit.experiments.sweep import FRESH_RUNS, TUNING_RUNS, Sweep, sweep


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "rule", metavar="RULE", nargs="?", help="a learner; `onebit learners` lists them (default: the one of --rule)"
    )
    command.add_argument("data", metavar="DATA", help="a data set or a file")
    command.add_argument("--grid", metavar="NAME=VALUES", nargs="+", required=True, help="parameters and their values")
    add_set_option(command, "a parameter that stays the same")
    command.add_argument(
        "--runs", type=parse_positive, default=TUNING_RUNS, help=f"tuning runs of each setting (default {TUNING_RUNS})"
    )
    command.add_argument(
        "--fresh-runs", type=parse_positive, default=FRESH_RUNS, help=f"runs of the best setting (default {FRESH_RUNS})"
    )
    add_experiment_options(command)
    add_run_options(command)


def execute(args: argparse.Namespace) -> int:
    """Run the grid, print the chosen setting and write the page; after Ctrl-C, keep what is finished."""
    args.rule = args.rule or pick_rule(args, "")
    if not args.rule:
        raise InputError("RULE is missing: name the learner to tune, as `onebit learners` lists it, or give --rule")
    axes, options = parse_settings(args.grid, "--grid", str), parse_settings(args.set)
    cells = len(Grid(args.rule, axes, options).entries)
    stream = read_stream(args, args.data)
    folder = pick_folder(args, args.rule, args.data)
    total = stream.rounds * (cells * args.runs + args.fresh_runs)
    run = partial(sweep, args.rule, stream, grid=axes, options=options, fresh_runs=args.fresh_runs)
    return run_experiment(args, folder, (f"{cells} settings of {args.rule}", total), run, print_sweep, False)


def print_sweep(result: Sweep) -> None:
    """Print what the page says: which setting was chosen, and how."""
    print_note(f"{result.grid.rule.name} on {result.stream.name}")
    for sentence in describe_sweep(result):
        print_note(sentence.replace("`", ""))
    print_cost(result.cost)
