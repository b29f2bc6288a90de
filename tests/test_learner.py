"""What a user holds, pushed where it should break: ids, labels, teaching, new classes, bad options, many threads."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks import refused, rows, state
from onebit.contract.margins import Variant
from onebit.contract.parameters import Flag, OneOf, Real
from onebit.decision import Decision
from onebit.learner import Learner, learner_class
from onebit.rules import registry

NAMES = ["ant", "bee", "cat", "dog", "eel"]
BANDIT = [name for name, rule in registry().items() if not rule.is_told(rule.settle(5, rule.examples[0])[0])]
FULL = [name for name in registry() if name not in BANDIT]
X, Y = rows(40)


def fresh(name: str, classes: Any = NAMES, **options: Any) -> Learner:
    """A learner with the rule's first example options."""
    return Learner(name, classes, **{**registry()[name].examples[0], **options})


def trained(name: str, count: int = 30, **options: Any) -> Learner:
    learner = fresh(name, **options)
    for x, label in zip(X[:count], Y[:count], strict=True):
        learner.learn(learner.decide(x), label=NAMES[label])
    return learner


def unchanged_by(learner: Learner, action: Callable[[], object]) -> str:
    """The sentence that refuses an action, after which the learner must be what it was."""
    before = state(learner)
    sentence = refused(action)
    assert state(learner) == before, f"changed by what was refused: {sentence}"
    return sentence


# --- ids ---------------------------------------------------------------------------------------------------------------


def test_the_same_id_and_x_give_the_same_decision_until_weights_move() -> None:
    learner = trained("banditron", exploration=0.5)
    for identity in (77, "seventy-seven"):
        first = learner.decide(X[0], id=identity)
        learner.decide(X[1], id=identity)
        learner.decide(X[1])
        assert learner.decide(X[0], id=identity) == first
        assert learner.decide_many(X[:1], ids=[identity]) == [first]


def test_the_seed_decides_together_with_the_id() -> None:
    """With exploration 0.5 and 64 ids two seeds agree everywhere by chance with probability below 1e-7."""
    played = [
        [learner.decide(X[0], id=identity).label for identity in range(64)]
        for learner in (Learner("banditron", NAMES, exploration=0.5, seed=seed) for seed in (0, 0, 1))
    ]
    assert played[0] == played[1]
    assert played[0] != played[2]


def test_numpy_whole_numbers_are_ids_and_become_plain_numbers() -> None:
    learner = fresh("bpa")
    identities: list[Any] = [np.int64(5), np.uint8(6), np.int32(7)]
    for identity in identities:
        decision = learner.decide(X[0], id=identity)
        assert type(decision.id) is int
        assert decision == learner.decide(X[0], id=int(identity))
        assert Decision.from_json(decision.to_json()) == decision


@pytest.mark.parametrize("identity", ["", True, False, -1, 2**63, 1.0, 1.5, b"seven", [1], (1,), np.uint64(2**63)])
def test_what_is_not_an_id_is_refused_with_its_value(identity: Any) -> None:
    learner = trained("bpa")
    assert repr(identity).removeprefix("np.uint64(").removesuffix(")") in unchanged_by(
        learner, lambda: learner.decide(X[0], id=identity)
    )
    unchanged_by(learner, lambda: learner.decide_many(X[:2], ids=[1, identity]))
    unchanged_by(learner, lambda: learner.best(X[0], id=identity))


def test_an_empty_id_is_not_answered_with_must_be_a_string() -> None:
    assert "empty" in refused(lambda: fresh("bpa").decide(X[0], id=""))


def test_a_string_that_is_no_text_is_refused_as_an_id() -> None:
    """A lone surrogate cannot be written as UTF-8, so no system could bring it back."""
    learner = trained("bpa")
    unchanged_by(learner, lambda: learner.decide(X[0], id="half \ud800 a character"))


def test_the_largest_number_is_an_id_and_does_not_break_the_numbers_after_it(tmp_path: Path) -> None:
    learner = fresh("bpa")
    learner.learn(learner.decide(X[0], id=2**63 - 1), right=True)
    decision = learner.decide(X[0])
    assert Decision.from_json(decision.to_json()) == decision
    learner.learn(decision, right=True)
    learner.save(tmp_path / "learner.onebit")
    assert state(onebit.load(tmp_path / "learner.onebit")) == state(learner)


