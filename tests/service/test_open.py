"""`onebit.open`: the service in the caller's own process, on the same folder, bit for bit."""

from __future__ import annotations

import json
import random
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest

import onebit
from onebit.errors import InputError, OnebitError
from onebit.service.core.deadlines import SWEPT, sweep
from onebit.service.errors import ConflictError, InvalidError, NotFoundError
from onebit.service.open import opening
from onebit.service.open.folder import OpenFolder
from onebit.service.settings import Settings
from onebit.service.task import build_learner
from tests.service.driving import (
    Where,
    ask,
    everything_in,
    hint,
    new_task,
    numbers_in,
    restarted,
    rows_of,
    run,
    service_in,
    snapshots_in,
    state_of,
    until,
    visible,
    without_snapshots,
)
from tests.service.postgres import Server, needs_postgres

SMALL: dict[str, Any] = {"classes": ["a", "b", "c"], "features": 2, "learner": "banditron", "seed": 1}
DURABLE = ("always", "soon")


def with_snapshots(every: int, folder: Where, *named: str, **options: Any) -> onebit.OpenTask:
    """A task of which a snapshot is written after so many rows."""
    with mock.patch.object(opening, "Settings", partial(Settings, snapshot_every=every)):
        return onebit.open(folder, *named, **options)


def small(folder: Where, **more: Any) -> onebit.OpenTask:
    return onebit.open(folder, "fruit", **{**SMALL, **more})


def folder_of(task: onebit.OpenTask) -> OpenFolder:
    """What writes and learns, of a task in a folder."""
    assert isinstance(task._log, OpenFolder)
    return task._log


def known_by(task: onebit.OpenTask) -> Any:
    """What the learner of a task is, when everything that was revised has been learnt."""
    with task._settled():
        return state_of(task._served.follower.replicas.resting)


def settle(task: onebit.OpenTask) -> None:
    """Wait until what was said is written and counted, and what was revised has been learnt."""
    task.flush()
    last = max((one["seq"] for one in task.decisions(limit=1)), default=0)

    async def work() -> None:
        served = task._served
        await until(lambda: served.has_followed(last) and served.follower.revised_from is None)

    run(work())


@pytest.mark.parametrize("durable", DURABLE)
def test_a_program_decides_and_hears(where: Where, durable: Any) -> None:
    """After a feedback the next decision knows it: what is decided is what a plain learner decides that is told the same, bit for bit."""
    rng = np.random.default_rng(0)
    with small(where, durable=durable) as task:
        info = task._served.info
        plain = build_learner(info.detail, info.classes, info.inputs)
        for round_ in range(60):
            x = rng.normal(size=2)
            decision = task.decide(x, id=f"r{round_}")
            expected = plain.decide(x, id=f"r{round_}")
            assert (decision.label, decision.propensity) == (expected.label, expected.propensity)
            assert decision.probabilities == expected.probabilities
            right = decision.label == ("a" if x[0] > 0 else "b")
            assert task.feedback(decision.id, right=right) == (f"r{round_}", "accepted", "")
            plain.learn(expected, right)
        assert known_by(task) == state_of(plain)
        assert task.stats()["learnt"] == 60
    assert len(rows_of(where, "SELECT seq FROM decisions")) == 60
    assert run(restarted(without_snapshots(where)))["fruit"] == state_of(plain)


