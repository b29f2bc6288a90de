"""Startup of a service: check its folder and bring every task to the state of the log.

A task that cannot be restored is quarantined; all others are served.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing

from onebit.errors import InputError
from onebit.service.core.follower import LogFollower, quarantine
from onebit.service.core.served_task import ServedTask
from onebit.service.core.serving_core import ServingCore
from onebit.service.store.errors import LogError
from onebit.service.store.reader import Reader
from onebit.service.store.task_history import DamagedTask
from onebit.service.task import TaskInfo, warm

LOG = logging.getLogger("onebit.service")
MOST_TASKS = 2**53


def recover(core: ServingCore, served: dict[str, ServedTask], quarantined: dict[str, DamagedTask]) -> tuple[int, int]:
    """Fill `served` and `quarantined` with the tasks of the log: those that work and those quarantined.

    Return the number of the next task to be created, and the seq of the last change applied. The learner thread is not started yet.
    """
    last, last_change = core.commits.last, core.reader.last_change()
    with closing(core.store.reader()) as reader:
        tasks, damaged = reader.tasks(last_change)
        for info in tasks:
            if info.deleted is not None:
                continue
            try:
                if info.name in served:
                    raise InputError(f"task number {served[info.name].info.number} has the same name")
                task = bring_up_task(core, info, reader)
            except LogError:  # the log itself failed, not one task
                raise
            except Exception as error:
                reason = quarantine(info.name, error, last)
                _quarantine(quarantined, DamagedTask(info.number, info.name, reason, False), served)
            else:
                served[info.name] = task
                core.learner_thread.tasks[info.number] = task
        for task_record in damaged:
            if not task_record.deleted:
                LOG.error(
                    f"quarantined: {task_record.reason}", extra={"event": "task-quarantined", "task": task_record.name}
                )
                _quarantine(quarantined, task_record, served)
    numbers = [info.number for info in tasks] + [task_record.number for task_record in damaged]
    return 1 + max((number for number in numbers if number < MOST_TASKS), default=0), last_change


def _quarantine(quarantined: dict[str, DamagedTask], task: DamagedTask, served: dict[str, ServedTask]) -> None:
    """Quarantine a damaged task under its name, or under a free one if that is unreadable or taken."""
    name, names = task.name, served.keys() | quarantined.keys()
    if name is None or name in names:
        name = f"damaged-{task.number}"
        while name in names:
            name += "-"
    quarantined[name] = task


def bring_up_task(core: ServingCore, info: TaskInfo, reader: Reader, copies: int = 2) -> ServedTask:
    """Return a task to serve, whose learner has followed the log to its end."""
    began, last = time.perf_counter(), core.commits.last
    snapshots = core.store.snapshots(info.number, core.settings.keep_snapshots)
    follower = LogFollower.start(info.expected, snapshots, reader, last, copies)
    since = follower.position
    follower.follow(reader, last)
    warm(follower.replicas.resting, info.inputs)
    # Records followed at startup count towards the next snapshot.
    follower.records, follower.records_at_snapshot = 0, -follower.records
    served = ServedTask(info, follower)
    if info.deadline_s is not None and info.silence != "nothing":
        served.skip_answered(reader, last)
    LOG.info(
        f"task {info.name} is ready",
        extra={
            "event": "task-ready",
            "task": info.name,
            "snapshot": since,
            "position": last,
            "learnt": follower.replicas.learnt,
            "seconds": round(time.perf_counter() - began, 3),
        },
    )
    return served
