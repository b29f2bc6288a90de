"""Second thoughts: whatever is revised and withdrawn, the state is that of a log in which the last word stands in the place of the first."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from onebit.errors import InputError
from onebit.learner.learner import Learner
from onebit.service.core import learner_thread
from onebit.service.core.follower import LogFollower
from onebit.service.errors import ConflictError, InvalidError, NotFoundError, RequestError
from onebit.service.maintenance.log_reader import LogReader, read_rounds
from onebit.service.requests import FeedbackRequest, NewLearner
from onebit.service.service import Service
from tests.service.driving import (
    TEXT,
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
    replayed,
    restarted,
    rows_of,
    run,
    service_in,
    snapshots_in,
    state_of,
    states,
    until,
    visible,
    withdrawal,
    without_snapshots,
)
from tests.service.site import NEW, site_in
from tests.service.survival.test_snapshots import are_spaced
from tests.service.test_service_feedback import HandClock, clock, swept  # noqa: F401 - a fixture

REVISIONS = "SELECT d.id, r.right, r.shown FROM revisions r JOIN feedback f ON f.seq = r.feedback JOIN decisions d ON d.seq = f.decision ORDER BY r.seq"


async def said(service: Service, *told: FeedbackRequest, task: str = "fruit") -> list[str]:
    """What became of each, told one after the other; the status of an error where it is refused."""
    found = []
    for one in told:
        try:
            found.append((await service.feedback(task, [one]))[0]["status"])
        except RequestError as error:
            found.append(str(error.status))
    return found


async def taught(service: Service, count: int, task: str = "fruit", first: int = 0) -> None:
    """Decisions that are answered, some right and some wrong."""
    for number in range(first, first + count):
        await decided(service, str(number), (float(number % 7), 1.0 - number % 3), task)
        await heard(service, str(number), number % 3 == 0, task)


async def assert_same_everywhere(service: Service, task: str = "fruit") -> None:
    """The state is the replay of the log, and that of starts with and without snapshots; so are the statistics."""
    found = (await states(service))[task]
    folder = service.settings.where
    assert found == replayed(folder, task)
    stats = visible(service.stats(task))
    for copy in (crash_image(folder), without_snapshots(crash_image(folder))):
        async with service_in(copy) as other:
            assert (await states(other))[task] == found
            assert visible(other.stats(task)) == stats


def revise(identity: str, right: bool = True, **more: Any) -> FeedbackRequest:
    return hint(identity, right, revise=True, **more)


def test_the_last_word_counts(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await taught(service, 12)
            plain = await states(service)
            assert await said(service, revise("3", False), revise("3", False), hint("3", False)) == [
                *("revised", "duplicate", "duplicate")
            ]
            assert await said(service, hint("3", True)) == ["409"]  # the first word is not the last any more
            assert await said(service, withdrawal("4"), withdrawal("4")) == ["withdrawn", "duplicate"]
            assert await said(service, hint("4", False), hint("4", True)) == ["409", "409"]
            assert await states(service) != plain
            await assert_same_everywhere(service)
            counts = service.stats("fruit")
            assert {name: counts[name] for name in ("feedback", "right", "revised", "withdrawn", "learnt")} == {
                "feedback": 11,
                "right": 3,
                "revised": 1,
                "withdrawn": 1,
                "learnt": 11,
            }
            one, other = [await service.decision("fruit", identity) for identity in "34"]
            assert (one["right"], one["source"], one["revised_time"] >= one["feedback_time"]) == (False, "caller", True)
            assert (other["right"], other["feedback_time"], other["source"], other["late"]) == (None, None, None, False)
            assert other["revised_time"] is not None
            # And all of it back: what was withdrawn can be said again.
            assert await said(service, revise("3", True), revise("4", False)) == ["revised", "revised"]
            assert await states(service) == plain
            await assert_same_everywhere(service)
        assert rows_of(where, REVISIONS) == [("3", 0, None), ("4", None, None), ("3", 1, None), ("4", 0, None)]
        assert (await restarted(where)) == plain

    run(work())


def test_what_there_is_to_revise(where: Where) -> None:
    """A first word is one, also with `revise`; nothing can be withdrawn where nothing was said."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            for identity in "ab":
                await decided(service, identity)
            assert await said(service, revise("a", True), revise("a", True)) == ["accepted", "duplicate"]
            with pytest.raises(ConflictError, match="no feedback to withdraw") as caught:
                await service.feedback("fruit", [withdrawal("b")])
            assert caught.value.field == "withdraw"
            with pytest.raises(NotFoundError, match="'z'"):
                await service.feedback("fruit", [withdrawal("z")])
            many = [revise("a", False), withdrawal("b"), withdrawal("z"), hint("b")]
            with pytest.raises(InvalidError, match=r"^\[1\]\.id is 'b', which occurs more than once"):
                await service.feedback("fruit", many, single=False)
            answers = await service.feedback("fruit", [*many[:1], *many[2:]], single=False)
            assert [one["status"] for one in answers] == ["revised", "unknown", "accepted"]
            await assert_same_everywhere(service)

    run(work())


