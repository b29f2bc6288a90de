"""Two services on one log, since somebody removed the lock file: one of them stops, and no number is given twice."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from onebit.service.errors import RequestError, UnavailableError, UnfinishedError
from onebit.service.requests import NewLearner
from onebit.service.service import Service
from onebit.service.store.cache import DecisionCache
from onebit.service.store.errors import ForeignWriteError, LogError
from onebit.service.store.forgetting import Forgetting
from onebit.service.store.rows import NAMES
from onebit.service.store.sqlite.appender import SqliteAppender
from onebit.service.store.sqlite.schema import FILE
from tests.service.driving import (
    PATIENCE_S,
    appender_of,
    change,
    decided,
    everything_in,
    followed,
    heard,
    new_task,
    outcome,
    replayed,
    restarted,
    rows_of,
    run,
    service_in,
    states,
    until,
    without_snapshots,
)
from tests.service.site import Process, process_in, site_in
from tests.service.survival.test_disk import Broken


def numbers_in(folder: Path) -> list[int]:
    return sorted(row[0] for table in NAMES for row in rows_of(folder, f"SELECT seq FROM {table}"))


def test_after_the_lock_was_removed_the_first_of_two_services_stops(tmp_path: Path) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as first:
            await first.create(new_task())
            await decided(first, "a")
            (tmp_path / "lock").unlink()
            async with service_in(tmp_path) as second:

                async def talk(service: Service, name: str) -> list[Any]:
                    found = []
                    for number in range(30):
                        found.append(await outcome(decided(service, f"{name}{number}")))
                        found.append(await outcome(heard(service, f"{name}{number}")))
                    return found

                from_first, from_second = await asyncio.gather(talk(first, "first"), talk(second, "second"))
                assert not [one for one in from_second if isinstance(one, Exception)]
                refused = [one for one in from_first if isinstance(one, UnavailableError)]
                assert len([one for one in from_first if isinstance(one, RequestError)]) == 60
                assert "another service has taken over the folder" in str(refused[0])
                assert "nothing of this was done" in str(refused[0])
                assert "another service has taken over the folder" in str(first.failing)
                assert (await decided(first, "a"))["id"] == "a", "what needs no row is answered"
                await asyncio.sleep(0.8)
                assert first.failing is not None, "it does not come back by itself"
                assert second.failing is None
                found = await states(second)
        written = numbers_in(tmp_path)
        assert written == list(range(1, len(written) + 1))
        assert len(written) == 62
        assert await restarted(without_snapshots(tmp_path)) == found

    run(work())


def test_rows_of_another_program_stop_the_service(tmp_path: Path) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            await decided(service, "a")
            with closing(sqlite3.connect(tmp_path / FILE)) as connection:
                connection.execute(
                    "INSERT INTO feedback VALUES (3, 1, 2, 0.0, 'caller', 1, 0, 1, NULL, NULL, NULL, NULL)"
                )
                connection.commit()
            before = everything_in(tmp_path)
            for _ in range(2):
                error = await outcome(decided(service, "b"))
                assert isinstance(error, UnavailableError)
                assert "another program has written to the log: it ended at row 2, and now ends at row 3" in str(error)
            assert "another program" in str(service.failing)
            assert everything_in(tmp_path) == before
        await restarted(tmp_path)

    run(work())


# --- what nobody knows -------------------------------------------------------------------------------------------------


class Kept(Broken):
    """A connection of which a commit fails though it was done."""

    def execute(self, statement: str) -> sqlite3.Cursor:
        if statement == "COMMIT":
            self._connection.execute(statement)
        return super().execute(statement)


class Failing(Broken):
    """A connection of which a commit fails with an error of SQLite."""

    name = ""

    def execute(self, statement: str) -> sqlite3.Cursor:
        if statement == "COMMIT":
            error = sqlite3.OperationalError("it failed")
            error.sqlite_errorname = self.name
            raise error
        return self._connection.execute(statement)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SQLITE_FULL", UnavailableError),
        ("SQLITE_BUSY", UnavailableError),
        ("SQLITE_READONLY", UnavailableError),
        ("SQLITE_IOERR_WRITE", UnavailableError),
        ("SQLITE_IOERR_FSYNC", UnfinishedError),
        ("SQLITE_IOERR", UnfinishedError),
        ("SQLITE_NOMEM", UnfinishedError),
    ],
)
def test_a_commit_that_failed_is_said_to_be_undone_only_where_that_is_known(
    tmp_path: Path, name: str, kind: type[RequestError]
) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            await decided(service, "a")
            with pytest.MonkeyPatch.context() as patched:
                failing = Failing(appender_of(service).connection)
                failing.name = name
                patched.setattr(appender_of(service), "connection", failing)
                for request in (decided(service, "b"), heard(service, "a"), service.create(new_task("more"))):
                    error = await outcome(request)
                    assert type(error) is kind
                    said = "it is unknown whether" if kind is UnfinishedError else "nothing of this was done"
                    assert said in str(error)
            await until(lambda: service.failing is None)
            assert await heard(service, "a") == "accepted"
            await decided(service, "b")

    run(work())


def test_feedback_that_was_kept_though_the_commit_failed_is_learnt_and_not_taken_twice(tmp_path: Path) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            for identity in "abc":
                await decided(service, identity)
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(appender_of(service), "connection", Kept(appender_of(service).connection))
                assert isinstance(await outcome(heard(service, "a")), UnfinishedError)
                assert await heard(service, "a") == "duplicate"
            await decided(service, "d")  # no feedback comes with it
            await followed(service)
            assert service.stats("fruit")["feedback"] == 1
            assert await heard(service, "b") == "accepted"
            found = await states(service)
            assert found["fruit"] == replayed(tmp_path, "fruit")
        assert await restarted(without_snapshots(tmp_path)) == found

    run(work())


def test_a_change_that_was_kept_though_the_commit_failed_stops_the_service(tmp_path: Path) -> None:
    """What is in memory is then not what the log says; a start brings the two together."""

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(appender_of(service), "connection", Kept(appender_of(service).connection))
                assert isinstance(await outcome(service.change("fruit", change(add_classes=["d"]))), UnfinishedError)
            assert isinstance(await outcome(decided(service, "a")), UnavailableError)
            assert "a change of a task was written" in str(service.failing)
        async with service_in(tmp_path) as service:
            assert service.task("fruit").classes == ["a", "b", "c", "d"]
            await decided(service, "a")

    run(work())


class KeptWithRows(Kept):
    """The same, for statements with values."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self._connection.execute(statement, *values) if values else super().execute(statement)


