"""Feedback as plans: each decision takes feedback once, unless it is revised or withdrawn.

The rows are in the log before anybody is told that feedback was accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from onebit.contract.validation import join_names
from onebit.errors import OnebitError
from onebit.learner.feedback import check_reward
from onebit.service.core.plan import LookUp, Plan, Turn, settle
from onebit.service.core.served_task import ServedTask
from onebit.service.errors import ConflictError, GoneError, InvalidError, NotFoundError, UnavailableError
from onebit.service.inputs import decode_indices
from onebit.service.requests import FeedbackRequest
from onebit.service.store.cache import CachedDecision, CachedFeedback, LatestFeedback
from onebit.service.store.clock import Clock
from onebit.service.store.errors import RowsTakenError
from onebit.service.store.reader import NO_END, Reader
from onebit.service.store.rows import DecisionHead, DecisionRow, FeedbackRow, RevisionRow
from onebit.service.store.submission import Submission
from onebit.service.task import TaskInfo

if TYPE_CHECKING:
    from onebit.service.core.serving_core import ServingCore

AT_ONCE = 256  # ids that are looked up before others get a turn
WRITTEN = ("accepted", "late", "revised", "withdrawn")
ANSWERS = ("right", "reward", "truth")  # a feedback has exactly one of these
NOTHING: dict[str, Any] = dict.fromkeys(LatestFeedback._fields)  # the content of a withdrawal
Status = Literal["accepted", "revised", "withdrawn", "duplicate", "late", "unknown", "conflict"]
DecisionsById = Mapping[str, CachedDecision | None]


class FeedbackOutcome(NamedTuple):
    """The outcome of one feedback; in a batch it may also be `unknown` or `conflict`, with the reason."""

    id: str
    status: Status
    message: str = ""


def record_feedback(
    core: ServingCore, served: ServedTask, requests: Sequence[FeedbackRequest], single: bool
) -> Plan[list[FeedbackOutcome]]:
    """Record feedback on decisions and return the outcomes in order.

    A single request raises if its decision is unknown or it contradicts earlier feedback. TaskChangedError is raised if the task changed meanwhile:
    then the requests must be validated again.
    """
    messages, by_id = list[LatestFeedback | None](), dict[str, FeedbackRequest]()
    for index, request in enumerate(requests):
        messages.append(parse_feedback(served, request, "" if single else f"[{index}]."))
        by_id[request.id] = request
    ids = list(by_id)
    if len(ids) < len(requests):
        _refuse_repeated(requests)
    is_current = not core.store.shared  # whether cached feedback is as in the log
    while True:
        forgets = served.forgets
        decisions = yield from find_decisions(core, served, ids)
        unsettled = list[Submission | None]()
        for decision in decisions.values():
            for ticket in () if decision is None else (decision.ticket, decision.feedback_ticket):
                if ticket is not None and not ticket.accepted:
                    unsettled.append(ticket)
        if unsettled:
            yield from settle(unsettled)
        elif not is_current and _rests_on_log(requests, decisions):
            is_current = True
            core.cache.remove(served.info.number, ids)
        elif single and decisions[ids[0]] is None:
            yield LookUp(lambda reader: refuse_forgotten(reader, served.info, ids))
            raise NotFoundError(f"there is no decision {ids[0]!r} in task {served.info.name!r}", "id")
        elif forgets == served.forgets:
            submission = Submission(served.info.number, served.assumptions)
            outcomes = _judge_all(core, served, requests, messages, decisions, single, submission)
            try:
                if submission.count:
                    submit_feedback(core, served, submission)
                    yield submission
            except RowsTakenError:  # the outdated cache entries were removed: try again
                continue
            return outcomes


def _judge_all(
    core: ServingCore,
    served: ServedTask,
    requests: Sequence[FeedbackRequest],
    messages: Sequence[LatestFeedback | None],
    decisions: DecisionsById,
    single: bool,
    submission: Submission,
) -> list[FeedbackOutcome]:
    """Return the outcome of each feedback, note it on its decision, and add the rows to `submission`.

    The decisions must have no pending writes. Invalid feedback raises before anything is changed.
    """
    if served.forgetting:
        raise UnavailableError(
            "decisions of this task are being forgotten; nothing was done, and the request may be sent again"
        )
    info, matched = served.info, list(messages)
    for index, (request, word) in enumerate(zip(requests, messages, strict=True)):
        decision = decisions[request.id]
        if decision is not None and word is not None:
            matched[index] = _match_decision(info, request, word, decision.record, "" if single else f"[{index}].")
    now, outcomes = core.clock.now(), []
    for request, word in zip(requests, matched, strict=True):
        decision = decisions[request.id]
        status, refusal = judge(info, request, word, decision, now)
        if single and refusal:  # in a batch, the status is the answer
            field = next((name for name in ANSWERS if getattr(request, name) is not None), "withdraw")
            raise ConflictError(refusal, field)
        outcomes.append(FeedbackOutcome(request.id, status, refusal))
        if status in WRITTEN:
            assert decision is not None
            given = decision.feedback
            if given is None or not (request.revise or request.withdraw):
                assert word is not None
                add_feedback(submission, info, decision, now, "caller", word, is_late=status == "late")
                continue
            content = NOTHING if word is None else {**word._asdict(), "right": int(word.right)}
            given.revision = RevisionRow(0, info.number, given.row.seq, now, **content)
            submission.revisions.append(given)
    return outcomes


def add_feedback(
    submission: Submission,
    info: TaskInfo,
    decision: CachedDecision,
    now: float,
    source: str,
    word: LatestFeedback,
    is_late: bool = False,
) -> None:
    """Note the first feedback of a decision on it, and add its row to `submission`."""
    row = FeedbackRow(
        seq=0,
        task=info.number,
        decision=decision.record.seq,
        time=now,
        source=source,
        right=int(word.right),
        late=int(is_late),
        learn=int(info.mode != "log-only" and not is_late),
        shown=word.shown,
        shown_propensity=word.shown_propensity,
        reward=word.reward,
        truth=word.truth,
    )
    given = CachedFeedback(decision, row)
    if is_late:
        decision.late = given
    else:
        decision.counted = given
    submission.feedback.append(given)


def submit_feedback(core: ServingCore, served: ServedTask, submission: Submission) -> None:
    """Submit feedback that is already noted on its cached decisions; drop these if the write fails.

    If it is unknown whether the write succeeded, the next caller finds the truth in the log.
    """
    decisions = list[CachedDecision]()
    for given in (*submission.feedback, *submission.revisions):
        given.decision.feedback_ticket = submission
        decisions.append(given.decision)
    # A batch may be larger than the cache, which must hold all decisions with pending feedback.
    core.cache.add(decisions)

    def finish() -> None:
        """Clean up when the rows are written or have failed, even if the caller no longer waits."""
        for decision in decisions:
            if decision.feedback_ticket is submission:
                decision.feedback_ticket = None
        if submission.error is not None:
            core.cache.remove(served.info.number, [decision.record.id for decision in decisions])
        else:
            served.last_feedback = max(served.last_feedback, submission.last)

    submission.add_done_callback(finish)
    core.submit(submission)


def find_decisions(core: ServingCore, served: ServedTask, ids: list[str]) -> Plan[dict[str, CachedDecision | None]]:
    """Return decisions by id, from the cache or the log; None for unknown ids.

    Others get a turn while a long list is looked up.
    """
    info, task, cache = served.info, served.info.number, core.cache
    decisions, unread = dict[str, CachedDecision | None](), list[str]()
    for identity in ids:
        cached = cache.get(task, identity)
        if cached is None:
            unread.append(identity)
        else:
            decisions[identity] = cached
    remembered = list(decisions)
    if not unread:
        return decisions
    while unread:
        for start in range(0, len(unread), AT_ONCE):
            if start:
                yield Turn()
            chunk = unread[start : start + AT_ONCE]
            logged: dict[str, CachedDecision] = yield LookUp(
                lambda reader, chunk=chunk: look_up(info, chunk, reader, core.clock)  # type: ignore[misc]
            )
            cache.add(decision for identity, decision in logged.items() if cache.get(task, identity) is None)
            decisions |= logged
        # Decisions that could not be written meanwhile have left the cache.
        unread = [identity for identity in remembered if cache.get(task, identity) is None]
        for identity in unread:
            del decisions[identity]
        remembered = []
    # Others may have cached the same decision meanwhile; use that one entry.
    return {identity: cache.get(task, identity) or decisions.get(identity) for identity in ids}


def _rests_on_log(requests: Sequence[FeedbackRequest], decisions: DecisionsById) -> bool:
    """Return True if an outcome depends on feedback that other nodes may have given since it was cached.

    A first answer does not: whether it is the first is checked again when it is written.
    """
    pairs = ((request, decisions[request.id]) for request in requests)
    return any(
        decision is not None and (request.withdraw or decision.feedback is not None) for request, decision in pairs
    )


def look_up(info: TaskInfo, ids: Sequence[str], reader: Reader, clock: Clock) -> dict[str, CachedDecision]:
    """Return the decisions of these ids in the log, with their feedback."""
    decisions: dict[str, CachedDecision] = {}
    for match in reader.find_decisions(info, ids):
        head = match.decision
        decision = decisions.get(head.id)
        if decision is None:
            head = head._replace(time=clock.date_row(head.seq, head.time))
            decision = decisions[head.id] = CachedDecision(head)
        if match.feedback is None:
            continue
        row = match.feedback._replace(time=clock.date_row(match.feedback.seq, match.feedback.time))
        given = CachedFeedback(decision, row, match.revision)
        if row.late:
            decision.late = given
        else:
            decision.counted = given
    return decisions


def parse_feedback(served: ServedTask, request: FeedbackRequest, where: str) -> LatestFeedback | None:
    """Return validated feedback with class indices; None for a withdrawal.

    For feedback by truth, `right` is not known yet: it depends on what was played.
    """
    if request.withdraw:
        fields = {name: field for name, field in FeedbackRequest.model_fields.items() if name not in ("id", "withdraw")}
        given = [name for name, field in fields.items() if getattr(request, name) is not field.default]
        if given:
            raise InvalidError(
                f"{where}{given[0]} cannot be given together with withdraw",
                f"{where}{given[0]}",
            )
        return None
    if (request.right is not None) + (request.reward is not None) + (request.truth is not None) != 1:
        given = [name for name in ANSWERS if getattr(request, name) is not None]
        if not given:
            raise InvalidError(f"{where}right, reward or truth is missing: give one of them", f"{where}right")
        raise InvalidError(
            f"{where}{given[1]} cannot be given together with {given[0]}: give one of right, reward and truth",
            f"{where}{given[1]}",
        )
    reward = None
    if request.reward is not None:
        try:
            reward = check_reward(request.reward)
        except OnebitError as error:
            raise InvalidError(f"{where}{error}", f"{where}reward") from None
    right = reward == 1.0 if request.right is None else request.right
    truth = None if request.truth is None else served.find_class(request.truth, "truth", where)
    shown = None if request.shown is None else served.find_class(request.shown, "shown", where)
    propensity = None if shown is None else request.shown_propensity or 1.0
    return LatestFeedback(right, shown, propensity, reward, truth)


def _refuse_repeated(requests: Sequence[FeedbackRequest]) -> None:
    """Raise InvalidError if a decision is revised or withdrawn and occurs more than once."""
    times = Counter(request.id for request in requests)
    for index, request in enumerate(requests):
        if (request.revise or request.withdraw) and times[request.id] > 1:
            raise InvalidError(
                f"[{index}].id is {request.id!r}, which occurs more than once: one request can revise or withdraw a feedback only once",
                f"[{index}].id",
            )


def _match_decision(
    info: TaskInfo, request: FeedbackRequest, word: LatestFeedback, record: DecisionRow | DecisionHead, where: str
) -> LatestFeedback:
    """Return the feedback with `right` derived from its truth; raise InvalidError if it does not fit."""
    if record.mode == "shadow" and request.shown is None:
        raise InvalidError(
            f"{where}shown is missing: the decision was made in shadow mode, so say what was shown", f"{where}shown"
        )
    if record.mode != "shadow" and (request.shown is not None or request.shown_propensity is not None):
        raise InvalidError(
            f"{where}shown is for decisions made in shadow mode, but decision {request.id!r} was made in mode {record.mode}",
            f"{where}shown",
        )
    if word.truth is None:
        return word
    played = record.label if word.shown is None else word.shown
    candidates = None if record.among is None else decode_indices(record.among)
    # If what was shown is not a candidate here, it is unknown from which candidates it was chosen.
    if candidates is not None and played in candidates and word.truth not in candidates:
        offered = join_names([info.classes[index] for index in candidates])
        raise InvalidError(
            f"{where}truth is {request.truth!r}, but the candidates of decision {request.id!r} were {offered}",
            f"{where}truth",
        )
    return word._replace(right=played == word.truth)


def judge(
    info: TaskInfo, request: FeedbackRequest, word: LatestFeedback | None, decision: CachedDecision | None, now: float
) -> tuple[Status, str]:
    """Return the status of a feedback, and a message if it is refused."""
    if decision is None:
        return "unknown", f"there is no decision {request.id!r} in task {info.name!r}"
    given = decision.feedback
    if request.withdraw and given is None:
        return "conflict", f"decision {request.id!r} has no feedback to withdraw"
    if given is not None and (request.revise or request.withdraw):
        if given.word == word and not given.by_silence:
            return "duplicate", ""
        if 0 < given.row.seq <= info.base:
            return "conflict", (
                f"the feedback on decision {request.id!r} is in row {given.row.seq}, and what was learnt up to row {info.base} was kept when decisions "
                "were forgotten: it can no longer be revised or withdrawn"
            )
        if info.revise_within is not None and now > given.row.time + info.revise_within:
            return "conflict", (
                f"decision {request.id!r} got its feedback {now - given.row.time:.0f} s ago, but in task {info.name!r} feedback can be "
                f"revised or withdrawn only for {info.revise_within:g} s (revise_within)"
            )
        # Late feedback stays late, even if revised.
        return ("withdrawn" if word is None else "late" if given is decision.late else "revised"), ""
    # The first answer counts, even if it is late.
    earlier = decision.late if decision.counted is None or decision.counted.by_silence else decision.counted
    if earlier is None:
        past = info.deadline_s is not None and now > decision.record.time + info.deadline_s
        return ("late" if past or decision.counted is not None else "accepted"), ""
    if earlier.word is None:
        return (
            "conflict",
            f"the feedback on decision {request.id!r} was withdrawn: give revise to replace it",
        )
    assert word is not None
    if earlier.word.says(word):
        return "duplicate", ""
    return "conflict", (
        f"decision {request.id!r} was already reported as {_describe_feedback(earlier.word, info)}, and the first feedback counts: give revise to replace it"
    )


def _describe_feedback(word: LatestFeedback, info: TaskInfo) -> str:
    """Describe feedback in words."""
    if word.reward is not None:
        return f"worth {word.reward:g}"
    truth = "" if word.truth is None else f" (truth {info.classes[word.truth]!r})"
    return f"{'right' if word.right else 'wrong'}{truth}"


def refuse_forgotten(reader: Reader, info: TaskInfo, ids: Sequence[str]) -> None:
    """Raise GoneError for forgotten decisions: they take no feedback, and their ids are never reused."""
    now = reader.task(info.number, NO_END)  # another node may just have forgotten them
    for identity in [] if now is None else reader.forgotten(now, ids):
        raise GoneError(f"decision {identity!r} of task {info.name!r} was forgotten", "id")
