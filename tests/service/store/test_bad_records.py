"""Rows that the disk, or somebody else, has changed: their task is quarantined with a sentence that names it, and all others go on."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onebit.cli import main
from onebit.client import Client
from onebit.errors import OnebitError
from onebit.learner.learner import wrap_runtime
from onebit.learner.model_file import read_file
from onebit.learner.state import load_state
from onebit.service.core.follower import LogFollower
from onebit.service.core.statistics import Statistics
from onebit.service.errors import RequestError, TaskQuarantinedError, UnavailableError
from onebit.service.requests import NewLearner
from onebit.service.service import Service
from onebit.service.store.errors import DamagedLogError, LogError
from onebit.service.store.reader import Reader
from onebit.service.store.snapshots import Snapshot, pack_snapshot
from onebit.service.store.sqlite.schema import FILE
from onebit.service.store.sqlite.store import SqliteStore
from tests.golden.write import HERE
from tests.service.driving import (
    TEXT,
    ask,
    change,
    decided,
    followed,
    heard,
    hint,
    new_task,
    number_of,
    outcome,
    rows_of,
    run,
    service_in,
    snapshots_in,
    until,
    until_silence,
    without_snapshots,
)
from tests.service.site import error_in, process_in, site_in

DICT = {"kind": "dict", "hash_bits": 8}
NAN, INFINITE = (f"x'{struct.pack('<2d', 1.0, value).hex()}'" for value in (float("nan"), float("inf")))
NO_TEXT = "CAST(x'ff41' AS TEXT)"

# What a learner reads when it follows the log: found at the start.
FOLLOWED = [
    *(("decisions", "id", value) for value in (NO_TEXT, "''", "printf('%.*c', 201, 'x')")),
    *(("decisions", "time", value) for value in ("9e999", "-1e300")),
    ("decisions", "generation", "0"),
    *(("decisions", "label", value) for value in ("4611686018427387904", "-1", "3")),
    *(("decisions", "greedy", value) for value in ("-9223372036854775808", "3")),
    *(("decisions", "weight", value) for value in ("9e999", "-0.5", "1e300")),
    ("decisions", "note", "9e999"),
    ("decisions", "second_note", "-9e999"),
    *(("decisions", "propensity", value) for value in ("-9e999", "1.5")),
    *(("decisions", "x", value) for value in ("x''", "zeroblob(8)", "zeroblob(15)", "zeroblob(24)", NAN, INFINITE)),
    ("decisions", "task", "77"),
    ("feedback", "decision", "999999"),
    ("feedback", "time", "9e999"),
    *(("feedback", "source", value) for value in ("'nobody'", NO_TEXT)),
    *(("feedback", column, "7") for column in ("right", "late", "learn")),
    *(("feedback", "shown", value) for value in ("9", "4611686018427387904", "1")),
    *(("feedback", "shown_propensity", value) for value in ("0.5", "9e999")),
    *(("decisions", "among", value) for value in ("x''", "x'0000'", "x'0100000000000000'", "x'09000000'")),
    *(("decisions", column, value) for column, value in (("complete", "7"), ("raw", "9e999"), ("confidence", "1.5"))),
    ("decisions", "sure", "1.5"),
    *(("feedback", column, value) for column, value in (("reward", "1.5"), ("truth", "3"))),
    *(("revisions", "feedback", value) for value in ("999999", "2")),
    *(("revisions", column, value) for column, value in (("time", "9e999"), ("right", "7"), ("reward", "-1.0"))),
    ("revisions", "shown", "1"),
    *(("changes", "detail", value) for value in ("'{'", "'[]'", "'{}'", "''", NO_TEXT, '\'{"name": "bad"}\'')),
    ("changes", "detail", "replace(detail, '\"c\"', '\"a\"')"),
    ("changes", "detail", "replace(detail, '[\"a\"', '[null')"),
    ("changes", "detail", "replace(detail, '\"size\": 2', '\"size\": -2')"),
    ("changes", "detail", "replace(detail, 'banditron', 'nobody')"),
    ("changes", "detail", "replace(detail, '\"seed\": 1', '\"seed\": NaN')"),
    ("changes", "detail", 'replace(detail, \'"name": "bad"\', \'"name": "good"\')'),
    ("changes", "kind", "'nothing'"),
    ("changes", "kind", "'learner'"),
    ("changes", "time", "9e999"),
]
# What only those see who look at a decision.
LOOKED_AT = [
    *(("mode", value) for value in ("'nonsense'", NO_TEXT)),
    ("learnt", "-1"),
    *(("probabilities", value) for value in ("x''", "zeroblob(7)", "zeroblob(800)", NAN, INFINITE)),
]


async def _fill(service: Service) -> None:
    for name in ("bad", "good"):
        await service.create(new_task(name))
        for number in range(6):
            await decided(service, f"{name}{number}", task=name)
            if number:
                await heard(service, f"{name}{number}", number % 2 == 0, task=name)
        second = [hint(f"{name}1", revise=True), hint(f"{name}2", False, revise=True), hint(f"{name}5", revise=True)]
        await service.feedback(name, second, single=False)
    await followed(service)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tasks, `bad` and `good`, and no snapshot."""
    folder = tmp_path_factory.mktemp("log") / "data"

    async def work() -> None:
        async with service_in(folder) as service:
            await _fill(service)

    run(work())
    return without_snapshots(folder)


