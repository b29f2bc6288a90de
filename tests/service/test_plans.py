"""The core alone: tickets, the group commit, and where a process may be killed between adding, writing, acknowledging and learning."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.learner.learner import Learner
from onebit.service.core.plan import HeavyWork, LookUp, Turn, run_plan, settle
from onebit.service.errors import UnavailableError
from onebit.service.store.base import Inquiry
from onebit.service.store.submission import Assumptions, Submission
from tests.service.driving import (
    crash_image,
    decided,
    heard,
    new_task,
    restarted,
    rows_of,
    run,
    service_in,
    without_snapshots,
)
from tests.service.test_open import DURABLE, folder_of, known_by, small


class Asked(Inquiry):
    """A log that answers with what it was asked for."""

    def __init__(self) -> None:
        """Nothing is opened."""

    async def run(self, query: Any) -> Any:
        await asyncio.sleep(0)
        return query(self)

    def close(self) -> None:
        """Nothing is open."""


def submission() -> Submission:
    return Submission(1, Assumptions(None))


def drive(plan: Any) -> Any:
    return run(run_plan(plan, Asked(), HeavyWork()))


def test_a_plan_is_given_what_it_waits_for() -> None:
    ticket = submission()

    def plan() -> Any:
        yield Turn()
        found = yield LookUp(lambda reader: 7)
        yield Turn()
        yield Turn()
        ticket.finish()
        yield ticket
        return found

    assert drive(plan()) == 7


def test_what_goes_wrong_while_a_plan_waits_is_raised_in_it() -> None:
    ticket, other = submission(), submission()
    ticket.finish(UnavailableError("the disk is full"))
    other.finish(UnavailableError("of somebody else"))

    def plan() -> Any:
        yield from settle([other, None])
        try:
            yield LookUp(lambda reader: 1 // 0)
        except ZeroDivisionError:
            yield ticket
        return "never"

    with pytest.raises(UnavailableError, match="the disk is full"):
        drive(plan())


def test_a_plan_that_nobody_waits_for_is_closed() -> None:
    ended = threading.Event()

    def plan() -> Any:
        try:
            yield submission()
        finally:
            ended.set()

    async def work() -> None:
        waiting = asyncio.create_task(run_plan(plan(), Asked(), HeavyWork()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(work())
    assert ended.is_set()


@pytest.mark.parametrize("moment", ["added", "written", "acknowledged", "learnt"])
def test_a_service_that_is_killed_at_each_step(tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was acknowledged is there; what was not is there as a whole or not at all; and the next start comes to the same bits either way."""
    folder, images = tmp_path / "data", list[Path]()

    async def work() -> None:
        async with service_in(folder) as service:
            await service.create(new_task())
            await decided(service, "one")
            commits, append = service.commits, service.commits.appender.append

            def killed(group: Any) -> Any:
                if group and group[0].feedback and moment == "added":
                    images.append(crash_image(folder))
                outcomes = append(group)
                if group and group[0].feedback and moment == "written":
                    images.append(crash_image(folder))
                return outcomes

            monkeypatch.setattr(commits.appender, "append", killed)
            assert await heard(service, "one") == "accepted"
            if moment == "acknowledged":
                images.append(crash_image(folder))
            await service.wait_until_learnt("fruit")
            if moment == "learnt":
                images.append(crash_image(folder))

    run(work())
    (image,) = images
    assert len(rows_of(image, "SELECT seq FROM feedback")) == int(moment != "added")
    known = run(restarted(image))
    assert run(restarted(without_snapshots(image))) == known

    async def again() -> str:
        async with service_in(image) as service:
            return await heard(service, "one")

    assert run(again()) == ("accepted" if moment == "added" else "duplicate")


def _go_on(task: onebit.OpenTask) -> None:
    task.decide([2.0, 1.0], id="two")
    task.feedback("two", right=True)
    task.flush()


@pytest.mark.parametrize("durable", DURABLE)
@pytest.mark.parametrize("where", ["submit", "append", "finish", "learn", "decide_one"])
def test_ctrl_c_at_each_step(tmp_path: Path, durable: Any, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes on has a learner that is a function of the log, and no number is there twice."""
    folder = tmp_path / "fruit"
    with small(folder, durable=durable) as task:
        task.feedback(task.decide([1.0, 2.0], id="one"), right=True)
        commits = folder_of(task).commits
        owner: Any = {
            "submit": commits,
            "append": commits.appender,
            "finish": commits,
            "learn": Learner,
            "decide_one": type(task._served.follower.replicas.resting.runtime),
        }[where]
        name = "_finish" if where == "finish" else where

        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            folder_of(task).leader.stop()
            patch.setattr(owner, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                _go_on(task)
        for identity in ("two", "three"):
            task.decide([2.0, 1.0], id=identity)
            assert task.feedback(identity, right=True).status in ("accepted", "duplicate")
        known = known_by(task)
        assert task.stats()["feedback"] == 3
    numbers = [
        row[0] for row in rows_of(folder, "SELECT seq FROM decisions UNION ALL SELECT seq FROM feedback ORDER BY 1")
    ]
    assert numbers == list(range(2, 8))
    assert run(restarted(without_snapshots(folder)))["fruit"] == known
    with onebit.open(folder) as task:
        assert known_by(task) == known
