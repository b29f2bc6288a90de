"""Shadow mode: the learner's own error, estimated from what was shown in its place."""

from __future__ import annotations

import random

import numpy as np
import pytest

from onebit.errors import InputError
from onebit.service.core.shadow import ShadowRounds
from onebit.service.store.queries import Event
from onebit.service.store.rows import DecisionRow
from tests.service.driving import Where, crash_image, decided, followed, heard, new_task, run, service_in, visible

CLASSES = ("a", "b", "c")


def event(probabilities: list[float], shown: int, propensity: float, right: bool, truth: int | None = None) -> Event:
    """A feedback in shadow mode, of which nothing but this matters here."""
    blank = dict.fromkeys(Event._fields)
    decision = DecisionRow(**{**dict.fromkeys(DecisionRow._fields), "probabilities": np.array(probabilities).tobytes()})  # type: ignore[arg-type]
    told = {"late": 0, "right": int(right), "shown": shown, "shown_propensity": propensity, "truth": truth}
    return Event(**{**blank, **told, "decision": decision})  # type: ignore[arg-type]


def test_the_estimate_is_that_of_a_plain_sum() -> None:
    chance = np.random.default_rng(1)
    rounds = ShadowRounds()
    weights, wrongs = [], []
    for _ in range(50):
        p, q = chance.dirichlet([1.0] * 3), chance.dirichlet([2.0] * 3)
        shown, right = int(chance.choice(3, p=q)), bool(chance.random() < 0.4)
        rounds.add([event(list(p), shown, float(q[shown]), right)], 3)
        weights.append(p[shown] / q[shown])
        wrongs.append(not right)
    found = rounds.summarize(30)
    last = slice(-30, None)
    assert found["rounds"] == 30
    assert found["error"] == pytest.approx(np.dot(weights[last], wrongs[last]) / sum(weights[last]))
    assert found["low"] < found["error"] < found["high"]
    assert ShadowRounds.from_dict(rounds.to_dict()).summarize(30) == found


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """By chance fewer than 364 of 400 intervals at 95 % hold it with a probability below 0.001."""
    chance = np.random.default_rng(2)
    held = 0
    for _ in range(400):
        truths = chance.integers(0, 3, 120)
        own = np.full((120, 3), 0.1)
        guesses = np.where(chance.random(120) < 0.7, truths, chance.integers(0, 3, 120))
        own[np.arange(120), guesses] = 0.8
        shown = chance.choice(3, 120, p=(0.5, 0.3, 0.2))
        rounds = ShadowRounds()
        rounds.add(
            [
                event(list(p), int(one), (0.5, 0.3, 0.2)[one], bool(one == truth))
                for p, one, truth in zip(own, shown, truths, strict=True)
            ],
            3,
        )
        found = rounds.summarize(1000)
        held += found["low"] <= 1.0 - own[np.arange(120), truths].mean() <= found["high"]
    assert held >= 364


def test_a_truth_leaves_nothing_to_estimate() -> None:
    rounds = ShadowRounds()
    rounds.add([event([0.2, 0.7, 0.1], 0, 1.0, False, truth=1)] * 400, 3)
    found = rounds.summarize(1000)
    assert (found["error"], found["missing"]) == (pytest.approx(0.3), 0.0)
    assert found["high"] - found["low"] < 0.1


def test_what_is_never_shown_may_be_right_or_wrong() -> None:
    """The old system always shows the same, which the learner would have played in one of four rounds."""
    rounds = ShadowRounds()
    rounds.add([event([0.25, 0.75, 0.0], 0, 1.0, True)] * 1000, 3)
    found = rounds.summarize(1000)
    assert (found["error"], found["missing"]) == (0.0, 0.75)
    assert found["low"] == 0.0
    assert 0.75 <= found["high"] < 0.77


def test_nothing_that_the_learner_would_play_was_shown() -> None:
    rounds = ShadowRounds()
    rounds.add([event([0.0, 1.0, 0.0], 0, 0.5, True)], 3)
    assert rounds.summarize(10)["error"] is None


@pytest.mark.parametrize("wrong", ["count", "reward"])
def test_rounds_of_a_snapshot_that_cannot_be(wrong: str) -> None:
    rounds = ShadowRounds()
    rounds.add([event([0.5, 0.5, 0.0], 0, 0.5, True)], 3)
    kept = rounds.to_dict()
    if wrong == "count":
        kept["weight"] = {"count": 0, "last": ""}
    else:
        kept["reward"]["last"] = np.array([2.0]).tobytes().hex()
    with pytest.raises(InputError):
        ShadowRounds.from_dict(kept)


def test_the_service_shows_it_live_and_after_a_crash(where: Where) -> None:
    """The world is the same as the one in which the learner would have been right so often by itself."""
    own: list[float] = []

    async def work() -> None:
        chance = random.Random(3)
        async with service_in(where, snapshot_every=100) as service:
            await service.create(new_task(mode="shadow", learner="epsilon-greedy"))
            assert service.stats("fruit")["shadow"] is None
            for number in range(300):
                truth, shown = chance.choice(CLASSES), chance.choice(CLASSES)
                x = (1.0 if truth == "a" else -1.0, 1.0 if truth == "b" else -1.0)
                made = await decided(service, f"d{number}", x)
                own.append(1.0 - made["probabilities"][truth])
                await heard(service, f"d{number}", shown == truth, shown=shown, shown_propensity=1 / 3)
            await followed(service)
            found = service.stats("fruit", 200)["shadow"]
            assert found["rounds"] == 200
            assert found["low"] < sum(own[-200:]) / 200 < found["high"]
            assert found["error"] < service.stats("fruit", 200)["window"]["error"]  # of the old system
            before = visible(service.stats("fruit"))
            image = crash_image(where)
        async with service_in(image) as service:
            await followed(service)
            assert visible(service.stats("fruit")) == before

    run(work())
