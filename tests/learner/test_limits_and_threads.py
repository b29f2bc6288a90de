"""Rows that are too long, and many threads at once."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import refused, rows
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner
from tests.learner.learners import NAMES, X, Y, assert_unchanged_by, fresh, trained

# --- x that is too long -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_gaptron_refuses_what_is_longer_than_it_was_told(space: str, bias: bool) -> None:
    options: dict[str, Any] = {"rate": 0.1, "exploration": 0.1, "max_norm": 1.0, "space": space, "bias": bias}
    learner = Learner("gaptron", classes=NAMES, features=6, **options)
    learner.learn(learner.decide(X[0]), right=True)
    decision = learner.decide(X[1])
    for length in (1.2, 5.0):
        long = length * X[1]
        words = f"x has length {length:g}, but this learner takes at most 1"
        assert assert_unchanged_by(learner, lambda long=long: learner.decide(long)).endswith(words)  # type: ignore[misc]
        table = np.stack([X[0], long])
        assert words in assert_unchanged_by(learner, lambda table=table: learner.decide_many(table))  # type: ignore[misc]
        sentence = assert_unchanged_by(learner, lambda table=table: learner.teach(table, ["ant"] * 2))  # type: ignore[misc]
        assert sentence == f"row 1: {words}"
        kept = copy_learner(learner).decide(X[1])._replace(x=long.astype(np.float32)) if space == "dense" else None
        if kept is not None:
            altered = decision._replace(x=kept.x)
            assert words in assert_unchanged_by(learner, lambda altered=altered: learner.learn(altered, right=True))  # type: ignore[misc]
    learner.learn(decision, right=True)


def test_rows_scaled_to_the_longest_length_are_not_refused_for_their_rounding() -> None:
    learner = Learner("gaptron", classes=NAMES, rate=0.1, exploration=0.1, max_norm=0.3)
    scaled = 0.3 * rows(2000, seed=3)[0]
    assert len(learner.decide_many(scaled)) == 2000


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_numbers_too_large_for_the_weights_are_refused_as_they_were_given(space: str) -> None:
    """The value in the sentence must be the one that the user gave, not what a cast made of it."""
    learner = trained("bpa", space=space)
    huge = X[0].copy()
    huge[4] = 1e300
    csr = pytest.importorskip("scipy.sparse").csr_array
    for action in (
        lambda: learner.decide(huge),
        lambda: learner.decide_many([X[1], huge]),
        lambda: learner.decide(csr(huge[None])),
        lambda: learner.decide_many(csr(np.stack([X[1], huge]))),
        lambda: learner.teach(csr(np.stack([X[1], huge])), ["ant", "bee"]),
    ):
        sentence = assert_unchanged_by(learner, action)
        assert "1e+300" in sentence
        assert "4" in sentence
        assert "float32" in sentence or "float64" in sentence


def test_rows_whose_square_is_no_float32_are_refused_with_what_to_do() -> None:
    learner = trained("bpa")
    sentence = assert_unchanged_by(learner, lambda: learner.decide(X[0] * 1e25))
    assert "float32" in sentence
    assert "scale the features" in sentence
    assert trained("bpa", dtype="float64").decide(X[0] * 1e25).label in NAMES


@pytest.mark.parametrize("value", [1e300, 1e25])
@pytest.mark.filterwarnings("error")
def test_large_numbers_warn_of_nothing(value: float) -> None:
    csr = pytest.importorskip("scipy.sparse").csr_array
    forms: list[Any] = [[value, 1.0], csr([[value, 1.0]]), {"a": value}]
    for form in forms:
        for dtype in ("float32", "float64"):
            try:
                fresh("bpa", dtype=dtype).decide(form)
            except onebit.OnebitError as error:
                assert str(error)  # noqa: PT017 - whether it is refused is not the question here


def test_a_step_never_makes_a_weight_infinite() -> None:
    """A rate that asks for steps beyond float32 is refused; with the largest, the longest row leaves weights finite."""
    refused(lambda: Learner("policy-gradient", classes=2, rate=1e38))
    learner = Learner("policy-gradient", classes=2, features=1, space="dense", rate=1e9)
    learner.learn(learner.decide([1e18]), right=True)
    assert np.isfinite(learner.weights).all()


def test_float64_weights_take_the_steps_that_float32_weights_cannot() -> None:
    learner = Learner("perceptron", classes=2, features=1, space="dense", dtype="float64")
    decision = learner.decide([1e39])
    learner.learn(decision, label=1 - int(decision.label))
    assert abs(learner.weights).tolist() == [[1e39], [1e39]]


# --- many threads -----------------------------------------------------------------------------------------------------


def test_threads_deciding_and_learning_lose_and_double_nothing() -> None:
    learner = fresh("banditron", exploration=0.3)
    threads, each = 8, 150
    start = threading.Barrier(threads)

    def work(thread: int) -> list[Decision]:
        start.wait()
        made = []
        for place in range(each):
            x, y = X[(thread * 7 + place) % 40], Y[(thread * 7 + place) % 40]
            decision = learner.decide(x)
            learner.learn(decision, right=decision.label == NAMES[y])
            assert set(learner.probabilities(x)) == set(NAMES)
            made.append(decision)
        return made

    with ThreadPoolExecutor(threads) as pool:
        decisions = list(itertools.chain.from_iterable(pool.map(work, range(threads))))
    assert sorted(decision.id for decision in decisions) == list(range(threads * each))
    assert learner.learnt == threads * each
    assert all(decision.label in NAMES and 0.0 < decision.propensity <= 1.0 for decision in decisions)
    assert all(isinstance(decision.x, np.ndarray) and decision.x.shape == (6,) for decision in decisions)
    assert np.isfinite(learner.weights).all()
    assert "already" in assert_unchanged_by(learner, lambda: learner.learn(decisions[0], right=True))


def test_threads_that_learn_the_same_decisions_learn_each_once() -> None:
    learner, alone = fresh("conservative-ova"), fresh("conservative-ova")
    decisions = learner.decide_many(np.tile(X[:1], (200, 1)), ids=[f"ticket {place}" for place in range(200)])
    start = threading.Barrier(6)

    def work(_: int) -> int:
        start.wait()
        learnt = 0
        for decision in decisions:
            try:
                learner.learn(decision, right=False)
                learnt += 1
            except onebit.OnebitError as error:
                assert "already" in str(error)  # noqa: PT017
        return learnt

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(6))) == 200
    assert learner.learnt == 200
    # All decisions are wrong answers for one x, so that what was learnt hangs on how often each label was, not on the order.
    alone.learn_many(
        alone.decide_many(np.tile(X[:1], (200, 1)), ids=[one.id for one in decisions]), right=[False] * 200
    )
    np.testing.assert_allclose(learner.weights, alone.weights, rtol=1e-5, atol=1e-5)


def test_threads_may_add_classes_save_and_teach_in_between(tmp_path: Path) -> None:
    learner = trained("bpa")
    start = threading.Barrier(4)

    def deciding() -> int:
        start.wait()
        for place in range(200):
            learner.learn(learner.decide(X[place % 40]), right=place % 3 == 0)
        return 200

    def growing() -> int:
        start.wait()
        for number in range(30):
            learner.add_class(number)
            assert len(learner.probabilities(X[0])) == len(NAMES) + number + 1
        return 0

    def saving() -> int:
        start.wait()
        for number in range(20):
            learner.save(tmp_path / f"{number}.onebit")
            loaded = onebit.load(tmp_path / f"{number}.onebit")
            assert loaded.weights.shape[0] == len(loaded.classes)
            learner.teach(X[:5], ["ant"] * 5)
        return 0

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work) for work in (deciding, deciding, growing, saving)]
        learnt = sum(future.result() for future in futures)
    assert learner.learnt == 30 + learnt
    assert learner.weights.shape == (35, 6)
    assert np.isfinite(learner.weights).all()
