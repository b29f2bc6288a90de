"""Deadlines: record silence as feedback once they have passed, and do the leader's periodic work."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from onebit.errors import OnebitError
from onebit.service.core.feedback import FeedbackSubmission, find_decisions, submit_feedback
from onebit.service.core.plan import LookUp, Plan
from onebit.service.core.served_task import ServedTask
from onebit.service.core.serving_core import ServingCore
from onebit.service.store.cache import Word
from onebit.service.store.errors import LogError
from onebit.service.store.row_checks import BadRecordError
from onebit.service.store.rows import DecisionHead

if TYPE_CHECKING:
    from onebit.service.admin import Admin
    from onebit.service.service import Service

SWEEP_S = 0.5  # how often
SWEPT = 256  # decisions whose deadline is looked at in one go
LOG = logging.getLogger("onebit.service")


def sweep(core: ServingCore, served: ServedTask, lease: str) -> Plan[bool]:
    """Record silence as feedback for decisions past their deadline; return True if more may be due.

    The rows are written under the leader's `lease`.
    """
    info = served.info
    if info.deadline_s is None or info.silence == "nothing" or info.deleted is not None:
        return False
    assumptions, now = served.assumptions._replace(lease=lease), core.clock.now()
    before, after = now - info.deadline_s, served.swept
    due: list[DecisionHead] = yield LookUp(
        lambda reader: reader.due(info.expected, after, before, SWEPT, core.clock.made)
    )
    if not due:
        return False
    forgets = served.forgets
    known = yield from find_decisions(core, served, [one.id for one in due])
    if served.forgetting or forgets != served.forgets:  # some of these may be gone: look again
        return False
    statement, silence, swept = FeedbackSubmission(info.number, assumptions), Word(info.silence == "right"), 0
    for one in due:
        decision = known[one.id]
        if decision is None:
            raise BadRecordError(info.name, "decisions", one.seq, f"it cannot be found by its id {one.id!r}")
        if decision.feedback_ticket is not None:
            break  # somebody is answering at this moment; look again
        swept = one.seq
        if decision.counted is None and one.mode != "shadow":  # what was shown in its place nobody knows
            statement.about[one.id] = decision
            statement.add(info, decision, now, "silence", silence, False)
    if statement.about:
        submit_feedback(core, served, statement)
        yield statement
    served.swept = max(served.swept, swept)
    return len(due) == SWEPT and swept == due[-1].seq  # where somebody is answering, the next look goes on


async def sweep_for_ever(service: Service, admin: Admin, keeps: bool) -> None:
    """Sweep the deadlines of all tasks every half second while this node is the leader.

    `keeps` says whether it is the leader at the start; it may become the leader later.
    """
    if keeps:
        await admin.erase()  # what a node that has ended could not
    while True:
        await asyncio.sleep(SWEEP_S)
        if service.log_health.failing is not None:
            await service.log_health.probe()
        had, keeps = keeps, service.store.lease is not None
        new = keeps and not had
        if new:  # another node did all this up to now
            admin.trainers.resume()
            await admin.erase()
        for served in list(service.served.values()):
            try:
                if new:
                    await admin.sweep_from_here(served)
                while (lease := service.store.lease) and served.follower.failing is None:
                    if not await service.sweep(served, lease):
                        break
                    await asyncio.sleep(0)
            except BadRecordError as error:
                served.follower.quarantine(error)
            except (OnebitError, LogError):  # said already; the next time it is tried again
                continue
            except Exception:
                LOG.exception("deadlines could not be looked after", extra={"event": "sweep-failed"})