def test_no_number_is_given_twice_after_rows_were_forgotten_though_the_commit_failed(tmp_path: Path) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            await decided(service, "a")

    run(work())
    appender = SqliteAppender(tmp_path / FILE, lambda *_: None, DecisionCache())
    with closing(appender):
        appender.append([])  # the end of the log has been looked at
        task = appender.connection.execute("SELECT task FROM decisions").fetchone()[0]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(appender, "connection", KeptWithRows(appender.connection))
            with pytest.raises(LogError, match="disk I/O error"):
                appender.forget(Forgetting(task, ["a"], None, None), 0.0, None, None)
        with pytest.raises(ForeignWriteError, match="a change of a task was written although the disk had reported"):
            appender.append([])


# --- whose change it was -----------------------------------------------------------------------------------------------


def test_every_change_has_the_id_of_the_token_that_it_was_made_with(tmp_path: Path) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(), "one")
            await service.change("fruit", change(mode="log-only"), "two")
            await service.switch("fruit", NewLearner(learner="banditron", seed=3), "three")
            await until(lambda: service.task("fruit").training is None)
            await service.delete("fruit", "four")
            await service.create(new_task())  # where there are no tokens

    run(work())
    assert rows_of(tmp_path, "SELECT kind, token FROM changes ORDER BY seq") == [
        ("created", "one"),
        ("changed", "two"),
        ("changed", "three"),  # a learner is to be trained
        ("learner", "three"),
        ("deleted", "four"),
        ("created", None),
    ]


def test_the_id_of_the_token_comes_from_the_request(tmp_path: Path) -> None:
    with site_in(tmp_path) as site:
        token = site.tokens.create(["admin"])
        body = new_task().model_dump(mode="json")
        assert site.ask("POST", "/v1/tasks", token, json=body).status_code == 201
        assert site.ask("PATCH", "/v1/tasks/fruit", token, json={"mode": "log-only"}).status_code == 200
        assert site.ask("DELETE", "/v1/tasks/fruit", token).status_code == 200
    assert rows_of(tmp_path, "SELECT DISTINCT token FROM changes") == [(token.split("_")[1],)]
    assert len(rows_of(tmp_path, "SELECT * FROM changes")) == 3


# --- a disk that fails -------------------------------------------------------------------------------------------------

SHIM = """
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int failing(void) { return access(getenv("FAILING"), F_OK) == 0; }
int fsync(int file) { if (failing()) { errno = EIO; return -1; } return syscall(SYS_fsync, file); }
int fdatasync(int file) { if (failing()) { errno = EIO; return -1; } return syscall(SYS_fdatasync, file); }
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs a C compiler on Linux")
def test_an_fsync_that_fails_is_answered_with_what_is_known(tmp_path: Path) -> None:
    """The row is in the journal, and a start after a crash finds it: so nobody could say that nothing was done."""
    (tmp_path / "shim.c").write_text(SHIM)
    shim, failing, folder = tmp_path / "shim.so", tmp_path / "failing", tmp_path / "data"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), str(tmp_path / "shim.c")], check=True)
    process = Process(folder, LD_PRELOAD=str(shim), FAILING=str(failing))
    try:
        with httpx.Client(base_url=process.url, timeout=PATIENCE_S) as client:
            body = new_task().model_dump(mode="json")
            assert client.post("/v1/tasks", json=body).status_code == 201
            assert client.post("/v1/tasks/fruit/decide", json={"id": "a", "x": [1, 2]}).status_code == 200
            failing.touch()
            answer = client.post("/v1/tasks/fruit/decide", json={"id": "b", "x": [1, 2]})
            assert answer.status_code == 504
            assert answer.json()["error"]["code"] == "unfinished"
            assert "it is unknown whether this was done" in answer.json()["error"]["message"]
            assert client.get("/readyz").status_code == 503
    finally:
        process.end(signal.SIGKILL)
    with process_in(folder) as again, httpx.Client(base_url=again.url, timeout=PATIENCE_S) as client:
        assert client.post("/v1/tasks/fruit/decide", json={"id": "b", "x": [1, 2]}).status_code == 200
        assert client.post("/v1/tasks/fruit/feedback", json={"id": "b", "right": True}).json()["status"] == "accepted"
    assert numbers_in(folder) == [1, 2, 3, 4]
