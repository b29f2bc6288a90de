"""A folder owned by this process, for `onebit.open`: its log and its open tasks.

Opening its first task locks the folder, and closing the last one releases it. A plan of the core runs on the caller's thread, under the
folder's lock except while waiting for the disk. Feedback that is certain to be next in the log is taught at once, so that the next
decision knows it; there is one copy of each learner. If a call is interrupted, it is unknown what the learners have learnt, and all are
rebuilt from the log.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, TypeVar

from onebit.errors import InputError, OnebitError
from onebit.service.core.commit import CommitThread
from onebit.service.core.compiler import Compiler
from onebit.service.core.deadlines import sweep
from onebit.service.core.follower import LogFollower
from onebit.service.core.plan import LookUp, Plan, Wait
from onebit.service.core.recovery import bring_up_task
from onebit.service.core.served_task import ServedTask, TrainingProgress
from onebit.service.core.serving_core import ServingCore
from onebit.service.core.task_changes import (
    check_change,
    check_new,
    check_switch,
    make_task_info,
    requested_changes,
    require_fit,
)
from onebit.service.errors import ConflictError, InvalidError, TaskQuarantinedError, UnavailableError
from onebit.service.open.teaching import InlineTeacher
from onebit.service.requests import Change, NewLearner, NewTask
from onebit.service.settings import Settings
from onebit.service.store.errors import LogError, TaskChangedError
from onebit.service.store.reader import Reader
from onebit.service.store.rows import BadRecordError, ChangeRow
from onebit.service.store.sqlite.folder import LockId, lock_id
from onebit.service.store.sqlite.store import SqliteStore
from onebit.service.store.submission import Assumptions, Submission
from onebit.service.task import TaskInfo, blame_field

CHORES_S = 0.5  # how often deadlines are checked
LINGER_S = 0.04  # how long rows that nobody waits for stay in memory before they are flushed
T = TypeVar("T")
_FOLDERS: dict[LockId, OpenFolder] = {}  # owned by this process
_FOLDERS_LOCK = threading.Lock()  # held while a folder is locked or released


class OpenFolder:
    """A folder that this process owns; hold `opening` while opening one of its tasks."""

    def __init__(self, settings: Settings, soon: bool) -> None:
        self.settings = settings
        self.folder = self.address = settings.data
        self.store = SqliteStore(settings.data, soon)
        self.where = self.store.name
        self.opening = threading.Lock()
        self.lock = threading.RLock()  # held while using the core; taken after `commits.writing`
        self.store.take()
        try:
            self.core = ServingCore(
                self.store,
                settings,
                self._deliver,
                committed=lambda last, keys: self.teacher.note_written(last, keys),  # noqa: PLW0108 -- made below
                followed=lambda: None,
                alone=self.settled,
                soon=soon,
                taught=lambda rows: self.teacher.teach(rows, is_written=not soon),
                refuse_closed=self._refuse_closed,
            )
        except BaseException:
            self.store.release()
            raise
        self.commits, self.learner_thread, self.reader = self.core.commits, self.core.learner_thread, self.core.reader
        self.teacher = InlineTeacher(self.core)
        self.leader = CommitThread(self.commits, "onebit-leader", LINGER_S, self._record_silence, CHORES_S, writes=soon)
        self._users = 0  # tasks that are open or being opened
        self._closing = set[int]()  # tasks that are being closed
        self.learner_thread.start()
        self.leader.start()

    # --- opening and closing ---------------------------------------------------------------------------------------

    @classmethod
    def acquire(cls, settings: Settings, soon: bool) -> OpenFolder:
        """Return the open folder, or lock and open it. Pair every call with `leave`."""
        with _FOLDERS_LOCK:
            key = lock_id(settings.data)
            folder = None if key is None else _FOLDERS.get(key)
            if folder is None:
                folder = cls(settings, soon)
                key = lock_id(settings.data)
                assert key is not None, "a folder that this process owns has a lock file"
                _FOLDERS[key] = folder
            else:
                names = {True: "soon", False: "always"}
                if folder.commits.soon != soon:
                    raise InputError(
                        f"{folder.where} is open in this process with durable={names[folder.commits.soon]!r}, but durable={names[soon]!r} was given: "
                        "all open tasks of a folder must have the same"
                    )
            folder._users += 1
            return folder

    def create(self, new: NewTask) -> None:
        """Create a task: on disk, with its learner compiled, when this returns. Call with `opening` held."""
        with self.settled():
            tasks, damaged = self.reader.tasks()
        number = 1 + max([*(task.number for task in tasks), *(task.number for task in damaged)], default=0)
        info = make_task_info(new, number, self.core.clock.now())
        check_new(info, self.settings.max_task_memory)
        with blame_field("parameters"):
            Compiler(apart=False).learner(info.detail, info.classes, info.inputs)  # raises before writing
        with self.settled():
            self._log_change(number, Assumptions(None), "created", info.detail)
        self.flush()

    def restore_task(self, info: TaskInfo, reader: Reader) -> ServedTask:
        """Restore a task from the log and serve it. Call with `opening` held."""
        if info.number in self.teacher.tasks:
            raise InputError(f"task {info.name!r} of {self.where} is already open in this process: close it first")
        served = bring_up_task(self.core, info, reader, copies=1)
        with self.settled():
            # If it was closed here before, some of its rows may have been waiting for the disk until now.
            served.follower.follow(self.reader, self.commits.last)
            self.teacher.tasks[info.number] = served
        return served

    def leave(self, served: ServedTask | None = None) -> None:
        """Write everything to disk and close a task; release the folder with its last task.

        Saves a snapshot of the task. Raises UnavailableError if rows are lost.
        """
        if served is not None:
            with self.lock:  # from now on nothing is added, and all rows are counted
                self._closing.add(served.info.number)
        with _FOLDERS_LOCK:
            self._users -= 1
            try:
                if served is not None:
                    self._remove(served.info.number)
            finally:
                if self._users == 0:
                    self._close()

    def _remove(self, number: int) -> None:
        try:
            self.flush()
        except LogError as error:
            raise UnavailableError(f"the last rows of {self.where} may not be on disk: {error}") from None
        finally:
            with suppress(LogError, OnebitError):  # without a last snapshot, the next start uses an earlier one
                with self.settled():
                    written = self.learner_thread.leave(number, self.reader)
                written.wait()
            with self.lock:
                self.teacher.tasks.pop(number, None)
                self._closing.discard(number)

    def _close(self) -> None:
        for key in [key for key, folder in _FOLDERS.items() if folder is self]:
            del _FOLDERS[key]
        self.leader.stop()
        self.learner_thread.stop()
        self.core.close()
        if self.commits.waiting:
            raise UnavailableError(
                f"{self.commits.waiting} rows could not be written to the log of {self.where}, and are lost: {self.commits.failing}"
            )

    def release_after_fork(self) -> None:
        """Close the lock file, which the parent of this process keeps."""
        self.store.forget()

    # --- plans of the core -----------------------------------------------------------------------------------------

    def current(self, served: ServedTask) -> ServedTask:
        return served

    def run(self, served: ServedTask, make_plan: Callable[[ServedTask], Plan[T]], *, learns: bool = False) -> T:
        """Run a plan for a task on this thread, under the lock except while waiting for the disk.

        The feedback that it records is learnt when this returns.
        """
        while True:
            self._recover_if_needed(served)
            try:
                return self._run_plan(self._run_unless_failing(make_plan(served)))
            except TaskChangedError:  # check it again
                continue

    def _run_unless_failing(self, plan: Plan[T]) -> Plan[T]:
        """Run a plan, but refuse it while rows cannot be written, since its result might be stale."""
        self.commits.refuse_failing()
        return (yield from plan)

    def _run_plan(self, plan: Plan[T]) -> T:
        step: Callable[[Any], Wait] = plan.send
        value: Any = None
        try:
            while True:
                with self.lock:
                    try:
                        while not isinstance(wait := step(value), Submission):
                            step, value = plan.send, None
                            if isinstance(wait, LookUp):
                                try:
                                    value = wait.query(self.reader)
                                except Exception as error:
                                    step, value = plan.throw, error
                    except Exception:
                        raise
                    except BaseException:
                        self.teacher.note_interrupt()
                        raise
                step, value = plan.send, None
                try:
                    self.commits.write_until(wait)
                except Exception as error:
                    step, value = plan.throw, error
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _refuse_closed(self, number: int) -> None:
        """Raise InputError if a task is closed or being closed. Call with the lock held."""
        if number in self._closing or number not in self.teacher.tasks:
            raise InputError(f"the task is closed: open it again with onebit.open({self.where!r})")

    def _recover_if_needed(self, served: ServedTask) -> None:
        """Recover from an interrupt or a failed write; raise if that is not possible."""
        if self.commits.soon and self.commits.failing is not None:
            with self.commits.writing:
                self.commits.write()
                self.commits.probe()
                self.commits.refuse_failing()
        if self.teacher.is_interrupted:
            with self.settled():
                pass
        if served.follower.failing is not None:
            raise TaskQuarantinedError(served.follower.failing)

    def _record_silence(self) -> None:
        """Record silence for decisions whose deadline has passed."""
        for served in list(self.teacher.tasks.values()):
            try:
                while self.run(served, lambda served: sweep(self.core, served, self.store.lease)):
                    pass
            except BadRecordError as error:
                served.follower.quarantine(error)
            except (OnebitError, LogError):  # reported to the next caller, and retried
                pass

    # --- changes -----------------------------------------------------------------------------------------------------

    def change(self, served: ServedTask, change: Change) -> None:
        """Write and apply a change of a task; it is in effect when this returns."""
        with self.settled():
            check_change(served, change, self.settings.max_task_memory)
            self._change_task(served, "changed", requested_changes(change))
        self.flush()

    def switch(self, served: ServedTask, new: NewLearner) -> None:
        """Train another learner from the log on this thread, then let it take over.

        Other threads go on deciding meanwhile.
        """
        with self.lock:
            if served.training is not None:
                raise ConflictError(f"another learner is already being trained for task {served.info.name!r}")
            training = served.begin_training(new.learner)
        try:
            self._recover_if_needed(served)
            self._switch(served, new, training)
        finally:
            served.training = None
        self.flush()

    def _switch(self, served: ServedTask, new: NewLearner, training: TrainingProgress) -> None:
        detail = check_switch(served.info, new, self.settings.max_task_memory)
        snapshots, compiler = served.follower.snapshots, Compiler(apart=False)
        with closing(self.store.reader()) as reader:
            trainee = training.follower = LogFollower.begin_training(
                served.info.expected, detail, snapshots, reader, compiler.learner
            )
            try:
                for _ in trainee.approach(reader, lambda: self.commits.last, lambda: False):
                    pass
            except BadRecordError as error:
                raise InvalidError(f"{new.learner} cannot be trained from the log: {error}", "learner") from None
        with self.settled():
            require_fit(trainee.replicas.resting, detail, served.info)
            served.follower.trainees[detail["generation"]] = trainee
            seq = self._change_task(served, "learner", detail)
        self.learner_thread.tell(seq, {(served.info.number, "changes"): 0})  # a snapshot is due

    def _change_task(self, served: ServedTask, kind: str, detail: dict[str, Any]) -> int:
        """Write and apply a change; return its number. Call within `settled`."""
        self._refuse_closed(served.info.number)
        row = self._log_change(served.info.number, served.assumptions, kind, detail)
        with self.teacher.noting_interrupts():
            served.follower.follow(self.reader, row.seq, {"changes"})
            served.apply(row.seq, row.time, kind, detail)
        return row.seq

    def _log_change(self, task: int, assumptions: Assumptions, kind: str, detail: dict[str, Any]) -> ChangeRow:
        """Write a change of a task; return its row. Call within `settled`."""
        submission = Submission(task, assumptions)
        submission.changes.append(ChangeRow(0, task, self.core.clock.now(), kind, json.dumps(detail)))
        self.commits.submit(submission)
        self.commits.write()
        if not submission.done:  # it is retried; once written it holds, although this call fails
            submission.add_done_callback(self.teacher.note_interrupt)
            self.commits.refuse_failing()
        submission.refuse()
        return submission.changes[0]

    # --- durability --------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write everything to disk."""
        with self.commits.writing:
            self.commits.sync()

    @contextmanager
    def settled(self, served: ServedTask | None = None) -> Iterator[None]:
        """Write and count all rows, and let no other thread add any within the block.

        After an interrupt, all learners are rebuilt from the log first.
        """
        with self.commits.writing, self.lock:
            self.commits.write()
            self.commits.probe()
            self.commits.refuse_failing()
            if self.teacher.is_interrupted:
                self.store.cache.clear(self.commits.last)
                self.teacher.rebuild()
            self.teacher.count()
            yield

    def _deliver(self, work: Callable[[], None]) -> None:
        """Run `work`, which reports the outcome of rows, and follow the log if that is due."""
        with self.lock, self.teacher.noting_interrupts():
            work()
            self.teacher.count_if_due()


def _forget_folders() -> None:
    """Forget all folders in a forked child, which owns none of them."""
    global _FOLDERS_LOCK  # noqa: PLW0603 -- a thread of the parent may have held it
    _FOLDERS_LOCK = threading.Lock()
    _FOLDERS.clear()


os.register_at_fork(after_in_child=_forget_folders)