def test_automatic_numbers_go_on_after_the_highest_number_learnt() -> None:
    learner = fresh("bpa")
    learner.learn(learner.decide(X[0], id=10), right=True)
    learner.learn(learner.decide(X[1], id=4), right=True)
    automatic = [learner.decide(X[0]).id for _ in range(3)]
    assert automatic == [11, 12, 13]
    learner.learn_many(learner.decide_many(X[:2], ids=[40, 30]), right=[True, False])
    assert [decision.id for decision in learner.decide_many(X[:2])] == [41, 42]


def test_explicit_ids_take_no_automatic_number() -> None:
    learner = fresh("bpa")
    learner.decide(X[0], id=0)
    learner.decide(X[0], id="zero")
    learner.decide_many(X[:3], ids=["a", 7, "c"])
    assert learner.decide(X[0]).id == 0
    assert [decision.id for decision in learner.decide_many(X[:2])] == [1, 2]


def test_a_refused_x_takes_no_number() -> None:
    learner = fresh("bpa", features=6)
    refused(lambda: learner.decide(X[0][:3]))
    refused(lambda: learner.decide_many(np.full((3, 6), np.nan)))
    assert learner.decide(X[0]).id == 0


def test_a_number_and_a_string_of_its_digits_are_two_ids() -> None:
    learner = fresh("bpa")
    learner.learn(learner.decide(X[0], id=3), right=True)
    learner.learn(learner.decide(X[0], id="3"), right=True)
    assert learner.learnt == 2


def test_two_decisions_with_one_id_are_learnt_once() -> None:
    learner = fresh("bpa")
    first, second = learner.decide(X[0], id="ticket"), learner.decide(X[1], id="ticket")
    learner.learn(first, right=True)
    assert "'ticket' has been learnt already" in unchanged_by(learner, lambda: learner.learn(second, right=True))


def test_decide_many_takes_ids_of_both_kinds_and_as_an_array() -> None:
    learner = trained("banditron")
    mixed: list[int | str] = ["a", 5, "c"]
    assert learner.decide_many(X[:3], ids=mixed) == [
        learner.decide(x, id=identity) for x, identity in zip(X[:3], mixed, strict=True)
    ]
    numbers: Any = np.array([8, 6, 7])
    assert [decision.id for decision in learner.decide_many(X[:3], ids=numbers)] == [8, 6, 7]
    for wrong in (5, "abc", int, 1.5):
        unchanged_by(learner, lambda wrong=wrong: learner.decide_many(X[:3], ids=wrong))  # type: ignore[misc]
    assert "2 ids for 3 rows" in unchanged_by(learner, lambda: learner.decide_many(X[:3], ids=[1, 2]))


# --- what it is told ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FULL)
def test_full_information_needs_the_label_unless_it_was_right(name: str) -> None:
    one, two = fresh(name), fresh(name)
    decision = one.decide(X[0])
    assert decision.label == two.decide(X[0]).label
    assert "label" in unchanged_by(one, lambda: one.learn(decision, right=False))
    assert "label" in unchanged_by(one, lambda: one.learn_many([decision], right=[False]))
    one.learn(decision, right=True)
    two.learn(two.decide(X[0], id=0), label=decision.label)
    assert np.array_equal(one.weights, two.weights)
    assert one.learnt == two.learnt == 1


@pytest.mark.parametrize("name", FULL)
def test_full_information_uses_which_label_it_was(name: str) -> None:
    learner = fresh(name, dtype="float64")
    learner.learn(learner.decide(X[0]), label="cat")
    other = fresh(name, dtype="float64")
    other.learn(other.decide(X[0]), label="dog")
    assert not np.array_equal(learner.weights, other.weights)
    assert learner.scores(X[0])[2] > 0.0


@pytest.mark.parametrize("name", BANDIT)
def test_one_bit_learners_use_only_whether_the_label_was_played(name: str) -> None:
    """Any wrong label leaves the same learner as right=False; the played label the same as right=True."""
    start = trained(name)
    decision = start.decide(X[35])
    wrong = [label for label in NAMES if label != decision.label]
    told_false = start.clone()
    told_false.learn(decision, right=False)
    for label in wrong:
        told = start.clone()
        told.learn(decision, label=label)
        assert state(told) == state(told_false), label
        many = start.clone()
        many.learn_many([decision], labels=[label])
        assert state(many) == state(told_false), label
    told_true, told_label = start.clone(), start.clone()
    told_true.learn(decision, right=True)
    told_label.learn(decision, label=decision.label)
    assert state(told_true) == state(told_label)


