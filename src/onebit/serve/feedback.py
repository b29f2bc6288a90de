"""Feedback: right or wrong for decisions, once each; and what silence means when the deadline has passed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from onebit.serve.clock import Clock
from onebit.serve.errors import ConflictError, InvalidError, NotFoundError
from onebit.serve.log.checks import BadRecordError, Expected
from onebit.serve.log.reading import Reader
from onebit.serve.log.writing import Writer
from onebit.serve.recent import Entry, Recent, settled
from onebit.serve.schemas import FeedbackRequest
from onebit.serve.served_task import ServedTask
from onebit.serve.tasks import TaskInfo
from onebit.validation import listed

AT_ONCE = 256  # ids that are looked up before others get a turn
SWEPT = AT_ONCE  # decisions that are looked at in one go


class Touched(NamedTuple):
    """A decision whose answer is being written."""

    id: str
    entry: Entry


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
        """Record whether decisions were right. A single request that is unknown or contradicts an earlier one is refused."""
        shown = [
            self._shown_label(served, request, "" if single else f"[{index}].")
            for index, request in enumerate(requests)
        ]
        while True:
            found = await self._entries(served.info, list(dict.fromkeys(request.id for request in requests)))
            if not any(entry is not None and (entry.writing or entry.feedback_write) for entry in found.values()):
                break
            await settled(entry for entry in found.values() if entry is not None)
        entries = [found[request.id] for request in requests]
        # From here to the writer nothing is awaited, so that nobody comes in between.
        for index, (request, entry) in enumerate(zip(requests, entries, strict=True)):
            if entry is not None:
                _refuse_shown(entry.mode, request, "" if single else f"[{index}].")
        now, learn = self._clock.now(), served.info.mode != "log-only"
        rows: list[tuple[Any, ...]] = []
        touched: list[Touched] = []
        answers = []
        for request, entry, label in zip(requests, entries, shown, strict=True):
            status, message = self._judged(served, request, entry, now)
            if single and status == "unknown":
                raise NotFoundError(message, "id")
            if single and status == "conflict":
                raise ConflictError(message, "right")
            answers.append({"id": request.id, "status": status} | ({"message": message} if message else {}))
            if status in ("accepted", "late"):
                assert entry is not None
                late = status == "late"
                touched.append(Touched(request.id, entry))
                if late:
                    entry.late_right = request.right
                else:
                    entry.right = request.right
                propensity = None if label is None else request.shown_propensity or 1.0
                rows.append(
                    (
                        *(served.info.number, entry.seq, now, "caller", int(request.right), int(late)),
                        *(int(learn and not late), label, propensity),
                    )
                )
        if rows:
            await self._write_feedback(served, rows, touched)
        return answers

    async def _write_feedback(self, served: ServedTask, rows: list[tuple[Any, ...]], touched: list[Touched]) -> None:
        """Write feedback that is noted in its entries already; if it cannot be written, they are forgotten.

        Whether it was written may be unknown; the next who asks finds in the log what is there.
        """
        written = self._writer.submit("feedback", rows)
        for one in touched:
            one.entry.feedback_write = written
        # A batch may be larger than what is remembered, and what is under way must be.
        self._recent.add_all(served.info.number, [one.id for one in touched], [one.entry for one in touched])

        def settle(future: asyncio.Future[int]) -> None:
            """The rows are on disk, or will never be; also where whoever told does not wait any more."""
            for one in touched:
                one.entry.feedback_write = None
            if future.cancelled() or future.exception() is not None:
                self._recent.remove_all(served.info.number, [one.id for one in touched])
            else:
                served.written += len(rows)

        written.add_done_callback(settle)
        await asyncio.shield(written)

    def _judged(self, served: ServedTask, request: FeedbackRequest, entry: Entry | None, now: float) -> tuple[str, str]:
        """What becomes of a feedback, and a sentence where it is refused."""
        if entry is None:
            return "unknown", f"there is no decision {request.id!r} in task {served.info.name!r}"
        deadline = served.info.deadline_s
        past = deadline is not None and now > entry.time + deadline
        # The first answer counts, also where it came too late.
        before = entry.late_right if entry.right is None or entry.by_silence else entry.right
        if before is None:
            return ("late" if past or entry.by_silence else "accepted"), ""
        if before == request.right:
            return "duplicate", ""
        was = "right" if before else "wrong"
        return "conflict", f"decision {request.id!r} was said to be {was} before, and the first answer counts"

    def _shown_label(self, served: ServedTask, request: FeedbackRequest, where: str) -> int | None:
        if request.shown is None:
            return None
        if request.shown not in served.class_indices:
            raise InvalidError(
                f"{where}shown is {request.shown!r}, but the classes are {listed(served.info.classes)}", f"{where}shown"
            )
        return served.class_indices[request.shown]

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
        for seq, identity, when, mode, right, late, source in self._reader.found(of, ids):
            entry = found.setdefault(identity, Entry(seq, self._clock.made(seq, when), mode))
            if late:
                entry.late_right = bool(right)
            elif right is not None:
                entry.right, entry.by_silence = bool(right), source == "silence"
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
        right, learn = info.silence == "right", info.mode != "log-only"
        rows: list[tuple[Any, ...]] = []
        touched: list[Touched] = []
        swept = served.swept
        known = await self._entries(info, [identity for _, identity, _ in due])
        for seq, identity, mode in due:
            entry = known[identity]
            if entry is None:
                raise BadRecordError(info.name, "decisions", seq, f"it cannot be found by its id {identity!r}")
            if entry.feedback_write is not None:
                break  # somebody is answering at this moment; look again
            swept = seq
            if entry.right is None and mode != "shadow":  # what was shown in its place nobody knows
                entry.right, entry.by_silence = right, True
                touched.append(Touched(identity, entry))
                rows.append((info.number, seq, now, "silence", int(right), 0, int(learn), None, None))
        if rows:
            await self._write_feedback(served, rows, touched)
        served.swept = max(served.swept, swept)
        return len(due) == SWEPT


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
