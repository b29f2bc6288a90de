"""Gaptron: gradients, the exploration that the surrogate gap pays for, the constants of the theorems, and the ball.

The surrogate gap is what one round may add to the number of mistakes beyond the surrogate loss. Gradient descent gives
sum l(W_t) - sum l(U) <= ||U||^2/(2 rate) + sum rate/2 ||g_t||^2,  so that

    E[mistake] - l(W_t) + rate/2 E||g_t||^2 <= 0    (bandit: <= gamma (K-1)/K, the price of exploring)

in every round is exactly what the mistake bounds need.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from onebit.contract.rule import NORM
from onebit.learner.learner import Learner
from onebit.rules.gaptron import RULE
from tests.rules.steps import (
    WRONG,
    Bench,
    Vector,
    bench_of,
    decision,
    learnt,
    probabilities_of,
    revealed_to,
    shuffled,
    taught,
    unit,
    walk,
)

LOSSES = ("logistic", "hinge", "smooth")


def lead_of(scores: Vector, label: int) -> float:
    """How far a label is ahead of its best rival."""
    return float(scores[label] - np.delete(scores, label).max())


def log_softmax(scores: Vector) -> Vector:
    """The logarithms of the softmax."""
    return np.asarray(scores - scores.max() - np.log(np.exp(scores - scores.max()).sum()))


def loss_of(loss: str, scores: Vector, truth: int, greedy: int, lead: float) -> float:
    """The surrogate loss of the table; greedy and its lead are those of W_t, also when another W is judged."""
    margin = lead_of(scores, truth)
    if loss == "logistic":
        return float(-log_softmax(scores)[truth] / math.log(2.0))
    if loss == "hinge":
        return 0.0 if greedy == truth and lead > 1.0 / len(scores) else max(0.0, 1.0 - margin)
    return 1.0 - 2.0 * margin if margin <= 0.0 else max(0.0, 1.0 - margin) ** 2


def gap_of(loss: str, scores: Vector) -> float:
    """The gap map of the table."""
    lead = lead_of(scores, int(scores.argmax()))
    if loss == "logistic":
        best = float(np.exp(log_softmax(scores)).max())
        return float(np.exp(np.sort(log_softmax(scores))[:-1]).sum()) if best >= 0.5 else 1.0
    if loss == "hinge":
        return 1.0 - lead if lead <= 1.0 / len(scores) else 0.0
    return (1.0 - min(1.0, lead)) ** 2


def played_chances(scores: Vector, mixed: float) -> Vector:
    """p' = (1 - q) e_greedy + q/K where one label is ahead of all others."""
    return (1.0 - mixed) * unit(len(scores), int(scores.argmax())) + mixed / len(scores)


def gradient(loss: str, scores: Vector, truth: int) -> Vector:
    """The rule's own gradient coefficients: a full-information step of rate one, turned around."""
    bench = bench_of(RULE, len(scores), setting="full", loss=loss, rate=1.0)
    taken = learnt(bench, scores, 1.0, decision(bench, scores, 1.0), truth)
    assert taken.scale == 1.0
    return -taken.coefficients


# ---- gradients


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_gradients_by_finite_differences(loss: str, classes: int) -> None:
    """Central differences of the table's losses in score space, away from kinks: 1e-6."""
    generator = np.random.default_rng(classes)
    nudge, moved = 1e-6, 0
    for _ in range(150):
        scores = generator.normal(size=classes) * float(generator.choice([0.1, 0.6, 3.0]))
        truth, greedy = int(generator.integers(classes)), int(scores.argmax())
        rivals = np.sort(np.delete(scores, truth))
        kink = classes > 2 and rivals[-1] - rivals[-2] < 1e-3
        if kink or (loss == "hinge" and abs(lead_of(scores, truth) - 1.0) < 1e-3):
            continue
        lead = lead_of(scores, greedy)
        slopes = [
            (
                loss_of(loss, scores + nudge * unit(classes, row), truth, greedy, lead)
                - loss_of(loss, scores - nudge * unit(classes, row), truth, greedy, lead)
            )
            / (2.0 * nudge)
            for row in range(classes)
        ]
        found = gradient(loss, scores, truth)
        assert np.allclose(found, slopes, rtol=0, atol=1e-6)
        assert abs(found.sum()) < 1e-12
        moved += bool(np.any(found))
    assert moved > 50


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_bound_the_zero_one_loss_where_they_must(loss: str) -> None:
    """A wrong greedy label costs at least one; the table's loss is checked here, since the tests above lean on it."""
    generator = np.random.default_rng(0)
    for _ in range(300):
        scores = generator.normal(size=4)
        truth = int(generator.integers(4))
        greedy = int(scores.argmax())
        if greedy != truth:
            assert loss_of(loss, scores, truth, greedy, lead_of(scores, greedy)) >= 1.0


