"""What is said of decisions, judged: whether it is new, a second thought, too late or a contradiction, and the rows that say so in the log.

Nothing here waits for anything. Whoever asks has the decisions, and sees to it that nobody comes in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from onebit.contract.validation import ClassName, join_names
from onebit.errors import OnebitError
from onebit.learner.feedback import check_reward
from onebit.service.core.served_task import ServedTask
from onebit.service.errors import ConflictError, GoneError, InvalidError, NotFoundError
from onebit.service.inputs import decode_indices
from onebit.service.requests import FeedbackRequest
from onebit.service.store.cache import CachedDecision, GivenFeedback, Word
from onebit.service.store.clock import Clock
from onebit.service.store.reader import Reader
from onebit.service.store.row_checks import BadRecordError
from onebit.service.store.rows import DecisionHead, DecisionRow, FeedbackRow, RevisionRow
from onebit.service.store.submission import Assumptions, Revision, Submission
from onebit.service.task import TaskInfo

SWEPT = 256  # decisions whose deadline is looked at in one go
JUST_RIGHT = True, False, False  # of right, reward and truth, which are there
WRITTEN = ("accepted", "late", "revised", "withdrawn")
ANSWERS = ("right", "reward", "truth")  # of which a feedback has one
SAID = {
    **dict.fromkeys(ANSWERS),
    "revise": False,
    "shown": None,
    "shown_propensity": None,
}  # fields that a withdrawal has not, and leaves so


NOTHING: dict[str, Any] = dict.fromkeys(Word._fields)  # what a withdrawal says


class FeedbackSubmission(Submission):
    """What is to be written of feedback, and the decisions that it is of, by id."""

    __slots__ = ("about",)

    def __init__(self, task: int, assumptions: Assumptions) -> None:
        super().__init__(task, assumptions)
        self.about: dict[str, CachedDecision] = {}

    def note(
        self,
        info: TaskInfo,
        request: FeedbackRequest,
        word: Word | None,
        decision: CachedDecision,
        status: str,
        now: float,
    ) -> None:
        """Note with a decision what is said of it now, and what is to be written."""
        self.about[request.id] = decision
        given = decision.feedback
        if given is not None and (request.revise or request.withdraw):
            given.word, given.by_silence = word, False
            said = NOTHING if word is None else {**word._asdict(), "right": int(word.right)}
            self.revisions.append(Revision(RevisionRow(0, info.number, given.seq, now, **said), given))
            return
        assert word is not None
        self._add(info, decision, now, "caller", word, status == "late")

    def note_silence(
        self, info: TaskInfo, due: Sequence[DecisionHead], known: Mapping[str, CachedDecision | None], now: float
    ) -> int:
        """Note what silence means for decisions whose deadline has passed; return up to which of them that was done."""
        word, swept = Word(info.silence == "right"), 0
        for one in due:
            decision = known[one.id]
            if decision is None:
                raise BadRecordError(info.name, "decisions", one.seq, f"it cannot be found by its id {one.id!r}")
            if decision.feedback_ticket is not None:
                break  # somebody is answering at this moment; look again
            swept = one.seq
            if decision.counted is None and one.mode != "shadow":  # what was shown in its place nobody knows
                self.about[one.id] = decision
                self._add(info, decision, now, "silence", word, False)
        return swept

    def _add(self, info: TaskInfo, decision: CachedDecision, now: float, source: str, word: Word, late: bool) -> None:
        given = GivenFeedback(decision, 0, now, source == "silence", word)
        given.row = FeedbackRow(
            seq=0,
            task=info.number,
            decision=decision.record.seq,
            time=now,
            source=source,
            right=int(word.right),
            late=int(late),
            learn=int(info.mode != "log-only" and not late),
            shown=word.shown,
            shown_propensity=word.shown_propensity,
            reward=word.reward,
            truth=word.truth,
        )
        if late:
            decision.late = given
        else:
            decision.counted = given
        self.feedback.append(given)


def look_up(info: TaskInfo, ids: Sequence[str], reader: Reader, clock: Clock) -> dict[str, CachedDecision]:
    """Return what the log has to say of decisions."""
    found: dict[str, CachedDecision] = {}
    for one in reader.found(info, ids):
        head = one.decision
        decision = found.get(head.id)
        if decision is None:
            head = head._replace(time=clock.made(head.seq, head.time))
            decision = found[head.id] = CachedDecision(head)
        if one.feedback is None or one.feedback_time is None:
            continue
        said = (one.shown, one.shown_propensity, one.reward, one.truth)
        word = None if one.right is None else Word(bool(one.right), *said)
        by_silence = one.source == "silence" and one.revision is None
        given = GivenFeedback(decision, one.feedback, clock.made(one.feedback, one.feedback_time), by_silence, word)
        if one.late:
            decision.late = given
        else:
            decision.counted = given
    return found


def awaits_silence(info: TaskInfo) -> bool:
    """Whether silence means something when the deadline of a decision has passed."""
    return info.deadline_s is not None and info.silence != "nothing" and info.deleted is None


def compare_truth(
    info: TaskInfo, request: FeedbackRequest, word: Word, record: DecisionRow | DecisionHead, where: str
) -> Word:
    """Return a word that names the class that would have been right, with whether what was played is that."""
    played = record.label if word.shown is None else word.shown
    candidates = None if record.among is None else decode_indices(record.among)
    # Where something else was shown than could be played here, nobody knows among which it was chosen.
    if candidates is not None and played in candidates and word.truth not in candidates:
        offered = join_names([info.classes[place] for place in candidates])
        raise InvalidError(
            f"{where}truth is {request.truth!r}, but the candidates of decision {request.id!r} were {offered}",
            f"{where}truth",
        )
    return word._replace(right=played == word.truth)


def refuse_alone(status: str, message: str, request: FeedbackRequest) -> None:
    """Refuse what is unknown, or contradicts what was said, where it is all that was said: in a list that is an answer."""
    if status == "unknown":
        raise NotFoundError(message, "id")
    if status == "conflict":
        raise ConflictError(message, _answer_of(request) or "withdraw")


def refuse_forgotten(reader: Reader, info: TaskInfo, ids: Sequence[str]) -> None:
    """Refuse ids of decisions that were forgotten: nothing can be said of them any more, and they are not used again."""
    for one in reader.forgotten(info, ids):
        raise GoneError(f"decision {one!r} of task {info.name!r} was forgotten", "id")


def judge(
    info: TaskInfo, request: FeedbackRequest, word: Word | None, decision: CachedDecision | None, now: float
) -> tuple[str, str]:
    """Return what becomes of a feedback, and a sentence where it is refused."""
    if decision is None:
        return "unknown", f"there is no decision {request.id!r} in task {info.name!r}"
    given = decision.feedback
    if request.withdraw and given is None:
        return "conflict", f"decision {request.id!r} has no feedback that could be withdrawn"
    if given is not None and (request.revise or request.withdraw):
        if given.word == word and not given.by_silence:
            return "duplicate", ""
        if 0 < given.seq <= info.base:
            return "conflict", (
                f"the answer to decision {request.id!r} is in row {given.seq}, and what was learnt up to row {info.base} was kept when rows before that were "
                "forgotten: it cannot be revised or withdrawn any more"
            )
        if info.revise_within is not None and now > given.time + info.revise_within:
            return "conflict", (
                f"decision {request.id!r} was answered {now - given.time:.0f} s ago, and in task {info.name!r} an answer can be "
                f"revised or withdrawn for {info.revise_within:g} s (revise_within)"
            )
        # What came too late stays so, whatever it says.
        return ("withdrawn" if word is None else "late" if given is decision.late else "revised"), ""
    # The first answer counts, also where it came too late.
    said = decision.late if decision.counted is None or decision.counted.by_silence else decision.counted
    if said is None:
        past = info.deadline_s is not None and now > decision.record.time + info.deadline_s
        return ("late" if past or decision.counted is not None else "accepted"), ""
    if said.word is None:
        return (
            "conflict",
            f"the feedback of decision {request.id!r} was withdrawn: give revise, to say something in its place",
        )
    assert word is not None
    if said.word.says(word):
        return "duplicate", ""
    return "conflict", (
        f"decision {request.id!r} was said to be {_meaning(said.word, info)} before, and the first answer counts unless it is revised: give revise"
    )


def _meaning(word: Word, info: TaskInfo) -> str:
    """What a word says, in a sentence."""
    if word.reward is not None:
        return f"worth {word.reward:g}"
    named = "" if word.truth is None else f", with {info.classes[word.truth]!r} for its truth,"
    return f"{'right' if word.right else 'wrong'}{named}"


def _answer_of(request: FeedbackRequest) -> str | None:
    """The field that has the answer; None where there is none."""
    return next((name for name in ANSWERS if getattr(request, name) is not None), None)


def refuse_mixed(requests: Sequence[FeedbackRequest], single: bool) -> None:
    """Refuse what says two things at once: a withdrawal that says something, and one decision twice with a second thought."""
    times = Counter(request.id for request in requests) if len(requests) > 1 else {}
    for index, request in enumerate(requests):
        answers = request.right is not None, request.reward is not None, request.truth is not None
        if answers == JUST_RIGHT and not request.revise and not request.withdraw:  # as most are
            continue
        where = "" if single else f"[{index}]."
        if request.withdraw:
            said = [name for name, nothing in SAID.items() if getattr(request, name) is not nothing]
            if said:
                raise InvalidError(
                    f"{where}{said[0]} is there, and withdraw too: a feedback that is withdrawn says nothing",
                    f"{where}{said[0]}",
                )
        else:
            given = [name for name in ANSWERS if getattr(request, name) is not None]
            if not given:
                raise InvalidError(f"{where}right is missing, or a reward, or the truth", f"{where}right")
            if len(given) > 1:
                raise InvalidError(
                    f"{where}{given[1]} is there, and {given[0]} too: give one of right, reward and truth",
                    f"{where}{given[1]}",
                )
        if (request.revise or request.withdraw) and times.get(request.id, 1) > 1:
            raise InvalidError(
                f"{where}id is {request.id!r}, which is there more than once: what is revised or withdrawn may be there once",
                f"{where}id",
            )


def parse_word(served: ServedTask, request: FeedbackRequest, where: str) -> Word | None:
    """Return what is said, in numbers; None where something is withdrawn. Whether a truth is what was played is not known here."""
    if request.withdraw:
        return None
    reward = None
    if request.reward is not None:
        try:
            reward = check_reward(request.reward)
        except OnebitError as error:
            raise InvalidError(f"{where}{error}", f"{where}reward") from None
    right = reward == 1.0 if request.right is None else request.right
    truth = None if request.truth is None else _class(served, "truth", request.truth, where)
    shown = None if request.shown is None else _class(served, "shown", request.shown, where)
    propensity = None if shown is None else request.shown_propensity or 1.0
    return Word(right, shown, propensity, reward, truth)


def _class(served: ServedTask, field: str, name: ClassName, where: str) -> int:
    """The place of a class that is named."""
    place = served.class_indices.get(name)
    if place is None:
        raise InvalidError(
            f"{where}{field} is {name!r}, but the classes are {join_names(served.info.classes)}", f"{where}{field}"
        )
    return place


def refuse_shown(mode: str, request: FeedbackRequest, where: str) -> None:
    """What was shown is said of decisions made in shadow mode, and of no others."""
    if mode == "shadow" and request.shown is None:
        raise InvalidError(
            f"{where}shown is missing: the decision was made in shadow mode, so say what was shown", f"{where}shown"
        )
    if mode != "shadow" and (request.shown is not None or request.shown_propensity is not None):
        raise InvalidError(
            f"{where}shown is for decisions made in shadow mode, and decision {request.id!r} was made in mode {mode}",
            f"{where}shown",
        )
