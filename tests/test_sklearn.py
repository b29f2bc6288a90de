"""`onebit.sklearn` against scikit-learn itself: its own checks, and what its users do with a classifier."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import parametrize_with_checks

import onebit
from onebit.contract.choices import fill
from onebit.contract.exploration import decide_epsilon_greedy, epsilon_greedy_probabilities
from onebit.contract.parameters import Real
from onebit.learner.state import dump_state
from onebit.rules import registry
from onebit.sklearn import BanditClassifier

pytestmark = pytest.mark.long

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]


@parametrize_with_checks([BanditClassifier(), BanditClassifier("bpa"), BanditClassifier("arow", feedback="label")])  # type: ignore[untyped-decorator]
def test_the_checks_of_scikit_learn(estimator: BanditClassifier, check: Callable[[BanditClassifier], None]) -> None:
    check(estimator)  # none of them is expected to fail


def learnt_the_same(one: onebit.Learner, other: onebit.Learner) -> bool:
    """Whether two learners are in the same state, but for who they are."""
    (first, arrays), (second, others) = dump_state(one.runtime), dump_state(other.runtime)
    differing = {name for name in first if first[name] != second[name]}
    return differing <= {"identity"} and all(np.array_equal(arrays[name], others[name]) for name in arrays)


# --- learning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["shuffle", "file"])
@pytest.mark.parametrize("rule", ["bpa", "auto"])
def test_to_fit_is_to_run(rule: str, order: str) -> None:
    result = onebit.run(rule, X, Y, seed=5, order=order, calibrate=True)
    fitted = BanditClassifier(rule, random_state=5, shuffle=order == "shuffle").fit(X, Y).learner_
    assert learnt_the_same(fitted, result.learner)
    assert fitted.describe().right == round(len(X) * (1 - result.error))


def test_to_fit_in_parts_is_to_fit() -> None:
    whole = BanditClassifier("bpa", random_state=1, shuffle=False).fit(X, Y)
    parts = BanditClassifier("bpa", random_state=1)
    for start in range(0, len(X), 40):
        parts.partial_fit(X[start : start + 40], Y[start : start + 40], classes=[2, 1, 0])
    assert learnt_the_same(parts.learner_, whole.learner_)
    assert whole.fit(X, Y).learner_.learnt == len(X)  # which begins anew


def test_with_labels_it_is_taught() -> None:
    taught = onebit.Perceptron(classes=[0, 1, 2])
    taught.teach(X, Y)
    fitted = BanditClassifier("perceptron", feedback="label", shuffle=False, random_state=0).fit(X, Y)
    assert np.array_equal(fitted.learner_.weights, taught.weights)
    assert BanditClassifier("auto", feedback="label", random_state=0).fit(X, Y).score(X, Y) > 0.9
    with pytest.raises(onebit.InputError, match="Perceptron learns from labels, not from one bit"):
        BanditClassifier("perceptron").fit(X, Y)


def test_the_first_part_names_the_classes_and_others_are_refused() -> None:
    classifier = BanditClassifier("bpa", random_state=0)
    with pytest.raises(onebit.InputError, match="the first call of partial_fit needs classes"):
        classifier.partial_fit(X, NAMES)
    classifier.partial_fit(X[:60], NAMES[:60], classes=np.unique(NAMES))
    before = classifier.learner_.to_bytes()
    with pytest.raises(onebit.InputError, match=r"y\[1\] is .*'lily'.*, but the classes are"):
        classifier.partial_fit(X[:2], ["setosa", "lily"])
    with pytest.raises(onebit.InputError, match=r"y\[0\] is 0, but the classes are"):
        classifier.partial_fit(X[:2], [0, 1])
    with pytest.raises(onebit.InputError, match="but in the first call it was"):
        classifier.partial_fit(X[:2], NAMES[:2], classes=["setosa", "lily"])
    assert classifier.learner_.to_bytes() == before


def test_a_part_with_a_row_that_is_refused_teaches_nothing() -> None:
    options = {"rate": 0.1, "exploration": 0.1, "max_norm": 100.0}
    classifier = BanditClassifier("gaptron", options=options, random_state=0).fit(X, Y)
    before = classifier.learner_.to_bytes()
    with pytest.raises(onebit.InputError, match="row 2: "):
        classifier.partial_fit(np.concatenate([X[:2], 100.0 * X[:1]]), Y[:3])
    assert classifier.learner_.to_bytes() == before


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rule": "bandtron"}, "did you mean 'banditron'"),
        ({"feedback": "some"}, "must be 'bandit' or 'label'"),
        ({"options": {"seed": 3}}, "'seed', which is set by random_state"),
        ({"options": {"classes": 3}}, "'classes', which is set by y"),
        ({"options": 3}, "options is 3, but must be a dict"),
        ({"options": {"explration": 0.1}, "rule": "banditron"}, "exploration"),
    ],
)
def test_what_it_cannot_be_is_said_when_it_is_fitted(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(onebit.InputError, match=sentence):
        BanditClassifier(**given).fit(X, Y)


# --- what scikit-learn's users do --------------------------------------------------------------------------------------


def test_labels_are_of_any_kind_and_a_learner_knows_them_by_name() -> None:
    named = BanditClassifier("linucb", random_state=0).fit(X, NAMES)
    assert set(named.predict(X)) <= set(NAMES)
    assert named.learner_.classes == ("setosa", "versicolor", "virginica")
    truth = BanditClassifier("linucb", random_state=0).fit(X, Y == 0)
    assert truth.predict(X).dtype == bool
    assert truth.learner_.classes == ("False", "True")


def test_columns_of_a_frame_are_known_by_name() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    classifier = BanditClassifier("linucb", random_state=0).fit(frame, NAMES)
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="same order"):
        classifier.predict(frame[["b", "a", "c", "d"]])


def test_a_seed_may_be_a_state_or_none() -> None:
    state = np.random.RandomState(7)
    first, second = (BanditClassifier("bpa", random_state=state).fit(X, Y).learner_.runtime.seed for _ in range(2))
    assert first != second
    assert first == BanditClassifier("bpa", random_state=np.random.RandomState(7)).fit(X, Y).learner_.runtime.seed
    assert BanditClassifier("bpa").fit(X, Y).learner_.runtime.seed >= 0


def test_texts_go_through_a_pipeline() -> None:
    texts = ["late goal wins cup", "vote in parliament", "faster chip for phones"] * 30
    labels = ["sport", "politics", "tech"] * 30
    pipeline = make_pipeline(TfidfVectorizer(), BanditClassifier(random_state=0)).fit(texts, labels)
    assert pipeline.predict(["a goal in the cup", "a new chip"]).tolist() == ["sport", "tech"]
    assert np.allclose(pipeline.predict_proba(texts[:5]).sum(axis=1), 1.0)


def test_sparse_rows_are_sparse_and_may_be_predicted_dense() -> None:
    classifier = BanditClassifier("bpa", random_state=0).fit(csr_matrix(X), Y)
    assert classifier.learner_.runtime.features.space == "sparse"
    assert np.array_equal(classifier.predict(csr_matrix(X)), classifier.predict(X))


def test_it_is_validated_searched_and_cloned() -> None:
    pipeline = make_pipeline(Normalizer(), BanditClassifier("linucb", random_state=0))
    grid = {"banditclassifier__options": [{"ridge": 0.1}, {"ridge": 1e9}]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, Y)
    assert search.best_params_ == {"banditclassifier__options": {"ridge": 0.1}}
    fresh = clone(search.best_estimator_)[-1]
    assert fresh.options == {"ridge": 0.1}
    assert not hasattr(fresh, "learner_")
    assert cross_val_predict(pipeline, X, Y, method="predict_proba").shape == (150, 3)


def test_it_goes_to_other_processes() -> None:
    classifier = BanditClassifier("bpa", random_state=0)
    here = cross_val_score(classifier, X, Y, cv=2)
    assert np.array_equal(cross_val_score(classifier, X, Y, cv=2, n_jobs=2), here)
    fitted = classifier.fit(X, Y)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X), fitted.predict(X))
    assert again.partial_fit(X, Y).learner_.to_bytes() == fitted.partial_fit(X, Y).learner_.to_bytes()


class Nudged(NamedTuple):
    classes: int
    exploration: Annotated[float, Real("(0, 1)", "the probability of exploring")] = 0.1


def nudge(params: Any, given: Any, choice: Any, revealed: int, step: Any) -> float:
    fill(step, params.classes, 0.0)
    step[choice.label] = 0.1 if revealed == choice.label else -0.1
    return 1.0


def test_a_rule_of_ones_own_is_cloned(rules_as_before: None) -> None:
    rule = onebit.Rule("nudged", "none", "a test", Nudged, decide_epsilon_greedy, nudge, epsilon_greedy_probabilities)
    copied = clone(BanditClassifier(rule, options={"exploration": 0.2}, random_state=0)).fit(X, Y)
    assert copied.learner_.settings == {"exploration": 0.2}
    assert copied.decision_function(X).shape == (150, 3)


# --- beliefs and scores ------------------------------------------------------------------------------------------------

OPTIONS: dict[str, dict[str, Any]] = {"gaptron": {"rate": 0.1, "exploration": 0.1}}


@pytest.mark.parametrize("name", registry())
def test_every_rule_has_beliefs_or_scores_or_says_why_not(name: str) -> None:
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    feedback = "label" if registry()[name].full_information is True else "bandit"
    unfitted = BanditClassifier(name, options=OPTIONS.get(name), feedback=feedback, random_state=0)
    classifier = clone(unfitted).fit(rows, NAMES)
    believes = registry()[name].belief is not None
    scores = not believes and name != "offset-tree"
    for one in (unfitted, classifier):
        assert hasattr(one, "predict_proba") == believes
        assert hasattr(one, "decision_function") == scores
    if believes or scores:
        found = classifier.predict_proba(rows) if believes else classifier.decision_function(rows)
        assert found.shape == (150, 3)
        predicted = np.searchsorted(classifier.classes_, classifier.predict(rows))
        assert np.allclose(found[np.arange(150), predicted], found.max(axis=1))


def test_the_scores_of_two_classes_are_one_number() -> None:
    classifier = BanditClassifier("bpa", random_state=0).fit(X, Y == 0)
    assert np.array_equal(classifier.decision_function(X) > 0.0, classifier.predict(X))


def test_why_there_is_no_belief_is_said() -> None:
    with pytest.raises(AttributeError) as refusal:
        _ = BanditClassifier("banditron").predict_proba
    assert "Banditron has scores but no beliefs" in str(refusal.value.__cause__)
    with pytest.raises(AttributeError) as refusal:
        _ = BanditClassifier("conservative-ova", options={"coding": "all-pairs"}).decision_function
    assert "nodes or pairs" in str(refusal.value.__cause__)
    assert hasattr(BanditClassifier("conservative-ova"), "decision_function")


# --- where the libraries are missing -----------------------------------------------------------------------------------


def test_each_bridge_says_what_it_needs() -> None:
    program = """
import sys
sys.modules.update(dict.fromkeys(["sklearn", "river", "coba"]))
import onebit
for use in (lambda: onebit.sklearn, lambda: onebit.river, lambda: onebit.coba.stream(None)):
    try:
        use()
    except onebit.MissingExtraError as error:
        print(error)
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert ["scikit-learn" in said[0], "[river]" in said[1], "[coba]" in said[2]] == [True] * 3