@pytest.mark.parametrize("right", [1, 0, "yes", 1.0, [True], np.array([True])], ids=repr)
def test_right_must_be_true_or_false(right: Any) -> None:
    learner = trained("bpa")
    assert "right is" in unchanged_by(learner, lambda: learner.learn(learner.decide(X[0], id="r"), right=right))


def test_right_and_label_together_or_neither_are_refused() -> None:
    learner = trained("bpa")
    decision = learner.decide(X[0])
    assert "either" in unchanged_by(learner, lambda: learner.learn(decision))
    assert "either" in unchanged_by(learner, lambda: learner.learn(decision, right=True, label="ant"))
    assert "either" in unchanged_by(learner, lambda: learner.learn_many([decision]))
    assert "either" in unchanged_by(learner, lambda: learner.learn_many([decision], right=[True], labels=["ant"]))


@pytest.mark.parametrize("label", ["yak", 0, None, math.nan, ["ant"], b"ant"], ids=repr)
def test_an_unknown_label_is_refused_and_the_classes_are_listed(label: Any) -> None:
    learner = trained("bpa")
    decision = learner.decide(X[0])
    if label is not None:
        sentence = unchanged_by(learner, lambda: learner.learn(decision, label=label))
        assert repr(label) in sentence
        assert "'ant', 'bee'" in sentence
    assert repr(label) in unchanged_by(learner, lambda: learner.teach(X[:2], ["ant", label]))


def test_true_is_not_the_name_of_class_one() -> None:
    """Class names are strings or whole numbers, and True where right was meant must not pass for class 1."""
    learner = fresh("bpa", classes=3)
    decision = learner.decide(X[0])
    unchanged_by(learner, lambda: learner.learn(decision, label=True))
    unchanged_by(learner, lambda: learner.teach(X[:2], [True, False]))


def test_numpy_labels_are_class_names() -> None:
    numbers, words = fresh("bpa", classes=3), fresh("bpa")
    for label in (np.int64(2), np.uint8(1)):
        numbers.learn(numbers.decide(X[0]), label=label)  # type: ignore[arg-type]
    numbers.teach(X[:2], np.array([2, 0]))
    words.learn(words.decide(X[0]), label=np.str_("bee"))
    words.teach(X[:2], np.array(["ant", "bee"]))
    words.learn_many(words.decide_many(X[:2]), labels=np.array(["ant", "bee"]))
    words.learn_many(words.decide_many(X[:2]), right=np.array([True, False]))
    assert (numbers.learnt, words.learnt) == (2, 5)


# --- many at once ------------------------------------------------------------------------------------------------------


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
        assert words in unchanged_by(learner, action)
    learner.learn_many(decisions, right=[True, False, True])
    assert "already" in unchanged_by(learner, lambda: learner.learn_many(decisions[2:], right=[True]))


def test_learn_many_learns_none_where_a_later_x_is_not_a_number() -> None:
    learner = trained("banditron")
    good, bad = learner.decide_many(X[:2])
    spoilt = bad._replace(x=np.full(6, np.nan, dtype=np.float32))
    assert "nan" in unchanged_by(learner, lambda: learner.learn_many([good, spoilt], right=[True, True]))
    learner.learn(good, right=True)


def test_learn_many_learns_none_where_a_later_x_is_too_long() -> None:
    learner = Learner("gaptron", NAMES, rate=0.1, exploration=0.2, max_norm=1.0)
    good, bad = learner.decide_many(X[:2])
    long = bad._replace(x=np.full(6, 2.0, dtype=np.float32))
    assert "at most 1" in unchanged_by(learner, lambda: learner.learn_many([good, long], right=[True, True]))


