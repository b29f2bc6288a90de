"""A log is copied from a folder to PostgreSQL and back: every row, with its number and its time, and what is known is the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from onebit.cli import main
from onebit.errors import InputError
from onebit.service.maintenance.copy import copy
from onebit.service.tokens import Tokens
from tests.golden.write import HERE
from tests.service.driving import ask, decided, everything_in, heard, new_task, run, service_in, states
from tests.service.postgres import Server, needs_postgres, server
from tests.service.test_nodes import node, settled_states

pytestmark = needs_postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as one:
        yield one


def test_there_and_back(postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, back, address = tmp_path / "folder", tmp_path / "back", postgres.database()

    async def before() -> object:
        async with service_in(folder) as service:
            await service.create(new_task())
            for number in range(30):
                await decided(service, str(number), (0.1 * number, 1.0))
                await heard(service, str(number), number % 2 == 0)
            await heard(service, "3", True, revise=True)
            return (await states(service))["fruit"]

    async def there() -> None:
        async with node(address) as service:
            assert (await settled_states(address, [service]))[0] == known
            assert await heard(service, "29", False) == "duplicate"
            assert (await decided(service, "3", (0.1 * 3, 1.0)))["id"] == "3"

    async def after() -> object:
        async with service_in(back) as service:
            return (await states(service))["fruit"]

    known = run(before())
    token = Tokens(folder / "tokens.json").create(["read"])
    assert main(["copy", str(folder), address, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "changes": 1,
        "decisions": 30,
        "feedback": 30,
        "revisions": 1,
        "tokens": 1,
    }
    run(there())
    assert main(["copy", address, str(back)]) == 0
    assert "decisions: 30" in capsys.readouterr().out
    assert everything_in(back) == everything_in(folder)
    assert Tokens(back / "tokens.json").check(token).scopes == {"read"}
    assert run(after()) == known


def test_the_folder_of_a_release_goes_on_in_a_database(postgres: Server, tmp_path: Path) -> None:
    address, data = postgres.database(), tmp_path / "data"
    folder = HERE / "1.0.0rc1" / "service"
    shutil.copytree(folder / "data", data)
    expected = json.loads((folder / "expected.json").read_text())
    copied = copy(str(data), address)

    async def work() -> None:
        async with node(address) as service:
            assert {task: service.stats(task)["decisions"] for task in service.task_names()} == {
                task: counts["decisions"] for task, counts in expected["counts"].items()
            }
            for identity, one in expected["answers"].items():
                (again,) = await service.decide(one["task"], [ask(identity, one["x"])])
                assert again == one["answer"]

    run(work())
    assert copied["decisions"] == sum(counts["decisions"] for counts in expected["counts"].values())


def test_what_is_in_the_way_is_said(postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, address = tmp_path / "folder", postgres.log()

    async def work() -> None:
        async with service_in(folder) as service:
            await service.create(new_task())
            with pytest.raises(InputError, match="another `onebit serve`"):
                copy(str(folder), address)

    run(work())
    assert main(["copy", str(tmp_path / "nothing"), address]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(InputError, match="already has a log"):
        copy(address, str(folder))