def test_late_feedback_keeps_the_greedy_label_and_its_lead() -> None:
    """The hinge's dead zone is that of the decision: a lead of more than 1/K then costs nothing now, and vice versa."""
    bench = bench_of(RULE, 3, loss="hinge", setting="full", rate=1.0)
    clear, close = np.array([0.9, 0.0, -0.5]), np.array([0.1, 0.0, -0.5])
    assert not learnt(bench, close, 1.0, decision(bench, clear, 1.0), 0).coefficients.any()
    assert learnt(bench, clear, 1.0, decision(bench, close, 1.0), 0).coefficients.tolist() == [1.0, -1.0, 0.0]


@pytest.mark.parametrize("loss", LOSSES)
def test_teaching_is_the_full_information_step(loss: str) -> None:
    """Also for a bandit learner: the gradient itself, divided by nothing, and kept in the ball."""
    generator = np.random.default_rng(9)
    bench = bench_of(RULE, 4, loss=loss, rate=0.2, exploration=0.1)
    balled = bench_of(RULE, 4, loss=loss, rate=0.2, exploration=0.1, radius=1e-3)
    for _ in range(40):
        scores, truth = generator.normal(size=4), int(generator.integers(4))
        lesson = taught(bench, scores, 1.0, truth)
        assert lesson.scale == 1.0
        assert np.allclose(lesson.coefficients, -0.2 * gradient(loss, scores, truth), rtol=1e-12, atol=1e-15)
    first = taught(balled, np.zeros(4), 1.0, 2).coefficients  # from W = 0, so that this is W
    assert np.sqrt(first @ first) == pytest.approx(1e-3, rel=1e-12)


# ---- what is played


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("exploration", [0.0, 0.05, 0.6, 1.0])
def test_probabilities_mix_by_the_larger_of_gap_and_exploration(loss: str, exploration: float) -> None:
    """p' = (1-q) e + q/K with q = max(gap, gamma): sums to one, at least gamma/K, the weight of the decision."""
    generator = np.random.default_rng(1)
    by_gap = 0
    for number in range(200):
        classes = int(generator.integers(2, 8))
        scores = generator.normal(size=classes) * float(generator.choice([0.05, 0.5, 3.0]))
        bench = bench_of(RULE, classes, loss=loss, rate=0.1, exploration=exploration)
        played = probabilities_of(bench, scores, 1.0)
        assert np.allclose(
            played, played_chances(scores, max(gap_of(loss, scores), exploration)), rtol=1e-12, atol=1e-15
        )
        assert abs(played.sum() - 1.0) < 1e-12
        assert (played >= exploration / classes - 1e-15).all()
        choice = decision(bench, scores, 1.0, identity=number)
        assert choice.propensity == pytest.approx(played[choice.label], rel=1e-12)
        by_gap += gap_of(loss, scores) > exploration
    assert by_gap > 20 or exploration == 1.0


def test_the_hinge_gap_is_never_negative() -> None:
    """Printed, it is 1 - mstar < 0 for mstar > 1: it must be 0 beyond 1/K."""
    bench = bench_of(RULE, 3, loss="hinge", rate=0.1, exploration=0.0)
    for lead in (0.34, 1.0, 1.5, 100.0):
        assert probabilities_of(bench, np.array([lead, 0.0, -1.0]), 1.0).tolist() == [1.0, 0.0, 0.0]
    assert probabilities_of(bench, np.array([0.33, 0.0, -1.0]), 1.0)[1] == pytest.approx(0.67 / 3)


