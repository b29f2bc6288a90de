"""Say what another learner would have scored on the log of a task.

The learner goes through the log in the order of the answers: in each round it is asked what it would have shown, and then learns from
what was shown. Four estimates of its right rate, with 95 % intervals and what speaks against them. Examples:

    onebit evaluate data news
    onebit evaluate data news --learner bpa --set aggressiveness=0.01 --json
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from onebit.cli.logs import add_learner_options, add_log_options, count_of, learner_for, log_of
from onebit.cli.options import progress_bar
from onebit.experiments.trial import shown

if TYPE_CHECKING:
    from onebit.offpolicy import Evaluation
    from onebit.serve.tasks import TaskInfo


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit evaluate`."""
    add_log_options(command)
    add_learner_options(command)


def execute(chosen: argparse.Namespace) -> None:
    """Evaluate, and print what came out."""
    with log_of(chosen) as (log, task):
        from onebit.offpolicy import evaluate
        from onebit.serve.replay import rounds_of

        learner = learner_for(chosen, task)
        heard = count_of(log, task)
        unanswered = log.count(task) - heard
        with progress_bar(f"{chosen.learner} on {task.name}", heard, chosen.quiet) as progress:
            found = evaluate(learner, rounds_of(log, task), seed=chosen.seed, unanswered=unanswered, progress=progress)
    show(found, task, chosen.json)


def show(found: Evaluation, task: TaskInfo, as_json: bool) -> None:
    """Print an evaluation, and whose log it was made on."""
    if as_json:
        made_by = {name: getattr(task, name) for name in ("learner", "parameters", "exploration_floor", "generation")}
        print(
            json.dumps(
                {"task": task.name, "log": {**made_by, "mode": task.mode}, **found.to_dict()}, ensure_ascii=False
            )
        )
        return
    print(found)
    settings = shown({**task.parameters, "exploration_floor": task.exploration_floor})
    whose = f"{task.learner} ({settings})" + (f", the last of {task.generation}" if task.generation > 1 else "")
    how = f"shown beside {whose} in shadow mode" if task.mode == "shadow" else f"decided by {whose}"
    print(f"the log itself: task {task.name}, {how}; right in {100 * found.log.value:.2f} %")
