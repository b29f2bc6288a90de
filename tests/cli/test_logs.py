"""`onebit replay` trains as one would by hand from the log, and `onebit evaluate` finds what is known of a log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import onebit
from onebit.cli import main
from onebit.offpolicy import Round, evaluate, read_log, train
from onebit.service.inputs import encode_indices
from onebit.service.maintenance.log_reader import LogReader, read_rounds
from onebit.service.requests import Change, DecideRequest, FeedbackRequest, NewLearner, NewTask
from onebit.service.service import Service
from onebit.service.store.queries import Event
from onebit.service.task import TaskInfo
from tests.cli.call import Call
from tests.service.logs import ROUNDS, fill, served

HEARD = ROUNDS * 9 // 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    served(path, fill)
    return path


@pytest.fixture(scope="module")
def coins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of labels drawn evenly from four, of which always the same is right."""
    path = tmp_path_factory.mktemp("coins")

    async def toss(service: Service) -> None:
        await service.create(
            NewTask(
                name="coins",
                classes=4,
                learner="banditron",
                exploration_floor=1.0,
                seed=5,
                features={"kind": "numbers", "size": 2},  # type: ignore[arg-type]
            )
        )
        for start in range(0, 4000, 1000):
            asks = [DecideRequest(id=f"c{start + place}", x=[1.0, place / 1000]) for place in range(1000)]
            decided = await service.decide("coins", asks, single=False)
            await service.feedback(
                "coins", [FeedbackRequest(id=one["id"], right=one["label"] == 2) for one in decided], single=False
            )

    served(path, toss)
    return path


@pytest.fixture(scope="module", autouse=True)
def _compiled(folder: Path) -> None:
    """What is compiled for the first time says so on stderr; the commands below are to find it done."""
    for task in ("places", "shops", "tickets"):
        for name, (given, _) in LEARNERS.items():
            main(["replay", str(folder), task, "--learner", name, *given, "--json"])
            main(["evaluate", str(folder), task, "--learner", name, "--json"])


def exported(folder: Path, task: str) -> dict[str, dict[str, Any]]:
    with LogReader(folder) as log:
        info = log.task(task)
        return {row.id: {name: getattr(row, name) for name in row.__dataclass_fields__} for row in log.logged(info)}


# --- rounds --------------------------------------------------------------------------------------------------------------


def in_order() -> list[str]:
    """The ids of the task `places` in the order in which `fill` answered them: a hundred at a time, the last first."""
    return [
        f"round {number}"
        for start in range(0, ROUNDS, 100)
        for number in range(start + 99, start - 1, -1)
        if number % 10
    ]


def test_rounds_are_the_answered_decisions_in_the_order_of_the_answers(folder: Path) -> None:
    rows = exported(folder, "places")
    with LogReader(folder) as log:
        info = log.task("places")
        rounds = list(read_rounds(log, info))
        assert [one.id for one in rounds] == in_order()
        assert log.count_feedback(info) == len(rounds) == HEARD
    for one in rounds:
        row = rows[str(one.id)]
        assert (one.label, one.right, one.propensity) == (row["label"], row["right"], row["propensity"])
        assert one.x.tolist() == row["x"]
        assert one.probabilities is not None
        missing = 4 - len(row["probabilities"])
        assert list(one.probabilities) == [*row["probabilities"], *[0.0] * missing]
    assert {len(row["probabilities"]) for row in rows.values()} == {3, 4}, "a class was added on the way"


def among(event: Event, places: list[int], complete: int = 0) -> Event:
    return event._replace(decision=event.decision._replace(among=encode_indices(places), complete=complete))


