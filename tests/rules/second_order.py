"""What the ten second-order rules share in their tests: slow twins and compiled learners seen alike, streams, and what holds for all of them.

Every identity is stated in what a user can see (weights, scores, variances, probabilities), so that one test serves both. The
formulas here are the fused ones of docs/explanation/algorithms-second-order.md#confidit and its neighbours; the slow twins solve linear systems instead.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from onebit.learner.learner import Learner
from onebit.rules import registry
from tests.oracles.base import Array, Decided
from tests.oracles.draws import draws

CLASSES, FEATURES, SEED = 4, 5, 3
FULL_INFORMATION = ("second-order-perceptron", "arow")

both = pytest.mark.parametrize("kind", ["oracle", "compiled"])
matrices = pytest.mark.parametrize("matrix", ["diagonal", "full"])


class Slow:
    """A slow twin, seen as the compiled learner is."""

    def __init__(self, name: str, classes: int, features: int, options: dict[str, Any]) -> None:
        self.oracle: Any = importlib.import_module(f"tests.oracles.{name.replace('-', '_')}").Oracle(
            classes, features, **options
        )
        self.name = name

    @property
    def W(self) -> Array:
        return np.array(self.oracle.W)

    def scores(self, x: Array) -> Array:
        return self.W @ x

    def variances(self, x: Array) -> Array:
        return np.array(self.oracle.variances(x))

    def chances(self, x: Array) -> Array:
        return np.array(self.oracle.probabilities(x))

    def decide(self, x: Array, identity: int) -> Played:
        return Played(x, identity, self.oracle.decide(x, draws(SEED, identity, 0)))

    def learn(self, played: Played, truth: int) -> None:
        told = truth if self.name in FULL_INFORMATION or played.label == truth else -1
        self.oracle.learn(played.x, played.decided, told, draws(SEED, played.identity, 1))


class Fast:
    """A compiled learner, through its public face."""

    def __init__(self, name: str, classes: int, features: int, options: dict[str, Any]) -> None:
        self.learner = Learner(
            name, classes=classes, features=features, space="dense", dtype="float64", seed=SEED, **options
        )

    @property
    def W(self) -> Array:
        return np.array(self.learner.weights)

    def scores(self, x: Array) -> Array:
        return self.learner.scores(x)

    def variances(self, x: Array) -> Array:
        return np.array(self.learner.runtime.variances(x))

    def chances(self, x: Array) -> Array:
        return np.array(list(self.learner.probabilities(x).values()))

    def decide(self, x: Array, identity: int) -> Played:
        decision = self.learner.decide(x, id=identity)
        known = Decided(int(decision.label), int(decision.greedy), decision.weight, *decision.notes)
        return Played(x, identity, known, decision)

    def learn(self, played: Played, truth: int) -> None:
        known = played.decided
        decision = played.decision._replace(
            label=known.label, greedy=known.greedy, weight=known.weight, notes=(known.note, known.second_note)
        )
        if self.learner.runtime.needs_labels:
            self.learner.learn(decision, label=truth)
        else:
            self.learner.learn(decision, right=known.label == truth)


Subject = Slow | Fast


@dataclasses.dataclass
class Played:
    """A decision and the row it was made for."""

    x: Array
    identity: int
    decided: Decided
    decision: Any = None

    @property
    def label(self) -> int:
        return self.decided.label

    def instead(self, **changes: Any) -> Played:
        """The same decision, had it been another one."""
        return dataclasses.replace(self, decided=dataclasses.replace(self.decided, **changes))


def subject(
    kind: str, name: str, matrix: str = "diagonal", classes: int = CLASSES, features: int = FEATURES, **options: Any
) -> Subject:
    """A learner to look at: the slow twin or the compiled one, with the defaults of the rule but for `options`."""
    settings = {**registry()[name].defaults, "matrix": matrix, **options}
    return (Slow if kind == "oracle" else Fast)(name, classes, features, settings)


def stream(
    rounds: int,
    length: float = 1.0,
    classes: int = CLASSES,
    features: int = FEATURES,
    noise: float = 0.4,
    uneven: int = 1,
    seed: int = 8,
) -> Iterator[tuple[int, Array, int]]:
    """Rows around class centres, with the id of the round and the label; of one length, or of 1 to `uneven` times that."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(classes, features))
    for identity in range(rounds):
        y = int(generator.integers(classes))
        x = centres[y] + noise * generator.normal(size=features) * np.linalg.norm(centres[y])
        yield identity, length * (1 + identity % uneven) * x / np.linalg.norm(x), y


