"""Checks of learning: any order of feedback, batches, labels, rewards, truths, runs and accuracy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onebit.checks.examples import (
    NAMES,
    WIDTH,
    Factory,
    easy_rows,
    few,
    played,
    refused,
    rows,
    spaces_of,
    state,
    trained,
)
from onebit.contract.rule import RIGHT
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


def check_learns_once(factory: Factory) -> None:
    """Check that a decision is refused if learnt already, of another learner, or not a decision.

    Nothing must change.
    """
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
    """Check that `decide_many` and `learn_many` equal `decide` and `learn` one after the other.

    A batch that is refused must change nothing.
    """
    X, y = rows(40, seed=6)
    one = trained(factory)
    many = copy_learner(one)
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
    """Check that the compiled loop gives the same results as its functions run as plain Python."""
    X, y = rows(60, seed=15)
    for space in spaces_of(factory):
        compiled, plain = (factory(classes=NAMES, features=WIDTH, space=space, dtype="float64") for _ in range(2))
        plain.runtime.model.loop = stream
        with np.errstate(over="ignore"):
            seen = played(plain, X, y)
        for one, other in zip(played(compiled, X, y), seen, strict=True):
            assert one[:2] == other[:2]
            assert np.allclose(one[2:4], other[2:4])
        assert np.allclose(compiled.weights, plain.weights, rtol=1e-9, atol=1e-9)


def check_run_is_steps(factory: Factory) -> None:
    """Check that `onebit.run` with calibration equals stepping by hand, bit for bit.

    The learner that it is given must not change.
    """
    X, y = rows(150, seed=16)
    labels = [NAMES[label] for label in y]
    for space in spaces_of(factory):
        learner = factory(classes=NAMES, space=space)
        before = state(copy_learner(learner)) if learner.features else None
        result = run(learner, X, labels, order="file", calibrate=True)
        assert before is None or state(learner) == before
        by_hand = copy_learner(learner)
        seen = played(by_hand, X, y)
        wrong = [sum(one[part] != label for one, label in zip(seen, labels, strict=True)) for part in (0, 1)]
        assert [round(result.errors[0] * 150), round(result.greedy_errors[0] * 150)] == wrong
        assert np.array_equal(result.learner.weights, by_hand.weights)
        assert state(result.learner) == state(by_hand)


def check_new_class(factory: Factory) -> None:
    """Check that a class added at run time can be learnt and taught.

    Decisions made before it was added must still be learnt.
    """
    learner = trained(factory)
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


# --- rewards and truths: feedback beyond right and wrong ---------------------------------------------------------------


def check_rewards_of_right_and_wrong(factory: Factory) -> None:
    """Check that rewards of 1 and 0 equal right and wrong, bit for bit, singly and in batches."""
    X, y = rows(40, seed=26)
    told = trained(factory)
    rewarded, batch, many = copy_learner(told), copy_learner(told), copy_learner(told)
    if told.runtime.needs_labels:
        assert "labels" in refused(lambda: told.learn(told.decide(X[0]), reward=1.0))
        return
    decisions = [told.decide(x) for x in X]
    right = [decision.label == NAMES[label] for decision, label in zip(decisions, y, strict=True)]
    for decision, answer in zip(decisions, right, strict=True):
        told.learn(decision, right=answer)
        rewarded.learn(decision, reward=float(answer))
    batch.learn_many(decisions, right=right)
    many.learn_many(decisions, rewards=np.array(right, dtype=np.float32))
    for other in (rewarded, batch, many):
        other.runtime.ledger.next_id = told.runtime.ledger.next_id
        assert state(other) == state(told)


def check_rewards(factory: Factory) -> None:
    """Check that rewards between 0 and 1 are learnt alike singly and in batches, and summed."""
    X, _ = rows(40, seed=27)
    one = trained(factory)
    if one.runtime.needs_labels:
        return
    many, before = copy_learner(one), one.runtime.model.memory[RIGHT]
    worth = np.random.default_rng(27).random(len(X))
    decisions = many.decide_many(X)
    for decision, reward in zip(decisions, worth, strict=True):
        one.learn(decision, reward=reward)
    many.learn_many(decisions, rewards=worth.tolist())
    one.runtime.ledger.next_id = many.runtime.ledger.next_id
    assert state(one) == state(many)
    assert abs(one.runtime.model.memory[RIGHT] - before - worth.sum()) < 1e-9


def check_truths(factory: Factory) -> None:
    """Check that truths count as one feedback each, singly, in batches and mixed with right and wrong.

    A rule without a step for known labels must learn from a truth whether the label was right.
    """
    X, y = rows(40, seed=28)
    one = trained(factory)
    many, told = copy_learner(one), copy_learner(one)
    candidates = one.runtime.rule.takes_candidates
    sets = [sorted({*few(row), NAMES[label]}) if row % 3 and candidates else None for row, label in enumerate(y)]
    decisions = many.decide_many(X, among=sets)
    truths: list[Any] = [NAMES[label] if row % 2 else None for row, label in enumerate(y)]
    right = [decision.label == NAMES[label] for decision, label in zip(decisions, y, strict=True)]
    heard = one.learnt
    if one.runtime.needs_labels:
        truths = [NAMES[label] for label in y]
    for row, (decision, truth) in enumerate(zip(decisions, truths, strict=True)):
        if truth is None:
            one.learn(decision, right=right[row])
        else:
            one.learn(decision, truth=truth)
    assert one.learnt == heard + len(X)
    one.runtime.ledger.next_id = many.runtime.ledger.next_id
    many.learn_many(decisions, None if one.runtime.needs_labels else right, truths=truths)
    assert state(one) == state(many)
    if one.runtime.rule.teach is None and not one.runtime.needs_labels:
        told.runtime.ledger.next_id = many.runtime.ledger.next_id
        told.learn_many(decisions, right)
        assert state(told) == state(many)


def check_answers_are_refused(factory: Factory) -> None:
    """Check that invalid rewards, double answers and contradictions raise an error and change nothing."""
    learner = trained(factory)
    x = rows(1, seed=29)[0][0]
    before, decision, other = state(learner), learner.decide(x, id="one"), learner.decide(x, id="two")
    known = decision.label
    wrong = next(name for name in NAMES if name != known)
    rewards: list[Any] = [math.nan, math.inf, -0.1, 1.1, 10**400, "1", True, [1.0], b"1", {}]
    for bad in rewards:
        assert "0 to 1" in refused(lambda given=bad: learner.learn(decision, reward=given))  # type: ignore[misc]
        assert refused(lambda given=bad: learner.learn_many([decision, other], rewards=[0.5, given]))  # type: ignore[misc]
    for both in ({"right": True, "reward": 1.0}, {"reward": 1.0, "truth": known}, {"label": known, "truth": known}, {}):
        assert "one of them" in refused(lambda given=both: learner.learn(decision, **given))  # type: ignore[misc]
    assert "no class" in refused(lambda: learner.learn(decision, truth="yak"))
    assert "no class" in refused(lambda: learner.learn_many([decision], truths=[["ant"]]))  # type: ignore[list-item]
    assert "give either" in refused(lambda: learner.learn_many([decision], [True], rewards=[1.0]))
    assert "give either" in refused(lambda: learner.learn_many([decision]))
    assert "2 answers for 1" in refused(lambda: learner.learn_many([decision], rewards=[1.0, 0.5]))
    assert "must follow" in refused(lambda: learner.learn_many([decision], [True], truths=[wrong]))
    assert "must follow" in refused(lambda: learner.learn_many([decision], [False], truths=[known]))
    assert refused(lambda: learner.learn_many([decision], rewards=[None]))  # type: ignore[list-item]
    assert state(learner) == before
