"""Both clients against the real service, in a process of its own."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onebit.client import AsyncClient, Client, DecisionReply, ServiceError
from onebit.service.tokens import Tokens
from tests.client.scripted import KINDS
from tests.service.site import Process
from tests.slow import SLOW

LEARNER = "banditron"  # compiles quickest
CROWD = 1000 if SLOW else 100


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("service") / "data")
    yield process
    assert process.end() == 0


@pytest.fixture(scope="module")
def small_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One that takes little at a time."""
    process = Process(tmp_path_factory.mktemp("small") / "data", "--max-batch", "40", "--max-body", "20000")
    yield process
    assert process.end() == 0


@pytest.fixture(scope="module")
def closed_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, str, str]]:
    """One with tokens: of somebody who may do everything, and of somebody who may decide for another task."""
    folder = tmp_path_factory.mktemp("closed") / "data"
    tokens = Tokens(folder / "tokens.json")
    given = tokens.create(["admin"]), tokens.create(["decide"], ["other"])
    process = Process(folder)
    yield process, *given
    assert process.end() == 0


@pytest.fixture(params=KINDS)
def talk(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Run a conversation, written with `await`, with a client of either kind."""

    def run(conversation: Callable[[Any], Any], url: str, token: str | None = None, **options: Any) -> Any:
        async def without_blocking() -> Any:
            async with AsyncClient(url, token, **options) as client:
                return await conversation(client)

        if request.param == "async":
            return asyncio.run(without_blocking())
        with Client(url, token, **options) as client:
            return asyncio.run(conversation(_Awaited(client)))

    return run


class _Awaited:
    """A client that blocks, with an `await` before each call all the same."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if name == "task":
            return lambda *given: _Awaited(found(*given))
        if not inspect.ismethod(found):
            return found

        async def call(*given: Any, **named: Any) -> Any:
            answer = found(*given, **named)
            return _Awaited(answer) if name == "create_task" else answer

        return call


async def until(look: Callable[[], Any], seen: Callable[[Any], bool]) -> Any:
    """What is seen when the learner thread has come so far."""
    for _ in range(600):
        found = await look()
        if seen(found):
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(found)


def test_a_task_from_its_beginning_to_its_end(service: Process, talk: Callable[..., Any]) -> None:
    async def conversation(client: Any) -> None:
        assert await client.ready()
        assert (await client.version()).version
        news = await client.create_task("news", ["sport", "tech"], {"kind": "text", "hash_bits": 10}, learner=LEARNER)
        assert [task.name for task in await client.tasks()] == ["news"]

        decided = await news.decide("late goal wins the cup")
        assert decided.label in ("sport", "tech")
        assert decided.probabilities[decided.label] == decided.propensity
        assert await news.decide("late goal wins the cup", id=decided.id) == decided
        with pytest.raises(ServiceError, match="another x") as refused:
            await news.decide("a new chip", id=decided.id)
        assert (refused.value.status, refused.value.code) == (409, "conflict")

        assert (await news.feedback(decided, right=True)).status == "accepted"
        assert (await news.feedback(decided.id, right=True)).status == "duplicate"
        with pytest.raises(ServiceError, match="the first feedback counts"):
            await news.feedback(decided.id, right=False)
        with pytest.raises(ServiceError, match="no decision 'nobody'") as refused:
            await news.feedback("nobody", right=False)
        assert refused.value.status == 404

        many = await news.decide_many(["goal", "chip", "cup"], ids=["a/b", "..", "ä ?#"])
        heard = await news.feedback_many([*many, "nobody"], [True, False, True, True])
        assert [one.status for one in heard] == ["accepted", "accepted", "accepted", "unknown"]
        assert heard[3].message
        for one in many:
            assert (await news.decision(one.id)).id == one.id
            why = await news.explain(one, top=1)
            assert (why.id, why.label) == (one.id, one.label)
        logged = await news.decisions(limit=2)
        assert [one.id for one in logged] == ["ä ?#", ".."]
        assert (await news.decisions(limit=1, before=logged[1].seq))[0].x == "goal"

        assert (await news.feedback(many[0], right=False, revise=True)).status == "revised"
        assert (await news.withdraw(many[1])).status == "withdrawn"
        revised = await until(news.stats, lambda stats: stats.queue == 0 and stats.feedback == 3)
        assert (revised.right, revised.revised, revised.withdrawn) == (2, 1, 1)
        assert ((await news.decision(many[0])).right, (await news.decision(many[1])).right) == (False, None)
        again = await news.feedback_many([*many[:2], "nobody"], [True, False, True], revise=True)
        assert [one.status for one in again] == ["revised", "revised", "unknown"]
        assert [one.status for one in await news.withdraw_many([many[2], "nobody"])] == ["withdrawn", "unknown"]
        assert (await news.feedback(many[2], right=True, revise=True)).status == "revised"

        alone = await news.decide("offside", among=["sport"], complete=True, sure=0.5)
        assert (alone.label, alone.among, alone.propensity) == ("sport", ["sport"], 1.0)
        assert alone.confidence is not None
        assert (await news.feedback(alone, truth="sport")).status == "accepted"
        assert (await news.feedback(alone, reward=0.25, revise=True)).status == "revised"
        graded = await until(news.stats, lambda stats: stats.queue == 0 and stats.feedback == 5)
        assert (graded.rewards, graded.truths, graded.certainty.asked) == (1, 0, 1)
        assert (await news.decision(alone)).reward == 0.25
        assert ((await news.withdraw(alone)).status, (await news.change(risk=0.1)).risk) == ("withdrawn", 0.1)
        assert (await news.change(risk=None)).risk is None

        changed = await news.change(add_classes=["art"], deadline_s=60.0, silence="wrong")
        assert (changed.classes, changed.deadline_s, changed.silence) == (["sport", "tech", "art"], 60.0, "wrong")
        assert (await news.change(deadline_s=None)).deadline_s is None
        assert (await news.change(mode="shadow")).mode == "shadow"
        seen = await news.decide("paint")
        with pytest.raises(ServiceError, match="shown is missing"):
            await news.feedback(seen, right=True)
        assert (await news.feedback(seen, True, shown="art", shown_propensity=0.5)).status == "accepted"
        assert (await news.decision(seen)).shown == "art"

        stats = await until(lambda: news.stats(window=10), lambda stats: stats.queue == 0 and stats.decisions == 6)
        assert (stats.feedback, stats.window.size) == (5, 10)
        assert {one.name for one in stats.classes} == {"sport", "tech", "art"}
        await news.switch("bandit-perceptron")
        assert (await until(news.info, lambda task: task.generation == 2)).learner == "bandit-perceptron"
        gone = await news.forget([seen])
        assert (gone.forgotten, gone.erased) == (1, True)
        with pytest.raises(ServiceError, match="was forgotten"):
            await news.decision(seen)
        assert (await news.delete()).deleted
        with pytest.raises(ServiceError, match="no task 'news'"):
            await news.decide("goal")

    talk(conversation, service.url)


def test_creating_what_is_there(service: Process, talk: Callable[..., Any]) -> None:
    async def conversation(client: Any) -> None:
        for floor in (None, 0.1):
            handle = await client.create_task("same", 3, 2, learner=LEARNER, exploration_floor=floor)
            await client.create_task("same", 3, 2, learner=LEARNER, exploration_floor=floor, exist_ok=True)
            for given in ({}, {"exist_ok": True, "mode": "shadow"}):
                with pytest.raises(ServiceError, match="there is already a task 'same'"):
                    await client.create_task("same", 3, 2, learner=LEARNER, **given)
            await handle.delete()

    talk(conversation, service.url)


def test_numbers_of_every_kind_come_through_unchanged(service: Process, talk: Callable[..., Any]) -> None:
    X = np.random.default_rng(0).normal(size=(50, 4)) * 10.0 ** np.arange(-20, 20, 10)

    async def conversation(client: Any) -> None:
        task = await client.create_task("numbers", 3, 4, learner=LEARNER)
        decided = await task.decide_many(X)
        logged = await task.decisions(limit=50)
        assert [one.x for one in reversed(logged)] == X.tolist()
        assert [one.id for one in reversed(logged)] == [one.id for one in decided]
        with pytest.raises(ServiceError, match="expected 4 numbers, got 3"):
            await task.decide([1, 2, 3])
        await task.delete()

    talk(conversation, service.url)


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda task: task.decide([1.0], sure=0.5, risk=0.5), "risk cannot be given together with sure"),
    (lambda task: task.decide([1.0], complete=1), "complete is 1, but must be true or false"),
    (lambda task: task.feedback("a"), "right, reward or truth is missing"),
    (lambda task: task.feedback("a", 1), "right is 1, but must be true or false"),
    (lambda task: task.feedback("a", True, reward=1.0), "give one of right, reward and truth"),
    (lambda task: task.feedback("a", reward=7), r"reward is 7.*, but .* \(reward - a\) / \(b - a\)"),
    (lambda task: task.feedback("a", reward="much"), "reward is 'much', but must be a number"),
    (lambda task: task.feedback("a", True, "b", "half"), "shown_propensity is 'half', but must be a number"),
    (lambda task: task.feedback("a", True, revise="yes"), "revise is 'yes', but must be true or false"),
    (lambda task: task.feedback_many(["a", "b"], [True, 0]), r"\[1\].right is 0, but must be true or false"),
    (lambda task: task.feedback_many(["a", "b"], rewards=[0.5, None]), r"\[1\].right, reward or truth is missing"),
    (lambda task: task.feedback_many(["a"], [True], truths=[1]), r"\[0\].truth cannot be given together with right"),
    (lambda task: task.forget(["a"], before=1.0), "give either ids or before"),
    (lambda task: task.forget(), "give either ids or before"),
]