def trained(one: Subject, rounds: int = 40, **options: Any) -> Subject:
    for identity, x, y in stream(rounds, **options):
        one.learn(one.decide(x, identity), y)
    return one


def fresh_rows(count: int, features: int = FEATURES, seed: int = 21) -> Array:
    X = np.random.default_rng(seed).normal(size=(count, features))
    return np.array(X / np.linalg.norm(X, axis=1)[:, None])


class Fused:
    """w += [(target - c)/(1+q) - (s-c)/q] v, with the inverse of A (or its diagonal) updated by the rank-one formula."""

    def __init__(self, start: float, matrix: str, features: int = FEATURES) -> None:
        self.w = np.zeros(features)
        self.P = np.eye(features) / start
        self.matrix = matrix

    def project(self, x: Array, low: float, high: float) -> None:
        s, v = float(self.w @ x), self.P @ x
        self.w -= (s - min(high, max(low, s))) / float(x @ v) * v

    def step(self, x: Array, target: float, low: float = -math.inf, high: float = math.inf) -> None:
        s, v = float(self.w @ x), self.P @ x
        q, c = float(x @ v), min(high, max(low, s))
        self.w += ((target - c) / (1.0 + q) - (s - c) / q) * v
        if self.matrix == "full":
            self.P -= np.outer(v, v) / (1.0 + q)
        else:
            self.P = np.diag(1.0 / (1.0 / np.diag(self.P) + x**2))


class SecondOrderRule:
    """What holds for every second-order rule: a test class of a rule inherits it, and says its name and its agreed defaults."""

    name: ClassVar[str]
    defaults: ClassVar[dict[str, Any]]

    def test_defaults_are_the_agreed_ones(self) -> None:
        assert registry()[self.name].defaults == {"matrix": "diagonal", **self.defaults}

    @both
    @matrices
    def test_probabilities_sum_to_one_and_are_even_for_x_of_zero(self, kind: str, matrix: str) -> None:
        one = trained(subject(kind, self.name, matrix))
        # The compiled learner computes Thompson's chances to a stated accuracy.
        tolerance = 2e-3 * CLASSES if (kind, self.name) == ("compiled", "thompson") else 1e-9
        for x in fresh_rows(10):
            chances = one.chances(x)
            assert (chances >= 0.0).all()
            assert chances.sum() == pytest.approx(1.0, abs=tolerance)
        np.testing.assert_allclose(one.chances(np.zeros(FEATURES)), 1.0 / CLASSES, atol=tolerance)

    @both
    @matrices
    def test_nothing_is_learnt_from_x_of_zero(self, kind: str, matrix: str) -> None:
        one = trained(subject(kind, self.name, matrix))
        x = fresh_rows(1)[0]
        before, chances = one.W, one.chances(x)
        for identity, truth in ((100, 0), (101, 1), (102, 2)):
            played = one.decide(np.zeros(FEATURES), identity)
            one.learn(played, truth)
            one.learn(one.decide(np.zeros(FEATURES), identity + 10), played.label)
        np.testing.assert_array_equal(one.W, before)
        np.testing.assert_array_equal(one.chances(x), chances)


class Regression(SecondOrderRule):
    """What holds for rules that fit the answers of each class by least squares, from `start` times the identity."""

    played_alone: ClassVar[dict[str, Any]] = {}  # options with which other classes than the played one stay as they are
    no_is_zero: ClassVar[dict[str, Any]] = {}  # options with which a wrong answer has the target 0
    unprojected: ClassVar[dict[str, Any]] = {}  # options with which weights are those of least squares
    start: ClassVar[float]
    no: ClassVar[float] = 0.0  # the target of a wrong answer

    @both
    @matrices
    def test_only_the_played_class_changes_and_its_variance_falls(self, kind: str, matrix: str) -> None:
        one = subject(kind, self.name, matrix, **self.played_alone)
        for identity, x, y in stream(60):
            W, q = one.W, one.variances(x)
            played = one.decide(x, identity)
            one.learn(played, y)
            others = np.arange(CLASSES) != played.label
            after = one.variances(x)
            np.testing.assert_array_equal(one.W[others], W[others])
            np.testing.assert_array_equal(after[others], q[others])
            fallen = q[played.label] / (1.0 + q[played.label])
            if matrix == "full":
                assert after[played.label] == pytest.approx(fallen)
            else:  # each coordinate keeps more of its own than the whole row would leave
                assert fallen * (1.0 - 1e-12) <= after[played.label] < q[played.label]

    @both
    @matrices
    def test_a_zero_residual_still_shrinks_the_variance(self, kind: str, matrix: str) -> None:
        one = subject(kind, self.name, matrix, **self.no_is_zero)
        x = fresh_rows(1)[0]
        q = one.variances(x)
        played = one.decide(x, 0)
        one.learn(played, (played.label + 1) % CLASSES)  # wrong: the target is 0, and so is the score
        np.testing.assert_array_equal(one.W, 0.0)
        assert one.variances(x)[played.label] < q[played.label] * 0.9

    @both
    @pytest.mark.parametrize("classes", [CLASSES, 2])
    def test_full_weights_solve_the_normal_equations(self, kind: str, classes: int) -> None:
        one = subject(kind, self.name, "full", classes=classes, **self.unprojected)
        A = np.array([self.start * np.eye(FEATURES)] * classes)
        b = np.zeros((classes, FEATURES))
        for identity, x, y in stream(100, classes=classes):
            played = one.decide(x, identity)
            one.learn(played, y)
            A[played.label] += np.outer(x, x)
            b[played.label] += (1.0 if played.label == y else self.no) * x
        np.testing.assert_allclose(one.W, np.linalg.solve(A, b[:, :, None])[:, :, 0], rtol=1e-8, atol=1e-10)