def test_the_logistic_gap_keeps_its_digits() -> None:
    """1 - pstar as the sum of the others: at a lead of 40 it is e^-40, where subtracting would give 0."""
    bench = bench_of(RULE, 2, loss="logistic", setting="full", rate=0.1)
    assert probabilities_of(bench, np.array([40.0, 0.0]), 1.0)[1] == pytest.approx(0.5 * math.exp(-40.0), rel=1e-9)
    assert np.isfinite(probabilities_of(bench, np.array([-900.0, 900.0]), 1.0)).all()
    assert np.isfinite(gradient("logistic", np.array([-900.0, 900.0]), 0)).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_at_the_start_everything_is_equally_likely(loss: str) -> None:
    """All scores 0: the gap is 1, whatever the exploration."""
    bench = bench_of(RULE, 5, loss=loss, rate=0.1, exploration=0.01)
    assert np.allclose(probabilities_of(bench, np.zeros(5), 1.0), 0.2, rtol=0, atol=1e-15)


# ---- bandit steps


@pytest.mark.parametrize("loss", LOSSES)
def test_the_expected_bandit_step_is_the_full_one(loss: str) -> None:
    """E over the label played of v c is c, with the probabilities of the rule; a wrong answer moves nothing."""
    generator = np.random.default_rng(2)
    moved = 0
    for _ in range(150):
        classes = int(generator.integers(2, 8))
        scores = generator.normal(size=classes)
        truth, rate = int(generator.integers(classes)), float(generator.uniform(0.01, 1.0))
        bench = bench_of(RULE, classes, loss=loss, rate=rate, exploration=0.03)
        choice, played = decision(bench, scores, 1.0), probabilities_of(bench, scores, 1.0)
        mean = np.zeros(classes)
        for label in range(classes):
            heard = choice._replace(label=label, propensity=played[label])
            taken = learnt(bench, scores, 1.0, heard, revealed_to(label, truth))
            mean += played[label] * taken.coefficients
            assert taken.scale == 1.0
            assert label == truth or not taken.coefficients.any()
        assert np.allclose(mean, -rate * gradient(loss, scores, truth), rtol=1e-12, atol=1e-14)
        moved += bool(mean.any())
    assert moved > 50


# ---- the surrogate gap


@dataclass(frozen=True)
class Setup:
    """Theory-set constants: the rule without a ball, so that the step is the bare gradient."""

    bench: Bench
    loss: str
    rate: float
    exploration: float
    max_norm: float
    radius: float

    def surrogate_gap(self, scores: Vector, norm: float, truth: int) -> tuple[float, float]:
        """(with the gap alone, with what is really played less the price of exploring): both must not be positive."""
        classes = len(scores)
        greedy = int(scores.argmax())
        surrogate = loss_of(self.loss, scores, truth, greedy, lead_of(scores, greedy))
        played = probabilities_of(self.bench, scores, norm)
        choice = decision(self.bench, scores, norm)
        if self.bench.rule.has_full_information(self.bench.params):
            moved = learnt(self.bench, scores, norm, choice, truth).coefficients
            square = norm * float(moved @ moved) / self.rate**2
        else:
            heard = choice._replace(label=truth, propensity=played[truth])
            moved = learnt(self.bench, scores, norm, heard, truth).coefficients
            square = played[truth] * norm * float(moved @ moved) / self.rate**2
        paid = 0.5 * self.rate * square - surrogate
        by_gap = 1.0 - played_chances(scores, gap_of(self.loss, scores))[truth]
        return by_gap + paid, 1.0 - played[truth] - self.exploration * (classes - 1.0) / classes + paid


def setups(loss: str, setting: str, many: int, seed: int) -> Iterator[Setup]:
    """Random constants, and the rate and exploration that the rule takes from theory."""
    generator = np.random.default_rng(seed)
    for _ in range(many):
        classes = int(generator.integers(2, 11))
        max_norm, radius = float(generator.uniform(0.3, 3.0)), float(generator.uniform(0.2, 4.0))
        horizon = float(10.0 ** generator.uniform(0.5, 7.0))
        theory = bench_of(
            RULE, classes, loss=loss, setting=setting, max_norm=max_norm, radius=radius, horizon=horizon
        ).params
        bare = bench_of(RULE, classes, loss=loss, setting=setting, rate=theory.rate, exploration=theory.exploration)
        yield Setup(bare, loss, theory.rate, theory.exploration, max_norm, radius)


