"""Every check, and the slow twin; saving, late answers and new classes: the auto of 0.3 goes on bit for bit.

All in one file, and so in one process: its forms take long to compile, and share much.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks import refused, state
from onebit.learner import Learner, copy_of
from tests.auto.streams import Array, gaussians, heard, permuted, topics
from tests.every_rule.cases import (
    FAMILIES,
    assert_equals_its_oracle,
    assert_errs_less_among_few,
    assert_passes,
    assert_walks_as_it_steps,
    checks_of,
    twins_of,
    walks_of,
)

pytestmark = pytest.mark.long

kinds = pytest.mark.parametrize("kind", ["dense", "diagonal", "sparse"])
CLASSES = 4


def stream_of(kind: str, classes: int = CLASSES) -> tuple[Any, Array]:
    """Labels are permuted half-way, so that restarts are among what is kept; diagonal: too many features for full matrices."""
    if kind == "sparse":
        X, y = topics(240, classes, 60, seed=1)
    else:
        X, y = gaussians(240, classes, 5 if kind == "dense" else 720, spread=1.5 if kind == "dense" else 0.3, seed=1)
    return X, permuted(y, classes, seed=1)


def auto_03(kind: str, classes: Any = CLASSES) -> Learner:
    return Learner("auto-0.3", classes=classes, space="sparse" if kind == "sparse" else "dense", seed=2)


@checks_of("former")
def test_check(name: str, options: dict[str, Any], check: str, whole: bool) -> None:
    assert_passes(name, options, check, whole)


@twins_of("former")
def test_compiled_rule_equals_its_oracle(name: str, options: dict[str, Any], classes: int, late: bool) -> None:
    assert_equals_its_oracle(name, options, classes, late)


@walks_of("former")
def test_a_walk_with_candidates_rewards_and_corrections_is_stepping_by_hand(name: str, kind: str) -> None:
    assert_walks_as_it_steps(name, kind)


@pytest.mark.parametrize("name", FAMILIES["former"])
def test_with_few_candidates_less_is_wrong(name: str) -> None:
    assert_errs_less_among_few(name)


@kinds
def test_saved_and_loaded_it_goes_on_bit_for_bit(kind: str, tmp_path: Path) -> None:
    X, y = stream_of(kind)
    learner, whole = auto_03(kind), auto_03(kind)
    expected = heard(whole, X, y)
    found = heard(learner, X[:130], y[:130])
    late = learner.decide(X[130], id="late")
    learner.save(tmp_path / "auto.onebit")
    loaded, copied = onebit.load(tmp_path / "auto.onebit"), copy_of(learner)
    for one in (loaded, copied):
        assert state(one) == state(learner)
        assert found + heard(one, X[130:], y[130:]) == expected
        assert np.array_equal(one.weights, whole.weights)
        assert one.describe() == whole.describe()
        one.learn(late, right=True)
    assert state(loaded) == state(copied) != state(learner)


@kinds
def test_decisions_between_answers_do_not_matter(kind: str) -> None:
    """Members look through scratch memory of the row just scored: a decision on another row must not leak into a late step."""
    X, y = stream_of(kind)
    alone, disturbed = auto_03(kind), auto_03(kind)
    for row in range(150):
        decisions = [one.decide(X[row], id=row) for one in (alone, disturbed)]
        disturbed.decide(X[(7 * row + 3) % 240], id="another")
        for one, decision in zip((alone, disturbed), decisions, strict=True):
            one.learn(decision, right=bool(decision.label == y[row]))
    assert np.array_equal(alone.weights, disturbed.weights)
    assert alone.describe() == disturbed.describe()


@kinds
def test_late_answers_are_learnt_with_the_scores_of_today(kind: str) -> None:
    """The order of answers counts, not that of decisions, once what was played is fixed."""
    X, y = stream_of(kind)
    early, late = auto_03(kind), auto_03(kind)
    for one in (early, late):
        heard(one, X[:60], y[:60])
    waiting = [early.decide(X[row], id=f"id {row}") for row in range(60, 80)]
    fresh = [late.decide(X[row], id=f"id {row}") for row in range(60, 80)]
    order = np.random.default_rng(1).permutation(20)
    for place in order:
        early.learn(waiting[place], right=bool(waiting[place].label == y[60 + place]))
    late.learn_many([fresh[place] for place in order], [bool(fresh[place].label == y[60 + place]) for place in order])
    assert np.array_equal(early.weights, late.weights)
    assert early.describe() == late.describe()


def test_a_batch_that_is_refused_on_the_way_is_undone() -> None:
    """Variances of columns so small that their inverses are no numbers: found when the third row is learnt, not before."""
    X, y = stream_of("dense")
    learner = Learner("auto-0.3", classes=CLASSES, dtype="float64", seed=2)
    decisions = learner.decide_many(1e-160 * X[:20].astype(np.float64))
    before, described = state(learner), learner.describe()
    assert "row 2" in refused(lambda: learner.learn_many(decisions, (y[:20] == 0).tolist()))
    assert state(learner) == before
    assert learner.describe() == described
    learner.learn_many(decisions[:2], [True, False])
    assert learner.describe().learnt == 2


@kinds
def test_a_class_that_is_added_is_as_if_it_had_been_there(kind: str) -> None:
    """Before anything is learnt. What there is of members depends on the classes in the beginning: with two and with three it is the same."""
    X, y = stream_of(kind, classes=3)
    grown, whole = auto_03(kind, 2), auto_03(kind, 3)
    for one in (grown, whole):
        one.decide(X[0], id="the form of x")
    grown.add_class(2)
    assert grown.weights.shape == whole.weights.shape
    assert heard(grown, X, y) == heard(whole, X, y)
    assert np.array_equal(grown.weights, whole.weights)
    assert grown.describe() == whole.describe()


def test_members_and_their_weights_are_those_of_the_release() -> None:
    X, y = stream_of("dense")
    learner = auto_03("dense")
    learner.decide(X[0], id="the form of x")
    started = learner.describe().members
    assert list(started) == ["directed", "centred", "standardised", "waved", "clusters"]
    assert started["waved"] == pytest.approx(np.exp(-3.0) / (4.0 + np.exp(-3.0)))
    heard(learner, X, y)
    members = learner.describe().members
    assert members != started
    assert sum(members.values()) == pytest.approx(1.0)


def test_it_takes_no_parameter() -> None:
    assert onebit.Auto03(3).settings == {}
    assert "exploration" in refused(lambda: onebit.Auto03(3, exploration=0.1))  # type: ignore[call-arg]
    assert "bias" in refused(lambda: onebit.Auto03(3, bias=True))