def test_a_round_has_the_candidates_and_what_was_heard(folder: Path) -> None:
    """As the log says them: of two rounds the rows are changed on the way."""
    with LogReader(folder) as log:
        info = log.task("places")
        first, second, third, *_ = log.events(info)
        label = third.decision.label
        places = [one for one in range(3) if one != (first.decision.label + 1) % 3]
        changed = [
            among(first, places, complete=1)._replace(reward=0.25),
            among(second, [second.decision.label])._replace(truth=second.decision.label, right=1),
            among(third, [(label + 1) % 3])._replace(shown=label, shown_propensity=0.5),
        ]

        class Changed:
            def events(self, task: object) -> list[Any]:
                return changed

        rounds = list(read_rounds(cast("LogReader", Changed()), info))
    assert (rounds[0].right, rounds[0].reward, rounds[0].complete) == (None, 0.25, True)
    assert rounds[0].among == [info.classes[place] for place in places]
    assert (rounds[1].right, rounds[1].truth, rounds[1].among) == (True, rounds[1].label, [rounds[1].label])
    assert rounds[2].among is None, "the caller showed what was no candidate of the task's own"


def test_a_retired_class_is_no_candidate_of_the_rounds_since(tmp_path: Path) -> None:
    async def work(service: Service) -> None:
        features: Any = {"kind": "numbers", "size": 2}
        await service.create(NewTask(name="fruit", classes=["a", "b", "c"], learner="banditron", features=features))
        for number in range(60):
            if number == 30:
                await service.change("fruit", Change(remove_classes=["b"]))
            answer = (await service.decide("fruit", [DecideRequest(id=str(number), x=[1.0, number % 3])]))[0]
            await service.feedback("fruit", [FeedbackRequest(id=str(number), right=answer["label"] == "c")])

    served(tmp_path, work)
    with LogReader(tmp_path) as log:
        task = log.task("fruit")
        rounds = list(read_rounds(log, task))
    assert [one.among for one in rounds] == [None] * 30 + [["a", "c"]] * 30
    found = evaluate(onebit.Banditron(classes=["a", "b", "c"]), rounds)
    assert found.weights is not None
    assert found.weights.missing == 0.0
    assert train(onebit.BPA(classes=["a", "b", "c"]), rounds) == 60


def test_in_shadow_mode_a_round_is_what_was_shown(folder: Path) -> None:
    with LogReader(folder) as log:
        rounds = list(read_rounds(log, log.task("shops")))
    assert [(one.id, one.label, one.right) for one in rounds] == [
        (f"s{number}", number % 2, number % 3 == 0) for number in range(20)
    ]
    assert {(one.propensity, one.probabilities) for one in rounds} == {(0.25, None)}
    assert rounds[3].x == {"a b": 1.0, "c:|%": 3.0, "": -0.5, "é\n": 0.0}


def test_silence_counts_and_what_came_after_it_does_not(folder: Path) -> None:
    with LogReader(folder) as log:
        found = [(one.id, one.right) for one in read_rounds(log, log.task("tickets"))]
    assert found == [(f"t{number}", number == 0) for number in range(6)]


def test_what_came_after_the_opening_is_left_out(tmp_path: Path) -> None:
    """The service may go on while a command reads: it sees the log as it was at one position."""
    opened: list[LogReader] = []

    async def go_on(service: Service) -> None:
        opened.append(LogReader(tmp_path))
        await service.change("places", Change(add_classes=["later"]))
        answer = (await service.decide("places", [DecideRequest(x=[1.0, 2.0, 3.0, 4.0])]))[0]
        await service.feedback("places", [FeedbackRequest(id=answer["id"], right=True)])

    served(tmp_path, fill)
    served(tmp_path, go_on)
    with opened[0] as before, LogReader(tmp_path) as after:
        old, new = before.task("places"), after.task("places")
        assert new.classes == [*old.classes, "later"]
        assert after.count(new) == before.count(old) + 1 == len(list(before.logged(old))) + 1
        assert after.count_feedback(new) == before.count_feedback(old) + 1 == len(list(read_rounds(before, old))) + 1


# --- replay --------------------------------------------------------------------------------------------------------------

