"""Train a new learner from the log of a task, and keep it.

It learns every decision that was answered in time, in the order of the answers; in shadow mode, what was shown instead. Examples:

    onebit replay data news --learner bpa --set aggressiveness=0.01
    onebit replay data news --out news.onebit
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path

from onebit.cli.logs import add_learner_options, add_log_options, count_of, learner_for, log_of
from onebit.cli.options import progress_bar
from onebit.errors import InputError


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit replay`."""
    add_log_options(command)
    add_learner_options(command)
    command.add_argument(
        "--out", metavar="FILE", help="save the learner there, over any file of that name: onebit.load(FILE) gives it"
    )


def execute(chosen: argparse.Namespace) -> None:
    """Train, save, and print what the learner says of itself."""
    with log_of(chosen) as (log, task):
        from onebit.offpolicy import train
        from onebit.serve.replay import rounds_of

        if chosen.out and not Path(chosen.out).parent.is_dir():
            raise InputError(f"{chosen.out} cannot be written: there is no such folder")  # before hours of training
        learner, rounds = learner_for(chosen, task), count_of(log, task)
        with progress_bar(f"{chosen.learner} on {task.name}", rounds, chosen.quiet) as progress:
            learnt = train(learner, rounds_of(log, task), progress)
    if chosen.out:
        learner.save(chosen.out)
    description = learner.describe()
    if chosen.json:
        about = {"task": task.name, "learner": chosen.learner, "rounds": rounds, "learnt": learnt, "file": chosen.out}
        print(json.dumps({**about, "description": description.to_dict()}, ensure_ascii=False))
        return
    print(f"{chosen.learner} on {task.name}: learnt from {learnt:,} of {rounds:,} rounds")
    print(textwrap.indent(str(description), "  "))
    print("  the error is that of the labels in the log; `onebit evaluate` says what this learner would have scored")
    if chosen.out:
        print(f"  saved in {chosen.out}")
