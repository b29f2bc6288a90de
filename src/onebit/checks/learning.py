"""Checks of learning: from feedback in any order, once, in batches, from labels, in a run, and well."""

from __future__ import annotations

import numpy as np

from onebit.checks.examples import NAMES, WIDTH, Factory, easy_rows, played, refused, rows, spaces_of, state, trained
from onebit.engine.stream import stream
from onebit.errors import OnebitError
from onebit.experiments.run import run
from onebit.learner import copy_of


def check_feedback_out_of_order(factory: Factory) -> None:
    """Feedback may come in any order, or not at all; what is learnt depends on the order of learning alone."""
    X, y = rows(30, seed=4)
    order = np.random.default_rng(0).permutation(30)[:25]
    weights = []
    for _ in range(2):
        learner = factory(classes=NAMES)
        decisions = [learner.decide(x) for x in X]
        for index in order:
            learner.learn(decisions[index], label=NAMES[y[index]])
        assert learner.learnt == 25
        weights.append(learner.weights)
    assert np.array_equal(weights[0], weights[1])


def check_learns_once(factory: Factory) -> None:
    """The same decision twice, one of another learner, and no decision at all are refused, and nothing moves."""
    learner, other = trained(factory), trained(factory)
    x = rows(1, seed=5)[0][0]
    decision = learner.decide(x)
    learner.learn(decision, label=NAMES[0])
    named = learner.decide(x, id="one")
    learner.learn(named, label=NAMES[0])
    before = state(learner)
    assert "already" in refused(lambda: learner.learn(decision, label=NAMES[0]))
    assert "already" in refused(lambda: learner.learn(named, label=NAMES[0]))
    assert "another learner" in refused(lambda: learner.learn(other.decide(x), label=NAMES[0]))
    assert "Decision" in refused(lambda: learner.learn("decision", label=NAMES[0]))  # type: ignore[arg-type]
    assert "no class" in refused(lambda: learner.learn(learner.decide(x, id="two"), label="yak"))
    assert "either" in refused(lambda: learner.learn(learner.decide(x, id="two")))
    assert state(learner) == before


def check_batches(factory: Factory) -> None:
    """`decide_many` and `learn_many` are `decide` and `learn` one after the other; a bad batch changes nothing."""
    X, y = rows(40, seed=6)
    one = trained(factory)
    many = copy_of(one)
    singles = [one.decide(x) for x in X]
    batch = many.decide_many(X)
    assert singles == batch
    for decision, label in zip(singles, y, strict=True):
        one.learn(decision, label=NAMES[label])
    many.learn_many(batch, labels=[NAMES[label] for label in y])
    assert state(one) == state(many)
    again = many.decide_many(X[:3])
    before = state(many)
    refused(lambda: many.learn_many([again[0], batch[0]], labels=NAMES[:2]))
    refused(lambda: many.learn_many([again[0], again[0]], labels=NAMES[:2]))
    assert state(many) == before


def check_compiled_is_python(factory: Factory) -> None:
    """The compiled loop does what the same functions do as plain Python."""
    X, y = rows(60, seed=15)
    for space in spaces_of(factory):
        compiled, plain = (factory(classes=NAMES, features=WIDTH, space=space, dtype="float64") for _ in range(2))
        plain.runtime.model._loop = stream
        with np.errstate(over="ignore"):
            seen = played(plain, X, y)
        for one, other in zip(played(compiled, X, y), seen, strict=True):
            assert one[:2] == other[:2]
            assert np.allclose(one[2:4], other[2:4])
        assert np.allclose(compiled.weights, plain.weights, rtol=1e-9, atol=1e-9)


def check_run_is_steps(factory: Factory) -> None:
    """`onebit.run` is stepping by hand, bit for bit, if it calibrates as that does, and leaves the learner it was given alone."""
    X, y = rows(150, seed=16)
    labels = [NAMES[label] for label in y]
    for space in spaces_of(factory):
        learner = factory(classes=NAMES, space=space)
        before = state(copy_of(learner)) if learner.features else None
        result = run(learner, X, labels, order="file", calibrate=True)
        assert before is None or state(learner) == before
        by_hand = copy_of(learner)
        seen = played(by_hand, X, y)
        wrong = [sum(one[part] != label for one, label in zip(seen, labels, strict=True)) for part in (0, 1)]
        assert [round(result.errors[0] * 150), round(result.greedy_errors[0] * 150)] == wrong
        assert np.array_equal(result.learner.weights, by_hand.weights)
        assert state(result.learner) == state(by_hand)


def check_new_class(factory: Factory) -> None:
    """A class added at run time can be learnt and taught; decisions made before it are still learnt."""
    learner = trained(factory)
    X, _ = rows(40, seed=17)
    early = learner.decide(X[0])
    scores = learner.scores(X[0])
    try:
        learner.add_class("fox")
    except OnebitError:
        return  # a rule may refuse, with a sentence: a coding matrix has no code for it
    assert learner.classes == (*NAMES, "fox")
    after = learner.scores(X[0])[: len(scores)]
    # Scores of a composite rule may be probabilities, of which a new class has its share.
    alike = np.argsort if learner.runtime.rule.composite else np.asarray
    assert np.array_equal(alike(after), alike(scores))
    assert abs(sum(learner.probabilities(X[0]).values()) - 1.0) < 1e-9
    learner.learn(early, label=NAMES[0])
    for x in X:
        learner.learn(learner.decide(x), label="fox")
    refused(lambda: learner.add_class("fox"))
    learner.teach(X, ["fox"] * len(X))
    assert "fox" in {learner.best(x) for x in X}


def check_teaching(factory: Factory) -> None:
    """Labelled rows are learnt: afterwards the labels of easy rows are called best, mostly."""
    X, y = easy_rows(400)
    learner = factory(classes=NAMES)
    learner.teach(X, [NAMES[label] for label in y])
    right = sum(learner.best(x) == NAMES[label] for x, label in zip(X[-100:], y[-100:], strict=True))
    assert right >= 50, f"only {right} of 100 easy rows are right after teaching (chance is 20)"


def check_learns(factory: Factory) -> None:
    """On an easy stream the best label is wrong less than half as often as chance."""
    X, y = easy_rows(3000)
    result = run(
        factory(classes=NAMES, features=X.shape[1], space="dense"), X, [NAMES[label] for label in y], order="file"
    )
    late = 2 * result.greedy_errors[0] - np.interp(1500, result.curve.rounds, result.curve.greedy[0])
    chance = 1.0 - 1.0 / len(NAMES)
    assert late < chance / 2, f"error {late:.3f} in the second half, chance is {chance}"
