"""A folder that this process has: its log, and those of its tasks that are open here.

The tasks share what a log has once: the numbers of its rows, its groups of them on their way to the disk, its clock, and the threads that write and
learn what nobody waits for. The first task that is opened takes the folder, and the last that is closed lets go of it.
"""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from onebit.errors import InputError, OnebitError
from onebit.serve.clock import Clock
from onebit.serve.errors import RequestError, UnavailableError
from onebit.serve.folder import LockId, lock_id
from onebit.serve.group_commit import Group, GroupCommit, Keeper
from onebit.serve.learner_thread import LearnerThread
from onebit.serve.log.checks import BadRecordError
from onebit.serve.log.errors import LogError
from onebit.serve.log.recent_rows import TASK, event_of, played_of
from onebit.serve.log.records import Event, Played
from onebit.serve.log.sqlite.store import SqliteStore
from onebit.serve.open_core import OpenCore
from onebit.serve.recovery import warn_of
from onebit.serve.served_task import ServedTask
from onebit.serve.settings import Settings

COUNTED = 1024  # rows that are counted at a time, where nobody looks
CHORES_S = 0.5  # how often deadlines are looked after
_FOLDERS: dict[LockId, OpenFolder] = {}  # that this process has, by their locks
_TAKING = threading.Lock()  # of whoever takes one, or lets go of one