def answered(task: onebit.OpenTask, rng: random.Random, made: list[Any]) -> None:
    """One random thing that a program may do."""
    kind = rng.choice(["decide"] * 6 + ["right"] * 5 + ["reward", "truth", "revise", "withdraw", "again", "many"])
    if kind == "decide" or not made:
        among = rng.choice([None, None, ["a", "b"], ["a", "b", "c"]])
        x = [rng.gauss(0, 1), rng.gauss(0, 1)]
        made.append(task.decide(x, among=among, sure=rng.choice([None, 0.5])).id)
    elif kind == "many":
        made += [one.id for one in task.decide_many([[rng.gauss(0, 1), 1.0] for _ in range(3)])]
        task.feedback_many(made[-3:], right=[True, None, None], rewards=[None, 0.5, None], truths=[None, None, "a"])
    else:
        answer: dict[str, dict[str, Any]] = {
            "right": {"right": rng.random() < 0.5},
            "reward": {"reward": rng.random()},
            "truth": {"truth": "b"},
        }
        said = answer.get(kind, answer["right"])
        try:
            if kind == "withdraw":
                task.withdraw(rng.choice(made))
            else:
                task.feedback(rng.choice(made), **said, revise=kind == "revise")
        except (ConflictError, InvalidError):  # what was said already, or is no candidate
            pass


@pytest.mark.parametrize("durable", DURABLE)
def test_the_state_is_that_of_the_log(where: Where, durable: Any) -> None:
    """Whatever a program does: a service that follows the log comes to the same learner and the same statistics."""
    folder, rng, made = where, random.Random(3), list[Any]()
    with with_snapshots(100, folder, "fruit", **SMALL, durable=durable) as task:
        for step in range(300):
            answered(task, rng, made)
            if step == 150:
                task.change(add_classes=["d"], sure=0.6)
            if step == 220:
                task.change(remove_classes=["b"])
        settle(task)
        known, seen = known_by(task), visible(task.stats())
        assert task._log.reader.last() == numbers_in(folder)[-1]

    async def work(folder: Where) -> None:
        async with service_in(folder) as service:
            assert visible(service.stats("fruit")) == seen

    assert snapshots_in(folder)
    assert run(restarted(folder))["fruit"] == known
    run(work(folder))
    assert run(restarted(without_snapshots(folder)))["fruit"] == known
    run(work(without_snapshots(folder)))


def test_a_folder_moves_between_a_program_and_the_service(where: Where) -> None:
    """Each goes on where the other was, and takes feedback for what the other decided."""
    folder = where
    with small(folder) as task:
        first = task.decide([1.0, 2.0])
        task.feedback(task.decide([2.0, 1.0], id="mine"), right=True)

    async def serve() -> Any:
        async with service_in(folder) as service:
            assert (await service.feedback("fruit", [hint(str(first.id), False)]))[0]["status"] == "accepted"
            await service.create(new_task("other"))
            again = await service.decide("fruit", [ask("mine", [2.0, 1.0]), ask("theirs", [0.5, 0.5])])
            assert again[0]["id"] == "mine"
            return again[1]

    theirs = run(serve())
    states = run(restarted(folder))
    with onebit.open(folder, "fruit") as task:
        assert known_by(task) == states["fruit"]
        assert task.decide([0.5, 0.5], id="theirs").label == theirs["label"]
        assert task.feedback("theirs", right=True).status == "accepted"
        assert task.feedback(first.id, right=False).status == "duplicate"
        known = known_by(task)
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "fruit"
    with small(folder) as task:
        with pytest.raises(InputError, match=r"task 'fruit' of .* is already open in this process: close it first"):
            onebit.open(folder)

        async def serve() -> None:
            async with service_in(folder):
                pass

        with pytest.raises(InputError, match=r"is using .*, or a program that has opened it: one folder, one owner"):
            run(serve())
        refused: list[Exception] = []

        def elsewhere() -> None:
            try:
                onebit.open(folder)
            except InputError as error:
                refused.append(error)

        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
        assert len(refused) == 1
        task.decide([1.0, 2.0])

    async def and_back() -> None:
        async with service_in(folder):
            with pytest.raises(InputError, match="one folder, one owner"):
                onebit.open(folder)

    run(and_back())
    onebit.open(folder).close()


