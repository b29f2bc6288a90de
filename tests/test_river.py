"""`onebit.river` against river itself: its own checks, its evaluation, and its data sets as streams."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from river import checks, compose, datasets, evaluate, feature_extraction, metrics, preprocessing
from river.datasets import synth

import onebit
from onebit.learner.classes import to_class_name
from onebit.river import RiverClassifier, stream

pytestmark = pytest.mark.long

MODELS = [RiverClassifier(), RiverClassifier("banditron", seed=1), RiverClassifier(feedback="label")]
CHECKS = [(model, check) for model in MODELS for check in checks.yield_checks(model)]


@pytest.mark.parametrize(("model", "check"), CHECKS, ids=lambda one: getattr(one, "__name__", ""))
def test_the_checks_of_river(model: RiverClassifier, check: Callable[[RiverClassifier], None]) -> None:
    check(model.clone())


def test_none_of_the_checks_is_skipped() -> None:
    assert len(CHECKS) > 100
    assert not any(model._unit_test_skips() for model in MODELS)


# --- evaluation --------------------------------------------------------------------------------------------------------


def in_order_of(made: onebit.Stream, labels: list[Any]) -> tuple[Any, ...]:
    """The labels in the order of the classes of a stream."""
    return tuple(sorted(set(labels), key=lambda label: made.data(0).classes.index(to_class_name(label))))


@pytest.mark.parametrize("rule", ["auto", "bpa", "thompson"])
def test_to_evaluate_is_to_run(rule: str) -> None:
    """The same mistakes, those of the labels played and those of the labels thought best."""
    made = stream(datasets.Phishing())
    pairs = list(datasets.Phishing())
    result = onebit.run(rule, made, seed=3)
    classes = in_order_of(made, [y for _, y in pairs])
    model = RiverClassifier(rule, classes=classes, features=tuple(pairs[0][0]), seed=3)
    accuracy = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    assert model.mistakes == round(result.error * result.rounds)
    assert accuracy.get() == pytest.approx(1.0 - result.greedy_error)


def test_to_evaluate_sparse_rows_is_to_run() -> None:
    pairs = [({name: value for name, value in x.items() if value}, y) for x, y in datasets.Phishing().take(300)]
    made = stream(pairs)
    model = RiverClassifier(classes=in_order_of(made, [y for _, y in pairs]), seed=3)
    evaluate.progressive_val_score(iter(pairs), model, metrics.Accuracy())
    assert isinstance(made.data(0).X, list)
    assert model.mistakes == round(onebit.run("auto", made, seed=3).error * 300)


def test_a_pipeline_ends_in_it() -> None:
    texts = [("late goal wins cup", "sport"), ("vote in parliament", "politics"), ("faster chip", "tech")] * 30
    model: Any = compose.Pipeline(feature_extraction.BagOfWords(), RiverClassifier(seed=0))
    for text, topic in texts:
        model.learn_one(text, topic)
    assert model.predict_one("a goal in the cup") == "sport"
    assert model.predict_proba_one("a goal in the cup").keys() == {"sport", "politics", "tech"}
    scaled = preprocessing.StandardScaler() | RiverClassifier("linucb", seed=0)
    score = evaluate.progressive_val_score(datasets.ImageSegments().take(700), scaled, metrics.Accuracy())
    assert score.get() > 0.5


def learner_of(model: RiverClassifier) -> onebit.Learner | None:
    """The learner that it has by now."""
    return model.learner


# --- classes and features ----------------------------------------------------------------------------------------------


def test_classes_come_as_they_are_met() -> None:
    model = RiverClassifier("bpa", seed=0)
    assert model.predict_one({"a": 1.0}) is None
    model.learn_one({"a": 1.0}, "x")
    assert model.predict_one({"a": 1.0}) == "x"
    assert learner_of(model) is None
    for label in ("y", "z", "y"):
        model.learn_one({"a": 1.0}, label)
    learner = learner_of(model)
    assert learner is not None
    assert learner.classes == (0, 1, 2)
    assert learner.learnt == 2  # the two rounds in which there was something to choose from


def test_a_label_is_heard_only_where_it_is_to_be() -> None:
    """Two streams with other labels, right and wrong in the same rounds, leave the same learner."""
    bandit = [RiverClassifier("bpa", classes=("a", "b", "c"), seed=2) for _ in range(2)]
    for round_ in range(60):
        x = {"p": float(round_ % 3), "q": 1.0}
        first, second = (int(copy.deepcopy(model.learner).decide(x).label) for model in bandit if model.learner)
        assert first == second
        right = round_ % 3 == first
        for model, step in zip(bandit, (1, 2), strict=True):
            model.learn_one(x, "abc"[first if right else (first + step) % 3])
    one, other = (model.learner.weights for model in bandit if model.learner)
    assert np.array_equal(one, other)
    taught = RiverClassifier("passive-aggressive", classes=("a", "b"), feedback="label")
    taught.learn_one({"p": 1.0}, "b")
    assert taught.predict_one({"p": 1.0}) == "b"
    assert taught.mistakes == 0


def test_features_that_are_named_make_dense_rows() -> None:
    model = RiverClassifier("bpa", classes=(False, True), features=("a", "b", 3), seed=0)
    model.learn_one({"b": 1.0, "a": 2.0}, True)
    model.learn_one({3: 1.0}, True)
    assert model.learner is not None
    assert model.learner.features == 3
    assert model.learner.runtime.features.space == "dense"
    before = model.learner.to_bytes()
    with pytest.raises(onebit.InputError, match="feature 'c' is not one of `features`"):
        model.learn_one({"a": 1.0, "c": 1.0}, True)
    assert model.learner.to_bytes() == before


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rule": "bandtron"}, "did you mean 'banditron'"),
        ({"rule": "perceptron"}, "Perceptron learns from labels"),
        ({"feedback": "much"}, "must be 'bandit' or 'label'"),
        ({"options": {"seed": 3}}, "options has 'seed', which is set by seed"),
        ({"options": 3}, "options is 3, but must be a dict"),
        ({"features": ("p", "p")}, "must be distinct names"),
        ({"features": ()}, "must be distinct names, at least one"),
        ({"rule": "bpa", "options": {"agressiveness": 1.0}}, "did you mean 'aggressiveness'"),
    ],
)
def test_what_it_cannot_be_is_said_at_once(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(onebit.InputError, match=sentence):
        RiverClassifier(**given)


def test_a_row_that_is_refused_changes_nothing() -> None:
    model = RiverClassifier("bpa", classes=("a", "b"), seed=0)
    model.learn_one({"p": 1.0}, "a")
    assert model.learner is not None
    before = model.learner.to_bytes()
    for bad in ({"p": "red"}, {"p": float("nan")}, [1.0]):
        with pytest.raises(onebit.InputError):
            model.learn_one(bad, "c")  # type: ignore[arg-type]
    with pytest.raises(onebit.InputError, match=r"y is \['a'\], but must be a single, hashable label"):
        model.learn_one({"p": 1.0}, ["a"])
    assert model.learner.to_bytes() == before
    taught = RiverClassifier("bpa", feedback="label", seed=0)
    taught.learn_one({"p": 1.0}, "a")
    for label in ("b", "c"):
        with pytest.raises(onebit.InputError, match="feature 'p' is nan"):
            taught.learn_one({"p": float("nan")}, label)
        taught.learn_one({"p": 1.0}, label)
    assert taught.learner is not None
    assert taught.learner.classes == (0, 1, 2)


def test_a_rule_without_a_belief_has_no_probabilities() -> None:
    with pytest.raises(NotImplementedError, match="BPA has scores but no beliefs"):
        RiverClassifier("bpa").predict_proba_one({"a": 1.0})


# --- streams -----------------------------------------------------------------------------------------------------------


def test_a_data_set_is_a_stream_with_its_name_and_its_order() -> None:
    made = stream(datasets.ImageSegments())
    assert made.name == "ImageSegments"
    assert made.order == "file"
    assert made.rounds == 2310
    assert made.data(0).X.shape == (2310, 18)
    assert stream(datasets.Phishing(), order="shuffle", delay=3).order == "shuffle"
    assert stream(datasets.Phishing()).data(0).classes == ("False", "True")
    assert onebit.compare(stream(datasets.ImageSegments(), rounds=200), ["bpa"], runs=1).results


def test_what_has_no_end_needs_rounds() -> None:
    assert stream(synth.Agrawal(seed=1), rounds=50).rounds == 50
    assert stream(datasets.Phishing(), rounds=2000).rounds == 2000  # again from the start
    with pytest.raises(onebit.InputError, match="Agrawal is endless: give rounds"):
        stream(synth.Agrawal(seed=1))
    with pytest.raises(onebit.InputError, match="TrumpApproval is for regression"):
        stream(datasets.TrumpApproval())


@pytest.mark.parametrize(
    ("given", "rounds", "sentence"),
    [
        ([], None, "pairs has no rows"),
        (3, None, "got 3"),
        ([1, 2], None, "row 0 of pairs is 1, but must be a pair"),
        ([({"a": 1}, "x"), ("text", "y")], None, "row 1 of pairs: x is 'text', but must be a dict"),
        ([({"a": 1}, "x"), ({"a": "red"}, "y")], None, "row 1 of pairs: feature 'a' is 'red', but must be a number"),
        ([({"a": 1}, "x")], 0, "rounds is 0, but must be a whole number"),
    ],
)
def test_what_is_no_data_set_is_refused(given: Any, rounds: int | None, sentence: str) -> None:
    with pytest.raises(onebit.InputError, match=sentence):
        stream(given, rounds=rounds)