def test_what_was_shown_can_be_revised(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(mode="shadow"))
            await decided(service, "a")
            assert await said(service, hint("a", shown="b", shown_propensity=0.5)) == ["accepted"]
            assert await said(service, revise("a", shown="b", shown_propensity=0.5)) == ["duplicate"]
            assert await said(service, revise("a")) == ["422"]
            assert await said(service, revise("a", shown="c")) == ["revised"]
            await assert_same_everywhere(service)
            one = await service.decision("fruit", "a")
            assert (one["right"], one["shown"], one["shown_propensity"]) == (True, "c", 1.0)
            assert [one["heard"] for one in service.stats("fruit")["classes"]] == [0, 0, 1]
            assert await said(service, withdrawal("a")) == ["withdrawn"]
            await assert_same_everywhere(service)

    run(work())


def test_silence_and_late_feedback(tmp_path: Path, clock: type[HandClock]) -> None:  # noqa: F811
    """Silence can be revised, and then counts as said; what came too late stays late; withdrawn is not silent."""

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=10.0, silence="wrong"))
            for identity in "abcde":
                await decided(service, identity)
            assert await said(service, hint("d"), withdrawal("d")) == ["accepted", "withdrawn"]
            clock.pass_by(11.0)
            assert await said(service, hint("e")) == ["late"]
            await swept(service)
            withdrawn = await service.decision("fruit", "d")
            assert withdrawn["right"] is None  # silence does not speak for what was withdrawn
            await followed(service)
            assert service.stats("fruit")["silences"] == 4
            assert await said(service, hint("a", True)) == ["late"]
            assert await said(service, revise("a", True)) == ["revised"]  # in the place of silence, and learnt
            assert await said(service, revise("b", False), revise("b", False)) == ["revised", "duplicate"]
            assert await said(service, withdrawal("c"), hint("c")) == ["withdrawn", "409"]
            assert await said(service, revise("e", False)) == ["revised"]
            await assert_same_everywhere(service)
            counts = service.stats("fruit")
            assert {
                name: counts[name] for name in ("feedback", "right", "late", "silences", "revised", "withdrawn")
            } == {"feedback": 3, "right": 1, "late": 2, "silences": 0, "revised": 3, "withdrawn": 2}
        async with service_in(tmp_path) as service:  # the same from the log
            assert await said(service, revise("a", True), withdrawal("c"), hint("a", False)) == [
                *("duplicate", "duplicate", "409")
            ]

    run(work())


def test_late_feedback_stays_late(tmp_path: Path, clock: type[HandClock]) -> None:  # noqa: F811
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=10.0))
            await decided(service, "a")
            clock.pass_by(11.0)
            assert await said(service, revise("a")) == ["late"]
            assert await said(service, revise("a", False), hint("a", False), hint("a")) == ["late", "duplicate", "409"]
            await assert_same_everywhere(service)
            one = await service.decision("fruit", "a")
            assert (one["right"], one["late"], service.stats("fruit")["learnt"]) == (False, True, 0)
            assert await said(service, withdrawal("a")) == ["withdrawn"]
            await assert_same_everywhere(service)
            assert service.stats("fruit")["late"] == 0

    run(work())


