"""The log of a folder or a database, for commands: all of a task, as it was when the log was opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from onebit.errors import InputError, brief, nearest
from onebit.service.store.base import store_at
from onebit.service.store.errors import in_words_of_input
from onebit.service.store.queries import Event, GenerationCount, Logged, TaskChange, check_events
from onebit.service.store.reader import PAGE
from onebit.service.task import TaskInfo


class LogReader:
    """The log of a data folder, for commands, as it was when it was opened: the service may be running or not.

    Rows are only added, so that moment is a position: what is after it is left out.
    """

    def __init__(self, folder: Path | str) -> None:
        store = store_at(folder)
        self.name = f"the log in {store.name}"
        with in_words_of_input(self.name):
            self._reader = store.reader()
            self._end = self._reader.last()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        self._reader.close()

    def tasks(self) -> list[TaskInfo]:
        """All tasks, deleted ones too, in the order in which they were created."""
        return self._reader.tasks(self._end)[0]

    def task(self, name: str) -> TaskInfo:
        """The task of a name; of several the one that is not deleted, or the newest."""
        tasks, damaged = self._reader.tasks(self._end)
        named = [one for one in tasks if one.name == name]
        broken = [one.reason for one in damaged if one.name in (name, None)]
        if broken and not any(one.deleted is None for one in named):
            raise InputError(f"there is no task {brief(name)} that can be read: {broken[0]}")
        if not named:
            raise InputError(f"there is no task {brief(name)}; {nearest(name, {one.name for one in tasks})}")
        return max(named, key=lambda one: (one.deleted is None, one.number))

    def count(self, info: TaskInfo) -> int:
        """How many decisions a task has."""
        return self._reader.count(info.number, self._end)

    def count_heard(self, info: TaskInfo) -> int:
        """How many feedbacks of a task count."""
        return self._reader.count_heard(info.number, self._end)

    def changes(self, info: TaskInfo) -> list[TaskChange]:
        """What was changed of a task."""
        return self._reader.changes(info.expected, 0, self._end)

    def generations(self, info: TaskInfo) -> list[GenerationCount]:
        """Which learners decided what has a feedback that counts."""
        return self._reader.generations(info.number, self._end)

    def logged(self, info: TaskInfo) -> Iterator[Logged]:
        """All decisions of a task, in their order."""
        after = 0
        while page := self._reader.following(info, after, self._end, PAGE):
            yield from page
            after = page[-1].seq

    def followed(self, info: TaskInfo, after: int) -> Iterator[tuple[int, Logged]]:
        """What came after a position, in its order: each row, and the decision that it is of as the log had it then."""
        position = after
        while page := self._reader.touched(info.number, position, self._end, PAGE):
            for seq, decision in page:
                found = self._reader.following(info, decision - 1, seq, 1)
                if found and found[0].seq == decision:  # else it was forgotten at this moment
                    yield seq, found[0]
            position = page[-1].seq

    def events(self, info: TaskInfo) -> Iterator[Event]:
        """All feedbacks of a task with their decisions, in the order in which they came, as revisions have left them."""
        after = 0
        more = True
        while more:
            page, more = self._reader.events(info.expected, after, self._end, PAGE)
            check_events(info.expected, page, len(info.classes))
            yield from page
            after = page[-1].seq if page else after
