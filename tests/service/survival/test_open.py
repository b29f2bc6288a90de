"""`onebit.open` where something goes wrong: the disk, the process, an interrupt."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.errors import InputError
from onebit.learner.learner import Learner
from onebit.service.errors import UnavailableError, UnfinishedError
from onebit.service.store.errors import LogError
from onebit.service.store.sqlite.appender import Commit, SqliteAppender
from onebit.service.store.submission import Submission
from tests.service.driving import (
    PATIENCE_S,
    crash_image,
    decided,
    hint,
    numbers_in,
    restarted,
    rows_of,
    run,
    service_in,
    without_snapshots,
)
from tests.service.test_open import DURABLE, folder_of, known_by, small

pytestmark = pytest.mark.long

PROGRAM = """
import sys
import onebit
task = onebit.open(sys.argv[1], "fruit", classes=["a", "b", "c"], features=2, learner="banditron", seed=1, durable=sys.argv[2])
for number in range(int(sys.argv[3]), 10**6):
    decision = task.decide([number % 7, 1.0], id=f"r{number}")
    task.feedback(decision, right=number % 3 == 0)
    if sys.argv[2] == "soon" and number % 100 == 99:
        task.flush()
    if sys.argv[2] == "always" or number % 100 == 99:
        print(number, flush=True)
"""


# Ctrl-C at random moments; what was acknowledged and learnt is compared with what the log says afterwards.
INTERRUPTED = """
import json, os, random, signal, sys
import onebit
rng, armed, acknowledged, interrupts = random.Random(5), False, {}, 0
def interrupt(number, frame):
    if armed:
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
signal.signal(signal.SIGALRM, lambda number, frame: os.kill(os.getpid(), signal.SIGINT))
task = onebit.open(sys.argv[1], "fruit", classes=["a", "b", "c"], features=2, learner="banditron", seed=1, durable=sys.argv[2])
for number in range(1500):
    name = f"r{rng.randrange(400)}"
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, rng.random() ** 3 * 0.004 + 1e-5)
        if number % 2:
            decision = task.decide([len(name), 1.0], id=name)
            armed = False
            assert acknowledged.setdefault(name, decision.label) == decision.label
        elif acknowledged:
            task.feedback(rng.choice(list(acknowledged)), right=True)
        armed = False
    except KeyboardInterrupt:
        armed, interrupts = False, interrupts + 1
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
task.flush()
learner = task.learner
task.close()
print(json.dumps([acknowledged, interrupts, learner.learnt, [learner.scores([x, 1.0]).tolist() for x in (2, 3, 4)]]))
"""


def program(folder: Path, durable: str, first: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(folder), durable, str(first)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("durable", DURABLE)
def test_a_program_that_is_killed(tmp_path: Path, durable: str) -> None:
    """Nothing that was answered, or flushed, is lost; and a program, a service and a program go on, each after the other was killed."""
    folder, first, expected = tmp_path / "fruit", 0, set[str]()
    for lines in (3, 2):
        process = program(folder, durable, first)
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(lines)]
        process.kill()
        said += [int(line) for line in process.stdout.read().split()]
        process.wait()
        process.stdout.close()
        made = {row[0] for row in rows_of(folder, "SELECT id FROM decisions")}
        heard = {row[0] for row in rows_of(folder, "SELECT id FROM decisions d JOIN feedback f ON f.decision = d.seq")}
        expected |= {f"r{number}" for number in range(first, said[-1] + 1)}
        assert expected <= made
        assert expected <= heard
        assert len(numbers_in(folder)) == len(made) + len(heard) + 1
        known = run(restarted(without_snapshots(crash_image(folder))))["fruit"]
        assert run(restarted(folder))["fruit"] == known
        with onebit.open(folder) as task:
            assert known_by(task) == known
            assert task.stats()["feedback"] == len(heard)
        first = len(made)


def test_a_service_that_is_killed_leaves_its_folder_to_a_program(tmp_path: Path) -> None:
    folder = tmp_path / "fruit"
    small(folder).close()

    async def serve() -> Path:
        async with service_in(folder) as service:
            for number in range(5):
                await decided(service, f"r{number}")
            await service.feedback("fruit", [hint("r0")])
            return crash_image(folder)

    image = run(serve())
    with onebit.open(image) as task:
        assert task.feedback("r1", right=False).status == "accepted"
        assert task.feedback("r0", right=True).status == "duplicate"
        known = known_by(task)
    assert run(restarted(without_snapshots(image)))["fruit"] == known


def test_soon_is_soon(tmp_path: Path) -> None:
    """What nobody waits for is in the log by itself, and at the end of a program that closes nothing."""
    folder = tmp_path / "fruit"
    with small(folder, durable="soon") as task:
        task.decide([1.0, 2.0])
        until_s = time.monotonic() + 60
        while not rows_of(folder, "SELECT 1 FROM decisions"):
            assert time.monotonic() < until_s
            time.sleep(0.01)
    ends = "import sys, onebit; task = onebit.open(sys.argv[1], durable='soon'); task.decide([1.0, 2.0], id='last')"
    subprocess.run([sys.executable, "-c", ends, str(folder)], check=True)
    assert [row[0] for row in rows_of(folder, "SELECT id FROM decisions")][-1] == "last"


class Failing:
    """A disk that fails so many times, before or after it has taken what it was given."""

    def __init__(self, task: onebit.OpenTask, times: int, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left, self._after = times, after
        appender = folder_of(task).commits.appender
        assert isinstance(appender, SqliteAppender)
        self._appender = appender
        self._commit = self._appender._commit
        monkeypatch.setattr(self._appender, "_commit", self)

    def __call__(self, write: Any) -> Any:
        if self._left and self._after:
            self._left -= 1
            last = self._appender._last
            self._appender._unsettled = Commit(self._commit(write).last, {(1, "feedback"): 1})
            self._appender._last = last
            raise LogError("the disk is tired", unknown=True)
        if self._left:
            self._left -= 1
            raise LogError("the disk is full")
        return self._commit(write)


def test_a_full_disk_with_always(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits is told, nothing of it is there or known, and the next call tries again."""
    folder = tmp_path / "fruit"
    with small(folder) as task:
        task.decide([1.0, 2.0], id="one")
        known = known_by(task)
        Failing(task, 2, False, monkeypatch)
        with pytest.raises(UnavailableError, match="the log cannot be written: the disk is full; nothing was done"):
            task.feedback("one", right=True)
        with pytest.raises(UnavailableError, match="the disk is full"):
            task.decide([1.0, 2.0], id="two")
        assert task.decide([1.0, 3.0], id="two").id == "two"
        assert known_by(task) == known
        assert task.feedback("one", right=False).status == "accepted"
        assert task.stats()["decisions"] == 2
        known = known_by(task)
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


