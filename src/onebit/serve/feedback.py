"""Feedback: right or wrong for decisions, once each; second thoughts; and what silence means when the deadline has passed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from onebit.serve.clock import Clock
from onebit.serve.errors import NotFoundError, UnavailableError
from onebit.serve.judging import (
    SWEPT,
    WRITTEN,
    Noted,
    awaits_silence,
    compared,
    judged,
    looked_up,
    refuse_alone,
    refuse_forgotten,
    refuse_mixed,
    refuse_shown,
    word_of,
)
from onebit.serve.log.checks import Expected
from onebit.serve.log.errors import StaleError, TaskChangedError
from onebit.serve.log.inquiry import Inquiry
from onebit.serve.log.writing import Basis, Writer, Written
from onebit.serve.recent import Entry, Recent, Word, settled
from onebit.serve.schemas import FeedbackRequest
from onebit.serve.served_task import ServedTask
from onebit.serve.tasks import TaskInfo

AT_ONCE = 256  # ids that are looked up before others get a turn


class FeedbackHandler:
    """Takes feedback for all tasks, on one event loop."""

    def __init__(self, writer: Writer, inquiry: Inquiry, recent: Recent, clock: Clock, shared: bool) -> None:
        self._writer = writer
        self._inquiry = inquiry
        self._shared = shared  # the log: others may say something of the same decisions
        self._recent = recent
        self._clock = clock

    async def record(
        self, served: ServedTask, requests: Sequence[FeedbackRequest], single: bool
    ) -> list[dict[str, Any]]:
        """Record what is said of decisions. A single request that is unknown or contradicts an earlier one is refused.

        TaskChangedError where the task changed meanwhile: then the requests must be judged again.
        """
        refuse_mixed(requests, single)
        words = [word_of(served, request, "" if single else f"[{index}].") for index, request in enumerate(requests)]
        ids = list(dict.fromkeys(request.id for request in requests))
        named = any(request.truth is not None for request in requests)
        afresh = not self._shared  # whether what was said before is as the log has it
        while True:
            forgets = served.forgets
            found = await self._entries(served.info, ids)
            if any(entry is not None and (entry.writing or entry.feedback_write) for entry in found.values()):
                await settled(entry for entry in found.values() if entry is not None)
            elif named:  # which needs the decisions that are on disk, and others may come in between
                await self._compare_truths(served, requests, words, single)
                named = False
            elif not afresh and _needs_log(requests, found):
                afresh = True
                self._recent.remove_all(served.info.number, ids)
            elif single and served.info.forgotten_at and found[ids[0]] is None:
                await self._inquiry.of(lambda reader: refuse_forgotten(reader, served.info, ids))
                raise NotFoundError(f"there is no decision {ids[0]!r} in task {served.info.name!r}", "id")
            elif forgets == served.forgets:
                try:
                    return await self._record(served, requests, words, found, single)
                except TaskChangedError:
                    raise
                except StaleError:  # what was remembered is forgotten now
                    continue

    async def _record(
        self,
        served: ServedTask,
        requests: Sequence[FeedbackRequest],
        words: Sequence[Word | None],
        found: dict[str, Entry | None],
        single: bool,
    ) -> list[dict[str, Any]]:
        """Judge what is said of decisions with which nothing is under way, and write it."""
        if served.forgetting:
            raise UnavailableError(
                "decisions of this task are being forgotten; nothing of this was done, and it may be sent again"
            )
        entries = [found[request.id] for request in requests]
        # From here to the writer nothing is awaited, so that nobody comes in between.
        for index, (request, entry) in enumerate(zip(requests, entries, strict=True)):
            if entry is not None and not request.withdraw:
                refuse_shown(entry.mode, request, "" if single else f"[{index}].")
        now, basis = self._clock.now(), Basis(task_change=served.info.last_change)
        heard, answers = Noted.nothing(), []
        for request, entry, word in zip(requests, entries, words, strict=True):
            status, message = judged(served, request, word, entry, now)
            if single:
                refuse_alone(status, message, request)
            answers.append({"id": request.id, "status": status} | ({"message": message} if message else {}))
            if status in WRITTEN:
                assert entry is not None
                heard.note(served.info, request, word, entry, status, now)
        if heard.entries:
            await self._write(served, heard, basis)
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
            some = ids[start : start + AT_ONCE]
            for identity, label, among in await self._inquiry.of(
                lambda reader, some=some: reader.offers(served.info, some)  # type: ignore[misc]
            ):
                for index in named[identity]:
                    word = words[index]
                    assert word is not None
                    where = "" if single else f"[{index}]."
                    words[index] = compared(served.info, requests[index], word, label, among, where)

    async def _write(self, served: ServedTask, heard: Noted, basis: Basis) -> None:
        """Write what is noted in its entries already; if it cannot be written, they are forgotten.

        Whether it was written may be unknown; the next who asks finds in the log what is there.
        """
        parts = {table: rows for table, rows in (("feedback", heard.feedback), ("revisions", heard.revisions)) if rows}
        futures = self._writer.submit_together(parts, basis)
        written = list(futures.values())[-1]  # all are there, or none is
        for entry in heard.entries.values():
            entry.feedback_write = written
        # A batch may be larger than what is remembered, and what is under way must be.
        self._recent.add_all(served.info.number, heard.entries, heard.entries.values())

        def settle(future: asyncio.Future[Written]) -> None:
            """The rows are on disk, or will never be; also where whoever told does not wait any more."""
            for entry in heard.entries.values():
                entry.feedback_write = None
            if future.cancelled() or future.exception() is not None:
                self._recent.remove_all(served.info.number, heard.entries)
                return
            served.heard = max(served.heard, future.result().seq + len(list(parts.values())[-1]) - 1)
            if heard.places:
                for seq, place in enumerate(heard.places, futures["feedback"].result().seq):
                    place.seq, place.time = seq, futures["feedback"].result().time

        written.add_done_callback(settle)
        await asyncio.shield(written)

    async def _entries(self, info: TaskInfo, ids: list[str]) -> dict[str, Entry | None]:
        """What is known of decisions, from memory or from the log. While a long list is looked up, others get a turn."""
        task = info.number
        found = {identity: entry for identity in ids if (entry := self._recent.get(task, identity)) is not None}
        if len(found) == len(ids):
            return dict(found)
        remembered, unknown = list(found), [identity for identity in ids if identity not in found]
        for start in range(0, len(unknown), AT_ONCE):
            if start:
                await asyncio.sleep(0)
            found |= await self._looked_up(info.expected, unknown[start : start + AT_ONCE])
        # What could not be written meanwhile is not remembered any more.
        if forgotten := [identity for identity in remembered if self._recent.get(task, identity) is None]:
            found |= await self._looked_up(info.expected, forgotten)
        # Others may have come upon the same decision meanwhile, and a decision has one entry.
        return {identity: self._recent.get(task, identity) or found.get(identity) for identity in ids}

    async def _looked_up(self, of: Expected, ids: list[str]) -> dict[str, Entry]:
        """Decisions that the log has, and memory has not."""
        found = await self._inquiry.of(lambda reader: looked_up(of, ids, reader, self._clock))
        fresh = {identity: entry for identity, entry in found.items() if self._recent.get(of.task, identity) is None}
        self._recent.add_all(of.task, fresh, fresh.values())
        return found

    async def sweep(self, served: ServedTask, lease: str) -> bool:
        """Answer, under the keeper's lease, for those who were silent until the deadline; whether there may be more."""
        info = served.info
        basis = Basis(task_change=info.last_change, lease=lease)
        if not awaits_silence(info):
            return False
        assert info.deadline_s is not None
        now = self._clock.now()
        before, after = now - info.deadline_s, served.swept
        due = await self._inquiry.of(lambda reader: reader.due(info.expected, after, before, SWEPT, self._clock.made))
        if not due:
            return False
        forgets = served.forgets
        known = await self._entries(info, [identity for _, identity, _ in due])
        if served.forgetting or forgets != served.forgets:  # some of these may be gone: look again
            return False
        heard = Noted.nothing()
        swept = heard.note_silence(info, due, known, now)
        if heard.entries:
            await self._write(served, heard, basis)
        served.swept = max(served.swept, swept)
        return len(due) == SWEPT


def _needs_log(requests: Sequence[FeedbackRequest], found: Mapping[str, Entry | None]) -> bool:
    """Return True if an answer rests on what other nodes may have said of a decision since it was remembered.

    A first answer need not: whether it is the first is checked again when it is written.
    """
    entries = ((request, found[request.id]) for request in requests)
    return any(entry is not None and (request.withdraw or entry.place is not None) for request, entry in entries)
