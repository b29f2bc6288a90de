"""Deciding: on the learner in front, and on disk before anybody hears of it; what was decided before, from the log."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from typing import Any

from onebit.errors import OnebitError
from onebit.serve.clock import Clock
from onebit.serve.log.reading import Reader
from onebit.serve.log.writing import Writer
from onebit.serve.recent import Entry, Recent, settled
from onebit.serve.refusals import Conflict, Invalid
from onebit.serve.running import Running
from onebit.serve.shapes import Ask

AT_ONCE = 256  # rows that are decided before others get a turn


class Deciding:
    """Decides for all tasks, on one event loop."""

    def __init__(self, writer: Writer, reader: Reader, recent: Recent, clock: Clock) -> None:
        self._writer = writer
        self._reader = reader
        self._recent = recent
        self._clock = clock
        self._process = os.urandom(6).hex()
        self._made = itertools.count()

    async def decide(self, running: Running, asks: Sequence[Ask], single: bool) -> list[dict[str, Any]]:
        """Decide on many x, all or none. An id that was decided before is answered from the log."""
        info = running.info
        stored = [info.inputs.stored(ask.x, "x" if single else f"[{place}].x") for place, ask in enumerate(asks)]
        ids = [ask.id if ask.id is not None else self._new_id() for ask in asks]
        given = [ask.id for ask in asks if ask.id is not None]
        answers: dict[str, dict[str, Any]] = {}
        if given:
            await self._repeat(running, given, dict(zip(ids, stored, strict=True)), answers)
        fresh: dict[str, bytes] = {}
        for place, (identity, x) in enumerate(zip(ids, stored, strict=True)):
            if identity not in answers and fresh.setdefault(identity, x) != x:
                raise Conflict(f"id {identity!r} is there twice, with two different x", f"[{place}].id")
        if fresh:
            answers |= await self._decide_fresh(running, fresh)
        return [answers[identity] for identity in ids]

    async def _decide_fresh(self, running: Running, fresh: dict[str, bytes]) -> dict[str, dict[str, Any]]:
        info, task = running.info, running.info.number
        now = self._clock.now()
        ids, stored = list(fresh), list(fresh.values())
        rows: list[tuple[Any, ...]] = []
        answers: dict[str, dict[str, Any]] = {}
        # Nobody else may take these ids while the rest is decided.
        written = asyncio.get_running_loop().create_future()
        written.add_done_callback(_heard_of)
        entries = [Entry(0, now, info.mode, written) for _ in ids]
        for identity, entry in zip(ids, entries, strict=True):
            self._recent.add(task, identity, entry)
        try:
            for start in range(0, len(ids), AT_ONCE):
                if start:
                    await asyncio.sleep(0)  # others get a turn
                part = slice(start, start + AT_ONCE)
                try:
                    choices = running.course.replicas.decide(info.inputs.rows(stored[part]), ids[part])
                except OnebitError as error:
                    raise Invalid(str(error), "x") from None
                version = f"{choices.generation}.{choices.learnt}"
                blobs = choices.numbers[:, 6:].copy()
                for place, (identity, x, numbers) in enumerate(
                    zip(ids[part], stored[part], choices.numbers.tolist(), strict=True)
                ):
                    label, greedy, weight, note, second_note, propensity = numbers[:6]
                    label, greedy = int(label), int(greedy)
                    rows.append(
                        (
                            *(task, identity, now, info.mode, choices.generation, choices.learnt),
                            *(label, greedy, weight, note, second_note, propensity, blobs[place].tobytes(), x),
                        )
                    )
                    answers[identity] = {
                        "id": identity,
                        "label": choices.classes[label],
                        "greedy": choices.classes[greedy],
                        "propensity": propensity,
                        "probabilities": dict(zip(running.texts, numbers[6:], strict=False)),
                        "version": version,
                    }
            seq = await self._writer.submit("decisions", rows)
        except BaseException as error:
            for identity in ids:
                self._recent.remove(task, identity)
            written.set_exception(error if isinstance(error, Exception) else OnebitError("stopped"))
            raise
        running.written += len(rows)
        for place, entry in enumerate(entries):
            entry.seq, entry.writing = seq + place, None
        written.set_result(seq)
        return answers

    async def _repeat(
        self, running: Running, ids: Sequence[str], stored: dict[str, bytes], answers: dict[str, dict[str, Any]]
    ) -> None:
        """Answers, from the log, for those of the ids that have been decided."""
        task = running.info.number
        looked_up: set[str] = set()
        while True:
            known = {one for one in ids if self._recent.get(task, one) is not None}
            unknown = [one for one in ids if one not in known and one not in looked_up]
            if unknown:
                known |= self._reader.known(task, unknown)
                looked_up.update(unknown)
            known -= answers.keys()
            if not known:
                return
            await settled(entry for one in known if (entry := self._recent.get(task, one)) is not None)
            for identity in known:
                logged = self._reader.decision(running.info, identity)
                if logged is None:  # it could not be written, so it has not been decided
                    looked_up.discard(identity)
                    continue
                if self._reader.stored_x(task, identity) != stored[identity]:
                    raise Conflict(f"id {identity!r} was decided already, for another x", "id")
                answers[identity] = {
                    "id": identity,
                    "label": logged.label,
                    "greedy": logged.greedy,
                    "propensity": logged.propensity,
                    "probabilities": dict(zip(running.texts, logged.probabilities, strict=False)),
                    "version": logged.version,
                }

    def _new_id(self) -> str:
        """An id that nobody else has, and that sorts by time, so that the index of the log grows at its end."""
        return f"{time.time_ns() // 1_000_000:012x}{self._process}{next(self._made):08x}"


def _heard_of(future: asyncio.Future[int]) -> None:
    """Whoever waits hears of a failure; where nobody does, nobody need be warned."""
    if not future.cancelled():
        future.exception()