def test_revise_within(tmp_path: Path, clock: type[HandClock]) -> None:  # noqa: F811
    """So many seconds from the first word on; changed while the service runs, and taken away."""

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(revise_within=60.0))
            assert service.task("fruit").revise_within == 60.0
            for identity in "ab":
                await decided(service, identity)
                clock.pass_by(1000.0)  # the age of the decision does not matter
                await heard(service, identity)
            clock.pass_by(59.0)
            assert await said(service, revise("b", False)) == ["revised"]
            clock.pass_by(2.0)
            before = everything_in(tmp_path)
            for one in (revise("b", True), withdrawal("b"), withdrawal("a")):
                with pytest.raises(ConflictError, match=r"for 60 s \(revise_within\)"):
                    await service.feedback("fruit", [one])
            assert await said(service, revise("b", False)) == ["duplicate"]
            assert everything_in(tmp_path) == before
            await service.change("fruit", change(revise_within=None))
            assert await said(service, withdrawal("a")) == ["withdrawn"]
            await service.change("fruit", change(revise_within=5.0))
            assert await said(service, revise("a")) == ["409"]
            await assert_same_everywhere(service)
        async with service_in(tmp_path) as service:
            assert service.task("fruit").revise_within == 5.0
            assert await said(service, revise("a")) == ["409"]

    run(work())


def test_a_change_of_mode_does_not_change_what_was_to_be_learnt(where: Where) -> None:
    """A revision stands in the place of the first word, with the mode of then."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(mode="log-only"))
            await taught(service, 4)
            await service.change("fruit", change(mode="learn"))
            assert await said(service, revise("1", True)) == ["revised"]
            await assert_same_everywhere(service)
            assert service.stats("fruit")["learnt"] == 0

    run(work())


BAD: list[tuple[dict[str, Any], str]] = [
    ({"id": "a"}, "right"),
    ({"id": "a", "right": None}, "right"),
    ({"id": "a", "revise": True}, "right"),
    ({"id": "a", "right": True, "revise": "yes"}, "revise"),
    ({"id": "a", "right": True, "revise": 1}, "revise"),
    ({"id": "a", "right": True, "revise": None}, "revise"),
    ({"id": "a", "withdraw": "yes"}, "withdraw"),
    ({"id": "a", "withdraw": []}, "withdraw"),
    ({"id": "a", "withdraw": True, "right": True}, "right"),
    ({"id": "a", "withdraw": True, "right": False}, "right"),
    ({"id": "a", "withdraw": True, "revise": True}, "revise"),
    ({"id": "a", "withdraw": True, "shown": "a"}, "shown"),
    ({"id": "a", "withdraw": True, "shown_propensity": 0.5}, "shown_propensity"),
    ({"id": "", "withdraw": True}, "id"),
    ({"id": "a", "withdrawn": True}, "withdrawn"),
]


def test_bad_input_is_a_sentence_and_writes_nothing(tmp_path: Path) -> None:
    with site_in(tmp_path / "data") as site:
        assert site.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        assert site.ask("POST", "/v1/tasks/fruit/decide", json={"id": "a", "x": [1, 2, 3]}).status_code == 200
        assert site.ask("POST", "/v1/tasks/fruit/feedback", json={"id": "a", "right": True}).status_code == 200
        before = everything_in(tmp_path / "data")
        for body, field in BAD:
            for many in (False, True):
                reply = site.ask("POST", "/v1/tasks/fruit/feedback", json=[body] if many else body)
                assert reply.status_code == 422, reply.text
                where = f"[0].{field}" if many else field
                error = reply.json()["error"]
                assert error["field"] == where, error
                assert error["message"].startswith(where), error
        bad: list[Any] = ["soon", 0, -1.0, [], True]
        for within in bad:
            reply = site.ask("PATCH", "/v1/tasks/fruit", json={"revise_within": within})
            assert (reply.status_code, reply.json()["error"]["field"]) == (422, "revise_within")
        assert everything_in(tmp_path / "data") == before


def test_the_old_one_serves_until_the_new_one_is_there(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions are made and learnt meanwhile, and the queue says that something is missing."""
    held = asyncio.Event()
    loop: list[asyncio.AbstractEventLoop] = []
    start = LogFollower.start.__func__  # type: ignore[attr-defined]

    def slow(cls: type[LogFollower], *given: Any) -> LogFollower:
        if loop:
            asyncio.run_coroutine_threadsafe(held.wait(), loop[0]).result()
        return start(cls, *given)  # type: ignore[no-any-return]

    monkeypatch.setattr(LogFollower, "start", classmethod(slow))

    async def work() -> None:
        async with service_in(where, snapshot_every=7) as service:
            await service.create(new_task())
            await taught(service, 20)
            await followed(service)
            loop.append(asyncio.get_running_loop())
            assert await said(service, revise("0", False)) == ["revised"]
            await until(lambda: service.stats("fruit")["queue"] > 0)
            await taught(service, 30, first=20)
            follower = service.served["fruit"].follower
            await until(lambda: follower.replicas.learnt == 50)
            assert service.stats("fruit")["queue"] > 0
            assert service.stats("fruit")["right"] == 17
            held.set()
            await assert_same_everywhere(service)
            assert (service.stats("fruit")["queue"], service.stats("fruit")["right"]) == (0, 16)

    run(work())


