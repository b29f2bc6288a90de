"""The offset tree: the shape of the tree, which nodes a round trains and towards what, and the 1/2 offset."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.contract.rule import LEARNT
from onebit.errors import OnebitError
from onebit.rules import offset_tree
from onebit.rules.offset_tree import RULE
from tests.rules.steps import (
    WRONG,
    Vector,
    bench_of,
    decision,
    enumerated,
    learnt,
    probabilities_of,
    step,
    surprise,
    taught,
)

VARIANTS = ("PA", "PA-I", "PA-II")
Path = dict[int, float]  # node -> +1 or -1, the side on which the class lies


def path_of(label: int, classes: int) -> Path:
    """The nodes above a class and its side at each, read off the step that a right answer takes at W = 0."""
    bench = bench_of(RULE, classes, variant="PA", stop="none")
    coefficients = step(bench, np.zeros(classes - 1), 1.0, label, label).coefficients
    return {int(node): float(np.sign(coefficients[node])) for node in np.flatnonzero(coefficients)}


def paths_of(classes: int) -> list[Path]:
    """The paths of all classes."""
    return [path_of(label, classes) for label in range(classes)]


def from_the_leaf(path: Path) -> list[int]:
    """The nodes in the order of the climb: in a heap children come after their parents."""
    return sorted(path, reverse=True)


def binary(variant: str, price: float, score: float, sign: float, norm: float) -> float:
    """The binary passive-aggressive step."""
    loss = max(0.0, 1.0 - sign * score)
    size = {"PA": loss / norm, "PA-I": min(price, loss / norm), "PA-II": loss / (norm + 1.0 / (2.0 * price))}[variant]
    return sign * size


# ---- the tree


@pytest.mark.parametrize("classes", [2, 3, 4, 5, 6, 7, 8, 13, 16, 33])
def test_leaf_paths(classes: int) -> None:
    """K - 1 inner nodes, each with two sides; every class at depth floor or ceil of log2 K; the root is node 0."""
    paths = paths_of(classes)
    depths = {len(path) for path in paths}
    assert depths <= {math.floor(math.log2(classes)), math.ceil(math.log2(classes))}
    assert all(0 in path for path in paths)
    assert sum(2.0 ** -len(path) for path in paths) == 1.0  # Kraft: the leaves of a binary tree, none missing
    for node in range(classes - 1):
        assert {path[node] for path in paths if node in path} == {1.0, -1.0}
    for first, second in itertools.combinations(paths, 2):
        assert any(first[node] != second[node] for node in first.keys() & second.keys())


@pytest.mark.parametrize("classes", [2, 3, 4, 7, 8, 12])
def test_a_new_class_splits_one_leaf(classes: int) -> None:
    """Nodes keep their numbers and sides; one old class and the new one share the new node, on opposite sides."""
    before, after = paths_of(classes), paths_of(classes + 1)
    new_node = classes - 1
    split = [label for label in range(classes) if after[label] != before[label]]
    assert len(split) == 1
    assert after[split[0]] == {**before[split[0]], new_node: -after[classes][new_node]}
    assert {node: side for node, side in after[classes].items() if node != new_node} == before[split[0]]


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    scores=st.lists(st.one_of(st.floats(-5, 5), st.just(0.0)), min_size=1, max_size=14), identity=st.integers(0, 999)
)
def test_the_descent_agrees_with_the_paths(scores: list[float], identity: int) -> None:
    """The greedy class is on the side that every node above it sends x to; a node at 0 sends it either way, evenly."""
    vector, classes = np.array(scores), len(scores) + 1
    bench = bench_of(RULE, classes, exploration=0.2)
    wins = [
        math.prod(0.5 if vector[node] == 0.0 else float(side * vector[node] > 0.0) for node, side in path.items())
        for path in paths_of(classes)
    ]
    assert np.allclose(probabilities_of(bench, vector, 1.0), 0.8 * np.array(wins) + 0.2 / classes, rtol=0, atol=1e-14)
    choice = decision(bench, vector, 1.0, identity)
    assert wins[choice.greedy] > 0.0
    assert choice.propensity == pytest.approx(dict(enumerated(classes, choice.greedy, 0.2))[choice.label], abs=1e-15)


def test_the_descent_is_the_tournament() -> None:
    """Bottom-up: the winner of each node is the winner of the side it prefers. All sign patterns of 5 nodes."""
    classes = 6
    paths = paths_of(classes)
    bench = bench_of(RULE, classes, exploration=0.01)
    for signs in itertools.product((-1.0, 1.0), repeat=classes - 1):
        vector = np.array(signs)
        playing = set(range(classes))
        for node in range(classes - 2, -1, -1):
            below = {label for label in playing if node in paths[label]}
            playing -= {label for label in below if paths[label][node] != vector[node]}
        assert playing == {decision(bench, vector, 1.0).greedy}


# ---- what a round trains


def climbed(path: Path, scores: Vector, right: bool, stop: str, norm: float) -> list[int]:
    """The nodes that plain PA visits by each reading of the stop test, from docs/explanation/algorithms-first-order.md#offset-tree."""
    visited = []
    for node in from_the_leaf(path):
        visited.append(node)
        side = path[node]
        after = scores[node] + norm * binary("PA", 1.0, float(scores[node]), side if right else -side, norm)
        if side * scores[node] < 0.0 and (stop == "before" or (stop == "path" and not right)):
            break
        if side * after < 0.0 and stop == "after":
            break
    return visited


