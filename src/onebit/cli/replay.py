"""Train a new learner from a log, that of a task of the service or a file, and save it.

It learns every decision that was answered in time, in the order of the answers; in shadow mode, what was shown instead. The log does not
change. Examples:

    onebit replay data news --learner bpa --set aggressiveness=0.01
    onebit replay data news --out news.onebit
    onebit replay log.vw --learner linucb --out linucb.onebit
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from onebit.cli.logs import ChosenLog, add_learner_options, add_log_options, open_log
from onebit.cli.terminal import print_json, progress_bar
from onebit.errors import InputError


def declare(command: argparse.ArgumentParser) -> None:
    add_log_options(command, files=True)
    add_learner_options(command)
    command.add_argument(
        "--out", metavar="FILE", help="save the learner there, over any file of that name; onebit.load(FILE) loads it"
    )


def execute(chosen: argparse.Namespace) -> None:
    """Train the learner, save it, and print its description."""
    from onebit.offpolicy import train

    if chosen.out and not Path(chosen.out).parent.is_dir():
        raise InputError(f"{chosen.out} cannot be written: there is no such folder")  # checked before hours of training
    with open_log(chosen) as log:
        retired = [] if log.task is None else log.task.retired
        if log.task is not None:
            from onebit.service.task import require_candidate_support

            require_candidate_support(log.learner, retired, "learner")
        with progress_bar(f"{chosen.learner} on {log.name}", log.count, chosen.quiet) as progress:
            learnt = train(log.learner, log.rounds, progress)
    for name in retired:  # only now, since the log has rounds in which they were played
        log.learner.remove_class(name)
    if chosen.out:
        log.learner.save(chosen.out)
    show(chosen, log, learnt)


def show(chosen: argparse.Namespace, log: ChosenLog, learnt: int) -> None:
    """Print how much was learnt, and the description of the learner."""
    description = log.learner.describe()
    if chosen.json:
        where = {"log" if log.task is None else "task": log.name}
        about = {**where, "learner": chosen.learner, "rounds": log.count, "learnt": learnt, "file": chosen.out}
        print_json({**about, "description": description.to_dict()})
        return
    print(f"{chosen.learner} on {log.name}: learnt from {learnt:,} of {log.count:,} rounds")
    print(textwrap.indent(str(description), "  "))
    print("  the error is that of the labels in the log; `onebit evaluate` estimates that of this learner")
    if chosen.out:
        print(f"  saved in {chosen.out}")
