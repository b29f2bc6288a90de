"""Hearing, adversarially: once each, first wins; late, silent, shown instead; at once, out of order, and again."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from onebit.learner.learner import Learner
from onebit.service.core import feedback
from onebit.service.errors import ConflictError, InvalidError, NotFoundError
from onebit.service.service import Service
from onebit.service.store import cache
from onebit.service.store.errors import LogError
from onebit.service.store.sqlite.schema import SqliteDatabase
from tests.service.driving import (
    PATIENCE_S,
    Where,
    appender_of,
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
    replayed,
    restarted,
    rows_of,
    run,
    service_in,
    state_of,
    states,
    until,
    until_silence,
    without_snapshots,
)

FEEDBACK = "SELECT d.id, f.source, f.right, f.late, f.learn FROM feedback f JOIN decisions d ON d.seq = f.decision ORDER BY f.seq"


class HandClock:
    """A clock that is moved by hand, for all services of a test."""

    time = 1_000_000.0
    behind = ahead = 0.0
    trouble = None

    def __init__(self, last_time: float = 0.0, last_seq: int = 0) -> None:
        type(self).time = max(self.time, last_time)

    def now(self) -> float:
        return self.time

    def date_row(self, seq: int, when: float) -> float:
        return when

    @classmethod
    def pass_by(cls, seconds: float) -> None:
        cls.time += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[HandClock]:
    made = type("HandClock", (HandClock,), {})
    monkeypatch.setattr("onebit.service.store.sqlite.store.Clock", made)
    monkeypatch.setattr("onebit.service.core.deadlines.SWEEP_S", 0.01)
    return made


async def swept(service: Service) -> None:
    """Wait until deadlines have been looked after, here and by the service itself, and what came of it is on disk.

    Who is being answered for at a moment, as by the service itself, is left for the next time: so there are three, each behind all writing before.
    """
    for running in list(service.served.values()):
        for _ in range(3):
            while await service.sweep(running, "owner"):
                pass
            await asyncio.to_thread(service.commits.run, lambda appender: None)


def test_once_each_and_the_first_wins(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            for identity in "abc":
                await decided(service, identity)
            assert await heard(service, "c", False) == "accepted"  # out of order
            assert await heard(service, "a", True) == "accepted"
            for _ in range(3):
                assert await heard(service, "a", True) == "duplicate"
                with pytest.raises(ConflictError, match="'a'") as caught:
                    await heard(service, "a", False)
                assert (caught.value.status, caught.value.field) == (409, "right")
            with pytest.raises(NotFoundError, match="'z'") as missing:
                await heard(service, "z")
            assert missing.value.status == 404
            await followed(service)
            crashed = crash_image(where)
        for folder in (where, crashed):
            async with service_in(folder) as service:
                assert await heard(service, "a", True) == "duplicate"
                with pytest.raises(ConflictError):
                    await heard(service, "c", True)
                assert await heard(service, "b", True) == "accepted"
            assert rows_of(folder, FEEDBACK) == [
                ("c", "caller", 0, 0, 1),
                ("a", "caller", 1, 0, 1),
                ("b", "caller", 1, 0, 1),
            ]

    run(work())


@pytest.mark.parametrize("remembered", [cache.MOST_DECISIONS, 20])
def test_a_batch_tells_of_each(where: Where, monkeypatch: pytest.MonkeyPatch, remembered: int) -> None:
    monkeypatch.setattr(cache, "MOST_DECISIONS", remembered)

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await service.decide("fruit", [ask(str(number)) for number in range(200)], single=False)
            await heard(service, "0", True)
            hints = [hint("1"), hint("0"), hint("0", False), hint("x"), hint("1"), hint("1", False), hint("2", False)]
            answers = await service.feedback("fruit", hints, single=False)
            assert [one["id"] for one in answers] == [one.id for one in hints]
            statuses = ["accepted", "duplicate", "conflict", "unknown", "duplicate", "conflict", "accepted"]
            assert [one["status"] for one in answers] == statuses
            assert [bool(one.get("message")) for one in answers] == [one in ("conflict", "unknown") for one in statuses]
            every = [hint(str(number), number % 2 == 0) for number in reversed(range(3, 200))]
            assert {one["status"] for one in await service.feedback("fruit", every, single=False)} == {"accepted"}
            assert {one["status"] for one in await service.feedback("fruit", every[::-1], single=False)} == {
                "duplicate"
            }
            await followed(service)
            assert service.stats("fruit")["feedback"] == 200
        assert rows_of(where, "SELECT count(*) FROM feedback") == [(200,)]

    run(work())


def test_a_batch_that_is_larger_than_what_is_remembered(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where --max-batch is above 50,000."""
    monkeypatch.setattr(cache, "MOST_DECISIONS", 20)

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await service.decide("fruit", [ask(str(number)) for number in range(100)], single=False)
        async with service_in(where) as service:
            hints = [hint(str(number)) for number in range(100)] * 2
            answers = await service.feedback("fruit", hints, single=False)
            assert [one["status"] for one in answers] == ["accepted"] * 100 + ["duplicate"] * 100

    run(work())


