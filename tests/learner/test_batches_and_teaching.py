"""Many rows at once, labelled rows, and a first x that is bad."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from onebit.checks.examples import state
from onebit.learner.learner import Learner, copy_learner
from onebit.rules import registry
from tests.learner.learners import BANDIT, FULL, NAMES, X, Y, assert_unchanged_by, fresh, trained
from tests.slow import tier_of

plain = pytest.mark.usefixtures("uncompiled_lessons")  # where the steps are the same but for rounding

# --- many at once -----------------------------------------------------------------------------------------------------


def test_learn_many_refuses_with_nothing_changed() -> None:
    learner, other = trained("banditron"), trained("banditron")
    decisions = learner.decide_many(X[:3])
    stranger = other.decide(X[0])
    bad: list[tuple[str, Callable[[], object]]] = [
        ("2 answers for 3 decisions", lambda: learner.learn_many(decisions, right=[True, False])),
        ("2 answers for 3 decisions", lambda: learner.learn_many(decisions, labels=["ant", "bee"])),
        ("right is 'yes'", lambda: learner.learn_many(decisions, right=[True, True, "yes"])),  # type: ignore[list-item]
        ("'yak'", lambda: learner.learn_many(decisions, labels=["ant", "bee", "yak"])),
        ("twice", lambda: learner.learn_many([*decisions, decisions[0]], right=[True] * 4)),
        ("another learner", lambda: learner.learn_many([*decisions, stranger], right=[True] * 4)),
        ("Decision", lambda: learner.learn_many([*decisions, "decision"], right=[True] * 4)),  # type: ignore[list-item]
    ]
    for words, action in bad:
        assert words in assert_unchanged_by(learner, action)
    learner.learn_many(decisions, right=[True, False, True])
    assert "already" in assert_unchanged_by(learner, lambda: learner.learn_many(decisions[2:], right=[True]))


def test_learn_many_learns_none_where_a_later_x_is_not_a_number() -> None:
    learner = trained("banditron")
    good, bad = learner.decide_many(X[:2])
    spoilt = bad._replace(x=np.full(6, np.nan, dtype=np.float32))
    assert "nan" in assert_unchanged_by(learner, lambda: learner.learn_many([good, spoilt], right=[True, True]))
    learner.learn(good, right=True)


def test_learn_many_learns_none_where_a_later_x_is_too_long() -> None:
    learner = Learner("gaptron", classes=NAMES, rate=0.1, exploration=0.2, max_norm=1.0)
    good, bad = learner.decide_many(X[:2])
    long = bad._replace(x=np.full(6, 2.0, dtype=np.float32))
    assert "at most 1" in assert_unchanged_by(learner, lambda: learner.learn_many([good, long], right=[True, True]))


def test_learn_many_learns_none_where_scores_overflow_on_the_way() -> None:
    """Each of these rows is usable when decided; after one step of 1/P = 2e4 the next score is not a float32."""
    learner = Learner("banditron", classes=2, features=1, space="dense", exploration=1e-4, seed=1)
    identity = next(i for i in range(100_000) if (one := learner.decide([5e17], id=i)).label != one.greedy)
    decisions = [learner.decide([5e17], id=identity), learner.decide([5e17], id="next")]
    assert_unchanged_by(learner, lambda: learner.learn_many(decisions, right=[True, True]))


@pytest.mark.parametrize("space", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("policy-gradient", {"rate": 0.5, "decay": 1.8, "baseline": True}),
        ("gaptron", {"radius": 0.05, "exploration": 0.3}),
    ],
)
def test_a_refused_batch_is_undone_in_weights_that_its_rows_do_not_touch(
    name: str, options: dict[str, Any], space: str
) -> None:
    """Shrinking is lazy: every few steps a factor is multiplied into all weights, at another place for every start."""
    for steps in range(14):
        learner = fresh(name, features=6, space=space, **options)
        for step in range(steps):
            learner.learn(learner.decide(np.eye(6)[1 + step % 5]), right=True)
        decisions = learner.decide_many(np.tile(np.eye(6)[0], (40, 1)))
        last = learner.decide(np.eye(6)[0], id="last")
        assert_unchanged_by(learner, lambda: learner.learn_many([*decisions, decisions[0]], right=[True] * 41))  # noqa: B023
        other = last._replace(x=np.array([np.nan, 0, 0, 0, 0, 0], dtype=np.float32))
        assert_unchanged_by(learner, lambda: learner.learn_many([*decisions, other], right=[True] * 41))  # noqa: B023
        rows_too_long = np.concatenate([np.tile(np.eye(6)[0], (40, 1)), 1e160 * np.eye(6)[:1]])
        double = fresh(name, features=6, space=space, dtype="float64", **options)
        for step in range(steps):
            double.learn(double.decide(np.eye(6)[1 + step % 5]), right=True)
        assert_unchanged_by(double, lambda: double.teach(rows_too_long, ["ant"] * 41))  # noqa: B023


def test_nothing_at_all_is_decided_learnt_and_taught_without_complaint() -> None:
    learner = trained("bpa")
    before = state(learner)
    nothing: list[Any] = []
    assert learner.decide_many(np.zeros((0, 6))) == []
    assert learner.decide_many(nothing) == []
    learner.learn_many([], right=[])
    learner.learn_many([], labels=[])
    learner.teach(np.zeros((0, 6)), [])
    learner.teach(nothing, [])
    assert state(learner) == before


def test_nothing_at_all_is_taught_to_a_learner_that_has_seen_nothing() -> None:
    learner = fresh("bpa")
    learner.teach([], [])
    assert learner.decide_many([]) == []
    assert learner.features is None


@pytest.mark.parametrize("bad", [5, None, [[1.0, 2.0], [3.0]], "rows", {"a": 1.0}], ids=repr)
@pytest.mark.parametrize("seen", [False, True], ids=["fresh", "seen"])
def test_what_is_not_a_table_is_refused(bad: Any, seen: bool) -> None:
    learner = trained("bpa") if seen else fresh("bpa")
    assert_unchanged_by(learner, lambda: learner.decide_many(bad))
    assert_unchanged_by(learner, lambda: learner.teach(bad, ["ant", "bee"]))


# --- bad x as the first x ---------------------------------------------------------------------------------------------


FIRST: list[tuple[str, Callable[[Learner], object]]] = [
    ("not a number", lambda learner: learner.decide([1.0, math.nan])),
    ("two rows", lambda learner: learner.decide(np.ones((2, 4)))),
    ("words", lambda learner: learner.decide(["a", "b"])),
    ("ragged", lambda learner: learner.decide([[1.0, 2.0], [3.0]])),
    ("bad id", lambda learner: learner.decide([1.0, 2.0], id=-1)),
    ("bad name", lambda learner: learner.decide({1: 2.0})),
    ("bad value", lambda learner: learner.decide({"a": math.inf})),
    ("too large", lambda learner: learner.decide([1e300, 1.0])),
    ("table", lambda learner: learner.decide_many([[1.0, math.inf]])),
    ("ids", lambda learner: learner.decide_many([[1.0, 2.0]], ids=[])),
    ("labels", lambda learner: learner.teach([[1.0, 2.0]], ["yak"])),
    ("lengths", lambda learner: learner.teach([[1.0, 2.0]], [])),
    ("values", lambda learner: learner.teach([[1.0, math.nan]], ["ant"])),
    ("best", lambda learner: learner.best([1.0, math.nan])),
    ("probabilities", lambda learner: learner.probabilities([1.0, math.nan])),
]


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("action", [action for _, action in FIRST], ids=[name for name, _ in FIRST])
def test_a_refused_first_x_leaves_the_form_of_x_open(action: Callable[[Learner], object]) -> None:
    for form in (X[0], {"a": 1.0}):
        learner = fresh("bpa")
        assert_unchanged_by(learner, lambda learner=learner: action(learner))  # type: ignore[misc]
        assert learner.features is None
        assert learner.decide(form).id == 0


# --- teaching ---------------------------------------------------------------------------------------------------------


def test_teaching_banditron_is_the_step_of_the_perceptron() -> None:
    """By hand, in float64: on a mistake w_label += x and w_greedy -= x, otherwise nothing."""
    learner = trained("banditron", dtype="float64")
    expected = learner.weights
    for x, label in zip(X[30:], Y[30:], strict=True):
        scores = expected @ x
        assert np.sort(scores)[-1] - np.sort(scores)[-2] > 1e-6, "a tie would make the step random"
        if scores.argmax() != label:
            expected[label] += x
            expected[scores.argmax()] -= x
    learner.teach(X[30:], [NAMES[label] for label in Y[30:]])
    np.testing.assert_allclose(learner.weights, expected, rtol=1e-12, atol=1e-12)
    assert learner.learnt == 30


@plain
def test_teaching_conservative_ova_moves_every_column() -> None:
    """By hand: w_r moves to a hinge loss of 0 against +1 for the label and -1 for all others, at most C."""
    learner = trained("conservative-ova", dtype="float64", aggressiveness=0.3)
    expected = learner.weights
    for x, label in zip(X[30:], Y[30:], strict=True):
        for row in range(5):
            sign = 1.0 if row == label else -1.0
            loss = max(0.0, 1.0 - sign * float(expected[row] @ x))
            expected[row] += sign * min(0.3, loss / float(x @ x)) * x
    learner.teach(X[30:], [NAMES[label] for label in Y[30:]])
    np.testing.assert_allclose(learner.weights, expected, rtol=1e-10, atol=1e-10)


@plain
@pytest.mark.parametrize("name", FULL)
def test_teaching_full_information_is_learning_from_the_label(name: str) -> None:
    """No ties after training, so nothing is left to chance: deciding and being told the label is the same step."""
    taught, told = trained(name, dtype="float64"), trained(name, dtype="float64")
    for x, label in zip(X[30:], Y[30:], strict=True):
        taught.teach([x], [NAMES[label]])
        told.learn(told.decide(x), label=NAMES[label])
        np.testing.assert_allclose(taught.weights, told.weights, rtol=1e-10, atol=1e-12)


def test_teaching_gaptron_with_full_information_is_learning_from_the_label() -> None:
    options: dict[str, Any] = {"setting": "full", "loss": "smooth", "max_norm": 2.0, "dtype": "float64"}
    taught, told = Learner("gaptron", classes=NAMES, **options), Learner("gaptron", classes=NAMES, **options)
    for x, label in zip(X, Y, strict=True):
        taught.teach([x], [NAMES[label]])
        told.learn(told.decide(x), label=NAMES[label])
    np.testing.assert_allclose(taught.weights, told.weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"), [("bpa", {"exploration": 0.0}), ("bandit-perceptron", {"choose": "first"})]
)
def test_teaching_a_rule_without_a_lesson_of_its_own_is_playing_and_learning(
    name: str, options: dict[str, Any]
) -> None:
    """Where one label has probability 1 nothing is left to chance, and the teacher must take the step that playing takes."""
    assert registry()[name].teach is None
    learner = trained(name, dtype="float64", **options)
    certain = [row for row in range(40) if learner.decide(X[row], id=row).propensity == 1.0]
    assert len(certain) >= 5
    for x, label in zip(X[certain[:5]], Y[certain[:5]], strict=True):
        by_playing = copy_learner(learner)
        decision = by_playing.decide(x)
        if decision.propensity < 1.0:  # the steps before may have opened the choice again
            continue
        by_playing.learn(decision, label=NAMES[label])
        learner.teach([x], [NAMES[label]])
        assert np.array_equal(learner.weights, by_playing.weights)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=tier_of(name)) for name in BANDIT if registry()[name].teach is None]
)
def test_what_is_taught_by_playing_is_one_of_the_steps_that_playing_can_take(name: str) -> None:
    """Over 300 ids every label is played (exploration at least .3), so the taught step must be among those seen."""
    options: dict[str, Any] = {"exploration": 0.3} if "exploration" in registry()[name].parameters else {}
    start = trained(name, dtype="float64", **options)
    for row in range(30, 34):
        possible = set()
        for identity in range(300):
            learner = copy_learner(start)
            learner.learn(learner.decide(X[row], id=f"try {identity}"), label=NAMES[Y[row]])
            possible.add(learner.weights.tobytes())
        taught = copy_learner(start)
        taught.teach(X[row : row + 1], [NAMES[Y[row]]])
        assert taught.weights.tobytes() in possible


@pytest.mark.parametrize("name", [pytest.param(name, marks=tier_of(name)) for name in registry()])
def test_teaching_row_by_row_is_teaching_the_table(name: str) -> None:
    whole = trained(name)
    single = copy_learner(whole)
    labels = [NAMES[label] for label in Y]
    whole.teach(X, labels)
    for x, label in zip(X, labels, strict=True):
        single.teach([x], [label])
    assert state(whole) == state(single)


def test_teaching_takes_bad_labels_and_lengths_with_a_sentence_and_no_change() -> None:
    learner = trained("conservative-ova")
    bad: list[tuple[str, Callable[[], object]]] = [
        ("row 1 has the label 'yak'", lambda: learner.teach(X[:2], ["ant", "yak"])),
        ("3 labels for 2 rows", lambda: learner.teach(X[:2], ["ant"] * 3)),
        ("0 labels for 2 rows", lambda: learner.teach(X[:2], [])),
        ("2 labels for 0 rows", lambda: learner.teach(X[:0], ["ant"] * 2)),
        ("5", lambda: learner.teach(np.ones((2, 5)), ["ant"] * 2)),
        ("row 1", lambda: learner.teach([[0.0] * 6, [math.nan] * 6], ["ant"] * 2)),
    ]
    for words, action in bad:
        assert words in assert_unchanged_by(learner, action)
    assert_unchanged_by(learner, lambda: learner.teach(X[:2], [["ant"], ["bee"]]))  # type: ignore[list-item]
    assert_unchanged_by(learner, lambda: learner.teach(X[:2], 5))  # type: ignore[arg-type]
    assert_unchanged_by(learner, lambda: learner.teach(X[:2], None))  # type: ignore[arg-type]


def test_teaching_takes_any_iterable_of_labels() -> None:
    one, two = fresh("bpa"), fresh("bpa")
    one.teach(X, (NAMES[label] for label in Y))
    two.teach(X.tolist(), np.array(NAMES)[Y])
    assert np.array_equal(one.weights, two.weights)


def test_teaching_spends_no_id_and_no_feedback() -> None:
    learner = fresh("banditron")
    learner.teach(X, [NAMES[label] for label in Y])
    assert learner.learnt == 0
    assert learner.decide(X[0]).id == 0