@pytest.mark.parametrize("stop", ["none", "after", "before", "path"])
@pytest.mark.parametrize("right", [True, False])
@settings(derandomize=True, max_examples=70, deadline=None)
@given(scores=st.lists(st.floats(-3, 3), min_size=1, max_size=12), norm=st.floats(0.1, 10.0), data=st.data())
def test_the_climb(stop: str, right: bool, scores: list[float], norm: float, data: st.DataObject) -> None:
    """Right trains the played side and wrong the other, from the leaf up as far as `stop` says; the rest stays."""
    vector, classes = np.array(scores), len(scores) + 1
    label = data.draw(st.integers(0, classes - 1))
    path = path_of(label, classes)
    taken = step(bench_of(RULE, classes, variant="PA", stop=stop), vector, norm, label, label if right else WRONG)
    by_hand = np.zeros(classes - 1)
    for node in climbed(path, vector, right, stop, norm):
        by_hand[node] = binary("PA", 1.0, scores[node], path[node] if right else -path[node], norm)
    assert taken.scale == 1.0
    assert np.allclose(taken.coefficients, by_hand, rtol=1e-12, atol=1e-15)
    assert set(np.flatnonzero(taken.coefficients).tolist()) <= path.keys()


@pytest.mark.parametrize("variant", VARIANTS)
@settings(derandomize=True, max_examples=80, deadline=None)
@given(scores=st.lists(st.floats(-3, 3), min_size=2, max_size=12), price=st.floats(0.01, 10.0), data=st.data())
def test_wrong_trains_the_opposite_side(variant: str, scores: list[float], price: float, data: st.DataObject) -> None:
    """Without a stop test, every node of the path steps towards the played class when right and away when wrong."""
    vector, classes = np.array(scores), len(scores) + 1
    label = data.draw(st.integers(0, classes - 1))
    path = path_of(label, classes)
    bench = bench_of(RULE, classes, variant=variant, aggressiveness=price, stop="none")
    for revealed, sign in ((label, 1.0), (WRONG, -1.0)):
        by_hand = np.zeros(classes - 1)
        for node, side in path.items():
            by_hand[node] = binary(variant, price, scores[node], sign * side, 1.3)
        assert np.allclose(step(bench, vector, 1.3, label, revealed).coefficients, by_hand, rtol=1e-12, atol=1e-15)


def test_after_a_wrong_answer_only_the_lowest_node_hears_of_it() -> None:
    """Plain PA always turns the node around, so with the test after the step the climb ends there."""
    generator = np.random.default_rng(0)
    bench = bench_of(RULE, 9, variant="PA", stop="after")
    for _ in range(100):
        scores, label = generator.normal(size=8) * 0.5, int(generator.integers(9))
        path = path_of(label, 9)
        lowest = from_the_leaf(path)[0]
        moved = np.flatnonzero(step(bench, scores, 1.0, label, WRONG).coefficients)
        assert moved.tolist() == ([lowest] if path[lowest] * scores[lowest] > -1.0 else [])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("stop", ["none", "after", "before", "path"])
