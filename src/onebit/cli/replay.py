"""Train a new learner from a log, that of a task of the service or a file, and save it.

It learns every decision that was answered in time, in the order of the answers; in shadow mode, what was shown instead. The log does not
change. Examples:

    onebit replay data news --learner bpa --set aggressiveness=0.01
    onebit replay data news --out news.onebit
    onebit replay log.vw --learner linucb --out linucb.onebit
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from onebit.cli.log_files import add_column_options, is_log_file, learner_on, log_in, refuse_columns
from onebit.cli.logs import add_learner_options, add_log_options, count_of, learner_for, log_of
from onebit.cli.options import own_or, progress_bar
from onebit.errors import InputError

if TYPE_CHECKING:
    from onebit.learner import Learner


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit replay`."""
    add_log_options(command, files=True)
    add_learner_options(command)
    add_column_options(command)
    command.add_argument(
        "--out", metavar="FILE", help="save the learner there, over any file of that name: onebit.load(FILE) gives it"
    )


def execute(chosen: argparse.Namespace) -> None:
    """Train, save, and print what the learner says of itself."""
    from onebit.offpolicy import train

    chosen.learner = chosen.learner or own_or(chosen)
    if chosen.out and not Path(chosen.out).parent.is_dir():
        raise InputError(f"{chosen.out} cannot be written: there is no such folder")  # before hours of training
    if is_log_file(chosen):
        given = log_in(chosen)
        learner, rounds = learner_on(given, chosen), len(given)
        with progress_bar(f"{chosen.learner} on {given.name}", rounds, chosen.quiet) as progress:
            learnt = train(learner, given, progress)
        show(chosen, learner, {"log": given.name}, rounds, learnt)
        return
    refuse_columns(chosen)
    with log_of(chosen) as (log, task):
        from onebit.serve.replay import rounds_of
        from onebit.serve.tasks import refuse_rule

        learner, rounds = learner_for(chosen, task), count_of(log, task)
        refuse_rule(learner, task.retired, "learner")
        with progress_bar(f"{chosen.learner} on {task.name}", rounds, chosen.quiet) as progress:
            learnt = train(learner, rounds_of(log, task), progress)
    for name in task.retired:  # which were played before, and learnt
        learner.remove_class(name)
    show(chosen, learner, {"task": task.name}, rounds, learnt)


def show(chosen: argparse.Namespace, learner: Learner, where: dict[str, str], rounds: int, learnt: int) -> None:
    """Save the learner, and print what was learnt; `where` is the log, by what it is."""
    if chosen.out:
        learner.save(chosen.out)
    description = learner.describe()
    if chosen.json:
        about = {**where, "learner": chosen.learner, "rounds": rounds, "learnt": learnt, "file": chosen.out}
        print(json.dumps({**about, "description": description.to_dict()}, ensure_ascii=False))
        return
    (name,) = where.values()
    print(f"{chosen.learner} on {name}: learnt from {learnt:,} of {rounds:,} rounds")
    print(textwrap.indent(str(description), "  "))
    print("  the error is that of the labels in the log; `onebit evaluate` says what this learner would have scored")
    if chosen.out:
        print(f"  saved in {chosen.out}")
