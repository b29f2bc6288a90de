"""Feedback: right or wrong for decisions, once each; second thoughts; and what silence means when the deadline has passed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from onebit.errors import OnebitError
from onebit.feedback import checked_reward
from onebit.serve.clock import Clock
from onebit.serve.errors import ConflictError, InvalidError, NotFoundError
from onebit.serve.inputs import classes_in
from onebit.serve.log.checks import BadRecordError, Expected
from onebit.serve.log.reading import Reader
from onebit.serve.log.writing import Writer
from onebit.serve.recent import NOTHING, Entry, Place, Recent, Word, settled
from onebit.serve.schemas import FeedbackRequest
from onebit.serve.served_task import ServedTask
from onebit.serve.tasks import TaskInfo
from onebit.validation import ClassName, listed

AT_ONCE = 256  # ids that are looked up before others get a turn
SWEPT = AT_ONCE  # decisions that are looked at in one go
WRITTEN = ("accepted", "late", "revised", "withdrawn")
ANSWERS = ("right", "reward", "truth")  # of which a feedback has one
SAID = {
    **dict.fromkeys(ANSWERS),
    "revise": False,
    "shown": None,
    "shown_propensity": None,
}  # fields that a withdrawal has not, and leaves so


class Noted(NamedTuple):
    """What is to be written of requests, and of which decisions: rows of feedback and of revisions, and the places of the former."""

    feedback: list[tuple[Any, ...]]
    revisions: list[tuple[Any, ...]]
    places: list[Place]  # of the rows of feedback, whose seq is not known yet
    entries: dict[str, Entry]  # by id

    @classmethod
    def nothing(cls) -> Noted:
        """Nothing yet."""
        return cls([], [], [], {})


class FeedbackHandler:
    """Takes feedback for all tasks, on one event loop."""

    def __init__(self, writer: Writer, reader: Reader, recent: Recent, clock: Clock) -> None:
        self._writer = writer
        self._reader = reader
        self._recent = recent
        self._clock = clock

    async def record(
        self, served: ServedTask, requests: Sequence[FeedbackRequest], single: bool
    ) -> list[dict[str, Any]]:
        """Record what is said of decisions. A single request that is unknown or contradicts an earlier one is refused."""
        _refuse_mixed(requests, single)
        words = [_word(served, request, "" if single else f"[{index}].") for index, request in enumerate(requests)]
        named = any(request.truth is not None for request in requests)
        while True:
            found = await self._entries(served.info, list(dict.fromkeys(request.id for request in requests)))
            if any(entry is not None and (entry.writing or entry.feedback_write) for entry in found.values()):
                await settled(entry for entry in found.values() if entry is not None)
            elif named:  # which needs the decisions that are on disk, and others may come in between
                await self._compare_truths(served, requests, words, single)
                named = False
            else:
                break
        entries = [found[request.id] for request in requests]
        # From here to the writer nothing is awaited, so that nobody comes in between.
        for index, (request, entry) in enumerate(zip(requests, entries, strict=True)):
            if entry is not None and not request.withdraw:
                _refuse_shown(entry.mode, request, "" if single else f"[{index}].")
        now = self._clock.now()
        heard, answers = Noted.nothing(), []
        for request, entry, word in zip(requests, entries, words, strict=True):
            status, message = _judged(served, request, word, entry, now)
            if single and status == "unknown":
                raise NotFoundError(message, "id")
            if single and status == "conflict":
                raise ConflictError(message, _answer_of(request) or "withdraw")
            answers.append({"id": request.id, "status": status} | ({"message": message} if message else {}))
            if status in WRITTEN:
                assert entry is not None
                self._note(served.info, heard, request, word, entry, status, now)
        if heard.entries:
            await self._write(served, heard)
        return answers

    async def _compare_truths(
        self, served: ServedTask, requests: Sequence[FeedbackRequest], words: list[Word | None], single: bool
    ) -> None:
        """Say in the words that name the class that would have been right whether what was played is that."""
        named: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            if request.truth is not None:
                named.setdefault(request.id, []).append(index)
        ids = list(named)
        for start in range(0, len(ids), AT_ONCE):
            if start:
                await asyncio.sleep(0)  # others get a turn
            for identity, label, among in self._reader.offers(served.info, ids[start : start + AT_ONCE]):
                for index in named[identity]:
                    word = words[index]
                    assert word is not None
                    played = label if word.shown is None else word.shown
                    candidates = None if among is None else classes_in(among)
                    # Where something else was shown than could be played here, nobody knows among which it was chosen.
                    if candidates is not None and played in candidates and word.truth not in candidates:
                        where = "" if single else f"[{index}]."
                        offered = listed([served.info.classes[place] for place in candidates])
                        raise InvalidError(
                            f"{where}truth is {requests[index].truth!r}, but the candidates of decision {identity!r} were {offered}",
                            f"{where}truth",
                        )
                    words[index] = word._replace(right=played == word.truth)

    @staticmethod
    def _note(
        info: TaskInfo, heard: Noted, request: FeedbackRequest, word: Word | None, entry: Entry, status: str, now: float
    ) -> None:
        """Note in the entry of a decision what is said of it now, and what is to be written."""
        heard.entries[request.id] = entry
        place = entry.place
        if place is not None and (request.revise or request.withdraw):
            place.word, place.by_silence = word, False
            heard.revisions.append((info.number, place.seq, now, *(NOTHING if word is None else word.row)))
            return
        assert word is not None
        late = status == "late"
        place = Place(0, now, False, word)
        if late:
            entry.late = place
        else:
            entry.counted = place
        heard.places.append(place)
        learn = info.mode != "log-only" and not late
        right, *rest = word.row
        heard.feedback.append((info.number, entry.seq, now, "caller", right, int(late), int(learn), *rest))

    async def _write(self, served: ServedTask, heard: Noted) -> None:
        """Write what is noted in its entries already; if it cannot be written, they are forgotten.

        Whether it was written may be unknown; the next who asks finds in the log what is there.
        """
        parts = {table: rows for table, rows in (("feedback", heard.feedback), ("revisions", heard.revisions)) if rows}
        futures = self._writer.submit_together(parts)
        written = list(futures.values())[-1]  # all are there, or none is
        for entry in heard.entries.values():
            entry.feedback_write = written
        # A batch may be larger than what is remembered, and what is under way must be.
        self._recent.add_all(served.info.number, heard.entries, heard.entries.values())

        def settle(future: asyncio.Future[int]) -> None:
            """The rows are on disk, or will never be; also where whoever told does not wait any more."""
            for entry in heard.entries.values():
                entry.feedback_write = None
            if future.cancelled() or future.exception() is not None:
                self._recent.remove_all(served.info.number, heard.entries)
                return
            if heard.places:
                for seq, place in enumerate(heard.places, futures["feedback"].result()):
                    place.seq = seq
            served.written += len(heard.feedback) + len(heard.revisions)

        written.add_done_callback(settle)
        await asyncio.shield(written)

    async def _entries(self, info: TaskInfo, ids: list[str]) -> dict[str, Entry | None]:
        """What is known of decisions, from memory or from the log. While a long list is looked up, others get a turn."""
        task = info.number
        found = {identity: entry for identity in ids if (entry := self._recent.get(task, identity)) is not None}
        remembered, unknown = list(found), [identity for identity in ids if identity not in found]
        for start in range(0, len(unknown), AT_ONCE):
            if start:
                await asyncio.sleep(0)
            found |= self._looked_up(info.expected, unknown[start : start + AT_ONCE])
        # What could not be written meanwhile is not remembered any more.
        if forgotten := [identity for identity in remembered if self._recent.get(task, identity) is None]:
            found |= self._looked_up(info.expected, forgotten)
        # Others may have come upon the same decision meanwhile, and a decision has one entry.
        return {identity: self._recent.get(task, identity) or found.get(identity) for identity in ids}

    def _looked_up(self, of: Expected, ids: list[str]) -> dict[str, Entry]:
        """Decisions that the log has, and memory has not."""
        task, found = of.task, dict[str, Entry]()
        for seq, identity, when, mode, first, heard_at, late, source, revision, right, *rest in self._reader.found(
            of, ids
        ):
            entry = found.setdefault(identity, Entry(seq, self._clock.made(seq, when), mode))
            if first is None:
                continue
            word = None if right is None else Word(bool(right), *rest)
            place = Place(first, self._clock.made(first, heard_at), source == "silence" and revision is None, word)
            if late:
                entry.late = place
            else:
                entry.counted = place
        fresh = {identity: entry for identity, entry in found.items() if self._recent.get(task, identity) is None}
        self._recent.add_all(task, fresh, fresh.values())
        return found

    async def sweep(self, served: ServedTask) -> bool:
        """Answer for those who were silent until the deadline; whether there may be more."""
        info = served.info
        if info.deadline_s is None or info.silence == "nothing" or info.deleted is not None:
            return False
        now = self._clock.now()
        due = self._reader.due(info.expected, served.swept, now - info.deadline_s, SWEPT, self._clock.made)
        if not due:
            return False
        word, learn = Word(info.silence == "right"), int(info.mode != "log-only")
        heard = Noted.nothing()
        swept = served.swept
        known = await self._entries(info, [identity for _, identity, _ in due])
        for seq, identity, mode in due:
            entry = known[identity]
            if entry is None:
                raise BadRecordError(info.name, "decisions", seq, f"it cannot be found by its id {identity!r}")
            if entry.feedback_write is not None:
                break  # somebody is answering at this moment; look again
            swept = seq
            if entry.counted is None and mode != "shadow":  # what was shown in its place nobody knows
                entry.counted = Place(0, now, True, word)
                heard.entries[identity] = entry
                heard.places.append(entry.counted)
                right, *rest = word.row
                heard.feedback.append((info.number, seq, now, "silence", right, 0, learn, *rest))
        if heard.entries:
            await self._write(served, heard)
        served.swept = max(served.swept, swept)
        return len(due) == SWEPT


def _judged(
    served: ServedTask, request: FeedbackRequest, word: Word | None, entry: Entry | None, now: float
) -> tuple[str, str]:
    """What becomes of a feedback, and a sentence where it is refused."""
    info = served.info
    if entry is None:
        return "unknown", f"there is no decision {request.id!r} in task {info.name!r}"
    place = entry.place
    if request.withdraw and place is None:
        return "conflict", f"decision {request.id!r} has no feedback that could be withdrawn"
    if place is not None and (request.revise or request.withdraw):
        if place.word == word and not place.by_silence:
            return "duplicate", ""
        if info.revise_within is not None and now > place.time + info.revise_within:
            return "conflict", (
                f"decision {request.id!r} was answered {now - place.time:.0f} s ago, and in task {info.name!r} an answer can be "
                f"revised or withdrawn for {info.revise_within:g} s (revise_within)"
            )
        # What came too late stays so, whatever it says.
        return ("withdrawn" if word is None else "late" if place is entry.late else "revised"), ""
    # The first answer counts, also where it came too late.
    said = entry.late if entry.counted is None or entry.counted.by_silence else entry.counted
    if said is None:
        past = info.deadline_s is not None and now > entry.time + info.deadline_s
        return ("late" if past or entry.counted is not None else "accepted"), ""
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


def _refuse_mixed(requests: Sequence[FeedbackRequest], single: bool) -> None:
    """Refuse what says two things at once: a withdrawal that says something, and one decision twice with a second thought."""
    times = Counter(request.id for request in requests)
    for index, request in enumerate(requests):
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
        if times[request.id] > 1 and (request.revise or request.withdraw):
            raise InvalidError(
                f"{where}id is {request.id!r}, which is there more than once: what is revised or withdrawn may be there once",
                f"{where}id",
            )


def _word(served: ServedTask, request: FeedbackRequest, where: str) -> Word | None:
    """What is said, in numbers; None where something is withdrawn. Whether a truth is what was played is not known here."""
    if request.withdraw:
        return None
    reward = None
    if request.reward is not None:
        try:
            reward = checked_reward(request.reward)
        except OnebitError as error:
            raise InvalidError(f"{where}{error}", f"{where}reward") from None
    right = reward == 1.0 if request.right is None else request.right
    truth, shown = (_class(served, name, getattr(request, name), where) for name in ("truth", "shown"))
    propensity = None if shown is None else request.shown_propensity or 1.0
    return Word(right, shown, propensity, reward, truth)


def _class(served: ServedTask, field: str, name: ClassName | None, where: str) -> int | None:
    """The place of a class that is named."""
    if name is None:
        return None
    place = served.class_indices.get(name)
    if place is None:
        raise InvalidError(
            f"{where}{field} is {name!r}, but the classes are {listed(served.info.classes)}", f"{where}{field}"
        )
    return place


def _refuse_shown(mode: str, request: FeedbackRequest, where: str) -> None:
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
