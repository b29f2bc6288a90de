"""Deciding, adversarially: the same id gives the same answer, whatever happens in between; a batch is written whole or not at all."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from onebit.service.errors import ConflictError, InvalidError, NotFoundError, RequestError, TooLargeError
from onebit.service.service import Service
from onebit.service.store import cache
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
    outcome,
    rows_of,
    run,
    service_in,
    until,
)

COUNT = "SELECT count(*) FROM decisions"
ODD_IDS = [
    "😀",
    "e\u0301",
    "é",
    " ",
    "a/b?c#d%00",
    "'; DROP TABLE decisions; --",
    "\\u0041",
    "x" * 200,
    "\ufeff\u2028\n\t",
    "0",
]


async def traffic(service: Service, count: int, start: int = 0, task: str = "fruit") -> None:
    """Decisions and feedback in batches, so that the learner is soon another one."""
    chance = random.Random(start)
    for first in range(start, start + count, 500):
        ids = [f"t{number}" for number in range(first, min(first + 500, start + count))]
        xs = [[chance.gauss(0, 1), chance.gauss(0, 1)] for _ in ids]
        answers = await service.decide(task, [ask(*one) for one in zip(ids, xs, strict=True)], single=False)
        hints = [hint(one["id"], one["label"] == "abc"[int(x[0] > 0)]) for one, x in zip(answers, xs, strict=True)]
        await service.feedback(task, hints, single=False)


def test_the_same_id_gives_the_same_answer_whatever_is_learnt_in_between(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            first = {one: await decided(service, one, (0.5, -1.0)) for one in map(str, range(20))}
            await traffic(service, 4000)
            await followed(service)
            other = [await decided(service, f"new {number}", (0.5, -1.0)) for number in range(20)]
            assert any(
                one["probabilities"] != two["probabilities"] for one, two in zip(first.values(), other, strict=True)
            )
            assert {one: await decided(service, one, (0.5, -1.0)) for one in first} == first
            assert await service.decide("fruit", [ask(one, (0.5, -1.0)) for one in first]) == list(first.values())
            crashed = crash_image(where)
        for folder in (where, crashed):
            async with service_in(folder) as service:
                assert {one: await decided(service, one, (0.5, -1.0)) for one in first} == first
                logged = await service.decision("fruit", "7")
                assert first["7"] == {name: logged[name] for name in first["7"]}
        assert rows_of(where, f"{COUNT} WHERE id IN ('0', '7')") == [(2,)]

    run(work())


@pytest.mark.parametrize("remembered", [cache.MOST_DECISIONS, 10])
def test_fifty_identical_requests_at_once_make_one_row(
    where: Where, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    """Also where nothing is remembered for long, and everything is looked up in the log."""
    monkeypatch.setattr(cache, "MOST_DECISIONS", remembered)

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            answers = await asyncio.gather(*(decided(service, "one") for _ in range(50)))
            assert all(one == answers[0] for one in answers)
            # In batches that share ids in another order, with some that are nobody else's.
            batches = [
                [ask(f"{(place * step) % 23}") for place in range(23)] + [ask(f"own {step}")] for step in (1, 5, 7, 11)
            ]
            many = await asyncio.gather(*(service.decide("fruit", batch, single=False) for batch in batches * 5))
            by_id: dict[str, Any] = {}
            for one in (one for answers in many for one in answers):
                assert by_id.setdefault(one["id"], one) == one
        assert rows_of(where, COUNT) == [(1 + 23 + 4,)]

    run(work())


def test_the_same_id_twice_in_one_batch(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            before = await decided(service, "old")
            answers = await service.decide("fruit", [ask("a"), ask("old"), ask("b"), ask("a"), ask("a")], single=False)
            assert [one["id"] for one in answers] == ["a", "old", "b", "a", "a"]
            assert answers[0] == answers[3] == answers[4]
            assert answers[1] == before
            assert rows_of(where, COUNT) == [(3,)]
            written = everything_in(where)
            with pytest.raises(ConflictError, match="'c'") as caught:
                await service.decide("fruit", [ask("d"), ask("c"), ask("c", (2.0, 2.0))], single=False)
            assert caught.value.status == 409
            for other in ([ask("a", (9.0, 9.0))], [ask("e"), ask("a", (9.0, 9.0))]):
                with pytest.raises(ConflictError, match="'a'"):
                    await service.decide("fruit", other, single=len(other) == 1)
            assert everything_in(where) == written
            for identity in ("c", "d", "e"):  # they were not decided, and can be
                await decided(service, identity, (3.0, 3.0))

    run(work())


def test_an_id_that_was_decided_is_judged_by_every_x_that_a_batch_gives_it(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await decided(service, "a")
            with pytest.raises(ConflictError):
                await service.decide("fruit", [ask("a", (9.0, 9.0)), ask("a")], single=False)

    run(work())


def test_the_same_id_with_another_x_while_the_first_is_being_written(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            found = await asyncio.gather(
                outcome(decided(service, "a", (1.0, 1.0))), outcome(decided(service, "a", (2.0, 2.0)))
            )
            assert found[0]["id"] == "a"
            assert isinstance(found[1], ConflictError)
            assert rows_of(where, COUNT) == [(1,)]
            # Whichever of two opposite batches comes first, the other is refused whole.
            first, second = [ask("p"), ask("q")], [ask("q", (5.0, 5.0)), ask("p"), ask("r")]
            found = await asyncio.gather(
                outcome(service.decide("fruit", first, single=False)),
                outcome(service.decide("fruit", second, single=False)),
            )
            assert isinstance(found[1], ConflictError)
        assert {row[0] for row in rows_of(where, "SELECT id FROM decisions")} == {"a", "p", "q"}

    run(work())


@pytest.mark.parametrize("identity", ODD_IDS)
def test_odd_ids_are_ids(where: Where, identity: str) -> None:
    """The answer is found again in memory, and in the log after a restart; others that look alike are others."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            first = await decided(service, identity)
            assert await decided(service, identity) == first
            assert first["id"] == identity
        async with service_in(where) as service:
            assert await outcome(decided(service, identity)) == first
            assert await heard(service, identity) == "accepted"
            assert await heard(service, identity) == "duplicate"
            assert (await service.decision("fruit", identity))["right"] is True
            others = [one for one in ODD_IDS if one != identity]
            assert len(await service.decide("fruit", [ask(one) for one in others], single=False)) == len(others)
        assert rows_of(where, COUNT) == [(1 + len(others),)]

    run(work())


