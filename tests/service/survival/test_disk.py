"""Disks that are full, read-only, locked or broken: 503 with a reason, nothing acknowledged is lost, and it goes on by itself."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from onebit.errors import OnebitError
from onebit.service.errors import RequestError, UnavailableError, UnfinishedError
from onebit.service.service import Service
from onebit.service.store.errors import LogError
from onebit.service.store.reader import Reader
from onebit.service.store.rows import NAMES
from tests.service.driving import (
    PATIENCE_S,
    appender_of,
    ask,
    change,
    decided,
    everything_in,
    followed,
    heard,
    hint,
    locked,
    new_task,
    outcome,
    replayed,
    restarted,
    rows_of,
    run,
    service_in,
    snapshots_in,
    states,
    until,
    without_snapshots,
)
from tests.service.site import Process, process_in

pytestmark = pytest.mark.long


class Cause:
    """What keeps the log from being written, in this process."""

    def __init__(self, service: Service, kind: str) -> None:
        self._service, self._kind = service, kind
        self._undone = contextlib.ExitStack()

    def begin(self) -> None:
        if self._kind == "locked":
            self._undone.enter_context(locked(self._service.settings.data))
            return
        real = appender_of(self._service).connection
        troubled = Broken(real) if self._kind == "broken" else Set(real, self._kind)
        self._undone.enter_context(pytest.MonkeyPatch.context()).setattr(
            appender_of(self._service), "connection", troubled
        )

    def end(self) -> None:
        self._undone.close()


class Set:
    """A connection that is read-only or full while it is the writer's.

    It is set and set back around each statement, by the thread that makes it: where another thread sets a connection at the same
    moment, Python's sqlite3 can take one's error for the other's, and a BEGIN that failed for one that did not.
    """

    def __init__(self, connection: sqlite3.Connection, kind: str) -> None:
        self._connection = connection
        if kind == "read-only":
            self._begin, self._end = "PRAGMA query_only = ON", "PRAGMA query_only = OFF"
        else:  # as many pages as there are: a new one is SQLITE_FULL
            self._begin, self._end = "PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000"

    @contextlib.contextmanager
    def _set(self) -> Iterator[None]:
        self._connection.execute(self._begin)
        try:
            yield
        finally:
            self._connection.execute(self._end)

    def execute(self, statement: str) -> sqlite3.Cursor:
        with self._set():
            return self._connection.execute(statement)

    def executemany(self, statement: str, rows: list[Any]) -> sqlite3.Cursor:
        with self._set():
            return self._connection.executemany(statement, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Broken:
    """A connection of which every commit fails, after the rows were written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str) -> sqlite3.Cursor:
        if statement == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


CAUSES = ["locked", "read-only", "full", "broken"]
REASONS = {"locked": "lock", "read-only": "read-only", "full": "full", "broken": "disk I/O error"}
REFUSALS = {"broken": UnfinishedError} | dict.fromkeys(["locked", "read-only", "full"], UnavailableError)
LONG = "word " * 3000  # more than a page, so that a full disk is noticed at once


@pytest.mark.parametrize("kind", ["locked", "read-only", "broken"])
def test_it_is_said_and_it_goes_on_when_the_cause_is_gone(tmp_path: Path, kind: str) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(features={"kind": "text", "hash_bits": 6}))
            for number in range(10):
                await decided(service, str(number), f"{LONG} {number}")
            assert await heard(service, "0") == "accepted"
            await followed(service)
            written = everything_in(tmp_path)
            cause = Cause(service, kind)
            cause.begin()
            requests = [decided(service, f"new {number}", f"{LONG} {number}") for number in range(5)]
            requests += [heard(service, str(number)) for number in range(1, 6)]  # type: ignore[misc]
            requests += [service.decide("fruit", [ask("b1", LONG), ask("b2", LONG)], single=False)]  # type: ignore[list-item]
            requests += [service.feedback("fruit", [hint("6"), hint("7")], single=False)]  # type: ignore[list-item]
            requests += [service.change("fruit", change(add_classes=["d"]))]  # type: ignore[list-item]
            requests += [service.create(new_task("another"))]  # type: ignore[list-item]
            for one in await asyncio.gather(*(outcome(request) for request in requests)):
                assert type(one) is REFUSALS[kind], one
                assert REASONS[kind] in str(one)
            assert REASONS[kind] in str(service.failing)
            # What needs no new row is answered all the same.
            assert (await decided(service, "0", f"{LONG} 0"))["id"] == "0"
            assert await heard(service, "0") == "duplicate"
            assert service.task("fruit").classes == ["a", "b", "c"]
            assert service.task_names() == ["fruit"]
            assert everything_in(tmp_path) == written
            cause.end()
            await until(lambda: service.failing is None)  # with nobody asking
            assert everything_in(tmp_path) == written
            for number in range(5):
                await decided(service, f"new {number}", f"other {number}")
            for number in range(1, 8):
                assert await heard(service, str(number), False) == "accepted"
            await decided(service, "b1", "x")
            await service.change("fruit", change(add_classes=["d"]))
            await service.create(new_task("another"))
            found = await states(service)
            assert found["fruit"] == replayed(tmp_path, "fruit")
        assert await restarted(without_snapshots(tmp_path)) == found

    run(work())


