"""Candidates, rewards, truths and certainty through the service: into the log, out of it, and into the same state bit for bit."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from onebit.contract.confidence_sequence import overshoot
from onebit.service.errors import ConflictError, InvalidError
from onebit.service.requests import FeedbackRequest, NewLearner
from onebit.service.service import Service
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
    new_task,
    replayed,
    restarted,
    rows_of,
    run,
    service_in,
    states,
    until,
    visible,
    without_snapshots,
)
from tests.service.site import Site, error_in, site_in

CLASSES = ["a", "b", "c", "d"]


async def rounds(service: Service, first: int, count: int, seed: int = 0, shadow: bool = False) -> None:
    """Decisions among all or some classes, answered by bits, rewards and truths; some of that is revised afterwards."""
    chance = random.Random(f"{seed} {first}")
    asks = []
    for number in range(first, first + count):
        some: dict[str, Any] = {}
        if number % 3:
            some = {"among": chance.sample(CLASSES, chance.randint(1, 4)), "complete": chance.random() < 0.5}
        some |= chance.choice([{}, {"sure": 0.5}, {"risk": 0.3}])
        asks.append(ask(str(number), (chance.gauss(0, 1), chance.gauss(0, 1)), **some))
    answers = await service.decide("fruit", asks, single=False)
    for again in (False, True):
        told = [one for one in answers if not again or chance.random() < 0.2]
        hints = [_answer(chance, one, shadow, revise=again) for one in told]
        assert {one["status"] for one in await service.feedback("fruit", hints, single=False)} <= {
            *("accepted", "revised", "duplicate")
        }


def _answer(chance: random.Random, one: dict[str, Any], shadow: bool, **more: Any) -> FeedbackRequest:
    shown: dict[str, Any] = {"shown": chance.choice(CLASSES), "shown_propensity": 0.25} if shadow else {}
    candidates = one["among"] or CLASSES
    inside = not shadow or shown["shown"] in candidates
    said: dict[str, Any] = chance.choice(
        [
            {"right": chance.random() < 0.5},
            {"reward": chance.choice([0.0, 0.25, 0.7, 1.0])},
            {"truth": chance.choice(candidates if inside else CLASSES)},
        ]
    )
    return FeedbackRequest(id=one["id"], **shown, **said, **more)


@pytest.mark.parametrize("learner", ["banditron", "auto", "linucb", "conservative-ova"])
def test_the_state_is_that_of_a_replay(where: Where, learner: str) -> None:
    folder = where

    async def work() -> None:
        async with service_in(folder, snapshot_every=40) as service:
            await service.create(new_task(classes=CLASSES, learner=learner, exploration_floor=0.2))
            for first in (0, 60):
                await rounds(service, first, 60)
            await service.change("fruit", change(mode="shadow", risk=0.2))
            await rounds(service, 120, 60, shadow=True)
            await service.change("fruit", change(mode="learn", remove_classes=["b"]))
            answers = await service.decide(
                "fruit", [ask(f"r{n}", among=["a", "b", "d"]) for n in range(5)], single=False
            )
            assert {tuple(one["among"]) for one in answers} == {("a", "d")}
            await service.feedback("fruit", [hint(one["id"]) for one in answers], single=False)
            found = await states(service)
            stats = visible(service.stats("fruit"))
            assert found["fruit"] == replayed(folder, "fruit")
            copy = without_snapshots(crash_image(folder))
        assert await restarted(copy) == found
        async with service_in(copy) as service:
            assert visible(service.stats("fruit")) == stats
        async with service_in(folder) as service:
            assert await states(service) == found
            assert visible(service.stats("fruit")) == stats
            await service.switch("fruit", NewLearner(learner="bpa" if learner == "auto" else "squarecb", seed=2))
            await until(lambda: service.task("fruit").training is None)
            assert (await states(service))["fruit"] == replayed(folder, "fruit")

    run(work())


def test_what_is_answered_and_logged(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(classes=CLASSES))
            first = await decided(service, "1", among=["c", "a", "a"], complete=True, sure=0.5)
            assert first["label"] in ("a", "c")
            assert (first["among"], first["confidence"], first["unsure"]) == (["a", "c"], None, True)
            assert [first["probabilities"][name] for name in "bd"] == [0.0, 0.0]
            assert sum(first["probabilities"].values()) == pytest.approx(1.0)
            alone = await decided(service, "2", among=["d"])
            assert (alone["label"], alone["propensity"], alone["unsure"]) == ("d", 1.0, False)
            everything = await decided(service, "3", among=CLASSES)
            assert everything["among"] is None
            assert await heard(service, "1", None, reward=0.7) == "accepted"
            assert await heard(service, "2", None, truth="d") == "accepted"
            assert await heard(service, "3", None, truth="d") == "accepted"
            await followed(service)
            later = await decided(service, "4", sure=0.0)
            assert 0.0 < later["confidence"] < 1.0
            assert not later["unsure"]
            logged = {one["id"]: one for one in await service.decisions("fruit")}
            assert (logged["1"]["reward"], logged["1"]["right"], logged["1"]["truth"]) == (0.7, False, None)
            assert (logged["1"]["complete"], logged["1"]["sure"], logged["1"]["unsure"]) == (True, 0.5, True)
            assert (logged["2"]["truth"], logged["2"]["right"]) == ("d", True)
            assert logged["3"]["right"] is (everything["label"] == "d")
            for one in (first, alone, everything, later):
                assert one == {name: logged[one["id"]][name] for name in one}
            # The same again is answered from the log, whatever is asked of its certainty; another set is another question.
            assert await decided(service, "1", among=["a", "c"], complete=True) == first
            assert await decided(service, "3") == everything
            await service.change("fruit", change(remove_classes=["c"], add_classes=["e"]))
            assert await decided(service, "1", among=["a", "c"], complete=True) == first
            assert await decided(service, "3", among=CLASSES) == everything
            others: list[dict[str, Any]] = [{}, {"among": ["a", "b"]}, {"among": ["a", "c"]}]
            for other in others:
                with pytest.raises(ConflictError, match=r"was already decided (among other classes|with another)"):
                    await decided(service, "1", **other)
            twice = [ask("9", among=["a"]), ask("9", among=["b"])]
            with pytest.raises(ConflictError, match="occurs twice, with different candidates"):
                await service.decide("fruit", twice, single=False)

    run(work())


def test_how_sure_a_task_must_be(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            made = await service.create(new_task(learner="auto", risk=0.2))
            assert (made.risk, made.sure) == (0.2, None)
            for start in range(0, 400, 50):
                answers = await service.decide("fruit", [ask(str(start + n)) for n in range(50)], single=False)
                await service.feedback("fruit", [hint(one["id"], one["label"] == "b") for one in answers], single=False)
                await followed(service)
            sure = service.stats("fruit")["certainty"]
            logged = rows_of(where, "SELECT confidence >= sure, label FROM decisions WHERE confidence IS NOT NULL")
            kept = [label for is_sure, label in logged if is_sure]
            assert 0 < sure["sure"] == sure["heard"] == len(kept) < sure["asked"] == 400
            assert sure["wrong"] == sum(label != 1 for label in kept)
            assert sure["answered"] == sure["sure"] / 400 == sure["answered_curve"][-1]
            assert sure["error"] == sure["error_curve"][-1] == sure["wrong"] / len(kept)
            assert (sure["risk"], sure["overshoot"]) == (0.2, overshoot(len(kept), sure["wrong"], 0.2))
            # The answers are those that the learner itself has counted.
            calibration = service.served["fruit"].follower.replicas.resting.runtime.model.calibration
            assert calibration[-3:].tolist() == [sure["asked"], sure["heard"], sure["wrong"]]
            changed = await service.change("fruit", change(sure=0.9))
            assert (changed.risk, changed.sure) == (None, 0.9)
            await decided(service, "x")
            assert (await service.decision("fruit", "x"))["sure"] == 0.9
            await decided(service, "y", sure=0.1)
            assert (await service.decision("fruit", "y"))["sure"] == 0.1
            assert service.stats("fruit")["certainty"]["overshoot"] is None
            changed = await service.change("fruit", change(sure=None))
            assert (changed.risk, changed.sure) == (None, None)
            await decided(service, "z")
            assert (await service.decision("fruit", "z"))["sure"] is None
        async with service_in(where) as service:
            assert service.task("fruit").sure is None

    run(work())


def test_rewards_and_truths_are_counted(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            answers = await service.decide("fruit", [ask(str(number)) for number in range(6)], single=False)
            wrong = next(name for name in "abc" if name != answers[3]["label"])
            await service.feedback("fruit", [hint("0"), hint("1", False)], single=False)
            await followed(service)
            before = service.stats("fruit")
            assert (before["rewards"], before["truths"], before["mean_reward"]) == (0, 0, 0.5)
            more = [hint("2", None, reward=0.25), hint("3", None, truth=wrong), hint("4", None, reward=1.0)]
            await service.feedback("fruit", more, single=False)
            await followed(service)
            stats = service.stats("fruit")
            assert (stats["rewards"], stats["truths"], stats["feedback"], stats["right"]) == (2, 1, 5, 2)
            assert stats["mean_reward"] == stats["window"]["mean_reward"] == stats["curve"]["reward"][-1] == 2.25 / 5
            assert service.stats("fruit", 2)["window"]["mean_reward"] == 0.5
            assert await heard(service, "2", None, reward=0.5, revise=True) == "revised"
            await followed(service)
            assert service.stats("fruit")["mean_reward"] == 0.5
        async with service_in(where) as service:
            assert service.stats("fruit")["window"]["mean_reward"] == 0.5
            assert service.stats("fruit", 2)["window"]["mean_reward"] == 0.5

    run(work())


def test_what_was_said_before_stands_unless_it_is_revised(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            one = await decided(service, "1")
            other = next(name for name in "abc" if name != one["label"])
            assert await heard(service, "1", None, truth=other) == "accepted"
            before = everything_in(where)
            assert await heard(service, "1", None, truth=other) == "duplicate"
            for said in ({"right": False}, {"right": None, "reward": 0.5}, {"right": None, "truth": one["label"]}):
                with pytest.raises(ConflictError, match=rf"already reported as wrong \(truth '{other}'\)"):
                    await heard(service, "1", **said)
            assert everything_in(where) == before
            assert await heard(service, "1", None, reward=1.0, revise=True) == "revised"
            assert await heard(service, "1", True) == "duplicate"
            assert (await service.decision("fruit", "1"))["truth"] is None
            with pytest.raises(ConflictError, match="reported as worth 1"):
                await heard(service, "1", False)

    run(work())


def test_a_truth_in_shadow_mode_is_of_what_was_shown(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(classes=CLASSES, mode="shadow"))
            for identity in "123":
                await decided(service, identity, among=["a", "b"])
            assert await heard(service, "1", None, truth="a", shown="a") == "accepted"
            assert (
                await heard(service, "2", None, truth="c", shown="d") == "accepted"
            )  # chosen elsewhere, among who knows what
            with pytest.raises(InvalidError, match="truth is 'c', but the candidates of decision '3' were"):
                await heard(service, "3", None, truth="c", shown="b")
            assert [(await service.decision("fruit", one))["right"] for one in "123"] == [True, False, None]
            assert (await states(service))["fruit"] == replayed(where, "fruit")
            assert service.stats("fruit")["refused"] == 0

    run(work())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with site_in(tmp_path_factory.mktemp("site") / "data") as site:
        new = {"name": "fruit", "classes": [*CLASSES, 7], "learner": "banditron"}
        assert (
            site.ask("POST", "/v1/tasks", json={**new, "features": {"kind": "numbers", "size": 2}}).status_code == 201
        )
        decide = {"id": "known", "x": [1.0, 2.0], "among": ["a", 7]}
        assert site.ask("POST", "/v1/tasks/fruit/decide", json=decide).json()["among"] == ["a", 7]
        yield site


NO_LISTS: list[Any] = ["a", 3, {"a": 1}, True, []]
NO_CLASSES: list[Any] = [None, 1.5, "", ["a"], {}, True, math.nan]
NO_REWARDS: list[Any] = ["1", True, [1.0], {}]
NO_SHARES: list[Any] = ["0.5", -0.1, 1.1, True, [0.5], 9e999, math.nan]
BAD_ASKS: list[tuple[dict[str, Any], str, str]] = [
    *(({"among": one}, "among", "must be") for one in NO_LISTS),
    *(({"among": ["a", one]}, "among[1]", "must be") for one in NO_CLASSES),
    ({"among": ["a", "z"]}, "among", "'z', but the classes are"),
    ({"among": ["7"]}, "among", "'7', but the classes are"),
    ({"among": ["a"] * 10_001}, "among", "at most 10000"),
    *(({"complete": one}, "complete", "true or false") for one in (1, "yes", None)),
    *(({"sure": one}, "sure", "must be") for one in NO_SHARES),
    *(({"risk": one}, "risk", "must be") for one in ("0.5", 0.0, 1.0, 5, True)),
    ({"sure": 0.9, "risk": 0.1}, "risk", "cannot be given together with sure"),
]
BAD_ANSWERS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "right", "is missing"),
    ({"right": True, "reward": 1.0}, "reward", "give one of"),
    ({"right": True, "truth": "a"}, "truth", "give one of"),
    ({"reward": 0.5, "truth": "a"}, "truth", "give one of"),
    *(({"reward": one}, "reward", "(reward - a) / (b - a)") for one in (1.5, -1, 9e999, math.nan)),
    *(({"reward": one}, "reward", "must be a number") for one in NO_REWARDS),
    *(({"truth": one}, "truth", "must be") for one in NO_CLASSES[1:4]),
    ({"truth": "z"}, "truth", "'z', but the classes are"),
    ({"truth": "b"}, "truth", "but the candidates of decision 'known' were"),
    ({"reward": 0.5, "withdraw": True}, "reward", "cannot be given together with withdraw"),
    ({"truth": "a", "withdraw": True}, "truth", "cannot be given together with withdraw"),
]


def assert_refused(site: Site, path: str, body: Any, field: str, sentence: str) -> None:
    before = everything_in(site.settings.data)
    reply = site.ask("POST", f"/v1/tasks/fruit/{path}", content=_json(body))
    error = error_in(reply.content)
    assert (reply.status_code, error["field"]) == (422, field), error
    assert sentence in error["message"]
    assert everything_in(site.settings.data) == before


def _json(body: Any) -> bytes:
    """As clients may send it that know NaN and infinity."""
    return json.dumps(body).encode()


@pytest.mark.parametrize(("asked", "field", "sentence"), BAD_ASKS)
def test_what_cannot_be_asked(site: Site, asked: dict[str, Any], field: str, sentence: str) -> None:
    body = {"x": [1.0, 2.0], **asked}
    assert_refused(site, "decide", body, field, sentence)
    assert_refused(site, "decide", [{"x": [1.0, 2.0]}, body], f"[1].{field}", sentence)


@pytest.mark.parametrize(("said", "field", "sentence"), BAD_ANSWERS)
def test_what_cannot_be_said(site: Site, said: dict[str, Any], field: str, sentence: str) -> None:
    body = {"id": "known", **said}
    assert_refused(site, "feedback", body, field, sentence)
    assert_refused(site, "feedback", [body], f"[0].{field}", sentence)
    if "withdraw" not in said:
        assert_refused(site, "feedback", {**body, "revise": True}, field, sentence)


def test_an_explanation_compares_with_the_candidates(site: Site) -> None:
    path = "/v1/tasks/fruit/explanation"
    found = site.ask("GET", f"{path}?id=known").json()
    assert {found["label"], found["rival"]} == {"a", 7}
    site.ask("POST", "/v1/tasks/fruit/decide", json={"id": "alone", "x": [1.0, 2.0], "among": ["b"]})
    reply = site.ask("GET", f"{path}?id=alone")
    assert (reply.status_code, "only one candidate" in error_in(reply.content)["message"]) == (422, True)


def test_settings_that_cannot_be(site: Site) -> None:
    for settings in ({"sure": 2.0}, {"risk": 0}, {"risk": "low"}, {"sure": 0.5, "risk": 0.5}):
        field = "risk" if "risk" in settings else "sure"
        before = everything_in(site.settings.data)
        new = {"name": "more", "classes": 2, "features": {"kind": "text"}, **settings}
        for reply in (site.ask("PATCH", "/v1/tasks/fruit", json=settings), site.ask("POST", "/v1/tasks", json=new)):
            assert (reply.status_code, error_in(reply.content)["field"]) == (422, field)
        assert everything_in(site.settings.data) == before


def test_thousands_of_candidates(tmp_path: Path) -> None:
    with site_in(tmp_path / "data", max_values=1000) as site:
        new = {"name": "many", "classes": 2000, "learner": "banditron", "features": {"kind": "numbers", "size": 10_200}}
        site.ask("POST", "/v1/tasks", json={**new, "parameters": {"dtype": "float32"}}).raise_for_status()
        among, x = list(range(1, 1900)), [0.5] * 10_200
        for order in (("id", "x", "among"), ("id", "among", "x")):  # one long list before the other
            body = {name: {"id": order[1], "x": x, "among": among}[name] for name in order}
            answer = site.ask("POST", "/v1/tasks/many/decide", json=body).json()
            assert answer["among"] == among
            assert answer["probabilities"]["0"] == answer["probabilities"]["1900"] == 0.0
            reply = site.ask("POST", "/v1/tasks/many/feedback", json={"id": order[1], "truth": 1899})
            assert reply.json()["status"] == "accepted"
            assert site.ask("POST", "/v1/tasks/many/feedback", json={"id": order[1], "truth": 1900}).status_code == 422
        for count in (10_001, 20_000):
            item = {"id": "more", "x": x, "among": [1] * count}
            sent: list[tuple[Any, str]] = [(item, "among"), ([item], "[0].among")]
            for given, field in sent:
                reply = site.ask("POST", "/v1/tasks/many/decide", json=given)
                assert (reply.status_code, error_in(reply.content)["field"]) == (422, field)
                assert "10000" in error_in(reply.content)["message"]
