"""Every store keeps the same: a service does the same over each of them, and leaves the same rows."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onebit.service.errors import ConflictError, NotFoundError
from onebit.service.maintenance.copy import _pages
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.service.store.base import store_at
from onebit.service.store.rows import NAMES, ROW_TYPES
from tests.service.driving import (
    ask,
    change,
    decided,
    heard,
    hint,
    new_task,
    outcome,
    run,
    settings_of,
    state_of,
    until,
    withdrawal,
)
from tests.service.postgres import Server, needs_postgres


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A service with an empty log. Not `where`, whose tests over PostgreSQL are in the longer tier: this one is cheap."""
    return settings_of(tmp_path / "data" if request.param == "sqlite" else request.getfixturevalue("postgres").log())


def rows_of_all(settings: Settings) -> list[tuple[Any, ...]]:
    """All rows in their order, without their times."""
    with closing(store_at(settings.where).reader()) as reader:
        found = [
            (table, ROW_TYPES[table]._make(row)._replace(time=0.0))
            for table in NAMES
            for page in _pages(reader, table, reader.last())
            for row in page
        ]
    return sorted(found, key=lambda one: one[1].seq)


async def script(service: Service) -> None:
    """Something of everything; each step waits until it is learnt, so that what is decided next does not depend on the moment."""
    await service.create(new_task())
    for number in range(12):
        await decided(service, str(number), (number % 3 - 1.0, 1.0))
        assert await heard(service, str(number), number % 2 == 0) == "accepted"
        await until(lambda number=number: service.stats("fruit")["learnt"] == number + 1)  # type: ignore[misc]
    assert await heard(service, "0") == "duplicate"
    assert isinstance(await outcome(heard(service, "0", False)), ConflictError)
    assert isinstance(await outcome(heard(service, "nobody")), NotFoundError)
    assert isinstance(await outcome(decided(service, "0", (9.0, 9.0))), ConflictError)
    many = await service.decide("fruit", [ask("0", (-1.0, 1.0)), ask("m1"), ask("m2"), ask("m1")], single=False)
    assert many[1] == many[3]
    said = await service.feedback("fruit", [hint("m1"), hint("nobody"), hint("0", False)], single=False)
    assert [one["status"] for one in said] == ["accepted", "unknown", "conflict"]
    assert await heard(service, "0", False, revise=True) == "revised"
    await service.feedback("fruit", [withdrawal("1")])
    await service.change("fruit", change(add_classes=["d"], deadline_s=1000.0))
    assert await heard(service, "m2", None, truth="d") == "accepted"
    await service.create(new_task("other", features={"kind": "text", "hash_bits": 6}))
    await decided(service, "t", "some words", task="other")
    await service.delete("other")
    assert isinstance(await outcome(decided(service, "t", "some words", task="other")), NotFoundError)


def test_a_service_does_the_same_and_goes_on_after_a_restart(settings: Settings) -> None:
    async def first() -> Any:
        service = Service(settings)
        await service.start()
        await script(service)
        follower = service.served["fruit"].follower
        await until(lambda: service.summary("fruit", 1)["feedback"] == 13 and follower.revised_from is None)
        newest = await service.decisions("fruit", 3)
        state = state_of(follower.replicas.resting)
        await service.stop()
        return state, newest

    async def again() -> Any:
        service = Service(settings)
        await service.start()
        follower = service.served["fruit"].follower
        await until(lambda: follower.revised_from is None)
        found = state_of(follower.replicas.resting), (await service.decisions("fruit", 3))
        assert service.task_names() == ["fruit"]
        await service.stop()
        return found

    known = run(first())
    assert [one["id"] for one in known[1]] == ["m2", "m1", "11"]
    assert run(again()) == known


@needs_postgres
def test_both_leave_the_same_rows(tmp_path: Path, postgres: Server) -> None:
    async def work(settings: Settings) -> None:
        service = Service(settings)
        await service.start()
        await script(service)
        await service.stop()

    folder, shared = settings_of(tmp_path / "data"), settings_of(postgres.log())
    run(work(folder))
    run(work(shared))
    assert rows_of_all(shared) == rows_of_all(folder)
