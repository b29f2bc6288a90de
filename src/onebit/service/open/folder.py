"""A folder that this process has, for `onebit.open`: its log, and those of its tasks that are open here.

The first task that is opened takes the folder, and the last that is closed releases it. A plan of the core runs on the caller's thread: under the lock of
the folder, but for waiting for the disk. What is certain to be next in the log is taught at once, so that the next decision knows it: there is one copy
of each learner. After an interrupt on the way nobody knows what it has learnt: then everything is made again from the log.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, TypeVar

from onebit.errors import InputError, OnebitError
from onebit.service.core.commit import CommitThread, GroupCommit
from onebit.service.core.compiler import Compiler
from onebit.service.core.deadlines import sweep
from onebit.service.core.learner_thread import LearnerThread
from onebit.service.core.plan import Plan, run_plan_here
from onebit.service.core.recovery import bring_up_task, warn_of_clock
from onebit.service.core.served_task import ServedTask
from onebit.service.core.serving_core import ServingCore
from onebit.service.core.task_changes import check_change, check_new, check_switch, make_task_info, requested_changes
from onebit.service.core.trainee import Trainee, read_first_classes
from onebit.service.demo_data import DemoItems
from onebit.service.errors import ConflictError, InvalidError, RequestError, TaskQuarantinedError, UnavailableError
from onebit.service.open.teaching import InlineTeacher
from onebit.service.requests import Change, NewLearner, NewTask
from onebit.service.settings import Settings
from onebit.service.store.clock import Clock
from onebit.service.store.errors import LogError, TaskChangedError
from onebit.service.store.reader import Reader
from onebit.service.store.row_checks import BadRecordError
from onebit.service.store.rows import ChangeRow
from onebit.service.store.sqlite.folder import LockId, lock_id
from onebit.service.store.sqlite.store import SqliteStore
from onebit.service.store.submission import Assumptions, Submission
from onebit.service.task import TaskInfo, blame_field, build_learner, require_candidate_support

CHORES_S = 0.5  # how often deadlines are looked after
LINGER_S = 0.04  # how long rows that nobody waits for stay in memory, and then until they are on disk
T = TypeVar("T")
_FOLDERS: dict[LockId, OpenFolder] = {}  # that this process has, by their locks
_TAKING = threading.Lock()  # of whoever takes one, or lets go of one


class OpenFolder:
    """A folder, from when it is taken; `opening` is held by whoever opens one of its tasks."""

    def __init__(self, settings: Settings, soon: bool) -> None:
        self.settings = settings
        self.folder = self.address = settings.data
        self.store = SqliteStore(settings.data)
        self.where = self.store.name
        self.opening = threading.Lock()
        self.lock = threading.RLock()  # of whoever uses the core; taken after `commits.writing`
        with ExitStack() as undo:
            self.store.take()
            undo.callback(self.store.release)
            self.store.check()
            self.appender = self.store.appender(lambda last, keys: self.teacher.note_written(last, keys))  # noqa: PLW0108 -- made below
            undo.callback(self.appender.close)
            self.reader = self.store.reader()  # for whoever has the lock
            undo.callback(self.reader.close)
            self.clock = Clock(self.reader.last_time(), self.appender.last)
            warn_of_clock(self.clock)
            if soon:
                self.appender.relax()
            undo.pop_all()
        self.learner_thread = LearnerThread(self.store, settings.snapshot_every, lambda: None, self.whole)
        last, every = self.appender.last, settings.snapshot_every
        self.teacher = InlineTeacher(self.reader, last, self.learner_thread, every)
        self.commits = GroupCommit(
            self.appender, self._deliver, soon, lambda rows: self.teacher.teach(rows, is_written=not soon)
        )
        self.core = ServingCore(
            self.commits, self.store.cache, self.clock, False, settings.max_values, self._refuse_closed
        )
        self.leader = CommitThread(self.commits, "onebit-leader", LINGER_S, self._look_after, CHORES_S, writes=soon)
        self._users = 0  # tasks that are open, or are being opened
        self._closing = set[int]()  # tasks that are being closed
        self._switching = set[int]()  # tasks for which a learner is being trained
        self.learner_thread.start()
        self.leader.start()

    # --- beginning and end -----------------------------------------------------------------------------------------

    @classmethod
    def entered(cls, settings: Settings, soon: bool) -> OpenFolder:
        """Return the folder that is open in this process already, or take it. Pair every call with `leave`."""
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

    def create(self, new: NewTask) -> None:
        """Create a task: it is on disk when this returns, and its learner is compiled. Called by whoever opens it."""
        with self.whole():
            tasks, damaged = self.reader.tasks()
        number = 1 + max([*(task.number for task in tasks), *(task.number for task in damaged)], default=0)
        info = make_task_info(new, number, self.clock.now())
        check_new(info, self.settings.max_task_memory)
        with blame_field("parameters"):
            Compiler(apart=False).learner(info.detail, info.classes, info.inputs)  # what cannot be made is not written
        with self.whole():
            self._log_change(number, Assumptions(None), "created", info.detail)
        self.flush()

    def bring_up(self, info: TaskInfo, reader: Reader) -> ServedTask:
        """Bring a task to the state that the log tells of, and serve it. Called by whoever opens it."""
        if info.number in self.teacher.tasks:
            raise InputError(f"task {info.name!r} of {self.where} is open in this process already: one task, one owner")
        served = bring_up_task(info, self.store, reader, self.commits.last, self.settings, DemoItems(), copies=1)
        with self.whole():
            # Rows of it that waited for the disk, since it was closed here before, are there only now.
            served.follower.follow(self.reader, self.commits.last)
            self.teacher.add(served)
        return served

    def leave(self, served: ServedTask | None = None) -> None:
        """Have everything on disk, keep a snapshot of a task, and go on without it; or let go of the folder, if it is the last.

        What is lost with it is said.
        """
        if served is not None:
            with self.lock:  # from now on nothing is added, and what is there is counted
                self._closing.add(served.info.number)
        with _TAKING:
            self._users -= 1
            if self._users == 0:
                self._close()
            elif served is not None:
                self._remove(served)

    def _remove(self, served: ServedTask) -> None:
        number = served.info.number
        try:
            self.flush()
            with self.whole():
                written = self.learner_thread.leave(number, self.reader)
            written.wait()
        except LogError as error:
            raise UnavailableError(f"the last rows of {self.where} may not be on disk: {error}") from None
        finally:
            with self.lock:
                self.teacher.remove(number)
                self._closing.discard(number)

    def _close(self) -> None:
        for key in [key for key, folder in _FOLDERS.items() if folder is self]:
            del _FOLDERS[key]
        self.leader.stop()
        failed: LogError | None = None
        try:
            self.flush()
        except RequestError:  # whatever waits is lost
            pass
        except LogError as error:
            failed = error
        lost = self.commits.waiting
        with suppress(LogError, OnebitError), self.whole():  # so that the last snapshots are those of the log
            pass
        if self.teacher.is_interrupted:  # that cannot be, and there are none: the next start begins with those before
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

    # --- plans of the core -----------------------------------------------------------------------------------------

    def current(self, served: ServedTask) -> ServedTask:
        return served

    def run(self, served: ServedTask, make: Callable[[ServedTask], Plan[T]], *, learns: bool = False) -> T:
        """Run a plan for a task on this thread: under the lock, but for waiting for the disk. What it teaches is learnt when it returns."""
        while True:
            self._be_ready(served)
            try:
                return run_plan_here(
                    self._checked(make(served)),
                    self.lock,
                    self.teacher.note_interrupt,
                    self.reader,
                    self.commits.settle,
                )
            except TaskChangedError:  # meanwhile: it is judged again
                continue

    def _checked(self, plan: Plan[T]) -> Plan[T]:
        """Run a plan unless something that was promised cannot be written: what is promised after it might be stale by then."""
        self.commits.refuse_failing()
        return (yield from plan)

    def _refuse_closed(self, number: int) -> None:
        """Refuse to add to a task that is being closed, or was. Called with the lock."""
        if number in self._closing or number not in self.teacher.tasks:
            raise InputError(f"the task is closed: open it again with onebit.open({self.where!r})")

    def _be_ready(self, served: ServedTask) -> None:
        """Go on where somebody was interrupted, or where the log could not be written; refuse where that cannot be."""
        if self.commits.soon and self.commits.failing is not None:
            with self.commits.writing:
                self.commits.write()
                self.commits.probe()
                self.commits.refuse_failing()
        if self.teacher.is_interrupted:
            with self.whole():
                pass
        if served.follower.failing is not None:
            raise TaskQuarantinedError(served.follower.failing)

    def _look_after(self) -> None:
        """Take silence for an answer when the deadline has passed."""
        for served in list(self.teacher.tasks.values()):
            try:
                while self.run(served, lambda served: sweep(self.core, served, self.store.lease)):
                    pass
            except BadRecordError as error:
                served.follower.quarantine(error)
            except (OnebitError, LogError):  # said to whoever comes next; it is tried again
                pass

    # --- changes -----------------------------------------------------------------------------------------------------

    def change(self, served: ServedTask, change: Change) -> None:
        """Write a change of a task, and make it: it holds when this returns."""
        with self.whole():
            check_change(served, change, self.settings.max_task_memory)
            self._change_task(served, "changed", requested_changes(change))
        self.flush()

    def switch(self, served: ServedTask, new: NewLearner) -> None:
        """Train another learner from the log, on this thread, while others decide; it decides when this returns."""
        number = served.info.number
        with self.lock:
            if number in self._switching:
                raise ConflictError(f"another learner is being trained for task {served.info.name!r} already")
            self._switching.add(number)
        try:
            self._be_ready(served)
            self._switch(served, new)
        finally:
            self._switching.discard(number)
        self.flush()

    def _switch(self, served: ServedTask, new: NewLearner) -> None:
        expected, inputs = served.info.expected, served.info.inputs
        detail = check_switch(served.info, new, self.settings.max_task_memory)
        with closing(self.store.reader()) as reader:
            learner = Compiler(apart=False).learner(detail, read_first_classes(reader, expected), inputs)
            trainee = Trainee(learner, expected)
            try:
                deque(trainee.approach(reader, lambda: self.commits.last), maxlen=0)
            except BadRecordError as error:
                raise InvalidError(f"{new.learner} cannot be trained from the log: {error}", "learner") from None
        with self.whole():
            # There may be more classes by now, and fewer that are played.
            build_learner(detail, served.info.classes, inputs)
            require_candidate_support(learner, served.info.retired, "learner")
            served.follower.trainees[detail["generation"]] = trainee
            seq = self._change_task(served, "learner", detail)
        self.learner_thread.tell(seq, {(served.info.number, "changes"): 0})  # a snapshot is due

    def _change_task(self, served: ServedTask, kind: str, detail: dict[str, Any]) -> int:
        """Write a change, which holds then; return its number. Called by whoever has everything whole."""
        self._refuse_closed(served.info.number)
        row = self._log_change(served.info.number, served.assumptions, kind, detail)
        with self.teacher.noting_interrupts():
            served.follower.follow(self.reader, row.seq, {"changes"})
            served.info.apply(row.seq, row.time, kind, detail)
            served.name_classes()
            if "silence" in detail or "deadline_s" in detail:
                served.swept = row.seq
        return row.seq

    def _log_change(self, task: int, assumptions: Assumptions, kind: str, detail: dict[str, Any]) -> ChangeRow:
        """Write a change of a task; return its row. Called by whoever has everything whole."""
        submission = Submission(task, assumptions)
        submission.changes.append(ChangeRow(0, task, self.clock.now(), kind, json.dumps(detail)))
        self.commits.submit(submission)
        self.commits.write()
        if not submission.done:  # it is tried again; when it is there, it holds, though this is refused now
            submission.add_done_callback(self.teacher.note_interrupt)
            self.commits.refuse_failing()
        submission.refuse()
        return submission.changes[0]

    # --- what is on disk ---------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Have everything on disk."""
        with self.commits.writing:
            self.commits.sync()

    @contextmanager
    def whole(self, served: ServedTask | None = None) -> Iterator[None]:
        """Everything is written and counted, and nobody adds anything meanwhile. Where somebody was interrupted, all that is known is made again from the log."""
        with self.commits.writing, self.lock:
            self.commits.write()
            self.commits.probe()
            self.commits.refuse_failing()
            if self.teacher.is_interrupted:
                self.store.cache.clear(self.commits.last)
                self.teacher.rebuild(self.commits.last)
            self.teacher.count(self.commits.last)
            yield

    def _deliver(self, work: Callable[[], None]) -> None:
        """Say what became of rows, and have what follows from them done."""
        with self.lock, self.teacher.noting_interrupts():
            work()
            self.teacher.count_if_due(self.commits.last)


def _forget_all() -> None:
    """In a child of the process, which has none of its folders."""
    global _TAKING  # noqa: PLW0603 -- which a thread of the parent may have held
    _TAKING = threading.Lock()
    _FOLDERS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
