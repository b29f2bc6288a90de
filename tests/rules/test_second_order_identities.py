"""What the papers say about the second-order rules, tested on the slow twins and on the compiled learners alike.

Every identity is stated in what a user can see (weights, scores, variances, probabilities), so that one test serves both. The
formulas here are the fused ones of docs/explanation/algorithms-second-order.md#confidit and its neighbours; the slow twins solve linear systems instead.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from onebit.learner import Learner
from onebit.rules import registry
from tests.oracles import confidit, newtron, thompson
from tests.oracles.base import Array, Decided, best_other, softmax
from tests.oracles.draws import draws

CLASSES, FEATURES, SEED = 4, 5, 3

DEFAULTS: dict[str, dict[str, Any]] = {
    "confidit": {"alpha": 1.0, "eta": 1.0, "project": True, "projection": "all", "form": "residual", "coin": False},
    "newtron": {"alpha": 10.0, "beta": 0.01, "radius": 1.0, "exploration": 0.01},
    "soba": {"ridge": 1.0, "exploration": 0.1, "form": "residual"},
    "second-order-perceptron": {"ridge": 1.0},
    "arow": {"ridge": 0.1},
    "linucb": {"width": 0.3, "ridge": 0.1},
    "thompson": {"width": 0.3, "ridge": 0.1},
    "squarecb": {"gamma_scale": 10.0, "ridge": 1.0},
    "softmax": {"sharpness": 30.0, "ridge": 1.0},
    "epsilon-greedy": {"exploration": 0.01, "model": "ridge", "ridge": 1.0, "rate": 1.0},
}
FULL_INFORMATION = ("second-order-perceptron", "arow")
RIDGES = ("linucb", "thompson", "squarecb", "softmax", "epsilon-greedy")

both = pytest.mark.parametrize("kind", ["oracle", "compiled"])
matrices = pytest.mark.parametrize("matrix", ["diagonal", "full"])
projections = pytest.mark.parametrize("projection", ["all", "played"])


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
    settings = {**DEFAULTS[name], "matrix": matrix, **options}
    if kind == "oracle":
        return Slow(name, classes, features, settings)
    if name not in registry():
        pytest.skip(f"the rule {name} is not there yet")
    return Fast(name, classes, features, settings)


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


# --- what all of them share -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_the_agreed_ones(name: str) -> None:
    if name not in registry():
        pytest.skip(f"the rule {name} is not there yet")
    defaults = dict(registry()[name].defaults)
    assert defaults.pop("matrix") == "diagonal"
    assert defaults == DEFAULTS[name]


@both
@matrices
@pytest.mark.parametrize("name", DEFAULTS)
def test_probabilities_sum_to_one_and_are_even_for_x_of_zero(kind: str, matrix: str, name: str) -> None:
    one = trained(subject(kind, name, matrix))
    # The compiled learner computes Thompson's chances to a stated accuracy.
    tolerance = 2e-3 * CLASSES if (kind, name) == ("compiled", "thompson") else 1e-9
    for x in fresh_rows(10):
        chances = one.chances(x)
        assert (chances >= 0.0).all()
        assert chances.sum() == pytest.approx(1.0, abs=tolerance)
    np.testing.assert_allclose(one.chances(np.zeros(FEATURES)), 1.0 / CLASSES, atol=tolerance)


@both
@matrices
@pytest.mark.parametrize("name", DEFAULTS)
def test_nothing_is_learnt_from_x_of_zero(kind: str, matrix: str, name: str) -> None:
    one = trained(subject(kind, name, matrix))
    x = fresh_rows(1)[0]
    before, chances = one.W, one.chances(x)
    for identity, truth in ((100, 0), (101, 1), (102, 2)):
        played = one.decide(np.zeros(FEATURES), identity)
        one.learn(played, truth)
        one.learn(one.decide(np.zeros(FEATURES), identity + 10), played.label)
    np.testing.assert_array_equal(one.W, before)
    np.testing.assert_array_equal(one.chances(x), chances)


@both
@matrices
@pytest.mark.parametrize("name", ["confidit", *RIDGES])
def test_only_the_played_class_changes_and_its_variance_falls(kind: str, matrix: str, name: str) -> None:
    played_alone: dict[str, Any] = {"projection": "played"} if name == "confidit" else {}
    one = subject(kind, name, matrix, **played_alone)
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
@pytest.mark.parametrize("name", ["confidit", *RIDGES])
def test_a_zero_residual_still_shrinks_the_variance(kind: str, matrix: str, name: str) -> None:
    no_on_wrong: dict[str, Any] = {"alpha": 0.0} if name == "confidit" else {}
    one = subject(kind, name, matrix, **no_on_wrong)
    x = fresh_rows(1)[0]
    q = one.variances(x)
    played = one.decide(x, 0)
    one.learn(played, (played.label + 1) % CLASSES)  # wrong: the target is 0, and so is the score
    np.testing.assert_array_equal(one.W, 0.0)
    assert one.variances(x)[played.label] < q[played.label] * 0.9


ONE_HOT: list[tuple[str, dict[str, Any]]] = [*((name, {}) for name in RIDGES), ("second-order-perceptron", {})] + [
    ("confidit", {"form": form, "project": project}) for form in ("residual", "published") for project in (True, False)
]


@both
@pytest.mark.parametrize(("name", "options"), ONE_HOT)
def test_full_equals_diagonal_for_one_hot_rows(kind: str, name: str, options: dict[str, Any]) -> None:
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


# --- the regressions: Confidit and the ridge family -------------------------------------------------------------------


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


@both
@matrices
@pytest.mark.parametrize("name", RIDGES)
def test_ridge_rules_follow_the_fused_step(kind: str, matrix: str, name: str) -> None:
    one = subject(kind, name, matrix)
    twins = [Fused(DEFAULTS[name]["ridge"], matrix) for _ in range(CLASSES)]
    for identity, x, y in stream(80, length=1.5):
        played = one.decide(x, identity)
        one.learn(played, y)
        twins[played.label].step(x, 1.0 if played.label == y else 0.0)
        np.testing.assert_allclose(one.W, [twin.w for twin in twins], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(one.variances(x), [x @ twin.P @ x for twin in twins], rtol=1e-8)


@both
@matrices
@projections
@pytest.mark.parametrize("alpha", [1.0, 0.5, -0.4])
def test_confidit_follows_the_fused_step_and_lands_on_the_clipped_score(
    kind: str, matrix: str, alpha: float, projection: str
) -> None:
    one = subject(kind, "confidit", matrix, alpha=alpha, projection=projection)
    twins = [Fused((1.0 + alpha) ** 2, matrix) for _ in range(CLASSES)]
    clipped = 0
    for identity, x, y in stream(120, uneven=9, noise=0.7):
        played = one.decide(x, identity)
        a = played.label
        s, q = float(one.scores(x)[a]), float(one.variances(x)[a])
        c = min(1.0, max(-alpha, s))
        clipped += c != s
        one.learn(played, y)
        target = 1.0 if a == y else -alpha
        assert one.scores(x)[a] == pytest.approx(c + (target - c) * q / (1.0 + q), rel=1e-9)  # that is, w'.x = c
        twins[a].step(x, target, -alpha, 1.0)
        for label, twin in enumerate(twins):
            if label != a and projection == "all":
                twin.project(x, -alpha, 1.0)
        np.testing.assert_allclose(one.W, [twin.w for twin in twins], rtol=1e-7, atol=1e-9)
    assert clipped > 5


@both
@matrices
@pytest.mark.parametrize("form", ["residual", "published"])
def test_every_class_of_confidit_keeps_its_projection_and_its_variance(kind: str, matrix: str, form: str) -> None:
    """W = A^-1 (A W' + X): a class that was not played is left with its projected weights."""
    one = subject(kind, "confidit", matrix, form=form)
    moved = 0
    for identity, x, y in stream(120, uneven=9, noise=0.7):
        s, q, W = one.scores(x), one.variances(x), one.W
        played = one.decide(x, identity)
        one.learn(played, y)
        others = np.arange(CLASSES) != played.label
        np.testing.assert_allclose(one.scores(x)[others], np.clip(s, -1.0, 1.0)[others], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(one.variances(x)[others], q[others])
        inside = others & (np.abs(s) <= 1.0)
        np.testing.assert_allclose(one.W[inside], W[inside], rtol=1e-9, atol=1e-12)
        moved += int((others & ~inside).any())
    assert moved > 10


@both
@pytest.mark.parametrize("project", [True, False])
def test_both_forms_of_confidit_are_one_with_a_full_matrix(kind: str, project: bool) -> None:
    first = subject(kind, "confidit", "full", form="residual", project=project)
    second = subject(kind, "confidit", "full", form="published", project=project)
    for identity, x, y in stream(80, uneven=9, noise=0.7):
        played = first.decide(x, identity)
        assert second.decide(x, identity).label == played.label
        first.learn(played, y)
        second.learn(second.decide(x, identity), y)
        np.testing.assert_allclose(second.W, first.W, rtol=1e-7, atol=1e-9)


@both
def test_the_published_diagonal_of_confidit_is_b_over_a(kind: str) -> None:
    one, residual = (subject(kind, "confidit", form=form, projection="played") for form in ("published", "residual"))
    b, A = np.zeros((CLASSES, FEATURES)), np.full((CLASSES, FEATURES), 4.0)
    clipped = 0
    for identity, x, y in stream(120, uneven=9, noise=0.7):
        played = one.decide(x, identity)
        a = played.label
        s, q = float(b[a] / A[a] @ x), float(x**2 @ (1.0 / A[a]))
        c = min(1.0, max(-1.0, s))
        clipped += c != s
        b[a] += ((1.0 if a == y else -1.0) - (s - c) / q) * x
        A[a] += x**2
        one.learn(played, y)
        residual.learn(residual.decide(x, identity), y)
        np.testing.assert_allclose(one.W, b / A, rtol=1e-7, atol=1e-9)
    assert clipped > 10
    assert np.abs(one.W - residual.W).max() > 0.01, "with a diagonal the two forms differ"


@both
@pytest.mark.parametrize(
    ("name", "options", "start", "no"),
    [*((name, {}, DEFAULTS[name]["ridge"], 0.0) for name in RIDGES), ("confidit", {"project": False}, 4.0, -1.0)],
)
@pytest.mark.parametrize("classes", [CLASSES, 2])
def test_full_weights_solve_the_normal_equations(
    kind: str, name: str, options: dict[str, Any], start: float, no: float, classes: int
) -> None:
    """For K = 2 and alpha = 1, Confidit is ridge regression on +-1."""
    one = subject(kind, name, "full", classes=classes, **options)
    A = np.array([start * np.eye(FEATURES)] * classes)
    b = np.zeros((classes, FEATURES))
    for identity, x, y in stream(100, classes=classes):
        played = one.decide(x, identity)
        one.learn(played, y)
        A[played.label] += np.outer(x, x)
        b[played.label] += (1.0 if played.label == y else no) * x
    np.testing.assert_allclose(one.W, np.linalg.solve(A, b[:, :, None])[:, :, 0], rtol=1e-8, atol=1e-10)


@both
@matrices
@pytest.mark.parametrize("eta", [0.09, 2.0])
def test_confidit_without_coin_and_projection_is_linucb(kind: str, matrix: str, eta: float) -> None:
    first = subject(kind, "confidit", matrix, alpha=0.0, eta=eta, project=False)
    second = subject(kind, "linucb", matrix, ridge=1.0, width=math.sqrt(eta))
    for identity, x, y in stream(100):
        played, other = first.decide(x, identity), second.decide(x, identity)
        assert (played.label, played.decided.greedy) == (other.label, other.decided.greedy)
        first.learn(played, y)
        second.learn(other, y)
    np.testing.assert_allclose(first.W, second.W, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("coin", [True, False])
@pytest.mark.parametrize("alpha", [1.0, 0.5, 0.0, -0.5])
@pytest.mark.parametrize("score", [0.6, 0.9])
def test_the_mean_of_the_target_of_confidit_is_the_score(alpha: float, coin: bool, score: float) -> None:
    right = (alpha + score) / (1.0 + alpha)
    grid = (np.arange(1000.0) + 0.5) / 1000.0  # the coin's chance is a multiple of 1/1000
    on_wrong = float(np.mean([confidit.target(alpha, False, coin, [0.0, 0.0, u].__getitem__) for u in grid]))
    mean = right * confidit.target(alpha, True, coin, lambda _: 0.0) + (1.0 - right) * on_wrong
    assert mean == pytest.approx(score)


@both
@pytest.mark.parametrize("alpha", [1.0, 0.5, 0.0, -0.5])
def test_the_coin_of_confidit_is_fair_to_the_mean(kind: str, alpha: float) -> None:
    """Within five deviations of its chance in 200 tosses: it fails by bad luck once in a million, and the seed is fixed."""
    x = fresh_rows(1)[0]
    q = 1.0 / (1.0 + alpha) ** 2

    def target(coin: bool, identity: int) -> float:
        one = copy.deepcopy(fresh[coin])
        played = one.decide(x, identity)
        one.learn(played, (played.label + 1) % CLASSES)
        return float(one.scores(x)[played.label]) * (1.0 + q) / q

    fresh = {coin: subject(kind, "confidit", alpha=alpha, project=False, coin=coin) for coin in (True, False)}
    assert target(False, 0) == pytest.approx(-alpha)
    tosses = np.array([target(True, identity) for identity in range(200)])
    np.testing.assert_allclose(np.abs(tosses), 1.0)
    chance = (1.0 - alpha) / 2.0
    assert abs(np.mean(tosses > 0.0) - chance) <= 5.0 * math.sqrt(chance * (1.0 - chance) / 200)


def test_the_projection_of_the_slow_confidit_is_the_nearest_point() -> None:
    generator = np.random.default_rng(6)
    for _ in range(20):
        root = generator.normal(size=(FEATURES, FEATURES))
        A, w, x = (
            root @ root.T + 0.1 * np.eye(FEATURES),
            generator.normal(size=FEATURES),
            generator.normal(size=FEATURES),
        )
        w *= 3.0 / (w @ x)  # out of reach on the upper side
        near = confidit.projected(w, A, x, -0.5, 1.0)
        assert near @ x == pytest.approx(1.0)
        multiplier = A @ (w - near)
        np.testing.assert_allclose(multiplier, x * (multiplier @ x) / (x @ x), rtol=1e-7, atol=1e-8)
        for other in near + generator.normal(size=(50, FEATURES)):
            feasible = other - max(0.0, other @ x - 1.0) / (x @ x) * x
            assert (w - feasible) @ A @ (w - feasible) >= (w - near) @ A @ (w - near) * (1.0 - 1e-9)
        inside = w * 0.1
        np.testing.assert_array_equal(confidit.projected(inside, A, x, -0.5, 1.0), inside)


@both
@pytest.mark.parametrize("name", ["linucb", "thompson", "squarecb"])
def test_scores_stay_bounded_in_the_diagonal(kind: str, name: str) -> None:
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


# --- how the ridge family plays ---------------------------------------------------------------------------------------


@both
@matrices
@pytest.mark.parametrize("name", ["linucb", "thompson"])
def test_width_zero_is_greedy(kind: str, matrix: str, name: str) -> None:
    one = subject(kind, name, matrix, width=0.0)
    for identity, x, y in stream(60):
        played = one.decide(x, identity)
        assert played.label == played.decided.greedy
        one.learn(played, y)


@both
@matrices
def test_linucb_plays_the_best_upper_bound(kind: str, matrix: str) -> None:
    one = trained(subject(kind, "linucb", matrix, width=0.7), rounds=150)
    explored = 0
    for identity, x in enumerate(fresh_rows(50)):
        played = one.decide(x, identity)
        assert played.label == np.argmax(one.scores(x) + 0.7 * np.sqrt(one.variances(x)))
        assert played.decided.greedy == np.argmax(one.scores(x))
        explored += played.label != played.decided.greedy
    assert explored > 0


@both
@matrices
def test_thompson_with_two_classes_has_the_chances_of_a_difference(kind: str, matrix: str) -> None:
    one = trained(subject(kind, "thompson", matrix, classes=2), rounds=15, classes=2, noise=1.0)
    for x in fresh_rows(20):
        s, q = one.scores(x), one.variances(x)
        first = ndtr((s[0] - s[1]) / (0.3 * math.sqrt(q[0] + q[1])))
        np.testing.assert_allclose(one.chances(x), [first, 1.0 - first], atol=1e-9 if kind == "oracle" else 2e-3)


def test_the_chances_of_the_slow_thompson_hold_for_deviations_of_every_size() -> None:
    """The other formula for three normals: two correlated differences, by brute force on a fine grid of the third."""
    for deviations in ([1.0, 1.0, 1.0], [1e-4, 1.0, 30.0], [0.3, 1e-3, 0.3]):
        means, sizes = np.array([0.1, -0.2, 0.0]), np.array(deviations)
        chances = thompson.chances_of_best(means, sizes)
        assert chances.sum() == pytest.approx(1.0, abs=1e-12)
        z = (np.arange(2_000_000) + 0.5) / 100_000.0 - 10.0
        value, density = means[2] + sizes[2] * z, np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi) / 100_000.0
        third = density * ndtr((value - means[0]) / sizes[0]) * ndtr((value - means[1]) / sizes[1])
        assert chances[2] == pytest.approx(third.sum(), abs=1e-6)


@both
@matrices
def test_thompson_plays_as_often_as_it_says(kind: str, matrix: str) -> None:
    """Within five deviations for each of four labels in 3000 plays, and the seed is fixed."""
    one = trained(subject(kind, "thompson", matrix), rounds=12, noise=1.0)
    x = fresh_rows(1)[0]
    chances = one.chances(x)
    played = np.bincount([one.decide(x, identity).label for identity in range(3000)], minlength=CLASSES) / 3000
    assert (chances > 0.01).sum() >= 2
    assert (np.abs(played - chances) <= 5.0 * np.sqrt(chances * (1.0 - chances) / 3000) + 2e-3).all()


@both
@matrices
def test_squarecb_weighs_by_inverse_gaps(kind: str, matrix: str) -> None:
    rounds = 150
    one = trained(subject(kind, "squarecb", matrix), rounds=rounds)
    outside = 0
    for identity, x in enumerate(2.0 * fresh_rows(20)):
        s = one.scores(x)
        outside += bool((s < 0.0).any())
        best, clipped = int(np.argmax(s)), np.clip(s, 0.0, 1.0)
        expected = 1.0 / (CLASSES + 10.0 * math.sqrt(rounds + 1) * (clipped[best] - clipped))
        expected[best] += 1.0 - expected.sum()
        np.testing.assert_allclose(one.chances(x), expected, atol=1e-12)
        assert expected[best] >= 1.0 / CLASSES
        played = one.decide(x, identity)
        assert played.decided.greedy == best
        assert played.decided.weight == pytest.approx(expected[played.label])
    assert outside > 0


@both
@matrices
def test_softmax_plays_the_softmax_of_the_scores(kind: str, matrix: str) -> None:
    one = trained(subject(kind, "softmax", matrix))
    for identity, x in enumerate(fresh_rows(20)):
        expected = softmax(30.0 * one.scores(x))
        np.testing.assert_allclose(one.chances(x), expected, atol=1e-12)
        played = one.decide(x, identity)
        assert played.decided.weight == pytest.approx(expected[played.label])
        assert expected[played.decided.greedy] >= 1.0 / CLASSES


@both
def test_logistic_steps_have_their_own_rate_for_each_coordinate(kind: str) -> None:
    one = subject(kind, "epsilon-greedy", model="logistic", rate=0.5, exploration=0.2)
    W, G = np.zeros((CLASSES, FEATURES)), np.zeros((CLASSES, FEATURES))
    first = True
    for identity, full_row, y in stream(80, length=2.0):
        x = np.where(np.arange(FEATURES) == identity % FEATURES, 0.0, full_row)
        played = one.decide(x, identity)
        a = played.label
        g = (float(a == y) - 1.0 / (1.0 + math.exp(-W[a] @ x))) * x
        G[a] += g**2
        W[a] += 0.5 * np.divide(g, np.sqrt(G[a]), out=np.zeros(FEATURES), where=g != 0.0)
        one.learn(played, y)
        np.testing.assert_allclose(one.W, W, rtol=1e-9, atol=1e-12)
        if first:
            np.testing.assert_allclose(one.W[a], 0.5 * np.sign(g), rtol=1e-12)
            first = False


# --- Newtron ----------------------------------------------------------------------------------------------------------


@both
@matrices
@pytest.mark.parametrize("explored", [0.0, 1.0])
def test_the_mean_step_of_newtron_is_the_gradient(kind: str, matrix: str, explored: float) -> None:
    """Almost no curvature and a wide ball: then W = -D b, and the step of W is -D g."""
    radius, gamma = 100.0, 0.2
    one = subject(kind, "newtron", matrix, radius=radius, beta=1e-11, exploration=gamma, alpha=3.0)
    trained(one, rounds=12, length=0.03)
    before = one.W
    assert 0.0 < np.linalg.norm(before) < 0.9 * radius
    x = 0.03 * fresh_rows(1)[0]
    P = softmax(3.0 * one.scores(x))
    p = (1.0 - gamma) * P + gamma / CLASSES
    assert np.ptp(P) > 0.05
    np.testing.assert_allclose(one.chances(x), p, rtol=1e-9)
    for truth in range(CLASSES):
        mean = np.zeros_like(before)
        for label in range(CLASSES):
            after = copy.deepcopy(one)
            played = after.decide(x, 500).instead(
                label=label, weight=float(p[label]), note=float(P[label]), second_note=explored
            )
            after.learn(played, truth)
            step = after.W - before
            np.testing.assert_allclose(step.sum(axis=0), 0.0, atol=1e-8)
            mean += p[label] * step
        np.testing.assert_allclose(mean, -radius * np.outer(P - np.eye(CLASSES)[truth], x), rtol=1e-6, atol=1e-7)


def test_the_gradient_of_the_slow_newtron_is_unbiased() -> None:
    generator = np.random.default_rng(2)
    x, P = generator.normal(size=FEATURES), generator.dirichlet(np.ones(CLASSES))
    p = 0.9 * P + 0.1 / CLASSES
    for truth in range(CLASSES):
        steps = [newtron.gradient(x, a, a == truth, P[a], p[a], CLASSES) for a in range(CLASSES)]
        np.testing.assert_allclose(np.sum(steps, axis=1), 0.0, atol=1e-12)
        mean = sum(p[a] * steps[a] for a in range(CLASSES))
        np.testing.assert_allclose(mean, np.outer(P - np.eye(CLASSES)[truth], x), atol=1e-12)


@both
@matrices
def test_newtron_follows_its_formulas_and_stays_in_the_ball(kind: str, matrix: str) -> None:
    radius, beta = 0.5, 0.3
    one = subject(kind, "newtron", matrix, radius=radius, beta=beta, exploration=0.1)
    b, A = np.zeros((CLASSES, FEATURES)), np.full((CLASSES, FEATURES), 1.0 / radius)
    inside = outside = 0
    for identity, x, y in stream(100, noise=0.8):
        played = one.decide(x, identity)
        known, right = played.decided, played.label == y
        g = newtron.gradient(x, known.label, right, known.note, known.weight, CLASSES)
        kappa = known.weight if right else 1.0
        b += (1.0 - (known.second_note == 0.0) * kappa * beta * np.sum(g * one.W)) * g
        A += kappa * beta * g**2
        one.learn(played, y)
        length = float(np.linalg.norm(one.W))
        assert length <= radius * (1.0 + 1e-9)
        if matrix == "full":  # the directions that sum to zero over the classes are left only by a diagonal
            np.testing.assert_allclose(one.W.sum(axis=0), 0.0, atol=1e-9)
            outside += length > radius * (1.0 - 1e-9)
        else:
            free = -b / A
            scale = min(1.0, radius / float(np.linalg.norm(free)))
            np.testing.assert_allclose(one.W, scale * free, rtol=1e-8, atol=1e-10)
            outside += scale < 1.0
        inside += length < radius * (1.0 - 1e-6)
    assert inside > 0
    assert outside > 0


def test_the_projection_of_the_slow_newtron_meets_its_conditions() -> None:
    generator = np.random.default_rng(12)
    size = 12
    for scale in (1e-3, 1.0, 1e3):
        root = generator.normal(size=(size, size))
        A, b = root @ root.T + 0.01 * np.eye(size), scale * generator.normal(size=size)
        free = -np.linalg.solve(A, b)
        radius = 0.4 * float(np.linalg.norm(free))
        near = newtron.projected(A, b, radius)
        assert np.linalg.norm(near) == pytest.approx(radius, rel=1e-10)
        pull = A @ (free - near)  # is a positive multiple of the normal of the ball
        assert pull @ near > 0.0
        np.testing.assert_allclose(pull, near * (pull @ near) / radius**2, rtol=1e-6, atol=1e-8 * scale)
        for other in near + 0.3 * radius * generator.normal(size=(50, size)):
            feasible = other * min(1.0, radius / float(np.linalg.norm(other)))
            assert (free - feasible) @ A @ (free - feasible) >= (free - near) @ A @ (free - near) * (1.0 - 1e-9)
        np.testing.assert_allclose(newtron.projected(A, b, 3.0 * radius), free, rtol=1e-12)


@both
def test_full_newtron_is_projected_in_the_norm_of_its_matrix(kind: str) -> None:
    """By tracking A and b over all weights: A (free - W) is a multiple of W where the ball binds, and 0 inside."""
    radius, beta = 0.5, 0.3
    one = subject(kind, "newtron", "full", radius=radius, beta=beta, exploration=0.1)
    b, A = np.zeros(CLASSES * FEATURES), np.eye(CLASSES * FEATURES) / radius
    for identity, x, y in stream(60, noise=0.8):
        played = one.decide(x, identity)
        known, right = played.decided, played.label == y
        g = newtron.gradient(x, known.label, right, known.note, known.weight, CLASSES).ravel()
        kappa = known.weight if right else 1.0
        b += (1.0 - (known.second_note == 0.0) * kappa * beta * (g @ one.W.ravel())) * g
        A += kappa * beta * np.outer(g, g)
        one.learn(played, y)
        W = one.W.ravel()
        pull = -b - A @ W
        multiple = float(pull @ W) / float(W @ W) if np.linalg.norm(W) > radius * (1.0 - 1e-6) else 0.0
        np.testing.assert_allclose(pull, multiple * W, atol=1e-6 * float(np.linalg.norm(b)))
        assert multiple >= -1e-8


@both
@matrices
def test_newtron_that_only_explores_plays_evenly(kind: str, matrix: str) -> None:
    one = trained(subject(kind, "newtron", matrix, exploration=1.0))
    assert one.W.any()
    for identity, x in enumerate(fresh_rows(10)):
        np.testing.assert_allclose(one.chances(x), 1.0 / CLASSES, rtol=1e-12)
        played = one.decide(x, identity)
        assert played.decided.weight == pytest.approx(1.0 / CLASSES)
        assert played.decided.second_note == 1.0


# --- SOBA -------------------------------------------------------------------------------------------------------------


@both
@matrices
@pytest.mark.parametrize("form", ["residual", "published"])
def test_soba_follows_its_formulas_and_never_lets_m_fall_below_zero(kind: str, matrix: str, form: str) -> None:
    one = subject(kind, "soba", matrix, form=form, exploration=0.3)
    size = CLASSES * FEATURES
    W, theta, P, M = np.zeros(size), np.zeros(size), np.eye(size), 0.0
    taken = refused = 0
    for identity, x, y in stream(150, length=0.6):
        played = one.decide(x, identity)
        a, p = played.label, played.decided.weight
        before, s = one.W, one.scores(x)
        one.learn(played, y)
        if a != y:
            np.testing.assert_array_equal(one.W, before)
            continue
        rival = best_other(s, a)
        delta = float(s[rival] - s[a])
        u = np.outer(np.eye(CLASSES)[rival] - np.eye(CLASSES)[a], x).ravel()
        v = P @ u
        q0 = float(u @ v)
        m = (delta**2 + 2.0 * delta) / (p + q0)
        if M + m < 0.0:
            refused += 1
            assert delta < 0.0, "an explored right answer always passes"
            np.testing.assert_array_equal(one.W, before)
            continue
        taken += 1
        M += m
        theta -= u / p
        if matrix == "full":
            P -= np.outer(v, v) / (p + q0)
        else:
            P = np.diag(1.0 / (1.0 / np.diag(P) + u**2 / p))
        if matrix == "full" or form == "published":
            W = P @ theta  # W = A^-1 theta
        else:
            W = W - (1.0 + delta) / (p + q0) * v
        np.testing.assert_allclose(one.W.ravel(), W, rtol=1e-7, atol=1e-9)
        if isinstance(one, Slow):
            assert one.oracle.M >= 0.0
            assert abs(one.oracle.M - M) < 1e-9
    assert taken > 5
    assert refused > 5


@both
@matrices
def test_with_two_classes_the_rival_of_soba_is_the_other_class(kind: str, matrix: str) -> None:
    one = trained(subject(kind, "soba", matrix, classes=2, exploration=0.3), rounds=80, classes=2)
    assert one.W.any()
    np.testing.assert_allclose(one.W[0], -one.W[1], rtol=1e-9)


# --- full information -------------------------------------------------------------------------------------------------


@both
@matrices
def test_second_order_perceptron_is_whitened_by_its_mistakes(kind: str, matrix: str) -> None:
    one = subject(kind, "second-order-perceptron", matrix)
    V, A = np.zeros((CLASSES, FEATURES)), np.eye(FEATURES)
    mistakes = 0
    for identity, x, y in stream(120, noise=0.8):
        played = one.decide(x, identity)
        if matrix == "full" and V.any():  # the row itself only rescales all scores
            with_row = V @ np.linalg.solve(A + np.outer(x, x), x)
            assert np.argmax(with_row) == np.argmax(one.scores(x))
        one.learn(played, y)
        if played.label != y:
            mistakes += 1
            V[y] += x
            V[played.label] -= x
            A += np.outer(x, x) if matrix == "full" else np.diag(x**2)
        np.testing.assert_allclose(one.W, np.linalg.solve(A, V.T).T, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(one.variances(x), x @ np.linalg.solve(A, x), rtol=1e-8)
    assert 20 < mistakes < 100


@both
@matrices
def test_arow_learns_below_margin_one_only_and_stays_positive(kind: str, matrix: str) -> None:
    one = subject(kind, "arow", matrix)
    rows = [*np.eye(FEATURES), *fresh_rows(3)]
    passive = active = 0
    for identity, x, y in stream(150):
        s, W, q = one.scores(x), one.W, one.variances(x)
        rival = best_other(s, y)
        margin = float(s[y] - s[rival])
        one.learn(one.decide(x, identity), y)
        if margin >= 1.0:
            passive += 1
            np.testing.assert_array_equal(one.W, W)
            np.testing.assert_array_equal(one.variances(x), q)
            continue
        active += 1
        share = (q[y] + q[rival]) / (q[y] + q[rival] + 0.1)
        after = one.scores(x)
        assert after[y] - after[rival] == pytest.approx(margin + (1.0 - margin) * share)
        fallen = one.variances(x)
        assert (fallen[[y, rival]] < q[[y, rival]]).all()
        others = [label for label in range(CLASSES) if label not in (y, rival)]
        np.testing.assert_array_equal(one.W[others], W[others])
        np.testing.assert_array_equal(fallen[others], q[others])
        assert all((one.variances(row) > 0.0).all() for row in rows)
    assert passive > 20
    assert active > 20


@both
@matrices
def test_arow_with_one_hot_rows_has_a_covariance_for_each_coordinate(kind: str, matrix: str) -> None:
    """The full downdate has the variance of both classes in it and the diagonal one only the own: they part here too."""
    r = 0.1
    one = subject(kind, "arow", matrix, ridge=r)
    W, S = np.zeros((CLASSES, FEATURES)), np.ones((CLASSES, FEATURES))
    generator = np.random.default_rng(4)
    for identity in range(80):
        j, y = int(generator.integers(FEATURES)), int(generator.integers(CLASSES))
        x = np.eye(FEATURES)[j]
        rival = best_other(W[:, j], y)
        margin = W[y, j] - W[rival, j]
        one.learn(one.decide(x, identity), y)
        if margin < 1.0:
            beta = 1.0 / (S[y, j] + S[rival, j] + r)
            for label, sign in ((y, 1.0), (rival, -1.0)):
                W[label, j] += sign * (1.0 - margin) * beta * S[label, j]
            for label in (y, rival):
                if matrix == "full":
                    S[label, j] -= beta * S[label, j] ** 2
                else:
                    S[label, j] = 1.0 / (1.0 / S[label, j] + 1.0 / r)
        np.testing.assert_allclose(one.W, W, rtol=1e-8, atol=1e-10)
        for coordinate in range(FEATURES):
            np.testing.assert_allclose(one.variances(np.eye(FEATURES)[coordinate]), S[:, coordinate], rtol=1e-8)