def test_learn_many_learns_none_where_scores_overflow_on_the_way() -> None:
    """Each of these rows is usable when decided; after one step of 1/P = 2e4 the next score is not a float32."""
    learner = Learner("banditron", 2, features=1, space="dense", exploration=1e-4, seed=1)
    identity = next(i for i in range(100_000) if (one := learner.decide([5e17], id=i)).label != one.greedy)
    decisions = [learner.decide([5e17], id=identity), learner.decide([5e17], id="next")]
    unchanged_by(learner, lambda: learner.learn_many(decisions, right=[True, True]))


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
        unchanged_by(learner, lambda: learner.learn_many([*decisions, decisions[0]], right=[True] * 41))  # noqa: B023
        other = last._replace(x=np.array([np.nan, 0, 0, 0, 0, 0], dtype=np.float32))
        unchanged_by(learner, lambda: learner.learn_many([*decisions, other], right=[True] * 41))  # noqa: B023
        rows_too_long = np.concatenate([np.tile(np.eye(6)[0], (40, 1)), 1e160 * np.eye(6)[:1]])
        double = fresh(name, features=6, space=space, dtype="float64", **options)
        for step in range(steps):
            double.learn(double.decide(np.eye(6)[1 + step % 5]), right=True)
        unchanged_by(double, lambda: double.teach(rows_too_long, ["ant"] * 41))  # noqa: B023


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
    unchanged_by(learner, lambda: learner.decide_many(bad))
    unchanged_by(learner, lambda: learner.teach(bad, ["ant", "bee"]))


# --- bad x as the first x ----------------------------------------------------------------------------------------------

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
        unchanged_by(learner, lambda learner=learner: action(learner))  # type: ignore[misc]
        assert learner.features is None
        assert learner.decide(form).id == 0


# --- teaching ----------------------------------------------------------------------------------------------------------


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
    taught, told = Learner("gaptron", NAMES, **options), Learner("gaptron", NAMES, **options)
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
        by_playing = learner.clone()
        decision = by_playing.decide(x)
        if decision.propensity < 1.0:  # the steps before may have opened the choice again
            continue
        by_playing.learn(decision, label=NAMES[label])
        learner.teach([x], [NAMES[label]])
        assert np.array_equal(learner.weights, by_playing.weights)


@pytest.mark.parametrize("name", [name for name in BANDIT if registry()[name].teach is None])
def test_what_is_taught_by_playing_is_one_of_the_steps_that_playing_can_take(name: str) -> None:
    """Over 300 ids every label is played (exploration at least .3), so the taught step must be among those seen."""
    options: dict[str, Any] = {"exploration": 0.3} if "exploration" in registry()[name].parameters else {}
    start = trained(name, dtype="float64", **options)
    for row in range(30, 34):
        possible = set()
        for identity in range(300):
            learner = start.clone()
            learner.learn(learner.decide(X[row], id=f"try {identity}"), label=NAMES[Y[row]])
            possible.add(learner.weights.tobytes())
        taught = start.clone()
        taught.teach(X[row : row + 1], [NAMES[Y[row]]])
        assert taught.weights.tobytes() in possible


@pytest.mark.parametrize("name", registry())
def test_teaching_row_by_row_is_teaching_the_table(name: str) -> None:
    whole = trained(name)
    single = whole.clone()
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
        assert words in unchanged_by(learner, action)
    unchanged_by(learner, lambda: learner.teach(X[:2], [["ant"], ["bee"]]))  # type: ignore[list-item]
    unchanged_by(learner, lambda: learner.teach(X[:2], 5))  # type: ignore[arg-type]
    unchanged_by(learner, lambda: learner.teach(X[:2], None))  # type: ignore[arg-type]


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


# --- new classes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("name", "options", "heads"),
    [("bpa", {}, 6), ("conservative-ova", {"coding": "all-pairs"}, 15), ("offset-tree", {}, 5)],
)
def test_a_new_class_leaves_what_was_learnt_where_it_was(
    name: str, options: dict[str, Any], heads: int, space: str
) -> None:
    learner = trained(name, space=space, bias=True, **options)
    weights, scores = learner.weights, learner.scores(X[0])
    learner.add_class("fox")
    assert learner.weights.shape == (heads, 7)
    assert np.array_equal(learner.weights[: len(weights)], weights)
    assert not learner.weights[len(weights) :].any()
    assert np.array_equal(learner.scores(X[0])[: len(scores)], scores)


def test_a_new_class_is_tried_at_once_where_all_scores_are_negative() -> None:
    learner = Learner("bpa", 2, features=1, space="dense", exploration=0.0, variant="PA")
    for _ in range(6):
        learner.learn(learner.decide([1.0]), right=False)
    assert (learner.scores([1.0]) < 0.0).all()
    learner.add_class("new")
    assert learner.best([1.0]) == "new"


