"""The machine of the database is lost, and its synchronous standby takes over: what was acknowledged is there, and the nodes go on by themselves."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from onebit.service.errors import UnavailableError, UnfinishedError
from onebit.service.store.postgres.schema import connect
from tests.service.driving import decided, heard, new_task, outcome, run, until
from tests.service.postgres import PROGRAMS, Server, _as_server, needs_postgres, rows_in, server
from tests.service.test_nodes import nodes, numbers_in, replayed_state, settled_states

pytestmark = [pytest.mark.long, needs_postgres]


def standby_of(primary: Server, folder: Path) -> Server:
    """A standby that follows a server, and runs."""
    assert PROGRAMS is not None
    made = Server(folder, hot_standby="on")
    address = f"host=127.0.0.1 port={primary.port} user=postgres application_name=second"
    subprocess.run(
        _as_server(
            str(PROGRAMS / "pg_basebackup"), "-D", str(made.data), "-R", "-X", "stream", "-c", "fast", "-d", address
        ),
        check=True,
    )
    made.start()
    return made


def test_a_synchronous_standby_takes_over() -> None:
    async def work(first: Server, second: Server) -> None:
        first_address = first.database()
        name = first_address.rpartition("/")[2]
        hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        address = f"postgresql://postgres@{hosts}/{name}?target_session_attrs=read-write"
        with connect(first_address) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'second'")
            connection.execute("SELECT pg_reload_conf()")
            waiting = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            await until(lambda: connection.execute(waiting).fetchone() == (1,))
        async with nodes(address, 2) as services:
            await services[0].create(new_task())
            await until(lambda: all("fruit" in service.task_names() for service in services))
            answers: dict[str, Any] = {}
            told: set[str] = set()
            ended = False

            async def client(number: int) -> None:
                turn = 0
                while not ended:
                    identity, turn = f"{number}-{turn}", turn + 1
                    while (answer := await outcome(decided(services[turn % 2], identity))) is None or isinstance(
                        answer, Exception
                    ):
                        assert isinstance(answer, UnavailableError | UnfinishedError), repr(answer)
                        await asyncio.sleep(0.05)
                    answers[identity] = answer
                    status = await outcome(heard(services[number % 2], identity))
                    if status in ("accepted", "duplicate"):
                        told.add(identity)

            clients = [asyncio.create_task(client(number)) for number in range(4)]
            await asyncio.sleep(1.0)
            before = len(answers)
            await asyncio.to_thread(first.kill)  # for good
            with connect(second.address("postgres")) as connection:
                connection.execute("SELECT pg_promote()")
            await until(lambda: all(service.failing is None for service in services) and len(answers) > before + 8)
            ended = True
            await asyncio.gather(*clients)
            found = await settled_states(address, services)
            assert found[0] == found[1] == replayed_state(address)
        logged = {row[0]: row[1] for row in rows_in(address, "SELECT id, label FROM decisions")}
        assert logged == {identity: "abc".index(answer["label"]) for identity, answer in answers.items()}
        heard_of = {
            row[0] for row in rows_in(address, "SELECT d.id FROM feedback f JOIN decisions d ON d.seq = f.decision")
        }
        assert told <= heard_of
        last = rows_in(address, "SELECT seq FROM head")[0][0]
        assert numbers_in(address) == list(range(1, last + 1))

    with server() as first, tempfile.TemporaryDirectory(prefix="onebit-standby-", ignore_cleanup_errors=True) as folder:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        second = standby_of(first, Path(folder))
        try:
            run(work(first, second))
        finally:
            second.stop()
