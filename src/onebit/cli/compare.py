"""Compare learners on the same streams: a table sorted by error, curves, and a page.

Without --learners, every learner takes part with its defaults, and so do those of --rule. Learners with an aggressiveness
also run with a small one (0.001), for data without a margin, and with a large one (1), for rows of length one. Parameters follow a name
after colons. Runs and the page are written to the folder --out. Examples:

    onebit compare digits iris --prepare scale
    onebit compare mnist --prepare scale --learners bpa,bpa:aggressiveness=1,banditron:exploration=0.1 --runs 10
    onebit compare tickets.csv --label team --categorical product,country
    onebit compare synsep10 --delay geometric:100 --missing 0.1 --out results/late
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import Any

from onebit.cli.experiment import add_experiment_options, pick_folder, print_cost, run_experiment
from onebit.cli.options import add_run_options, parse_positive, parse_settings, read_stream
from onebit.cli.terminal import print_note, print_table
from onebit.errors import InputError, brief
from onebit.experiments.compare import RUNS, Comparison, compare, usual_entries
from onebit.experiments.pages import error_table
from onebit.experiments.statistics import describe_speed
from onebit.rules import chosen_rules, is_rule

WIDE_COLUMNS = ("greedy, %", "greedy reward", "rounds/s")  # columns omitted on a narrow terminal


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "data", metavar="DATA", nargs="+", help="data sets or files; `onebit data` lists the data sets"
    )
    command.add_argument(
        "--learners", metavar="A,B:NAME=VALUE,...", help="the learners to compare, with parameters (default: all)"
    )
    command.add_argument("--runs", type=parse_positive, default=RUNS, help=f"runs of each (default {RUNS})")
    add_experiment_options(command)
    add_run_options(command)


def execute(args: argparse.Namespace) -> int:
    """Run all learners, print the table and write the page.

    Ctrl-C shows the finished runs; the same command resumes.
    """
    learners = parse_learners(args.learners)
    for name in args.data:
        if is_rule(name):
            raise InputError(
                f"{brief(name)} is a learner, not data: name learners after --learners, separated by commas"
            )
    streams = [read_stream(args, name) for name in args.data]
    folder = pick_folder(args, *args.data)
    count = len(usual_entries() if learners is None else learners)
    total = sum(stream.rounds for stream in streams) * args.runs * count
    # If all learners are compared, that some fail on the data is a result and not an error.
    unnamed = chosen_rules().keys() - {rule.name for rule in args.own_rules} if learners is None else ()
    run = partial(compare, streams, learners)
    return run_experiment(args, folder, (f"{count} learners", total), run, print_comparison, True, unnamed)


def parse_learners(text: str | None) -> list[tuple[str, dict[str, Any]]] | None:
    """Parse learners with parameters, such as `bpa,bpa:aggressiveness=0.001`; return None for None.

    >>> parse_learners("banditron,bpa:aggressiveness=0.001:variant=PA-I")
    [('banditron', {}), ('bpa', {'aggressiveness': 0.001, 'variant': 'PA-I'})]
    """
    if text is None:
        return None
    learners = []
    for item in text.split(","):
        name, *parameters = (part.strip() for part in item.split(":"))
        if not name:
            raise InputError(f"--learners is {brief(text)}, but must be names separated by commas: bpa,banditron")
        learners.append((name, parse_settings(parameters, f"{name} in --learners")))
    return learners


def print_comparison(comparison: Comparison) -> None:
    """Print the tables of the page."""
    for result in comparison.results:
        if result.summaries:
            stream, runs = result.stream, max(summary.runs for summary in result.summaries)
            order = "mean reward, highest first" if result.rewarded else "error in %, lowest first"
            title = f"{stream.name}: {runs} x {stream.rounds:,} rounds, {order}"
            caption = f"±: 95 % interval of the mean over runs. rounds/s: {describe_speed(result.summaries)}."
            print_table(replace(error_table(result), title=title), roomy=WIDE_COLUMNS, caption=caption)
            for note in filter(None, (stream.about, stream.caveat and f"but {stream.caveat}")):
                print_note(note)
    if comparison.finding:
        print_note(comparison.finding.replace("`", ""))
    print_cost(comparison.cost)