def test_many_new_classes_are_the_classes_given_at_once() -> None:
    """A tree that grew has the shape of one made whole: after the same steps on all six classes they agree."""
    for name in registry():
        grown, whole = fresh(name, classes=["ant", "bee"]), fresh(name, classes=[*NAMES, "fox"])
        grown.decide(X[0], id="the form of x")
        for label in [*NAMES[2:], "fox"]:
            grown.add_class(label)
        assert grown.classes == whole.classes
        labels = [[*NAMES, "fox"][place % 6] for place in range(40)]
        for learner in (grown, whole):
            for x, label in zip(X, labels, strict=True):
                learner.learn(learner.decide(x), label=label)
        assert np.array_equal(grown.weights, whole.weights), name


def test_a_class_is_added_before_any_x() -> None:
    learner = fresh("conservative-ova", classes=2)
    learner.add_class(2)
    learner.learn(learner.decide(X[0]), label=2)
    assert learner.weights.shape == (3, 6)


def test_a_coding_matrix_has_no_row_for_a_new_class() -> None:
    learner = Learner("conservative-ova", 3, coding=[[1, -1], [-1, 1], [-1, -1]])
    learner.learn(learner.decide(X[0]), right=True)
    assert "coding matrix has 3 rows" in unchanged_by(learner, lambda: learner.add_class(3))
    assert learner.classes == (0, 1, 2)


@pytest.mark.parametrize("name", ["ant", True, None, 1.5, ["fox"], b"fox"], ids=repr)
def test_a_class_that_is_there_or_has_no_name_is_refused(name: Any) -> None:
    learner = trained("bpa")
    assert repr(name) in unchanged_by(learner, lambda: learner.add_class(name))


def test_an_old_decision_is_learnt_by_a_tree_that_has_grown() -> None:
    """The played class may sit on another leaf by now; its path is learnt there."""
    for label in range(5):
        learner = trained("offset-tree")
        decision = next(one for i in range(2000) if (one := learner.decide(X[33], id=f"{i}")).label == NAMES[label])
        for extra in range(4):
            learner.add_class(extra)
        learner.learn(decision, right=True)
        assert np.isfinite(learner.weights).all()
        assert learner.learnt == 31


# --- making one --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classes",
    [
        1,
        0,
        -3,
        [],
        ["only"],
        [7],
        True,
        "abc",
        None,
        2.5,
        ["a", "a"],
        [1, 1],
        ["a", 1.5],
        ["a", None],
        [True, False],
        [["a"]],
    ],
    ids=repr,
)
def test_classes_that_are_none_are_refused(classes: Any) -> None:
    sentence = refused(lambda: Learner("bpa", classes))
    assert "class" in sentence


def test_a_refused_number_of_classes_is_named() -> None:
    assert "-3" in refused(lambda: Learner("bpa", -3))
    assert "'a'" in refused(lambda: Learner("bpa", ["a", "b", "a"]))
    assert "1.5" in refused(lambda: Learner("bpa", ["a", 1.5]))  # type: ignore[list-item]


def test_classes_may_be_any_iterable_of_names() -> None:
    for classes in (("a", "b"), {"a": 1, "b": 2}, (name for name in "ab"), np.array(["a", "b"])):
        assert Learner("bpa", classes).classes == ("a", "b")
    assert Learner("bpa", np.arange(3, 5)).classes == (3, 4)
    assert Learner("bpa", np.int64(3)).classes == (0, 1, 2)  # type: ignore[arg-type]
    assert Learner("bpa", [1, "1"]).classes == (1, "1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "float16"}, "'float16'"),
        ({"dtype": "int8"}, "'int8'"),
        ({"dtype": None}, "None"),
        ({"space": "kernel"}, "'kernel'"),
        ({"space": 3}, "3"),
        ({"features": 0}, "0"),
        ({"features": -2}, "-2"),
        ({"features": 2.5}, "2.5"),
        ({"features": True}, "True"),
        ({"features": "6"}, "'6'"),
        ({"hash_bits": 0}, "0"),
        ({"hash_bits": 31}, "31"),
        ({"hash_bits": 2.0}, "2.0"),
        ({"hash_bits": True}, "True"),
        ({"seed": -1}, "-1"),
        ({"seed": 1.0}, "1.0"),
        ({"seed": True}, "True"),
        ({"seed": 2**63}, str(2**63)),
        ({"seed": None}, "None"),
        ({"seed": "0"}, "'0'"),
        ({"bias": "no"}, "'no'"),
        ({"bias": 2}, "2"),
        ({"text": "no"}, "'no'"),
        ({"text": True, "features": 5}, "text"),
        ({"text": True, "space": "dense"}, "text"),
        ({"hash_bits": 5, "space": "dense"}, "hash_bits"),
    ],
    ids=repr,
)
def test_a_common_option_out_of_range_is_refused_with_its_value(options: dict[str, Any], words: str) -> None:
    sentence = refused(lambda: Learner("bpa", NAMES, **options))
    assert words in sentence
    assert next(iter(options)) in sentence