def test_two_classes_are_one_passive_aggressive_learner(variant: str, stop: str) -> None:
    """One node, trained towards the true class in every round, whatever was played: a wrong answer reveals it."""
    generator = np.random.default_rng(1)
    bench = bench_of(RULE, 2, variant=variant, aggressiveness=0.4, stop=stop)
    sides = [path[0] for path in paths_of(2)]
    assert bench.heads == 1
    for _ in range(100):
        score, norm = float(generator.normal()), float(generator.uniform(0.2, 3.0))
        played, truth = (int(number) for number in generator.integers(0, 2, size=2))
        taken = step(bench, np.array([score]), norm, played, played if played == truth else WRONG).coefficients
        assert taken[0] == pytest.approx(binary(variant, 0.4, score, sides[truth], norm), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("variant", VARIANTS)
@settings(derandomize=True, max_examples=40, deadline=None)
@given(scores=st.lists(st.floats(-3, 3), min_size=1, max_size=9), data=st.data())
def test_teaching_trains_the_path_of_the_label(variant: str, scores: list[float], data: st.DataObject) -> None:
    """Every node above the label steps to its side, with unit weight, in both kinds of tree."""
    vector, classes = np.array(scores), len(scores) + 1
    label = data.draw(st.integers(0, classes - 1))
    by_hand = np.zeros(classes - 1)
    for node, side in path_of(label, classes).items():
        by_hand[node] = binary(variant, 0.4, scores[node], side, 1.3)
    for kind, weighting in (("realizable", "weighted"), ("general", "costing")):
        bench = bench_of(RULE, classes, variant=variant, aggressiveness=0.4, kind=kind, weighting=weighting)
        lesson = taught(bench, vector, 1.3, label)
        assert lesson.scale == 1.0
        assert np.allclose(lesson.coefficients, by_hand, rtol=1e-12, atol=1e-15)


# ---- exploration


def test_exploration_of_the_realizable_tree_falls_with_time() -> None:
    """min(1, t^-1/2), t counting the feedbacks learnt; a number given by the user stays."""
    scores = np.array([1.0, -1.0, 1.0])
    for learnt_before in (0, 1, 3, 99):
        falling = bench_of(RULE, 4)
        falling.memory[LEARNT] = learnt_before
        constant = bench_of(RULE, 4, exploration=0.3)
        constant.memory[LEARNT] = learnt_before
        assert probabilities_of(falling, scores, 1.0).min() == pytest.approx((learnt_before + 1) ** -0.5 / 4, rel=1e-12)
        assert probabilities_of(constant, scores, 1.0).min() == pytest.approx(0.3 / 4, rel=1e-12)


# ---- the 1/2 offset


@pytest.mark.parametrize("exploration", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("greedy", [0, 1])
@pytest.mark.parametrize("rewards", [(0, 1), (1, 0), (0, 0), (1, 1)])
def test_the_expected_signed_weight_is_the_difference_of_rewards(
    exploration: float, greedy: int, rewards: tuple[int, int]
) -> None:
    """K = 2, weighted, C so small that it always binds: a step is C times the signed weight, and E of that r1 - r0."""
    price, norm = 1e-4, 1.0
    bench = bench_of(
        RULE, 2, kind="general", weighting="weighted", variant="PA-I", aggressiveness=price, exploration=exploration
    )
    sides = [path[0] for path in paths_of(2)]
    mean = 0.0
    for played, chance in enumerated(2, greedy, exploration):
        revealed = played if rewards[played] else WRONG
        taken = step(bench, np.zeros(1), norm, played, revealed, greedy, chance).coefficients[0]
        assert abs(taken) == pytest.approx(price / (2.0 * chance), rel=1e-12)
        mean += chance * taken / price
    assert mean == pytest.approx(sides[1] * (rewards[1] - rewards[0]), abs=1e-12)


@pytest.mark.parametrize("classes", [3, 6])
def test_the_weight_multiplies_the_cap(classes: int) -> None:
    """General, weighted: the step of PA-I and PA-II with C/(2P) in place of C; the realizable tree does not feel P."""
    generator = np.random.default_rng(2)
    for variant in ("PA-I", "PA-II"):
        for _ in range(40):
            scores, label = generator.normal(size=classes - 1), int(generator.integers(classes))
            weight, price = float(generator.uniform(0.02, 1.0)), float(generator.uniform(0.01, 1.0))
            revealed = label if generator.uniform() < 0.5 else WRONG
            weighted = bench_of(RULE, classes, kind="general", variant=variant, aggressiveness=price)
            unit_weight = bench_of(RULE, classes, variant=variant, aggressiveness=price / (2.0 * weight))
            plain = bench_of(RULE, classes, variant=variant, aggressiveness=price)
            one = step(weighted, scores, 1.0, label, revealed, label, weight).coefficients
            assert np.allclose(
                one, step(unit_weight, scores, 1.0, label, revealed).coefficients, rtol=1e-12, atol=1e-15
            )
            assert np.array_equal(
                step(plain, scores, 1.0, label, revealed, label, weight).coefficients,
                step(plain, scores, 1.0, label, revealed, label, 1.0).coefficients,
            )


@pytest.mark.parametrize("weighting", [{}, {"weighting": "weighted"}])
def test_weights_that_nothing_would_multiply_are_refused(weighting: dict[str, object]) -> None:
    """PA has no C; what takes its weights, and what has none, is not refused."""
    with pytest.raises(OnebitError, match="PA has no C: give variant PA-I or PA-II, or weighting=costing"):
        bench_of(RULE, 4, kind="general", variant="PA", **weighting)
    bench_of(RULE, 4, kind="general", variant="PA", weighting="costing")
    bench_of(RULE, 4, kind="realizable", variant="PA", **weighting)


@pytest.mark.parametrize("greedy_played", [True, False])
def test_costing_accepts_by_the_weight(greedy_played: bool) -> None:
    """Accepted with probability P_min/P (an explored label: 1), then a unit step. Chi-square at 1e-6, 4,000 ids."""
    classes, exploration = 4, 0.6
    bench = bench_of(
        RULE, classes, kind="general", weighting="costing", variant="PA", stop="none", exploration=exploration
    )
    weights = dict(enumerated(classes, 2, exploration))
    label = 2 if greedy_played else 1
    choice = decision(bench, np.zeros(classes - 1), 1.0)._replace(label=label, greedy=2, propensity=weights[label])
    accepted = 0
    unit_step = np.zeros(classes - 1)
    for node, side in path_of(label, classes).items():
        unit_step[node] = side
    for identity in range(4000):
        taken = learnt(bench, np.zeros(classes - 1), 1.0, choice, label, identity)
        assert taken.scale == 1.0
        if taken.coefficients.any():
            assert np.allclose(taken.coefficients, unit_step, rtol=1e-15)
            accepted += 1
    chance = (exploration / classes) / weights[label]
    assert surprise(np.array([accepted, 4000 - accepted]), np.array([chance, 1.0 - chance])) > 1e-6


def test_mirroring_the_sides_mirrors_the_step() -> None:
    """Turning all scores around and playing the class with the mirrored path turns the step around (K = 4)."""
    generator = np.random.default_rng(3)
    paths = paths_of(4)
    bench = bench_of(RULE, 4, aggressiveness=0.5)
    # Mirroring swaps the two inner nodes below the root and the sides everywhere.
    swap = {0: 0, 1: 2, 2: 1}
    mirrored = [paths.index({swap[node]: -side for node, side in path.items()}) for path in paths]
    assert sorted(mirrored) == [0, 1, 2, 3]
    for _ in range(60):
        scores, label = generator.normal(size=3), int(generator.integers(4))
        turned = -scores[[0, 2, 1]]
        for right in (True, False):
            one = step(bench, scores, 1.0, label, label if right else WRONG).coefficients
            other = step(bench, turned, 1.0, mirrored[label], mirrored[label] if right else WRONG).coefficients
            assert np.array_equal(-one[[0, 2, 1]], other)


@pytest.mark.parametrize("classes", [2, 3, 5, 8])
def test_a_node_leads_to_the_candidates_below_it(classes: int) -> None:
    """For every set of one or two candidates, against the tree walked downwards."""

    def below(node: int) -> set[int]:
        return {node} if node >= classes - 1 else below(2 * node + 1) | below(2 * node + 2)

    for first in range(classes):
        for second in range(first, classes):
            given: Any = SimpleNamespace(candidates=np.array(sorted({first, second})))
            leaves = {offset_tree.leaf_of(first, classes), offset_tree.leaf_of(second, classes)}
            for node in range(2 * classes - 1):
                assert offset_tree.leads_to_candidate(given, node, classes) is bool(below(node) & leaves)
