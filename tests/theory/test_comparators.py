"""The best linear classifier in hindsight: gradients, closed forms, and another solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onebit.data.streams import stream
from onebit.errors import OnebitError
from onebit.theory.comparators import (
    TEMPERATURES,
    Comparator,
    ComparatorLoss,
    choose_comparator,
    fit_comparator,
    fit_comparators,
    fit_in_ball,
    make_comparator,
    smoothed_objective,
    zero_comparator,
)
from onebit.theory.rounds import Rounds, read_rounds

LOSSES: tuple[ComparatorLoss, ...] = ("hinge", "squared", "smooth", "logistic")


def problem(seed: int, count: int = 60, classes: int = 3, features: int = 4) -> Rounds:
    """A noisy problem."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, features))
    y = (X @ generator.normal(size=(features, classes)) + generator.normal(size=(count, classes))).argmax(axis=1)
    return Rounds(X, y, tuple(range(classes)), "noisy")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_agree_with_finite_differences(loss: ComparatorLoss, weighted: bool) -> None:
    rounds = problem(0)
    generator = np.random.default_rng(1)
    U, weights = generator.normal(size=(3, 4)), generator.random(60) if weighted else None
    temperature = 1.0 if loss == "logistic" else 0.1
    _, slope = smoothed_objective(loss, rounds, 0.7, temperature, weights, U)
    for place in np.ndindex(3, 4):
        moved = np.zeros((3, 4))
        moved[place] = 1e-6
        up, down = (
            smoothed_objective(loss, rounds, 0.7, temperature, weights, U + sign * moved)[0] for sign in (1, -1)
        )
        assert (up - down) / 2e-6 == pytest.approx(slope[place], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_soft_losses_lie_above_the_exact_ones_and_near_them(loss: ComparatorLoss) -> None:
    rounds = problem(2)
    one = make_comparator(np.random.default_rng(3).normal(size=(3, 4)), rounds)
    exact = one.losses(loss).sum()
    previous = math.inf
    for temperature in (1.0,) if loss == "logistic" else TEMPERATURES:
        soft, _ = smoothed_objective(loss, rounds, 0.0, temperature, None, one.U)
        assert exact * (1 - 1e-12) <= soft <= previous
        previous = soft
    assert soft <= exact * 1.05


def exact_losses() -> dict[ComparatorLoss, Callable[[Any, Any], Any]]:
    """The losses for cvxpy, from scores (T x K) and labels, written from their definitions."""
    cp = pytest.importorskip("cvxpy")

    def short(scores: Any, y: NDArray[np.int64]) -> Any:
        margins = []
        for row, label in enumerate(y):
            others = [k for k in range(scores.shape[1]) if k != label]
            margins.append(scores[row, int(label)] - cp.max(scores[row, others]))
        return 1 - cp.hstack(margins)

    def logistic(scores: Any, y: NDArray[np.int64]) -> Any:
        own = cp.hstack([scores[row, int(label)] for row, label in enumerate(y)])
        return cp.sum(cp.log_sum_exp(scores, axis=1) - own) / math.log(2.0)

    return {
        "hinge": lambda scores, y: cp.sum(cp.pos(short(scores, y))),
        "squared": lambda scores, y: cp.sum(cp.square(cp.pos(short(scores, y)))),
        # 1 - 2m below 0 and (1-m)^2 above is a Huber function of 1 - m, which is never negative where it matters
        "smooth": lambda scores, y: cp.sum(cp.huber(cp.pos(short(scores, y)), 1.0)),
        "logistic": logistic,
    }


@pytest.mark.long
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", [0.1, 3.0])
def test_the_fit_is_as_good_as_another_solver_s(loss: ComparatorLoss, penalty: float) -> None:
    cp = pytest.importorskip("cvxpy")

    rounds = problem(4, count=40)
    U = cp.Variable((3, 4))
    wanted = cp.Problem(cp.Minimize(exact_losses()[loss](rounds.X @ U.T, rounds.y) + penalty / 2 * cp.sum_squares(U)))
    wanted.solve(solver="CLARABEL")
    found = fit_comparator(loss, rounds, penalty)
    value = found.losses(loss).sum() + penalty / 2 * found.norm**2
    assert wanted.value * (1 - 1e-6) <= value <= wanted.value * 1.01


def test_one_row_has_the_minimiser_that_can_be_written_down() -> None:
    """Squared hinge, two classes, one row x: U = (a x, -a x), and (1 - 2 a n)^2 + penalty a^2 n is least at a = 2/(4 n + penalty)."""
    x = np.array([[0.6, -0.3]])
    n, penalty = 0.45, 0.5
    found = fit_comparator("squared", Rounds(x, np.array([0]), (0, 1), "one"), penalty)
    a = 2.0 / (4.0 * n + penalty)
    assert np.allclose(found.U, [a * x[0], -a * x[0]], atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_ball_is_kept_and_filled(loss: ComparatorLoss) -> None:
    rounds = problem(5)
    free = fit_comparator(loss, rounds, 1e-3)
    small = fit_in_ball(loss, rounds, 1e-3, 0.5)
    assert small.norm == pytest.approx(0.5)
    assert small.losses(loss).sum() > free.losses(loss).sum()
    generator = np.random.default_rng(6)
    for _ in range(200):  # nothing near it in the ball is better by more than the stretching costs
        U = small.U + 0.1 * generator.normal(size=small.U.shape)
        other = make_comparator(U * min(1.0, 0.5 / float(np.linalg.norm(U))), rounds)
        assert other.losses(loss).sum() >= small.losses(loss).sum() * 0.995
    large = fit_in_ball(loss, rounds, 1e-3, 1e6)
    assert large.losses(loss).sum() + 5e-4 * large.norm**2 <= (free.losses(loss).sum() + 5e-4 * free.norm**2) * 1.01


def test_the_path_runs_from_nothing_to_a_close_fit_and_best_takes_the_best() -> None:
    rounds = problem(7)
    found = fit_comparators("hinge", rounds)
    norms = [one.norm for one in found]
    assert norms[0] == 0.0
    assert norms == sorted(norms)
    assert found[0].losses("hinge").sum() == rounds.count

    def bound(one: Comparator) -> float:
        return float(one.losses("hinge").sum()) + 2.0 * one.norm**2

    chosen = choose_comparator(found, bound)
    assert bound(chosen) <= min(map(bound, found))
    assert bound(chosen) <= bound(fit_comparator("hinge", rounds, 4.0)) * 1.03
    assert choose_comparator([found[1].scale(0.1)], bound, radius=0.2 * found[1].norm).norm <= 0.2 * found[1].norm * (
        1 + 1e-9
    )
    assert choose_comparator([zero_comparator(rounds)], bound).norm == 0.0


def test_sparse_rows_give_the_same_comparators() -> None:
    rounds = problem(8)
    sparse = Rounds(pytest.importorskip("scipy.sparse").csr_array(rounds.X), rounds.y, rounds.classes, "sparse")
    assert np.allclose(fit_comparator("logistic", rounds, 1.0).U, fit_comparator("logistic", sparse, 1.0).U, atol=1e-6)
    assert np.allclose(rounds.squared, sparse.squared)
    assert np.allclose(rounds.with_constant().X, sparse.with_constant().X.toarray())


def test_the_rounds_are_those_of_the_stream_in_its_order() -> None:
    X, y = np.arange(12.0).reshape(6, 2), ["a", "b", "c", "a", "b", "c"]
    rounds = read_rounds(stream(X, y, order="shuffle", rounds=9), 3)
    assert rounds.count == 9
    for row, label in zip(rounds.X, rounds.labels, strict=True):
        assert y[int(row[0]) // 2] == label
    assert sorted(rounds.X[:6, 0]) == [0, 2, 4, 6, 8, 10]
    assert not np.array_equal(rounds.X[:6], X)
    assert read_rounds(stream(X, y, order="file"), 3).X.tolist() == X.tolist()


@pytest.mark.parametrize(
    ("X", "settings", "words"),
    [
        ([{"a": 1.0}, {"b": 2.0}], {}, "dicts or texts"),
        (np.array([[1.0], [np.nan]]), {}, "row 1, column 0"),
        (np.zeros((2, 1)), {"delay": 3}, "at once"),
        (np.zeros((2, 1)), {"missing": 0.5}, "at once"),
    ],
)
def test_rounds_that_no_theorem_is_about_are_refused(X: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(OnebitError, match=words):
        read_rounds(stream(X, [0, 1], **settings), 0)
