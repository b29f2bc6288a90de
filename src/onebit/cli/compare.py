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
from functools import partial
from typing import Any

from onebit.cli.experiment import add_executor, add_result_folder, result_folder, run_experiment
from onebit.cli.options import (
    add_feedback_options,
    add_rule_option,
    add_run_options,
    download_bar,
    feedback_settings,
    positive,
    settings,
    stream_settings,
)
from onebit.cli.tables import console, learner_table, print_cost, print_wide
from onebit.data.streams import stream
from onebit.errors import InputError, brief
from onebit.experiments.compare import RUNS, Comparison, compare, usual_entries
from onebit.rules import chosen_rules, is_rule


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
    add_rule_option(command)
    add_executor(command)
    add_result_folder(command)
    add_run_options(command)
    add_feedback_options(command)


def execute(chosen: argparse.Namespace) -> int:
    """Run all of them, print the table and write the page; Ctrl-C shows what is done, and the rest runs next time."""
    learners = learners_of(chosen.learners)
    for one in chosen.data:
        if is_rule(one):
            raise InputError(f"{brief(one)} is a learner, and no data: say those after --learners, separated by commas")
    with download_bar(chosen.quiet) as heard:
        given = [
            stream(one, progress=heard, **stream_settings(chosen, one), **feedback_settings(chosen, one))
            for one in chosen.data
        ]
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
    """Print a comparison."""
    if as_json:
        print(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
        return
    for result in found.results:
        if result.summaries:
            told = (
                result.stream.about,
                result.stream.caveat and f"but {result.stream.caveat}",
                result.stream.source.note,
            )
            print_wide(learner_table(result), "\n".join(filter(None, told)))
    if found.finding:
        console().print(found.finding.replace("`", ""), highlight=False, markup=False)
    print_cost(found.cost)
