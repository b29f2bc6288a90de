"""Why a decision, in the service: by the learner of now, in a thread, and nothing waits for it but teaching."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pydantic import TypeAdapter

import onebit
from onebit.learner.learner import Learner
from onebit.service.core.replicas import Replicas, RequestTerms
from onebit.service.errors import InvalidError, NotFoundError
from onebit.service.replies import ExplanationReply
from onebit.service.service import Service
from tests.service.driving import (
    PATIENCE_S,
    TEXT,
    Where,
    decided,
    everything_in,
    heard,
    new_task,
    run,
    service_in,
    until,
)


async def taught(service: Service, **task: Any) -> None:
    """A task that has learnt a few words."""
    await service.create(new_task(classes=["sport", "tech"], features=TEXT, **task))
    for number, (text, truth) in enumerate([("goal cup", "sport"), ("chip phone", "tech")] * 6):
        label = (await decided(service, f"{number}", text))["label"]
        await heard(service, f"{number}", right=label == truth)
    await until(lambda: service.summary("fruit", 10)["learnt"] == 12)


@pytest.mark.parametrize("learner", ["auto", "bpa"])
def test_a_decision_is_explained_by_its_own_words_and_nothing_is_written(where: Where, learner: str) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await taught(service, learner=learner, exploration_floor=0.0)
            decision = await decided(service, "why", "Goal! The chip... goal")
            before = everything_in(where)
            found = await service.explain("fruit", "why", 10)
            assert everything_in(where) == before
            TypeAdapter(ExplanationReply).validate_python(found)
            assert (found["id"], found["label"]) == ("why", decision["label"])
            said = {tuple(part["names"]): part["contribution"] for part in found["parts"]}
            sign = 1.0 if found["label"] == "sport" else -1.0
            assert sign * said["goal",] > 0.0 > sign * said["chip",]
            assert found["lead"] == pytest.approx(sum(said.values()) + found["constant"] + found["rest"])
            assert len((await service.explain("fruit", "why", 1))["parts"]) == 1

    run(work())


def test_it_is_the_learner_of_now_that_is_explained(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(learner="bpa", features={"kind": "numbers", "size": 2}))
            label = (await decided(service, "a"))["label"]
            first = await service.explain("fruit", "a", 10)
            assert (first["label"], first["version"], first["lead"], first["parts"]) == (label, "1.0", 0.0, [])
            await heard(service, "a", right=True)
            await until(lambda: service.summary("fruit", 10)["learnt"] == 1)
            then = await service.explain("fruit", "a", 10)
            assert (then["label"], then["version"]) == (label, "1.1")
            assert [part["names"] for part in then["parts"]] == [[1], [0]]
            assert [part["value"] for part in then["parts"]] == [2.0, 1.0]

    run(work())


def test_what_cannot_be_explained_is_refused(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            kernel = {"kernel": "rbf:0.5", "max_support": 10}
            await service.create(new_task(learner="bpa", parameters=kernel))
            await decided(service, "a")
            with pytest.raises(InvalidError, match="cannot be explained: BPA has a kernel"):
                await service.explain("fruit", "a", 10)
            with pytest.raises(NotFoundError, match="no decision 'b'"):
                await service.explain("fruit", "b", 10)
            with pytest.raises(NotFoundError, match="no task"):
                await service.explain("fig", "a", 10)

    run(work())


def test_explaining_while_it_learns_comes_to_the_same_learner(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(learner="auto", features=TEXT))
            await decided(service, "first", "a b c")

            async def explain() -> None:
                for _ in range(30):
                    await service.explain("fruit", "first", 10)

            async def learn() -> None:
                for number in range(60):
                    await decided(service, f"{number}", f"a word{number % 7}")
                    await heard(service, f"{number}", right=number % 3 == 0)

            await asyncio.gather(explain(), explain(), learn())
            await until(lambda: service.summary("fruit", 10)["learnt"] == 60)
            replicas = service.find("fruit").follower.replicas
            first, _ = replicas.look(lambda learner: learner.weights.tobytes())
            replicas.teach(
                lambda learner: learner.learnt
            )  # refused by an assertion where the two differ; and they change places
            assert first == replicas.look(lambda learner: learner.weights.tobytes())[0]

    run(work())


def test_a_long_look_holds_up_no_decision() -> None:
    replicas = Replicas(onebit.BPA(classes=2, features=2, space="dense"), 1)
    looking, enough, seen = threading.Event(), threading.Event(), list[Any]()

    def look(learner: Learner) -> int:
        looking.set()
        assert enough.wait(PATIENCE_S)
        return learner.learnt

    def update(learner: Learner) -> int:
        learner.learn(learner.decide([1.0, 2.0], id="a"), right=True)
        return learner.learnt

    watcher = threading.Thread(target=lambda: seen.append(replicas.look(look)))
    teacher = threading.Thread(target=lambda: seen.append(replicas.teach(update)))
    watcher.start()
    assert looking.wait(PATIENCE_S)
    teacher.start()
    for number in range(10):
        assert replicas.decide([[1.0, 2.0]], [str(number)], [RequestTerms()]).learnt == 0
    assert seen == []
    enough.set()
    watcher.join(PATIENCE_S)
    teacher.join(PATIENCE_S)
    assert sorted(map(str, seen)) == ["(0, '1.0')", "1"]
    assert replicas.decide([[1.0, 2.0]], ["b"], [RequestTerms()]).learnt == 1
