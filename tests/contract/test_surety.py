"""How sure rules are of a label: the greedy one most of all, any number of candidates down to one, and what the formulas say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from onebit.contract.draws import DECIDING, Draws, seed_key
from onebit.contract.rule import RuleInput
from onebit.engine.generic import RULE_FUNCTIONS
from onebit.rules import registry
from onebit.rules.offset_tree import leaf_of

# The scores of `auto` are beliefs; it has a test of its own.
CASES = [(name, options) for name, rule in registry().items() if not rule.composite for options in rule.examples]


def given_for(memory: Any, classes: int, seed: int) -> RuleInput:
    """A round with scores, and variances where a rule reads any."""
    generator = np.random.default_rng([41, seed])
    width = max(10 * classes + 3, classes * classes)
    scores = generator.normal(0.0, 1.0, width)
    scores[classes:] = np.abs(scores[classes:]) if seed % 2 else scores[classes:] ** 2
    return RuleInput(memory, scores, 1.0, Draws(seed_key(0), seed, DECIDING), np.full((2, width), np.nan))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_no_label_is_surer_than_the_greedy_one(name: str, options: Any) -> None:
    rule, classes = registry()[name], 5
    params, memory = registry()[name].settle(classes, options)
    for seed in range(20):
        given = given_for(memory, classes, seed)
        with np.errstate(over="ignore"):
            greedy = rule.decide(params, given).greedy
        sureties = [RULE_FUNCTIONS["surety"](rule)(params, given, label) for label in range(classes)]
        assert np.isfinite(sureties).all()
        assert sureties[greedy] == pytest.approx(max(sureties))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_only_candidate_has_a_surety_that_grows_with_its_score(name: str, options: Any) -> None:
    rule = registry()[name]
    params, memory = registry()[name].settle(5, options)
    params = rule.narrowed_by.params(params, 1)
    found = []
    for score in (-0.5, 0.0, 0.5):
        given = given_for(memory, 1, 0)._replace(candidates=np.array([2]))
        given.scores[:] = 0.5
        given.scores[0:10:2] = score
        found.append(RULE_FUNCTIONS["surety"](rule)(params, given, 0))
    assert np.isfinite(found).all()
    assert found == sorted(found)


def test_a_tree_looks_at_the_nodes_that_part_candidates() -> None:
    """Of the classes 0 to 3 the first two candidates are parted by the root alone."""
    rule = registry()["offset-tree"]
    params, memory = rule.settle(4, {})
    given = given_for(memory, 4, 0)._replace(candidates=np.array([0, 1]))
    given.scores[:3] = 0.2, 0.9, 0.4
    leaves = [leaf_of(label, 4) for label in (0, 1)]
    assert sorted((leaf - 1) // 2 for leaf in leaves) == [1, 2]
    assert sorted(RULE_FUNCTIONS["surety"](rule)(params, given, place) for place in (0, 1)) == pytest.approx(
        [-0.2, 0.2]
    )


def test_sureties_are_what_their_formulas_say() -> None:
    scores = np.array([0.2, 0.9, 0.4, 0.0])

    def surety(name: str, label: int, **options: object) -> float:
        params, memory = registry()[name].settle(4, options)
        work = np.full((2, 8), np.nan)
        given = RuleInput(memory, np.concatenate([scores, np.ones(4)]), 1.0, Draws(seed_key(0), 0, DECIDING), work)
        return float(RULE_FUNCTIONS["surety"](registry()[name])(params, given, label))

    assert surety("banditron", 1) == pytest.approx(0.5)
    assert surety("banditron", 2) == pytest.approx(-0.5)
    assert surety("linucb", 1) == pytest.approx(0.9 + 0.5)
    assert surety("confidit", 0) == pytest.approx(0.2 - 0.7)
    assert surety("confidit", 1, alpha=0.0) == pytest.approx(0.9 + 0.5)
    chances = np.exp(scores) / np.exp(scores).sum()
    assert surety("policy-gradient", 1) == pytest.approx(math.log(chances[1] / (1.0 - chances[1])))
    chances = np.exp(3.0 * scores) / np.exp(3.0 * scores).sum()
    assert surety("newtron", 2, alpha=3.0) == pytest.approx(math.log(chances[2] / (1.0 - chances[2])))
    assert surety("conservative-ova", 1) == pytest.approx(0.5)
    # The root has 0.2; below it to the left is a node with 0.9, to the right one with 0.4. All send x to the right.
    assert sorted(surety("offset-tree", label) for label in range(4)) == pytest.approx([-0.9, -0.4, -0.2, 0.2])


def test_auto_has_the_log_odds_of_what_it_believes() -> None:
    rule = registry()["auto"]
    params, memory = rule.settle(3, {})
    believed = np.array([0.7, 0.2, 0.1])
    scores = np.concatenate([believed, [0.9, 0.8, 0.3], np.zeros(3)])
    given = RuleInput(memory, scores, 1.0, Draws(seed_key(0), 0, DECIDING), np.full((2, 12), np.nan))
    for label in range(3):
        expected = math.log(believed[label] / (1.0 - believed[label]))
        assert RULE_FUNCTIONS["surety"](rule)(params, given, label) == pytest.approx(expected)