def test_numpy_whole_numbers_are_taken_wherever_whole_numbers_are() -> None:
    learner = Learner("bpa", 3, features=np.int64(6), seed=np.int64(7))  # type: ignore[arg-type]
    assert learner.seed == 7
    assert learner.decide(X[0]).label in (0, 1, 2)
    assert Learner("bpa", 3, hash_bits=np.int64(4)).features == 16  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["bandtron", "", 5, None])
def test_a_rule_that_is_none_is_refused(rule: Any) -> None:
    assert repr(rule) in refused(lambda: Learner(rule, NAMES))


def outside(interval: str) -> list[float]:
    """Numbers that an interval leaves out: beyond both ends, the ends themselves where they are open, and no numbers."""
    low, high = (float(part) for part in interval[1:-1].split(","))
    found = [math.nan, -math.inf, math.inf, low - 1.0, math.nextafter(low, -math.inf)]
    if interval[0] == "(":
        found.append(low)
    if math.isfinite(high):
        found += [high + 1.0, math.nextafter(high, math.inf)]
        if interval[-1] == ")":
            found.append(high)
    return found


REALS = [
    (rule, name, parameter)
    for rule, known in registry().items()
    for name, parameter in known.parameters.items()
    if isinstance(parameter, Real)
]
NAMED = [
    (rule, name, parameter)
    for rule, known in registry().items()
    for name, parameter in known.parameters.items()
    if isinstance(parameter, OneOf)
]
FLAGS = [
    (rule, name)
    for rule, known in registry().items()
    for name, parameter in known.parameters.items()
    if isinstance(parameter, Flag)
]


def test_every_kind_of_parameter_is_tried() -> None:
    tried = {(rule, name) for rule, name, _ in [*REALS, *NAMED]} | set(FLAGS)
    assert tried == {(rule, name) for rule, known in registry().items() for name in known.parameters}
    assert all((REALS, NAMED, FLAGS))


@pytest.mark.parametrize(("rule", "name", "parameter"), REALS)
def test_a_number_outside_its_range_is_refused_with_name_value_and_range(rule: str, name: str, parameter: Real) -> None:
    for value in outside(parameter.interval):
        sentence = refused(lambda value=value: fresh(rule, **{name: value}))  # type: ignore[misc]
        assert sentence == f"{name} is {value}, but must be in {parameter.interval}"
    wrong: list[Any] = ["0.1", True, [0.1], 1j, np.array([0.1]), *([] if parameter.optional else [None])]
    for value in wrong:
        sentence = refused(lambda value=value: fresh(rule, **{name: value}))  # type: ignore[misc]
        assert sentence.startswith(f"{name} is {value!r}, but must be a number in {parameter.interval}")


def test_a_whole_number_too_large_for_a_float_is_refused() -> None:
    for rule, name, _ in REALS:
        assert name in refused(lambda rule=rule, name=name: fresh(rule, **{name: 10**400}))  # type: ignore[misc]


@pytest.mark.parametrize(("rule", "name", "parameter"), REALS)
def test_a_closed_end_of_a_range_is_taken(rule: str, name: str, parameter: Real) -> None:
    low, high = (float(part) for part in parameter.interval[1:-1].split(","))
    inside = math.nextafter(low, math.inf) if math.isinf(high) else 0.5 * (low + high)
    ends = [low] * (parameter.interval[0] == "[") + [high] * (parameter.interval[-1] == "]")
    for value in [inside, np.float32(0.25 * high) if math.isfinite(high) else 2, *ends]:
        assert fresh(rule, **{name: value}).settings[name] == value


@pytest.mark.parametrize(("rule", "name", "parameter"), NAMED)
def test_a_way_that_is_not_there_is_refused_with_all_that_are(rule: str, name: str, parameter: OneOf) -> None:
    for value in ("nonsense", "", 7, 1.0, True):
        sentence = refused(lambda value=value: fresh(rule, **{name: value}))  # type: ignore[misc]
        assert sentence.startswith(f"{name} is {value!r}, but must be one")
        assert all(way in sentence for way in parameter.names)
    for value in parameter.names:
        assert Learner(rule, NAMES, **{**_settled(rule), name: value}).settings[name] == value


