"""Nodes as processes over one PostgreSQL, attacked from outside: connections cut, processes stopped, tasks deleted, classes retired, tokens revoked.

Everything is seen as an operator sees it: HTTP, processes, SQL and `onebit logs check`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from onebit.service.maintenance.check import check
from onebit.service.settings import Settings
from onebit.service.store.postgres.store import PostgresStore
from tests.service.driving import PATIENCE_S, Life, Nursery, run
from tests.service.postgres import Server, copy_log, image_of, needs_postgres, rows_in

pytestmark = [pytest.mark.long, needs_postgres]
TAKEN_OVER_S = 10.0  # so soon another node does what the leader does not
MAX_CUTS = (
    20  # of all connections during one training; on a slow machine, cuts without end would leave no time for anything
)
NUMBERS = {"kind": "numbers", "size": 2}
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("softmax", "bpa")
    yield made
    made.close()


class Node:
    """A node in a process of its own, and a client of it."""

    def __init__(self, life: Life, client: httpx.AsyncClient) -> None:
        self.life, self.client = life, client

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        """The status and the content of a reply."""
        reply = await self.client.request(method, f"/v1/tasks{path}", json=body, **more)
        return reply.status_code, reply.json()

    async def do(self, method: str, path: str, body: Any = None) -> Any:
        """The content of a reply to what must be done; a node may say that it cannot now, and is asked again."""
        while True:
            status, content = await self.ask(method, path, body)
            if status not in (503, 504):
                assert status < 300, content
                return content
            await asyncio.sleep(0.1)

    def pause(self) -> None:
        """Stop the process; the system keeps its connections."""
        os.kill(self.life.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.life.pid, signal.SIGCONT)

    async def quiet(self, task: str = "fruit") -> dict[str, Any]:
        """The statistics of a task, when nothing waits to be learnt."""
        async with asyncio.timeout(PATIENCE_S):
            while (stats := await self.do("GET", f"/{task}/stats"))["queue"]:
                await asyncio.sleep(0.05)
        return dict(stats)


@contextlib.asynccontextmanager
async def cluster(nursery: Nursery, address: str, folder: Path, count: int) -> AsyncIterator[list[Node]]:
    """Nodes of a log, the first of which is the leader. They run meanwhile, and end well."""
    found: list[Node] = []
    try:
        for _ in range(count):
            life = nursery.begin(
                folder / f"{len(list(folder.iterdir()))}.log",
                "--log",
                address,
                "--port",
                "0",
                "--snapshot-every",
                "100",
            )
            client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{await life.listens()}", timeout=60.0)
            found.append(Node(life, client))
        yield found
    finally:
        for node in found:
            await node.client.aclose()
            with contextlib.suppress(ProcessLookupError):
                node.resume()
        codes = [await asyncio.to_thread(node.life.end) for node in found]
    assert codes == [0] * count


def new(name: str = "fruit", **more: Any) -> dict[str, Any]:
    return {"name": name, "classes": ["a", "b", "c"], "learner": "softmax", "features": NUMBERS, "seed": 1, **more}


async def taught(node: Node, first: int, count: int, task: str = "fruit") -> None:
    """Teach some pairs."""
    ids = [str(number) for number in range(first, first + count)]
    await node.do("POST", f"/{task}/decide", [{"id": one, "x": [int(one) % 7, 1.0]} for one in ids])
    await node.do("POST", f"/{task}/feedback", [{"id": one, "right": int(one) % 3 == 0} for one in ids])


async def known(nodes: list[Node], task: str = "fruit") -> None:
    """Wait until all nodes serve a task."""
    async with asyncio.timeout(PATIENCE_S):
        for node in nodes:
            while (await node.ask("GET", f"/{task}"))[0] != 200:
                await asyncio.sleep(0.05)


async def beliefs(node: Node, name: str) -> Any:
    """What a node knows of a task: the probabilities of some new decisions."""
    stats = await node.quiet()
    probes = [{"id": f"{name} {number}", "x": [number / 7, 1.0]} for number in range(5)]
    found = await node.do("POST", "/fruit/decide", probes)
    return stats["learnt"], stats["generation"], [one["probabilities"] for one in found]


def rows(address: str, query: str, *values: Any) -> list[Row]:
    return rows_in(address, query, *values)


def test_a_lost_connection_during_training_leaves_one_learner_of_a_generation(
    postgres: Server, nursery: Nursery, tmp_path: Path
) -> None:
    address = postgres.log()

    async def work() -> None:
        async with cluster(nursery, address, tmp_path, 1) as (node,):
            await node.do("POST", "", new())
            for first in range(0, 12_000, 1000):
                await taught(node, first, 1000)
            await node.quiet()
            for learner in ("bpa", "softmax", "bpa"):
                generation = (await node.do("GET", "/fruit"))["generation"] + 1
                await node.do("POST", "/fruit/learner", {"learner": learner})
                cuts = 0
                async with asyncio.timeout(PATIENCE_S):
                    while (task := await node.do("GET", "/fruit"))["generation"] < generation or task["training"]:
                        assert task["training"] is None or task["training"]["error"] is None
                        cuts += 1
                        if cuts > MAX_CUTS:
                            await asyncio.sleep(0.1)
                            continue
                        with psycopg.connect(postgres.address("postgres"), autocommit=True) as connection:
                            connection.execute(
                                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                                (address.rpartition("/")[2],),
                            )
                        await asyncio.sleep(0.7)
            await node.quiet()
        found = rows(address, "SELECT detail FROM changes WHERE kind = 'learner'")
        assert len(found) == 3
        assert check(address).fine
        async with cluster(nursery, address, tmp_path, 1) as (node,):
            assert (await node.quiet())["generation"] == 4

    run(work())


def test_the_database_refuses_a_second_learner_of_a_generation(postgres: Server) -> None:
    address = postgres.log()
    insert = "INSERT INTO onebit.changes VALUES (%s, 1, 0, 'learner', %s, NULL)"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(insert, (1, '{"generation": 2}'))
        connection.execute(insert, (2, '{"generation": 3}'))
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(insert, (3, '{"generation": 2}'))


def test_no_row_of_a_task_comes_after_its_deletion(postgres: Server, nursery: Nursery, tmp_path: Path) -> None:
    address = postgres.log()

    async def work() -> None:
        async with cluster(nursery, address, tmp_path, 2) as nodes:
            ended, refused = False, set()

            async def load(node: Node, number: int) -> None:
                turn = 0
                while not ended:
                    turn += 1
                    bodies = [{"id": f"{number}-{turn}-{one}", "x": [1.0, 2.0]} for one in range(20)]
                    status, content = await node.ask("POST", "/fruit/decide", bodies)
                    if status == 200:
                        told = [{"id": one["id"], "right": True} for one in content]
                        status, _ = await node.ask("POST", "/fruit/feedback", told)
                    refused.add(status)

            clients = [asyncio.create_task(load(node, number)) for number, node in enumerate(nodes * 3)]
            for turn in range(12):
                await nodes[turn % 2].do("POST", "", new())
                await asyncio.sleep(0.3)
                await nodes[turn // 2 % 2].do("DELETE", "/fruit")
            ended = True
            await asyncio.gather(*clients)
            assert refused <= {200, 404}
        late = "SELECT count(*) FROM {} JOIN changes c ON c.task = {}.task AND c.kind = 'deleted' WHERE {}.seq > c.seq"
        assert [rows(address, late.format(*[table] * 3)) for table in ("decisions", "feedback")] == [[(0,)], [(0,)]]
        assert check(address).fine

    run(work())


def test_nodes_that_create_tasks_at_the_same_time_give_them_names_and_numbers_of_their_own(
    postgres: Server, nursery: Nursery, tmp_path: Path
) -> None:
    address = postgres.log()

    async def work() -> None:
        async with cluster(nursery, address, tmp_path, 2) as (one, other):
            for number in range(5):
                bodies = [new(f"both{number}"), new(f"own{number}")]
                asked = [one.ask("POST", "", body) for body in bodies]
                asked += [other.ask("POST", "", body) for body in (bodies[0], new(f"others{number}"))]
                statuses = [status for status, _ in await asyncio.gather(*asked)]
                assert sorted([statuses[0], statuses[2]]) == [201, 409]
                assert [statuses[1], statuses[3]] == [201, 201]
        numbers = [row[0] for row in rows(address, "SELECT task FROM changes WHERE kind = 'created'")]
        assert len(set(numbers)) == len(numbers) == 15
        assert check(address).fine

    run(work())


def test_feedback_that_another_node_took_can_be_withdrawn(postgres: Server, nursery: Nursery, tmp_path: Path) -> None:
    address = postgres.log()

    async def work() -> None:
        async with cluster(nursery, address, tmp_path, 2) as nodes:
            one, other = nodes
            await one.do("POST", "", new())
            await known(nodes)
            for number in range(5):
                await one.do("POST", "/fruit/decide", {"id": str(number), "x": [1.0, 2.0]})
                await other.do("POST", "/fruit/feedback", {"id": str(number), "right": True})
                told = await one.do("POST", "/fruit/feedback", {"id": str(number), "withdraw": True})
                assert told["status"] == "withdrawn"

    run(work())


def test_a_node_that_was_stopped_keeps_what_replies_have_promised_meanwhile(
    postgres: Server, nursery: Nursery, tmp_path: Path
) -> None:
    """No retired class is played, nothing is learnt in a task that only logs, and a revoked token lets nobody in."""
    address = postgres.log()
    tokens = PostgresStore(address).tokens(Settings(data=tmp_path, log=address))
    admin, revoked = (tokens.create(["admin"]) for _ in range(2))

    async def work() -> None:
        async with cluster(nursery, address, tmp_path, 2) as nodes:
            for node in nodes:
                node.client.headers["Authorization"] = f"Bearer {admin}"
            working, stopped = nodes
            await working.do("POST", "", new())
            await working.do("POST", "", new("logged"))
            await known(nodes)
            await known(nodes, "logged")
            waiting = [{"id": f"w{one}", "x": [1.0, 2.0]} for one in range(20)]
            await stopped.do("POST", "/logged/decide", waiting)
            stopped.pause()
            await working.do("PATCH", "/fruit", {"remove_classes": ["a"]})
            await working.do("PATCH", "/logged", {"mode": "log-only"})
            tokens.revoke(revoked)
            await asyncio.sleep(6.0)
            headers = {"Authorization": f"Bearer {revoked}"}
            early = [stopped.ask("GET", "/fruit", headers=headers) for _ in range(20)]
            decided = [stopped.do("POST", "/fruit/decide", {"id": f"d{one}", "x": [1.0, 2.0]}) for one in range(60)]
            told = [stopped.do("POST", "/logged/feedback", {"id": one["id"], "right": True}) for one in waiting]
            asked = asyncio.gather(asyncio.gather(*early), asyncio.gather(*decided), asyncio.gather(*told))
            await asyncio.sleep(0.5)  # they have been sent when it comes back
            stopped.resume()
            let_in, decisions, _ = await asked
            assert {status for status, _ in let_in} <= {401, 503}
            assert (await stopped.ask("GET", "/fruit", headers=headers))[0] == 401
            assert {one["label"] for one in decisions} <= {"b", "c"}
            assert rows(address, "SELECT DISTINCT learn FROM feedback") == [(0,)]
        assert check(address).fine

    run(work())


def test_another_node_takes_over_what_a_stopped_leader_does_for_all(
    postgres: Server, nursery: Nursery, tmp_path: Path
) -> None:
    address = postgres.log()

    async def work() -> None:
        async with cluster(nursery, address, tmp_path, 2) as nodes:
            leader, other = nodes
            await leader.do("POST", "", new(deadline_s=1.0, silence="wrong"))
            await known(nodes)
            await taught(leader, 0, 300)
            await leader.quiet()
            for one, then in ((leader, other), (other, leader)):
                one.pause()
                before = len(rows(address, "SELECT 1 FROM feedback WHERE source = 'silence'"))
                await then.do("POST", "/fruit/decide", {"x": [1.0, 2.0]})
                await then.do("POST", "/fruit/learner", {"learner": "bpa"})
                generation = (await then.do("GET", "/fruit"))["generation"]
                async with asyncio.timeout(TAKEN_OVER_S + 5.0):  # the deadline, and a busy machine
                    while len(rows(address, "SELECT 1 FROM feedback WHERE source = 'silence'")) == before:
                        await asyncio.sleep(0.1)
                async with asyncio.timeout(PATIENCE_S):
                    while (task := await then.do("GET", "/fruit"))["generation"] == generation or task["training"]:
                        await asyncio.sleep(0.1)
                one.resume()
                await taught(one, 1000 * generation, 50)
                assert await beliefs(one, f"one {generation}") == await beliefs(then, f"then {generation}")
        assert len(rows(address, "SELECT 1 FROM changes WHERE kind = 'learner'")) == 2
        assert rows(address, "SELECT count(*) - count(DISTINCT decision) FROM feedback WHERE late = 0") == [(0,)]
        assert check(address).fine

    run(work())


def test_the_queue_of_a_quiet_log_is_empty_on_every_node(postgres: Server, nursery: Nursery, tmp_path: Path) -> None:
    """Also where rows are written while another node brings the task up."""
    address = postgres.log()

    async def work() -> None:
        async with cluster(nursery, address, tmp_path, 3) as nodes:
            names = [f"task{number}" for number in range(12)]

            async def begin(number: int, name: str) -> None:
                await nodes[number % 3].do("POST", "", new(name))
                for first in range(0, 60, 5):
                    await taught(nodes[(number + first) % 3], first, 5, name)

            await asyncio.gather(*(begin(number, name) for number, name in enumerate(names)))
            async with asyncio.timeout(60.0):
                for name in names:
                    await known(nodes, name)
                    learnt = {(await node.quiet(name))["queue"] for node in nodes}
                    assert learnt == {0}

    run(work())


def test_a_node_notices_a_backup_that_was_restored_while_it_stood_still(
    postgres: Server, nursery: Nursery, tmp_path: Path
) -> None:
    """Also where the log has become as long again as the node had followed it."""
    address = postgres.log()

    async def work() -> None:
        async with cluster(nursery, address, tmp_path, 1) as (stopped,):
            await stopped.do("POST", "", new())
            await taught(stopped, 0, 10)
            backup = image_of(address)
            await taught(stopped, 10, 10)
            async with asyncio.timeout(PATIENCE_S):  # what it has not followed yet, it would take from the backup
                while (await stopped.quiet())["learnt"] < 20:
                    await asyncio.sleep(0.05)
            stopped.pause()
            copy_log(backup, address)
            async with cluster(nursery, address, tmp_path, 1) as (other,):
                await taught(other, 20, 40)
                stopped.resume()
                async with asyncio.timeout(PATIENCE_S):
                    while (await stopped.client.get("/readyz")).status_code != 503:
                        await asyncio.sleep(0.1)
                assert "restart this node" in (await stopped.client.get("/readyz")).json()["reason"]
                status, content = await stopped.ask("POST", "/fruit/decide", {"id": "late", "x": [1.0, 2.0]})
                assert (status, "another log is in its place" in content["detail"]) == (503, True)
        assert check(address).fine

    run(work())
