"""What a service looks after by itself, again and again: deadlines; and what falls to it when it becomes the leader of its log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from onebit.errors import OnebitError
from onebit.service.admin import Admin
from onebit.service.core.served_task import ServedTask
from onebit.service.store.base import Store
from onebit.service.store.errors import LogError
from onebit.service.store.health import LogHealth
from onebit.service.store.row_checks import BadRecordError

SWEEP_S = 0.5  # how often
LOG = logging.getLogger("onebit.service")


async def sweep_for_ever(
    store: Store,
    health: LogHealth,
    tasks: Mapping[str, ServedTask],
    sweep: Callable[[ServedTask, str], Awaitable[bool]],
    admin: Admin,
    keeps: bool,
) -> None:
    """Answer for those who were silent until their deadline while this is the leader, as it was at the start or becomes later."""
    if keeps:
        await admin.erase()  # what a node that has ended could not
    while True:
        await asyncio.sleep(SWEEP_S)
        if health.failing is not None:
            await health.probe()
        had, keeps = keeps, store.lease is not None
        new = keeps and not had
        if new:  # another node did all this up to now
            admin.resume()
            await admin.erase()
        for served in list(tasks.values()):
            try:
                if new:
                    await admin.sweep_from_here(served)
                while (lease := store.lease) and served.follower.failing is None and await sweep(served, lease):
                    await asyncio.sleep(0)
            except BadRecordError as error:
                served.follower.quarantine(error)
            except (OnebitError, LogError):  # said already; the next time it is tried again
                continue
            except Exception:
                LOG.exception("deadlines could not be looked after", extra={"event": "sweep-failed"})