class OpenFolder:
    """A folder, from when it is taken; `opening` is held by whoever opens one of its tasks."""

    def __init__(self, settings: Settings, soon: bool) -> None:
        self.settings = settings
        self.store = SqliteStore(settings.data)
        self.cores: dict[int, OpenCore] = {}  # by the numbers of their tasks
        self.opening = threading.Lock()
        with ExitStack() as undo:
            self.store.take()
            undo.callback(self.store.release)
            self.store.check()
            self.appender = self.store.appender(lambda last, keys: None)
            undo.callback(self.appender.close)
            self.reader = self.store.reader()  # for whoever has everything whole, or the lock of the rows
            undo.callback(self.reader.close)
            self.clock = Clock(self.reader.last_time(), self.appender.last)
            warn_of(self.clock)
            if soon:
                self.appender.relax()
            undo.pop_all()
        self.commits = GroupCommit(self.appender, soon, self._written, self._dropped, self._caught_up)
        self.learner_thread = LearnerThread(self.store, settings.snapshot_every, lambda: None, self.whole)
        self.keeper = Keeper(self.commits, self._look_after, CHORES_S)
        self._users = 0  # tasks that are open, or are being opened
        self._uncounted: list[Group] = []
        self._waiting_to_count = 0  # rows of these
        self.learner_thread.start()
        self.keeper.start()

    # --- beginning and end -----------------------------------------------------------------------------------------

    @classmethod
    def entered(cls, settings: Settings, soon: bool) -> OpenFolder:
        """The folder for one task more: as it is open in this process already, or taken now. Whoever enters it leaves it (`leave`)."""
        with _TAKING:
            taken = lock_id(settings.data)
            folder = None if taken is None else _FOLDERS.get(taken)
            if folder is None:
                folder = cls(settings, soon)
                found = lock_id(settings.data)
                assert found is not None, "a folder that was taken has a lock"
                _FOLDERS[found] = folder
            else:
                folder._refuse_contradictions(settings, soon)
            folder._users += 1
            return folder

    def _refuse_contradictions(self, settings: Settings, soon: bool) -> None:
        """Refuse what the tasks of a folder share, where it is said to be something else."""
        names = {True: "soon", False: "always"}
        said = {
            "durable": (names[self.commits.soon], names[soon]),
            "snapshot_every": (self.settings.snapshot_every, settings.snapshot_every),
            "keep_snapshots": (self.settings.keep_snapshots, settings.keep_snapshots),
        }
        for option, (there, given) in said.items():
            if there != given:
                raise InputError(
                    f"{self.where} is open in this process with {option}={there!r}, and {option}={given!r} was given: all open tasks of a folder share it"
                )

    def add(self, served: ServedTask) -> OpenCore:
        """Have a task that is at the end of its log. Called by whoever opens it."""
        core, number = OpenCore(self, served), served.info.number
        with self.whole():
            self.cores[number] = core
            self.learner_thread.followers[number] = served.follower
        return core

    def leave(self, core: OpenCore | None = None) -> None:
        """Have everything on disk, keep a snapshot of a task, which adds nothing any more, and go on without it; or let go of the folder, if it is the last.

        What is lost with it is said.
        """
        with _TAKING:
            self._users -= 1
            if self._users == 0:
                self._close()
            elif core is not None:
                self._remove(core)

    def _remove(self, core: OpenCore) -> None:
        number = core.served.info.number
        try:
            self.commits.sync()
            with self.whole():
                written = self.learner_thread.leave(number, self.reader)
            written.wait()
        except LogError as error:
            raise UnavailableError(f"the last rows of {self.where} may not be on disk: {error}") from None
        finally:
            with self.commits.lock:
                self.cores.pop(number, None)
                self.learner_thread.followers.pop(number, None)

    def _close(self) -> None:
        for key in [key for key, folder in _FOLDERS.items() if folder is self]:
            del _FOLDERS[key]
        self.keeper.stop()
        failed: LogError | None = None
        try:
            self.commits.sync()
        except RequestError:  # whatever waits is lost
            pass
        except LogError as error:
            failed = error
        lost = self.commits.waiting
        with suppress(LogError, OnebitError), self.whole():  # so that the last snapshots are those of the log
            pass
        if self.commits.broken:  # that cannot be, and there are none: the next start begins with those before
            self.learner_thread.followers.clear()
        self.learner_thread.stop()
        self.reader.close()
        self.appender.close()
        self.store.release()
        if lost:
            raise UnavailableError(
                f"rows that are not in the log of {self.where}, and are lost: {lost}, since {self.commits.failing}"
            )
        if failed is not None:
            raise UnavailableError(f"the last rows of {self.where} may not be on disk: {failed}")

    def forked(self) -> None:
        """Let go of the lock's file, which the parent of this process keeps."""
        self.store.forget()

    @property
    def where(self) -> str:
        """Its path."""
        return self.store.name

    def _look_after(self) -> None:
        """What is done now and then: silence is an answer when the deadline has passed."""
        for core in list(self.cores.values()):
            try:
                core.sweep()
            except BadRecordError as error:
                core.served.follower.set_aside(error)
            except (OnebitError, LogError):  # said to whoever comes next; it is tried again
                pass

    # --- what is on disk -------------------------------------------------------------------------------------------

    def log_change(self, task: int, kind: str, detail: dict[str, Any]) -> tuple[int, float]:
        """Write a change of a task: its number, and when that was. Called by whoever has everything whole."""
        now, seq = self.clock.now(), self.commits.next
        self.commits.add("changes", (seq, task, now, kind, json.dumps(detail), None))
        self.commits.write()
        return seq, now

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Everything is written and counted, and nobody adds anything meanwhile. Where somebody was interrupted, all that is known is made again from the log."""
        with self.commits.whole():
            if self.commits.broken:
                self._follow_again()
            self._count()
            yield

    def _written(self, group: Group) -> None:
        """What follows from rows that are in the log now. A change is alone, and is made by whoever wrote it."""
        if group.rows["changes"]:
            return
        if not self.commits.soon:
            for said in group.then:
                core = self.cores.get(said.row[TASK])
                if core is not None:
                    core.learn(said)
        self._uncounted.append(group)
        self._waiting_to_count += group.count
        if group.rows["revisions"] or self._waiting_to_count >= COUNTED:
            self._count()

    def _count(self) -> None:
        """Count what was written: many rows at once, which takes a tenth of the time."""
        groups = self._uncounted
        if not groups:
            return
        self._uncounted, self._waiting_to_count = [], 0
        played, events = defaultdict[int, list[Played]](list), defaultdict[int, list[Event]](list)
        revisions = defaultdict[int, int](int)
        for group in groups:
            for row in group.rows["decisions"]:
                played[row[TASK]].append(played_of(row))
            for said in group.then:
                events[said.row[TASK]].append(event_of(said.made.row, said.row, None))
            for row in group.rows["revisions"]:
                revisions[row[TASK]] += 1
        last = groups[-1].last
        try:
            for number in played.keys() | events.keys() | revisions.keys():
                core = self.cores.get(number)
                if core is not None:  # else it was closed while they could not be written
                    core.count(played[number], events[number], revisions[number], last)
                    if core.is_due:
                        self.learner_thread.tell(last, {(number, "feedback"): 0})
        except BaseException:
            self.commits.broken = True
            raise

    def _dropped(self, group: Group) -> None:
        """Rows are not in the log after all: what is known of decisions is read from it again."""
        for core in self.cores.values():
            core.remember_nothing()

    def _caught_up(self) -> None:
        self._count()
        for core in self.cores.values():
            core.served.follower.follow(self.reader, self.commits.last)

    def _follow_again(self) -> None:
        """Make the learners and all that is known again, from the log."""
        self._uncounted, self._waiting_to_count = [], 0
        for number, core in self.cores.items():
            core.follow_again()
            self.learner_thread.followers[number] = core.served.follower
        self.commits.broken = False


def _forget_all() -> None:
    """In a child of the process, which has none of its folders."""
    global _TAKING  # noqa: PLW0603 -- which a thread of the parent may have held
    _TAKING = threading.Lock()
    _FOLDERS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
