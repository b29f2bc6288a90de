"""The best linear classifier in hindsight, with which the theorems compare a learner.

Every theorem holds for any U, so a U that is not quite the best gives a bound that is a little larger, and still true. With
m = s_y - max_{k != y} s_k the losses are convex and falling functions of m:

    hinge [1-m]_+      squared [1-m]_+^2      smooth 1-2m if m <= 0, else [1-m]_+^2      logistic log2(1 + e^-m), m with a soft maximum

Where a maximum or the hinge has a kink, a soft one from above (a sum of exponentials at a temperature) takes its place while
L-BFGS looks for U; the losses given are the exact ones. For the logistic loss the soft maximum at temperature 1 is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onebit.theory.constraints import Numbers, import_extra
from onebit.theory.rounds import Rounds

ComparatorLoss = Literal["hinge", "squared", "smooth", "logistic"]

TEMPERATURES = (0.3, 0.03)  # of the soft maximum, in turn; only the last from a good start
ITERATIONS = 100  # at each temperature; the result is used even if not converged
HALVINGS = 5  # of a factor of ten between penalties; the remaining tenth in the length of U is corrected
PENALTIES = (1e4, 1e3, 1e2, 1e1, 1.0, 0.1)  # penalties of a path, in units of the longest row's squared length


@dataclass(frozen=True)
class Comparator:
    """A linear classifier with its scores on the rounds."""

    U: Numbers
    scores: Numbers
    y: NDArray[np.int64]

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.U))

    def losses(self, loss: ComparatorLoss) -> Numbers:
        """Return the exact loss in every round."""
        margin, _ = _margins(self.scores, self.y, 1.0 if loss == "logistic" else 0.0)
        return _loss_values(loss, margin, 0.0)

    def scale(self, factor: float) -> Comparator:
        """Return the classifier with its vectors scaled by a factor."""
        return Comparator(factor * self.U, factor * self.scores, self.y)


def make_comparator(U: Numbers, rounds: Rounds) -> Comparator:
    """Return the classifier U with its scores on these rounds."""
    return Comparator(U, np.asarray(rounds.X @ U.T), rounds.y)


def zero_comparator(rounds: Rounds) -> Comparator:
    """Return the classifier U = 0."""
    return make_comparator(np.zeros((rounds.kinds, rounds.X.shape[1])), rounds)


def fit_comparator(
    loss: ComparatorLoss,
    rounds: Rounds,
    penalty: float,
    *,
    start: Numbers | None = None,
    weights: Numbers | None = None,
) -> Comparator:
    """Return the U that minimises the sum of (weighted) losses plus penalty/2 ||U||^2.

    >>> rounds = Rounds(np.array([[1.0], [1.0]]), np.array([0, 1]), (0, 1), "coin")
    >>> abs(fit_comparator("logistic", rounds, 1.0).U).max() < 1e-6
    np.True_
    """
    cold = start is None or not start.any()
    U = np.zeros((rounds.kinds, rounds.X.shape[1])) if start is None else start
    for temperature in (1.0,) if loss == "logistic" else TEMPERATURES if cold else TEMPERATURES[-1:]:
        U = minimise(partial(smoothed_objective, loss, rounds, penalty, temperature, weights), U)
    return make_comparator(U, rounds)


def smoothed_objective(
    loss: ComparatorLoss, rounds: Rounds, penalty: float, temperature: float, weights: Numbers | None, U: Numbers
) -> tuple[float, Numbers]:
    """Return the smoothed sum of losses plus penalty/2 ||U||^2, and its gradient."""
    scores = np.asarray(rounds.X @ U.T)
    margin, shares = _margins(scores, rounds.y, temperature)
    values, slopes = _loss_values(loss, margin, temperature), _loss_slopes(loss, margin, temperature)
    if weights is not None:
        values, slopes = weights * values, weights * slopes
    pull = -shares * slopes[:, None]
    pull[np.arange(len(slopes)), rounds.y] = slopes
    return float(values.sum() + 0.5 * penalty * np.square(U).sum()), np.asarray(rounds.X.T @ pull).T + penalty * U


def minimise(function: Callable[[Numbers], tuple[float, Numbers]], start: Numbers) -> Numbers:
    """Return the minimiser of a smooth convex function, found by L-BFGS."""

    def evaluate_flat(vector: Numbers) -> tuple[float, Numbers]:
        value, gradient = function(vector.reshape(start.shape))
        return value, gradient.ravel()

    options = {"maxiter": ITERATIONS, "maxcor": 20, "ftol": 1e-8, "gtol": 1e-6}
    solution = import_extra("scipy.optimize").minimize(
        evaluate_flat, start.ravel(), jac=True, method="L-BFGS-B", options=options
    )
    return np.asarray(solution.x, dtype=np.float64).reshape(start.shape)


def fit_path(
    loss: Callable[[Numbers], tuple[float, Numbers]],
    shape: tuple[int, int],
    longest: float,
    penalties: Sequence[float] = PENALTIES,
) -> Iterator[Numbers]:
    """Yield U = 0, then for each penalty the U that minimises the loss plus penalty/2 ||U||^2.

    `loss` returns its value and gradient. Penalties are in units of the longest row's squared length.
    """
    start = np.zeros(shape)
    yield start
    for penalty in penalties:

        def penalised_loss(U: Numbers, penalty: float = penalty * longest**2) -> tuple[float, Numbers]:
            value, gradient = loss(U)
            return float(value + 0.5 * penalty * np.square(U).sum()), gradient + penalty * U

        start = minimise(penalised_loss, start)
        yield start


def fit_in_ball(loss: ComparatorLoss, rounds: Rounds, penalty: float, radius: float) -> Comparator:
    """Return the U with ||U|| <= radius that minimises the losses plus penalty/2 ||U||^2.

    If U is too long, the penalty at which it fits is found by bisection, and U is then stretched to the ball.
    """
    candidate = zero_comparator(rounds)
    high = max(penalty, PENALTIES[0] * rounds.longest**2)
    low = high
    while candidate.norm <= radius and low > penalty:
        low = max(penalty, low / 10.0)
        candidate = fit_comparator(loss, rounds, low, start=candidate.U)
    if candidate.norm <= radius:
        return candidate
    high, closest = 10.0 * low, candidate
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        closest = fit_comparator(loss, rounds, middle, start=closest.U)
        low, high = (middle, high) if closest.norm > radius else (low, middle)
    return closest.scale(radius / closest.norm)


def fit_comparators(loss: ComparatorLoss, rounds: Rounds, weights: Numbers | None = None) -> list[Comparator]:
    """Return U = 0 and the fits for penalties from large to small.

    For any mix of loss and length, one of them is near the best.
    """
    fits = [zero_comparator(rounds)]
    size = rounds.longest**2 * (1.0 if weights is None else float(np.median(weights[weights > 0.0])))
    for penalty in PENALTIES:
        fits.append(fit_comparator(loss, rounds, penalty * size, start=fits[-1].U, weights=weights))
    return fits


def choose_comparator(
    candidates: Iterable[Comparator], bound: Callable[[Comparator], float], radius: float = math.inf
) -> Comparator:
    """Return the best candidate, scaled to the length at which the bound is smallest.

    The best candidate has the smallest bound; it is not stretched beyond the radius.
    """
    chosen = min(candidates, key=bound)
    if chosen.norm == 0.0:
        return chosen
    farthest = min(3.0, math.log(radius / chosen.norm))
    optimum = import_extra("scipy.optimize").minimize_scalar(
        lambda power: bound(chosen.scale(math.exp(power))), bounds=(farthest - 6.0, farthest), method="bounded"
    )
    return min((chosen, chosen.scale(math.exp(optimum.x))), key=bound)


def _margins(scores: Numbers, y: NDArray[np.int64], temperature: float) -> tuple[Numbers, Numbers]:
    """Return each label's lead over the (soft) maximum of the others, and the others' weights in it."""
    rows = np.arange(len(y))
    rival_scores = scores.copy()
    rival_scores[rows, y] = -np.inf
    top = rival_scores.max(axis=1)
    if temperature == 0.0:
        return scores[rows, y] - top, rival_scores
    shares = np.exp((rival_scores - top[:, None]) / temperature)
    total = shares.sum(axis=1)
    return scores[rows, y] - top - temperature * np.log(total), shares / total[:, None]


def _loss_values(loss: ComparatorLoss, margin: Numbers, temperature: float) -> Numbers:
    if loss == "logistic":
        return np.logaddexp(0.0, -margin) / math.log(2.0)
    if loss == "hinge" and temperature > 0.0:
        return temperature * np.logaddexp(0.0, (1.0 - margin) / temperature)
    short = np.maximum(0.0, 1.0 - margin)
    if loss == "hinge":
        return short
    return np.where(margin <= 0.0, 1.0 - 2.0 * margin, short**2) if loss == "smooth" else short**2


def _loss_slopes(loss: ComparatorLoss, margin: Numbers, temperature: float) -> Numbers:
    if loss == "logistic":
        return -_sigmoid(-margin) / math.log(2.0)
    if loss == "hinge":
        return -_sigmoid((1.0 - margin) / temperature)
    short = -2.0 * np.maximum(0.0, 1.0 - margin)
    return np.maximum(-2.0, short) if loss == "smooth" else short


def _sigmoid(values: Numbers) -> Numbers:
    return np.exp(-np.logaddexp(0.0, -values))