def _settled(rule: str) -> dict[str, Any]:
    return {"rate": 0.1, "exploration": 0.1} if rule == "gaptron" else {}


@pytest.mark.parametrize(("rule", "name"), FLAGS)
def test_a_flag_is_true_or_false(rule: str, name: str) -> None:
    wrong: list[Any] = ["yes", "", 2, None, [], 0.5, np.array([1, 0])]
    for value in wrong:
        assert f"{name} is {value!r}" in refused(lambda value=value: fresh(rule, **{name: value}))  # type: ignore[misc]


@pytest.mark.parametrize("rule", registry())
def test_an_unknown_parameter_is_refused_and_the_nearest_is_named(rule: str) -> None:
    for name in registry()[rule].parameters:
        misspelt = name + name[-1]
        sentence = refused(lambda misspelt=misspelt: fresh(rule, **{misspelt: 1}))  # type: ignore[misc]
        assert f"{misspelt!r}; did you mean {name!r}?" in sentence


@pytest.mark.parametrize(("misspelt", "meant"), [("feature", "features"), ("sed", "seed"), ("hashbits", "hash_bits")])
def test_a_misspelt_common_option_is_recognised_too(misspelt: str, meant: str) -> None:
    assert f"did you mean {meant!r}?" in refused(lambda: fresh("banditron", **{misspelt: 1}))


def test_parameters_that_do_not_fit_together_are_refused() -> None:
    bad: list[tuple[str, Callable[[], object]]] = [
        ("horizon and radius and max_norm", lambda: Learner("gaptron", NAMES)),
        ("max_norm", lambda: Learner("gaptron", NAMES, setting="full")),
        ("rate times decay", lambda: Learner("policy-gradient", NAMES, rate=0.5, decay=2.0)),
        (
            "guess_if_all_negative",
            lambda: Learner("conservative-ova", 5, coding="all-pairs", guess_if_all_negative=True),
        ),
        ("2 rows, but there are 5", lambda: Learner("conservative-ova", 5, coding=[[1, -1], [-1, 1]])),
        ("-1, 0 and 1", lambda: Learner("conservative-ova", 2, coding=[[1, 2], [-1, 1]])),
        ("coding", lambda: Learner("conservative-ova", 2, coding=[[1], [-1, 1]])),
        ("coding", lambda: Learner("conservative-ova", 2, coding=[[], []])),
    ]
    for words, action in bad:
        assert words in refused(action)


@pytest.mark.parametrize(
    "options",
    [
        {"variant": Variant.PA_II},
        {"aggressiveness": Fraction(1, 3)},
        {"aggressiveness": np.float32(0.3)},
        {"aggressiveness": np.int64(2)},
    ],
    ids=repr,
)
def test_a_parameter_of_any_kind_that_is_taken_is_saved_and_loaded(tmp_path: Path, options: dict[str, Any]) -> None:
    learner = Learner("bpa", 3, **options)
    learner.learn(learner.decide(X[0]), right=True)
    learner.save(tmp_path / "learner.onebit")
    loaded = onebit.load(tmp_path / "learner.onebit")
    for x in X[:10]:
        loaded.learn(loaded.decide(x), right=False)
        learner.learn(learner.decide(x), right=False)
    assert np.array_equal(loaded.weights, learner.weights)
    assert loaded.settings == learner.settings


def test_a_class_name_that_is_no_text_is_refused() -> None:
    """It could be neither saved nor sent."""
    assert "\\ud800" in refused(lambda: Learner("bpa", ["half \ud800 a character", "b"]))
    learner = trained("bpa")
    unchanged_by(learner, lambda: learner.add_class("half \ud800 a character"))


# --- what there is to see ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry())
def test_before_anything_was_learnt_every_class_is_possible_and_no_score_differs(name: str) -> None:
    learner = fresh(name)
    chances = learner.probabilities(X[0])
    assert list(chances) == NAMES
    assert sum(chances.values()) == pytest.approx(1.0)
    if name not in ("bandit-perceptron", "offset-tree"):
        assert chances == pytest.approx(dict.fromkeys(NAMES, 0.2))
    assert min(chances.values()) > 0.0
    assert learner.best(X[0]) in NAMES
    assert not learner.scores(X[0]).any()
    assert learner.decide(X[0]).id == 0
    assert learner.learnt == 0


