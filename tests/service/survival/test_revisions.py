"""Second thoughts under load, and kill -9 in between: the last word that was acknowledged is in the log, and the state is its replay."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.driving import (
    PATIENCE_S,
    TEXT,
    Client,
    Life,
    Nursery,
    crash_image,
    replayed,
    rows_of,
    run,
    service_in,
    snapshots_in,
    states,
    until,
    visible,
    without_snapshots,
)
from tests.service.survival.test_kill import LOST
from tests.slow import SLOW

pytestmark = pytest.mark.long

KILLS, REVISIONS = (20, 500) if SLOW else (4, 60)
OPTIONS = ("--snapshot-every", "40", "--keep-snapshots", "2")
TASKS: dict[str, dict[str, Any]] = {
    "auto": {"learner": "auto", "features": {"kind": "numbers", "size": 2}},
    "words": {"learner": "bpa", "features": TEXT},
    "silent": {
        "learner": "banditron",
        "features": {"kind": "numbers", "size": 2},
        "deadline_s": 0.3,
        "silence": "wrong",
    },
}
LAST_WORDS = """
SELECT d.id, iif(r.seq IS NULL, f.right, r.right), r.seq IS NULL AND f.source = 'silence'
FROM feedback f JOIN decisions d ON d.seq = f.decision
LEFT JOIN revisions r ON r.seq = (SELECT max(seq) FROM revisions WHERE feedback = f.seq) ORDER BY f.late DESC, f.seq
"""

UNANSWERED = """
SELECT 1 FROM decisions d JOIN changes c ON c.task = d.task AND c.kind = 'created' AND c.detail LIKE '%"silence": "wrong"%'
WHERE NOT EXISTS (SELECT 1 FROM feedback f WHERE f.decision = d.seq AND f.late = 0) LIMIT 1
"""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("banditron", "bpa", "auto")
    yield made
    made.close()


class Doubter:
    """A client that thinks again, and remembers what it said, and what of that was acknowledged."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(number)
        self.number = number
        self.task = list(TASKS)[number % len(TASKS)]
        self.decided: list[str] = []
        self.said: dict[str, list[bool | None]] = {}  # all words on a decision that were sent; None withdraws
        self.known: dict[str, int] = {}  # how many of them were, when one was acknowledged
        self.revisions = 0
        self._count = 0

    async def talk(self, port: int) -> None:
        """Until the server is gone."""
        with contextlib.suppress(*LOST):
            async with await Client.to(port) as client:
                while True:
                    await self._decide(client)
                    for _ in range(4):
                        await self._say(client)

    async def _decide(self, client: Client) -> None:
        ids = [f"{self.number}-{self._count + step}" for step in range(5)]
        self._count += len(ids)
        x: Any = "one two" if self.task == "words" else [self.chance.gauss(0, 1), 1.0]
        status, answer = await client.ask("POST", f"/v1/tasks/{self.task}/decide", [{"id": one, "x": x} for one in ids])
        assert status == 200, answer
        self.decided += ids

    async def _say(self, client: Client) -> None:
        identity = self.chance.choice(self.decided)
        word = self.chance.choice((True, False, None)) if identity in self.said else self.chance.random() < 0.5
        body = {"id": identity, "withdraw": True} if word is None else {"id": identity, "right": word, "revise": True}
        words = self.said.setdefault(identity, [])
        words.append(word)
        status, answer = await client.ask("POST", f"/v1/tasks/{self.task}/feedback", body)
        if status == 409:  # nothing was heard of it, since a kill came before
            assert word is None
            words.pop()
            return
        assert status == 200, answer
        self.known[identity] = len(words)
        self.revisions += answer["status"] in ("revised", "withdrawn")

    def check(self, last: dict[str, int | None], silent: set[str]) -> None:
        """What the log says of each is the last word that was acknowledged, or one that was sent after it."""
        for identity, count in self.known.items():
            assert identity not in silent
            word = last[identity]
            assert (None if word is None else bool(word)) in self.said[identity][count - 1 :]


def test_second_thoughts_and_kills(tmp_path: Path, nursery: Nursery) -> None:
    folder = tmp_path / "data"
    doubters = [Doubter(number) for number in range(6)]

    async def lived(life: Life, number: int) -> None:
        port = await life.listens()
        if number == 0:
            async with await Client.to(port) as client:
                for name, given in TASKS.items():
                    body = {"name": name, "classes": ["a", "b", "c"], "seed": 1, **given}
                    status, answer = await client.ask("POST", "/v1/tasks", body)
                    assert status == 201, answer
        talking = [asyncio.create_task(one.talk(port)) for one in doubters]
        wanted = REVISIONS * (number + 1) / KILLS
        await until(lambda: sum(one.revisions for one in doubters) >= wanted or any(one.done() for one in talking))
        await asyncio.sleep(random.Random(number).random() * 0.3)
        assert life.end(signal.SIGKILL) == -signal.SIGKILL
        await asyncio.wait_for(asyncio.gather(*talking), PATIENCE_S)
        assert not [one for one in life.events if one["level"] in ("warning", "error") and one["event"] != "open"]

    async def live() -> None:
        for number in range(KILLS):
            life = nursery.start(folder, *OPTIONS)
            try:
                await lived(life, number)
            finally:
                life.end(signal.SIGKILL)

    began = time.monotonic()
    asyncio.run(live())
    print(
        f"{KILLS} kills, {sum(one.revisions for one in doubters)} revisions and withdrawals that were acknowledged of "
        f"{rows_of(folder, 'SELECT count(*) FROM revisions')[0][0]}, {sum(len(one.decided) for one in doubters)} decisions, "
        f"{len(snapshots_in(folder))} snapshots, {time.monotonic() - began:.0f} s"
    )

    async def looked_at(where: Path) -> tuple[Any, Any]:
        async with service_in(where) as service:
            await until(lambda: rows_of(where, UNANSWERED) == [])  # silence has spoken, and goes on no more
            found = await states(service)
            return found, {name: visible(service.stats(name)) for name in TASKS}

    copies = [crash_image(folder), without_snapshots(crash_image(folder))]
    words = rows_of(folder, LAST_WORDS)  # late ones first, which those that count take the place of
    last = {identity: word for identity, word, _ in words}
    silent = {identity for identity, _, by_silence in words if by_silence}
    late = {
        one
        for (one,) in rows_of(
            folder, "SELECT d.id FROM feedback f JOIN decisions d ON d.seq = f.decision WHERE late = 1"
        )
    }
    for one in doubters:
        one.known = {identity: count for identity, count in one.known.items() if identity not in late}
        one.check(last, silent)
    looks = []
    for copy in copies:
        found, stats = run(looked_at(copy))
        assert {name: replayed(copy, name) for name in TASKS} == found
        looks.append((found["auto"], stats["auto"]))  # where nothing is said by silence, which comes in any order
    assert looks[0] == looks[1]