def test_two_tasks_have_their_own_ids(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task("one"))
            await service.create(new_task("two", seed=2))
            for task in ("one", "two"):
                await decided(service, "a", (1.0, float(task == "one")), task)
                assert await heard(service, "a", task == "one", task) == "accepted"
            with pytest.raises(NotFoundError):
                await decided(service, "a", task="three")
            with pytest.raises(NotFoundError):
                await heard(service, "b", task="one")

    run(work())


@pytest.mark.parametrize("place", [0, 3, 299])
@pytest.mark.parametrize("bad", [[1.0], [1.0, 2.0, 3.0], {"a": 1.0}, "text", []], ids=str)
def test_a_batch_with_one_bad_x_is_refused_whole_and_names_it(where: Where, place: int, bad: Any) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            written = everything_in(where)
            batch = [ask(str(number)) for number in range(300)]
            batch[place] = ask(str(place), bad)
            with pytest.raises(InvalidError) as caught:
                await service.decide("fruit", batch, single=False)
            assert caught.value.field == f"[{place}].x"
            assert f"[{place}].x" in str(caught.value)
            assert everything_in(where) == written
            batch[place] = ask(str(place))
            assert len(await service.decide("fruit", batch, single=False)) == 300

    run(work())


@pytest.mark.parametrize("place", [0, 3, 299])
def test_an_x_that_only_the_learner_refuses_is_named_too(where: Where, place: int) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            written = everything_in(where)
            batch = [ask(str(number)) for number in range(300)]
            batch[place] = ask(str(place), (1e300, 1e300))
            with pytest.raises(InvalidError) as caught:
                await service.decide("fruit", batch, single=False)
            assert everything_in(where) == written
            batch[place] = ask(str(place))
            assert len(await service.decide("fruit", batch, single=False)) == 300
            assert caught.value.field == f"[{place}].x"
            assert f"[{place}]" in str(caught.value)

    run(work())


