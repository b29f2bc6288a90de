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
import json
from dataclasses import replace
from functools import partial
from typing import Any

from onebit.cli.experiment import add_experiment_options, print_cost, result_folder, run_experiment
from onebit.cli.options import add_run_options, positive, read_stream, settings
from onebit.cli.terminal import print_note, print_table
from onebit.errors import InputError, brief
from onebit.experiments.compare import RUNS, Comparison, compare, usual_entries
from onebit.experiments.pages import error_table
from onebit.experiments.statistics import whose_speed
from onebit.rules import chosen_rules, is_rule

ROOMY = ("greedy, %", "greedy reward", "rounds/s")  # columns for which a narrow terminal has no room


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit compare`."""
    command.add_argument(
        "data", metavar="DATA", nargs="+", help="data sets or files; `onebit data` lists those there are"
    )
    command.add_argument(
        "--learners",
        metavar="A,B:NAME=VALUE,...",
        help="the learners to compare, with parameters (default: all)",
    )
    command.add_argument("--runs", type=positive, default=RUNS, help=f"runs of each (default {RUNS})")
    add_experiment_options(command)
    add_run_options(command)


def execute(chosen: argparse.Namespace) -> int:
    """Run all of them, print the table and write the page; Ctrl-C shows what is done, and the rest runs next time."""
    learners = learners_of(chosen.learners)
    for one in chosen.data:
        if is_rule(one):
            raise InputError(f"{brief(one)} is a learner, and no data: say those after --learners, separated by commas")
    given = [read_stream(chosen, one) for one in chosen.data]
    folder = result_folder(chosen, *chosen.data)
    count = len(usual_entries() if learners is None else learners)
    total = sum(one.rounds for one in given) * chosen.runs * count
    # Who compares all learners wants the best, and that some cannot cope with the data is what is found.
    unasked = chosen_rules().keys() - {rule.name for rule in chosen.own_rules} if learners is None else ()
    run = partial(compare, given, learners)
    return run_experiment(chosen, folder, (f"{count} learners", total), run, show, True, unasked)


def learners_of(text: str | None) -> list[tuple[str, dict[str, Any]]] | None:
    """Learners with their parameters, from `bpa,bpa:aggressiveness=0.001`; None where nothing is said.

    >>> learners_of("banditron,bpa:aggressiveness=0.001:variant=PA-I")
    [('banditron', {}), ('bpa', {'aggressiveness': 0.001, 'variant': 'PA-I'})]
    """
    if text is None:
        return None
    found = []
    for word in text.split(","):
        name, *given = (part.strip() for part in word.split(":"))
        if not name:
            raise InputError(f"--learners is {brief(text)}, but must be names separated by commas: bpa,banditron")
        found.append((name, settings(given, f"{name} in --learners")))
    return found


def show(found: Comparison, as_json: bool) -> None:
    """Print a comparison: the tables of its page."""
    if as_json:
        print(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
        return
    for result in found.results:
        if result.summaries:
            given = result.stream
            runs, first = max(one.runs for one in result.summaries), "error in %, lowest first"
            if result.rewarded:
                first = "mean reward, highest first"
            title = f"{given.name}: {runs} x {given.rounds:,} rounds, {first}"
            caption = f"±: 95 % interval of the mean over runs. rounds/s: {whose_speed(result.summaries)}."
            print_table(replace(error_table(result), title=title), roomy=ROOMY, caption=caption)
            for said in filter(None, (given.about, given.caveat and f"but {given.caveat}", given.source.note)):
                print_note(said)
    if found.finding:
        print_note(found.finding.replace("`", ""))
    print_cost(found.cost)