def test_what_the_service_refuses(service: Process, talk: Callable[..., Any]) -> None:
    async def conversation(client: Any) -> None:
        task = await client.create_task("strict", 2, 1, learner=LEARNER)
        await task.decide_many([[1.0], [2.0]], ids=["a", "b"])
        for call, sentence in REFUSED:
            with pytest.raises(ServiceError, match=sentence) as refused:
                await call(task)
            assert refused.value.status == 422
        assert (await task.stats()).feedback == 0
        await task.delete()

    talk(conversation, service.url)


def test_a_service_that_takes_little_at_a_time(small_service: Process, talk: Callable[..., Any]) -> None:
    X = np.random.default_rng(0).normal(size=(300, 30))  # some 600 bytes a row

    async def conversation(client: Any) -> None:
        task = await client.create_task("few", 2, 30, learner=LEARNER)
        decided = await task.decide_many(X)
        assert len({one.id for one in decided}) == 300
        assert {one.status for one in await task.feedback_many(decided, [True] * 300)} == {"accepted"}
        assert [one.x for one in reversed(await task.decisions(limit=300))] == X.tolist()
        await task.delete()

    talk(conversation, small_service.url)


def test_tokens(closed_service: tuple[Process, str, str], talk: Callable[..., Any]) -> None:
    service, admin, other = closed_service

    async def create(client: Any) -> None:
        await client.create_task("mine", 2, 1, learner=LEARNER)

    async def decide(client: Any) -> Any:
        return await client.task("mine").decide([1.0])

    async def delete(client: Any) -> None:
        await client.task("mine").delete()

    talk(create, service.url, admin)
    assert talk(decide, service.url, admin).label in (0, 1)
    for token, status, code in (
        (None, 401, "unauthorized"),
        (f"{admin}x", 401, "unauthorized"),
        (other, 403, "forbidden"),
    ):
        with pytest.raises(ServiceError) as refused:
            talk(decide, service.url, token)
        assert (refused.value.status, refused.value.code) == (status, code)
        assert admin not in str(refused.value)
    talk(delete, service.url, admin)