def test_an_x_that_only_the_learner_refuses_changes_nothing(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            written = everything_in(where)
            for x in ((1e300, 1e300), (3.5e38, 0.0)):
                with pytest.raises(InvalidError, match="too large for float32"):
                    await decided(service, "a", x)
            assert everything_in(where) == written
            await decided(service, "a")

    run(work())


def test_a_batch_beyond_the_limit(where: Where) -> None:
    async def work() -> None:
        async with service_in(where, max_batch=10) as service:
            await service.create(new_task())
            with pytest.raises(TooLargeError):
                await service.decide("fruit", [ask(None)] * 11, single=False)
            with pytest.raises(TooLargeError):
                await service.feedback("fruit", [hint("a")] * 11, single=False)
            assert await service.decide("fruit", [], single=False) == []
            assert await service.feedback("fruit", [], single=False) == []
            made = await service.decide("fruit", [ask(None)] * 10, single=False)
            assert len({one["id"] for one in made}) == 10

    run(work())


def test_ids_that_the_service_makes_are_never_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while the clock stands still, and after a restart."""
    monkeypatch.setattr("time.time_ns", lambda: 10**18)
    made: list[str] = []

    async def work() -> None:
        for start in range(3):
            async with service_in(tmp_path) as service:
                if not start:
                    await service.create(new_task())
                made.extend(one["id"] for one in await service.decide("fruit", [ask(None)] * 500, single=False))

    run(work())
    assert len(set(made)) == 1500


def test_a_request_that_is_given_up_while_it_is_written_leaves_its_id_usable(where: Where) -> None:
    """Uvicorn cancels what is under way when the time for draining is over; and so may anybody who embeds the service."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            with locked(where):
                asking = asyncio.create_task(decided(service, "a"))
                await asyncio.sleep(0.01)
                asking.cancel()
                await asyncio.wait([asking])
                again = asyncio.create_task(outcome(decided(service, "a")))
                other = asyncio.create_task(outcome(decided(service, "b")))
                await asyncio.sleep(0.05)
            found = [await again, await other]
            assert not [one for one in found if isinstance(one, Exception)]
            assert service.failing is None

    run(work())


def test_answers_have_every_class_while_one_is_added(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner may know a class before the event loop is told that it is on disk."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(exploration_floor=0.9))
            deliver = service.commits._deliver
            waiting: list[Any] = []
            monkeypatch.setattr(service.commits, "_deliver", waiting.append)
            adding = asyncio.create_task(service.change("fruit", change(add_classes=["d"])))
            await until(lambda: service.served["fruit"].follower.replicas.resting.classes == ("a", "b", "c", "d"))
            asking = asyncio.create_task(
                service.decide("fruit", [ask(f"i{number}") for number in range(100)], single=False)
            )
            await until(lambda: len(waiting) == 2)
            for outcome in waiting:
                deliver(outcome)
            monkeypatch.undo()
            await adding
            answers = await asking
            assert {one["label"] for one in answers} == {"a", "b", "c", "d"}  # fails by chance once in 10^12
            again = await service.decide("fruit", [ask(one["id"]) for one in answers], single=False)
            assert again == answers
            assert all(abs(sum(one["probabilities"].values()) - 1.0) < 1e-9 for one in answers)

    run(work())


@pytest.mark.parametrize(
    "features", [{"kind": "numbers", "size": 2}, {"kind": "dict", "hash_bits": 6}, {"kind": "text", "hash_bits": 6}]
)
def test_the_same_x_however_it_is_written(where: Where, features: dict[str, Any]) -> None:
    same: list[Any] = {  # type: ignore[assignment]
        "numbers": [[1.0, 2.0], [1, 2]],
        "dict": [{"b": 1.0, "a": 2.0}, {"a": 2, "b": 1}],
        "text": ["a b", "a b"],
    }[features["kind"]]
    other: list[Any] = {  # type: ignore[assignment]
        "numbers": [[2.0, 1.0], [1.0, 2.0000000000000004]],
        "dict": [{"a": 1.0, "b": 2.0}, {"a": 2.0}, {}],
        "text": ["b a", "a  b", ""],
    }[features["kind"]]

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(features=features))
            first = await decided(service, "a", same[0])
        async with service_in(where) as service:
            assert [await decided(service, "a", x) for x in same] == [first, first]
            for x in other:
                with pytest.raises(RequestError) as caught:
                    await decided(service, "a", x)
                assert caught.value.status == 409

    run(work())


@pytest.mark.long
def test_a_batch_of_forty_thousand(where: Where) -> None:
    """More than SQLite takes as the values of one statement."""
    ids = [str(number) for number in range(40_000)]

    async def work() -> None:
        async with service_in(where, max_batch=50_000) as service:
            await service.create(new_task())
            first = await service.decide("fruit", [ask(one) for one in ids], single=False)
            assert [one["id"] for one in first] == ids
        async with service_in(where, max_batch=50_000) as service:
            assert await service.decide("fruit", [ask(one) for one in ids], single=False) == first
            told = await service.feedback("fruit", [hint(one) for one in ids], single=False)
            assert {one["status"] for one in told} == {"accepted"}
        async with service_in(where, max_batch=50_000) as service:
            told = await service.feedback("fruit", [hint(one) for one in ids[::-1]], single=False)
            assert {one["status"] for one in told} == {"duplicate"}
            assert service.stats("fruit")["learnt"] == 40_000

    run(work())


@pytest.mark.parametrize("what", ["new", "again", "heard"])
def test_a_large_batch_lets_others_have_a_turn(where: Where, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """While ten thousand are decided, or found in the log, the event loop goes round ten times at least; waiting for the disk apart."""
    asks = [ask(str(number)) for number in range(10_000)]
    hints = [hint(str(number)) for number in range(10_000)]
    turns: list[int] = []
    before: list[int] = []

    async def count() -> None:
        while True:
            await asyncio.sleep(0)
            turns.append(1)

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            if what != "new":
                await service.decide("fruit", asks, single=False)
        async with service_in(where) as service:
            submit = service.commits.submit

            def note(submission: Any) -> Any:
                before.append(len(turns))
                return submit(submission)

            monkeypatch.setattr(service.commits, "submit", note)
            counting = asyncio.create_task(count())
            if what == "heard":
                await service.feedback("fruit", hints, single=False)
            else:
                await service.decide("fruit", asks, single=False)
            before.append(len(turns))
            counting.cancel()

    run(work())
    assert before[0] >= 10