class RidgeRule(Regression):
    """What holds for the rules on ridge regression."""

    @both
    @matrices
    def test_it_follows_the_fused_step(self, kind: str, matrix: str) -> None:
        one = subject(kind, self.name, matrix)
        twins = [Fused(self.start, matrix) for _ in range(CLASSES)]
        for identity, x, y in stream(80, length=1.5):
            played = one.decide(x, identity)
            one.learn(played, y)
            twins[played.label].step(x, 1.0 if played.label == y else 0.0)
            np.testing.assert_allclose(one.W, [twin.w for twin in twins], rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(one.variances(x), [x @ twin.P @ x for twin in twins], rtol=1e-8)

    @both
    def test_full_equals_diagonal_for_one_hot_rows(self, kind: str) -> None:
        assert_full_equals_diagonal_for_one_hot_rows(kind, self.name)


class WidthRule(RidgeRule):
    """What holds for those of them that explore by a width, with their defaults."""

    defaults: ClassVar[dict[str, Any]] = {"width": 0.3, "ridge": 0.1}
    start = 0.1

    @both
    @matrices
    def test_width_zero_is_greedy(self, kind: str, matrix: str) -> None:
        one = subject(kind, self.name, matrix, width=0.0)
        for identity, x, y in stream(60):
            played = one.decide(x, identity)
            assert played.label == played.decided.greedy
            one.learn(played, y)

    @both
    def test_scores_stay_bounded_in_the_diagonal(self, kind: str) -> None:
        assert_scores_stay_bounded_in_the_diagonal(kind, self.name)


def assert_full_equals_diagonal_for_one_hot_rows(kind: str, name: str, **options: Any) -> None:
    diagonal, full = (subject(kind, name, matrix, **options) for matrix in ("diagonal", "full"))
    generator = np.random.default_rng(4)
    for identity in range(80):
        x = 1.7 * np.eye(FEATURES)[generator.integers(FEATURES)]
        y = int(generator.integers(CLASSES))
        first, second = diagonal.decide(x, identity), full.decide(x, identity)
        assert (first.label, first.decided.greedy) == (second.label, second.decided.greedy)
        diagonal.learn(first, y)
        full.learn(second, y)
        np.testing.assert_allclose(full.W, diagonal.W, rtol=1e-9, atol=1e-12)
    assert diagonal.W.any()


def assert_scores_stay_bounded_in_the_diagonal(kind: str, name: str) -> None:
    """Unit rows and ridge 0.1: without the factor 1/(1+q) the same rounds send the scores far away."""
    features = 40
    one = subject(kind, name, features=features, ridge=0.1)
    generator = np.random.default_rng(9)
    unsafe, S = np.zeros((CLASSES, features)), np.full((CLASSES, features), 10.0)
    furthest = furthest_unsafe = 0.0
    for identity in range(300):
        x = 1.0 + 0.3 * generator.normal(size=features)
        x /= np.linalg.norm(x)
        played = one.decide(x, identity)
        a, y = played.label, int(generator.integers(CLASSES))
        one.learn(played, y)
        S[a] = 1.0 / (1.0 / S[a] + x**2)
        unsafe[a] += (float(a == y) - unsafe[a] @ x) * S[a] * x
        furthest = max(furthest, float(np.abs(one.scores(x)).max()))
        furthest_unsafe = max(furthest_unsafe, float(np.abs(unsafe @ x).max()))
    assert furthest < 1.5
    assert furthest_unsafe > 100.0
