"""Several nodes over one log in PostgreSQL: one order, one decision for an id, one state, whoever wrote the rows."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onebit.errors import InputError
from onebit.service.errors import (
    ConflictError,
    NotFoundError,
    RequestError,
    UnauthorizedError,
    UnavailableError,
    UnfinishedError,
)
from onebit.service.maintenance.log_reader import LogReader
from onebit.service.requests import NewLearner
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.service.store.postgres import appender, tail
from onebit.service.store.postgres.database import translate_sql
from onebit.service.store.postgres.schema import LOCKS, ORDERING, Fence, connect
from onebit.service.store.postgres.store import PostgresStore
from onebit.service.store.rows import NAMES
from tests.service.driving import (
    PATIENCE_S,
    State,
    _is_followed,
    ask,
    change,
    decided,
    heard,
    hint,
    new_task,
    outcome,
    run,
    state_of,
    until,
    withdrawal,
)
from tests.service.postgres import Server, needs_postgres, rows_in, server

pytestmark = needs_postgres


@contextlib.asynccontextmanager
async def node(address: str, **settings: Any) -> AsyncIterator[Service]:
    """A node that runs meanwhile."""
    service = Service(Settings(data=Path(), log=address, **settings))
    await service.start()
    try:
        yield service
    finally:
        await asyncio.wait_for(service.stop(), PATIENCE_S)


@contextlib.asynccontextmanager
async def nodes(address: str, count: int, **settings: Any) -> AsyncIterator[list[Service]]:
    """Some nodes of one log."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(node(address, **settings)) for _ in range(count)]


def numbers_in(address: str) -> list[int]:
    """The numbers of all rows."""
    return sorted(row[0] for table in NAMES for row in rows_in(address, f"SELECT seq FROM {table}"))


async def settled_states(address: str, services: list[Service], task: str = "fruit") -> list[State]:
    """The states of a task, when all nodes have followed the log to its end."""
    last = rows_in(address, "SELECT seq FROM head")[0][0]
    found = []
    for service in services:
        await until(lambda service=service: task in service.served)  # type: ignore[misc]
        follower = service.served[task].follower
        of_task = max(
            row[0] or 0
            for table in NAMES
            for row in rows_in(address, f"SELECT max(seq) FROM {table} WHERE task = ?", follower.expected.task)
        )
        await until(lambda follower=follower, of_task=of_task: _is_followed(follower, of_task))  # type: ignore[misc]
        assert follower.position <= last
        replicas = follower.replicas
        assert state_of(replicas.resting) == state_of(replicas._front)
        found.append(state_of(replicas.resting))
    return found


def replayed_state(address: str, task: str = "fruit") -> State:
    """The state that follows from the log alone: that of a node which begins with nothing but the rows."""
    from onebit.service.core.follower import LogFollower

    class Nothing:
        def find_usable(self, *_: Any) -> Iterator[Any]:
            return iter(())

        def find_trained(self, *_: Any) -> None:
            return None

        def remove_before(self, *_: Any) -> None:
            pass

    store = PostgresStore(address)
    with contextlib.closing(store.reader()) as reader:
        info = next(one for one in reader.tasks()[0] if one.name == task and one.deleted is None)
        follower = LogFollower.start(info.expected, Nothing(), reader, reader.last())  # type: ignore[arg-type]
        follower.follow(reader, reader.last())
        return state_of(follower.replicas.resting)


# --- one log -----------------------------------------------------------------------------------------------------------


