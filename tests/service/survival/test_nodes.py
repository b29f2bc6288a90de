"""Nodes and their database are killed with SIGKILL at random moments under load: what was acknowledged is there, once, and all nodes know the same.

The moments are of a fixed seed; what they meet is of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onebit.service.errors import UnavailableError, UnfinishedError
from onebit.service.store.postgres.schema import connect
from tests.service.driving import PATIENCE_S, Client, Life, Nursery, decided, heard, new_task, outcome, run, until
from tests.service.postgres import Server, needs_postgres, rows_in, server
from tests.service.test_nodes import nodes, numbers_in, replayed_state, settled_states
from tests.slow import SLOW

pytestmark = [pytest.mark.long, needs_postgres]
KILLS = 200 if SLOW else 5
LOST = (ConnectionError, asyncio.IncompleteReadError, OSError)
TASK = {
    "name": "fruit",
    "classes": ["a", "b", "c"],
    "learner": "softmax",
    "features": {"kind": "numbers", "size": 2},
    "seed": 1,
}


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("softmax")
    yield made
    made.close()


def test_the_database_is_killed_and_the_nodes_go_on_by_themselves() -> None:
    """In this process, so that states can be compared bit for bit."""

    async def work(one: Server) -> None:
        address = one.database()
        async with nodes(address, 2, snapshot_every=50) as services:
            await services[0].create(new_task())
            await until(lambda: all("fruit" in service.task_names() for service in services))
            answers: dict[str, Any] = {}
            chance = random.Random(5)
            ended = False

            async def client(number: int) -> None:
                turn = 0
                while not ended:
                    identity, x = f"{number}-{turn}", (chance.random(), chance.random())
                    turn += 1
                    while identity not in answers:
                        answer = await outcome(decided(chance.choice(services), identity, x))
                        if isinstance(answer, Exception):
                            assert isinstance(answer, UnavailableError | UnfinishedError), repr(answer)
                            await asyncio.sleep(0.05)
                        else:
                            answers[identity] = answer
                    status: Any = None
                    while not isinstance(status, str):
                        status = await outcome(
                            heard(chance.choice(services), identity, answers[identity]["label"] == "a")
                        )
                        if isinstance(status, Exception):
                            assert isinstance(status, UnavailableError | UnfinishedError), repr(status)
                            await asyncio.sleep(0.05)
                    assert status in ("accepted", "duplicate")

            clients = [asyncio.create_task(client(number)) for number in range(6)]
            for _ in range(2):
                await asyncio.sleep(chance.random())
                await asyncio.to_thread(one.kill)
                await until(lambda: all(service.failing for service in services))
                await asyncio.to_thread(one.start)
                await until(lambda: all(service.failing is None for service in services))
            ended = True
            await asyncio.gather(*clients)
            found = await settled_states(address, services)
            assert found[0] == found[1] == replayed_state(address)
            for service in services:
                for identity, answer in answers.items():
                    logged = await service.decision("fruit", identity)
                    assert {name: logged[name] for name in answer} == answer
                    assert logged["right"] is (answer["label"] == "a")
        last = rows_in(address, "SELECT seq FROM head")[0][0]
        assert numbers_in(address) == list(range(1, last + 1))
        assert rows_in(address, "SELECT count(*) FROM decisions") == [(len(answers),)]

    with server(fsync="on") as one:
        run(work(one))


class Cluster:
    """Three nodes as processes, and what their clients were told."""

    def __init__(self, nursery: Nursery, address: str, folder: Path) -> None:
        self.nursery, self.address, self.folder = nursery, address, folder
        self.lives: list[Life | None] = [None, None, None]
        self.answers: dict[str, Any] = {}
        self.told: set[str] = set()
        self.ended = False

    async def start(self, number: int) -> None:
        """A node, when it listens. While the database is down it cannot start, and is started again."""
        while True:
            options = ("--log", self.address, "--port", "0", "--snapshot-every", "100")
            life = self.nursery.begin(self.folder / f"{number}.{random.random()}.log", *options)
            while life.port is None and not life.has_ended:
                await asyncio.sleep(0.05)
            if life.port is not None:
                self.lives[number] = life
                return
            life.end()

    async def asked(self, method: str, path: str, body: Any, chance: random.Random) -> tuple[int, Any]:
        """What any node that can answers."""
        while True:
            life = chance.choice(self.lives)
            with contextlib.suppress(*LOST):
                if life is not None and life.port is not None:
                    async with asyncio.timeout(30.0), await Client.to(life.port) as client:
                        status, answer = await client.ask(method, path, body)
                        if status not in (503, 504):
                            return status, answer
            await asyncio.sleep(0.05)

    async def client(self, number: int) -> None:
        """Pairs, each of which is sent until it is acknowledged, to whichever node."""
        chance = random.Random(number)
        turn = 0
        while not self.ended:
            identity, x = f"{number}-{turn}", [chance.random(), chance.random()]
            turn += 1
            status, answer = await self.asked("POST", "/v1/tasks/fruit/decide", {"id": identity, "x": x}, chance)
            assert status == 200, answer
            self.answers[identity] = answer
            body = {"id": identity, "right": answer["label"] == "a"}
            status, heard = await self.asked("POST", "/v1/tasks/fruit/feedback", body, chance)
            assert status == 200, heard
            assert heard["status"] in ("accepted", "duplicate")
            self.told.add(identity)


def test_nodes_and_the_database_are_killed_at_random_moments(nursery: Nursery, tmp_path: Path) -> None:
    async def work(one: Server) -> None:
        address, chance = one.database(), random.Random(7)
        cluster = Cluster(nursery, address, tmp_path)
        for number in range(3):
            await cluster.start(number)
        status, answer = await cluster.asked("POST", "/v1/tasks", TASK, chance)
        assert status == 201, answer
        clients = [asyncio.create_task(cluster.client(number)) for number in range(6)]
        for kill in range(KILLS):
            await asyncio.sleep(chance.random() * 1.0)
            number = chance.randrange(4) if kill else 3  # the database once at least
            if number == 3:
                await asyncio.to_thread(one.kill)
                await asyncio.sleep(chance.random() * 0.5)
                await asyncio.to_thread(one.start)
            else:
                life = cluster.lives[number]
                assert life is not None
                cluster.lives[number] = None
                await asyncio.to_thread(life.end, signal.SIGKILL)
                await cluster.start(number)
        cluster.ended = True
        await asyncio.gather(*clients)
        assert len(cluster.answers) > KILLS
        await check(cluster, address)
        for life in cluster.lives:
            assert life is not None
            assert life.end() == 0

    with server(fsync="on") as one:
        run(work(one), (4 + KILLS / 5) * PATIENCE_S)


async def check(cluster: Cluster, address: str) -> None:
    """Nothing is lost or doubled, and every node has learnt the same."""
    last = rows_in(address, "SELECT seq FROM head")[0][0]
    assert numbers_in(address) == list(range(1, last + 1))
    logged = {row[0]: row[1] for row in rows_in(address, "SELECT id, label FROM decisions")}
    assert logged == {identity: "abc".index(answer["label"]) for identity, answer in cluster.answers.items()}
    with connect(address) as connection:
        said = connection.execute(
            "SELECT d.id, f.right FROM feedback f JOIN decisions d ON d.seq = f.decision"
        ).fetchall()
    assert dict(said) == {identity: int(cluster.answers[identity]["label"] == "a") for identity in cluster.told}
    assert len(said) == len(cluster.told)
    beliefs = []
    for number, life in enumerate(cluster.lives):
        assert life is not None
        assert life.port is not None
        async with await Client.to(life.port) as client:
            stats = (await client.ask("GET", "/v1/tasks/fruit/stats"))[1]
            while stats["queue"] or stats["feedback"] < len(
                cluster.told
            ):  # what others have just written comes a moment later
                await asyncio.sleep(0.05)
                stats = (await client.ask("GET", "/v1/tasks/fruit/stats"))[1]
            asks = [{"id": f"probe {number} {k}", "x": [k / 7.0, 1.0 - k / 5.0]} for k in range(8)]
            _, probed = await client.ask("POST", "/v1/tasks/fruit/decide", asks)
            beliefs.append((stats["learnt"], stats["feedback"], [one["probabilities"] for one in probed]))
    assert beliefs[0] == beliefs[1] == beliefs[2]
    assert beliefs[0][0] == len(cluster.told)