def test_a_disk_that_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was in doubt and is there is known, also to the learner."""
    folder = tmp_path / "fruit"
    with small(folder) as task:
        task.decide([1.0, 2.0], id="one")
        Failing(task, 1, True, monkeypatch)
        with pytest.raises(UnfinishedError, match="the disk is tired; it is unknown whether this was done"):
            task.feedback("one", right=True)
        assert task.feedback("one", right=True).status == "duplicate"
        assert task.stats()["learnt"] == 1
        task.decide([1.0, 2.0], id="two")
        known = known_by(task)
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


@pytest.mark.parametrize("after", [False, True])
def test_a_bad_disk_with_soon(tmp_path: Path, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was answered waits for the disk, and is tried again; nothing more is taken meanwhile."""
    folder = tmp_path / "fruit"
    with small(folder, durable="soon") as task:
        folder_of(task).leader.stop()
        task.feedback(task.decide([1.0, 2.0], id="one"), right=True)
        Failing(task, 2 if not after else 1, after, monkeypatch)
        with pytest.raises(UnavailableError, match="2 rows are waiting for the disk and will be retried"):
            task.flush()
        if not after:
            with pytest.raises(UnavailableError, match="the disk is full; 2 rows are waiting"):
                task.decide([1.0, 2.0], id="two")
        assert task.decide([1.0, 2.0], id="two").id == "two"
        assert task.stats()["learnt"] == 1
        known = known_by(task)
    assert [row[0] for row in rows_of(folder, "SELECT id FROM decisions")] == ["one", "two"]
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


def test_what_is_lost_at_the_end_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "fruit"
    task = small(folder, durable="soon")
    folder_of(task).leader.stop()
    task.decide([1.0, 2.0], id="one")
    Failing(task, 10**6, False, monkeypatch)
    with pytest.raises(
        UnavailableError,
        match=r"1 rows could not be written to the log of .*, and are lost: .*the disk is full",
    ):
        task.close()
    with onebit.open(folder) as again:  # which is free
        assert again.stats()["decisions"] == 0


def _go_on(task: onebit.OpenTask) -> None:
    task.decide([2.0, 1.0], id="two")
    task.feedback("two", right=True)
    task.stats()