@pytest.mark.parametrize("remembered", [cache.MOST_DECISIONS, 20])
def test_two_opposite_batches_at_once_of_what_is_not_remembered(
    where: Where, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    monkeypatch.setattr(cache, "MOST_DECISIONS", remembered)
    ids = [str(number) for number in range(1000)]

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await service.decide("fruit", [ask(one) for one in ids], single=False)
        async with service_in(where) as service:
            found = await asyncio.gather(
                *(
                    service.feedback("fruit", [hint(one, right) for one in order], single=False)
                    for right, order in ((True, ids), (False, ids[::-1]))
                )
            )
            statuses = [{one["status"] for one in answers} for answers in found]
            assert sorted(statuses, key=str) == [{"accepted"}, {"conflict"}]
            assert service.failing is None
        assert rows_of(where, "SELECT count(*), count(DISTINCT f.right) FROM feedback f") == [(1000, 1)]

    run(work())


@pytest.mark.parametrize("single", [True, False])
def test_two_opposite_feedbacks_at_once(where: Where, single: bool) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            for number in range(20):
                await decided(service, str(number))
                first = number % 3 == 0
                told = [first, not first, first, not first]
                found = await asyncio.gather(
                    *(outcome(service.feedback("fruit", [hint(str(number), right)], single=single)) for right in told)
                )
                statuses = [
                    "conflict"
                    if isinstance(one, ConflictError)
                    else f"{one}"
                    if isinstance(one, Exception)
                    else one[0]["status"]
                    for one in found
                ]
                assert statuses == ["accepted", "conflict", "duplicate", "conflict"]
                assert (await service.decision("fruit", str(number)))["right"] is first
        assert rows_of(where, "SELECT count(*) FROM feedback") == [(20,)]

    run(work())


def test_feedback_that_comes_while_its_decision_is_written(where: Where) -> None:
    """Whoever makes the id can know it before the answer."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            for number in range(20):
                identity = str(number)
                found = await asyncio.gather(
                    decided(service, identity),
                    heard(service, identity),
                    heard(service, identity),
                    decided(service, identity),
                )
                assert found[0] == found[3]
                assert found[1:3] == ["accepted", "duplicate"]
            with locked(where):
                asking = asyncio.create_task(outcome(decided(service, "late")))
                await asyncio.sleep(0.01)
                hearing = asyncio.create_task(outcome(heard(service, "late")))
                await until(asking.done)  # the service waits for another program for a while
            assert (await asking).status == 503
            found = await hearing
            assert found.status in (404, 503)  # it was not decided
            await decided(service, "late")
            assert await heard(service, "late") == "accepted"

    run(work())


def test_feedback_that_was_given_up_and_could_not_be_written_is_not_taken_for_heard(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await decided(service, "a")
            with locked(where):
                hearing = asyncio.create_task(heard(service, "a"))
                await asyncio.sleep(0.01)
                hearing.cancel()
                await asyncio.wait([hearing])
                await until(lambda: service.failing is not None)
            await until(lambda: service.failing is None)
            assert await heard(service, "a") == "accepted"
        assert rows_of(where, "SELECT count(*) FROM feedback") == [(1,)]

    run(work())


def test_nobody_hears_duplicate_before_the_first_is_on_disk(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await decided(service, "a")
            with locked(where):
                hearing = asyncio.create_task(heard(service, "a"))
                await asyncio.sleep(0.01)
                hearing.cancel()
                await asyncio.wait([hearing])
                again = asyncio.create_task(outcome(heard(service, "a")))
                await asyncio.sleep(0.05)
                assert not again.done()
            await again

    run(work())


# --- deadlines and silence -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("silence", ["wrong", "right", "nothing"])
def test_silence(tmp_path: Path, clock: type[HandClock], silence: str) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=10.0, silence=silence))
            for identity in ("in time", "silent", "too late"):
                await decided(service, identity)
            clock.pass_by(9.0)
            assert await heard(service, "in time", True) == "accepted"
            clock.pass_by(0.9)
            await swept(service)
            assert len(rows_of(tmp_path, FEEDBACK)) == 1
            clock.pass_by(0.2)
            await swept(service)
            expected = [("in time", "caller", 1, 0, 1)]
            if silence != "nothing":
                right = int(silence == "right")
                expected += [("silent", "silence", right, 0, 1), ("too late", "silence", right, 0, 1)]
            assert rows_of(tmp_path, FEEDBACK) == expected
            for told, became in ((True, "late"), (True, "duplicate")):
                assert await heard(service, "too late", told) == became
            with pytest.raises(ConflictError):
                await heard(service, "too late", False)
            assert await heard(service, "in time", True) == "duplicate"
            expected += [("too late", "caller", 1, 1, 0)]
            assert rows_of(tmp_path, FEEDBACK) == expected
            logged = await service.decision("fruit", "too late")
            if silence == "nothing":
                assert (logged["right"], logged["late"], logged["source"]) == (True, True, "caller")
            else:
                assert (logged["right"], logged["late"], logged["source"]) == (silence == "right", False, "silence")
            found = await states(service)
            stats = service.stats("fruit")
            assert stats["late"] == 1
            assert stats["silences"] == (0 if silence == "nothing" else 2)
            assert stats["learnt"] == stats["feedback"] == (1 if silence == "nothing" else 3)
        async with service_in(without_snapshots(tmp_path)) as service:
            assert await heard(service, "too late", True) == "duplicate"
            with pytest.raises(ConflictError):
                await heard(service, "too late", False)
            assert await heard(service, "in time", True) == "duplicate"
            await swept(service)
            assert await states(service) == found
        assert rows_of(tmp_path, FEEDBACK) == expected
        assert replayed(tmp_path, "fruit") == found["fruit"]

    run(work())


def test_the_service_looks_after_deadlines_by_itself(tmp_path: Path) -> None:
    """With its own clock, and also those that passed while it was not running."""

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=0.3, silence="wrong"))
            await decided(service, "a")
            await until_silence(service, "a")
            await decided(service, "b")
        await asyncio.sleep(0.4)
        async with service_in(tmp_path) as service:
            await until_silence(service, "b")
        assert rows_of(tmp_path, FEEDBACK) == [("a", "silence", 0, 0, 1), ("b", "silence", 0, 0, 1)]

    run(work())


@pytest.mark.parametrize("remembered", [cache.MOST_DECISIONS, 20])
def test_thousands_are_silent_at_once(
    tmp_path: Path, clock: type[HandClock], monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    monkeypatch.setattr(cache, "MOST_DECISIONS", remembered)

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=10.0, silence="wrong"))
            await service.decide("fruit", [ask(str(number)) for number in range(3500)], single=False)
            await service.feedback("fruit", [hint(str(number)) for number in range(0, 3500, 7)], single=False)
            clock.pass_by(11.0)
            await until(lambda: len(rows_of(tmp_path, FEEDBACK)) == 3500, 10.0)
            await swept(service)
        assert len({row[0] for row in rows_of(tmp_path, FEEDBACK)}) == 3500

    run(work())


def test_nobody_is_passed_over_where_a_large_batch_is_decided_meanwhile(tmp_path: Path, clock: type[HandClock]) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=10.0, silence="wrong"))
            batch = asyncio.create_task(
                service.decide("fruit", [ask(f"many {number}") for number in range(2000)], single=False)
            )
            await asyncio.sleep(0)  # it has begun
            clock.pass_by(1.0)
            await decided(service, "one")
            await batch
            clock.pass_by(9.5)  # the batch is due, and the other one is not
            await swept(service)
            clock.pass_by(1.0)
            await swept(service)
            assert (await service.decision("fruit", "many 0"))["source"] == "silence"
            assert (await service.decision("fruit", "one"))["source"] == "silence"

    run(work())


def test_those_who_have_time_left_cost_nothing(tmp_path: Path, clock: type[HandClock]) -> None:
    """A look after the deadlines takes as many steps with ten thousand waiting as with one thousand."""

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=86_400.0, silence="wrong"))
            service._sweeper.cancel()  # type: ignore[union-attr]
            steps: list[int] = []
            for count in (1000, 9000):
                asks = [ask(f"{count} {number}") for number in range(count)]
                await service.decide("fruit", asks, single=False)
                steps.append(0)

                def step() -> int:
                    steps[-1] += 1
                    return 0

                database = service.core.reader.database
                assert isinstance(database, SqliteDatabase)
                database.connection.set_progress_handler(step, 10)
                await service.sweep(service.served["fruit"], "owner")
                database.connection.set_progress_handler(None, 10)
            assert steps[1] < 2 * steps[0] + 10

    run(work())


def test_what_silence_means_is_not_changed_afterwards(tmp_path: Path, clock: type[HandClock]) -> None:
    """A deadline, or another meaning, holds for decisions that are made after it was set; also after a restart."""

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            await decided(service, "without")
            clock.pass_by(100.0)
            await service.change("fruit", change(deadline_s=10.0, silence="wrong"))
            await decided(service, "wrong")
            clock.pass_by(11.0)
            await swept(service)
            await decided(service, "waiting")
            clock.pass_by(5.0)
            await service.change("fruit", change(silence="right"))
            await decided(service, "right")
            clock.pass_by(11.0)
            await swept(service)
            expected = [("wrong", "silence", 0, 0, 1), ("right", "silence", 1, 0, 1)]
            assert rows_of(tmp_path, FEEDBACK) == expected
            await decided(service, "over")
        clock.pass_by(11.0)
        async with service_in(tmp_path) as service:
            await swept(service)
            expected.append(("over", "silence", 1, 0, 1))
            assert rows_of(tmp_path, FEEDBACK) == expected
            await service.change("fruit", change(silence="nothing"))
            await decided(service, "nothing")
        clock.pass_by(11.0)
        async with service_in(tmp_path) as service:
            await swept(service)
            await service.change("fruit", change(silence="wrong"))
            clock.pass_by(11.0)
            await swept(service)
            await service.change("fruit", change(mode="log-only"))
            await decided(service, "not learnt")
            clock.pass_by(11.0)
            await swept(service)
        expected.append(("not learnt", "silence", 0, 0, 0))
        assert rows_of(tmp_path, FEEDBACK) == expected

    run(work())


def test_a_change_of_mode_or_classes_does_not_touch_the_deadline(tmp_path: Path, clock: type[HandClock]) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=10.0, silence="wrong"))
            await decided(service, "a")
            await service.change("fruit", change(add_classes=["d"], mode="learn"))
            clock.pass_by(11.0)
            await swept(service)
            assert (await service.decision("fruit", "a"))["source"] == "silence"
            await decided(service, "b")
            await service.change("fruit", change(deadline_s=None))
            assert service.task("fruit").deadline_s is None
            clock.pass_by(100.0)
            assert await heard(service, "b") == "accepted"

    run(work())


def test_a_change_while_the_silent_are_answered(tmp_path: Path, clock: type[HandClock]) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=10.0, silence="wrong"))
            await decided(service, "due")
            clock.pass_by(5.0)
            await decided(service, "before")
            service._sweeper.cancel()  # type: ignore[union-attr]
            clock.pass_by(6.0)
            changing = asyncio.create_task(service.change("fruit", change(silence="right")))
            await asyncio.sleep(0)  # it is on its way to the disk
            await service.sweep(service.served["fruit"], "owner")
            await changing
            await decided(service, "after")
            clock.pass_by(11.0)
            await swept(service)
        told = {row[0]: row[2] for row in rows_of(tmp_path, FEEDBACK)}
        assert told == {"due": 0, "after": 1}

    run(work())


def test_feedback_and_silence_at_once(tmp_path: Path, clock: type[HandClock]) -> None:
    """Whichever is first, each decision is heard once, and the other one is late."""

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=10.0, silence="wrong"))
            await service.decide("fruit", [ask(str(number)) for number in range(100)], single=False)
            clock.pass_by(10.0)  # exactly: due for the sweep, and not past for the caller
            found = await asyncio.gather(
                *(heard(service, str(number)) for number in range(100)),
                *(heard(service, str(number)) for number in range(100)),
            )
            await swept(service)
            counted = rows_of(tmp_path, "SELECT count(*), sum(late = 0), sum(source = 'silence') FROM feedback")[0]
            assert counted[1] == 100
            assert counted[0] == 100 + found.count("late")
            assert counted[2] == found.count("late")
            assert found.count("accepted") + found.count("late") == 100
            assert found.count("duplicate") == 100

    run(work())


def test_silence_that_cannot_be_written_is_written_later(tmp_path: Path, clock: type[HandClock]) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=10.0, silence="right"))
            await decided(service, "a")
            await decided(service, "b")
            with locked(tmp_path):
                clock.pass_by(11.0)
                await until(lambda: service.failing is not None)
                assert "lock" in str(service.failing)
                assert (await outcome(heard(service, "b", False))).status == 503
            await until(lambda: len(rows_of(tmp_path, FEEDBACK)) == 2)
            assert service.failing is None
            assert await heard(service, "b", False) == "late"
        assert rows_of(tmp_path, FEEDBACK)[:2] == [("a", "silence", 1, 0, 1), ("b", "silence", 1, 0, 1)]

    run(work())


def test_a_deadline_that_is_set_while_feedback_is_awaited(tmp_path: Path, clock: type[HandClock]) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            for identity in "abc":
                await decided(service, identity)
            assert await heard(service, "a") == "accepted"
            clock.pass_by(100.0)
            await service.change("fruit", change(deadline_s=10.0, silence="wrong"))
            assert await heard(service, "a") == "duplicate"
            assert await heard(service, "b") == "late"
            await swept(service)
            assert (await service.decision("fruit", "c"))["right"] is None
            assert await heard(service, "c", False) == "late"
            assert await heard(service, "c", False) == "duplicate"

    run(work())


def test_the_first_answer_counts_also_where_it_was_late(tmp_path: Path, clock: type[HandClock]) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=10.0))
            await decided(service, "a")
            clock.pass_by(11.0)
            assert await heard(service, "a", True) == "late"
            await service.change("fruit", change(deadline_s=1000.0))
            with pytest.raises(ConflictError):
                await heard(service, "a", False)

    run(work())


# --- shadow and log-only ---------------------------------------------------------------------------------------------


def test_in_shadow_mode_what_was_shown_must_be_said_and_nowhere_else(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await decided(service, "learn")
            await service.change("fruit", change(mode="shadow"))
            await decided(service, "shadow")
            await service.change("fruit", change(mode="log-only"))
            await decided(service, "log-only")
            await service.change("fruit", change(mode="learn"))
            written = everything_in(where)
            with pytest.raises(InvalidError) as caught:
                await heard(service, "shadow")
            assert caught.value.field == "shown"
            for identity in ("learn", "log-only"):
                with pytest.raises(InvalidError):
                    await heard(service, identity, shown="a")
                with pytest.raises(InvalidError):
                    await heard(service, identity, shown_propensity=0.5)
            for shown in ("x", 0, "A"):
                with pytest.raises(InvalidError, match="shown"):
                    await heard(service, "shadow", shown=shown)
            batch = [hint("learn"), hint("shadow")]
            with pytest.raises(InvalidError) as caught:
                await service.feedback("fruit", batch, single=False)
            assert caught.value.field == "[1].shown"
            assert everything_in(where) == written
            assert await heard(service, "learn") == "accepted"
            assert await heard(service, "shadow", shown="b", shown_propensity=0.25) == "accepted"
            assert (await service.decision("fruit", "shadow"))["shown"] == "b"
            assert (await service.decision("fruit", "shadow"))["shown_propensity"] == 0.25

    run(work())


@pytest.mark.parametrize("rule", ["banditron", "pab", "offset-tree", "auto", "epsilon-greedy", "soba", "newtron"])
def test_in_shadow_mode_what_was_shown_is_learnt_with_its_chance(where: Where, rule: str) -> None:
    """As by a learner of one's own that is told of the decisions of the other system."""
    names = ["a", "b", "c"]

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(learner=rule, mode="shadow", seed=5))
            info = service.served["fruit"].info
            own = Learner(rule, classes=names, features=2, seed=5, exploration_floor=info.exploration_floor)
            own.runtime.disable_ledger()
            for number, (shown, right) in enumerate(
                itertools.islice(itertools.cycle(itertools.product(names, (True, False, False))), 60)
            ):
                identity, x = str(number), [float(number % 7), 1.0 - number % 3]
                await service.decide("fruit", [ask(identity, x)])
                chance = (None, 0.25, 0.9)[number % 3]
                status = (
                    await service.feedback("fruit", [hint(identity, right, shown=shown, shown_propensity=chance)])
                )[0]
                assert status["status"] == "accepted"
                await followed(service)  # so that both decide with the same weights
                if rule == "newtron" and own.decide(x, identity).label != shown:
                    continue
                own.learn(own.from_log(x, shown, chance or 1.0, identity), right=right)
            found = await states(service)
        assert replayed(where, "fruit") == found["fruit"]
        assert found["fruit"] == state_of(own)
        assert await restarted(without_snapshots(where)) == found

    run(work())


