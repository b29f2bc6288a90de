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

from onebit.cli.logs import add_learner_options, add_log_options, build_learner, chosen_learner, open_log
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
    from onebit.offpolicy.log_files import Log

    if chosen.out and not Path(chosen.out).parent.is_dir():
        raise InputError(f"{chosen.out} cannot be written: there is no such folder")  # checked before hours of training
    name, options = chosen_learner(chosen)
    with open_log(chosen) as log:
        learner = build_learner(log, name, options, chosen.seed)
        retired = [] if isinstance(log, Log) else log.task.retired
        if not isinstance(log, Log):
            from onebit.service.task import require_candidate_support

            require_candidate_support(learner, retired, "learner")
        with progress_bar(f"{name} on {log.name}", len(log), chosen.quiet) as progress:
            learnt = train(learner, log, progress)
    for retired_class in retired:  # only now, since the log has rounds in which they were played
        learner.remove_class(retired_class)
    if chosen.out:
        learner.save(chosen.out)
    description = learner.describe()
    if chosen.json:
        where = {"log" if chosen.task is None else "task": log.name}
        about = {**where, "learner": name, "rounds": len(log), "learnt": learnt, "file": chosen.out}
        print_json({**about, "description": description.to_dict()})
        return
    print(f"{name} on {log.name}: learnt from {learnt:,} of {len(log):,} rounds")
    print(textwrap.indent(str(description), "  "))
    print("  the error is that of the labels in the log; `onebit evaluate` estimates that of this learner")
    if chosen.out:
        print(f"  saved in {chosen.out}")
