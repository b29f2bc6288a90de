"""What the commands on logs share: which log, that of a task of a service or a file, and which learner."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.cli.options import add_rule_option, class_names, names_of, own_or, settings, whole
from onebit.contract.installation import install_command
from onebit.errors import InputError, MissingExtraError, brief
from onebit.experiments.grid import value_of
from onebit.rules import DEFAULT, rule_named

if TYPE_CHECKING:
    from onebit.learner.learner import Learner
    from onebit.offpolicy import Round
    from onebit.service.maintenance.log_reader import LogReader
    from onebit.service.task import TaskInfo

# The options that are keywords of `read_log`.
READING = ("x", "text", "action", "right", "truth", "among", "propensity", "id", "classes", "costs", "complete")


@dataclass(frozen=True)
class ChosenLog:
    """The log that was named, and the learner, as new; `reader` and `task` are None where the log is a file."""

    name: str
    rounds: Iterable[Round]
    count: int
    unanswered: int
    learner: Learner
    reader: LogReader | None = None
    task: TaskInfo | None = None


def add_log_options(command: argparse.ArgumentParser, files: bool = False) -> None:
    """Which log, and which task; `files` says that a log may be a file as well."""
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
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.add_argument("--quiet", action="store_true", help="show no progress")


def add_learner_options(command: argparse.ArgumentParser) -> None:
    """Which learner."""
    command.add_argument(
        "--learner",
        metavar="NAME",
        help=f"a learner; `onebit learners` lists them (default {DEFAULT}, or the one of --rule)",
    )
    add_rule_option(command)
    command.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a parameter, or exploration_floor"
    )
    command.add_argument("--seed", type=whole, default=0, help="seed of the learner (default 0)")


def add_column_options(command: argparse.ArgumentParser) -> None:
    """What a log in a file is made of."""
    file = command.add_argument_group("a log in a file")
    file.add_argument(
        "--x", metavar="A,B,...", type=names_of, help="the columns of the features: numbers and categories (default x)"
    )
    file.add_argument("--text", metavar="COLUMN", help="the column of a text, in place of --x")
    file.add_argument("--action", metavar="COLUMN", help="the column of what was shown (default action, or label)")
    file.add_argument(
        "--right",
        metavar="COLUMN",
        help="the column that says whether it was right, or what it was worth, from 0 to 1 (default right, or reward; of both the reward where there is one)",
    )
    file.add_argument("--truth", metavar="COLUMN", help="the column of what would have been right, where that is known")
    file.add_argument(
        "--among",
        metavar="COLUMN",
        help="the column of the candidates, the actions that could be shown, separated by |; nothing for all of them (default among)",
    )
    file.add_argument(
        "--complete", action="store_true", help="the right action was one of the candidates in each round"
    )
    file.add_argument(
        "--propensity",
        metavar="COLUMN",
        help="the column of the probability with which it was shown (default propensity, or pscore)",
    )
    file.add_argument("--id", metavar="COLUMN", help="the column of the ids (default id, or the number of the row)")
    file.add_argument("--classes", metavar="A,B,...", type=class_names, help="the actions (default: those that occur)")
    file.add_argument(
        "--costs",
        metavar="RIGHT,WRONG",
        type=lambda text: [value_of(cost) for cost in text.split(",")],
        help="the costs of right and wrong in Vowpal Wabbit's files, if not 0 and 1 (--costs=-1,0), or in the column --right; "
        "costs in between become rewards, and rewards up to 5 are --costs=5,0",
    )


@contextmanager
def open_log(chosen: argparse.Namespace) -> Iterator[ChosenLog]:
    """Open the log that was named, a file or that of a task, with a new learner as the service would make it for the task."""
    chosen.learner = chosen.learner or own_or(chosen)
    if is_log_file(chosen):
        from onebit.offpolicy.log_files import learner_for, read_log

        log = read_log(chosen.folder, **reading(chosen))
        learner = learner_for(log, rule_named(chosen.learner), settings(chosen.set), chosen.seed)
        yield ChosenLog(log.name, log, len(log), log.unanswered, learner)
        return
    for name in READING:
        if getattr(chosen, name) not in (None, False):
            raise InputError(f"--{name} is for a log in a file, and {chosen.folder} is the folder of a service")
    with log_of(chosen) as (reader, task):
        from onebit.service.maintenance.replay import rounds_of
        from onebit.service.task import build_learner

        learner, heard = build_learner(asked_for(chosen), task.classes, task.inputs), reader.count_heard(task)
        if heard == 0:
            raise InputError(f"task {brief(task.name)} has no feedback yet: its log says nothing")
        unanswered = reader.count(task) - heard
        yield ChosenLog(task.name, rounds_of(reader, task), heard, unanswered, learner, reader, task)


@contextmanager
def log_of(chosen: argparse.Namespace) -> Iterator[tuple[LogReader, TaskInfo]]:
    """The log that was named, and the task."""
    try:
        from onebit.service.maintenance.log_reader import LogReader
        from onebit.service.store.base import is_address
        from onebit.service.store.errors import in_words_of_input
    except ImportError as error:
        raise MissingExtraError(
            f"`onebit {chosen.command}` needs {error.name}, as the service does: {install_command('serve')}"
        ) from None
    if chosen.task is None and not is_address(chosen.folder) and not Path(chosen.folder).exists():
        raise InputError(f"there is no {chosen.folder}: name a log file, or the folder of a service and a task of it")
    if chosen.task is None:
        raise InputError(
            f"TASK is missing: {chosen.folder} is no file that ends in .vw, .csv, .tsv or .parquet, and the log of a service has tasks"
        )
    with LogReader(chosen.folder) as log, in_words_of_input(log.name):
        yield log, log.task(chosen.task)


def asked_for(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the learner that was named, as the service describes one."""
    from onebit.service.task import resolve_floor

    parameters = settings(chosen.set)
    return {
        "learner": chosen.learner,
        "exploration_floor": resolve_floor(chosen.learner, parameters.pop("exploration_floor", None)),
        "parameters": parameters,
        "seed": chosen.seed,
    }


def is_log_file(chosen: argparse.Namespace) -> bool:
    """Whether the log that is named is a file, or a folder of them, and not the folder of a service."""
    from onebit.offpolicy.log_files import ENDINGS, is_archive

    path = Path(chosen.folder)
    if not is_archive(path) and (path.is_dir() or not (path.is_file() or path.name.lower().endswith(ENDINGS))):
        return False
    if chosen.task is not None:
        raise InputError(f"TASK is {brief(chosen.task)}, but {chosen.folder} is a file, which has no tasks")
    return True


def reading(chosen: argparse.Namespace) -> dict[str, Any]:
    """How the file is to be read, for `read_log`."""
    return {name: getattr(chosen, name) for name in READING}
