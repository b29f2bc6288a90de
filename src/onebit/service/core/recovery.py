"""Startup of a service: check its folder and bring every task to the state of the log.

A task that cannot be restored is quarantined; all others are served.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from onebit.errors import InputError, OnebitError
from onebit.service.core.follower import LogFollower, quarantine
from onebit.service.core.learner_thread import LearnerThread
from onebit.service.core.served_task import ServedTask
from onebit.service.demo_data import DemoItems
from onebit.service.settings import Settings
from onebit.service.store.base import Appender, Store
from onebit.service.store.clock import Clock
from onebit.service.store.errors import LogError
from onebit.service.store.reader import Reader
from onebit.service.store.submission import Keys
from onebit.service.store.task_history import DamagedTask
from onebit.service.task import TaskInfo, warm

LOG = logging.getLogger("onebit.service")
MOST_TASKS = 2**53


class Recovered(NamedTuple):
    """What a service continues with after startup. Its learner thread is not started yet."""

    appender: Appender
    learner_thread: LearnerThread
    clock: Clock
    next_task: int  # number of the next task to be created
    last_change: int  # seq of the last change applied


def recover(
    settings: Settings,
    store: Store,
    followed: Callable[[], None],
    changed: Callable[[], None],
    items: DemoItems,
    served: dict[str, ServedTask],
    aside: dict[str, DamagedTask],
) -> Recovered:
    """Fill `served` and `aside` with the tasks of the log: those that work and those quarantined.

    `followed` is called when something new has been learnt, and `changed` when tasks have changed in the log.
    """
    store.check()
    learner_thread = LearnerThread(store, settings.snapshot_every, followed)

    def committed(last: int, counts: Keys) -> None:
        learner_thread.tell(last, counts)
        if any(table == "changes" for _, table in counts):
            changed()

    appender = store.appender(committed)
    with closing(store.reader()) as reader:
        clock = store.clock(reader, appender.last)
        warn_of_clock(clock)
        last_change = reader.last_change()
        tasks, damaged = reader.tasks(last_change)
        for info in tasks:
            if info.deleted is not None:
                continue
            try:
                if info.name in served:
                    raise InputError(f"its name is that of task number {served[info.name].info.number} too")
                task = bring_up_task(info, store, reader, appender.last, settings, items)
            except LogError:  # the log itself failed, not one task
                raise
            except Exception as error:
                reason = quarantine(info.name, error, appender.last)
                _put(aside, DamagedTask(info.number, info.name, reason, False), served)
            else:
                served[info.name] = task
                learner_thread.followers[info.number] = task.follower
        for gone in damaged:
            if not gone.deleted:
                LOG.error(f"quarantined: {gone.reason}", extra={"event": "task-quarantined", "task": gone.name})
                _put(aside, gone, served)
    numbers = [info.number for info in tasks] + [gone.number for gone in damaged]
    next_task = 1 + max((one for one in numbers if one < MOST_TASKS), default=0)
    return Recovered(appender, learner_thread, clock, next_task, last_change)


def warn_of_clock(clock: Clock) -> None:
    """Log a warning if this machine's clock is behind the log."""
    if clock.behind > 1.0:
        then = (
            "times go on from the log's"
            if clock.follows_log
            else "the machine is believed, and times in the log go back by that"
        )
        LOG.warning(
            f"the clock of this machine is {clock.behind:.0f} s behind the log; {then}", extra={"event": "clock-behind"}
        )


def _put(aside: dict[str, DamagedTask], task: DamagedTask, served: dict[str, ServedTask]) -> None:
    """Quarantine a damaged task under its name, or under a free one if that is unreadable or taken."""
    name, taken = task.name, served.keys() | aside.keys()
    if name is None or name in taken:
        name = f"damaged-{task.number}"
        while name in taken:
            name += "-"
    aside[name] = task


def bring_up_task(
    info: TaskInfo,
    store: Store,
    reader: Reader,
    last: int,
    settings: Settings,
    items: DemoItems,
    copies: int = 2,
) -> ServedTask:
    """Return a task to serve, whose learner has followed the log to position `last`."""
    began = time.perf_counter()
    snapshots = store.snapshots(info.number, settings.keep_snapshots)
    follower = LogFollower.start(info.expected, snapshots, reader, last, copies)
    since = follower.position
    follower.follow(reader, last)
    warm(follower.replicas.resting, info.inputs)
    # Records followed at startup count towards the next snapshot.
    follower.records, follower.records_at_snapshot = 0, -follower.records
    served = ServedTask(info, follower)
    if info.deadline_s is not None and info.silence != "nothing":
        waiting = reader.first_unanswered(info.number, info.silence_since)
        served.swept = last if waiting is None else waiting - 1
    if info.items is not None:
        with contextlib.suppress(OnebitError):  # reported when somebody opens the page
            items.check(info.items, info.features, info.classes)
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