def test_a_change_that_the_disk_takes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked for it was told that it waits; once it is in the log, it holds here too."""
    folder = tmp_path / "fruit"
    with small(folder, durable="soon") as task:
        folder_of(task).leader.stop()
        task.feedback(task.decide([1.0, 2.0], id="one"), right=True)
        task.flush()
        Failing(task, 1, False, monkeypatch)
        with pytest.raises(UnavailableError, match="1 rows are waiting for the disk and will be retried"):
            task.change(add_classes=["d"])
        task.decide([1.0, 2.0], id="two")
        assert task.classes == ["a", "b", "c", "d"]
        assert len(task.learner.classes) == 4
        known = known_by(task)
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


def _go_on_and_be_interrupted(task: onebit.OpenTask, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, when the learner learns or its follower counts what was written."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Learner if where == "learn" else type(task._served.follower), where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            _go_on(task)


@pytest.mark.parametrize("durable", DURABLE)
@pytest.mark.parametrize("where", ["learn", "follow"])
def test_an_interrupt(tmp_path: Path, durable: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever presses Ctrl-C at the wrong moment: the learner is made again from the log."""
    folder = tmp_path / "fruit"
    with small(folder, durable=durable) as task:
        task.feedback(task.decide([1.0, 2.0], id="one"), right=True)
        _go_on_and_be_interrupted(task, where, monkeypatch)
        task.decide([2.0, 2.0], id="three")
        task.feedback("three", right=False)
        known = known_by(task)
        assert task.stats()["decisions"] == 3
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


