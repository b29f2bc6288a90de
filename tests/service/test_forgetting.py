"""Forgetting: what is gone is nowhere in the folder, what is left is what a replay says, and a kill leaves before or after."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import struct
from pathlib import Path
from typing import Any

import psycopg
import pytest

import onebit
from onebit.cli import main
from onebit.errors import OnebitError
from onebit.service.errors import ConflictError, GoneError, InvalidError, NotFoundError
from onebit.service.maintenance.check import check
from onebit.service.maintenance.forget import ForgetOrder, forget
from onebit.service.maintenance.log_reader import LogReader
from onebit.service.requests import NewLearner
from onebit.service.service import Service
from onebit.service.store.postgres.schema import connect
from onebit.service.store.sqlite.schema import FILE
from tests.service.driving import (
    State,
    Where,
    change,
    crash_image,
    decided,
    everything_in,
    followed,
    heard,
    hint,
    new_task,
    outcome,
    replayed,
    restarted,
    rows_of,
    run,
    service_in,
    states,
    until,
    visible,
    without_snapshots,
)
from tests.service.postgres import files_of
from tests.service.site import NEW, site_in
from tests.slow import ON_DEMAND, SLOW

TEXT = {"kind": "text", "hash_bits": 8}
SECRET, SECRET_ID = "xylophone quetzal", "mail-of-jane-doe-4711"


async def filled(service: Service, learner: str, features: dict[str, Any] | None = None, count: int = 60) -> None:
    """A task with decisions, feedback and second thoughts; one of them is somebody's who will ask for it to be forgotten."""
    await service.create(new_task(learner=learner, features=features or TEXT))
    for number in range(count):
        one = SECRET_ID if number == 20 else f"d{number}"
        x: Any = (
            (float(number % 7), 1.0) if features else f"{SECRET if number == 20 else 'word'} {number % 5} {number % 3}"
        )
        await decided(service, one, x)
        await heard(service, one, number % 3 == 0)
        if number == 30:
            await service.feedback("fruit", [hint(SECRET_ID, True, revise=True)])
    await followed(service)


def state_in(where: Where, learner: str, features: dict[str, Any] | None = None, count: int = 60) -> State:
    """The state of a task of a log that is filled, and of which no service runs any more."""

    async def work() -> State:
        async with service_in(where, snapshot_every=10) as service:
            await filled(service, learner, features, count)
            return (await states(service))["fruit"]

    state: State = run(work())
    return state


def holds(folder: Where, *secrets: str) -> list[str]:
    """The files of a log in which one of some words is, as bytes."""
    words = [secret.encode() for secret in secrets]
    if isinstance(folder, str):
        folder = files_of(folder)
    return [
        path.name for path in folder.rglob("*") if path.is_file() and any(one in path.read_bytes() for one in words)
    ]


def delete_all(where: Where) -> None:
    """Somebody takes all decisions out, and is not the one who may."""
    if isinstance(where, str):
        rows_of(where, "DELETE FROM decisions")
        return
    with sqlite3.connect(where / FILE) as connection:
        connection.execute("DELETE FROM decisions")


def test_nothing_is_left_and_what_was_learnt_is_kept(where: Where) -> None:
    before = state_in(where, "banditron")
    assert holds(where, SECRET, SECRET_ID)
    last = everything_in(where)[-1][0]
    found = forget(where, "fruit", ForgetOrder([SECRET_ID], None, False))
    assert found == {"forgotten": 1, "learner": "kept", "erased": True}
    assert holds(where, SECRET, SECRET_ID) == []
    assert rows_of(where, "SELECT count(*) FROM decisions") == [(59,)]
    assert rows_of(where, "SELECT count(*) FROM feedback") == [(59,)]
    assert rows_of(where, "SELECT count(*) FROM revisions") == [(0,)]
    (detail,) = rows_of(where, "SELECT detail FROM changes WHERE seq > ?", last)
    assert json.loads(detail[0])["forgotten"]["decisions"] == 1
    assert SECRET_ID not in detail[0]
    assert run(restarted(where))["fruit"] == before
    assert run(restarted(without_snapshots(where)))["fruit"] == before
    assert check(where).fine
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.RaiseException), match="only added to"):
        delete_all(where)


def test_the_statistics_of_a_server_have_no_samples_of_what_is_forgotten(where: Where) -> None:
    state_in(where, "banditron")
    if isinstance(where, str):
        with connect(where) as connection:
            connection.execute("ANALYZE")  # as the server does by itself now and then
    forget(where, "fruit", ForgetOrder([SECRET_ID], None, False))
    assert holds(where, SECRET, SECRET_ID) == []


