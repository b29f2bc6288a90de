"""A task that is being served: what the log says of it, and the learner that decides."""

from __future__ import annotations

import asyncio

from onebit.serve.learning import Course
from onebit.serve.shapes import Task, Training
from onebit.serve.tasks import TaskInfo, texts_of


class Running:
    """A task with its learner."""

    def __init__(self, info: TaskInfo, course: Course) -> None:
        self.info = info
        self.course = course
        self.training: Training | None = None
        self.changing = asyncio.Lock()  # one change at a time, each checked against what the one before left
        self.swept = 0  # decisions up to this seq have been answered by silence where nobody answered
        self.written = 0  # rows since the start
        self.name_classes()

    def name_classes(self) -> None:
        """Take the names of the classes, which may have become more."""
        self.texts = texts_of(self.info.classes)
        self.names_bytes = sum(len(text.encode()) for text in self.texts)
        self.index = {name: place for place, name in enumerate(self.info.classes)}

    @property
    def queue(self) -> int:
        """Rows that are on disk, and not followed yet."""
        return max(0, self.written - self.course.rows)


def shown(running: Running) -> Task:
    """A task as it is now."""
    info, course = running.info, running.course
    return Task(
        **{field: value for field, value in info.detail.items() if field != "seed"},
        created=info.created_at,
        deleted=info.deleted,
        generation=info.generation,
        learnt=course.replicas.learnt,
        position=course.position,
        training=running.training,
    )
