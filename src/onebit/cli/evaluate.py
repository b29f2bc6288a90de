"""Estimate what another learner would have scored on a log: that of a task of the service, or a file.

The learner goes through the log in the order of the answers: in each round it is asked what it would have shown, and then learns from
what was shown. The table has estimates of its right rate, or of its mean reward, with 95 % intervals and warnings, beside those of the
task's present learner on the same log, which does not change. A file is one of Vowpal Wabbit's (.vw with action:cost:probability,
.dsjson), or a table (.csv, .tsv, .parquet) with named columns. Examples:

    onebit evaluate data news
    onebit evaluate data news --learner bpa --set aggressiveness=0.01 --json
    onebit evaluate log.dsjson --learner linucb --costs=-1,0
    onebit evaluate log.parquet --x age,city --action shown --right clicked --propensity chance
    onebit evaluate log.csv --x age,city --right stars --costs=5,0 --among offered
    onebit evaluate log.parquet --x age,city --learners linucb,bpa,bpa:aggressiveness=1 --on dask
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from onebit.cli.compare import learners_of
from onebit.cli.experiment import executor
from onebit.cli.log_files import add_column_options, evaluate_file, evaluate_several, is_log_file, refuse_columns
from onebit.cli.logs import (
    add_learner_options,
    add_log_options,
    count_of,
    learner_for,
    log_of,
    makers,
    present_learner,
)
from onebit.cli.options import own_or, progress_bar
from onebit.errors import InputError
from onebit.trials.trial import shown

if TYPE_CHECKING:
    from onebit.offpolicy import Evaluation
    from onebit.serve.tasks import TaskInfo


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit evaluate`."""
    add_log_options(command, files=True)
    add_learner_options(command)
    command.add_argument(
        "--learners",
        metavar="A,B:NAME=VALUE,...",
        help="several learners with parameters on a log in a file, in place of --learner; a table of them",
    )
    command.add_argument(
        "--on",
        metavar="WHERE",
        type=executor,
        default="auto",
        help="where several learners run: in this process, or on a cluster (dask, ray, dask://host:port, ray://host:port)",
    )
    add_column_options(command)


def execute(chosen: argparse.Namespace) -> None:
    """Evaluate, and print what came out."""
    several = learners_of(chosen.learners)
    if several is not None:
        if chosen.learner or chosen.set:
            raise InputError("--learners says which and with which parameters, and --learner and --set say so again")
        if not is_log_file(chosen):
            raise InputError(
                f"--learners is for a log in a file: `onebit export {chosen.folder} {chosen.task or 'TASK'} --format parquet` makes one"
            )
        evaluate_several(chosen, several)
        return
    if chosen.on != "auto":
        raise InputError("--on is for several learners: name them with --learners")
    chosen.learner = chosen.learner or own_or(chosen)
    if is_log_file(chosen):
        evaluate_file(chosen)
        return
    refuse_columns(chosen)
    with log_of(chosen) as (log, task):
        from onebit.offpolicy import evaluate
        from onebit.serve.replay import rounds_of

        learner, present = learner_for(chosen, task), present_learner(chosen, task)
        heard = count_of(log, task)
        unanswered = log.count(task) - heard
        with progress_bar(f"{chosen.learner} on {task.name}", heard, chosen.quiet) as progress:
            found = evaluate(
                learner,
                rounds_of(log, task),
                present=present,
                seed=chosen.seed,
                unanswered=unanswered,
                progress=progress,
            )
        made_by = makers(log, task)
    show(found, task, made_by, chosen.json)


def show(found: Evaluation, task: TaskInfo, made_by: list[dict[str, Any]], as_json: bool) -> None:
    """Print an evaluation, and whose log it was made on."""
    if as_json:
        about = {"task": task.name, "log": {"mode": task.mode, "made_by": made_by}}
        print(json.dumps({**about, **found.to_dict()}, ensure_ascii=False))
        return
    print(found)
    if found.present is None:
        print("This is the task's present learner: compare others with these lines, and not with the log itself.")
    print(f"the log itself: task {task.name}, {'; '.join(map(_made, made_by))}")


def _made(part: dict[str, Any]) -> str:
    from onebit.offpolicy.doubts import counted_rounds

    settings = shown({**part["parameters"], "exploration_floor": part["exploration_floor"]})
    how = "shown by the caller, beside" if part["shown_by_caller"] else "decided by"
    return f"{counted_rounds(part['rounds'])} {how} {part['learner']} ({settings})"