@pytest.mark.parametrize("learner", ["banditron", "auto"])
def test_unlearning_is_a_replay_without_the_row(where: Where, learner: str) -> None:
    before = state_in(where, learner)
    found = forget(where, "fruit", ForgetOrder([SECRET_ID], None, True))
    assert found == {"forgotten": 1, "learner": "unlearnt", "erased": True}
    after = run(restarted(where))["fruit"]
    assert after != before
    assert after == replayed(where, "fruit") == run(restarted(without_snapshots(where)))["fruit"]
    assert holds(where, SECRET, SECRET_ID) == []
    assert check(where).fine


@pytest.mark.parametrize(
    ("learner", "parameters"),
    [pytest.param("auto", {}, marks=ON_DEMAND), ("banditron", {"kernel": "rbf", "max_support": 50})],
)
def test_a_learner_with_rows_in_its_state_always_unlearns(
    tmp_path: Path, learner: str, parameters: dict[str, Any]
) -> None:
    folder = tmp_path / "data"

    async def work() -> None:
        async with service_in(folder, snapshot_every=10) as service:
            task = new_task(learner=learner, parameters=parameters, features={"kind": "numbers", "size": 2})
            await service.create(task)
            for number in range(30):
                await decided(service, f"d{number}", (1234.5678901 if number == 20 else float(number % 7), 1.0))
                await heard(service, f"d{number}", number % 3 == 0)

    run(work())
    assert forget(folder, "fruit", ForgetOrder(["d20"], None, False))["learner"] == "unlearnt"
    assert run(restarted(folder))["fruit"] == replayed(folder, "fruit")
    bytes_of = struct.pack("<d", 1234.5678901)
    assert not any(bytes_of in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_all_before_a_time(where: Where) -> None:
    """A month later the rows are gone, and the learner is as it was; then others come, are learnt and are forgotten too."""
    before = state_in(where, "banditron")
    (middle,) = rows_of(where, "SELECT time FROM decisions ORDER BY seq LIMIT 1 OFFSET 40")[0]
    assert forget(where, "fruit", ForgetOrder(None, middle, False))["forgotten"] == 40
    assert run(restarted(where))["fruit"] == before

    async def work() -> tuple[State, dict[str, Any]]:
        async with service_in(where) as service:
            assert service.stats("fruit")["decisions"] == 60
            for number in range(20):
                await decided(service, f"later-{number}", f"word {number}")
                await heard(service, f"later-{number}")
            found = (await states(service))["fruit"]
            return found, visible(service.stats("fruit"))

    state, statistics = run(work())
    assert run(restarted(without_snapshots(where)))["fruit"] == state
    assert forget(where, "fruit", ForgetOrder(["later-3"], None, False))["forgotten"] == 1
    assert forget(where, "fruit", ForgetOrder(["later-3"], None, False))["forgotten"] == 0
    assert run(restarted(without_snapshots(where)))["fruit"] == state

    async def look() -> None:
        async with service_in(where) as service:
            assert visible(service.stats("fruit")) == statistics

    run(look())
    assert check(where).fine


def test_what_was_kept_cannot_be_unlearnt_any_more(where: Where) -> None:
    state_in(where, "banditron")
    forget(where, "fruit", ForgetOrder(["d5"], None, False))
    with pytest.raises(ConflictError, match="cannot be unlearnt"):
        forget(where, "fruit", ForgetOrder([SECRET_ID], None, True))
    assert rows_of(where, "SELECT count(*) FROM decisions WHERE id = ?", SECRET_ID) == [(1,)]

    async def work() -> None:
        async with service_in(where) as service:
            await decided(service, "new", "word 1")
            await heard(service, "new")

    run(work())
    assert forget(where, "fruit", ForgetOrder(["new"], None, True))["learner"] == "unlearnt"
    state = run(restarted(where))["fruit"]
    assert run(restarted(without_snapshots(where)))["fruit"] == state


def test_what_is_refused_changes_nothing(where: Where) -> None:
    before = state_in(where, "banditron")
    with pytest.raises(NotFoundError, match="there is no decision 'nobody'"):
        forget(where, "fruit", ForgetOrder(["d1", "nobody"], None, False))
    with pytest.raises(OnebitError, match="there is no task"):
        forget(where, "vegetables", ForgetOrder(["d1"], None, False))
    assert forget(where, "fruit", ForgetOrder(None, 1.0, False))["forgotten"] == 0
    assert rows_of(where, "SELECT count(*) FROM decisions") == [(60,)]
    assert run(restarted(where))["fruit"] == before

    async def running(folder: Path) -> None:
        async with service_in(folder):
            with pytest.raises(OnebitError, match="another `onebit serve` is using"):
                forget(folder, "fruit", ForgetOrder(["d1"], None, False))

    if isinstance(where, Path):
        run(running(where))


def test_of_a_task_that_was_deleted_and_one_with_other_learners(where: Where) -> None:
    state_in(where, "banditron")

    async def work() -> None:
        async with service_in(where) as service:
            await service.delete("fruit")
            await service.create(new_task("other", features=TEXT))
            for number in range(20):
                await decided(service, f"o{number}", f"word {number}", "other")
                await heard(service, f"o{number}", number % 2 == 0, "other")
            await service.change("other", change(add_classes=["d"]))
            await service.switch("other", NewLearner(learner="bpa", seed=3))
            await until(lambda: service.task("other").training is None)
            await states(service)

    run(work())
    before = run(restarted(where))["other"]
    assert forget(where, "fruit", ForgetOrder([SECRET_ID], None, False))["forgotten"] == 1
    assert holds(where, SECRET, SECRET_ID) == []
    assert run(restarted(where))["other"] == before
    forget(where, "other", ForgetOrder(["o3"], None, True))
    assert run(restarted(without_snapshots(where)))["other"] == replayed(where, "other")


def test_the_command(where: Where, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state_in(where, "banditron")
    capsys.readouterr()
    assert main(["forget", str(where), "fruit", "--id", "d1", "--id", "d2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"forgotten": 2, "learner": "kept", "erased": True}
    assert main(["forget", str(where), "fruit", "--before", "90d"]) == 0
    assert capsys.readouterr().out == "fruit: decisions forgotten: 0\n"
    for wrong in (["--before", "soon"], ["--before", "2999-01-01"], [], ["--id", "a", "--before", "1d"]):
        assert main(["forget", str(where), "fruit", *wrong]) == 2
    assert main(["forget", str(where), "fruit", "--id", "nobody"]) == 2
    assert "there is no decision 'nobody' in task 'fruit'" in capsys.readouterr().err
    assert main(["forget", str(tmp_path / "nowhere"), "fruit", "--id", "a"]) == 2
    assert not (tmp_path / "nowhere").exists()


def killed_at(folder: Path, statement: int, unlearn: bool) -> bool:
    """Forget in a process that kills itself before it runs the statement of this number; whether it came to it."""
    child = os.fork()
    if child == 0:
        from onebit.service.store.sqlite import appender

        count = 0

        def counted(_: str) -> None:
            nonlocal count
            count += 1
            if count > statement:
                os.kill(os.getpid(), signal.SIGKILL)

        def traced(path: Path) -> sqlite3.Connection:
            connection: sqlite3.Connection = appending_created(path)
            connection.set_trace_callback(counted)
            return connection

        appending_created = vars(appender)["open_or_create"]
        vars(appender)["open_or_create"] = traced
        try:
            forget(folder, "fruit", ForgetOrder([SECRET_ID], None, unlearn))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("unlearn", [False, True])
def test_a_kill_at_any_moment_leaves_before_or_after(tmp_path: Path, unlearn: bool) -> None:
    folder = tmp_path / "data"
    before = state_in(folder, "banditron", count=32)
    done = Path(shutil.copytree(folder, tmp_path / "done"))
    forget(done, "fruit", ForgetOrder([SECRET_ID], None, unlearn))
    after = run(restarted(done))["fruit"]
    statement, outcomes = 0, set()
    while True:
        copy = Path(shutil.copytree(folder, tmp_path / f"killed-{statement}"))
        killed = killed_at(copy, statement, unlearn)
        state = run(restarted(copy))["fruit"]
        gone = rows_of(copy, "SELECT count(*) FROM decisions WHERE id = ?", SECRET_ID) == [(0,)]
        assert state == (after if gone else before)
        assert run(restarted(without_snapshots(copy)))["fruit"] == state
        assert check(copy).fine
        assert bool(holds(copy, SECRET, SECRET_ID)) is not gone
        outcomes.add(gone)
        shutil.rmtree(copy)
        if not killed:
            break
        statement += 1 if SLOW else 5
    assert outcomes == {False, True}
    assert statement > 20


def test_logs_read_by_commands_know_nothing_of_it(
    where: Where, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state_in(where, "banditron")
    forget(where, "fruit", ForgetOrder([SECRET_ID], None, False))
    assert main(["copy", str(where), str(tmp_path / "copy")]) == 2
    assert "task 'fruit' has forgotten decisions" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
    with LogReader(where) as log:
        task = log.task("fruit")
        assert len(list(log.logged(task))) == log.count(task) == len(list(log.events(task))) == 59


def test_what_is_gone_stays_gone(where: Where) -> None:
    """Its id is not used again, and nothing can be said of it; what was kept cannot be revised."""
    state_in(where, "banditron")
    forget(where, "fruit", ForgetOrder([SECRET_ID], None, False))

    async def work() -> None:
        async with service_in(where) as service:
            for refused in (
                decided(service, SECRET_ID, "another text"),
                heard(service, SECRET_ID),
                heard(service, SECRET_ID, False, revise=True),
                service.explain("fruit", SECRET_ID, 3),
            ):
                assert isinstance(await outcome(refused), GoneError)
            with pytest.raises(GoneError):
                await service.decision("fruit", SECRET_ID)
            (listed, _) = await service.feedback("fruit", [hint(SECRET_ID), hint("d1", False)], single=False)
            assert listed["status"] == "unknown"
            late = await outcome(service.feedback("fruit", [hint("d1", True, revise=True)]))
            assert isinstance(late, ConflictError)
            assert "can no longer be revised" in str(late)
            before = (await states(service))["fruit"]
        assert (await restarted(where))["fruit"] == before

    run(work())
    with onebit.open(where, "fruit") as task:
        with pytest.raises(GoneError):
            task.decide("another text", id=SECRET_ID)
        with pytest.raises(GoneError):
            task.feedback(SECRET_ID, right=True)


@pytest.mark.parametrize("unlearn", [False, True])
def test_a_running_service_forgets(where: Where, unlearn: bool) -> None:
    """While others ask and answer; and comes to what a start comes to, with snapshots and without."""

    async def work() -> None:
        async with service_in(where, snapshot_every=10) as service:
            await filled(service, "banditron")
            going = True

            async def traffic() -> None:
                number = 0
                while going:
                    await decided(service, f"t{number}", f"word {number % 7}")
                    await outcome(heard(service, f"t{number}", number % 2 == 0))
                    number += 1
                    await asyncio.sleep(0.001)

            busy = asyncio.create_task(traffic())
            found = await service.forget("fruit", ForgetOrder([SECRET_ID], None, unlearn), "a-token")
            going = False
            await busy
            assert found == {"forgotten": 1, "learner": "unlearnt" if unlearn else "kept", "erased": True}
            assert holds(where, SECRET, SECRET_ID) == []
            assert isinstance(await outcome(heard(service, SECRET_ID)), GoneError)
            assert isinstance(await outcome(decided(service, SECRET_ID, "word")), GoneError)
            again = await service.forget("fruit", ForgetOrder([SECRET_ID], None, unlearn))
            assert again["forgotten"] == 0
            assert isinstance(
                await outcome(service.forget("fruit", ForgetOrder(["nobody"], None, False))), NotFoundError
            )
            assert isinstance(await outcome(service.forget("fruit", ForgetOrder(None, None, False))), InvalidError)
            state = (await states(service))["fruit"]
            image = crash_image(where)
            statistics = visible(service.stats("fruit"))
        for one in (image, where, without_snapshots(where)):
            async with service_in(one) as service:
                assert (await states(service))["fruit"] == state
                assert visible(service.stats("fruit")) == statistics
        if unlearn:
            assert replayed(where, "fruit") == state
        assert check(where).fine
        assert rows_of(where, "SELECT token FROM changes WHERE detail LIKE '%forgotten%'") == [("a-token",)]

    run(work())


def test_the_route(tmp_path: Path) -> None:
    with site_in(tmp_path / "data") as site:
        site.ask("POST", "/v1/tasks", json=NEW)
        name = NEW["name"]
        site.ask("POST", f"/v1/tasks/{name}/decide", json={"id": "a", "x": [1.0, 2.0, 3.0]})
        site.ask("POST", f"/v1/tasks/{name}/feedback", json={"id": "a", "right": True})
        assert site.ask("POST", f"/v1/tasks/{name}/forget", json={}).status_code == 422
        assert site.ask("POST", f"/v1/tasks/{name}/forget", json={"ids": ["b"]}).status_code == 404
        answer = site.ask("POST", f"/v1/tasks/{name}/forget", json={"ids": ["a"]})
        assert (answer.status_code, answer.json()["forgotten"]) == (200, 1)
        gone = site.ask("POST", f"/v1/tasks/{name}/feedback", json={"id": "a", "right": False, "revise": True})
        assert (gone.status_code, gone.json()["error"]["code"]) == (410, "gone")
        assert site.ask("GET", f"/v1/tasks/{name}/decisions/a").status_code == 410
        assert site.ask("POST", f"/v1/tasks/{name}/forget", json={"before": 1.0}).json()["forgotten"] == 0
