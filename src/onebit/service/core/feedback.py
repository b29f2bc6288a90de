"""Feedback as a plan: right or wrong for decisions, once each; second thoughts; and what silence means when the deadline has passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from onebit.service.core.feedback_rows import (
    SWEPT,
    WRITTEN,
    FeedbackSubmission,
    awaits_silence,
    compare_truth,
    judge,
    look_up,
    parse_word,
    refuse_alone,
    refuse_forgotten,
    refuse_mixed,
    refuse_shown,
)
from onebit.service.core.plan import LookUp, Plan, Turn, settle
from onebit.service.core.served_task import ServedTask
from onebit.service.errors import NotFoundError, UnavailableError
from onebit.service.requests import FeedbackRequest
from onebit.service.store.cache import CachedDecision, Word
from onebit.service.store.errors import RowsTakenError
from onebit.service.store.rows import DecisionHead

if TYPE_CHECKING:
    from onebit.service.core.serving_core import ServingCore

AT_ONCE = 256  # ids that are looked up before others get a turn
Found = Mapping[str, CachedDecision | None]


class FeedbackOutcome(NamedTuple):
    """What became of a feedback, and a sentence where it was refused."""

    id: str
    status: str
    message: str


def hear(
    core: ServingCore, served: ServedTask, requests: Sequence[FeedbackRequest], single: bool
) -> Plan[list[FeedbackOutcome]]:
    """Record what is said of decisions. A single request that is unknown or contradicts an earlier one is refused.

    TaskChangedError where the task changed meanwhile: then the requests must be judged again.
    """
    refuse_mixed(requests, single)
    words = [parse_word(served, request, "" if single else f"[{index}].") for index, request in enumerate(requests)]
    ids = list(dict.fromkeys(request.id for request in requests))
    is_current = not core.shared  # whether what was said before is as the log has it
    while True:
        forgets = served.forgets
        found = yield from _find(core, served, ids)
        unsettled = [
            ticket
            for one in found.values()
            if one is not None
            for ticket in (one.ticket, one.feedback_ticket)
            if ticket is not None and not ticket.accepted
        ]
        if unsettled:
            yield from settle([*unsettled])
        elif not is_current and _rests_on_log(requests, found):
            is_current = True
            core.cache.remove(served.info.number, ids)
        elif single and served.info.forgotten_at and found[ids[0]] is None:
            yield LookUp(lambda reader: refuse_forgotten(reader, served.info, ids))
            raise NotFoundError(f"there is no decision {ids[0]!r} in task {served.info.name!r}", "id")
        elif forgets == served.forgets:
            statement = FeedbackSubmission(served.info.number, served.assumptions)
            answers = _judge_all(core, served, requests, words, found, single, statement)
            try:
                if statement.about:
                    _write(core, served, statement)
                    yield statement
            except RowsTakenError:  # what was remembered is forgotten now
                continue
            return answers


def _judge_all(
    core: ServingCore,
    served: ServedTask,
    requests: Sequence[FeedbackRequest],
    words: Sequence[Word | None],
    found: Found,
    single: bool,
    statement: FeedbackSubmission,
) -> list[FeedbackOutcome]:
    """Judge what is said of decisions with which nothing is under way. What cannot be is refused before anything is noted."""
    if served.forgetting:
        raise UnavailableError(
            "decisions of this task are being forgotten; nothing of this was done, and it may be sent again"
        )
    info, meant = served.info, list(words)
    for index, (request, word) in enumerate(zip(requests, words, strict=True)):
        decision = found[request.id]
        if decision is not None and word is not None:
            where = "" if single else f"[{index}]."
            refuse_shown(decision.record.mode, request, where)
            if word.truth is not None:
                meant[index] = compare_truth(info, request, word, decision.record, where)
    now, answers = core.clock.now(), []
    for request, word in zip(requests, meant, strict=True):
        decision = found[request.id]
        status, message = judge(info, request, word, decision, now)
        if single:
            refuse_alone(status, message, request)
        answers.append(FeedbackOutcome(request.id, status, message))
        if status in WRITTEN:
            assert decision is not None
            statement.note(info, request, word, decision, status, now)
    return answers


def _write(core: ServingCore, served: ServedTask, statement: FeedbackSubmission) -> None:
    """Write what is noted with its decisions already; if it cannot be written, they are forgotten.

    Whether it was written may be unknown; the next who asks finds in the log what is there.
    """
    for decision in statement.about.values():
        decision.feedback_ticket = statement
    # A batch may be larger than what is remembered, and what is under way must be.
    core.cache.add(statement.about.values())

    def finish() -> None:
        """The rows are in the log, or will never be; also where whoever told does not wait any more."""
        for decision in statement.about.values():
            if decision.feedback_ticket is statement:
                decision.feedback_ticket = None
        if statement.error is not None:
            core.cache.remove(served.info.number, statement.about)
        else:
            served.heard = max(served.heard, statement.last)

    statement.add_done_callback(finish)
    core.submit(statement)


def _find(core: ServingCore, served: ServedTask, ids: list[str]) -> Plan[dict[str, CachedDecision | None]]:
    """Return what is known of decisions, from memory or from the log. While a long list is looked up, others get a turn."""
    info, task, cache = served.info, served.info.number, core.cache
    found = {identity: one for identity in ids if (one := cache.get(task, identity)) is not None}
    if len(found) == len(ids):
        return dict(found)
    remembered, unread = list(found), [identity for identity in ids if identity not in found]
    while unread:
        for start in range(0, len(unread), AT_ONCE):
            if start:
                yield Turn.ANY
            chunk = unread[start : start + AT_ONCE]
            logged: dict[str, CachedDecision] = yield LookUp(
                lambda reader, chunk=chunk: look_up(info, chunk, reader, core.clock)  # type: ignore[misc]
            )
            cache.add(one for identity, one in logged.items() if cache.get(task, identity) is None)
            found |= logged
        # What could not be written meanwhile is not remembered any more.
        unread = [identity for identity in remembered if cache.get(task, identity) is None]
        for identity in unread:
            del found[identity]
        remembered = []
    # Others may have come upon the same decision meanwhile, which is cached once.
    return {identity: cache.get(task, identity) or found.get(identity) for identity in ids}


def sweep(core: ServingCore, served: ServedTask, lease: str) -> Plan[bool]:
    """Answer, under the leader's lease, for those who were silent until the deadline; return True if there may be more."""
    info = served.info
    if not awaits_silence(info):
        return False
    assert info.deadline_s is not None
    assumptions, now = served.assumptions._replace(lease=lease), core.clock.now()
    before, after = now - info.deadline_s, served.swept
    due: list[DecisionHead] = yield LookUp(
        lambda reader: reader.due(info.expected, after, before, SWEPT, core.clock.made)
    )
    if not due:
        return False
    forgets = served.forgets
    known = yield from _find(core, served, [one.id for one in due])
    if served.forgetting or forgets != served.forgets:  # some of these may be gone: look again
        return False
    statement = FeedbackSubmission(info.number, assumptions)
    swept = statement.note_silence(info, due, known, now)
    if statement.about:
        _write(core, served, statement)
        yield statement
    served.swept = max(served.swept, swept)
    return len(due) == SWEPT and swept == due[-1].seq  # where somebody is answering, the next look goes on


def _rests_on_log(requests: Sequence[FeedbackRequest], found: Found) -> bool:
    """Return True if an answer rests on what other nodes may have said of a decision since it was remembered.

    A first answer need not: whether it is the first is checked again when it is written.
    """
    pairs = ((request, found[request.id]) for request in requests)
    return any(one is not None and (request.withdraw or one.feedback is not None) for request, one in pairs)