def test_log_only_learns_nothing(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(mode="log-only"))
            before = await states(service)
            for number in range(50):
                await decided(service, str(number), (1.0, float(number)))
                assert await heard(service, str(number), number % 2 == 0) == "accepted"
            assert await states(service) == before
            assert service.stats("fruit")["feedback"] == 50
            assert service.stats("fruit")["learnt"] == 0
            # What was decided before and is heard after it ends is learnt.
            await decided(service, "over")
            await service.change("fruit", change(mode="learn"))
            await heard(service, "over")
            found = await states(service)
            assert found != before
            assert service.stats("fruit")["learnt"] == 1
        assert replayed(where, "fruit") == found["fruit"]
        assert await restarted(without_snapshots(where)) == found

    run(work())


def test_feedback_on_a_decision_that_could_not_be_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails while others of a long list are looked up: the decision is unknown, and nothing is said of row 0."""
    folder, ids = tmp_path / "data", [f"d{number}" for number in range(300)]

    async def work() -> None:
        async with service_in(folder) as service:
            await service.create(new_task())
            await service.decide("fruit", [ask(one) for one in ids], single=False)
        async with service_in(folder) as service:  # which remembers none of them
            append, looked = appender_of(service).append, threading.Event()

            def fail_once(group: Any) -> Any:
                if not group:
                    return append(group)
                looked.wait(PATIENCE_S)
                monkeypatch.setattr(appender_of(service), "append", append)
                raise LogError("no space left on device")

            def look_up(*given: Any) -> Any:
                found = hearing_look_up(*given)
                looked.set()
                while not service.commits.failing:
                    time.sleep(0.001)
                return found

            hearing_look_up = feedback.look_up
            monkeypatch.setattr(appender_of(service), "append", fail_once)
            monkeypatch.setattr(feedback, "look_up", look_up)
            deciding = asyncio.ensure_future(outcome(service.decide("fruit", [ask("new")])))
            await asyncio.sleep(0)
            while service.core.cache.get(1, "new") is None:
                await asyncio.sleep(0)
            answers = await service.feedback("fruit", [hint(one) for one in [*ids, "new"]], single=False)
            assert answers[-1]["status"] == "unknown"
            await deciding
        assert rows_of(folder, "SELECT count(*) FROM feedback WHERE decision = 0") == [(0,)]

    run(work())
