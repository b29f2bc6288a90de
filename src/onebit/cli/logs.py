"""What the commands on the log of a service share: which log and task, which learner, and how far they have come."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from onebit.cli.options import add_rule_option, settings, whole
from onebit.errors import InputError, MissingExtraError, brief
from onebit.installation import install_command
from onebit.rules import DEFAULT
from onebit.trials.trial import Progress

if TYPE_CHECKING:
    from onebit.learner import Learner
    from onebit.serve.log.log_reader import LogReader
    from onebit.serve.tasks import TaskInfo

Row = TypeVar("Row")
REPORTED = 1000  # rows between two reports of progress


def add_log_options(command: argparse.ArgumentParser, files: bool = False) -> None:
    """Which log, and which task; `files` says that a log may be a file as well."""
    folder = "the data folder of `onebit serve`, which may be running"
    command.add_argument(
        "folder",
        metavar="LOG" if files else "DIR",
        help=f"{folder}, a file (.vw, .dsjson, .csv or .parquet), or a folder of `onebit archive`" if files else folder,
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


@contextmanager
def log_of(chosen: argparse.Namespace) -> Iterator[tuple[LogReader, TaskInfo]]:
    """The log that was named, and the task."""
    try:
        from onebit.serve.log.errors import in_words_of_input
        from onebit.serve.log.log_reader import LogReader
        from onebit.serve.log.stores import is_address
    except ImportError as error:
        raise MissingExtraError(
            f"`onebit {chosen.command}` needs {error.name}, as the service does: {install_command('serve')}"
        ) from None
    if chosen.task is None and not is_address(chosen.folder) and not Path(chosen.folder).exists():
        raise InputError(f"there is no {chosen.folder}: name a log file, or the folder of a service and a task of it")
    if chosen.task is None:
        raise InputError(
            f"TASK is missing: {chosen.folder} is no file that ends in .vw, .dsjson, .csv, .tsv or .parquet, and the log of a service has tasks"
        )
    with LogReader(chosen.folder) as log, in_words_of_input(log.name):
        yield log, log.task(chosen.task)


def learner_for(chosen: argparse.Namespace, task: TaskInfo) -> Learner:
    """A new learner as the service would make it for the task: with its classes and its features, and the usual floor."""
    from onebit.serve.tasks import learner_of

    return learner_of(_asked_for(chosen), task.classes, task.inputs)


def present_learner(chosen: argparse.Namespace, task: TaskInfo) -> Learner | None:
    """The task's own learner, as new; None where it is the one asked for."""
    from onebit.serve.tasks import check_learner, learner_of

    def settled(detail: dict[str, Any]) -> dict[str, Any]:
        rule = check_learner(detail, task.classes, task.inputs).runtime.rule
        return {**detail, "learner": rule.name, "parameters": {**rule.defaults, **detail["parameters"]}}

    asked = _asked_for(chosen)
    own = {name: getattr(task, name) for name in asked} | {"seed": chosen.seed}
    return None if settled(own) == settled(asked) else learner_of(own, task.classes, task.inputs)


def _asked_for(chosen: argparse.Namespace) -> dict[str, Any]:
    from onebit.serve.tasks import floor_of

    parameters = settings(chosen.set)
    return {
        "learner": chosen.learner,
        "exploration_floor": floor_of(chosen.learner, parameters.pop("exploration_floor", None)),
        "parameters": parameters,
        "seed": chosen.seed,
    }


def makers(log: LogReader, task: TaskInfo) -> list[dict[str, Any]]:
    """The learners that decided the rounds of a task, with how many; in some of them the caller showed something else."""
    learners = {
        detail.get("generation", 1): {name: detail[name] for name in ("learner", "parameters", "exploration_floor")}
        for _, kind, detail in log.changes(task)
        if kind in ("created", "learner")
    }
    found = log.generations(task)
    for generation, _, _ in found:
        if generation not in learners:
            raise InputError(
                f"task {brief(task.name)}: decisions are of the learner of generation {generation}, and no change tells of it"
            )
    return [
        {"generation": generation, **learners[generation], "rounds": rounds, "shown_by_caller": shown}
        for generation, shown, rounds in found
    ]


def count_of(log: LogReader, task: TaskInfo) -> int:
    """How many rounds the log of a task has; none is refused."""
    found = log.count_heard(task)
    if found == 0:
        raise InputError(f"task {brief(task.name)} has no feedback yet: its log says nothing")
    return found


def counted(rows: Iterable[Row], progress: Progress) -> Generator[Row, None, None]:
    """The rows, of which so many are reported at a time."""
    since = 0
    for row in rows:
        yield row
        since += 1
        if since == REPORTED:
            progress(since)
            since = 0
