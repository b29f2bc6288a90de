"""Folders of the service that every release left: this one starts from them, and goes on."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.cli import main
from onebit.serve.log.log_reader import LogReader
from onebit.serve.schemas import DecideRequest, FeedbackRequest, NewLearner, NewTask, NumbersFeatures
from onebit.serve.service import Service
from onebit.serve.settings import Settings
from tests.golden import going_on, newest_release
from tests.golden.write import HERE

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
            before_1_0 = {"among": None, "confidence": None, "unsure": False}  # which answers did not say
            assert again == [before_1_0 | one["answer"]]
        fresh = (await service.decide("words", [DecideRequest(x="word1 and more")]))[0]
        assert await service.feedback("words", [FeedbackRequest(id=fresh["id"], right=True)]) == [
            {"id": fresh["id"], "status": "accepted"}
        ]
        await service.stop()

    asyncio.run(work())
    assert found == expected["counts"]
    assert min(one["learnt"] for one in found.values()) == 60


# Written by 0.3.0 itself, as was what it answered in 20 rounds more: a policy gradient that was given no parameter, and an offset
# tree with a pair of them that is refused now, which took over after 30 rounds.
CHANGED = HERE / "0.3.0" / "changed-defaults" / "service"
# And three tasks with its `auto`: on numbers, by naming no learner (its snapshots would be large, and are not kept); on text; and taking over there
# after 30 of 60 rounds.
AUTO = HERE / "0.3.0" / "auto" / "service"
TEXTS = ("words", "switched")


def asked(folder: Path, task: str, number: int) -> Any:
    return going_on.example("text" if folder == AUTO and task in TEXTS else task, number)


async def play(service: Service, folder: Path, first: int, last: int) -> None:
    """Go on, and be answered as the release was."""
    wanted: dict[str, list[dict[str, Any]]] = json.loads((folder / going_on.FILE).read_text())
    before = 60 if folder == AUTO else 0
    for task, answers in wanted.items():
        for number in range(first, last):
            answer = answers[number]
            x = asked(folder, task, before + number)
            found = (await service.decide(task, [DecideRequest(id=answer["id"], x=x)]))[0]
            for name in ("id", "label", "greedy", "version"):
                assert found[name] == answer[name]
            assert found["probabilities"] == pytest.approx(answer["probabilities"], rel=1e-4)
            right = answer["label"] == going_on.CLASSES[(before + number) ** 2 % 3]
            await service.feedback(task, [FeedbackRequest(id=answer["id"], right=right)])
            while service.stats(task)["queue"]:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "folder", [CHANGED, pytest.param(AUTO, marks=pytest.mark.long)], ids=lambda folder: folder.parent.name
)
@pytest.mark.parametrize("snapshots", [True, False])
def test_a_folder_goes_on_as_its_release_did(folder: Path, snapshots: bool, tmp_path: Path) -> None:
    """With the defaults and the learners that it had."""
    data = tmp_path / "data"
    shutil.copytree(folder / "data", data)
    if not snapshots:
        shutil.rmtree(data / "snapshots")

    async def work() -> None:
        for first in (0, 10):  # the second time from what this version has written
            service = Service(Settings(data=data))
            await service.start()
            await play(service, folder, first, first + 10)
            await service.stop()

    asyncio.run(work())
    assert not [*data.glob("snapshots/*/*.unused")]


def test_what_was_auto_is_auto_03_to_everybody_who_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    shutil.copytree(AUTO / "data", data)
    with LogReader(data) as log:
        tasks = [log.task(name) for name in ("numbers", "words", "switched")]
        assert [task.learner for task in tasks] == ["auto-0.3"] * 3
        assert [detail["learner"] for _, _, detail in log.changes(tasks[2])] == ["bpa", "auto-0.3"]
        assert [detail["version"] for _, _, detail in log.changes(tasks[2])] == [onebit.__version__] * 2
    for path in data.glob("snapshots/2/*.onebit"):
        assert going_on.loaded(path).runtime.rule.name == "auto-0.3"

    async def work() -> None:
        service = Service(Settings(data=data))
        await service.start()
        for task in service.task_names():
            assert service.task(task).learner == service.stats(task)["learner"] == "auto-0.3"
        await service.stop()

    asyncio.run(work())
    assert main(["check", str(data)]) == 0, capsys.readouterr()
    capsys.readouterr()
    assert main(["evaluate", str(data), "words", "--learner", "auto-0.3", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)["log"]["made_by"]
    assert [one["learner"] for one in made] == ["auto-0.3"]


@pytest.mark.long
@pytest.mark.parametrize("learner", ["linucb", "auto"])
def test_a_task_of_auto_03_moves_to_another_learner_by_a_logged_switch(learner: str, tmp_path: Path) -> None:
    """Trained from its log; what is typed as auto is the auto of now, and is written and read as such."""
    data = tmp_path / "data"
    shutil.copytree(AUTO / "data", data)

    async def work() -> None:
        service = Service(Settings(data=data))
        await service.start()
        for task in ("numbers", "words"):
            await service.switch(task, NewLearner(learner=learner, seed=3))
            async with asyncio.timeout(300.0):
                while (training := service.task(task).training) is not None:
                    assert training.error is None
                    await asyncio.sleep(0.01)
            assert (service.task(task).learner, service.task(task).generation) == (learner, 2)
            assert service.stats(task)["learnt"] == 60
        await service.stop()
        service = Service(Settings(data=data))  # from what was written
        await service.start()
        assert [service.task(task).learner for task in ("numbers", "words", "switched")] == [
            learner,
            learner,
            "auto-0.3",
        ]
        assert service.stats("words")["learnt"] == 60
        await service.stop()

    asyncio.run(work())
    with LogReader(data) as log:
        changes = log.changes(log.task("words"))
        assert [detail["learner"] for _, kind, detail in changes if kind != "changed"] == ["auto-0.3", learner]


def test_the_log_says_which_defaults_its_parameters_went_with() -> None:
    """What other readers see: the values of 0.3.0, where they are others now."""
    with LogReader(CHANGED / "data") as log:
        assert log.task("created").parameters == {"rewards": "plain", "rate": 0.1}
        switched = log.task("switched")
        assert switched.parameters == {"kind": "realizable", "variant": "PA", "exploration": 0.03}
        assert [detail["parameters"] for _, _, detail in log.changes(switched)] == [{}, switched.parameters]


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