@pytest.mark.long
def test_clients_come_over_a_restart(tmp_path: Path) -> None:
    """Whatever is done to the service, every call of either kind comes back, and what was acknowledged is there once."""
    folder = tmp_path / "data"
    service = Process(folder)
    port = service.url.rpartition(":")[2]
    with Client(service.url) as client:
        client.create_task("long", 3, 2, learner=LEARNER)
    done: dict[str, list[DecisionReply]] = {kind: [] for kind in KINDS}
    ending = threading.Event()

    def block(url: str) -> None:
        with Client(url, attempts=12) as client:
            task = client.task("long")
            while not ending.is_set():
                decided = task.decide([1.0, 2.0])
                assert task.feedback(decided, right=decided.label == 1).status in ("accepted", "duplicate")
                done["blocking"].append(decided)

    async def work(task: Any) -> None:
        while not ending.is_set():
            decided = await task.decide([1.0, 2.0])
            assert (await task.feedback(decided, right=decided.label == 1)).status in ("accepted", "duplicate")
            done["async"].append(decided)

    async def flow(url: str) -> None:
        async with AsyncClient(url, attempts=12) as client:
            await asyncio.gather(*(work(client.task("long")) for _ in range(8)))

    failures: list[BaseException] = []

    def guarded(kind: str) -> None:
        try:
            asyncio.run(flow(service.url)) if kind == "async" else block(service.url)
        except BaseException as error:
            failures.append(error)

    def both_go_on() -> None:
        before = {kind: len(ones) for kind, ones in done.items()}
        while not failures and any(len(done[kind]) < count + 40 for kind, count in before.items()):
            time.sleep(0.01)

    threads = [threading.Thread(target=guarded, args=(kind,)) for kind in ["async"] + ["blocking"] * 4]
    for thread in threads:
        thread.start()
    for how in (signal.SIGKILL, signal.SIGTERM):
        both_go_on()
        service.end(how)
        service = Process(folder, "--port", port)
    both_go_on()
    ending.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    with Client(service.url) as client:
        logged = {one.id: one for one in _all_of(client, "long")}
    ones = [one for kind in KINDS for one in done[kind]]
    assert len(ones) == len({one.id for one in ones})
    for decided in ones:
        there = logged[decided.id]
        assert (there.label, there.propensity, there.version) == (decided.label, decided.propensity, decided.version)
        assert there.right is (decided.label == 1)
    assert set(logged) == {one.id for one in ones}  # nothing was decided twice under two ids
    service.end()


