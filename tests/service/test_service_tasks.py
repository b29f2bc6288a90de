"""Tasks, adversarially: created, changed, deleted and switched at the same time as each other, and under traffic."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from onebit.errors import OnebitError
from onebit.learner.learner import Learner
from onebit.service.core.threads import NAME as THREAD_NAME
from onebit.service.core.training import MOST_STARTS
from onebit.service.errors import ConflictError, InvalidError, NotFoundError
from onebit.service.replies import Task
from onebit.service.requests import NewLearner
from onebit.service.service import Service
from onebit.service.store.errors import LogError
from onebit.service.store.reader import Reader
from onebit.service.task import build_learner
from tests.service.driving import (
    Where,
    ask,
    change,
    crash_image,
    decided,
    everything_in,
    followed,
    heard,
    hint,
    locked,
    new_task,
    number_of,
    outcome,
    replayed,
    restarted,
    rows_of,
    run,
    service_in,
    states,
    until,
    without_snapshots,
)
from tests.service.site import NEW, error_in, site_in


class Traffic:
    """Somebody who asks and answers all the time, with seeded chance, until told to stop."""

    def __init__(self, service: Service, seed: int, task: str = "fruit") -> None:
        self._service, self._task, self._name = service, task, f"{task}-{seed}"
        self._chance = random.Random(seed)
        self.rounds = 0
        self._stopped = False
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        chance = self._chance
        waiting: list[str] = []
        while not self._stopped:
            ids = [f"{self._name}-{self.rounds}-{place}" for place in range(chance.choice((1, 1, 2, 7)))]
            asks = [ask(one, (chance.gauss(0, 1), chance.gauss(0, 1))) for one in ids]
            answers = await self._service.decide(self._task, asks, single=False)
            waiting += [one["id"] for one in answers]
            chance.shuffle(waiting)
            told = [waiting.pop() for _ in range(min(len(waiting), chance.choice((0, 1, 3, 9))))]
            if told:
                hints = [hint(one, chance.random() < 0.5) for one in told]
                await self._service.feedback(self._task, hints, single=False)
            self.rounds += 1

    async def more(self, rounds: int) -> None:
        """Wait for so many rounds more."""
        target = self.rounds + rounds
        await until(lambda: self.rounds >= target or self._running.done())

    async def end(self) -> None:
        self._stopped = True
        await self._running


async def more(everybody: list[Traffic], rounds: int) -> None:
    await asyncio.gather(*(one.more(rounds) for one in everybody))


async def assert_equal_everywhere(service: Service) -> None:
    """The state of a service is the replay of its log, and what any restart comes to."""
    folder = service.settings.where
    found = await states(service)
    crashed = crash_image(folder)
    assert {name: replayed(folder, name) for name in found} == found
    assert await restarted(crashed) == found
    assert await restarted(without_snapshots(crashed)) == found


# --- creating and deleting -------------------------------------------------------------------------------------------


def test_a_name_is_taken_once(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            found = await asyncio.gather(*(outcome(service.create(new_task(seed=seed))) for seed in range(8)))
            assert sum(isinstance(one, ConflictError) for one in found) == 7
            assert service.task_names() == ["fruit"]
            await decided(service, "a")
        assert rows_of(where, "SELECT count(*) FROM changes") == [(1,)]

    run(work())


def test_a_name_is_free_after_the_task_is_deleted(where: Where) -> None:
    async def work() -> None:
        async with service_in(where, snapshot_every=10) as service:
            for life in range(3):
                assert (await service.create(new_task(classes=2 + life, seed=life))).classes == list(range(2 + life))
                for number in range(30):
                    await decided(service, str(number), (float(number), 1.0))
                    assert await heard(service, str(number), number % 2 == 0) == "accepted"
                assert service.stats("fruit")["decisions"] <= 30
                if life < 2:
                    ended = await service.delete("fruit")
                    assert isinstance(ended, Task)
                    assert ended.deleted is not None
                    for refused in (
                        decided(service, "0"),
                        heard(service, "0"),
                        service.change("fruit", change(mode="shadow")),
                        service.delete("fruit"),
                        service.switch("fruit", NewLearner(learner="bpa")),
                    ):
                        assert isinstance(await outcome(refused), NotFoundError)
                    assert service.tasks() == []
            assert number_of(where, "fruit") == 3
            await assert_equal_everywhere(service)
            answers = [await decided(service, str(number), (float(number), 1.0)) for number in range(30)]
        async with service_in(where) as service:
            assert service.task_names() == ["fruit"]
            assert [await decided(service, str(number), (float(number), 1.0)) for number in range(30)] == answers
            assert service.task("fruit").classes == [0, 1, 2, 3]
        assert rows_of(where, "SELECT task, count(*) FROM decisions GROUP BY task ORDER BY task") == [
            (1, 30),
            (2, 30),
            (3, 30),
        ]

    run(work())


def test_deleted_twice_at_once(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            found = await asyncio.gather(*(outcome(service.delete("fruit")) for _ in range(3)))
            assert not [one for one in found if isinstance(one, Exception) and not isinstance(one, NotFoundError)]
            await service.create(new_task())
        assert rows_of(where, "SELECT kind FROM changes ORDER BY seq") == [("created",), ("deleted",), ("created",)]

    run(work())


def test_changed_while_it_is_deleted(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            deleting = asyncio.create_task(outcome(service.delete("fruit")))
            await asyncio.sleep(0)
            changing = asyncio.create_task(service.change("fruit", change(add_classes=["d"])))
            await asyncio.wait([deleting, changing], timeout=2.0)
            done = changing.done()
            changing.cancel()
            assert done

    run(work())


def test_traffic_while_it_is_deleted(where: Where) -> None:
    """Whoever is answered has a row in the log; whoever is not hears that the task is gone."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            asking = [asyncio.create_task(outcome(decided(service, str(number)))) for number in range(40)]
            await asyncio.sleep(0)
            deleting = asyncio.create_task(service.delete("fruit"))
            more = [asyncio.create_task(outcome(decided(service, str(number)))) for number in range(40, 80)]
            await deleting
            more += [asyncio.create_task(outcome(decided(service, str(number)))) for number in range(80, 90)]
            found = [await one for one in asking + more]
            answered = {one["id"] for one in found if isinstance(one, dict)}
            assert len(answered) < 90
            assert all(isinstance(one, dict | NotFoundError) for one in found)
        assert {row[0] for row in rows_of(where, "SELECT id FROM decisions")} == answered
        assert await restarted(where) == {}

    run(work())


