"""Checks of learning: any order of feedback, batches, runs, new classes, labels, accuracy, any size."""

from __future__ import annotations

import numpy as np

from onebit.checks.examples import NAMES, WIDTH, Factory, easy_rows, list_spaces, play, refused, rows, state, train
from onebit.engine.stream import stream
from onebit.errors import OnebitError
from onebit.experiments.run import run
from onebit.learner.learner import copy_learner


def check_feedback_out_of_order(factory: Factory) -> None:
    """Check that feedback may come in any order or not at all.

    What is learnt depends on the order of learning only.
    """
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


def check_batches(factory: Factory) -> None:
    """Check that `decide_many` and `learn_many` equal `decide` and `learn` one after the other.

    A batch that is refused must change nothing.
    """
    X, y = rows(40, seed=6)
    single = train(factory)
    batched = copy_learner(single)
    singles = [single.decide(x) for x in X]
    batch = batched.decide_many(X)
    assert singles == batch
    for decision, label in zip(singles, y, strict=True):
        single.learn(decision, label=NAMES[label])
    batched.learn_many(batch, labels=[NAMES[label] for label in y])
    assert state(single) == state(batched)
    again = batched.decide_many(X[:3])
    before = state(batched)
    refused(lambda: batched.learn_many([again[0], batch[0]], labels=NAMES[:2]))
    refused(lambda: batched.learn_many([again[0], again[0]], labels=NAMES[:2]))
    assert state(batched) == before


def check_compiled_is_python(factory: Factory) -> None:
    """Check that the compiled loop gives the same results as its functions run as plain Python."""
    X, y = rows(60, seed=15)
    for space in list_spaces(factory):
        compiled, plain_learner = (
            factory(classes=NAMES, features=WIDTH, space=space, dtype="float64") for _ in range(2)
        )
        plain_learner.runtime.model.loop = stream
        with np.errstate(over="ignore"):
            expected = play(plain_learner, X, y)
        for compiled_step, plain_step in zip(play(compiled, X, y), expected, strict=True):
            assert compiled_step[:2] == plain_step[:2]
            assert np.allclose(compiled_step[2:4], plain_step[2:4])
        assert np.allclose(compiled.weights, plain_learner.weights, rtol=1e-9, atol=1e-9)


def check_run_is_steps(factory: Factory) -> None:
    """Check that `onebit.run` with calibration equals stepping by hand, bit for bit.

    The learner that it is given must not change.
    """
    X, y = rows(150, seed=16)
    labels = [NAMES[label] for label in y]
    for space in list_spaces(factory):
        learner = factory(classes=NAMES, space=space)
        before = state(copy_learner(learner)) if learner.features else None
        result = run(learner, X, labels, order="file", calibrate=True)
        assert before is None or state(learner) == before
        by_hand = copy_learner(learner)
        steps = play(by_hand, X, y)
        wrong = [sum(step[column] != label for step, label in zip(steps, labels, strict=True)) for column in (0, 1)]
        assert [round(result.errors[0] * 150), round(result.greedy_errors[0] * 150)] == wrong
        assert np.array_equal(result.learner.weights, by_hand.weights)
        assert state(result.learner) == state(by_hand)


def check_new_class(factory: Factory) -> None:
    """Check that a class added at run time can be learnt and taught.

    Decisions made before it was added must still be learnt.
    """
    learner = train(factory)
    X, _ = rows(40, seed=17)
    early = learner.decide(X[0])
    scores = learner.scores(X[0])
    try:
        learner.add_class("fox")
    except OnebitError:
        return  # a rule may refuse with an error: a coding matrix has no code for a new class
    assert learner.classes == (*NAMES, "fox")
    after = learner.scores(X[0])[: len(scores)]
    # A composite rule's scores may be probabilities, and a new class gets a share of them.
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
    """Check that after teaching labelled easy rows `best` mostly returns their labels."""
    X, y = easy_rows(400)
    learner = factory(classes=NAMES)
    learner.teach(X, [NAMES[label] for label in y])
    right = sum(learner.best(x) == NAMES[label] for x, label in zip(X[-100:], y[-100:], strict=True))
    assert right >= 50, f"only {right} of 100 easy rows are right after teaching (chance is 20)"


def check_learns(factory: Factory) -> None:
    """Check that on an easy stream the best label is wrong less than half as often as by chance."""
    X, y = easy_rows(3000)
    result = run(
        factory(classes=NAMES, features=X.shape[1], space="dense"), X, [NAMES[label] for label in y], order="file"
    )
    late = 2 * result.greedy_errors[0] - np.interp(1500, result.curve.rounds, result.curve.greedy[0])
    chance = 1.0 - 1.0 / len(NAMES)
    assert late < chance / 2, f"error {late:.3f} in the second half, chance is {chance}"


def check_sizes(factory: Factory) -> None:
    """Check that two classes, a hundred classes, a single feature and a bias all work."""
    for classes, width, bias in ((2, WIDTH, False), (100, WIDTH, True), (3, 1, False), (2, 1, True)):
        X, y = rows(120, classes=classes, width=width)
        composite = factory(classes=classes).runtime.rule.composite
        learner = factory(classes=classes, bias=bias and not composite)
        play(learner, X, y)
        assert composite or learner.weights.shape[1] == width + bias
        assert np.isfinite(learner.weights).all()
