"""Every check, and the slow twin; saving, cloning, late answers, refusals, new classes and teaching: `auto` goes on bit for bit.

All in one file, and so in one process: nothing takes as long to compile as `auto` does, and its forms share much.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.auto.dense import scoring
from onebit.auto.dense.views import MEAN
from onebit.checks.examples import refused, state
from onebit.learner.learner import Learner, copy_learner
from onebit.learner.state import dump_state
from tests.auto.streams import Array, drawn_digits, gaussians, heard, permuted, topics
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
from tests.slow import ON_DEMAND

kinds = pytest.mark.parametrize("kind", ["dense", "diagonal", "sparse"])
# In 64 bits the diagonal form takes a compiler twenty seconds, and is the same code as in 32.
both_dtypes = pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        pytest.param(kind, dtype, marks=ON_DEMAND if (kind, dtype) == ("diagonal", "float64") else [])
        for kind in ("dense", "diagonal", "sparse")
        for dtype in ("float32", "float64")
    ],
)
CLASSES = 4


def stream_of(kind: str, rounds: int = 240, classes: int = CLASSES) -> tuple[Any, Array]:
    """Labels are permuted half-way, so that restarts are among what is kept; diagonal: too many features for full matrices."""
    if kind == "sparse":
        X, y = topics(rounds, classes, 60, seed=1)
    else:
        X, y = gaussians(rounds, classes, 5 if kind == "dense" else 720, spread=1.5 if kind == "dense" else 0.3, seed=1)
    return X, permuted(y, classes, seed=1)


def auto(kind: str, classes: Any = CLASSES, **options: Any) -> Learner:
    return Learner("auto", classes=classes, space="sparse" if kind == "sparse" else "dense", seed=2, **options)


def same(one: Learner, other: Learner) -> bool:
    """Whether everything that is kept is equal, but the name that a learner is given at birth."""
    return {**state(one), "identity": ""} == {**state(other), "identity": ""}


@checks_of("composite")
def test_check(name: str, options: dict[str, Any], check: str, whole: bool) -> None:
    assert_passes(name, options, check, whole)


@twins_of("composite")
def test_compiled_rule_equals_its_oracle(
    name: str, options: dict[str, Any], classes: int, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "MOST_WAVES", 24)  # what the twin does takes the square of it
    assert_equals_its_oracle(name, options, classes, late)


@walks_of("composite")
def test_a_walk_with_candidates_rewards_and_corrections_is_stepping_by_hand(name: str, kind: str) -> None:
    assert_walks_as_it_steps(name, kind)


@pytest.mark.parametrize("name", FAMILIES["composite"])
def test_with_few_candidates_less_is_wrong(name: str) -> None:
    assert_errs_less_among_few(name)


@both_dtypes
def test_saved_and_loaded_it_goes_on_bit_for_bit(kind: str, dtype: str, tmp_path: Path) -> None:
    X, y = stream_of(kind)
    learner, whole = auto(kind, dtype=dtype), auto(kind, dtype=dtype)
    expected = heard(whole, X, y)
    found = heard(learner, X[:130], y[:130])
    late = learner.decide(X[130], id="late")
    learner.save(tmp_path / "auto.onebit")
    loaded, cloned = onebit.load(tmp_path / "auto.onebit"), copy_learner(learner)
    for one in (loaded, cloned):
        assert same(one, learner)
        assert found + heard(one, X[130:], y[130:]) == expected
        assert np.array_equal(one.weights, whole.weights)
        assert one.describe() == whole.describe()
        one.learn(late, right=True)
    assert not same(loaded, learner)
    assert same(loaded, cloned)


def test_files_hold_the_rows_kept_while_these_are_needed(tmp_path: Path) -> None:
    """For components of 64, 256 and 1,024 rows, and while they are learnt again, 64 in each round; a learner goes on from each of these."""
    X, y = gaussians(1100, CLASSES, 5, spread=1.5, seed=1)
    whole, learner, at = auto("dense"), auto("dense"), 0
    heard(whole, X, y)
    for rounds, rows in ((40, 1024), (300, 1024), (1030, 1024), (1060, 0)):
        heard(learner, X[at:rounds], y[at:rounds])
        learner.save(tmp_path / "auto.onebit")
        learner, at = onebit.load(tmp_path / "auto.onebit"), rounds
        arrays_of_file = learner.runtime.model.space.arrays(None)
        assert {len(arrays_of_file[name]) for name in ("basis.rows", "basis.heard")} == {rows}
    heard(learner, X[at:], y[at:])
    assert same(learner, whole)


@kinds
def test_decisions_change_nothing(kind: str) -> None:
    X, y = stream_of(kind)
    learner = auto(kind)
    heard(learner, X[:100], y[:100])
    before, described = state(learner), learner.describe()
    for row in range(100, 130):
        learner.decide(X[row], id=f"row {row}")
        learner.probabilities(X[row])
        learner.scores(X[row])
        learner.best(X[row], id="best")
    learner.decide_many(X[100:130], ids=[f"many {row}" for row in range(30)])
    assert state(learner) == before
    assert learner.describe() == described


@kinds
def test_decisions_between_answers_do_not_matter(kind: str) -> None:
    """Members look through scratch memory of the row just scored: a decision on another row must not leak into a late step."""
    X, y = stream_of(kind)
    alone, disturbed = auto(kind), auto(kind)
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
    early, late = auto(kind), auto(kind)
    for one in (early, late):
        heard(one, X[:60], y[:60])
    waiting = [early.decide(X[row], id=f"id {row}") for row in range(60, 80)]
    fresh = [late.decide(X[row], id=f"id {row}") for row in range(60, 80)]
    assert [one.label for one in waiting] == [one.label for one in fresh]
    order = np.random.default_rng(1).permutation(20)
    for place in order:
        early.learn(waiting[place], right=bool(waiting[place].label == y[60 + place]))
    late.learn_many([fresh[place] for place in order], [bool(fresh[place].label == y[60 + place]) for place in order])
    assert np.array_equal(early.weights, late.weights)
    assert early.describe() == late.describe()


@kinds
def test_a_refused_batch_is_undone(kind: str) -> None:
    """The last of the decisions has a row that is too large for a number, squared, which is found on the way."""
    X, y = stream_of(kind)
    learner = auto(kind, dtype="float64")
    heard(learner, X[:60], y[:60])
    good = [learner.decide(X[row], id=f"id {row}") for row in range(60, 80)]
    before, described = state(learner), learner.describe()
    bad = X[80].astype(np.float64) * 1e160
    sentence = refused(lambda: learner.decide(bad, id="bad"))
    assert sentence
    assert state(learner) == before
    twice = refused(lambda: learner.learn_many([*good, good[0]], [True] * 21))
    assert "twice" in twice
    assert state(learner) == before
    assert learner.describe() == described
    learner.learn_many(good, [True] * 20)
    assert state(learner) != before


def test_a_batch_that_is_refused_on_the_way_is_undone() -> None:
    """The mean of a column is no number, as by a bug: it is looked at from the second row on that is learnt, not before."""
    X, y = stream_of("dense")
    learner = auto("dense", dtype="float64")
    decisions = learner.decide_many(X[:20].astype(np.float64))
    learner.runtime.model.space.statistics.columns[MEAN, 0] = math.nan
    before, described = state(learner), learner.describe()
    assert "row 1" in refused(lambda: learner.learn_many(decisions, (y[:20] == 0).tolist()))
    assert state(learner) == before
    assert learner.describe() == described
    learner.learn_many(decisions[:1], [True])
    assert learner.describe().learnt == 1


@kinds
def test_lessons_that_are_refused_are_undone(kind: str) -> None:
    X, y = stream_of(kind)
    learner = auto(kind)
    heard(learner, X[:60], y[:60])
    before = state(learner)
    bad = X[:40].astype(np.float64).copy()
    if kind == "sparse":
        bad.data[-1] = np.inf
    else:
        bad[39, 0] = np.inf
    assert refused(lambda: learner.teach(bad, y[:40].tolist()))
    assert state(learner) == before


@both_dtypes
def test_a_class_that_is_added_is_as_if_it_had_been_there(kind: str, dtype: str) -> None:
    """Before anything is learnt. What there is of members depends on the classes in the beginning: with two and with three it is the same."""
    X, y = stream_of(kind, classes=3)
    grown, whole = auto(kind, 2, dtype=dtype), auto(kind, 3, dtype=dtype)
    for one in (grown, whole):
        one.decide(X[0], id="the form of x")
    grown.add_class(2)
    assert grown.classes == whole.classes
    assert grown.weights.shape == whole.weights.shape
    assert heard(grown, X, y) == heard(whole, X, y)
    assert np.array_equal(grown.weights, whole.weights)
    assert grown.describe() == whole.describe()


@kinds
def test_a_class_that_is_added_later_leaves_the_others_and_is_learnt(kind: str, tmp_path: Path) -> None:
    X, y = gaussians(900, 3, 5 if kind == "dense" else 720, spread=3.0 if kind == "dense" else 0.5, seed=4)
    X = topics(900, 3, 60, seed=4)[0] if kind == "sparse" else X
    y = topics(900, 3, 60, seed=4)[1] if kind == "sparse" else y
    names = np.array(["a", "b", "c"], dtype=object)[y]
    known = names != "c"
    learner = auto(kind, ["a", "b"])
    heard(learner, X[known][:200], names[known][:200])
    weights = learner.weights
    learner.add_class("c")
    assert np.array_equal(learner.weights[:2], weights)
    assert not learner.weights[2].any()
    learner.save(tmp_path / "grown.onebit")
    loaded = onebit.load(tmp_path / "grown.onebit")
    played = heard(learner, X[300:], names[300:])
    assert heard(loaded, X[300:], names[300:]) == played
    assert np.array_equal(loaded.weights, learner.weights)
    late = np.array(played[-200:], dtype=object) == names[-200:]
    assert late.mean() > 0.8
    assert late[names[-200:] == "c"].mean() > 0.7


def test_a_decision_on_a_row_that_differs_by_the_sign_of_a_zero_does_not_matter() -> None:
    """What is kept of a row is what was learnt from, and not an equal one that was decided on in between."""
    asked, alone = (Learner("auto", classes=3, seed=1) for _ in range(2))
    rows = np.random.default_rng(2).normal(size=(40, 4))
    rows[:, 1] = -0.0
    for number, row in enumerate(rows):
        decisions = [learner.decide(row, id=f"row {number}") for learner in (asked, alone)]
        for between in (row + 1.0, np.where(row == 0.0, 0.0, row)):
            asked.decide(between, id=f"between {between[1]} {number}")
        for learner, decision in zip((asked, alone), decisions, strict=True):
            learner.learn(decision, right=number % 3 == 0)
    kept = [{name: array.tobytes() for name, array in dump_state(one.runtime)[1].items()} for one in (asked, alone)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("kind", ["dense", pytest.param("diagonal", marks=ON_DEMAND), "sparse"])
def test_what_is_taught_is_known(kind: str) -> None:
    X, y = topics(1200, 5, 100, seed=5) if kind == "sparse" else drawn_digits(1200, seed=5)
    if kind == "diagonal":
        X = np.hstack([X, np.zeros((len(X), 400), dtype=np.float32)])
    classes = int(y.max()) + 1
    learner = auto(kind, classes)
    learner.teach(X[:900], y[:900].tolist())
    wrong = np.mean([learner.best(X[row]) != y[row] for row in range(900, 1200)])
    assert wrong < 0.12
    assert learner.learnt == 0
    played = heard(learner, X[900:], y[900:])
    assert np.mean(np.array(played) != y[900:]) < 0.2


def test_a_seed_decides_everything_and_another_decides_otherwise() -> None:
    X, y = stream_of("dense")
    assert heard(auto("dense"), X, y) == heard(auto("dense"), X, y)
    assert heard(Learner("auto", classes=CLASSES, seed=7), X, y) != heard(auto("dense"), X, y)


def test_it_takes_no_parameter() -> None:
    assert onebit.Auto(3).settings == {}
    assert "exploration" in refused(lambda: onebit.Auto(3, exploration=0.1))  # type: ignore[call-arg]
    assert "bias" in refused(lambda: onebit.Auto(3, bias=True))
    assert Learner(classes=3).runtime.rule.name == "auto"