def test_what_one_node_is_told_all_of_them_know(postgres: Server) -> None:
    address = postgres.database()

    async def work() -> None:
        async with nodes(address, 3) as (one, other, third):
            await one.create(new_task())
            for number in range(60):
                decides, hears = (one, other, third)[number % 3], (one, other, third)[number // 3 % 3]
                await decided(decides, str(number), (float(number % 7), 1.0))
                assert await heard(hears, str(number), number % 3 == 0) == "accepted"
            await other.change("fruit", change(add_classes=["d"]))
            found = await settled_states(address, [one, other, third])
            assert found[0] == found[1] == found[2] == replayed_state(address)
            assert one.stats("fruit")["decisions"] == other.stats("fruit")["decisions"]
            assert [service.stats("fruit")["queue"] for service in (one, other, third)] == [0, 0, 0]
            assert sum(service.store.lease is not None for service in (one, other, third)) == 1
            assert one.store.lag_s < PATIENCE_S
        last = rows_in(address, "SELECT seq FROM head")[0][0]
        assert numbers_in(address) == list(range(1, last + 1))
        times = [row[0] for row in rows_in(address, "SELECT time FROM decisions ORDER BY seq")]
        assert times == sorted(times)
        assert rows_in(address, "SELECT count(*) FROM snapshots")[0][0] > 0
        async with node(address) as late:  # which begins with a snapshot
            assert (await settled_states(address, [late]))[0] == found[0]

    run(work())


def test_the_same_id_on_all_nodes_at_once_is_one_decision(postgres: Server) -> None:
    address = postgres.database()

    async def work() -> None:
        async with nodes(address, 3) as (one, other, third):
            await one.create(new_task(exploration_floor=0.9))
            await until(lambda: all("fruit" in service.task_names() for service in (other, third)))
            for number in range(30):
                wanted = [decided(service, f"{number}") for service in (one, other, third, one)]
                answers = await asyncio.gather(*wanted)
                assert all(answer == answers[0] for answer in answers)
            lists = [[ask(str(number)) for number in range(k, k + 40)] for k in (20, 25, 30)]  # some of them are known
            parts = await asyncio.gather(
                *(
                    service.decide("fruit", ids, single=False)
                    for service, ids in zip((one, other, third), lists, strict=True)
                )
            )
            seen: dict[str, Any] = {}
            for answer in (answer for part in parts for answer in part):
                assert seen.setdefault(answer["id"], answer) == answer
            assert rows_in(address, "SELECT count(*), count(DISTINCT id) FROM decisions") == [(70, 70)]
            error = await outcome(decided(other, "3", (7.0, 7.0)))
            assert isinstance(error, ConflictError)
            assert "another x" in str(error)

    run(work())


def test_the_same_feedback_on_two_nodes_counts_once_and_a_contradiction_is_seen(postgres: Server) -> None:
    address = postgres.database()

    async def work() -> None:
        async with nodes(address, 2) as (one, other):
            await one.create(new_task())
            for number in range(20):
                await decided(one, str(number))
                said = await asyncio.gather(heard(one, str(number)), heard(other, str(number)))
                assert sorted(said) == ["accepted", "duplicate"]
            assert isinstance(await outcome(heard(other, "3", False)), ConflictError)
            # What one node remembers, another may have revised.
            assert await heard(other, "3", False, revise=True) == "revised"
            assert await heard(one, "3", False) == "duplicate"
            assert isinstance(await outcome(heard(one, "3", True)), ConflictError)
            assert await heard(one, "3", True, revise=True) == "revised"
            (withdrawn,) = await other.feedback("fruit", [withdrawal("3")])
            assert withdrawn["status"] == "withdrawn"
            assert isinstance(await outcome(heard(one, "3", True)), ConflictError)
            many = await asyncio.gather(
                *(
                    service.feedback("fruit", [hint("x"), *(hint(str(k), False) for k in range(18, 22))], single=False)
                    for service in (one, other)
                )
            )
            assert [[part["status"] for part in answer] for answer in many] == [
                ["unknown", "conflict", "conflict", "unknown", "unknown"]
            ] * 2
            assert rows_in(address, "SELECT count(*) FROM feedback") == [(20,)]
            found = await settled_states(address, [one, other])
            assert found[0] == found[1] == replayed_state(address)

    run(work())


def test_tasks_that_one_node_makes_changes_and_deletes_are_so_on_all(postgres: Server) -> None:
    address = postgres.database()

    async def work() -> None:
        async with nodes(address, 2) as (one, other):
            made = await asyncio.gather(*(outcome(service.create(new_task())) for service in (one, other)))
            assert sorted(type(answer).__name__ for answer in made) == ["ConflictError", "Task"]
            await decided(other, "a")  # also where it has not heard of the task yet
            await one.change("fruit", change(add_classes=["d"], deadline_s=50.0))
            assert await heard(other, "a", None, truth="d") == "accepted"  # nor of the class
            await until(lambda: other.task("fruit").deadline_s == 50.0)
            both = await asyncio.gather(
                one.change("fruit", change(add_classes=["e"])), other.change("fruit", change(add_classes=["f"]))
            )
            assert {name for task in both for name in task.classes} >= {"e", "f"}
            await until(lambda: one.task("fruit").classes == other.task("fruit").classes)
            await other.create(new_task("second"))
            await one.delete("fruit")
            await until(lambda: other.task_names() == ["second"])
            assert isinstance(await outcome(decided(other, "b")), NotFoundError)
            await until(lambda: one.task_names() == ["second"])
            await other.create(new_task())
            await decided(one, "a")
            numbers = [
                row[0] for row in rows_in(address, "SELECT task FROM changes WHERE kind = 'created' ORDER BY seq")
            ]
            assert numbers == [1, 2, 3]

    run(work())


def test_a_learner_is_trained_by_one_node_and_takes_over_on_all_at_the_same_row(postgres: Server) -> None:
    address = postgres.database()

    async def work() -> None:
        async with nodes(address, 2) as (one, other):
            await one.create(new_task())
            for number in range(40):
                await decided((one, other)[number % 2], str(number), (float(number % 5), 1.0))
                await heard(one, str(number), number % 2 == 0)
            helper = other if one.store.lease else one  # which does not train itself
            await helper.switch("fruit", NewLearner(learner="bpa", seed=3))
            assert helper.task("fruit").training is not None
            await until(lambda: all(service.task("fruit").generation == 2 for service in (one, other)))
            for number in range(40, 60):
                await decided(one, str(number), (float(number % 5), 1.0))
                await heard(other, str(number), number % 2 == 0)
            found = await settled_states(address, [one, other])
            assert found[0] == found[1] == replayed_state(address)
            assert all(service.task("fruit").training is None for service in (one, other))
            assert len(rows_in(address, "SELECT seq FROM changes WHERE kind = 'learner'")) == 1

    run(work())


def test_silence_is_answered_once_and_by_another_node_when_the_leader_has_gone(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres.database()
    monkeypatch.setattr("onebit.service.core.deadlines.SWEEP_S", 0.02)

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            other = await stack.enter_async_context(node(address))
            await until(lambda: other.store.lease)
            async with node(address) as one:
                await one.create(new_task(deadline_s=0.05, silence="wrong"))
                await decided(one, "a")
                await until(lambda: rows_in(address, "SELECT source FROM feedback") == [("silence",)])
                assert await heard(one, "a") == "late"
                await stack.aclose()
                await until(lambda: one.store.lease)
                await decided(one, "b")
                await until(lambda: len(rows_in(address, "SELECT source FROM feedback WHERE late = 0")) == 2)

    run(work())


# --- the order of the log ------------------------------------------------------------------------------------------------


def test_no_follower_passes_a_row_that_is_committed_later(postgres: Server) -> None:
    """Transactions that hold the ordering lock for a while before they commit, beside nodes that write: every row is told of once, in order."""
    address = postgres.database()

    async def work() -> None:
        async with node(address) as service:
            await service.create(new_task())
            told: list[tuple[int, dict[tuple[int, str], int]]] = []
            assert isinstance(service.store, PostgresStore)
            listening = service.store._tail
            real = listening.announce

            def tell(last: int, counts: Mapping[tuple[int, str], int]) -> None:
                told.append((last, dict(counts)))
                real(last, counts)

            listening.announce = tell
            before = service.commits.last
            ended = threading.Event()

            def slow() -> None:
                with connect(address) as connection:
                    for number in range(8):
                        with connection.transaction():
                            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, ORDERING))
                            # With the time of its row, by which a tail that looks at this moment recognizes the log.
                            taking = (
                                "UPDATE head SET seq = seq + 1, time = (SELECT time FROM decisions WHERE id = 'first') "
                                "RETURNING seq"
                            )
                            (seq,) = connection.execute(taking).fetchone()  # type: ignore[misc]
                            connection.execute(
                                "INSERT INTO decisions SELECT %s, task, %s, time, mode, generation, learnt, label, greedy, weight, note, "
                                "second_note, propensity, probabilities, x, among, complete, raw, confidence, sure "
                                "FROM decisions WHERE id = 'first'",
                                (seq, f"slow {number}"),
                            )
                            connection.execute("INSERT INTO ids VALUES (1, %s, %s)", (f"slow {number}", seq))
                            time.sleep(0.05)  # others wait for the lock, or have numbers that come after
                ended.set()

            await decided(service, "first")
            thread = threading.Thread(target=slow)
            thread.start()
            count = 0
            while not ended.is_set():
                await decided(service, f"quick {count}")
                count += 1
            thread.join()
            last = rows_in(address, "SELECT seq FROM head")[0][0]
            await until(lambda: told and told[-1][0] == last)
            assert count > 1
            position = before
            for upto, counts in told:  # as many rows as there are numbers: none was passed over
                assert sum(counts.values()) == upto - position
                position = upto
            found = await settled_states(address, [service])
            assert found[0] == replayed_state(address)
            assert service.stats("fruit")["decisions"] == 1 + count + 8

    run(work())