def test_what_contradicts_the_task_that_is_there_is_refused(where: Where) -> None:
    folder = where
    small(folder).close()
    before = everything_in(folder)
    contradictions: dict[str, Any] = {
        "classes": ["a", "b"],
        "features": 3,
        "learner": "bpa",
        "seed": 2,
        "mode": "shadow",
        "deadline_s": 3.0,
        "sure": 0.5,
        "parameters": {"exploration": 0.5},
    }
    for option, wrong in contradictions.items():
        with pytest.raises(InputError, match=f"^task 'fruit' has {option} .* was given: leave it out"):
            onebit.open(folder, **{option: wrong})
    small(folder, mode="learn").close()  # which says what is there
    onebit.open(folder, classes=["a", "b", "c"]).close()
    with pytest.raises(InputError, match=r"there is no task 'nuts' in .*; or give classes to create it"):
        onebit.open(folder, "nuts")
    onebit.open(folder, "nuts", classes=2, features={"kind": "text", "hash_bits": 6}, learner="banditron").close()
    with pytest.raises(InputError, match="has several tasks, 'fruit', 'nuts': choose one with task="):
        onebit.open(folder)
    assert everything_in(folder)[: len(before)] == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "there is no task in .* yet: give classes"),
        ({"classes": 2}, r"give features \(the number of them, 'text' or 'dict'\)"),
        ({"classes": 1, "features": 2}, "classes is 1, but must be"),
        ({"classes": 2, "features": 2, "learner": "bbpa"}, "bbpa"),
        ({"classes": 2, "features": 2, "durable": "never"}, "durable is 'never', but must be 'always' or 'soon'"),
        ({"classes": 2, "features": {"kind": "numbers", "size": 2, "hash_bits": 4}}, "hash_bits is not a known field"),
        ({"classes": 2, "features": "words"}, "features.kind is 'words', but must be one of 'numbers', 'dict', 'text'"),
        ({"classes": 2, "features": 2, "sure": 0.5, "risk": 0.5}, "risk cannot be given together with sure"),
        ({"classes": 2, "features": 2, "mode": "train"}, "mode is 'train', but must be"),
        ({"classes": ["a", "a"], "features": 2}, "a"),
        ({"classes": "ab", "features": 2}, "classes is 'ab', but must be a list of class names or their number"),
        ({"classes": {"a", "b"}, "features": 2}, "classes is a set, whose order differs"),
        ({"classes": 2.0, "features": 2}, "classes is 2.0, but must be"),
        ({"classes": 2, "features": 2, "parameters": [1]}, r"parameters is \[1\], but must be a dict"),
    ],
)
def test_bad_options_leave_no_task(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OnebitError, match=sentence):
        onebit.open(tmp_path / "fruit", **options)
    assert list(tmp_path.iterdir()) == [], "and no folder, as one with a wrong name would be"
    onebit.open(tmp_path / "fruit", **SMALL).close()  # the folder is free, and called as the task
    assert [json.loads(row[0])["name"] for row in rows_of(tmp_path / "fruit", "SELECT detail FROM changes")] == [
        "fruit"
    ]


@pytest.mark.parametrize("path", [None, 5, b"data", "", "a\0b", "a\ud800b", ["data"]], ids=repr)
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(
        InputError, match=r"^the path is .*, but must be the path of a folder, or an address postgresql://"
    ):
        onebit.open(path, "fruit", **SMALL)


def test_an_address_of_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"mysql://x/y', but PostgreSQL is the only supported database: postgresql://"):
        onebit.open("mysql://x/y", "fruit", **SMALL)
    assert not list(tmp_path.iterdir())


