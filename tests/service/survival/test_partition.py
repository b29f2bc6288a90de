"""A node and its database with something between them that drops, stalls or delays: nothing is lost or doubled, and the node goes on by itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from onebit.errors import InputError
from onebit.service.errors import UnavailableError, UnfinishedError
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.service.store.postgres import appender, database, tail
from onebit.service.store.postgres.schema import connect
from tests.service.driving import PATIENCE_S, Client, decided, heard, new_task, outcome, run, until
from tests.service.postgres import Server, needs_postgres, rows_in
from tests.service.test_nodes import node, numbers_in, replayed_state, settled_states

pytestmark = [pytest.mark.long, needs_postgres]


class Proxy:
    """Stands before a server on loopback, and passes on what it is told to."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._passes = threading.Event()
        self._passes.set()
        self.refuses = False
        self.delay_s = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Take everything, and pass nothing on."""
        self._passes.clear()

    def drop(self) -> None:
        """End all connections, and take no more."""
        self.refuses = True
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def pass_on(self) -> None:
        """As if it were not there; what was stalled comes late."""
        self.refuses = False
        self._passes.set()

    def close(self) -> None:
        self.drop()
        self._passes.set()
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                if self.refuses:
                    here.close()
                    continue
                there = socket.create_connection(("127.0.0.1", self._target))
                self._open |= {here, there}
                for one, other in ((here, there), (there, here)):
                    threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                self._passes.wait()
                time.sleep(self.delay_s)
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            self._open.discard(end)
            end.close()


@contextlib.contextmanager
def between(address: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the server of a database, and the address by way of it."""
    before, _, name = address.rpartition("/")
    host, _, port = before.rpartition(":")
    proxy = Proxy(int(port))
    try:
        yield proxy, f"{host}:{proxy.port}/{name}"
    finally:
        proxy.close()


async def pair(service: Service, identity: str) -> dict[str, Any]:
    """A decision and its feedback, each sent until it is acknowledged."""
    while isinstance(answer := await outcome(decided(service, identity)), Exception):
        assert isinstance(answer, UnavailableError | UnfinishedError), repr(answer)
        await asyncio.sleep(0.05)
    while isinstance(said := await outcome(heard(service, identity, answer["label"] == "a")), Exception):
        assert isinstance(said, UnavailableError | UnfinishedError), repr(said)
        await asyncio.sleep(0.05)
    assert said in ("accepted", "duplicate")
    return dict(answer)


async def check(address: str, services: list[Service], answers: dict[str, Any]) -> None:
    """Everything that was acknowledged is there, once, and all nodes know the same."""
    found = await settled_states(address, services)
    assert all(one == found[0] for one in found)
    assert found[0] == replayed_state(address)
    logged = dict(rows_in(address, "SELECT id, label FROM decisions"))
    assert logged == {identity: "abc".index(answer["label"]) for identity, answer in answers.items()}
    assert rows_in(address, "SELECT count(*) FROM feedback") == [(len(answers),)]
    assert numbers_in(address) == list(range(1, numbers_in(address)[-1] + 1))


@pytest.mark.parametrize("how", ["stall", "drop"])
def test_a_node_that_is_cut_off_says_so_and_goes_on_by_itself(
    postgres: Server, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Also where the connection is alive and nothing comes: a server that stands still, or a proxy that does."""
    monkeypatch.setattr(appender, "PATIENCE_S", 1.0)
    monkeypatch.setattr(appender, "SILENCE_S", 0.5)
    monkeypatch.setattr(tail, "SILENCE_S", 1.0)
    monkeypatch.setattr(database, "SILENCE_S", 1.0)
    direct = postgres.log()

    async def work(proxy: Proxy, address: str) -> None:
        answers: dict[str, Any] = {}
        async with node(direct) as near, node(address) as far:
            await near.create(new_task())
            for number in range(20):
                answers[f"before {number}"] = await pair((near, far)[number % 2], f"before {number}")
            proxy.stall() if how == "stall" else proxy.drop()
            looks = [
                asyncio.create_task(outcome(look)) for look in (far.decisions("fruit"), far.decision("fruit", "a"))
            ]
            await asyncio.sleep(0)  # they are on their way
            assert not any(look.done() for look in looks)  # and whoever looks at the log holds nobody up
            refused = await outcome(decided(far, "meanwhile"))
            assert isinstance(refused, UnavailableError | UnfinishedError), repr(refused)
            await until(lambda: far.failing)
            assert [type(await look) for look in looks] == [UnavailableError] * 2
            for number in range(20):  # nobody else is held up
                answers[f"meanwhile {number}"] = await pair(near, f"meanwhile {number}")
            assert isinstance(await outcome(heard(far, "before 1", False)), Exception)
            proxy.pass_on()
            await until(lambda: far.failing is None)
            for identity in ("meanwhile", "after"):
                answers[identity] = await pair(far, identity)
            await check(direct, [near, far], answers)

    with between(direct) as (proxy, address):
        run(work(proxy, address))


def test_a_node_that_stood_still_itself_takes_no_server_for_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a compiler has the interpreter, nobody hears an answer: only looks count, each of which gives whoever waits a turn."""
    given_up: list[Any] = []
    monkeypatch.setattr(database, "cut_off", given_up.append)
    one, connection = database.Watch(), cast("Any", "a connection")
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)  # an hour later, or a year
    with one.limit(connection, 10.0):
        for _ in range(int(10.0 / database.CHECK_S)):
            one.check()
        assert given_up == []
        one.check()
        assert given_up == [connection]
    one.check()
    assert given_up == [connection]


