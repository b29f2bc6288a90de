"""Many clients, slow ones, those that send half a request or take no answer, and an end in the midst of them: others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import struct
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.driving import (
    PATIENCE_S,
    Client,
    Life,
    Nursery,
    everything_in,
    replayed,
    request_of,
    restarted,
    rows_of,
    run,
    snapshots_in,
    until,
)

pytestmark = pytest.mark.long

DECIDE = "/v1/tasks/fruit/decide"
NEW = {"name": "fruit", "classes": 3, "learner": "banditron", "features": {"kind": "numbers", "size": 2}}


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("banditron")
    yield made
    made.close()


def serving(nursery: Nursery, folder: Path, *options: str) -> Life:
    """A server with one task."""
    life = nursery.start(folder, *options)

    async def create() -> None:
        async with await Client.to(await life.listens()) as client:
            assert (await client.ask("POST", "/v1/tasks", NEW))[0] == 201

    try:
        asyncio.run(create())
    except BaseException:
        life.end(signal.SIGKILL)
        raise
    return life


@contextlib.contextmanager
def served(nursery: Nursery, folder: Path, *options: str) -> Iterator[Life]:
    life = serving(nursery, folder, *options)
    try:
        yield life
    finally:
        life.end(signal.SIGKILL)


def ids_in(folder: Path) -> set[str]:
    return {row[0] for row in rows_of(folder, "SELECT id FROM decisions")}


async def healthy(port: int, name: str, turns: int, told_when: list[float] | None = None) -> list[str]:
    """Somebody who behaves; all is answered."""
    done = [f"{name}-{turn}" for turn in range(turns)]
    async with asyncio.timeout(4 * PATIENCE_S), await Client.to(port) as client:
        for turn, identity in enumerate(done):
            status, answer = await client.ask("POST", DECIDE, {"id": identity, "x": [turn, 1]})
            assert (status, answer["id"]) == (200, identity)
            told = {"id": identity, "right": turn % 2 == 0}
            status, answer = await client.ask("POST", "/v1/tasks/fruit/feedback", told)
            assert (status, answer["status"]) == (200, "accepted")
            if told_when is not None:
                told_when.append(time.monotonic())
    return done


# --- many ------------------------------------------------------------------------------------------------------------


def test_a_thousand_clients_at_once(tmp_path: Path, nursery: Nursery) -> None:
    """All are connected before any asks."""

    async def work(port: int) -> None:
        clients = await asyncio.gather(*(Client.to(port) for _ in range(1000)))
        for turn in range(3):
            answers = await asyncio.gather(
                *(
                    client.ask("POST", DECIDE, {"id": f"{turn}-{number}", "x": [number, turn]})
                    for number, client in enumerate(clients)
                )
            )
            assert {status for status, _ in answers} == {200}
            assert [answer["id"] for _, answer in answers] == [f"{turn}-{number}" for number in range(1000)]
        for client in clients:
            client.writer.close()

    with served(nursery, tmp_path / "data") as life:
        run(work(life.port or 0))
        assert life.end() == 0
    assert ids_in(tmp_path / "data") == {f"{turn}-{number}" for turn in range(3) for number in range(1000)}


def test_a_thousand_clients_for_one_decision(tmp_path: Path, nursery: Nursery) -> None:
    async def work(port: int) -> None:
        clients = await asyncio.gather(*(Client.to(port) for _ in range(1000)))
        body = {"id": "one", "x": [1, 2]}
        answers = await asyncio.gather(*(client.ask("POST", DECIDE, body) for client in clients))
        assert all(answer == answers[0] for answer in answers)
        told = await asyncio.gather(
            *(
                client.ask("POST", "/v1/tasks/fruit/feedback", {"id": "one", "right": number % 2 == 0})
                for number, client in enumerate(clients)
            )
        )
        statuses = [status for status, _ in told]
        assert (statuses.count(200), statuses.count(409)) == (500, 500)
        accepted = [answer for status, answer in told if status == 200 and answer["status"] == "accepted"]
        assert len(accepted) == 1
        for client in clients:
            client.writer.close()

    with served(nursery, tmp_path / "data") as life:
        run(work(life.port or 0))
    kinds = [row[1] for row in everything_in(tmp_path / "data")]
    assert (kinds.count("decisions"), kinds.count("feedback")) == (1, 1)


# --- slow, half, gone ------------------------------------------------------------------------------------------------


async def byte_by_byte(port: int, number: int) -> tuple[int, Any]:
    """A whole request, in time, one byte at a time."""
    async with await Client.to(port) as client:
        for byte in request_of("POST", DECIDE, {"id": f"slow-{number}", "x": [1, number]}):
            client.writer.write(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0.003)
        return await client.answer()


async def stuck(port: int, half: bytes) -> bytes:
    """Part of a request, and nothing more; what comes until the server closes."""
    content = b""
    async with await Client.to(port) as client:
        client.writer.write(half)
        with contextlib.suppress(ConnectionError):
            content = await asyncio.wait_for(client.reader.read(), PATIENCE_S)
    return content


async def gone(port: int, content: bytes) -> None:
    """Send, and leave without an answer; some politely, and some not."""
    async with await Client.to(port) as client:
        client.writer.write(content)
        await client.writer.drain()
        if len(content) % 2:
            connection = client.writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset


async def deaf(port: int, number: int) -> None:
    """Ask for much, and take nothing of it until the server gives up."""
    batches = [
        request_of("POST", DECIDE, [{"id": f"deaf-{number}-{batch}-{place}", "x": [1, 2]} for place in range(3000)])
        for batch in range(10)
    ]
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    with connection, contextlib.suppress(ConnectionError):
        async with asyncio.timeout(PATIENCE_S):
            await loop.sock_connect(connection, ("127.0.0.1", port))
            await loop.sock_sendall(connection, b"".join(batches))
            while True:
                await loop.sock_sendall(connection, b"\r\n")  # until nobody is there
                await asyncio.sleep(0.05)


HALVES = [
    b"",
    b"PO",
    b"POST " + DECIDE.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-",
    request_of("POST", DECIDE, {"id": "never", "x": [1, 2]})[:-5],
    b"POST " + DECIDE.encode() + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[1",
]


def open_files(life: Life) -> int:
    return len(list(Path(f"/proc/{life.pid}/fd").iterdir()))


def test_others_are_served_meanwhile(tmp_path: Path, nursery: Nursery) -> None:
    """Slow ones that come to an end are answered, stuck ones are closed, and nothing is left of those that went."""

    async def work(life: Life) -> list[str]:
        port = life.port or 0
        whole = request_of("POST", DECIDE, {"id": "gone", "x": [1, 2]})
        odd: list[Coroutine[Any, Any, Any]] = [byte_by_byte(port, number) for number in range(30)]
        stuck_ones = [stuck(port, half) for half in HALVES for _ in range(20)]
        odd += [gone(port, whole[:cut]) for cut in range(0, len(whole) + 1, 3)]
        odd += [deaf(port, number) for number in range(2)]
        slow = [asyncio.create_task(one) for one in odd]
        closed = [asyncio.create_task(one) for one in stuck_ones]
        await asyncio.sleep(0.05)
        served_at: list[float] = []
        closed_at: list[float] = []
        for one in closed:
            one.add_done_callback(lambda _: closed_at.append(time.monotonic()))
        good = await asyncio.gather(*(healthy(port, f"good-{number}", 40, served_at) for number in range(8)))
        answers = await asyncio.gather(*slow)
        assert {status for status, _ in answers[:30]} == {200}
        for content in await asyncio.gather(*closed):
            assert content.startswith(b"HTTP/1.1 408 ") or content == b""
        assert served_at[0] < closed_at[0]  # they were stuck meanwhile
        return [one for many in good for one in many]

    folder = tmp_path / "data"
    with served(nursery, folder, "--request-timeout-s", "3") as life:
        before = open_files(life)
        done = asyncio.run(asyncio.wait_for(work(life), 4 * PATIENCE_S))
        run(until(lambda: open_files(life) <= before + 2))  # nobody's connection is kept
        assert not [event for event in life.events if event["level"] == "error"]
        assert life.end() == 0
    logged = ids_in(folder)
    assert set(done) <= logged
    assert {f"slow-{number}" for number in range(30)} <= logged
    assert "never" not in logged


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_an_end_under_load_drains(tmp_path: Path, nursery: Nursery, seed: int) -> None:
    """What the service took is answered, and what it did not answer it did not take."""
    folder = tmp_path / "data"
    sent: set[str] = set()
    answered: dict[str, Any] = {}

    async def client(port: int, number: int) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            async with await Client.to(port) as client:
                for turn in range(100_000):
                    ids = [f"{number}-{turn}-{place}" for place in range((1, 1, 300)[number % 3])]
                    sent.update(ids)
                    status, answer = await client.ask("POST", DECIDE, [{"id": one, "x": [turn, 1]} for one in ids])
                    assert status == 200, answer
                    answered.update({one["id"]: one for one in answer})
                    told = [{"id": one, "right": True} for one in ids]
                    status, answer = await client.ask("POST", "/v1/tasks/fruit/feedback", told)
                    assert status == 200, answer

    async def work(life: Life) -> None:
        clients = [asyncio.create_task(client(life.port or 0, number)) for number in range(12)]
        await asyncio.sleep(0.2 + random.Random(seed).random() * 0.5)
        assert await asyncio.to_thread(life.end) == 0
        await asyncio.gather(*clients)

    with served(nursery, folder) as life:
        asyncio.run(asyncio.wait_for(work(life), 4 * PATIENCE_S))
        assert life.events[-1]["event"] == "ended"
        assert not [event for event in life.events if event["level"] == "error"]
    assert len(answered) > 100
    assert ids_in(folder) == set(answered)
    assert ids_in(folder) <= sent
    # The last snapshot is of the end of the log.
    assert int(snapshots_in(folder)[-1].stem.split("-")[1]) == everything_in(folder)[-1][0]
    assert run(restarted(folder))["fruit"] == replayed(folder, "fruit")


@pytest.mark.parametrize("half", [*HALVES[1:], "deaf"], ids=["line", "head", "body", "chunk", "deaf"])
def test_an_end_while_somebody_is_stuck(tmp_path: Path, nursery: Nursery, half: bytes | str) -> None:
    """It is not waited for longer than was said, though a request might take ten minutes to arrive."""

    async def work(life: Life) -> float:
        port = life.port or 0
        stay = asyncio.create_task(deaf(port, 0) if isinstance(half, str) else stuck(port, half))
        await asyncio.sleep(0.5)
        assert not stay.done()
        began = time.monotonic()
        assert await asyncio.to_thread(life.end) == 0
        await stay
        return time.monotonic() - began

    with served(nursery, tmp_path / "data", "--request-timeout-s", "600", "--drain-s", "1") as life:
        assert asyncio.run(work(life)) < 15.0
        assert life.events[-1]["event"] == "ended"
    assert snapshots_in(tmp_path / "data")


def test_a_second_signal_changes_nothing(tmp_path: Path, nursery: Nursery) -> None:
    async def work(life: Life) -> None:
        await healthy(life.port or 0, "a", 5)
        for _ in range(3):
            os.kill(life.pid, signal.SIGTERM)
        assert await asyncio.to_thread(life.end) == 0

    with served(nursery, tmp_path / "data") as life:
        asyncio.run(work(life))
    assert len(ids_in(tmp_path / "data")) == 5
    assert snapshots_in(tmp_path / "data")
