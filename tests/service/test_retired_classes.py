"""Classes that are retired: never played again, and what was heard of them stays known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.service.errors import InvalidError
from onebit.service.requests import NewLearner
from onebit.service.service import Service
from tests.cli.call import Call
from tests.service.driving import (
    Where,
    ask,
    change,
    crash_image,
    everything_in,
    followed,
    hint,
    new_task,
    replayed,
    restarted,
    rows_of,
    run,
    service_in,
    snapshots_in,
    states,
    until,
    withdrawal,
    without_snapshots,
)
from tests.service.site import site_in


async def rounds(service: Service, first: int, count: int) -> list[dict[str, Any]]:
    """Decisions, each of which is answered."""
    asks = [ask(str(number), (float(number % 5), number % 3 - 1.0)) for number in range(first, first + count)]
    answers = await service.decide("fruit", asks, single=False)
    await service.feedback("fruit", [hint(one["id"], one["label"] == "c") for one in answers], single=False)
    return answers


@pytest.mark.parametrize("learner", ["banditron", "auto", "offset-tree"])
def test_never_played_again(where: Where, learner: str) -> None:
    folder = where

    async def work() -> None:
        async with service_in(folder, snapshot_every=50) as service:
            await service.create(new_task(classes=["a", "b", "c", "d"], learner=learner, exploration_floor=0.5))
            assert {one["label"] for one in await rounds(service, 0, 200)} == set("abcd")
            shown = await service.change("fruit", change(remove_classes=["b"]))
            assert (shown.classes, shown.retired) == (["a", "b", "c", "d"], ["b"])
            for answer in await rounds(service, 200, 200):
                assert "b" not in (answer["label"], answer["greedy"])
                assert answer["probabilities"]["b"] == 0.0
                assert sum(answer["probabilities"].values()) == pytest.approx(1.0)
            one = await service.decision("fruit", "399")
            assert (one["among"], one["complete"]) == (["a", "c", "d"], True)
            # What was heard of it before can be revised, and is learnt then.
            (played,) = rows_of(folder, "SELECT id FROM decisions WHERE label = 1 LIMIT 1")[0]
            await service.feedback("fruit", [withdrawal(played), hint("398", revise=True)], single=False)
            await service.change("fruit", change(add_classes=["e"]))
            await rounds(service, 400, 50)
            found = await states(service)
            assert found["fruit"] == replayed(folder, "fruit")
            copy = without_snapshots(crash_image(folder))
        assert await restarted(copy) == found
        async with service_in(folder) as service:
            assert service.task("fruit").retired == ["b"]
            assert {one["label"] for one in await rounds(service, 500, 100)} <= set("acde")
            await service.switch("fruit", NewLearner(learner="bpa", seed=2))
            await until(lambda: service.task("fruit").training is None)
            assert {one["label"] for one in await rounds(service, 600, 100)} <= set("acde")
            assert (await states(service))["fruit"] == replayed(folder, "fruit")

    run(work())


def test_what_cannot_be_retired(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(classes=["a", "b", "c", "d"]))
            await service.change("fruit", change(remove_classes=["b"]))
            before = everything_in(where)
            for gone, sentence in (
                (["z"], "'z'"),
                (["b"], "the playable classes are"),
                (["a", "a"], "each can be retired only once"),
                (["a", "c"], "at least two must remain"),
            ):
                with pytest.raises(InvalidError, match=sentence) as caught:
                    await service.change("fruit", change(remove_classes=gone))
                assert caught.value.field == "remove_classes"
            with pytest.raises(InvalidError):  # its name is taken
                await service.change("fruit", change(add_classes=["b"]))
            assert everything_in(where) == before

    run(work())


def test_over_http(tmp_path: Path) -> None:
    new = {
        "name": "fruit",
        "classes": ["a", "b", "c"],
        "learner": "banditron",
        "features": {"kind": "numbers", "size": 2},
    }
    with site_in(tmp_path / "data") as site:
        assert site.ask("POST", "/v1/tasks", json=new).json()["retired"] == []
        for bad in ("a", [""], [None], {"a": 1}, [1.5]):
            reply = site.ask("PATCH", "/v1/tasks/fruit", json={"remove_classes": bad})
            assert (reply.status_code, reply.json()["error"]["field"].partition("[")[0]) == (422, "remove_classes")
        assert site.ask("PATCH", "/v1/tasks/fruit", json={"remove_classes": ["a"]}).json()["retired"] == ["a"]
        assert site.ask("GET", "/v1/tasks/fruit").json()["retired"] == ["a"]


def test_whoever_loads_the_learner_does_not_play_them(call: Call, tmp_path: Path) -> None:
    """From a snapshot, or from what was trained by the log; and the service hears of them still."""
    folder, trained = tmp_path / "data", tmp_path / "trained.onebit"

    async def work() -> None:
        async with service_in(folder) as service:
            await service.create(new_task(classes=["a", "b", "c", "d"], exploration_floor=0.5))
            await rounds(service, 0, 100)
            await service.decide("fruit", [ask(f"late {number}") for number in range(50)], single=False)
            await service.change("fruit", change(remove_classes=["b"]))
            await service.change("fruit", change(add_classes=["e"]))
        check(onebit.load(snapshots_in(folder)[-1]))
        (played,) = rows_of(folder, "SELECT id FROM decisions WHERE label = 1 AND id LIKE 'late%' LIMIT 1")[0]
        async with service_in(folder) as service:
            before = service.stats("fruit")["learnt"]
            await service.feedback("fruit", [hint(played)])
            await followed(service)
            assert service.stats("fruit")["learnt"] == before + 1
            assert (await states(service))["fruit"] == replayed(folder, "fruit")

    def check(learner: onebit.Learner) -> None:
        assert list(learner.classes) == ["a", "b", "c", "d", "e"]
        for number in range(20):
            found = learner.probabilities([float(number % 5), number % 3 - 1.0])
            assert [name for name, chance in found.items() if chance == 0.0] == ["b"]
        with pytest.raises(onebit.InputError, match="no class that can be played"):
            learner.decide([1.0, 2.0], among=["b"])

    run(work())
    code, _, _ = call("replay", str(folder), "fruit", "--learner", "banditron", "--out", str(trained), "--quiet")
    assert code == 0
    check(onebit.load(trained))
