"""Deadlines: record silence as feedback once they have passed, and do the leader's periodic work."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from onebit.errors import OnebitError
from onebit.service.core.feedback import add_feedback, find_decisions, submit_feedback
from onebit.service.core.plan import LookUp, Plan
from onebit.service.core.served_task import ServedTask
from onebit.service.core.serving_core import ServingCore
from onebit.service.store.cache import LatestFeedback
from onebit.service.store.errors import LogError
from onebit.service.store.rows import BadRecordError, DecisionHead
from onebit.service.store.submission import Submission

if TYPE_CHECKING:
    from onebit.service.service import Service

SWEEP_S = 0.5  # between sweeps
SWEPT = 256  # decisions in one sweep of a task
LOG = logging.getLogger("onebit.service")


def sweep(core: ServingCore, served: ServedTask, lease: str) -> Plan[bool]:
    """Record silence as feedback for decisions past their deadline; return True if more may be due.

    The rows are written under the leader's `lease`.
    """
    info = served.info
    if info.deadline_s is None or info.silence == "nothing" or info.deleted is not None:
        return False
    assumptions, now = served.assumptions._replace(lease=lease), core.clock.now()
    before, after = now - info.deadline_s, served.swept_to
    due: list[DecisionHead] = yield LookUp(
        lambda reader: reader.find_due(info.expected, after, before, SWEPT, core.clock.date_row)
    )
    if not due:
        return False
    forgets = served.forgets
    known = yield from find_decisions(core, served, [head.id for head in due])
    if served.forgetting or forgets != served.forgets:  # some of these may be forgotten now: look again later
        return False
    submission, silence, swept = Submission(info.number, assumptions), LatestFeedback(info.silence == "right"), 0
    for head in due:
        decision = known[head.id]
        if decision is None:
            raise BadRecordError(info.name, "decisions", head.seq, f"it cannot be found by its id {head.id!r}")
        if decision.feedback_ticket is not None:
            break  # feedback is being written at this moment; look again later
        swept = head.seq
        if decision.counted is None and head.mode != "shadow":  # in shadow mode it is unknown what was shown
            add_feedback(submission, info, decision, now, "silence", silence)
    if submission.feedback:
        submit_feedback(core, served, submission)
        yield submission
    served.swept_to = max(served.swept_to, swept)
    return (
        len(due) == SWEPT and swept == due[-1].seq
    )  # stopped early if feedback is being written; the next sweep continues


async def sweep_for_ever(service: Service, is_leader: bool) -> None:
    """Sweep the deadlines of all tasks every half second while this node is the leader.

    `is_leader` says whether it is the leader at the start; it may become the leader later.
    """
    if is_leader:
        await service.erase()  # what an earlier node could not erase before it ended
    while True:
        await asyncio.sleep(SWEEP_S)
        if service.inquiry.failing is not None:
            await service.inquiry.probe()
        was_leader, is_leader = is_leader, service.store.lease is not None
        is_new_leader = is_leader and not was_leader
        if is_new_leader:  # another node was the leader until now
            service.trainers.resume()
            await service.erase()
        for served in list(service.served.values()):
            try:
                if is_new_leader:
                    skip_answered = partial(served.skip_answered, last=service.core.commits.last)
                    await service.inquiry.read(skip_answered)
                while (lease := service.store.lease) and served.follower.failing is None:
                    if not await service.sweep(served, lease):
                        break
                    await asyncio.sleep(0)
            except BadRecordError as error:
                served.follower.quarantine(error)
            except (OnebitError, LogError):  # already reported; the next sweep tries again
                continue
            except Exception:
                LOG.exception("deadlines could not be checked", extra={"event": "sweep-failed"})