@contextlib.contextmanager
def as_an_attacker(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection that may change rows; the triggers that count new ones stay."""
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%RAISE%'"
        ).fetchall()
        connection.execute("PRAGMA ignore_check_constraints = 1")
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for _, statement in triggers:
            connection.execute(statement)


def damage(folder: Path, table: str, column: str, value: str, task: str = "bad") -> int:
    """Change a row of a task, one in the middle; its seq."""
    number = number_of(folder, task)
    among = "AND seq IN (SELECT decision FROM feedback)" if table == "decisions" else ""
    rows = rows_of(folder, f"SELECT seq FROM {table} WHERE task = ? {among} ORDER BY seq", number)
    seq = int(rows[len(rows) // 2][0])
    with as_an_attacker(folder) as connection:
        connection.execute(f"UPDATE {table} SET {column} = {value} WHERE seq = ?", (seq,))
    return seq


def damaged_copy(log: Path, folder: Path, table: str, column: str, value: str) -> int:
    shutil.copytree(log, folder)
    return damage(folder, table, column, value)


@pytest.mark.parametrize(("table", "column", "value"), FOLLOWED)
def test_a_bad_row_sets_its_task_aside_and_no_other(
    log: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, table: str, column: str, value: str
) -> None:
    folder = tmp_path / "data"
    seq = damaged_copy(log, folder, table, column, value)

    async def work() -> None:
        async with service_in(folder) as service:
            assert service.task_names() == ["good"]
            (aside,) = service.quarantined()
            if "nobody" not in value and "good" not in value:  # a learner, or a name, of another task is no row's fault
                where = f"row {seq} of" if (column, value) != ("task", "77") else "of feedback"
                assert where in aside["reason"]
            assert aside["reason"].startswith("task ")
            assert service.failing is None
            assert isinstance(await outcome(service.decide(aside["name"], [ask("new")])), TaskQuarantinedError)
            await decided(service, "new", task="good")
            await heard(service, "new", task="good")
            await followed(service)
            assert service.stats("good")["learnt"] == 6
            await service.delete(aside["name"])
            assert service.quarantined() == []
            if aside["name"] == "bad":
                await service.create(new_task("bad"))
        async with service_in(folder) as service:
            assert service.quarantined() == []
            assert "good" in service.task_names()

    run(work())
    assert [record for record in caplog.records if record.__dict__.get("event") == "task-quarantined"]
    assert not [record for record in caplog.records if record.exc_info]  # a sentence, and no traceback


@pytest.mark.parametrize(("column", "value"), LOOKED_AT)
def test_a_bad_row_that_a_request_meets(log: Path, tmp_path: Path, column: str, value: str) -> None:
    folder = tmp_path / "data"
    seq = damaged_copy(log, folder, "decisions", column, value)

    async def work() -> None:
        async with service_in(folder) as service:
            assert service.task_names() == ["bad", "good"]
            with pytest.raises(TaskQuarantinedError, match=f"task 'bad', row {seq} of decisions: "):
                await service.decisions("bad")
            with pytest.raises(TaskQuarantinedError, match=f"row {seq} of decisions"):
                service.stats("bad")
            assert len(await service.decisions("good")) == 6
            assert service.failing is None

    run(work())


@pytest.mark.parametrize(
    ("features", "x", "values"),
    [
        (TEXT, "a word", ("x'ff'", "x'6162c3'")),
        (
            DICT,
            {"a": 1.0},
            ("x'ff'", "x''", "x'5b5d'", "CAST('{\"a\": null}' AS BLOB)", "CAST('{\"a\": 1e999}' AS BLOB)"),
        ),
    ],
)
def test_an_x_that_is_none(tmp_path: Path, features: dict[str, Any], x: Any, values: tuple[str, ...]) -> None:
    folder = tmp_path / "data"

    async def fill() -> None:
        async with service_in(folder) as service:
            for name in ("bad", "good"):
                await service.create(new_task(name, features=features))
                await decided(service, "one", x, name)
                await heard(service, "one", task=name)

    async def work(copy: Path, seq: int) -> None:
        async with service_in(copy) as service:
            assert service.task_names() == ["good"]
            assert f"row {seq} of decisions: x " in service.quarantined()[0]["reason"]

    run(fill())
    without_snapshots(folder)
    for place, value in enumerate(values):
        run(work(copy := tmp_path / str(place), damaged_copy(folder, copy, "decisions", "x", value)))
        assert copy.exists()


@pytest.mark.parametrize("command", ["export", "evaluate", "replay"])
@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("decisions", "x", NAN),
        ("decisions", "label", "4611686018427387904"),
        ("decisions", "id", NO_TEXT),
        ("changes", "detail", "'{'"),
    ],
)
def test_commands_say_which_task_and_row(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, table: str, column: str, value: str
) -> None:
    folder = tmp_path / "data"
    seq = damaged_copy(log, folder, table, column, value)
    of_export = ["--format", "ndjson", "--out", str(tmp_path / "out")]
    more = of_export if command == "export" else ["--learner", "banditron"]
    assert main([command, str(folder), "bad", "--quiet", *more]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "task" in errors
    assert f"row {seq} of {table}" in errors
    assert main([command, str(folder), "good", "--quiet", *more]) == 0


def test_a_generation_that_no_change_tells_of(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged_copy(log, tmp_path / "data", "decisions", "generation", "5")
    assert main(["evaluate", str(tmp_path / "data"), "bad", "--quiet", "--learner", "banditron"]) == 2
    assert "generation 5" in capsys.readouterr().err


# --- while the service runs ------------------------------------------------------------------------------------------


def test_a_bad_row_while_the_service_runs(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    async def work() -> None:
        async with service_in(folder) as service:
            await _fill(service)
            await followed(service)
        async with service_in(folder) as service:  # which has not written these rows itself, and so reads them
            with as_an_attacker(folder) as connection:
                connection.execute("UPDATE decisions SET weight = 9e999 WHERE id = 'bad0'")
            await heard(service, "bad0", task="bad")
            await until(service.quarantined)
            assert "weight is inf" in service.quarantined()[0]["reason"]
            with pytest.raises(TaskQuarantinedError):
                service.task("bad")
            await heard(service, "good0", task="good")
            await until(lambda: service.stats("good")["learnt"] == 6)
            assert service.failing is None
            deleted = await service.delete("bad")
            assert deleted.name == "bad"
            await service.create(new_task("bad"))
            assert service.quarantined() == []

    run(work())


def test_silence_for_a_bad_row(tmp_path: Path) -> None:
    """Deadlines of one task cannot be looked after; those of the other are."""
    folder = tmp_path / "data"

    async def work() -> None:
        async with service_in(folder) as service:
            for name in ("bad", "good"):
                await service.create(new_task(name))
                await decided(service, "before", task=name)
                await service.change(name, change(deadline_s=1e-3, silence="wrong"))
            with as_an_attacker(folder) as connection:  # before the sweep, which is every half second
                await decided(service, "one", task="bad")
                connection.execute("UPDATE decisions SET mode = 'x' WHERE id = 'one'")
            await decided(service, "one", task="good")
            await until(lambda: [one["name"] for one in service.quarantined()] == ["bad"])
            await until_silence(service, "one", "good")
            assert (await service.decision("good", "one"))["source"] == "silence"

    run(work())


def test_a_learner_trained_from_bad_rows(tmp_path: Path) -> None:
    """The learner that decides is past the bad row, and goes on; the one that was to take over says why it cannot."""
    folder = tmp_path / "data"

    async def work() -> None:
        async with service_in(folder) as service:
            await _fill(service)
            await followed(service)  # so that there is a snapshot
        seq = damage(folder, "decisions", "x", NAN)
        async with service_in(folder) as service:
            await service.switch("bad", NewLearner(learner="banditron", parameters={"exploration": 0.2}))
            await until(lambda: (training := service.task("bad").training) is not None and training.error)
            training = service.task("bad").training
            assert training is not None
            assert f"task 'bad', row {seq} of decisions: x has a number that is not finite" in str(training.error)
            await decided(service, "new", task="bad")

    run(work())


def test_a_fault_in_learning_one_task_is_that_task_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    follow = LogFollower.follow

    def faulty(follower: LogFollower, *arguments: Any) -> None:
        if follower.expected.name == "bad":
            raise ZeroDivisionError("a fault")
        follow(follower, *arguments)

    async def work() -> None:
        async with service_in(tmp_path / "data") as service:
            await _fill(service)
            await followed(service)
            monkeypatch.setattr(LogFollower, "follow", faulty)
            await heard(service, "bad0", task="bad")
            await heard(service, "good0", task="good")
            await until(lambda: service.stats("good")["learnt"] == 6)
            assert "a fault" in service.quarantined()[0]["reason"]
            assert service.failing is None

    run(work())
    (record,) = [record for record in caplog.records if record.__dict__.get("event") == "task-quarantined"]
    assert record.exc_info is not None  # a fault of the program, whose place must be found


def test_what_cannot_be_read_for_one_task_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = Reader.events

    def unreadable(reader: Reader, of: Any, *arguments: Any) -> Any:
        if of.name == "bad":
            raise LogError("disk I/O error")
        return events(reader, of, *arguments)

    async def work() -> None:
        async with service_in(tmp_path / "data") as service:
            await _fill(service)
            await followed(service)
            with monkeypatch.context() as patch:
                patch.setattr(Reader, "events", unreadable)
                await heard(service, "bad0", task="bad")
                await until(lambda: service.failing)
                await heard(service, "good0", task="good")
                await until(lambda: service.stats("good")["learnt"] == 6)
                assert service.quarantined() == []
            await until(lambda: service.failing is None)
            assert service.stats("bad")["learnt"] == 6

    run(work())


def test_a_dead_thread_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.excepthook", lambda _: None)

    async def work() -> None:
        async with service_in(tmp_path / "data") as service:
            await service.create(new_task())

            def gone(*arguments: Any) -> Any:
                raise SystemExit

            monkeypatch.setattr(service.learner_thread, "_follow_all", gone)
            await decided(service, "one")
            await until(lambda: service.failing is not None)
            assert service.failing == "the thread onebit-learner has ended; start the service again"

    run(work())


def test_a_snapshot_and_the_log_that_disagree(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Such a snapshot is not used, and the log takes its place."""
    folder = tmp_path / "data"

    async def work() -> None:
        async with service_in(folder) as service:
            await _fill(service)
            await followed(service)
            expected = service.stats("bad")["learnt"]
        number = number_of(folder, "bad")
        paths = [one for one in snapshots_in(folder) if one.parent.name == str(number)]
        manifest, arrays = read_file(paths[-1])
        beside = manifest.pop("service")
        learner = wrap_runtime(load_state(manifest, arrays))
        learner.add_class("another")
        other = Snapshot(learner, 1, beside["position"], beside["revised"], beside["mark"], Statistics(4))
        for path in paths:
            path.unlink()
        SqliteStore(folder).snapshots(number, 3).write(pack_snapshot(other))
        async with service_in(folder) as service:
            assert service.stats("bad")["learnt"] == expected
            assert service.quarantined() == []

    run(work())
    assert "disagree" in caplog.text


@pytest.mark.parametrize(
    "change_of",
    [{"delays": [1]}, {"open": []}, {"block": 0}, {"classes": [[1], [1, 2], [3]]}, {"seconds": [["a", 1, 2]]}],
)
def test_statistics_that_are_none(change_of: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="statistics"):
        Statistics.from_dict({**Statistics(3).to_dict(), **change_of})


# --- what operators see ------------------------------------------------------------------------------------------------


def test_what_is_said_of_a_task_that_is_quarantined(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    seq = damaged_copy(log, folder, "decisions", "label", "4611686018427387904")
    with site_in(folder) as site:
        ready = site.ask("GET", "/readyz")
        assert ready.status_code == 200
        reason = f"task 'bad', row {seq} of decisions: label is 4611686018427387904, but must be less than 3"
        aside = [{"name": "bad", "reason": reason}]
        assert ready.json() == {"ready": True, "reason": None, "quarantined": aside, "warnings": []}
        listed = site.ask("GET", "/v1/tasks").json()
        assert [task["name"] for task in listed["tasks"]] == ["good"]
        assert listed["quarantined"] == aside
        for method, path, body in (
            ("GET", "", None),
            ("GET", "/stats", None),
            ("GET", "/decisions", None),
            ("GET", "/decisions/bad1", None),
            ("GET", "/explanation?id=bad1", None),
            ("GET", "/item?number=0", None),
            ("PATCH", "", {"mode": "shadow"}),
            ("POST", "/decide", {"x": [1, 2]}),
            ("POST", "/feedback", {"id": "bad1", "right": True}),
            ("POST", "/learner", {"learner": "banditron"}),
        ):
            answer = site.ask(method, f"/v1/tasks/bad{path}", json=body)
            assert answer.status_code == 503, path
            assert error_in(answer.content) == {
                "code": "quarantined",
                "message": f"the task is quarantined: {reason}",
                "field": None,
            }
        assert site.ask("POST", "/v1/tasks", json=new_task("bad").model_dump()).status_code == 409
        metrics = site.ask("GET", "/metrics").text
        assert 'onebit_quarantined_tasks{task="bad"} 1.0' in metrics
        assert "onebit_ready 1.0" in metrics
        assert 'onebit_decisions_total{task="bad"}' not in metrics
        secret, foreign = site.tokens.create(["admin"]), site.tokens.create(["read"], ["good"])
        seen = site.ask("GET", "/readyz", foreign).json()
        assert (seen["quarantined"], seen["ready"]) == ([], True)
        assert seen["warnings"] == ["quarantined tasks that this token cannot see: 1"]
        assert site.ask("GET", "/v1/tasks", foreign).json()["quarantined"] == []
        assert site.ask("DELETE", "/v1/tasks/bad", foreign).status_code == 403
        deleted = site.ask("DELETE", "/v1/tasks/bad", secret)
        assert (deleted.status_code, deleted.json()) == (200, aside[0])
        assert site.ask("DELETE", "/v1/tasks/bad", secret).status_code == 404
        assert site.ask("POST", "/v1/tasks", secret, json=new_task("bad").model_dump()).status_code == 201


def test_snapshots_that_never_succeed(tmp_path: Path) -> None:
    """They are counted, and after three in a row it is said; the service goes on, and loses nothing."""
    folder = tmp_path / "data"
    with site_in(folder, snapshot_every=1) as site:
        assert site.ask("POST", "/v1/tasks", json=new_task().model_dump()).status_code == 201
        metrics = site.ask("GET", "/metrics").text
        assert 'onebit_snapshot_age_seconds{task="fruit"}' in metrics  # there was none yet
        place = folder / "snapshots" / str(number_of(folder, "fruit"))
        place.parent.mkdir(exist_ok=True)
        while not place.is_file():  # a snapshot that is being written may bring its folder back
            shutil.rmtree(place, ignore_errors=True)
            with contextlib.suppress(IsADirectoryError):
                place.write_text("no folder")
        for number in range(1000):
            assert site.ask("POST", "/v1/tasks/fruit/decide", json={"x": [1, number]}).status_code == 200
            if site.service.readiness(lambda _: True)["warnings"]:
                break
        ready = site.ask("GET", "/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (200, True)
        assert "snapshots of task 'fruit' could not be written" in ready.json()["warnings"][0]
        assert 'onebit_snapshot_failures_total{task="fruit"}' in (text := site.ask("GET", "/metrics").text)
        assert "onebit_warnings 1.0" in text
        place.unlink()
        for number in range(1000):
            assert site.ask("POST", "/v1/tasks/fruit/decide", json={"x": [2, number]}).status_code == 200
            if not site.service.readiness(lambda _: True)["warnings"]:
                break
        assert site.ask("GET", "/readyz").json()["warnings"] == []


def test_a_log_that_is_garbled_while_the_service_runs(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with site_in(folder) as site:
        assert site.ask("POST", "/v1/tasks", json=new_task().model_dump()).status_code == 201
        assert site.ask("GET", "/readyz").status_code == 200
        for name in (FILE, f"{FILE}-wal"):
            path = folder / name
            with contextlib.suppress(FileNotFoundError):  # who has seen the damage in the first takes the second away
                path.write_bytes(random.Random(1).randbytes(path.stat().st_size))
        ready = site.ask("GET", "/readyz")
        site.service.inquiry._probe_time = 0.0
        ready = site.ask("GET", "/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert ready.json()["reason"]


def test_damage_that_a_request_met_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(*arguments: Any) -> Any:
        raise DamagedLogError("the file is damaged (database disk image is malformed)")

    async def work() -> None:
        async with service_in(tmp_path / "data") as service:
            await service.create(new_task())
            with monkeypatch.context() as patch:
                patch.setattr(Reader, "newest", torn)
                with pytest.raises(UnavailableError, match="the file is damaged"):
                    await service.decisions("fruit")
            await service.inquiry.probe()  # which finds nothing
            assert "the file is damaged" in str(service.failing)

    run(work())


def test_what_passes_is_forgotten_when_the_log_can_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*arguments: Any) -> Any:
        raise LogError("database is locked")

    async def work() -> None:
        async with service_in(tmp_path / "data") as service:
            await service.create(new_task())
            with monkeypatch.context() as patch:
                patch.setattr(Reader, "newest", busy)
                with pytest.raises(UnavailableError):
                    await service.decisions("fruit")
            assert "locked" in str(service.failing)
            await until(lambda: service.failing is None)  # with nobody asking

    run(work())


def test_the_client_deletes_a_task_that_is_quarantined(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    damaged_copy(log, folder, "changes", "detail", "'{'")
    with process_in(folder) as process, Client(process.url) as client:
        ready = client.ready()
        assert ready
        (aside,) = ready.quarantined
        assert aside.name == "damaged-1"
        assert client.task(aside.name).delete() == aside
        assert client.ready().quarantined == ()


# --- at random ---------------------------------------------------------------------------------------------------------

CASES = 60
VALUES = (
    *("NULL", "0", "-1", "2", "4611686018427387904", "-9223372036854775808", "9e999", "-9e999", "1e-320", "0.5"),
    *("''", "'x'", "'{}'", "'[]'", "'learn'", "'deleted'", NO_TEXT, "x''", "x'00'", "zeroblob(8)", "zeroblob(4096)"),
    *(NAN, INFINITE, "randomblob(64)", "CAST(randomblob(20) AS TEXT)", "'{\"classes\": [1, 2]}'"),
)


def test_random_damage_to_a_golden_folder(tmp_path: Path) -> None:
    """A refusal in a sentence, or tasks quarantined: never another exception, and never a thread that is dead."""
    golden = HERE / "1.0.0rc1" / "service" / "data"
    chance = random.Random(14)
    aside = 0

    async def work(folder: Path) -> int:
        try:
            async with service_in(folder) as service:
                for name in service.task_names():
                    with contextlib.suppress(RequestError):
                        await service.decisions(name)
                    for look in (service.stats, service.task):
                        with contextlib.suppress(RequestError):
                            look(name)
                await asyncio.sleep(0)
                assert service.failing is None
                assert service.task_names() or service.quarantined()
                return len(service.quarantined())
        except OnebitError:
            return 1

    for case in range(CASES):
        folder = tmp_path / str(case)
        shutil.copytree(golden, folder)
        if case % 3:
            without_snapshots(folder)
        with as_an_attacker(folder) as connection:
            table = chance.choice(("changes", "decisions", "feedback"))
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            seqs = [row[0] for row in connection.execute(f"SELECT seq FROM {table}")]
            with contextlib.suppress(sqlite3.Error):  # types, and what must be unique, are kept even so
                connection.execute(
                    f"UPDATE {table} SET {chance.choice(columns[1:])} = {chance.choice(VALUES)} WHERE seq = ?",
                    (chance.choice(seqs),),
                )
        aside += run(work(folder))
        shutil.rmtree(folder)
    assert aside > CASES // 10  # the test does damage