def test_a_learner_that_has_seen_nothing_has_no_weights() -> None:
    learner = fresh("bpa")
    assert "no x yet" in refused(lambda: learner.weights)
    assert learner.features is None
    assert fresh("bpa", features=6, space="dense").weights.shape == (5, 6)
    assert fresh("bpa", features=6, space="sparse", bias=True).weights.shape == (5, 7)


def test_features_that_were_given_are_known() -> None:
    assert fresh("bpa", features=6).features == 6
    assert fresh("bpa", hash_bits=3).features == 8


def test_weights_are_a_copy() -> None:
    learner = trained("bpa")
    learner.weights[:] = 1e9
    assert abs(learner.weights).max() < 1e3


def test_a_learner_says_what_it_is() -> None:
    learner = Learner("bpa", ["no", "yes"], aggressiveness=0.5, seed=3)
    learner.learn(learner.decide(X[0]), right=True)
    assert repr(learner) == "BPA(classes=['no', 'yes'], aggressiveness=0.5, seed=3), 1 feedbacks learnt"
    assert repr(onebit.Perceptron(classes=2)) == "Perceptron(classes=[0, 1], seed=0), 0 feedbacks learnt"


def test_settings_are_the_defaults_and_what_was_given() -> None:
    assert Learner("bpa", 2, variant="PA").settings == {
        "exploration": 0.001,
        "variant": "PA",
        "aggressiveness": 0.01,
    }


def test_every_learner_class_is_in_the_package_and_nothing_else_is() -> None:
    for rule in registry().values():
        assert getattr(onebit, rule.title) is learner_class(rule)
        assert rule.title in dir(onebit)
    with pytest.raises(AttributeError, match="Bandtron"):
        _ = onebit.Bandtron


# --- x that is too long ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_gaptron_refuses_what_is_longer_than_it_was_told(space: str, bias: bool) -> None:
    options: dict[str, Any] = {"rate": 0.1, "exploration": 0.1, "max_norm": 1.0, "space": space, "bias": bias}
    learner = Learner("gaptron", NAMES, features=6, **options)
    learner.learn(learner.decide(X[0]), right=True)
    decision = learner.decide(X[1])
    for length in (1.2, 5.0):
        long = length * X[1]
        words = f"x has length {length:g}, but this learner takes at most 1"
        assert unchanged_by(learner, lambda long=long: learner.decide(long)).endswith(words)  # type: ignore[misc]
        table = np.stack([X[0], long])
        assert words in unchanged_by(learner, lambda table=table: learner.decide_many(table))  # type: ignore[misc]
        sentence = unchanged_by(learner, lambda table=table: learner.teach(table, ["ant"] * 2))  # type: ignore[misc]
        assert sentence == f"row 1: {words}"
        kept = learner.clone().decide(X[1])._replace(x=long.astype(np.float32)) if space == "dense" else None
        if kept is not None:
            altered = decision._replace(x=kept.x)
            assert words in unchanged_by(learner, lambda altered=altered: learner.learn(altered, right=True))  # type: ignore[misc]
    learner.learn(decision, right=True)


def test_rows_scaled_to_the_longest_length_are_not_refused_for_their_rounding() -> None:
    learner = Learner("gaptron", NAMES, rate=0.1, exploration=0.1, max_norm=0.3)
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
        sentence = unchanged_by(learner, action)
        assert "1e+300" in sentence
        assert "4" in sentence
        assert "float32" in sentence or "float64" in sentence


def test_rows_whose_square_is_no_float32_are_refused_with_what_to_do() -> None:
    learner = trained("bpa")
    sentence = unchanged_by(learner, lambda: learner.decide(X[0] * 1e25))
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
    refused(lambda: Learner("policy-gradient", 2, rate=1e38))
    learner = Learner("policy-gradient", 2, features=1, space="dense", rate=1e9)
    learner.learn(learner.decide([1e18]), right=True)
    assert np.isfinite(learner.weights).all()


def test_float64_weights_take_the_steps_that_float32_weights_cannot() -> None:
    learner = Learner("perceptron", 2, features=1, space="dense", dtype="float64")
    decision = learner.decide([1e39])
    learner.learn(decision, label=1 - int(decision.label))
    assert abs(learner.weights).tolist() == [[1e39], [1e39]]


# --- many threads ------------------------------------------------------------------------------------------------------


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
    assert "already" in unchanged_by(learner, lambda: learner.learn(decisions[0], right=True))


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
