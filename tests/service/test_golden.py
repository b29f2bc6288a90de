"""Folders of the service that every release left: this one starts from them, and goes on."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.learner.model_file import platform_info
from onebit.service.maintenance.check import check
from onebit.service.maintenance.log_reader import LogReader
from onebit.service.requests import DecideRequest, FeedbackRequest, NewTask, NumbersFeatures
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.service.store.sqlite.schema import FILE
from tests.golden import every_row, newest_release
from tests.golden.write import HERE
from tests.service.driving import Where, run

FOLDERS = sorted(path.parent for path in HERE.glob("*/service/expected.json"))


def test_this_release_has_a_golden_folder() -> None:
    assert HERE / newest_release() / "service" in FOLDERS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
@pytest.mark.parametrize("snapshots", [True, False])
def test_a_folder_of_a_release(folder: Path, snapshots: bool, tmp_path: Path) -> None:
    """Snapshot and log, or the log alone: what was answered is answered again, what was learnt is known."""
    data = tmp_path / "data"
    shutil.copytree(folder / "data", data)
    if not snapshots:
        shutil.rmtree(data / "snapshots")
    expected = json.loads((folder / "expected.json").read_text())
    found: dict[str, Any] = {}

    async def work() -> None:
        service = Service(Settings(data=data))
        await service.start()
        for task in service.task_names():
            stats = service.stats(task)
            found[task] = {name: stats[name] for name in expected["counts"][task]}
        for identity, one in expected["answers"].items():
            again = await service.decide(one["task"], [DecideRequest(id=identity, x=one["x"])])
            assert again == [one["answer"]]
        fresh = (await service.decide("words", [DecideRequest(x="word1 and more")]))[0]
        assert await service.feedback("words", [FeedbackRequest(id=fresh["id"], right=True)]) == [
            {"id": fresh["id"], "status": "accepted"}
        ]
        await service.stop()

    asyncio.run(work())
    assert found == expected["counts"]
    assert min(one["learnt"] for one in found.values()) == 60


def test_a_new_task_says_which_version_its_parameters_were_given_to(tmp_path: Path) -> None:
    """So that a later one knows its defaults."""

    async def work() -> None:
        service = Service(Settings(data=tmp_path))
        await service.start()
        numbers = NumbersFeatures(kind="numbers", size=4)
        new = NewTask(name="new", classes=["a", "b"], learner="policy-gradient", features=numbers, seed=5)
        await service.create(new)
        await service.stop()

    asyncio.run(work())
    with LogReader(tmp_path) as log:
        task = log.task("new")
        assert task.parameters == {}
        assert [detail["version"] for _, _, detail in log.changes(task)] == [onebit.__version__]


@pytest.mark.parametrize("folder", sorted(HERE.glob("*/every_row")), ids=lambda folder: folder.parent.name)
def test_a_log_with_every_kind_of_row_replays_to_the_same_states(where: Where, folder: Path) -> None:
    """Every learner, from the rows alone: bit for bit where there are states of this processor and these versions."""
    kind = "postgres" if isinstance(where, str) else "sqlite"
    if isinstance(where, str):
        every_row.restore(folder / kind, where)
    else:
        where.mkdir()
        shutil.copy(folder / kind / FILE, where)
    states = run(every_row.replay(where))
    assert states.keys() == every_row.TASKS.keys()
    assert check(where).fine
    expected = every_row.expected_states(folder / kind)
    if expected is None:
        pytest.skip(f"no states were written on {platform_info()}: tests/golden/every_row.py adds them")
    assert states == expected