@pytest.mark.parametrize("kind", CAUSES)
def test_causes_that_come_and_go_under_traffic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Whatever was acknowledged is there; whatever was refused is not, and its id can be used again."""
    chance = random.Random(kind)
    monkeypatch.setattr("onebit.service.core.commit.RETRY_S", 0.02)
    monkeypatch.setattr("onebit.service.store.sqlite.schema.BUSY_S", 0.02)

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(features={"kind": "text", "hash_bits": 6}))
            acknowledged: dict[str, Any] = {}
            told: dict[str, bool] = {}
            refused: set[str] = set()

            async def client(number: int) -> None:
                for turn in range(25):
                    identity, right = f"{number}-{turn}", chance.random() < 0.5
                    answer = await outcome(decided(service, identity, f"{LONG[: chance.randrange(len(LONG))]} {turn}"))
                    if isinstance(answer, RequestError):
                        assert type(answer) is REFUSALS[kind]
                        refused.add(identity)
                        continue
                    acknowledged[identity] = answer
                    for _ in range(2):
                        status = await outcome(heard(service, identity, right))
                        if isinstance(status, RequestError):
                            assert type(status) is REFUSALS[kind]
                        else:
                            told[identity] = right

            async def trouble() -> None:
                for _ in range(6):
                    await asyncio.sleep(chance.random() * 0.05)
                    cause = Cause(service, kind)
                    cause.begin()
                    await asyncio.sleep(chance.random() * 0.1)
                    cause.end()

            await asyncio.gather(trouble(), *(client(number) for number in range(8)))
            await until(lambda: service.failing is None)
            assert acknowledged
            assert {row[0] for row in rows_of(tmp_path, "SELECT id FROM decisions")} == set(acknowledged)
            logged = {identity: (await service.decision("fruit", identity)) for identity in acknowledged}
            for identity, answer in acknowledged.items():
                assert {name: logged[identity][name] for name in answer} == answer
                assert logged[identity]["right"] is told.get(identity)
            for identity in refused:
                await decided(service, identity, "again")
            found = await states(service)
            assert found["fruit"] == replayed(tmp_path, "fruit")
        assert await restarted(without_snapshots(tmp_path)) == found

    run(work())


def test_a_commit_that_failed_after_all_was_written_is_found_when_the_request_comes_again(tmp_path: Path) -> None:
    """What a disk kept though it said it had not is a row like any other, and its number is not given out twice."""

    class Kept(Broken):
        def execute(self, statement: str) -> sqlite3.Cursor:
            if statement == "COMMIT":
                self._connection.execute(statement)
            return super().execute(statement)

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            await decided(service, "a")
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(appender_of(service), "connection", Kept(appender_of(service).connection))
                unknown = await outcome(decided(service, "b"))
            assert isinstance(unknown, UnfinishedError)
            assert "it is unknown whether this was done: send it again" in str(unknown)
            kept = await service.decision("fruit", "b")
            again = await decided(service, "b")
            assert {name: kept[name] for name in again} == again
            for identity in "ab":
                assert await heard(service, identity) == "accepted"
            await decided(service, "c")
            await until(lambda: service.failing is None)
            assert [row[0] for row in rows_of(tmp_path, "SELECT id FROM decisions ORDER BY seq")] == ["a", "b", "c"]
            numbers = [row[0] for table in NAMES for row in rows_of(tmp_path, f"SELECT seq FROM {table}")]
            assert sorted(numbers) == list(range(1, 7))
            found = await states(service)
            assert found["fruit"] == replayed(tmp_path, "fruit")
        assert await restarted(without_snapshots(tmp_path)) == found

    run(work())


@pytest.mark.parametrize("error", [MemoryError(), ValueError("no such thing"), OverflowError("too large")])
def test_a_writer_that_meets_something_unforeseen_does_not_leave_anybody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Odd(Broken):
        def executemany(self, *_: Any) -> None:
            raise error

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            with monkeypatch.context() as patched:
                patched.setattr(appender_of(service), "connection", Odd(appender_of(service).connection))
                waiting = asyncio.create_task(outcome(decided(service, "a")))
                await asyncio.wait([waiting], timeout=3.0)
                assert waiting.done()
            assert isinstance(waiting.result(), Exception)
            await until(lambda: service.failing is None, 3.0)
            await decided(service, "a")

    run(work())


def test_a_learner_that_cannot_read_the_log_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            fails = {"left": 0}
            events, played, changes = Reader.events, Reader.played, Reader.changes

            def failing(real: Any) -> Any:
                def method(self: Reader, *arguments: Any) -> Any:
                    if fails["left"] > 0:
                        fails["left"] -= 1
                        raise LogError("disk I/O error")
                    return real(self, *arguments)

                return method

            monkeypatch.setattr("onebit.service.core.learner_thread.RETRY_S", 0.01)
            monkeypatch.setattr(Reader, "events", failing(events))
            monkeypatch.setattr(Reader, "played", failing(played))
            monkeypatch.setattr(Reader, "changes", failing(changes))
            for number in range(60):
                fails["left"] = number % 5
                await decided(service, str(number), (float(number % 7), 1.0))
                await heard(service, str(number), number % 3 == 0)
            await service.change("fruit", change(add_classes=["d"]))
            found = await states(service)
            assert service.stats("fruit")["decisions"] == 60
            assert found["fruit"] == replayed(tmp_path, "fruit")
        assert await restarted(without_snapshots(tmp_path)) == found

    run(work())


def test_a_log_that_cannot_be_read_for_a_moment_is_no_fault_of_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise LogError("disk I/O error")

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            await decided(service, "a")
            with monkeypatch.context() as patched:
                for name in ("decision_rows", "find_decisions", "decision", "newest"):
                    patched.setattr(Reader, name, fail)
                await decided(service, "b")  # a new id is looked for where its row is written
                refusal = await outcome(heard(service, "c"))
                assert isinstance(refusal, UnavailableError), repr(refusal)
                for look in (service.decision("fruit", "a"), service.decisions("fruit")):
                    with pytest.raises(UnavailableError):
                        await look
            await service.decision("fruit", "a")
            assert service.failing is None

    run(work())


def test_the_second_of_two_services_refuses(tmp_path: Path) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            for _ in range(3):
                error = await outcome(Service(service.settings).start())
                assert isinstance(error, OnebitError)
                assert "another `onebit serve`" in str(error)
            await decided(service, "a")
            written = everything_in(tmp_path)
        async with service_in(tmp_path) as service:
            assert everything_in(tmp_path) == written
            await decided(service, "b")

    run(work())


def test_the_second_of_two_processes_refuses(tmp_path: Path) -> None:
    with process_in(tmp_path):
        command = [sys.executable, "-m", "onebit", "serve", "--data", str(tmp_path), "--port", "0"]
        second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert second.returncode == 2
        assert "another `onebit serve` is using" in second.stderr
        assert "Traceback" not in second.stderr
        error = run(outcome(restarted(tmp_path)))
        assert "another `onebit serve`" in str(error)


def test_a_lock_file_that_was_left_behind_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("12345")
    assert run(restarted(tmp_path)) == {}


# --- in a process of its own -----------------------------------------------------------------------------------------


def filled(url: str, folder: Path, most: int = 400) -> tuple[dict[str, Any], httpx.Response]:
    """Decisions until the disk is full: those that were acknowledged, and the first refusal."""
    acknowledged: dict[str, Any] = {}
    with httpx.Client(base_url=url, timeout=30) as client:
        for number in range(most):
            answer = client.post("/v1/tasks/fruit/decide", json={"id": str(number), "x": LONG})
            if answer.status_code != 200:
                return acknowledged, answer
            acknowledged[str(number)] = answer.json()
    raise AssertionError("the disk is not full")


def assert_survives_a_full_disk(process: Process, folder: Path, make_room: Any) -> None:
    created = httpx.post(
        f"{process.url}/v1/tasks",
        json={"name": "fruit", "classes": 2, "learner": "banditron", "features": {"kind": "text", "hash_bits": 6}},
        timeout=PATIENCE_S,
    )
    assert created.status_code == 201
    acknowledged, refusal = filled(process.url, folder)
    assert acknowledged
    assert refusal.status_code == 503
    assert int(refusal.headers["retry-after"]) >= 1
    assert refusal.json()["error"]["code"] == "unavailable"
    assert "disk" in refusal.json()["error"]["message"]
    ready = httpx.get(f"{process.url}/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (503, False)
    assert "disk" in ready.json()["reason"]
    assert httpx.get(f"{process.url}/healthz").status_code == 200
    again = httpx.post(f"{process.url}/v1/tasks/fruit/decide", json={"id": "0", "x": LONG})
    assert again.json() == acknowledged["0"]
    make_room()
    deadline = time.monotonic() + 20
    while httpx.get(f"{process.url}/readyz").status_code != 200:  # with nobody deciding
        assert time.monotonic() < deadline
        time.sleep(0.05)
    identity = str(len(acknowledged))  # the one that was refused
    answer = httpx.post(f"{process.url}/v1/tasks/fruit/decide", json={"id": identity, "x": "another"})
    assert answer.status_code == 200
    heard = httpx.post(f"{process.url}/v1/tasks/fruit/feedback", json={"id": identity, "right": True})
    assert heard.json()["status"] == "accepted"
    acknowledged[identity] = answer.json()
    assert process.end() == 0
    assert {row[0] for row in rows_of(folder, "SELECT id FROM decisions")} == set(acknowledged)
    assert snapshots_in(folder)
    with process_in(folder) as again_started, httpx.Client(base_url=again_started.url) as client:
        for identity, before in acknowledged.items():
            kept = client.get(f"/v1/tasks/fruit/decisions/{identity}").json()
            assert {name: kept[name] for name in before} == before
    assert run(restarted(folder))["fruit"] == replayed(folder, "fruit")


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit of another process, which Linux can")
def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    import resource

    process = Process(tmp_path)
    try:
        pid = process._process.pid
        unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (400_000, unlimited[1]))
        assert_survives_a_full_disk(process, tmp_path, lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited))
    finally:
        process.end()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, check=False)
        if sys.platform == "linux"
        else None
    )
    if made is None or made.returncode:
        pytest.skip("a file system of one's own cannot be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_000_000))
    process = Process(small_disk / "data")
    try:
        assert_survives_a_full_disk(process, small_disk / "data", ballast.unlink)
    finally:
        process.end()


def test_a_disk_that_is_full_at_the_start(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    error = run(outcome(restarted(small_disk / "data")))
    assert isinstance(error, OnebitError)
    assert "\n" not in str(error)
    ballast.unlink()
    run(restarted(small_disk / "data"))


def test_a_disk_that_is_read_only_at_the_start(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    error = run(outcome(restarted(small_disk / "data")))
    assert isinstance(error, OnebitError)
    assert "\n" not in str(error)
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    run(restarted(small_disk / "data"))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    error = run(outcome(restarted(small_disk / "data")))
    assert isinstance(error, OnebitError)


def test_locked_at_the_start(tmp_path: Path) -> None:
    run(restarted(tmp_path))
    with locked(tmp_path):
        error = run(outcome(restarted(tmp_path)))
        assert error == {} or isinstance(error, OnebitError)
    run(restarted(tmp_path))