@needs_postgres
@pytest.mark.long
def test_databases_that_cannot_be_used(postgres: Server) -> None:
    """One sentence says what is wrong with the address, the server or what is asked for."""
    address = postgres.log()
    for wrong, sentence in (
        ("postgresql://127.0.0.1:1/x", "cannot be used: connection failed: .*refused"),
        (f"{address.rpartition('/')[0]}/nowhere", 'cannot be used: .*database "nowhere" does not exist'),
        ("postgresql://[half", "address of the log cannot be read"),
        (f"{address}?colour=red", "colour"),
    ):
        with pytest.raises(InputError, match=sentence) as refused:
            onebit.open(wrong, "fruit", **SMALL)
        assert "\n" not in str(refused.value)
    before = everything_in(address)
    for task, options, sentence in (
        (None, SMALL, "there is no task in .* yet: give task="),
        ("fruit", {}, "there is no task in .* yet: give classes"),
        ("a/b", SMALL, "name is 'a/b', but must be"),
        (5, SMALL, "name is 5, but must be"),
        ("fruit", {**SMALL, "classes": "ab"}, "classes is 'ab', but must be"),
        ("fruit", {**SMALL, "learner": "bppa"}, "bppa"),
        ("fruit", {**SMALL, "seed": -1}, "seed is -1, but must be"),
        ("fruit", {**SMALL, "durable": None}, "durable is None, but must be"),
    ):
        anything: Any = options
        with pytest.raises(OnebitError, match=sentence):
            onebit.open(address, task, **anything)  # type: ignore[arg-type]
    assert everything_in(address) == before


def test_a_file_in_the_place_of_the_folder_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "fruit"
    path.write_text("apples")
    with pytest.raises(InputError, match="fruit is a file, but must be a folder, or the name of a new one"):
        onebit.open(path, **SMALL)
    assert path.read_text() == "apples"


def test_what_is_no_text_is_shown_as_it_is(tmp_path: Path) -> None:
    """Whatever was neither a list nor a text was called an object, as JSON calls a dict."""
    with onebit.open(tmp_path / "fruit", classes=2, features="text", learner="banditron") as task:
        for x, words in ((5, "got 5"), (None, "got None"), ({"a": 1}, "got an object")):
            with pytest.raises(OnebitError, match=f"^x: expected a string, {words}$"):
                task.decide(x)


def test_a_folder_that_is_called_as_no_task(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="the folder is called 'a b', which cannot be the name of a task: give another name with task="
    ):
        onebit.open(tmp_path / "a b", **SMALL)


def test_the_same_id_is_the_same_decision(where: Where) -> None:
    folder = where
    with small(folder, durable="soon") as task:
        first = task.decide([1.0, 2.0], id="one", among=["a", "b"])
        task.feedback("one", right=True)
        assert task.decide([1.0, 2.0], id="one", among=["a", "b"]) == first
        for other, sentence in (
            ({"x": [1.0, 2.5], "among": ["a", "b"]}, "for another x"),
            ({"x": [1.0, 2.0]}, "among other classes"),
            ({"x": [1.0, 2.0], "among": ["a", "b"], "complete": True}, "with another value of complete"),
        ):
            with pytest.raises(ConflictError, match=f"id 'one' was already decided {sentence}"):
                task.decide(id="one", **other)
        twice = task.decide_many([[3.0, 1.0], [3.0, 1.0]], ids=["two", "two"])
        assert twice[0] == twice[1]
        with pytest.raises(ConflictError, match=r"for another x|with different x"):
            task.decide_many([[3.0, 2.0], [3.0, 1.0]], ids=["three", "three"])
    with onebit.open(folder) as task:
        again = task.decide([1.0, 2.0], id="one", among=["b", "a"])
        assert (again.label, again.propensity, again.probabilities) == (
            first.label,
            first.propensity,
            first.probabilities,
        )
        with pytest.raises(ConflictError, match="for another x"):
            task.decide([9.0, 2.0], id="one", among=["a", "b"])
        assert task.stats()["decisions"] == 2


