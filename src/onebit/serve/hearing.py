"""Hearing: right or wrong for decisions, once each; and what silence means when the deadline has passed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from onebit.serve.clock import Clock
from onebit.serve.log.checks import BadRow, Expected
from onebit.serve.log.reading import Reader
from onebit.serve.log.writing import Writer
from onebit.serve.recent import Entry, Recent, settled
from onebit.serve.refusals import Conflict, Invalid, NotFound
from onebit.serve.running import Running
from onebit.serve.shapes import Hint
from onebit.serve.tasks import TaskInfo
from onebit.validation import listed

AT_ONCE = 256  # ids that are looked up before others get a turn
SWEPT = AT_ONCE  # decisions that are looked at in one go


class Touched(NamedTuple):
    """A decision whose answer is being written."""

    id: str
    entry: Entry


class Hearing:
    """Hears for all tasks, on one event loop."""

    def __init__(self, writer: Writer, reader: Reader, recent: Recent, clock: Clock) -> None:
        self._writer = writer
        self._reader = reader
        self._recent = recent
        self._clock = clock

    async def hear(self, running: Running, hints: Sequence[Hint], single: bool) -> list[dict[str, Any]]:
        """Hear whether decisions were right. A single hint that is unknown or contradicts an earlier one is refused."""
        shown = [self._shown_label(running, hint, "" if single else f"[{place}].") for place, hint in enumerate(hints)]
        while True:
            found = await self._entries(running.info, list(dict.fromkeys(hint.id for hint in hints)))
            if not any(entry is not None and (entry.writing or entry.hearing) for entry in found.values()):
                break
            await settled(entry for entry in found.values() if entry is not None)
        entries = [found[hint.id] for hint in hints]
        # From here to the writer nothing is awaited, so that nobody comes in between.
        for place, (hint, entry) in enumerate(zip(hints, entries, strict=True)):
            if entry is not None:
                _refuse_shown(entry.mode, hint, "" if single else f"[{place}].")
        now, learn = self._clock.now(), running.info.mode != "log-only"
        rows: list[tuple[Any, ...]] = []
        touched: list[Touched] = []
        answers = []
        for hint, entry, label in zip(hints, entries, shown, strict=True):
            status, message = self._judged(running, hint, entry, now)
            if single and status == "unknown":
                raise NotFound(message, "id")
            if single and status == "conflict":
                raise Conflict(message, "right")
            answers.append({"id": hint.id, "status": status} | ({"message": message} if message else {}))
            if status in ("accepted", "late"):
                assert entry is not None
                late = status == "late"
                touched.append(Touched(hint.id, entry))
                if late:
                    entry.late_right = hint.right
                else:
                    entry.right = hint.right
                propensity = None if label is None else hint.shown_propensity or 1.0
                rows.append(
                    (
                        *(running.info.number, entry.seq, now, "caller", int(hint.right), int(late)),
                        *(int(learn and not late), label, propensity),
                    )
                )
        if rows:
            await self._write_feedback(running, rows, touched)
        return answers

    async def _write_feedback(self, running: Running, rows: list[tuple[Any, ...]], touched: list[Touched]) -> None:
        """Write feedback that is noted in its entries already; if it cannot be written, they are forgotten.

        Whether it was written may be unknown; the next who asks finds in the log what is there.
        """
        written = self._writer.submit("feedback", rows)
        for one in touched:
            one.entry.hearing = written
        # A batch may be larger than what is remembered, and what is under way must be.
        self._recent.add_all(running.info.number, [one.id for one in touched], [one.entry for one in touched])

        def settle(future: asyncio.Future[int]) -> None:
            """The rows are on disk, or will never be; also where whoever told does not wait any more."""
            for one in touched:
                one.entry.hearing = None
            if future.cancelled() or future.exception() is not None:
                self._recent.remove_all(running.info.number, [one.id for one in touched])
            else:
                running.written += len(rows)

        written.add_done_callback(settle)
        await asyncio.shield(written)

    def _judged(self, running: Running, hint: Hint, entry: Entry | None, now: float) -> tuple[str, str]:
        """What becomes of a feedback, and a sentence where it is refused."""
        if entry is None:
            return "unknown", f"there is no decision {hint.id!r} in task {running.info.name!r}"
        deadline = running.info.deadline_s
        past = deadline is not None and now > entry.time + deadline
        # The first answer counts, also where it came too late.
        before = entry.late_right if entry.right is None or entry.by_silence else entry.right
        if before is None:
            return ("late" if past or entry.by_silence else "accepted"), ""
        if before == hint.right:
            return "duplicate", ""
        was = "right" if before else "wrong"
        return "conflict", f"decision {hint.id!r} was said to be {was} before, and the first answer counts"

    def _shown_label(self, running: Running, hint: Hint, where: str) -> int | None:
        if hint.shown is None:
            return None
        if hint.shown not in running.index:
            raise Invalid(
                f"{where}shown is {hint.shown!r}, but the classes are {listed(running.info.classes)}", f"{where}shown"
            )
        return running.index[hint.shown]

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

    async def sweep(self, running: Running) -> bool:
        """Answer for those who were silent until the deadline; whether there may be more."""
        info = running.info
        if info.deadline_s is None or info.silence == "nothing" or info.deleted is not None:
            return False
        now = self._clock.now()
        due = self._reader.due(info.expected, running.swept, now - info.deadline_s, SWEPT, self._clock.made)
        if not due:
            return False
        right, learn = info.silence == "right", info.mode != "log-only"
        rows: list[tuple[Any, ...]] = []
        touched: list[Touched] = []
        swept = running.swept
        known = await self._entries(info, [identity for _, identity, _ in due])
        for seq, identity, mode in due:
            entry = known[identity]
            if entry is None:
                raise BadRow(info.name, "decisions", seq, f"it cannot be found by its id {identity!r}")
            if entry.hearing is not None:
                break  # somebody is answering at this moment; look again
            swept = seq
            if entry.right is None and mode != "shadow":  # what was shown in its place nobody knows
                entry.right, entry.by_silence = right, True
                touched.append(Touched(identity, entry))
                rows.append((info.number, seq, now, "silence", int(right), 0, int(learn), None, None))
        if rows:
            await self._write_feedback(running, rows, touched)
        running.swept = max(running.swept, swept)
        return len(due) == SWEPT


def _refuse_shown(mode: str, hint: Hint, where: str) -> None:
    """What was shown is said of decisions made in shadow mode, and of no others."""
    if mode == "shadow" and hint.shown is None:
        raise Invalid(
            f"{where}shown is missing: the decision was made in shadow mode, so say what was shown", f"{where}shown"
        )
    if mode != "shadow" and (hint.shown is not None or hint.shown_propensity is not None):
        raise Invalid(
            f"{where}shown is for decisions made in shadow mode, and decision {hint.id!r} was made in mode {mode}",
            f"{where}shown",
        )