LEARNERS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "banditron": (["--set", "exploration=0.1"], {"exploration": 0.1, "exploration_floor": 0.05, "seed": 0}),
    "bpa": (
        ["--set", "aggressiveness=0.5", "--set", "exploration_floor=0", "--seed", "9"],
        {"aggressiveness": 0.5, "seed": 9},
    ),
    "auto": (["--set", "dtype=float64"], {"dtype": "float64", "exploration_floor": 0.05, "seed": 0}),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("task", ["places", "shops", "tickets"])
def test_replay_is_training_by_hand(call: Call, folder: Path, tmp_path: Path, name: str, task: str) -> None:
    given, options = LEARNERS[name]
    path = tmp_path / "trained.onebit"
    code, out, err = call("replay", str(folder), task, "--learner", name, *given, "--out", str(path), "--json")
    assert (code, err) == (0, "")
    rows = exported(folder, task)
    order = in_order() if task == "places" else list(rows)
    kinds: dict[str, dict[str, Any]] = {
        "places": {"classes": ["north", "south", 3, "west|east: 50 %"], "features": 4},
        "shops": {"classes": 2, "hash_bits": 8},
        "tickets": {"classes": ["ja", "nein"], "hash_bits": 8, "text": True},
    }
    by_hand = onebit.Learner(name, **{**kinds[task], **options})
    for identity in order:
        row = rows[identity]
        label, propensity = row["label"], row["propensity"]
        if task == "shops":
            label, propensity = row["shown"], row["shown_propensity"]
        by_hand.learn(by_hand.from_log(row["x"], label, propensity, identity), row["right"])
    trained = onebit.load(path)
    assert trained.learnt == len(order)
    assert np.array_equal(trained.weights, by_hand.weights)
    printed = json.loads(out)
    assert (printed["task"], printed["learner"], printed["file"]) == (task, name, str(path))
    assert (printed["rounds"], printed["learnt"]) == (len(order), len(order))
    assert printed["description"] == json.loads(json.dumps(by_hand.describe().to_dict()))
    x = rows[order[0]]["x"]
    assert trained.decide(x, "next").label == by_hand.decide(x, "next").label
    trained.learn(trained.decide(x, "next"), True)
    assert trained.learnt == len(order) + 1