def test_what_is_refused_changes_nothing(where: Where, tmp_path: Path) -> None:
    folder, no_text, no_bool, no_format = where, cast("Any", 7), cast("Any", "yes"), cast("Any", "xml")
    with small(folder) as task:
        task.decide([1.0, 2.0], id="one")
        task.feedback("one", reward=0.5)
        known, rows = known_by(task), everything_in(folder)
        for refused, kind, sentence in (
            (lambda: task.decide([1.0]), OnebitError, "takes arrays of 2 numbers|expected 2 numbers"),
            (lambda: task.decide([1.0, float("nan")]), OnebitError, "finite"),
            (lambda: task.decide(["x", 1.0]), OnebitError, "x"),
            (lambda: task.decide([1.0, 2.0], id=no_text), InvalidError, "id is 7, but must be a string"),
            (lambda: task.decide([1.0, 2.0], id=""), InvalidError, "1 to 200 characters"),
            (lambda: task.decide([1.0, 2.0], among=["z"]), OnebitError, "z"),
            (lambda: task.decide([1.0, 2.0], sure=2.0), OnebitError, "sure"),
            (lambda: task.decide_many([[1.0, 2.0], [1.0]]), OnebitError, "row 1|2"),
            (lambda: task.decide_many([[1.0, 2.0]], ids=["a", "b"]), InputError, "2 ids for 1 rows"),
            (lambda: task.feedback("two", right=True), NotFoundError, "there is no decision 'two'"),
            (lambda: task.feedback("one", right=True), ConflictError, "already reported as worth 0.5"),
            (lambda: task.feedback("one"), InvalidError, "right, reward or truth is missing"),
            (lambda: task.feedback("one", right=no_bool), InvalidError, "right is 'yes', but must be true or false"),
            (lambda: task.feedback("one", truth="z", revise=True), InvalidError, "truth: got 'z', but the classes are"),
            (
                lambda: task.feedback("one", right=True, shown="a"),
                InvalidError,
                "shown is for decisions made in shadow",
            ),
            (lambda: task.feedback(no_text, right=True), InvalidError, "id is 7"),
            (lambda: task.feedback_many(["one"], right=[True, False]), InputError, "2 answers for 1 decisions"),
            (lambda: task.change(remove_classes=["a", "b"]), InvalidError, "at least two must remain"),
            (lambda: task.change(colour="red"), InvalidError, "colour"),
            (lambda: task.export(tmp_path / "x", no_format), InputError, "format is 'xml'"),
        ):
            with pytest.raises(kind, match=sentence):
                refused()
        assert (known_by(task), everything_in(folder)) == (known, rows)
        answers = task.feedback_many(["one", "two"], right=[True, True])
        assert [one.status for one in answers] == ["conflict", "unknown"]
        assert "there is no decision 'two'" in answers[1].message


@pytest.mark.parametrize("features", ["text", "dict"])
def test_texts_and_dicts(where: Where, features: Any) -> None:
    x: Any = "the page is blank" if features == "text" else {"b": np.float64(0.5), "a": 2}
    folder = where
    with small(folder, features={"kind": features, "hash_bits": 6}, durable="soon") as task:
        for step in range(10):
            task.feedback(task.decide(x, id=f"r{step}"), right=step % 2 == 0)
        assert task.decision("r3")["x"] == (x if features == "text" else {"a": 2, "b": 0.5})
        known = known_by(task)
        with pytest.raises(InvalidError, match="x"):
            task.decide({"a": float("nan")} if features == "dict" else 7)
        with pytest.raises(InvalidError, match="x"):
            task.decide({"a": True} if features == "dict" else "half a \ud800")
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


