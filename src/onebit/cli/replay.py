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

from onebit.cli.logs import add_learner_options, add_log_options, build_learner, open_log, pick_learner
from onebit.cli.terminal import print_json, progress_bar
from onebit.errors import InputError


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_log_options(command, files=True)
    add_learner_options(command)
    command.add_argument(
        "--out",
        metavar="FILE",
        help="save the learner there, replacing any file of that name; onebit.load(FILE) loads it",
    )


def execute(args: argparse.Namespace) -> None:
    """Train the learner, save it, and print its description."""
    from onebit.offpolicy import train
    from onebit.offpolicy.log_files import Log

    if args.out and not Path(args.out).parent.is_dir():
        raise InputError(f"{args.out} cannot be written: there is no such folder")  # checked before hours of training
    name, options = pick_learner(args)
    with open_log(args) as log:
        learner = build_learner(log, name, options, args.seed)
        retired = [] if isinstance(log, Log) else log.task.retired
        if not isinstance(log, Log):
            from onebit.service.task import require_candidate_support

            require_candidate_support(learner, retired, "learner")
        with progress_bar(f"{name} on {log.name}", len(log), args.quiet) as progress:
            learnt = train(learner, log, progress)
    for retired_class in retired:  # only now, since the log has rounds in which they were played
        learner.remove_class(retired_class)
    if args.out:
        learner.save(args.out)
    description = learner.describe()
    if args.json:
        where = {"log" if args.task is None else "task": log.name}
        about = {**where, "learner": name, "rounds": len(log), "learnt": learnt, "file": args.out}
        print_json({**about, "description": description.to_dict()})
        return
    print(f"{name} on {log.name}: learnt from {learnt:,} of {len(log):,} rounds")
    print(textwrap.indent(str(description), "  "))
    print("  the error is that of the labels in the log; `onebit evaluate` estimates that of this learner")
    if args.out:
        print(f"  saved in {args.out}")