@pytest.mark.parametrize("durable", DURABLE)
@pytest.mark.parametrize("where", ["learn", "follow"])
def test_an_interrupt_that_ends_the_program(
    tmp_path: Path, durable: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot that is left is that of the log, whatever the learner had learnt when it was interrupted."""
    folder = tmp_path / "fruit"
    task = small(folder, durable=durable)
    task.feedback(task.decide([1.0, 2.0], id="one"), right=True)
    _go_on_and_be_interrupted(task, where, monkeypatch)
    task.close()
    known = run(restarted(crash_image(folder)))["fruit"]
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are for Unix")
def test_a_child_of_the_process(tmp_path: Path) -> None:
    """A fork cannot use the task, and takes nothing from its parent; when that closes it, the folder is free."""
    folder = tmp_path / "fruit"
    program = """
import os, sys, time, onebit
task = onebit.open(sys.argv[1])
if (child := os.fork()) == 0:
    try:
        task.decide([1.0, 2.0])
    except onebit.InputError as error:
        assert "was opened by the parent of this forked process" in str(error), error
        time.sleep(600)
task.decide([1.0, 2.0], id="parent")
task.close()
onebit.open(sys.argv[1]).close()
os.kill(child, 9)
assert os.waitpid(child, 0)[1] == 9
"""
    small(folder).close()
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(folder)], check=True, timeout=300)
    with onebit.open(folder) as task:
        assert task.decision("parent")["id"] == "parent"


def test_a_log_that_another_program_wrote_to(tmp_path: Path) -> None:
    folder = tmp_path / "fruit"
    with small(folder) as task:
        task.decide([1.0, 2.0], id="one")
        with sqlite3.connect(folder / "onebit.db") as other:
            other.execute("INSERT INTO changes VALUES (99, 1, 0.0, 'changed', '{}', NULL)")
        other.close()
        for _ in range(2):
            with pytest.raises(
                UnavailableError, match="nothing is written to the log any more, since another program has"
            ):
                task.decide([1.0, 2.0], id="two")


def test_one_commit_for_threads_that_wait_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for the disk share what it does."""
    with small(tmp_path / "fruit") as task:
        commits, written = folder_of(task).commits, list[int]()
        append = commits.appender.append

        def count(group: Sequence[Submission]) -> Any:
            written.append(len(group))
            return append(group)

        monkeypatch.setattr(commits.appender, "append", count)
        with commits.writing:  # somebody is writing
            threads = [threading.Thread(target=task.decide, args=([1.0, float(one)],)) for one in range(8)]
            for one in threads:
                one.start()
            until_s = time.monotonic() + 60
            while commits.waiting < 8:
                assert time.monotonic() < until_s
                time.sleep(0.001)
        for one in threads:
            one.join()
        assert written == [8]


def test_the_folder_of_a_task_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file, but must be a folder"):
        onebit.open(tmp_path / "file", classes=2, features=2)


def test_who_comes_while_the_log_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that wait together with those that cannot be written are refused with them, and their numbers are given again."""
    folder = tmp_path / "fruit"
    with small(folder) as task:
        Failing(task, 1, False, monkeypatch)
        commits, refused = folder_of(task).commits, list[UnavailableError]()

        def ask(identity: str) -> None:
            try:
                task.decide([1.0, 2.0], id=identity)
            except UnavailableError as error:
                refused.append(error)

        with commits.writing:  # somebody is writing
            threads = [threading.Thread(target=ask, args=(identity,)) for identity in ("one", "two")]
            for one in threads:
                one.start()
            until_s = time.monotonic() + 60
            while commits.waiting < 2:
                assert time.monotonic() < until_s
                time.sleep(0.001)
        for one in threads:
            one.join()
        assert ["the disk is full" in str(error) for error in refused] == [True, True]
        for identity in ("two", "three"):
            task.feedback(task.decide([1.0, 2.0], id=identity), right=True)
        known = known_by(task)
    assert numbers_in(folder) == [1, 2, 3, 4, 5]
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


@pytest.mark.parametrize("durable", DURABLE)
def test_a_task_that_is_closed_while_others_use_it(tmp_path: Path, durable: str) -> None:
    """Whoever comes too late is told; what was answered is there."""
    folder, answered = tmp_path / "fruit", list[str]()
    task = small(folder, durable=durable)
    ended: list[Exception] = []

    def work(number: int) -> None:
        try:
            for step in range(10**6):
                task.decide([1.0, 2.0], id=f"{number}-{step}")
                answered.append(f"{number}-{step}")
        except onebit.OnebitError as error:
            ended.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for one in threads:
        one.start()
    while len(answered) < 30:
        time.sleep(0.01)
    task.close()
    for one in threads:
        one.join()
    assert len(ended) == 3
    assert {row[0] for row in rows_of(folder, "SELECT id FROM decisions")} == set(answered)


def test_a_real_service_goes_on_with_the_folder_of_a_program(tmp_path: Path) -> None:
    """And is killed, and the program goes on."""
    folder = tmp_path / "fruit"
    with small(folder) as task:
        label = task.decide([1.0, 2.0], id="one").label
        task.feedback("one", right=True)
    command = [sys.executable, "-m", "onebit", "serve", "--data", str(folder), "--port", "0", "--log-format", "json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = next(
                event["address"] for event in map(json.loads, process.stderr) if event["event"] == "listening"
            )
            with pytest.raises(InputError, match="one folder, one owner"):
                onebit.open(folder)
            with onebit.client.Client(address) as client:
                served = client.task("fruit")
                assert served.decide([1.0, 2.0], id="one").label == label
                assert served.decide([2.0, 1.0], id="two").version == "1.1"
        finally:
            process.kill()
    with onebit.open(folder) as task:
        assert task.feedback("two", right=False).status == "accepted"
        assert task.stats()["learnt"] == 2


def test_a_task_that_was_closed_while_the_disk_failed_knows_its_rows_when_it_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "fruit"
    options: dict[str, Any] = {"classes": ["a", "b"], "features": 2, "learner": "banditron", "durable": "soon"}
    with onebit.open(folder, "other", **options) as other:
        task = onebit.open(folder, "task", **options)
        appender, leader = folder_of(other).commits.appender, folder_of(other).leader
        leader.stop()  # which would try again by itself
        with monkeypatch.context() as failing:
            failing.setattr(appender, "append", lambda group: _fail())
            task.feedback(task.decide([1.0, 1.0], id="one"), right=False)
            with pytest.raises(UnavailableError, match="2 rows are waiting for the disk"):
                task.close()
        with onebit.open(folder, "task", durable="soon") as again:
            again.feedback(again.decide([2.0, 1.0], id="two"), right=True)
            known = known_by(again)
    assert run(restarted(without_snapshots(folder)))["task"] == known


def _fail() -> None:
    raise LogError("no space left on device")


@pytest.mark.parametrize("durable", DURABLE)
def test_interrupts_at_random_moments_lose_nothing(tmp_path: Path, durable: str) -> None:
    folder = tmp_path / "fruit"
    command = [sys.executable, "-c", INTERRUPTED, str(folder), durable]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    acknowledged, interrupts, learnt, scores = json.loads(printed)
    assert interrupts > 100
    with onebit.open(without_snapshots(folder)) as task:
        assert {name: task.decision(name)["label"] for name in acknowledged} == acknowledged
        assert task.learner.learnt == learnt
        assert [task.learner.scores([x, 1.0]).tolist() for x in (2, 3, 4)] == scores
