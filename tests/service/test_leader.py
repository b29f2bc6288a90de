"""What one of the nodes of a log does for all: it trains, and erases; and what all hear when something is forgotten."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from typing import Any

import pytest

from onebit.service.core import follower
from onebit.service.errors import GoneError
from onebit.service.maintenance.check import check
from onebit.service.maintenance.forget import ForgetOrder, forget
from onebit.service.requests import NewLearner
from onebit.service.service import Service
from onebit.service.task import build_learner
from tests.service.driving import PATIENCE_S, ask, decided, heard, hint, new_task, outcome, run, until
from tests.service.postgres import Server, files_of, needs_postgres, rows_in
from tests.service.test_nodes import node, nodes, replayed_state, settled_states

pytestmark = [pytest.mark.long, needs_postgres]
SECRET = base64.b64encode(bytes(range(32))).decode()


def leader_and_other(services: list[Service]) -> tuple[Service, Service]:
    (leader,) = (one for one in services if one.store.lease)
    return leader, next(one for one in services if one is not leader)


async def taught(service: Service, first: int, count: int) -> None:
    ids = [str(number) for number in range(first, first + count)]
    await service.decide("fruit", [ask(one, (float(len(one)), 1.0)) for one in ids], single=False)
    await service.feedback("fruit", [hint(one, int(one) % 3 == 0) for one in ids], single=False)


# --- training ----------------------------------------------------------------------------------------------------------


def test_a_learner_is_trained_once_and_handed_over(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other nodes begin with what the leader has trained: none of them makes a learner of its own."""
    address = postgres.log()

    async def work() -> None:
        async with nodes(address, 3) as services:
            await services[0].create(new_task())
            await taught(services[0], 0, 60)
            await settled_states(address, services)
            made: list[Any] = []

            def noted(*given: Any) -> Any:
                made.append(given)
                return build_learner(*given)

            monkeypatch.setattr(follower, "build_learner", noted)
            _, other = leader_and_other(services)
            await other.switch("fruit", NewLearner(learner="bpa", seed=3))
            await until(lambda: all(one.task("fruit").generation == 2 for one in services))
            await taught(services[1], 60, 30)
            found = await settled_states(address, services)
            assert made == []
            assert found[0] == found[1] == found[2] == replayed_state(address)
            (name,) = {row[0] for row in rows_in(address, "SELECT name FROM snapshots WHERE name LIKE '%.trained'")}
            assert name.startswith("0002-")
        assert check(address).fine

    run(work())


def test_another_node_trains_where_the_leader_has_gone(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    address = postgres.log()
    monkeypatch.setattr("onebit.service.core.deadlines.SWEEP_S", 0.02)

    async def work() -> None:
        held = threading.Event()
        async with contextlib.AsyncExitStack() as stack:
            first = await stack.enter_async_context(node(address))
            await until(lambda: first.store.lease)
            async with node(address) as second:
                await first.create(new_task())
                await taught(first, 0, 30)
                monkeypatch.setattr(first.trainers, "_train_near", lambda *_: held.wait(PATIENCE_S))
                await second.switch("fruit", NewLearner(learner="bpa", seed=3))
                await until(lambda: first.trainers._under_way)
                held.set()
                await stack.aclose()
                await until(lambda: second.task("fruit").generation == 2)
                assert (await settled_states(address, [second]))[0] == replayed_state(address)

    run(work())


# --- forgetting ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unlearn", [False, True])
def test_what_one_node_forgets_is_gone_on_all(postgres: Server, unlearn: bool) -> None:
    """Also where a node remembers it, or has not learnt it yet; and the states are one."""
    address = postgres.log()

    async def work() -> None:
        async with nodes(address, 2) as services:
            one, other = services
            await one.create(new_task())
            await taught(one, 0, 40)
            await decided(other, "secret", (5.0, 5.0))
            await heard(other, "secret", False)
            await decided(other, "unanswered", (6.0, 5.0))
            order = ForgetOrder(["secret", "unanswered"], None, unlearn)
            found, _ = await asyncio.gather(one.forget("fruit", order), taught(other, 40, 40))
            assert found == {"forgotten": 2, "learner": "unlearnt" if unlearn else "kept", "erased": True}
            for service in services:
                assert isinstance(await outcome(decided(service, "secret", (5.0, 5.0))), GoneError)
                assert isinstance(await outcome(heard(service, "unanswered")), GoneError)
                assert isinstance(await outcome(heard(service, "secret", True, revise=True)), GoneError)
            await taught(other, 80, 20)
            found_states = await settled_states(address, services)
            assert found_states[0] == found_states[1]
            if unlearn:
                assert found_states[0] == replayed_state(address)
        async with node(address) as late:
            assert (await settled_states(address, [late]))[0] == found_states[0]
        assert check(address).fine
        assert rows_in(address, "SELECT count(*) FROM ids WHERE id IN ('secret', 'unanswered')") == [(0,)]

    run(work())


def test_a_node_that_has_not_heard_of_it_writes_nothing_of_what_is_gone(postgres: Server) -> None:
    """What it remembers is refused where it would be written."""
    address = postgres.log()

    async def work() -> None:
        async with nodes(address, 2) as (one, other):
            await one.create(new_task())
            await decided(other, "a")
            await decided(other, "b")
            await heard(other, "b")
            other.apply_peer_changes_soon = lambda: None  # type: ignore[method-assign]
            await one.forget("fruit", ForgetOrder(["a", "b"], None, False))
            assert other.served["fruit"].info.forgotten_at == 0
            assert isinstance(await outcome(decided(other, "a")), GoneError)
            assert isinstance(await outcome(heard(other, "a")), GoneError)
            assert isinstance(await outcome(heard(other, "b", False, revise=True)), GoneError)
            assert rows_in(address, "SELECT count(*) FROM decisions") == [(0,)]
            assert rows_in(address, "SELECT count(*) FROM feedback") == [(0,)]
        assert check(address).fine

    run(work())


def test_a_command_forgets_beside_nodes_and_the_next_leader_erases(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres.log()
    monkeypatch.setattr("onebit.service.core.deadlines.SWEEP_S", 0.02)

    async def work() -> None:
        async with node(address) as service:
            await service.create(new_task(features={"kind": "text", "hash_bits": 6}))
            await decided(service, "a", "xylophone quetzal")
            await heard(service, "a")
            with monkeypatch.context() as patch:  # it is killed before it has erased
                patch.setattr("onebit.service.store.postgres.appender.PostgresAppender.erase", lambda _: False)
                await asyncio.to_thread(forget, address, "fruit", ForgetOrder(["a"], None, False))
            await until(lambda: service.served["fruit"].info.forgotten_at)
            assert isinstance(await outcome(heard(service, "a")), GoneError)
        assert rows_in(address, "SELECT due FROM erasure") == [(True,)]
        async with node(address):
            await until(lambda: rows_in(address, "SELECT due FROM erasure") == [(False,)])
        files = [path for path in files_of(address).iterdir() if b"xylophone" in path.read_bytes()]
        assert files == []

    run(work())