def test_a_task_is_not_there_before_it_is_on_disk(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task("other"))
            with locked(where):
                creating = asyncio.create_task(outcome(service.create(new_task())))
                await asyncio.sleep(0.3)  # the writer is at it
                asking = asyncio.create_task(outcome(decided(service, "a")))
                await until(creating.done)
            assert (await creating).status == 503
            answer = await asking
        assert not isinstance(answer, dict)
        orphans = "SELECT count(*) FROM decisions WHERE task NOT IN (SELECT task FROM changes WHERE kind = 'created')"
        assert rows_of(where, orphans) == [(0,)]

    run(work())


def test_a_task_that_cannot_be_written_can_be_created_again(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            with locked(where):
                assert (await outcome(service.create(new_task()))).status == 503
                assert service.task_names() == []
            await service.create(new_task())
            await decided(service, "a")
            await heard(service, "a")
            await assert_equal_everywhere(service)

    run(work())


# --- changing --------------------------------------------------------------------------------------------------------


def test_the_same_class_added_twice_at_once(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            found = await asyncio.gather(
                *(outcome(service.change("fruit", change(add_classes=["d"]))) for _ in range(2)),
                outcome(service.change("fruit", change(add_classes=["e", "d"]))),
            )
            assert sum(isinstance(one, InvalidError | ConflictError) for one in found) == 2
            assert service.task("fruit").classes == ["a", "b", "c", "d"]
            assert service.failing is None
        await restarted(where)

    run(work())


def test_changes_that_are_given_up_while_they_are_written(where: Where) -> None:
    """They hold, or they do not; in memory as on disk."""

    async def given_up(work: Any) -> None:
        task = asyncio.create_task(outcome(work))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await service.create(new_task("gone"))
            with locked(where):
                await given_up(service.change("fruit", change(add_classes=["d"], mode="shadow")))
                await given_up(service.delete("gone"))
                await given_up(service.create(new_task("new")))
            await until(lambda: service.task_names() == ["fruit", "new"])
            await outcome(service.change("fruit", change(add_classes=["d"])))
            await outcome(service.create(new_task("new")))
            await outcome(service.create(new_task("gone")))
            await decided(service, "last")  # what was under way before is on disk when this is
            await asyncio.sleep(0.2)
            assert service.failing is None
            now = {task.name: (task.classes, task.mode) for task in service.tasks()}
            for name in now:
                await decided(service, "a", task=name)
            found = await states(service)
        async with service_in(where) as service:
            assert {task.name: (task.classes, task.mode) for task in service.tasks()} == now
            assert await states(service) == found

    run(work())


@pytest.mark.parametrize(
    ("given", "added"),
    [
        pytest.param(
            {"learner": "conservative-ova", "parameters": {"coding": [[1, -1], [-1, 1], [1, 1]]}},
            ["d"],
            id="a coding matrix of three rows",
        ),
        pytest.param({}, ["a"], id="a name that is there"),
        pytest.param({}, ["d", "d"], id="a name twice"),
        pytest.param({"classes": [1, 2]}, ["1"], id="a name that is written like another"),
        pytest.param({}, ["\ud800"], id="half a character"),
    ],
)
def test_a_class_that_cannot_be_added_changes_nothing(where: Where, given: dict[str, Any], added: list[str]) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(**given))
            written, classes = everything_in(where), service.task("fruit").classes
            with pytest.raises((InvalidError, ValueError)):
                await service.change("fruit", change(add_classes=added))
            assert everything_in(where) == written
            assert service.task("fruit").classes == classes
            await decided(service, "a")
            await heard(service, "a")
            await followed(service)
        await restarted(where)

    run(work())


def test_classes_are_not_added_beyond_what_a_new_task_may_have(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onebit.service.task.MAX_WEIGHTS", 100)

    async def work() -> None:
        async with service_in(where) as service:
            assert isinstance(
                await outcome(service.create(new_task(classes=4, features={"kind": "numbers", "size": 30}))),
                InvalidError,
            )
            await service.create(new_task(features={"kind": "numbers", "size": 30}))
            with pytest.raises(InvalidError):
                await service.change("fruit", change(add_classes=["d"]))

    run(work())


@pytest.mark.parametrize("rule", ["banditron", "auto", "offset-tree"])
def test_classes_are_added_under_traffic(where: Where, rule: str) -> None:
    async def work() -> None:
        async with service_in(where, snapshot_every=50) as service:
            await service.create(new_task(learner=rule, exploration_floor=0.3))
            everybody = [Traffic(service, seed) for seed in range(3)]
            for name in ("d", "e", 7):
                await more(everybody, 10)
                task = await service.change("fruit", change(add_classes=[name]))
                assert task.classes[-1] == name
                answer = await decided(service, f"with {name}")
                assert str(name) in answer["probabilities"]  # it is there when the change returns
            await more(everybody, 10)
            for one in everybody:
                await one.end()
            assert service.task("fruit").classes == ["a", "b", "c", "d", "e", 7]
            await assert_equal_everywhere(service)

    run(work())


# --- switching -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [("banditron", "auto"), ("auto", "offset-tree"), ("soba", "newtron")])
def test_the_learner_is_switched_under_traffic(where: Where, before: str, after: str) -> None:
    async def work() -> None:
        async with service_in(where, snapshot_every=100) as service:
            await service.create(new_task(learner=before))
            everybody = [Traffic(service, seed) for seed in range(3)]
            await more(everybody, 30)
            task = await service.switch("fruit", NewLearner(learner=after, seed=3))
            assert task.training is not None
            assert task.training.learner == after
            await until(lambda: service.task("fruit").training is None)
            task = service.task("fruit")
            assert (task.learner, task.generation) == (after, 2)
            answer = await decided(service, "after")
            assert answer["version"].startswith("2.")
            await more(everybody, 30)
            for one in everybody:
                await one.end()
            assert rows_of(where, "SELECT DISTINCT generation FROM decisions ORDER BY generation") == [(1,), (2,)]
            await assert_equal_everywhere(service)
            await service.switch("fruit", NewLearner(learner=before, seed=4))
            await until(lambda: service.task("fruit").generation == 3)
            await decided(service, "third")
            await heard(service, "third")
            await assert_equal_everywhere(service)
            found = await states(service)
        assert await restarted(where) == found

    run(work())


class Held:
    """Training that goes on until it is let go, as it does on a log of a million rows."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self._go, train = threading.Event(), service.trainers._train_near

        def slow(*arguments: Any) -> None:
            train(*arguments)
            self._go.wait(30.0)
            train(*arguments)

        monkeypatch.setattr(service.trainers, "_train_near", slow)

    def let_go(self) -> None:
        self._go.set()


@pytest.mark.parametrize("played", [False, True])
def test_a_class_is_added_while_another_learner_is_trained(
    where: Where, monkeypatch: pytest.MonkeyPatch, played: bool
) -> None:
    """Whether or not the new class has been played by then."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(exploration_floor=0.9))
            held = Held(service, monkeypatch)
            for number in range(50):
                await decided(service, f"a{number}", (float(number), 1.0))
                await heard(service, f"a{number}", number % 3 == 0)
            await service.switch("fruit", NewLearner(learner="auto", seed=3))
            await service.change("fruit", change(add_classes=["d"]))
            labels = set()
            for number in range(50 if played else 0):
                labels.add((await decided(service, f"b{number}", (float(number), 1.0)))["label"])
                await heard(service, f"b{number}", number % 3 == 0)
            assert ("d" in labels) is played
            held.let_go()
            await until(lambda: service.task("fruit").training is None or service.task("fruit").training.error, 10.0)  # type: ignore[union-attr]
            task = service.task("fruit")
            assert (task.generation, task.training) == (2, None)
            await decided(service, "after")
            await heard(service, "after")
            await assert_equal_everywhere(service)

    run(work())


def test_one_learner_is_trained_at_a_time(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            held = Held(service, monkeypatch)
            await service.switch("fruit", NewLearner(learner="bpa"))
            with pytest.raises(ConflictError):
                await service.switch("fruit", NewLearner(learner="pab"))
            for bad in (
                NewLearner(learner="nonsense"),
                NewLearner(learner="perceptron"),  # it learns from labels
                NewLearner(learner="bpa", parameters={"nonsense": 1}),
                NewLearner(learner="bpa", parameters={"seed": 1}),
                NewLearner(learner="newtron", exploration_floor=0.5),
            ):
                assert (await outcome(service.switch("fruit", bad))).status in (409, 422)
            held.let_go()
            await until(lambda: service.task("fruit").training is None)
            for bad in (
                NewLearner(learner="nonsense"),
                NewLearner(learner="perceptron"),
                NewLearner(learner="bpa", parameters={"nonsense": 1}),
                NewLearner(learner="bpa", parameters={"seed": 1}),
                NewLearner(learner="newtron", exploration_floor=0.5),
            ):
                with pytest.raises(InvalidError):
                    await service.switch("fruit", bad)
            assert service.task("fruit").learner == "bpa"

    run(work())


def test_a_service_that_ends_while_a_learner_is_trained_goes_on_training(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it ends: the learner that takes over then is the one that was asked for, with its seed."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await decided(service, "a")
            await heard(service, "a")
            held = Held(service, monkeypatch)
            await service.switch("fruit", NewLearner(learner="auto", seed=3))
            killed = crash_image(where)  # what kill -9 leaves when the answer has been sent
            asyncio.get_running_loop().call_later(0.2, held.let_go)
        for folder in (where, killed):
            async with service_in(folder) as service:
                training = service.task("fruit").training
                assert training is None or (training.learner, training.error) == ("auto", None)
                await until(lambda: service.task("fruit").training is None)
                assert (service.task("fruit").learner, service.task("fruit").generation) == ("auto", 2)
                assert service.find("fruit").info.seed == 3
                await decided(service, "b")
                await assert_equal_everywhere(service)

    run(work())


def test_a_training_that_failed_is_not_begun_again(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OnebitError("no room for it")

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            with monkeypatch.context() as patched:
                patched.setattr(service.trainers, "_train_near", fails)
                await service.switch("fruit", NewLearner(learner="bpa"))
                await until(lambda: not service.trainers._under_way)
            assert service.task("fruit").training.error == "no room for it"  # type: ignore[union-attr]
        async with service_in(where) as service:
            assert (service.task("fruit").learner, service.task("fruit").training) == ("banditron", None)
            await service.switch("fruit", NewLearner(learner="bpa"))
            await until(lambda: service.task("fruit").training is None)
            assert service.task("fruit").learner == "bpa"

    run(work())


def test_a_training_goes_on_when_the_log_could_not_be_read_for_a_while(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost connection is no failure of the training, and nothing is learnt twice."""
    monkeypatch.setattr("onebit.service.core.training.RETRY_S", 0.01)
    failures = iter([True, True, False, True])
    events, changes = Reader.events, Reader.changes

    def fails_at_first(read: Any) -> Any:
        def reads(*arguments: Any) -> Any:
            if threading.current_thread().name == THREAD_NAME and next(failures, False):
                raise LogError("the connection was lost")
            return read(*arguments)

        return reads

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            for number in range(10):
                await decided(service, str(number))
                await heard(service, str(number), number % 3 == 0)
            await followed(service)
            monkeypatch.setattr(Reader, "events", fails_at_first(events))
            monkeypatch.setattr(Reader, "changes", fails_at_first(changes))
            await service.switch("fruit", NewLearner(learner="bpa", seed=3))
            await until(lambda: service.task("fruit").training is None)
            assert (service.task("fruit").learner, service.task("fruit").generation) == ("bpa", 2)
            assert next(failures, None) is None
            await assert_equal_everywhere(service)

    run(work())


def test_a_training_that_ends_the_service_again_and_again_is_given_up(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            Held(service, monkeypatch)
            await service.switch("fruit", NewLearner(learner="bpa"))
            await asyncio.sleep(0.05)
        monkeypatch.setattr("onebit.service.core.training.Trainers._train_near", lambda *_: time.sleep(0.5))
        for starts in range(2, MOST_STARTS + 1):
            async with service_in(where) as service:
                await until(lambda: service.find("fruit").info.training["starts"] == starts)  # type: ignore[index]  # noqa: B023
        async with service_in(where) as service:
            await until(lambda: not service.trainers._under_way)
            training = service.task("fruit").training
            assert training is not None
            assert training.error is not None
            assert training.error.startswith("its training was started 5 times")
            assert service.task("fruit").learner == "banditron"
        async with service_in(where) as service:
            assert service.task("fruit").training is None

    run(work())


def test_a_task_that_is_deleted_while_a_learner_is_trained(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            held = Held(service, monkeypatch)
            await service.switch("fruit", NewLearner(learner="bpa"))
            await service.delete("fruit")
            await service.create(new_task())
            held.let_go()
            await until(lambda: not service.trainers._under_way)
            assert service.task("fruit").learner == "banditron"
            await decided(service, "a")
            await assert_equal_everywhere(service)

    run(work())


def test_feedback_for_the_old_learner_comes_after_the_switch(where: Where) -> None:
    """In all modes, and also what the new one cannot learn."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            for mode in ("learn", "shadow", "log-only"):
                await service.change("fruit", change(mode=mode))
                await service.decide(
                    "fruit", [ask(f"{mode} {number}", (float(number), 1.0)) for number in range(20)], single=False
                )
            await service.change("fruit", change(mode="learn"))
            for number in range(10):
                await heard(service, f"learn {number}", number % 2 == 0)
            await service.switch("fruit", NewLearner(learner="newtron", seed=4))
            await until(lambda: service.task("fruit").training is None)
            await service.decide("fruit", [ask(f"new {number}", (float(number), 1.0)) for number in range(20)])
            for number in range(10, 20):
                await heard(service, f"new {number}", number % 3 == 0)
                await heard(service, f"learn {number}", number % 2 == 0)
                await heard(service, f"log-only {number}", number % 2 == 0)
                await heard(service, f"shadow {number}", number % 2 == 0, shown="b", shown_propensity=0.3)
            await assert_equal_everywhere(service)

    run(work())


@pytest.mark.parametrize("what", ["create", "switch", "change"])
def test_others_are_served_while_a_learner_is_made(where: Where, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """To make one takes long where it has to be compiled, or is large."""
    begun, served, in_time = threading.Event(), threading.Event(), []

    def slow(*arguments: Any) -> Any:
        begun.set()
        in_time.append(served.wait(2.0))
        return build_learner(*arguments)

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            for module in ("task_changes", "follower", "compiler"):
                monkeypatch.setattr(f"onebit.service.core.{module}.build_learner", slow)
            making = asyncio.create_task(
                outcome(
                    service.create(new_task("another"))
                    if what == "create"
                    else service.switch("fruit", NewLearner(learner="bpa"))
                    if what == "switch"
                    else service.change("fruit", change(add_classes=["d"]))
                )
            )
            await until(begun.is_set)
            await decided(service, "a")
            served.set()
            assert not isinstance(await making, Exception)
            await until(lambda: not service.trainers._under_way)

    run(work())
    assert all(in_time)


def test_there_are_only_so_many_tasks(where: Where) -> None:
    async def work() -> None:
        async with service_in(where, max_tasks=2) as service:
            made = [outcome(service.create(new_task(name))) for name in ("a", "b", "c")]  # at the same time
            found = await asyncio.gather(*made)
            assert [type(one).__name__ for one in found] == ["Task", "Task", "ConflictError"]
            assert "2 tasks, the maximum (--max-tasks)" in str(found[2])
            await service.delete("a")
            await service.create(new_task("c"))
        async with service_in(where, max_tasks=1) as service:  # those that are there stay
            assert service.task_names() == ["b", "c"]
            assert isinstance(await outcome(service.create(new_task("d"))), ConflictError)

    run(work())


def test_a_token_creates_only_so_many_tasks(where: Where) -> None:
    async def work() -> None:
        async with service_in(where, max_tasks_per_token=2) as service:
            made = [outcome(service.create(new_task(name), "t1")) for name in ("a", "b", "c")]  # at the same time
            found = await asyncio.gather(*made)
            assert [type(one).__name__ for one in found] == ["Task", "Task", "ConflictError"]
            assert "created 2 tasks, the maximum (--max-tasks-per-token)" in str(found[2])
            await service.create(new_task("d"), "t2")  # others, and a service without tokens, are counted apart
            await service.create(new_task("e"))
        async with service_in(where, max_tasks_per_token=2) as service:  # the log knows it after a restart
            assert isinstance(await outcome(service.create(new_task("c"), "t1")), ConflictError)
            await service.delete("a", "t2")
            await service.create(new_task("c"), "t1")

    run(work())


LARGE: dict[str, Any] = {"learner": "auto", "classes": ["a", "b"], "features": {"kind": "text", "hash_bits": 25}}


def test_what_takes_too_much_memory_is_refused_before_it_is_made(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            refused = await outcome(service.create(new_task(**LARGE)))
            assert isinstance(refused, InvalidError)
            assert "would take 8,704 MiB of memory, but a task may take at most 1,024 (--max-task-memory)" in str(
                refused
            )
            assert refused.field == "features"
        small = {"kind": "text", "hash_bits": 12}
        most = 2 * Learner("banditron", classes=5).runtime.model.size(5, 2**12, dense=False)
        async with service_in(where, max_task_memory=most) as service:
            await service.create(new_task(features=small))
            for name in ("d", "e"):  # up to the limit
                await service.change("fruit", change(add_classes=[name]))
            refused = await outcome(service.change("fruit", change(add_classes=["f"])))
            assert isinstance(refused, InvalidError)
            assert refused.field == "add_classes"
            refused = await outcome(service.switch("fruit", NewLearner(learner="confidit")))
            assert isinstance(refused, InvalidError)
            assert refused.field == "learner"
            assert len(service.task("fruit").classes) == 5
        async with service_in(where, max_task_memory=1) as service:  # what is there is not measured
            assert service.task_names() == ["fruit"]
            await decided(service, "a", "some words")

    run(work())


def test_memory_that_is_not_there_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whichever place it is missing: in the arrays of a new learner, in its second copy, in what a request needs."""

    def none(*given: Any, **more: Any) -> None:
        raise MemoryError("Unable to allocate 4.00 GiB")

    with site_in(tmp_path) as site:
        assert site.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        places = {
            "onebit.spaces.dense.np.zeros": ("POST", "/v1/tasks", {**NEW, "name": "b"}),
            "onebit.service.core.replicas.copy_learner": ("POST", "/v1/tasks", {**NEW, "name": "b"}),
            "onebit.service.core.task_changes.build_learner": ("PATCH", "/v1/tasks/fruit", {"add_classes": ["new"]}),
            "onebit.service.core.replicas.Replicas.decide": ("POST", "/v1/tasks/fruit/decide", {"x": [1, 2, 3]}),
        }
        for place, (method, path, body) in places.items():
            with monkeypatch.context() as patched:
                patched.setattr(place, none)
                answer = site.ask(method, path, json=body)
            assert answer.status_code == 507, place
            assert "not enough memory" in error_in(answer.content)["message"]
            assert site.ask(method, path, json=body).status_code in (200, 201)
            site.ask("DELETE", "/v1/tasks/b")


def test_no_row_of_a_task_comes_after_its_deletion(where: Where) -> None:
    """Also where somebody decides while the deletion is being written."""

    async def work() -> None:
        async with service_in(where) as service:
            for turn in range(5):
                await service.create(new_task())
                first = asyncio.create_task(service.delete("fruit"))
                decisions: list[asyncio.Task[Any]] = []
                while not first.done():
                    ids = (f"{turn}-{len(decisions)}-{number}" for number in range(40))
                    decisions.append(
                        asyncio.create_task(outcome(service.decide("fruit", [ask(one) for one in ids], single=False)))
                    )
                    await asyncio.sleep(0)
                found = await asyncio.gather(*decisions)
                assert any(isinstance(one, NotFoundError) for one in found)
                assert all(isinstance(one, NotFoundError | list) for one in found)
        late = "SELECT count(*) FROM decisions d JOIN changes c ON c.task = d.task AND c.kind = 'deleted' WHERE d.seq > c.seq"
        assert rows_of(where, late) == [(0,)]

    run(work())
