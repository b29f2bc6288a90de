"""A served task: its state according to the log, and the learner that decides."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from onebit.contract.confidence_sequence import overshoot
from onebit.contract.validation import ClassName, join_names
from onebit.service.core.follower import LogFollower
from onebit.service.errors import InvalidError
from onebit.service.replies import Task, Training
from onebit.service.store.reader import Reader
from onebit.service.store.submission import Assumptions
from onebit.service.task import TaskInfo, class_texts


@dataclass
class TrainingProgress:
    """Progress of training a learner that is to take over."""

    learner: str
    of: int  # feedbacks in the log at the beginning
    follower: LogFollower | None = None  # of the learner in training, once it is compiled; None on other nodes
    error: str | None = None

    @property
    def view(self) -> Training:
        """The progress as a part of the reply that describes the task."""
        done = 0 if self.follower is None else self.follower.statistics.received
        return Training(self.learner, done, self.of, self.error)


class ServedTask:
    """A task and its learner."""

    def __init__(self, info: TaskInfo, follower: LogFollower) -> None:
        self.info = info
        self.follower = follower
        self.training: TrainingProgress | None = None
        self.change_lock = (
            asyncio.Lock()
        )  # one change at a time, each validated against the state after the previous one
        self.forgetting = False  # whether decisions are being deleted from the log right now
        self.forgets = 0  # how often that has happened; facts about decisions from before may be outdated
        self.last_feedback = 0  # seq of the last feedback written by this process
        self.swept_to = 0  # decisions up to this seq have feedback, from a caller or by silence
        self._name_classes()

    def apply(self, seq: int, when: float, kind: str, detail: dict[str, Any]) -> None:
        """Apply a change that is in the log."""
        self.info.apply(seq, when, kind, detail)
        self._name_classes()
        if "silence" in detail or "deadline_s" in detail:
            self.swept_to = seq

    def restore(self, info: TaskInfo, follower: LogFollower) -> None:
        """Replace the state by what follows from the log."""
        self.info, self.follower = info, follower
        self._name_classes()

    def _name_classes(self) -> None:
        self.texts = class_texts(self.info.classes)
        self.names_bytes = sum(len(text.encode()) for text in self.texts)
        self.class_indices = {name: index for index, name in enumerate(self.info.classes)}

    @property
    def assumptions(self) -> Assumptions:
        """The current facts against which rows are validated."""
        return Assumptions(self.info.last_change)

    def find_class(self, name: ClassName, field: str, where: str = "") -> int:
        """Return the index of a class named in a field of a request; raise InvalidError if there is none."""
        index = self.class_indices.get(name)
        if index is None:
            raise InvalidError(
                f"{where}{field}: got {name!r}, but the classes are {join_names(self.info.classes)}", f"{where}{field}"
            )
        return index

    def skip_answered(self, reader: Reader, last: int) -> None:
        """Let sweeps for deadlines begin at the first decision without feedback in a log that ends at `last`."""
        after = max(self.swept_to, self.info.silence_since)
        unanswered = reader.first_unanswered(self.info.number, after)
        self.swept_to = max(after, last if unanswered is None else unanswered - 1)

    def begin_training(self, learner: str) -> TrainingProgress:
        """Show that a learner is being trained from the log of the task."""
        self.training = TrainingProgress(learner, self.follower.statistics.received)
        return self.training

    def has_followed(self, seq: int) -> bool:
        """Return True if the learner has reached a position, or never will."""
        return self.follower.position >= seq or self.follower.failing is not None or self.info.deleted is not None


def describe_task(served: ServedTask) -> Task:
    """Return the current description of a task."""
    info, follower = served.info, served.follower
    return Task(
        **{field: value for field, value in info.detail.items() if field not in ("seed", "version")},
        retired=info.retired,
        created=info.created_at,
        deleted=info.deleted,
        generation=info.generation,
        learnt=follower.replicas.learnt,
        position=follower.position,
        training=None if served.training is None else served.training.view,
    )


def summarize_task(served: ServedTask, window: int, now: float) -> dict[str, Any]:
    """Return the statistics of a task in the form of `replies.Stats`, without those of its classes.

    There may be many classes.
    """
    info, follower = served.info, served.follower
    statistics = follower.statistics.summarize(window, now)
    sure, risk = statistics["certainty"], info.risk
    excess = None if risk is None else overshoot(sure["heard"], sure["wrong"], risk)
    return {
        "task": info.name,
        "mode": info.mode,
        "learner": info.learner,
        "generation": follower.replicas.generation,
        "learnt": follower.replicas.learnt,
        "position": follower.position,
        "queue": follower.queue,
        **statistics,
        "certainty": {**sure, "risk": risk, "overshoot": excess},
    }
