"""Rows that are held in memory are those of the log, value for value; what is missing is read from it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onebit.service.service import Service
from onebit.service.store import cache
from onebit.service.store.reader import Reader
from onebit.service.store.sqlite.store import SqliteStore
from tests.service.driving import ask, followed, hint, new_task, run, service_in

NUMBERS = {"kind": "numbers", "size": 2}


def both(service: Service, folder: Path) -> tuple[Reader, Reader]:
    """A reader that has what the service holds, and one that has the disk alone."""
    return service.store.reader(), SqliteStore(folder).reader()


def read(reader: Reader, service: Service, after: int, upto: int, most: int = 1000) -> list[Any]:
    expected = service.served["fruit"].info.expected
    return [reader.played(expected, after, upto, most), reader.events(expected, after, upto, most)]


async def said(service: Service, first: int, count: int) -> None:
    names = [f"d{number}" for number in range(first, first + count)]
    asked = [ask(one, (number / 8.0, -0.0)) for number, one in enumerate(names, first)]
    await service.decide("fruit", asked, single=False)
    await service.feedback("fruit", [hint(one, index % 3 == 0) for index, one in enumerate(names)], single=False)


def test_what_is_held_is_what_the_log_has(tmp_path: Path) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(features=NUMBERS))
            await said(service, 0, 6)
            await service.change("fruit", _more())
            await said(service, 6, 6)
            await service.feedback("fruit", [hint("d11", True, revise=True)])
            await said(service, 12, 6)
            await followed(service)
            held, disk = both(service, tmp_path)
            with closing(held), closing(disk):
                last = disk.last()
                for after in range(last):
                    for upto, most in ((last, 1000), (last, 2), (after + 3, 1000)):
                        assert read(held, service, after, upto, most) == read(disk, service, after, upto, most)

    run(work())


def test_what_is_in_the_log_and_not_held_yet_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay asks the log where it ends, and so knows of rows before the cache does."""

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(features=NUMBERS))
            await said(service, 0, 6)
            await followed(service)
            held, disk = both(service, tmp_path)
            compared, note_written = list[int](), service.store.cache.note_written

            def compare_first(submissions: Any) -> None:
                last = disk.last()
                for after in range(last):
                    assert read(held, service, after, last) == read(disk, service, after, last)
                compared.append(last)
                note_written(submissions)

            monkeypatch.setattr(service.store.cache, "note_written", compare_first)
            with closing(held), closing(disk):
                await said(service, 6, 3)
                await service.feedback("fruit", [hint("d8", True, revise=True)])
            assert len(compared) == 3

    run(work())


def _more() -> Any:
    from onebit.service.requests import Change

    return Change(add_classes=["fig"])


def test_what_is_not_held_any_more_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_ROWS", 8)

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(features=NUMBERS))
            for first in (0, 3, 6):
                await said(service, first, 3)
            await followed(service)
            held, disk = both(service, tmp_path)
            with closing(held), closing(disk):
                for after in range(disk.last()):
                    assert read(held, service, after, disk.last()) == read(disk, service, after, disk.last())
            assert service.stats("fruit")["learnt"] == 9

    run(work())


def test_nothing_of_what_is_forgotten_is_held(tmp_path: Path) -> None:
    from onebit.service.maintenance.forget import ForgetOrder

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(features=NUMBERS))
            await said(service, 0, 4)
            await followed(service)
            await service.forget("fruit", ForgetOrder(["d2"], None, False))
            held, disk = both(service, tmp_path)
            with closing(held), closing(disk):
                assert read(held, service, 0, disk.last()) == read(disk, service, 0, disk.last())

    run(work())
