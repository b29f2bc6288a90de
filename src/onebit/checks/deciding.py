"""Checks of decisions: which class, with which probability, and that deciding changes nothing."""

from __future__ import annotations

import math

import numpy as np

from onebit.checks.examples import NAMES, WIDTH, Factory, rows, state, trained


def check_decides_before_learning(factory: Factory) -> None:
    """A fresh learner names one of its classes, with its probability."""
    learner = factory(classes=NAMES)
    decision = learner.decide(np.ones(WIDTH) / math.sqrt(WIDTH))
    assert decision.label in NAMES
    assert decision.greedy in NAMES
    assert 0.0 < decision.propensity <= 1.0


def check_decide_is_pure(factory: Factory) -> None:
    """Deciding with an id, asking for probabilities and for the best change nothing, and asking again gives the same."""
    learner = trained(factory)
    before = state(learner)
    for x in rows(5, seed=1)[0]:
        first = learner.decide(x, id="again")
        chances, best = learner.probabilities(x), learner.best(x, id="again")
        assert learner.decide(x, id="again") == first
        assert learner.probabilities(x) == chances
        assert best == first.greedy
    assert state(learner) == before


def check_number_is_all_that_moves(factory: Factory) -> None:
    """Deciding without an id takes the next number, and nothing else moves."""
    learner = trained(factory)
    before = state(learner)
    decision = learner.decide(rows(1)[0][0])
    after = state(learner)
    assert decision.id == before["next"]
    assert {**after, "next": before["next"]} == before


def check_probabilities(factory: Factory) -> None:
    """Probabilities sum to one, keep their floor, and are the propensities of decisions."""
    learner = trained(factory)
    exploration = getattr(learner.runtime.model.params, "exploration", 0.0)
    floor = 0.0 if math.isnan(exploration) else exploration / len(NAMES)
    for x in [*rows(20, seed=2)[0], np.zeros(WIDTH)]:
        chances = learner.probabilities(x)
        assert list(chances) == NAMES
        assert abs(sum(chances.values()) - 1.0) < 1e-9, chances
        assert min(chances.values()) >= floor - 1e-12, (chances, floor)
        decision = learner.decide(x)
        assert decision.propensity == chances[decision.label]


def check_frequencies(factory: Factory) -> None:
    """Over many ids labels are played, and called best, as often as the probabilities say, ties included.

    Each of a few hundred frequencies is within 5.5 standard deviations: a right learner fails once in about 100,000 times.
    """
    count = 4000
    for learner in (factory(classes=NAMES), trained(factory)):
        for x in [*rows(3, seed=3)[0], np.zeros(WIDTH)]:
            decisions = learner.decide_many(np.tile(x, (count, 1)))
            chances = learner.probabilities(x)
            for name in NAMES:
                seen = sum(decision.label == name for decision in decisions) / count
                spread = math.sqrt(chances[name] * (1.0 - chances[name]) / count)
                within = abs(seen - chances[name]) <= 5.5 * spread + 1e-9
                assert within, f"{name} was played {seen} of the time, and probabilities says {chances[name]}"
