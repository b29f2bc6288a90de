"""Several tasks of one folder, open at once in one process: they share its log, and nothing else."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.errors import InputError
from onebit.learner.learner import Learner
from onebit.service.errors import InvalidError, UnavailableError
from tests.service.driving import (
    Where,
    numbers_in,
    restarted,
    rows_of,
    run,
    service_in,
    snapshots_in,
    until,
    visible,
    without_snapshots,
)
from tests.service.survival.test_open import Failing
from tests.service.test_open import DURABLE, SMALL, answered, folder_of, known_by, settle, with_snapshots

NAMES = ("fruit", "nuts", "herbs")


def opened(
    folder: Where, name: str, opens: Callable[..., onebit.OpenTask] = onebit.open, **more: Any
) -> onebit.OpenTask:
    learner = {"fruit": "banditron", "nuts": "bpa", "herbs": "linucb"}[name]
    return opens(folder, name, **{**SMALL, "learner": learner, **more})


@pytest.mark.parametrize("durable", DURABLE)
def test_each_is_that_of_its_rows(where: Where, durable: Any) -> None:
    """Whatever is done with them in turn, and however they are closed: a service that follows the log comes to the same."""
    rng, made = random.Random(7), {name: list[Any]() for name in NAMES}
    with ExitStack() as stack:
        tasks = {
            name: stack.enter_context(opened(where, name, partial(with_snapshots, 50), durable=durable))
            for name in NAMES
        }
        for step in range(300):
            name = rng.choice(NAMES)
            answered(tasks[name], rng, made[name])
            if step == 150:
                tasks["nuts"].change(add_classes=["d"])
        for task in tasks.values():
            settle(task)
        known = {name: known_by(task) for name, task in tasks.items()}
        seen = {name: visible(task.stats()) for name, task in tasks.items()}

    async def work(folder: Where) -> None:
        async with service_in(folder) as service:
            assert {name: visible(service.stats(name)) for name in NAMES} == seen

    assert numbers_in(where) == list(range(1, len(numbers_in(where)) + 1))
    assert len({path.parent for path in snapshots_in(where)}) == 3
    assert run(restarted(where)) == known
    run(work(where))
    assert run(restarted(without_snapshots(where))) == known
    run(work(without_snapshots(where)))


@pytest.mark.parametrize("durable", DURABLE)
def test_threads_use_them_at_once(tmp_path: Path, durable: Any) -> None:
    """Tasks are opened, used and closed by threads of their own, again and again; the folder is free when the last is closed."""
    folder, errors = tmp_path / "data", list[BaseException]()
    opened(folder, "herbs").close()

    def work(name: str) -> None:
        try:
            for turn, step in itertools.product(range(4), range(10)):
                if step == 0:
                    task = opened(folder, name, durable=durable)
                task.feedback(task.decide([float(turn), float(step)], id=f"{turn}-{step}"), right=step % 2 == 0)
                if step == 9:
                    task.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in NAMES]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not errors
    assert len(rows_of(folder, "SELECT seq FROM feedback")) == 120
    known = run(restarted(folder))
    assert run(restarted(without_snapshots(folder))) == known


@pytest.mark.parametrize("durable", DURABLE)
def test_one_is_closed_and_the_others_go_on(tmp_path: Path, durable: Any) -> None:
    """What was closed has its snapshot, and can be opened again; a service has the folder when all are closed."""
    folder = tmp_path / "data"
    with opened(folder, "fruit", durable=durable) as fruit:
        with opened(folder, "nuts", durable=durable) as nuts:
            nuts.feedback(nuts.decide([1.0, 2.0], id="one"), right=True)
            fruit.decide([1.0, 2.0], id="one")
            known = known_by(nuts)
        assert [path.parent.name for path in snapshots_in(folder)] == ["2"]
        with pytest.raises(InputError, match="task 'nuts' is closed"):
            nuts.decide([1.0, 2.0])
        fruit.feedback("one", right=False)
        with opened(folder, "nuts", durable=durable) as nuts:
            assert known_by(nuts) == known
            assert nuts.feedback("one", right=True).status == "duplicate"
            nuts.withdraw("one")
            settle(nuts)
            assert nuts.stats()["learnt"] == 0

            async def serve() -> None:
                async with service_in(folder):
                    pass

            with pytest.raises(InputError, match="one folder, one owner"):
                run(serve())
        assert fruit.stats()["learnt"] == 1
    run(serve())


def test_what_they_share_must_be_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (tmp_path / "link").symlink_to(folder)
    with opened(folder, "fruit"):
        sentence = "durable='always', but durable='soon' was given"
        with pytest.raises(InputError, match=f"is open in this process with {sentence}: all open tasks of a folder"):
            opened(folder, "nuts", durable="soon")
        with pytest.raises(InputError, match=r"task 'fruit' of .* is already open in this process"):
            opened(tmp_path / "link", "fruit")
        with pytest.raises(InvalidError, match="classes is 1, but must be"):
            opened(folder, "nuts", classes=1)
        with opened(tmp_path / "link", "nuts") as nuts:  # which is the same folder
            nuts.decide([1.0, 2.0])
    onebit.open(folder, "nuts").close()


def test_another_folder_in_its_place(tmp_path: Path) -> None:
    """A folder that was moved away is another one than that which has its name now."""
    with opened(tmp_path / "data", "fruit") as fruit:
        (tmp_path / "data").rename(tmp_path / "moved")
        with opened(tmp_path / "data", "fruit") as other:
            other.decide([1.0, 2.0], id="one")
        assert fruit.stats()["decisions"] == 0


@pytest.mark.parametrize("durable", DURABLE)
def test_an_interrupt_of_one(tmp_path: Path, durable: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are made again from the log."""
    folder = tmp_path / "data"
    with opened(folder, "fruit", durable=durable) as fruit, opened(folder, "nuts", durable=durable) as nuts:
        for task in (fruit, nuts):
            task.feedback(task.decide([1.0, 2.0], id="one"), right=True)
        with monkeypatch.context() as patch:

            def interrupted(*_: object, **__: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(Learner, "learn", interrupted)
            nuts.decide([2.0, 1.0], id="two")
            with pytest.raises(KeyboardInterrupt):
                nuts.feedback("two", right=True)
        for task in (fruit, nuts):
            task.feedback(task.decide([1.0, 2.0], id="three"), right=False)
        known = {"fruit": known_by(fruit), "nuts": known_by(nuts)}
    assert run(restarted(without_snapshots(folder))) == known


def test_rows_that_wait_for_the_disk_when_one_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever closes it is told, and they are written while another task of the folder is open."""
    folder = tmp_path / "data"
    with opened(folder, "fruit", durable="soon") as fruit:
        nuts = opened(folder, "nuts", durable="soon")
        folder_of(fruit).leader.stop()
        nuts.feedback(nuts.decide([1.0, 2.0], id="one"), right=True)
        Failing(fruit, 1, False, monkeypatch)
        with pytest.raises(UnavailableError, match="2 rows are waiting for the disk and will be retried"):
            nuts.close()
        fruit.decide([1.0, 2.0], id="one")
    with opened(folder, "nuts") as nuts:
        assert nuts.feedback("one", right=True).status == "duplicate"
        known = known_by(nuts)
    assert run(restarted(without_snapshots(folder)))["nuts"] == known


def test_silence_of_each(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "data", "fruit", deadline_s=0.05, silence="wrong") as fruit,
        opened(tmp_path / "data", "nuts", deadline_s=0.05, silence="right") as nuts,
    ):
        fruit.decide([1.0, 2.0])
        nuts.decide([1.0, 2.0])

        async def work() -> None:
            await until(lambda: fruit.stats()["silences"] == nuts.stats()["silences"] == 1)

        run(work())
        assert (fruit.stats()["right"], nuts.stats()["right"]) == (0, 1)


def test_a_child_of_the_process_has_none_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for name in ("fruit", "nuts"):
        opened(folder, name).close()
    program = """
import os, sys, onebit
tasks = [onebit.open(sys.argv[1], name) for name in ("fruit", "nuts")]
if (child := os.fork()) == 0:
    refused = 0
    for task in tasks:
        try:
            task.decide([1.0, 2.0])
        except onebit.InputError as error:
            refused += "parent of this forked process" in str(error)
    try:
        onebit.open(sys.argv[1], "fruit")
    except onebit.InputError as error:
        refused += "one folder, one owner" in str(error)
    os._exit(refused)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
for task in tasks:
    task.decide([1.0, 2.0])
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(folder)], check=True, timeout=300)
    assert len(rows_of(folder, "SELECT seq FROM decisions")) == 2
