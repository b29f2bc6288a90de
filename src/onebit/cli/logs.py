"""Options for logs and learners, and opening of logs, shared by `evaluate`, `replay` and `export`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.cli.options import (
    add_quiet_option,
    add_rule_option,
    add_set_option,
    parse_classes,
    parse_count,
    parse_names,
    parse_settings,
    pick_rule,
)
from onebit.cli.serve import require_service_extra
from onebit.errors import InputError, brief
from onebit.experiments.grid import parse_value
from onebit.rules import DEFAULT, rule_named

if TYPE_CHECKING:
    from onebit.learner.learner import Learner
    from onebit.offpolicy.log_files import Log
    from onebit.service.maintenance.log_reader import LogReader, TaskLog
    from onebit.service.task import TaskInfo

# Options that name a column of a log in a file.
COLUMNS = {
    "text": "the column of a text, in place of --x",
    "action": "the column of what was shown (default action, or label)",
    "right": "the column with right or wrong, or the reward from 0 to 1 (default right, or reward; with both, the reward where there is one)",
    "truth": "the column of what would have been right, where that is known",
    "among": "the column of the candidates, separated by |; empty for all actions (default among)",
    "propensity": "the column of the probability with which it was shown (default propensity, or pscore)",
    "id": "the column of the ids (default id, or the number of the row)",
}
READ_LOG_OPTIONS = ("x", *COLUMNS, "classes", "costs", "complete")  # options that are keyword arguments of `read_log`


def add_log_options(command: argparse.ArgumentParser, files: bool = False) -> None:
    """Add the arguments for the log and the task; with `files`, the log may also be a file."""
    folder = "the data folder of `onebit serve`, which may be running"
    command.add_argument(
        "folder",
        metavar="LOG" if files else "DIR",
        help=f"{folder}, a file (.vw, .csv or .parquet), or a folder of `onebit archive`" if files else folder,
    )
    command.add_argument(
        "task",
        metavar="TASK",
        nargs="?" if files else None,
        help="the name of a task of the service" if files else "the name of a task",
    )
    add_quiet_option(command)


def add_learner_options(command: argparse.ArgumentParser) -> None:
    """Add the options for the learner, and for the columns of a log in a file."""
    command.add_argument(
        "--learner",
        metavar="NAME",
        help=f"a learner; `onebit learners` lists them (default {DEFAULT}, or the one of --rule)",
    )
    add_rule_option(command)
    add_set_option(command, "a parameter, or exploration_floor")
    command.add_argument("--seed", type=parse_count, default=0, help="seed of the learner (default 0)")
    file = command.add_argument_group("a log in a file")
    file.add_argument(
        "--x",
        metavar="A,B,...",
        type=parse_names,
        help="the columns of the features: numbers and categories (default x)",
    )
    for name, meaning in COLUMNS.items():
        file.add_argument(f"--{name}", metavar="COLUMN", help=meaning)
    file.add_argument(
        "--complete", action="store_true", help="the right action was one of the candidates in each round"
    )
    file.add_argument(
        "--classes", metavar="A,B,...", type=parse_classes, help="the actions (default: those that occur)"
    )
    file.add_argument(
        "--costs",
        metavar="RIGHT,WRONG",
        type=lambda text: [parse_value(cost) for cost in text.split(",")],
        help="the costs of right and wrong in Vowpal Wabbit's files, if not 0 and 1 (--costs=-1,0), or in the column --right; "
        "costs in between become rewards; for rewards from 0 to 5, give --costs=5,0",
    )


@contextmanager
def open_log(args: argparse.Namespace) -> Iterator[Log | TaskLog]:
    """Open the log that the command line names: a file, or the log of a task."""
    if is_log_file(args):
        from onebit.offpolicy.log_files import read_log

        yield read_log(args.folder, **{name: getattr(args, name) for name in READ_LOG_OPTIONS})
        return
    for name in READ_LOG_OPTIONS:
        if getattr(args, name) not in (None, False):
            raise InputError(f"--{name} is for a log in a file, but {args.folder} is the folder of a service")
    with open_task_log(args) as (reader, task):
        from onebit.service.maintenance.log_reader import TaskLog

        yield TaskLog(reader, task)


def pick_learner(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Return the learner named by --learner, by default that of --rule, and its options."""
    return args.learner or pick_rule(args), parse_settings(args.set)


def build_learner(log: Log | TaskLog, name: str, options: Mapping[str, Any], seed: int) -> Learner:
    """Return a new learner for the rounds of a log."""
    from onebit.offpolicy.log_files import Log, learner_for

    if isinstance(log, Log):
        return learner_for(log, rule_named(name), options, seed)
    return log.build_learner(name, options, seed)


@contextmanager
def open_task_log(args: argparse.Namespace) -> Iterator[tuple[LogReader, TaskInfo]]:
    """Open the log of a service and look up the task."""
    with require_service_extra():
        from onebit.service.maintenance.log_reader import LogReader
        from onebit.service.store.base import is_address
        from onebit.service.store.errors import as_input_errors
    if args.task is None and not is_address(args.folder) and not Path(args.folder).exists():
        raise InputError(f"there is no {args.folder}: name a log file, or the folder of a service and one of its tasks")
    if args.task is None:
        raise InputError(
            f"TASK is missing: {args.folder} is not a log file (.vw, .csv, .tsv or .parquet), and in the log of a service a task must be named"
        )
    with LogReader(args.folder) as log, as_input_errors(log.name):
        yield log, log.task(args.task)


def is_log_file(args: argparse.Namespace) -> bool:
    """Return True if the log is a file or a folder of files, and not the folder of a service."""
    from onebit.offpolicy.log_files import ENDINGS, is_archive

    path = Path(args.folder)
    if not is_archive(path) and (path.is_dir() or not (path.is_file() or path.name.lower().endswith(ENDINGS))):
        return False
    if args.task is not None:
        raise InputError(f"TASK is {brief(args.task)}, but {args.folder} is a file, which has no tasks")
    return True
