"""What the commands on logs share where a log is a file: which columns of a table are what, and a learner for its rounds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onebit.cli.options import names_of, progress_bar, settings
from onebit.errors import InputError, brief
from onebit.experiments.grid import value_of

if TYPE_CHECKING:
    from onebit.learner import Learner
    from onebit.offpolicy import Log

COLUMNS = ("x", "text", "action", "right", "propensity", "id")


def add_column_options(command: argparse.ArgumentParser) -> None:
    """What a log in a file is made of."""
    file = command.add_argument_group("a log in a file")
    file.add_argument("--x", metavar="A,B,...", help="the columns of the features: numbers and categories (default x)")
    file.add_argument("--text", metavar="COLUMN", help="the column of a text, in place of --x")
    file.add_argument("--action", metavar="COLUMN", help="the column of what was shown (default action, or label)")
    file.add_argument(
        "--right", metavar="COLUMN", help="the column that says whether it was right (default right, or reward)"
    )
    file.add_argument(
        "--propensity",
        metavar="COLUMN",
        help="the column of the probability with which it was shown (default propensity, or pscore)",
    )
    file.add_argument("--id", metavar="COLUMN", help="the column of the ids (default id, or the number of the row)")
    file.add_argument("--classes", metavar="A,B,...", help="the actions (default: those that occur)")
    file.add_argument(
        "--costs",
        metavar="RIGHT,WRONG",
        help="what right and wrong cost in Vowpal Wabbit's files, where that is not 0 and 1: --costs=-1,0",
    )


def is_log_file(chosen: argparse.Namespace) -> bool:
    """Whether the log that is named is a file, and not the folder of a service."""
    from onebit.offpolicy.logs import ENDINGS

    path = Path(chosen.folder)
    if path.is_dir() or not (path.is_file() or path.name.lower().endswith(ENDINGS)):
        return False
    if chosen.task is not None:
        raise InputError(f"TASK is {brief(chosen.task)}, but {chosen.folder} is a file, which has no tasks")
    return True


def refuse_columns(chosen: argparse.Namespace) -> None:
    """Refuse what says how a file is to be read, where there is none."""
    for name in (*COLUMNS, "classes", "costs"):
        if getattr(chosen, name) is not None:
            raise InputError(f"--{name} is for a log in a file, and {chosen.folder} is the folder of a service")


def log_in(chosen: argparse.Namespace) -> Log:
    """The log in the file that was named."""
    from onebit.offpolicy import read_log

    columns = {name: getattr(chosen, name) for name in COLUMNS}
    if chosen.x is not None:
        columns["x"] = names_of(chosen.x)
    classes = [value_of(name) for name in names_of(chosen.classes)] or None
    costs = None if chosen.costs is None else [value_of(one) for one in chosen.costs.split(",")]
    return read_log(chosen.folder, classes=classes, costs=costs, **columns)


def learner_on(log: Log, name: str, given: Sequence[str], seed: int) -> Learner:
    """A new learner for the rounds of a log in a file, with the floor that the service would give it."""
    from onebit.contract.parameters import refuse_unknown
    from onebit.learner import Learner
    from onebit.offpolicy.training import usual_floor
    from onebit.rules import rule_named
    from onebit.trials.trial import OPTIONS

    rule, options = rule_named(name), settings(given)
    refuse_unknown(rule.title, options, {**rule.parameters, **OPTIONS})
    floor = options.pop("exploration_floor", usual_floor(rule))
    return Learner(rule, classes=log.classes, seed=seed, exploration_floor=floor, **{"text": log.text, **options})


def evaluate_file(chosen: argparse.Namespace) -> None:
    """Evaluate on the log in a file, and print what came out."""
    from onebit.offpolicy import evaluate

    log = log_in(chosen)
    learner = learner_on(log, chosen.learner, chosen.set, chosen.seed)
    with progress_bar(f"{chosen.learner} on {log.name}", len(log), chosen.quiet) as progress:
        found = evaluate(learner, log, seed=chosen.seed, unanswered=log.unanswered, progress=progress)
    if chosen.json:
        print(json.dumps({"log": log.name, **found.to_dict()}, ensure_ascii=False))
        return
    print(found)
    print("Compare learners with each other on this log, with the same floor, and not with the log itself.")