def test_what_there_is_to_see(where: Where, tmp_path: Path) -> None:
    folder = where
    shown = str(folder) if isinstance(folder, Path) else folder.replace("postgres@", "")
    with small(folder, durable="soon") as task:
        for step in range(30):
            task.feedback(task.decide([float(step % 3), 1.0], id=f"r{step}"), right=step % 3 == 0)
        assert [one["id"] for one in task.decisions(2)] == ["r29", "r28"]
        assert task.decision("r0")["right"] is True
        with pytest.raises(NotFoundError, match="there is no decision 'r30'"):
            task.decision("r30")
        assert (task.name, task.classes, task.where) == ("fruit", ["a", "b", "c"], shown)
        assert task.info()["learner"] == "banditron"
        copy = task.learner
        copy.learn(copy.decide([1.0, 1.0]), right=True)
        assert (copy.learnt, task.learner.learnt) == (31, 30)
        assert task.export(tmp_path / "log.ndjson").rows == 30
        assert len((tmp_path / "log.ndjson").read_text().splitlines()) == 30
        found = task.evaluate("bpa")
        assert found.present is not None
        assert task.evaluate("banditron").present is None
        assert repr(task) == f"<onebit task 'fruit' in {shown}, banditron>"


def test_a_task_that_is_closed(where: Where) -> None:
    task = small(where)
    task.decide([1.0, 2.0], id="one")
    task.close()
    task.close()
    assert "closed" in repr(task)
    for call in (
        lambda: task.decide([1.0, 2.0]),
        lambda: task.feedback("one", right=True),
        lambda: task.decide_many([[1.0, 2.0]]),
        task.stats,
        task.flush,
        lambda: task.learner,
    ):
        with pytest.raises(InputError, match=r"task 'fruit' is closed: open it again with onebit\.open"):
            call()


def test_silence_is_an_answer_when_the_deadline_has_passed(where: Where) -> None:
    with small(where, deadline_s=0.05, silence="wrong", durable="soon") as task:
        for step in range(3):
            task.decide([1.0, 2.0], id=f"r{step}")

        async def work() -> None:
            await until(lambda: task.stats()["silences"] == 3)

        run(work())
        assert task.feedback("r0", right=True).status == "late"
        known = known_by(task)
        assert task.stats()["learnt"] == 3
    assert run(restarted(without_snapshots(where)))["fruit"] == known


def test_looking_after_deadlines_ends_where_somebody_is_answering(tmp_path: Path) -> None:
    """Else the leader would look for ever, and never write the answer that it waits for."""
    with small(tmp_path / "fruit", deadline_s=0.5, silence="wrong", durable="soon") as task:
        folder = folder_of(task)
        (served,) = folder.teacher.tasks.values()
        task.decide_many([[1.0, 2.0]] * (SWEPT + 1), ids=[f"r{number}" for number in range(SWEPT + 1)])
        task.flush()
        with folder.commits.writing:  # the leader waits for that
            time.sleep(0.6)
            task.feedback("r0", right=True)
            assert not folder.run(served, lambda served: sweep(folder.core, served, folder.store.lease))

        async def work() -> None:
            await until(lambda: task.stats()["silences"] == SWEPT + 1)

        run(work())


def test_shadow_mode(where: Where) -> None:
    folder = where
    with small(folder, mode="shadow") as task:
        decision = task.decide([1.0, 2.0])
        with pytest.raises(InvalidError, match="shown is missing"):
            task.feedback(decision, right=True)
        task.feedback(decision, right=True, shown="c", shown_propensity=0.5)
        known = known_by(task)
    assert run(restarted(without_snapshots(folder)))["fruit"] == known


@pytest.mark.parametrize("durable", DURABLE)
def test_threads_share_a_task(where: Where, durable: Any) -> None:
    """Whatever order they come in: what is known is that of the log."""
    folder, errors = where, list[BaseException]()
    with small(folder, durable=durable) as task:

        def work(number: int) -> None:
            try:
                for step in range(25):
                    decision = task.decide([float(number), float(step)], id=f"{number}-{step}")
                    task.feedback(decision, right=step % 2 == 0)
                    task.decide([float(number), float(step)], id=f"{number}-{step}")
                    task.stats()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not errors
        assert task.stats()["learnt"] == 100
        known = known_by(task)
    assert len(rows_of(folder, "SELECT seq FROM decisions")) == 100
    assert run(restarted(without_snapshots(folder)))["fruit"] == known