def in_the_ball(generator: np.random.Generator, classes: int, reach: float) -> Vector:
    """Scores of length at most ||W|| ||x||: anywhere, at the most lopsided corner, or near the edges of the gap map."""
    kind = int(generator.integers(5))
    scores = generator.normal(size=classes)
    if kind == 1:
        scores = unit(classes, int(generator.integers(classes))) - 1.0 / classes
    elif kind == 2:  # the lead of one label is about 1/K
        scores = generator.uniform(-0.2, 0.0, size=classes)
        scores[int(generator.integers(classes))] = 1.0 / classes + 1e-3 * generator.normal()
    elif kind == 3:  # the most probable label has a probability of about a half
        scores = math.log(max(classes - 1, 1.001)) * unit(classes, int(generator.integers(classes)))
        scores += 1e-3 * generator.normal(size=classes)
    length = float(np.sqrt(scores @ scores))
    if kind < 2:
        return np.asarray(scores * reach / length * (1.0 if kind == 1 else generator.uniform()))
    if kind == 4:
        return np.asarray(scores * 1e-9)
    return np.asarray(scores * min(1.0, reach / length))


@pytest.mark.parametrize("setting", ["full", "bandit"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_surrogate_gap_is_not_positive(loss: str, setting: str) -> None:
    """2,000 random rounds for each loss and setting, rows as long as allowed, W anywhere in the ball: at most 1e-12."""
    generator = np.random.default_rng(3)
    worst = -np.inf
    for setup in setups(loss, setting, 200, seed=4):
        for _ in range(10):
            classes = setup.bench.classes
            norm = setup.max_norm**2 * float(generator.choice([1.0, generator.uniform(0.01, 1.0)]))
            scores = in_the_ball(generator, classes, setup.radius * math.sqrt(norm))
            gaps = setup.surrogate_gap(scores, norm, int(generator.integers(classes)))
            assert max(gaps) <= 1e-12, (loss, setting, scores, norm)
            worst = max(worst, *gaps)
    assert worst > -0.05  # the inequality is nearly tight somewhere, so a rate that is far off would show


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_surrogate_gap_is_tight_for_full_information(classes: int) -> None:
    """Exactly 0 at lead 0 for the smooth hinge and at lead 1/K for the hinge: a larger rate would break the proof."""
    for loss, lead in (("smooth", 0.0), ("hinge", 1.0 / classes)):
        bench = bench_of(RULE, classes, loss=loss, setting="full", max_norm=1.7)
        setup = Setup(bench, loss, bench.params.rate, 0.0, 1.7, 1.0)
        scores = lead * unit(classes, 1)
        # The tie at lead 0 is broken at random for the greedy label, but then every label is equally likely anyway.
        assert setup.surrogate_gap(scores, 1.7**2, 1)[1] == pytest.approx(0.0, abs=1e-12)


def test_a_rate_that_is_too_large_is_caught() -> None:
    """The check above can fail: with eight times the rate of theory the gap becomes positive, for every loss."""
    for loss in LOSSES:
        theory = bench_of(RULE, 3, loss=loss, setting="full", max_norm=1.0)
        rate = 8.0 * theory.params.rate
        bench = bench_of(RULE, 3, loss=loss, setting="full", rate=rate)
        setup = Setup(bench, loss, rate, 0.0, 1.0, 1.0)
        generator = np.random.default_rng(5)
        worst = -np.inf
        for _ in range(500):
            scores = in_the_ball(generator, 3, 1.0)
            worst = max(worst, setup.surrogate_gap(scores, 1.0, int(generator.integers(3)))[1])
        assert worst > 1e-3


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("max_norm", [0.5, 3.0])
def test_full_information_constants(classes: int, max_norm: float) -> None:
    """The rates of the three theorems; exploration comes from the gap alone."""
    square = classes * max_norm**2
    rates = {
        "logistic": math.log(2.0) / (2.0 * square),
        "hinge": (1.0 - 1.0 / classes) / square,
        "smooth": 1.0 / (4.0 * square),
    }
    for loss, rate in rates.items():
        params = bench_of(RULE, classes, loss=loss, setting="full", max_norm=max_norm).params
        assert params.rate == pytest.approx(rate, rel=1e-14)
        assert params.exploration == 0.0


@pytest.mark.parametrize("classes", [2, 4, 10])
@pytest.mark.parametrize("radius", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("horizon", [10.0, 1e4, 1e8])
def test_bandit_constants(classes: int, radius: float, horizon: float) -> None:
    """Exploration and rate of docs/explanation/algorithms-first-order.md#gaptron for X = 1.5; D^2/(2 rate) + gamma (K-1)T/K is at most the regret promised."""
    max_norm = 1.5
    square = (classes * max_norm) ** 2
    reach = square * radius**2
    share = (classes - 1.0) / classes

    def constants(loss: str) -> tuple[float, float]:
        params = bench_of(
            RULE, classes, loss=loss, setting="bandit", max_norm=max_norm, radius=radius, horizon=horizon
        ).params
        return float(params.exploration), float(params.rate)

    def regret(exploration: float, rate: float) -> float:
        return radius**2 / (2.0 * rate) + exploration * share * horizon

    exploration, rate = constants("hinge")
    spread = 1.0 - 1.0 / classes
    assert exploration == pytest.approx(
        min(1.0, math.sqrt(classes * reach / (2.0 * spread * (classes - 1.0) * horizon))), rel=1e-12
    )
    assert rate == pytest.approx(exploration * spread / square, rel=1e-12)
    promised = max(classes * reach / (classes - 1.0), 2.0 * math.sqrt(reach * horizon / 2.0))
    assert regret(exploration, rate) <= promised * (1.0 + 1e-12)

    exploration, rate = constants("smooth")
    assert exploration == pytest.approx(min(1.0, math.sqrt(2.0 * reach / horizon)), rel=1e-12)
    assert rate == pytest.approx(exploration / (4.0 * square), rel=1e-12)
    assert regret(exploration, rate) <= max(4.0 * reach, 2.0 * math.sqrt(2.0 * reach * horizon)) * (1.0 + 1e-12)

    exploration, rate = constants("logistic")
    cost = reach / math.log(2.0)
    least = (classes - 1.0) / (classes - 1.0 + math.exp(radius * max_norm * math.sqrt(classes / (classes - 1.0))))
    tried = min(1.0, math.sqrt(cost / (share * horizon)))
    without = cost / least <= cost / max(tried, least) + tried * share * horizon
    assert exploration == pytest.approx(0.0 if without else tried, rel=1e-12)
    assert rate == pytest.approx(max(exploration, least) * math.log(2.0) / (2.0 * square), rel=1e-12)
    promised = min(cost / least, max(2.0 * cost, 2.0 * math.sqrt(reach * horizon / math.log(2.0))))
    assert regret(exploration, rate) <= promised * (1.0 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_mistake_bound_with_full_information(loss: str, seed: int) -> None:
    """Sum of P(mistake) <= sum l_t(U) + ||U||^2/(2 rate) for many U: the path of W is certain, so no error rate."""
    generator = np.random.default_rng(seed)
    truth = generator.normal(size=(3, 4))
    features = generator.normal(size=(250, 4))
    features /= np.sqrt((features**2).sum(axis=1, keepdims=True))
    labels = (features @ truth.T).argmax(axis=1)
    noisy = generator.uniform(size=250) < 0.1
    labels[noisy] = generator.integers(0, 3, size=int(noisy.sum()))
    bench = bench_of(RULE, 3, loss=loss, setting="full", max_norm=1.0 + 1e-9)
    walked = walk(bench, features, labels)
    mistakes = sum(
        1.0 - probabilities_of(bench, scores, 1.0)[label] for scores, label in zip(walked.scores, labels, strict=True)
    )
    assert 5.0 < mistakes < 200.0
    comparators = [size * truth for size in (0.0, 0.3, 1.0, 3.0, 10.0)] + [walked.weights, 2.0 * walked.weights]
    for comparator in comparators:
        total = float((comparator**2).sum()) / (2.0 * bench.params.rate)
        for row, scores, greedy, label in zip(features, walked.scores, walked.greedy, labels, strict=True):
            total += loss_of(loss, comparator @ row, int(label), int(greedy), lead_of(scores, int(greedy)))
        assert mistakes <= total * (1.0 + 1e-12)


# ---- the ball


@pytest.mark.parametrize("setting", ["full", "bandit"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_radius_keeps_the_weights_in_the_ball(loss: str, setting: str) -> None:
    """||W|| <= D after every round of a stream that pushes outwards, and the ball is touched."""
    generator = np.random.default_rng(6)
    labels = generator.integers(0, 3, size=150)
    features = np.eye(3)[labels] + 0.1 * generator.normal(size=(150, 3))
    bench = bench_of(RULE, 3, loss=loss, setting=setting, rate=0.5, exploration=0.2, radius=0.4)
    lengths = walk(bench, features, labels).lengths
    assert lengths.max() <= 0.4 * (1.0 + 1e-12)
    assert lengths.max() > 0.4 * (1.0 - 1e-9)
    free = bench_of(RULE, 3, loss=loss, setting=setting, rate=0.5, exploration=0.2)
    assert walk(free, features, labels).lengths.max() > 0.5


@pytest.mark.parametrize("loss", LOSSES)
def test_the_projection_is_the_nearest_point_of_the_ball(loss: str) -> None:
    """The step gives the projection of W - rate grad: outside it is scaled down to length D, inside nothing happens."""
    generator = np.random.default_rng(7)
    projected = 0
    for _ in range(100):
        weights, row = 0.3 * generator.normal(size=(4, 3)), generator.normal(size=3)
        length, norm = float(np.sqrt((weights**2).sum())), float(row @ row)
        radius, truth = length * float(generator.uniform(1.0, 1.7)), int(generator.integers(4))
        scores = weights @ row
        bare = bench_of(RULE, 4, loss=loss, setting="full", rate=0.5)
        balled = bench_of(RULE, 4, loss=loss, setting="full", rate=0.5, radius=radius)
        balled.memory[NORM] = length**2
        free = weights + np.outer(learnt(bare, scores, norm, decision(bare, scores, norm), truth).coefficients, row)
        taken = learnt(balled, scores, norm, decision(balled, scores, norm), truth)
        outside = float(np.sqrt((free**2).sum())) > radius
        target = free * radius / np.sqrt((free**2).sum()) if outside else free
        assert np.allclose(taken.scale * weights + np.outer(taken.coefficients, row), target, rtol=1e-10, atol=1e-12)
        projected += outside
    assert 5 < projected < 95


# ---- symmetry


@pytest.mark.parametrize("loss", LOSSES)
def test_renaming_the_classes_renames_step_and_probabilities(loss: str) -> None:
    """On 60 random decisions without ties, right and wrong."""
    generator = np.random.default_rng(8)
    bench = bench_of(RULE, 5, loss=loss, rate=0.3, exploration=0.1)
    for _ in range(60):
        order, scores = generator.permutation(5).tolist(), generator.normal(size=5)
        label = int(generator.integers(5))
        renamed = shuffled(scores, order)
        assert np.allclose(
            shuffled(probabilities_of(bench, scores, 1.0), order), probabilities_of(bench, renamed, 1.0), atol=1e-14
        )
        first, second = decision(bench, scores, 1.0), decision(bench, renamed, 1.0)
        assert order[first.greedy] == second.greedy
        for right in (True, False):
            one = learnt(bench, scores, 1.0, first._replace(label=label, propensity=0.2), label if right else WRONG)
            other = learnt(
                bench,
                renamed,
                1.0,
                second._replace(label=order[label], propensity=0.2),
                order[label] if right else WRONG,
            )
            assert np.allclose(shuffled(one.coefficients, order), other.coefficients, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_the_norm_that_is_followed_is_that_of_the_weights_in_every_space(space: str) -> None:
    """A projection is a factor before the weights, and the step must not be taken for what it is behind that factor."""
    options: dict[str, Any] = {"rate": 1.0, "exploration": 0.3, "radius": 0.5}
    learner = Learner(RULE, classes=3, space=space, dtype="float64", **options)
    for number, x in enumerate(np.random.default_rng(0).standard_normal((300, 6))):
        decision = learner.decide(x)
        learner.learn(decision, decision.label == number % 3)
    assert learner.runtime.model.memory[NORM] == pytest.approx(0.25)
    assert np.square(learner.weights).sum() == pytest.approx(0.25)