def _all_of(client: Client, name: str) -> list[Any]:
    found: list[Any] = []
    while page := client.task(name).decisions(limit=1000, before=found[-1].seq if found else None):
        found += page
    return found


def test_a_crowd_of_clients_at_once(service: Process) -> None:
    async def one_client(number: int) -> tuple[str, str]:
        async with AsyncClient(service.url, timeout_s=60, attempts=6) as client:
            task = client.task("crowd")
            decided = await task.decide([float(number)], id=f"client-{number}")
            return decided.id, (await task.feedback(decided, right=True)).status

    async def crowd() -> list[tuple[str, str]]:
        return await asyncio.gather(*(one_client(number) for number in range(CROWD)))

    with Client(service.url) as client:
        task = client.create_task("crowd", 2, 1, learner=LEARNER)
        answers = asyncio.run(crowd())
        assert {name for name, _ in answers} == {f"client-{number}" for number in range(CROWD)}
        assert {status for _, status in answers} <= {"accepted", "duplicate"}
        assert len(_all_of(client, "crowd")) == CROWD
        task.delete()


def test_a_crowd_of_requests_of_one_client_at_once(service: Process) -> None:
    async def crowd() -> list[DecisionReply]:
        async with AsyncClient(service.url) as client:
            task = await client.create_task("queue", 2, 1, learner=LEARNER)
            decided = await asyncio.gather(*(task.decide([float(number)]) for number in range(CROWD)))
            heard = await asyncio.gather(*(task.feedback(one, right=True) for one in decided))
            assert {one.status for one in heard} <= {"accepted", "duplicate"}
            await task.delete()
            return decided

    assert len({one.id for one in asyncio.run(crowd())}) == CROWD
