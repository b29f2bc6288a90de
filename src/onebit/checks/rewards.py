"""Checks of rewards and truths: feedback that is more than right and wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onebit.checks.examples import NAMES, Factory, few, refused, rows, state, trained
from onebit.contract.rule import RIGHT
from onebit.learner import copy_of


def check_rewards_of_right_and_wrong(factory: Factory) -> None:
    """A reward of 1 is right and one of 0 is wrong, bit for bit, alone and in batches."""
    X, y = rows(40, seed=26)
    told = trained(factory)
    rewarded, batch, many = copy_of(told), copy_of(told), copy_of(told)
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
        other.runtime.next_id = told.runtime.next_id
        assert state(other) == state(told)


def check_rewards(factory: Factory) -> None:
    """Rewards between 0 and 1 are learnt in batches as one by one, and the sum of them is counted."""
    X, _ = rows(40, seed=27)
    one = trained(factory)
    if one.runtime.needs_labels:
        return
    many, before = copy_of(one), one.runtime.model.memory[RIGHT]
    worth = np.random.default_rng(27).random(len(X))
    decisions = many.decide_many(X)
    for decision, reward in zip(decisions, worth, strict=True):
        one.learn(decision, reward=reward)
    many.learn_many(decisions, rewards=worth.tolist())
    one.runtime.next_id = many.runtime.next_id
    assert state(one) == state(many)
    assert abs(one.runtime.model.memory[RIGHT] - before - worth.sum()) < 1e-9


def check_truths(factory: Factory) -> None:
    """A truth is one feedback; a rule without a step for it hears whether the label was right. In batches as one by one, mixed."""
    X, y = rows(40, seed=28)
    one = trained(factory)
    many, told = copy_of(one), copy_of(one)
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
    one.runtime.next_id = many.runtime.next_id
    many.learn_many(decisions, None if one.runtime.needs_labels else right, truths=truths)
    assert state(one) == state(many)
    if one.runtime.rule.teach is None and not one.runtime.needs_labels:
        told.runtime.next_id = many.runtime.next_id
        told.learn_many(decisions, right)
        assert state(told) == state(many)


def check_answers_are_refused(factory: Factory) -> None:
    """Rewards out of range, two answers at once and contradictions get a sentence, and nothing moves."""
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
