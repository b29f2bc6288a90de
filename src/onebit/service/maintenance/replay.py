"""The rounds of a task for `onebit.offpolicy`: what its log has to teach, and to tell of other learners.

A round is a decision with the feedback that counts, in the order in which feedback came, as the task's own learner heard it: the last
word on a decision stands in the place of the first. Feedback that was late or withdrawn does not count; silence that means right or
wrong does. In shadow mode the round has what was shown, with the
probability that the caller gave for it. What a task in log-only mode heard, and did not learn, counts too.

Where the delay depends on the answer, as with silence at a deadline, so does the order of the rounds. The intervals of
`onebit.offpolicy` are made for an order that does not: for a learner that learns on the way they then do not hold strictly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onebit.errors import InputError
from onebit.offpolicy import Evaluation, Round, evaluate
from onebit.service.inputs import decode_numbers
from onebit.service.maintenance.log_reader import LogReader
from onebit.service.task import TaskInfo, build_learner, resolve_floor


def rounds_of(log: LogReader, task: TaskInfo) -> Iterator[Round]:
    """The rounds of a task, whether the service runs or not."""
    for event in log.events(task):
        if not event.counts:
            continue
        label, propensity = event.played
        found = event.candidates
        probabilities = None
        if event.shown is None:
            probabilities = np.zeros(len(task.classes))  # a class that came later could not be shown
            known = decode_numbers(event.decision.probabilities)
            probabilities[: len(known)] = known
        yield Round(
            id=event.decision.id,
            x=task.inputs.stack([event.x])[0],
            label=task.classes[label],
            right=bool(event.right) if event.reward is None else None,
            propensity=propensity,
            probabilities=probabilities,
            among=None if found is None else [task.classes[place] for place in found],
            complete=bool(event.decision.complete),
            reward=event.reward,
            truth=None if event.truth is None else task.classes[event.truth],
        )


def evaluation(
    log: LogReader, task: TaskInfo, learner: str, parameters: dict[str, Any], floor: float | None, seed: int
) -> Evaluation:
    """What a learner would have scored on the log of a task, beside the task's own where that is another one."""
    asked = {
        "learner": learner,
        "exploration_floor": resolve_floor(learner, floor),
        "parameters": parameters,
        "seed": seed,
    }
    own = {name: getattr(task, name) for name in asked} | {"seed": seed}
    heard = log.count_heard(task)
    if heard == 0:
        raise InputError(f"task {task.name!r} has no feedback yet: its log says nothing")
    return evaluate(
        build_learner(asked, task.classes, task.inputs),
        rounds_of(log, task),
        present=None if own == asked else build_learner(own, task.classes, task.inputs),
        seed=seed,
        unanswered=log.count(task) - heard,
    )
