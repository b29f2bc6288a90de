"""A program gives its task another learner: trained from the log, in the log, and the same after a restart."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.errors import InputError, OnebitError
from onebit.service.core.compiler import Compiler
from onebit.service.core.follower import LogFollower
from onebit.service.errors import ConflictError, InvalidError
from onebit.service.store.rows import BadRecordError
from tests.service.driving import (
    Where,
    everything_in,
    replayed,
    restarted,
    rows_of,
    run,
    service_in,
    visible,
    without_snapshots,
)
from tests.service.test_open import DURABLE, SMALL, answered, known_by, settle, small, with_snapshots


@pytest.mark.parametrize("durable", DURABLE)
def test_what_takes_over_is_trained_from_the_log(where: Where, durable: Any) -> None:
    """Feedback on what the learner before decided is learnt by the new one; a replay of the log comes to the same, bit for bit."""
    rng, made = random.Random(5), list[Any]()
    with with_snapshots(100, where, "fruit", **SMALL, durable=durable) as task:
        for _ in range(100):
            answered(task, rng, made)
        before = task.decide([0.5, 0.5], id="before")
        shown = task.switch("linucb", parameters={"matrix": "full"}, seed=3)
        assert (shown["learner"], shown["parameters"], shown["generation"]) == ("linucb", {"matrix": "full"}, 2)
        assert task.learner.runtime.rule.name == "linucb"
        assert task.decide([0.5, 0.5], id="before") == before
        assert task.feedback("before", right=True).status == "accepted"
        task.change(add_classes=["d"])
        for _ in range(50):
            answered(task, rng, made)
        assert task.switch("bpa")["generation"] == 3
        for _ in range(50):
            answered(task, rng, made)
        settle(task)
        known, seen = known_by(task), visible(task.stats())
    kinds = [kind for (kind,) in rows_of(where, "SELECT kind FROM changes ORDER BY seq") if kind == "learner"]
    assert kinds == ["learner", "learner"]

    async def work() -> None:
        async with service_in(where) as service:
            assert visible(service.stats("fruit")) == seen

    assert run(restarted(where))["fruit"] == known
    run(work())
    assert run(restarted(without_snapshots(where)))["fruit"] == known


def test_it_is_what_a_plain_learner_is_that_is_taught_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "fruit"
    with small(folder) as task:
        for step in range(40):
            task.feedback(task.decide([float(step % 5), 1.0]), right=step % 3 == 0)
        task.switch("bpa", seed=2)
        for step in range(20):
            task.feedback(task.decide([float(step % 5), 1.0]), right=step % 3 == 0)
        known = known_by(task)
    assert replayed(folder, "fruit") == known


def test_others_decide_meanwhile(tmp_path: Path) -> None:
    """Threads that decide and answer while learners are switched: nothing is lost, and the state is that of the log."""
    folder, errors, ending = tmp_path / "fruit", list[BaseException](), threading.Event()
    with small(folder, durable="soon") as task:

        def work(number: int) -> None:
            try:
                step = 0
                while not ending.is_set() or step < 50:
                    task.feedback(task.decide([float(number), float(step % 9)]), right=step % 2 == 0)
                    step += 1
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for one in threads:
            one.start()
        for name in ("bpa", "banditron", "linucb"):
            task.switch(name, seed=1)
        ending.set()
        for one in threads:
            one.join()
        assert not errors
        assert task.info()["generation"] == 4
        assert task.stats()["learnt"] == task.stats()["feedback"]
        known = known_by(task)
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


def test_what_is_refused_changes_nothing(where: Where) -> None:
    with small(where) as task:
        switch: Any = task.switch
        task.feedback(task.decide([1.0, 2.0], id="one"), right=True)
        known, rows = known_by(task), everything_in(where)
        for learner, options, sentence in (
            ("bppa", {}, "bppa"),
            ("bpa", {"parameters": {"colour": 1}}, "colour"),
            ("perceptron", {}, "learns from labels"),
            ("bpa", {"exploration_floor": 2.0}, "exploration_floor is 2.0, but must be"),
            ("bpa", {"seed": -1}, "seed is -1, but must be"),
            ([3], {}, "learner is"),
            ("banditron", {"parameters": {"kernel": "rbf"}}, "give max_support"),
        ):
            with pytest.raises(OnebitError, match=sentence):
                switch(learner, **options)
        assert (known_by(task), everything_in(where)) == (known, rows)
        assert task.info()["training"] is None
    with pytest.raises(InputError, match="task 'fruit' is closed"):
        task.switch("bpa")


def test_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, compiling, go_on = tmp_path / "fruit", threading.Event(), threading.Event()
    learner = Compiler.learner

    def slow(self: Compiler, *given: Any) -> Any:
        compiling.set()
        assert go_on.wait(60)
        return learner(self, *given)

    with small(folder) as task:
        with monkeypatch.context() as patch:
            patch.setattr(Compiler, "learner", slow)
            other = threading.Thread(target=task.switch, args=("bpa",))
            other.start()
            assert compiling.wait(60)
            with pytest.raises(ConflictError, match="another learner is already being trained for task 'fruit'"):
                task.switch("linucb")
            go_on.set()
            other.join()
        assert task.info()["learner"] == "bpa"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BadRecordError("fruit", "feedback", 3, "it is damaged")])
def test_a_training_that_ends_early(tmp_path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt, or a row that cannot be read: the learner that is there goes on, and so does the task."""
    folder = tmp_path / "fruit"
    with small(folder) as task:
        task.feedback(task.decide([1.0, 2.0]), right=True)
        known, rows = known_by(task), everything_in(folder)
        with monkeypatch.context() as patch:

            def ends(*_: object) -> bool:
                raise error

            patch.setattr(LogFollower, "approach", ends)
            with pytest.raises(
                (KeyboardInterrupt, InvalidError), match=r"^$|bpa cannot be trained from the log: .*damaged"
            ):
                task.switch("bpa")
        assert (known_by(task), everything_in(folder)) == (known, rows)
        assert task.switch("bpa")["learner"] == "bpa"


def test_a_switch_that_a_service_has_not_finished(tmp_path: Path) -> None:
    """It is for a service to go on with; but a switch here takes its place."""
    folder = tmp_path / "fruit"
    small(folder).close()
    asked = {"generation": 2, "learner": "linucb", "parameters": {}, "seed": 1, "exploration_floor": 0.0, "starts": 1}
    asked["version"] = onebit.__version__
    with small(folder) as task:
        folder_of_it: Any = task._log
        with task._settled():
            folder_of_it._change_task(task._served, "changed", {"training": asked})
    with small(folder) as task:
        assert task.info()["learner"] == "banditron"
        task.switch("bpa")
    assert json.loads(rows_of(folder, "SELECT detail FROM changes ORDER BY seq DESC LIMIT 1")[0][0])["learner"] == "bpa"

    async def work() -> str:
        async with service_in(folder) as service:
            return service.task("fruit").learner

    assert run(work()) == "bpa"