def test_a_node_that_stops_in_the_middle_of_a_transaction_does_not_hold_up_the_others(postgres: Server) -> None:
    address = postgres.database()

    async def work() -> None:
        async with node(address) as service:
            await service.create(new_task())
            with connect(address) as frozen:
                frozen.execute("SET idle_in_transaction_session_timeout TO '300ms'")
                frozen.execute("BEGIN")
                frozen.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, ORDERING))
                await decided(service, "a")
                with pytest.raises(psycopg.Error):
                    frozen.execute("COMMIT")

    run(work())


# --- time, tokens, kinds of nodes ----------------------------------------------------------------------------------------


def test_times_are_those_of_the_database_whatever_the_clock_of_the_node_says(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres.database()
    real = time.time
    monkeypatch.setattr("onebit.service.store.clock.time.time", lambda: real() - 10_000_000.0)

    async def work() -> None:
        async with node(address) as service:
            await service.create(new_task(deadline_s=1000.0))
            await decided(service, "a")
            assert await heard(service, "a") == "accepted"
            (when,) = rows_in(address, "SELECT time FROM decisions")[0]
            assert abs(when - real()) < 100.0
            assert service.readiness(lambda _: True)["warnings"] == []

    run(work())


def test_a_token_that_is_revoked_is_refused_by_all_nodes(postgres: Server) -> None:
    address = postgres.database()
    settings = Settings(data=Path(), log=address)

    async def work() -> None:
        async with nodes(address, 2) as services:
            seen = [service.store.tokens(settings) for service in services]
            command = PostgresStore(address).tokens(settings)
            assert all(tokens.open for tokens in (*seen, command))
            text = command.create(["decide"], name="for a test")
            await until(lambda: not any(tokens.open for tokens in seen))
            assert all(tokens.check(text).scopes == {"decide"} for tokens in seen)
            assert [token.name for token in command.listed()] == ["for a test"]
            command.revoke(text)
            began = time.monotonic()
            for tokens in seen:
                await until(lambda tokens=tokens: isinstance(_refused(tokens, text), UnauthorizedError))  # type: ignore[misc]
            assert time.monotonic() - began < PATIENCE_S  # that is a second, on a machine that is not busy
            assert not any(tokens.open for tokens in seen)
            with pytest.raises(InputError, match="there is no token"):
                command.revoke("nobody")

    run(work())


def _refused(tokens: Any, text: str) -> RequestError | None:
    try:
        tokens.check(text)
    except RequestError as error:
        return error
    return None


def test_nodes_of_another_kind_are_fenced_and_newer_ones_take_over_when_all_have_gone(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres.database()
    now = Fence.of_this_node()

    def pretend(fence: Fence) -> None:
        monkeypatch.setattr(Fence, "of_this_node", classmethod(lambda _: fence))

    async def work() -> None:
        async with node(address) as old:
            await old.create(new_task())
            pretend(now._replace(cpu="another kind"))
            with pytest.raises(InputError, match="all nodes of a log must be of one kind"):
                await Service(Settings(data=Path(), log=address)).start()
            pretend(now._replace(protocol=now.protocol + 1))
            with pytest.raises(InputError, match="stop them first"):
                await Service(Settings(data=Path(), log=address)).start()
            pretend(now)
            async with node(address) as same:  # of another version, perhaps, but of one protocol: a rolling upgrade
                await decided(same, "a")
            # One that was cut off while all others were replaced may not write any more.
            with connect(address) as connection:
                connection.execute("UPDATE head SET protocol = protocol + 1")
            error = await outcome(decided(old, "b"))
            assert isinstance(error, UnavailableError)
            assert "replace this node with a newer one" in str(error)
        pretend(now._replace(protocol=now.protocol + 1))
        async with node(address) as new:
            await decided(new, "c")
        pretend(now)
        with pytest.raises(InputError, match=f"use protocol {now.protocol + 1}"):
            await Service(Settings(data=Path(), log=address)).start()

    run(work())


# --- what goes wrong -----------------------------------------------------------------------------------------------------


def test_a_wait_for_a_standby_that_is_cancelled_is_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its standby the server waits; the node gives that up, and does not say that it is done, though the row is there."""
    monkeypatch.setattr(appender, "PATIENCE_S", 0.5)

    async def work() -> None:
        with server() as one:
            address = one.database()
            async with node(address) as service:
                await service.create(new_task())
                await decided(service, "a")
                with connect(address) as connection:
                    connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
                    connection.execute("SELECT pg_reload_conf()")
                await asyncio.sleep(0.3)
                error = await outcome(decided(service, "b"))
                assert isinstance(error, UnfinishedError), repr(error)
                assert "standby" in str(error) or "replication" in str(error)
                with connect(address) as connection:
                    connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
                    connection.execute("SELECT pg_reload_conf()")
                await until(lambda: service.failing is None)
                assert (await decided(service, "b"))["id"] == "b"
                assert rows_in(address, "SELECT count(*) FROM decisions") == [(2,)]

    run(work())


def test_a_log_that_has_lost_rows_is_not_written_to(postgres: Server) -> None:
    address = postgres.database()

    async def work() -> None:
        async with node(address) as service:
            await service.create(new_task())
            await decided(service, "a")
            await until(lambda: service.commits.last == 2)  # its tail has heard of it
            with connect(address) as connection:  # as a standby that had not all of them
                connection.execute("UPDATE head SET seq = 1")
            error = await outcome(decided(service, "b"))
            assert isinstance(error, UnavailableError)
            assert "rows were lost" in str(error)
            with connect(address) as connection:
                connection.execute("UPDATE head SET seq = 2")

    run(work())


def test_an_address_that_cannot_be_reached_or_is_none_is_said_in_one_sentence(postgres: Server) -> None:
    for address, said in (
        ("postgresql://postgres@127.0.0.1:1/log", "cannot be used: connection"),
        (postgres.address("nobody_made_this"), "does not exist"),
        ("postgresql://postgres@127.0.0.1:1/log?what=1", "cannot be read: invalid"),
    ):
        with pytest.raises(InputError, match=said) as refused:
            run(Service(Settings(data=Path(), log=address)).start())
        assert "\n" not in str(refused.value)


def test_rows_cannot_be_changed(postgres: Server) -> None:
    address = postgres.database()

    async def work() -> None:
        async with node(address) as service:
            await service.create(new_task())
            await decided(service, "a")

    run(work())
    for statement in ("UPDATE decisions SET label = 1", "DELETE FROM ids", "TRUNCATE changes"):
        with connect(address) as connection, pytest.raises(psycopg.Error, match="only added to"):
            connection.execute(statement)


def test_the_log_is_read_as_commands_read_it(postgres: Server) -> None:
    address = postgres.database()

    async def work() -> None:
        async with node(address) as service:
            await service.create(new_task())
            for number in range(5):
                await decided(service, str(number))
                await heard(service, str(number))

    run(work())
    with LogReader(address) as log:
        task = log.task("fruit")
        assert [one.id for one in log.logged(task)] == list("01234")
        assert [event.right for event in log.events(task)] == [1] * 5
        assert log.generations(task) == [(1, False, 5)]


def test_queries_are_translated() -> None:
    assert translate_sql("SELECT kind FROM changes WHERE seq > ?") == "SELECT kind FROM changes WHERE seq > %s"
    assert translate_sql("SELECT 1 WHERE d.task = :task AND d.id IN (:id0, :id1)") == (
        "SELECT 1 WHERE d.seq IN (SELECT seq FROM ids WHERE task = %(task)s AND id IN (%(id0)s, %(id1)s))"
    )
    assert tail.COUNTS.count("UNION ALL") == len(NAMES) - 1