def test_replay_says_what_was_learnt(call: Call, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "trained.onebit"
    code, out, err = call("replay", str(folder), "places", "--learner", "bpa", "--out", str(path))
    assert (code, err) == (0, "")
    assert f"bpa on places: learnt from {HEARD} of {HEARD} rounds" in out
    for line in str(onebit.load(path).describe()).splitlines():
        assert line in out
    assert f"saved in {path}" in out
    assert "onebit evaluate" in out


def test_the_usual_learner_is_auto(call: Call, folder: Path) -> None:
    assert json.loads(call("replay", str(folder), "shops", "--json")[1])["learner"] == "auto"


def test_both_work_while_the_service_runs(call: Call, tmp_path: Path) -> None:
    async def both(service: Service) -> None:
        await fill(service)
        for command in ("replay", "evaluate"):
            code, out, _ = call(command, str(tmp_path), "places", "--learner", "banditron", "--json")
            assert code == 0
            assert json.loads(out)["rounds"] == HEARD

    served(tmp_path, both)


# --- evaluate ------------------------------------------------------------------------------------------------------------


def test_evaluate_finds_what_is_known_of_a_log(call: Call, coins: Path) -> None:
    """The truth is the mean probability of the one right label, of a learner that is trained by hand.

    The seeds are fixed. With others, one in twenty of these intervals would not hold it.
    """
    learner = onebit.BPA(classes=4, features=2, exploration=0.2)
    chances = []
    for row in exported(coins, "coins").values():
        chances.append(learner.probabilities(row["x"])[2])
        learner.learn(learner.from_log(row["x"], row["label"], row["propensity"]), row["right"])
    truth = float(np.mean(chances))
    assert truth == pytest.approx(1 - 0.2 + 0.2 / 4, abs=0.005), "it soon understands"
    given = ["--learner", "bpa", "--set", "exploration=0.2", "--set", "exploration_floor=0", "--json"]
    code, out, err = call("evaluate", str(coins), "coins", *given)
    assert (code, err) == (0, "")
    printed = json.loads(out)
    assert (printed["task"], printed["learner"], printed["rounds"]) == ("coins", "bpa", 4000)
    for name in ("ips", "snips", "doubly_robust", "replay"):
        found = printed["estimates"][name]
        assert found["low"] < truth < found["high"], found
        assert found["high"] - found["low"] < 0.15, found
    with LogReader(coins) as log:
        rows = list(log.logged(log.task("coins")))
    assert printed["log"]["mode"] == "learn"
    assert printed["log"]["made_by"] == [
        {
            "generation": 1,
            "learner": "banditron",
            "parameters": {},
            "exploration_floor": 1.0,
            "rounds": 4000,
            "shown_by_caller": False,
        }
    ]
    assert printed["estimates"]["log"]["value"] == sum(bool(row.right) for row in rows) / 4000
    assert printed["estimates"]["log"]["low"] < 0.25 < printed["estimates"]["log"]["high"]


def test_evaluate_prints_a_table_and_its_warnings(call: Call, folder: Path, coins: Path) -> None:
    code, out, err = call("evaluate", str(coins), "coins", "--learner", "bpa")
    assert (code, err) == (0, "")
    for word in ("bpa", "coins", "4,000", "banditron", "95 %"):
        assert word in out
    code, out, err = call("evaluate", str(folder), "tickets", "--learner", "bpa")
    assert (code, err) == (0, "")
    (_, printed, _) = call("evaluate", str(folder), "tickets", "--learner", "bpa", "--json")
    warnings = json.loads(printed)["warnings"]
    assert warnings, "six rounds say nothing"
    for warning in warnings:
        assert " ".join(warning.split()) in " ".join(out.split())


def test_evaluate_shows_the_present_learner_beside_another(call: Call, coins: Path, folder: Path) -> None:
    as_present = ["--learner", "banditron", "--set", "exploration_floor=1.0"]
    alone = json.loads(call("evaluate", str(coins), "coins", *as_present, "--json")[1])
    assert alone["present"] is None
    beside = json.loads(call("evaluate", str(coins), "coins", "--learner", "bpa", "--json")[1])
    assert beside["present"]["learner"] == "banditron"
    assert beside["present"]["estimates"] == alone["estimates"]
    assert alone["estimates"]["ips"]["value"] == pytest.approx(alone["estimates"]["log"]["value"]), "it made the log"
    for given in ([*as_present, "--set", "exploration=0.1"], [*as_present, "--set", "dtype=float64"], as_present[:2]):
        found = json.loads(call("evaluate", str(coins), "coins", *given, "--json")[1])
        assert found["present"]["estimates"] == alone["estimates"]
    _, out, _ = call("evaluate", str(coins), "coins", "--learner", "bpa")
    assert "the present learner, in the same way: banditron" in out
    assert "Their exploration floors differ" in out
    _, out, _ = call("evaluate", str(coins), "coins", *as_present)
    assert "This is the task's present learner" in out
    _, out, _ = call("evaluate", str(folder), "shops", "--learner", "banditron")
    assert "the log itself: task shops, 20 rounds shown by the caller, beside bpa (exploration_floor=0.05)\n" in out


def test_several_learners_are_evaluated_on_the_log_of_a_task(call: Call, coins: Path) -> None:
    code, out, err = call("evaluate", str(coins), "coins", "--learners", "bpa,banditron:exploration=0.1", "--json")
    assert (code, err) == (0, "")
    several = {one["learner"]: one for one in json.loads(out)["learners"]}
    alone = json.loads(call("evaluate", str(coins), "coins", "--learner", "bpa", "--json")[1])
    assert several["bpa"]["estimates"] == alone["estimates"]
    assert several["banditron"]["parameters"]["exploration"] == 0.1
    _, out, _ = call("evaluate", str(coins), "coins", "--learners", "bpa,banditron")
    assert "2 learners on a log of 4,000 rounds" in out


def test_evaluate_names_the_learners_that_made_the_log(call: Call, tmp_path: Path) -> None:
    """After a switch the rounds are still those of the learner before it, until the new one has decided some."""

    async def rounds(service: Service, count: int) -> None:
        decided = await service.decide("news", [DecideRequest(x=[1.0, 2.0]) for _ in range(count)], single=False)
        await service.feedback(
            "news", [FeedbackRequest(id=one["id"], right=one["label"] == 1) for one in decided], single=False
        )

    async def switch(service: Service) -> None:
        await service.create(
            NewTask(name="news", classes=2, learner="banditron", features={"kind": "numbers", "size": 2})  # type: ignore[arg-type]
        )
        await rounds(service, 120)
        await service.switch("news", NewLearner(learner="bpa", parameters={"exploration": 0.5}))
        for _ in range(600):
            await asyncio.sleep(0.05)
            if service.task("news").generation == 2:
                break

    served(tmp_path, switch)
    _, out, _ = call("evaluate", str(tmp_path), "news", "--learner", "banditron")
    assert "the log itself: task news, 120 rounds decided by banditron (exploration_floor=0.05)\n" in out
    assert "the present learner, in the same way: bpa, exploration=0.5, exploration_floor=0.05" in out
    served(tmp_path, lambda service: rounds(service, 1))
    _, out, _ = call("evaluate", str(tmp_path), "news", "--learner", "banditron")
    assert (
        "task news, 120 rounds decided by banditron (exploration_floor=0.05); "
        "1 round decided by bpa (exploration=0.5, exploration_floor=0.05)\n"
    ) in out


@pytest.mark.parametrize("command", ["replay", "export"])
def test_that_files_are_written_over_is_said(call: Call, command: str) -> None:
    assert "replacing any file of that name" in " ".join(call(command, "--help")[1].split())


def test_evaluate_says_how_many_were_never_answered(call: Call, folder: Path, coins: Path) -> None:
    _, out, _ = call("evaluate", str(folder), "places", "--learner", "bpa", "--json")
    printed = json.loads(out)
    assert (printed["rounds"], printed["unanswered"]) == (HEARD, ROUNDS - HEARD)
    assert any(
        f"{ROUNDS - HEARD:,} of {ROUNDS:,} decisions were answered too late or never" in one
        for one in printed["warnings"]
    )
    assert json.loads(call("evaluate", str(coins), "coins", "--learner", "bpa", "--json")[1])["unanswered"] == 0


# --- bad input -----------------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[list[str], list[str]]] = {
    "no task": ([], ["TASK"]),
    "no such task": (["place"], ["'place'", "did you mean 'places'"]),
    "no such learner": (["places", "--learner", "bandtron"], ["'bandtron'", "'banditron'"]),
    "a learner that needs labels": (["places", "--learner", "perceptron"], ["Perceptron", "label"]),
    "no such parameter": (["places", "--learner", "bpa", "--set", "exploraton=1"], ["'exploraton'", "'exploration'"]),
    "a parameter out of range": (["places", "--learner", "bpa", "--set", "exploration=2"], ["exploration is 2"]),
    "a floor out of range": (["places", "--set", "exploration_floor=2"], ["exploration_floor is 2"]),
    "a floor that is none": (["places", "--set", "exploration_floor=much"], ["exploration_floor is 'much'"]),
    "set without a value": (["places", "--set", "exploration"], ["name=value"]),
    "classes": (["places", "--set", "classes=5"], ["classes"]),
    "hash bits": (["shops", "--set", "hash_bits=5"], ["hash_bits"]),
    "a learner for a name": (["places", "--learner", "gaptron"], ["horizon"]),
}