def test_commits_that_take_long_lose_and_double_nothing(postgres: Server) -> None:
    """As with a slow disk: many requests are under way at once, some with one id on two nodes."""
    direct = postgres.log()

    async def work(proxy: Proxy, address: str) -> None:
        async with node(direct) as near, node(address) as far:
            await near.create(new_task())
            await until(lambda: "fruit" in far.task_names())
            proxy.delay_s = 0.03
            ids = [str(number % 25) for number in range(40)]
            found = await asyncio.gather(*(pair((near, far)[place % 2], one) for place, one in enumerate(ids)))
            answers = {answer["id"]: answer for answer in found}
            assert all(answers[answer["id"]] == answer for answer in found)
            proxy.delay_s = 0.0
            await check(direct, [near, far], answers)

    with between(direct) as (proxy, address):
        run(work(proxy, address))


def test_a_token_is_refused_at_the_next_look_and_that_is_several_times_a_second(postgres: Server) -> None:
    """Of each node: a look that began after the token was revoked has seen it."""
    assert tail.POLL_S <= 0.5
    address = postgres.log()
    settings = Settings(data=Path(), log=address)

    async def work() -> None:
        async with node(address) as one, node(address) as other:
            lists = [service.store.tokens(settings) for service in (one, other)]
            text = lists[0].create(["decide"])
            for tokens in lists:
                await until(lambda tokens=tokens: not tokens.open and tokens.check(text).scopes == {"decide"})  # type: ignore[misc]
            lists[0].revoke(text)
            for service, tokens in zip((one, other), lists, strict=True):
                looks: Any = service.store._tail  # type: ignore[union-attr]
                for _ in range(2):  # the first may have begun before
                    heard_at = looks.last_contact
                    await until(lambda looks=looks, heard_at=heard_at: looks.last_contact > heard_at)  # type: ignore[misc]
                with pytest.raises(Exception, match="token"):
                    tokens.check(text)

    run(work())


OLDER = """
import sys
from onebit.cli import main
from onebit.service.store.postgres import schema
schema.PROTOCOL -= 1
sys.exit(main(["serve", "--port", "0", "--log-format", "json", "--log", sys.argv[1]]))
"""


def test_nodes_of_an_older_protocol_are_replaced(postgres: Server, tmp_path: Path) -> None:
    """A process of the older one serves until it is ended, beside which no newer one starts; and then it cannot come back."""
    address = postgres.log()
    with connect(address) as connection:
        connection.execute("UPDATE head SET protocol = protocol - 1")

    def started(name: str) -> tuple[subprocess.Popen[bytes], Path]:
        errors = tmp_path / name
        with errors.open("wb") as file:
            return subprocess.Popen([sys.executable, "-c", OLDER, address], stderr=file, stdout=file), errors

    def port_of(errors: Path) -> int | None:
        for line in errors.read_text().splitlines():
            if line.startswith("{") and json.loads(line).get("event") == "listening":
                return int(json.loads(line)["address"].rpartition(":")[2])
        return None

    async def work() -> None:
        older, errors = started("older")
        try:
            await until(lambda: port_of(errors) is not None or older.poll() is not None)
            port = port_of(errors)
            assert port is not None, errors.read_text()
            async with await Client.to(port) as client:
                task = {"name": "fruit", "classes": ["a", "b", "c"], "learner": "banditron", "seed": 1}
                status, _ = await client.ask("POST", "/v1/tasks", {**task, "features": {"kind": "numbers", "size": 2}})
                assert status == 201
                with pytest.raises(InputError, match="stop them first"):
                    await Service(Settings(data=Path(), log=address)).start()
                status, first = await client.ask("POST", "/v1/tasks/fruit/decide", {"id": "a", "x": [1.0, 2.0]})
                assert status == 200
        finally:
            older.send_signal(signal.SIGTERM)
            assert older.wait(PATIENCE_S) == 0
        async with node(address) as new:
            again = await decided(new, "a", (1.0, 2.0))
            assert again == first
            assert await heard(new, "a") == "accepted"
            back, errors = started("back")
            assert await asyncio.to_thread(back.wait, PATIENCE_S) == 2
            assert "all nodes of a log must be of one kind" in errors.read_text()
            await decided(new, "b")

    run(work())
