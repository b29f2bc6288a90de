"""A process is killed, or interrupted, right after each stage of a row: added, written, acknowledged, learnt."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from onebit.service.core.commit import GroupCommit
from onebit.service.core.follower import LogFollower
from onebit.service.store.sqlite.appender import SqliteAppender
from onebit.service.store.submission import Submission
from tests.service.driving import (
    PATIENCE_S,
    crash_image,
    decided,
    everything_in,
    heard,
    numbers_in,
    restarted,
    rows_of,
    run,
    service_in,
    without_snapshots,
)
from tests.service.test_open import DURABLE, folder_of, known_by, small

pytestmark = [pytest.mark.long, pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are for Unix")]

STAGES: dict[str, tuple[type, str]] = {
    "add": (GroupCommit, "submit"),
    "write": (SqliteAppender, "append"),
    "acknowledge": (Submission, "finish"),
    "learn": (LogFollower, "learn"),
}
ROUNDS = 20
LIVES = 3


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, also where the tests were started in the background, which ignores it."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def after(stage: str, count: int, happen: Callable[[], None]) -> Any:
    """Have something happen when a stage was passed for the count-th time from now on."""
    owner, name = STAGES[stage]
    passed, original = 0, getattr(owner, name)

    def pass_stage(*given: Any, **more: Any) -> Any:
        nonlocal passed
        passed += 1
        result = original(*given, **more)
        if passed == count:
            happen()
        return result

    return mock.patch.object(owner, name, pass_stage)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def x_of(number: int) -> list[float]:
    return [number % 7, 1.0]


def work_in_a_program(folder: Path, say: Callable[[str], None], durable: str) -> None:
    """Decide on `a0`, `a1`, ... and answer; say what was acknowledged."""
    with small(folder, durable=durable) as task:
        for number in range(ROUNDS):
            decision = task.decide(x_of(number), id=f"a{number}")
            if durable == "soon":
                task.flush()
            say(f"a{number} {decision.label}")
            task.feedback(decision, right=number % 3 == 0)
            if durable == "soon":
                task.flush()
            say(f"a{number} told")


def work_in_a_service(folder: Path, say: Callable[[str], None]) -> None:
    """The same of a service."""

    async def work() -> None:
        async with service_in(folder) as service:
            for number in range(ROUNDS):
                decision = await decided(service, f"a{number}", x_of(number))
                say(f"a{number} {decision['label']}")
                await heard(service, f"a{number}", number % 3 == 0)
                say(f"a{number} told")
                await service.wait_until_learnt("fruit")

    run(work())


def killed(work: Callable[[Callable[[str], None]], None], stage: str, count: int) -> list[str]:
    """Work in a child that is killed; return what it said before."""
    reading, writing = os.pipe()

    def say(line: str) -> None:
        os.write(writing, f"{line}\n".encode())

    child = os.fork()
    if not child:
        try:
            signal.alarm(int(2 * PATIENCE_S))
            with after(stage, count, die):
                work(say)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        said = lines.read().splitlines()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return said


def check(folder: Path, said: list[str]) -> None:
    """What was acknowledged is in the log, once, and what is known is what the log says."""
    assert numbers_in(folder) == list(range(1, len(everything_in(folder)) + 1))
    made = dict(rows_of(folder, "SELECT id, label FROM decisions"))
    told = [row[0] for row in rows_of(folder, "SELECT d.id FROM feedback f JOIN decisions d ON d.seq = f.decision")]
    assert len(told) == len(set(told))
    for identity, what in (line.split() for line in said):
        if what == "told":
            assert identity in told
        else:
            assert ["a", "b", "c"][made[identity]] == what
    assert run(restarted(crash_image(folder))) == run(restarted(without_snapshots(crash_image(folder))))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("how", [*DURABLE, "service"])
def test_killed_after_each_stage(tmp_path: Path, how: str, stage: str) -> None:
    """Again and again; whoever comes next asks the same again, and gets the same answers."""
    rng, folder, said = random.Random(f"{how} {stage}"), tmp_path / "fruit", list[str]()
    small(folder).close()
    for _ in range(LIVES):
        count = rng.randrange(1, 6)  # of new rows, of which there must be enough for all lives
        if how == "service":
            said += killed(lambda say: work_in_a_service(folder, say), stage, count)
        else:
            said += killed(lambda say: work_in_a_program(folder, say, how), stage, count)
        check(folder, said)
    if how == "service":
        work_in_a_service(folder, said.append)
    else:
        work_in_a_program(folder, said.append, how)
    check(folder, said)
    assert len(numbers_in(folder)) == 1 + 2 * ROUNDS


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("durable", DURABLE)
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_after_each_stage(tmp_path: Path, durable: str, stage: str) -> None:
    """A program that goes on asks the same again: nothing is lost or done twice, and the learner is that of the log."""
    folder = tmp_path / "fruit"
    with small(folder, durable=durable) as task:
        folder_of(task).leader.stop()  # it writes on another thread, and Ctrl-C comes on this one
        interrupts = 0
        for number in range(ROUNDS):
            for attempt in range(2):
                steps: list[Callable[[], Any]] = [
                    lambda: task.decide(x_of(number), id=f"a{number}"),  # noqa: B023
                    lambda: task.feedback(f"a{number}", right=number % 3 == 0),  # noqa: B023
                    task.flush,
                ]
                try:
                    with after(stage, 1 + number % 2, lambda: signal.raise_signal(signal.SIGINT)):
                        for step in steps[: 3 if attempt else 1 + number % 3]:
                            step()
                except KeyboardInterrupt:
                    interrupts += 1
            for step in steps:
                step()
        assert interrupts >= ROUNDS // 3
        known = known_by(task)
        assert task.stats()["decisions"] == task.stats()["feedback"] == task.stats()["learnt"] == ROUNDS
    check(folder, [f"a{number} told" for number in range(ROUNDS)])
    assert run(restarted(without_snapshots(folder)))["fruit"] == known