def test_many_revisions_are_one_replay(
    where: Where, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(learner_thread, "GATHER_REVISIONS_S", 2.0)

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await taught(service, 40)
            with caplog.at_level(logging.INFO, "onebit.service"):
                for number in range(30):
                    await said(service, revise(str(number), number % 2 == 0))
                await followed(service)
            events = [record.event for record in caplog.records if hasattr(record, "event")]
            assert events.count("revised") == 1
            await assert_same_everywhere(service)

    run(work())


def test_a_revision_of_what_is_not_learnt_yet_needs_no_replay(where: Where, caplog: pytest.LogCaptureFixture) -> None:
    """As at a start: what is read is the last word."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await taught(service, 10)
            for number in range(10):
                await said(service, revise(str(number), number % 2 == 0))
            await followed(service)
        with caplog.at_level(logging.INFO, "onebit.service"):
            async with service_in(without_snapshots(where)) as service:
                await assert_same_everywhere(service)
        assert "revised" not in [getattr(record, "event", None) for record in caplog.records]

    run(work())


def test_snapshots_of_before_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept further and further apart, so that what is revised needs few of the rows before it; overtaken ones go."""
    begins: list[int] = []
    start = LogFollower.start.__func__  # type: ignore[attr-defined]

    def noted(cls: type[LogFollower], *given: Any) -> LogFollower:
        made: LogFollower = start(cls, *given)
        begins.append(made.position)
        return made

    monkeypatch.setattr(LogFollower, "start", classmethod(noted))
    monkeypatch.setattr("onebit.service.core.learner_thread.WRITING_SHARE", 1e9)  # as often as may be

    def named() -> list[tuple[int, int]]:
        """Positions, and up to tmp_path revisions are known."""
        parts = [[int(one) for one in path.stem.split("-")[1:]] for path in snapshots_in(tmp_path)]
        return [(one[0], one[-1]) for one in parts]

    def positions() -> list[int]:
        return [position for position, _ in named()]

    async def work() -> None:
        async with service_in(tmp_path, snapshot_every=10, keep_snapshots=2) as service:
            await service.create(new_task())
            follower = None
            for part in range(60):
                await taught(service, 10, first=10 * part)
                await followed(service)
                follower = service.served["fruit"].follower
                await until(lambda follower=follower: not follower.writing)  # type: ignore[misc]
            assert follower is not None
            last = follower.position
            kept = positions()
            assert 5 <= len(kept) <= 2 + last.bit_length()
            for seq in range(last // 4, last, 50):  # the replay is some times as long as the way back
                before = max((one for one in kept if one < seq), default=0)
                assert last - before <= 8 * (last - seq) + 80
            for number in (500, 100, 300, 550, 100):
                identity, right = str(number), (await service.decision("fruit", str(number)))["right"]
                query = "SELECT f.seq FROM feedback f JOIN decisions d ON d.seq = f.decision WHERE d.id = ?"
                (place,) = rows_of(tmp_path, query, identity)[0]
                kept = positions()
                begins.clear()
                await said(service, revise(identity, not right))
                (revision,) = rows_of(tmp_path, "SELECT max(seq) FROM revisions")[0]
                await followed(service)
                assert begins == [max((one for one in kept if one < place), default=1)]
                assert begins[0] > 1  # also of what was revised after an older one
                await until(lambda follower=follower: not follower.writing)  # type: ignore[misc]
                for position, revised in named():
                    assert position < place or revised >= revision
            assert are_spaced(tmp_path, 2)
            await assert_same_everywhere(service)

    run(work())


def test_another_learner_and_second_thoughts(where: Where) -> None:
    """What is revised while a learner is trained, and after it took over, is in what it knows."""

    async def work() -> None:
        async with service_in(where, snapshot_every=15) as service:
            await service.create(new_task())
            await taught(service, 30)
            await service.switch("fruit", NewLearner(learner="bpa", seed=5))
            for number in range(0, 30, 2):
                await said(service, revise(str(number), number % 4 == 0))
            await until(lambda: service.task("fruit").training is None)
            await assert_same_everywhere(service)
            await taught(service, 10, first=30)
            for number in (0, 29, 33):
                await said(service, withdrawal(str(number)))
                await assert_same_everywhere(service)

    run(work())


def test_a_learner_trained_before_and_told_after(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainee that has learnt what is revised before it takes over is brought right afterwards."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await taught(service, 20)
            served = service.served["fruit"]
            near = service.trainers._train_near

            def revised_in_between(*given: Any) -> None:
                near(*given)
                asyncio.run_coroutine_threadsafe(said(service, revise("3", False), withdrawal("6")), loop).result()

            loop = asyncio.get_running_loop()
            monkeypatch.setattr(service.trainers, "_train_near", revised_in_between)
            await service.switch("fruit", NewLearner(learner="bpa", seed=5))
            await until(lambda: served.training is None)
            await assert_same_everywhere(service)

    run(work())


def test_what_cannot_be_written_is_not_revised(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await taught(service, 3)
            await followed(service)
            before, known = everything_in(where), await states(service)
            with locked(where):
                refused = await outcome(service.feedback("fruit", [withdrawal("0"), revise("1", True)], single=False))
                assert getattr(refused, "status", None) == 503
            await until(lambda: service.failing is None)
            assert (everything_in(where), await states(service)) == (before, known)
            assert await said(service, withdrawal("0"), revise("1", True)) == ["withdrawn", "revised"]
            await assert_same_everywhere(service)

    run(work())


def test_commands_go_by_the_last_word(tmp_path: Path) -> None:
    """What is exported, replayed and evaluated; at the position at which the log was opened."""

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            await taught(service, 6)
            await said(service, revise("0", False), withdrawal("1"))
            with LogReader(tmp_path) as log:
                task = log.task("fruit")
                await said(service, revise("0", True), revise("1", True), withdrawal("2"))
                assert log.count_feedback(task) == 5
                assert [(one.id, one.right) for one in read_rounds(log, task)] == [
                    *(("0", False), ("2", False), ("3", True), ("4", False), ("5", False))
                ]
                assert [one.right for one in log.logged(task)] == [False, None, False, True, False, False]
                assert log.generations(task) == [(1, False, 5)]

    run(work())


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_said_in_whatever_order(tmp_path: Path, clock: type[HandClock], seed: int) -> None:  # noqa: F811
    """Feedback, second thoughts, silence, lateness, classes, switches, restarts: state = replay, bit for bit."""
    chance = random.Random(seed)
    kinds: list[dict[str, Any]] = [
        {"deadline_s": 20.0, "silence": "wrong"},
        {"deadline_s": 20.0, "learner": "auto"},
        {"learner": "bpa", "features": TEXT, "deadline_s": 30.0, "silence": "right"},
    ]
    folder = tmp_path / "data"

    async def some(service: Service, first: int) -> None:
        for number in range(first, first + 40):
            x = f"word{number % 5} word{number % 3}" if seed == 2 else (float(number % 5), number % 3 - 1.0)
            await service.decide("fruit", [ask(str(number), x)])
            for _ in range(2):
                identity, right = str(chance.randrange(number + 1)), chance.random() < 0.5
                what = chance.random()
                told = (
                    hint(identity, right)
                    if what < 0.5
                    else revise(identity, right)
                    if what < 0.8
                    else withdrawal(identity)
                )
                await said(service, told)
            if chance.random() < 0.2:
                clock.pass_by(chance.random() * 25.0)
                await swept(service)
            if chance.random() < 0.03:
                await service.change("fruit", change(add_classes=[f"class {number}"]))
            if chance.random() < 0.1:
                await followed(service)

    async def work() -> None:
        for part in range(3):
            async with service_in(folder, snapshot_every=25) as service:
                if not part:
                    await service.create(new_task(**kinds[seed]))
                await some(service, 40 * part)
                if part == 1:
                    await service.switch("fruit", NewLearner(learner="banditron", seed=9))
                    await until(lambda: service.task("fruit").training is None)
                await assert_same_everywhere(service)
                if part == 2:
                    await said(
                        service, withdrawal("0"), revise("1"), withdrawal("2")
                    )  # the end comes before they are learnt
        async with service_in(folder) as service:
            await assert_same_everywhere(service)

    run(work())


def test_a_learner_alone_has_no_log() -> None:
    learner = Learner("banditron", classes=["a", "b"])
    decision = learner.decide([1.0, 2.0])
    learner.learn(decision, right=True)
    before = state_of(learner)
    with pytest.raises(InputError, match=r"has already been learnt.*no log.*onebit serve"):
        learner.learn(decision, right=False)
    assert state_of(learner) == before