@pytest.mark.parametrize("command", ["replay", "evaluate"])
@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(call: Call, folder: Path, command: str, arguments: list[str], words: list[str]) -> None:
    code, out, err = call(command, str(folder), *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    for word in words:
        assert word in err


@pytest.mark.parametrize("command", ["replay", "evaluate"])
def test_a_folder_without_a_log_is_refused(call: Call, tmp_path: Path, command: str) -> None:
    code, out, err = call(command, str(tmp_path), "places")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert str(tmp_path) in err


@pytest.mark.parametrize("command", ["replay", "evaluate"])
def test_a_task_that_has_heard_nothing_is_no_failure_of_the_program(call: Call, tmp_path: Path, command: str) -> None:
    async def create(service: Service) -> None:
        await service.create(
            NewTask(name="empty", classes=2, learner="bpa", features={"kind": "numbers", "size": 2})  # type: ignore[arg-type]
        )

    served(tmp_path, create)
    code, out, err = call(command, str(tmp_path), "empty", "--learner", "bpa")
    assert code == 2
    assert (out, len(err.splitlines())) == ("", 1)
    assert "empty" in err


def test_ctrl_c_saves_nothing(call: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(where: LogReader, task: TaskInfo) -> Iterator[Round]:
        yield from list(read_rounds(where, task))[:50]
        raise KeyboardInterrupt

    monkeypatch.setattr("onebit.service.maintenance.log_reader.read_rounds", stopped)
    code, out, err = call("replay", str(folder), "places", "--learner", "bpa", "--out", str(tmp_path / "out"))
    assert (code, out, err) == (130, "", "onebit: stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_no_file_can_be_is_refused(call: Call, folder: Path, tmp_path: Path) -> None:
    code, _, err = call("replay", str(folder), "places", "--learner", "bpa", "--out", str(tmp_path / "no" / "where"))
    assert (code, len(err.splitlines())) == (2, 1)
    assert "cannot be written" in err


# --- what was exported is a log again -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["places", "shops", "tickets"])
def test_exported_tables_and_lines_are_logs_with_the_same_rounds(
    call: Call, folder: Path, tmp_path: Path, task: str
) -> None:
    with LogReader(folder) as log:
        info = log.task(task)
        ours = {one.id: one for one in read_rounds(log, info)}
        unanswered = log.count(info) - len(ours)
    for form in ("parquet", "vw"):
        path = tmp_path / f"log.{form}"
        assert call("export", str(folder), task, "--format", form, "--out", str(path))[0] == 0
        classes = range(1, len(info.classes) + 1) if form == "vw" else None
        found = read_log(path, classes=classes)
        assert len(found) == len(ours)
        if form == "vw":
            names = dict(zip(found.classes, info.classes, strict=True))
            by_decision = [ours[identity] for identity in exported(folder, task) if identity in ours]
            for one, theirs in zip(by_decision, found, strict=True):
                assert (one.label, one.right, one.propensity) == (names[theirs.label], theirs.right, theirs.propensity)
            continue
        assert (list(found.classes), found.unanswered, found.text) == (info.classes, unanswered, task == "tickets")
        for one in found:
            theirs = ours[one.id]
            assert (one.label, one.right, one.propensity) == (theirs.label, theirs.right, theirs.propensity)
            assert (one.probabilities is None) == (theirs.probabilities is None)
            if one.probabilities is not None and theirs.probabilities is not None:
                assert list(one.probabilities) == list(theirs.probabilities)
            x = theirs.x.tolist() if isinstance(theirs.x, np.ndarray) else theirs.x
            assert one.x == x
        assert call("evaluate", str(path), "--learner", "bpa", "--json")[0] == 0
