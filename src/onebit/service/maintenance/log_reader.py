"""The log of a folder or database as it was when opened, also as rounds for `onebit.offpolicy`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onebit.errors import InputError, brief, nearest
from onebit.learner.learner import Learner
from onebit.offpolicy import Evaluation, Round, evaluate
from onebit.service.inputs import decode_numbers
from onebit.service.store.base import store_at
from onebit.service.store.errors import as_input_errors
from onebit.service.store.queries import DecisionRecord, Event, GenerationCount, TaskChange, check_events
from onebit.service.store.reader import PAGE
from onebit.service.task import TaskInfo, build_learner, check_learner, resolve_floor


class LogReader:
    """A log as it was when it was opened, for commands; the service may be running.

    Rows are only added, so that moment is a position: later rows are left out.
    """

    def __init__(self, folder: Path | str) -> None:
        store = store_at(folder)
        self.name = f"the log in {store.name}"
        with as_input_errors(self.name):
            self.reader = store.reader()
            self.end = self.reader.last()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.reader.close()

    def task(self, name: str) -> TaskInfo:
        """Return the task with a name: the one that is not deleted, else the newest."""
        tasks, damaged = self.reader.tasks(self.end)
        named = [task for task in tasks if task.name == name]
        reason = next((task.reason for task in damaged if task.name in (name, None)), None)
        if reason is not None and not any(task.deleted is None for task in named):
            raise InputError(f"there is no readable task {brief(name)}: {reason}")
        if not named:
            raise InputError(f"there is no task {brief(name)}; {nearest(name, {task.name for task in tasks})}")
        return max(named, key=lambda task: (task.deleted is None, task.number))

    def count(self, info: TaskInfo) -> int:
        """Return how many decisions a task has."""
        return self.reader.count(info.number, self.end)

    def count_feedback(self, info: TaskInfo) -> int:
        """Return how many feedbacks of a task count."""
        return sum(part.feedbacks for part in self.generations(info))

    def changes(self, info: TaskInfo) -> list[TaskChange]:
        """Return the changes of a task."""
        return self.reader.changes(info.expected, 0, self.end)

    def generations(self, info: TaskInfo) -> list[GenerationCount]:
        """Return how many feedbacks count for the decisions of each learner."""
        return self.reader.generations(info.number, self.end)

    def logged(self, info: TaskInfo, since: float = -math.inf, before: float = math.inf) -> Iterator[DecisionRecord]:
        """Yield the decisions of a task made in [`since`, `before`), in order."""
        after = 0
        while page := self.reader.decisions_after(info, after, self.end, PAGE, since, before):
            yield from page
            after = page[-1].seq

    def rows_after(self, info: TaskInfo, after: int) -> Iterator[tuple[int, DecisionRecord]]:
        """Yield the rows after a position in order, each with its decision as it was at that row."""
        position = after
        while page := self.reader.rows_after(info.number, position, self.end, PAGE):
            for seq, decision in page:
                decisions = self.reader.decisions_after(info, decision - 1, seq, 1)
                if decisions and decisions[0].seq == decision:  # otherwise it was just forgotten
                    yield seq, decisions[0]
            position = page[-1].seq

    def events(self, info: TaskInfo) -> Iterator[Event]:
        """Yield all feedbacks of a task with their decisions, in log order, as last revised."""
        after = 0
        more = True
        while more:
            page, more = self.reader.events(info.expected, after, self.end, PAGE)
            check_events(info.expected, page, len(info.classes))
            yield from page
            after = page[-1].seq if page else after


def read_rounds(log: LogReader, task: TaskInfo) -> Iterator[Round]:
    """Yield the rounds of a task: each decision with the feedback that counts, in the order of feedback.

    This is the order in which the task's own learner saw it, with revised feedback in place of the first. Late or withdrawn feedback does not
    count; silence that means right or wrong does. In shadow mode a round has what was shown, with the probability given by the caller. Feedback
    that a task in log-only mode received, and did not learn, counts too. If the delay depends on the answer, as with silence at a deadline, so
    does the order of the rounds: for a learner that learns on the way, the intervals of `onebit.offpolicy` then do not hold strictly.
    """
    for event in log.events(task):
        if not event.counts:
            continue
        label, propensity = event.played
        candidates = event.candidates
        probabilities = None
        if event.shown is None:
            probabilities = np.zeros(len(task.classes))  # a class added later could not be shown
            known = decode_numbers(event.decision.probabilities)
            probabilities[: len(known)] = known
        yield Round(
            id=event.decision.id,
            x=task.inputs.stack([event.x])[0],
            label=task.classes[label],
            right=bool(event.right) if event.reward is None else None,
            propensity=propensity,
            probabilities=probabilities,
            among=None if candidates is None else [task.classes[index] for index in candidates],
            complete=bool(event.decision.complete),
            reward=event.reward,
            truth=None if event.truth is None else task.classes[event.truth],
        )


class TaskLog:
    """The answered rounds of a task in the order of the answers, to evaluate or train learners on."""

    def __init__(self, reader: LogReader, task: TaskInfo) -> None:
        self.reader, self.task, self.name = reader, task, task.name
        self._answered = reader.count_feedback(task)
        if self._answered == 0:
            raise InputError(
                f"task {brief(task.name)} has no feedback yet, so its log cannot be used to evaluate or train"
            )
        self.unanswered = reader.count(task) - self._answered

    def __len__(self) -> int:
        return self._answered

    def __iter__(self) -> Iterator[Round]:
        return read_rounds(self.reader, self.task)

    def build_learner(self, name: str, options: Mapping[str, Any], seed: int) -> Learner:
        """Return a new learner as the service would build it; options are parameters or `exploration_floor`."""
        return build_learner(_learner_settings(name, options, seed), self.task.classes, self.task.inputs)

    def present_learner(self, name: str, options: Mapping[str, Any], seed: int) -> Learner | None:
        """Return an untrained copy of the task's own learner; None if the learner described is the same."""
        settings = _learner_settings(name, options, seed)
        present = {key: getattr(self.task, key) for key in settings} | {"seed": seed}
        if self._with_defaults(present) == self._with_defaults(settings):
            return None
        return build_learner(present, self.task.classes, self.task.inputs)

    def _with_defaults(self, detail: dict[str, Any]) -> dict[str, Any]:
        rule = check_learner(detail, self.task.classes, self.task.inputs).runtime.rule
        return {**detail, "learner": rule.name, "parameters": {**rule.defaults, **detail["parameters"]}}


def _learner_settings(name: str, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the settings of a learner as the service keeps them."""
    parameters = dict(options)
    floor = resolve_floor(name, parameters.pop("exploration_floor", None))
    return {"learner": name, "exploration_floor": floor, "parameters": parameters, "seed": seed}


def evaluation(
    log: LogReader, task: TaskInfo, learner: str, parameters: dict[str, Any], floor: float | None, seed: int
) -> Evaluation:
    """Estimate the score of a learner on the log of a task, and that of the task's own if it differs."""
    rounds, options = TaskLog(log, task), {**parameters, "exploration_floor": floor}
    return evaluate(
        rounds.build_learner(learner, options, seed),
        rounds,
        present=rounds.present_learner(learner, options, seed),
        seed=seed,
        unanswered=rounds.unanswered,
    )
