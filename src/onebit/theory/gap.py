"""The surrogate gap of Gaptron (van der Hoeven 2020): what a round may cost beyond the surrogate loss. It is never above 0.

    gap = (1 - a) 1[ystar != y] + a (K-1)/K - loss(W) + rate/2 E||g||^2

with a the gap map of the loss, and g the gradient, divided by the probability of the label in the bandit setting. Where the gap
is at most 0 in every round, Lemma 1 bounds the mistakes by the loss of any U plus ||U||^2/(2 rate) plus the exploration.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onebit.report.parts import Band, Curves, Series
from onebit.rules.gaptron import FeedbackSetting, Gaptron, Loss, full_constants
from onebit.theory.constraints import Numbers

LossName = Literal["logistic", "hinge", "smooth"]

LOSSES: dict[int, LossName] = {int(Loss.LOGISTIC): "logistic", int(Loss.HINGE): "hinge", int(Loss.SMOOTH): "smooth"}


def gap_map(loss: int, scores: Numbers) -> Numbers:
    """The exploration a that each loss pays for, for rows of scores."""
    ordered = np.sort(scores, axis=1)
    lead = ordered[:, -1] - ordered[:, -2]
    if loss == Loss.HINGE:
        return np.where(lead <= 1.0 / scores.shape[1], np.maximum(0.0, 1.0 - lead), 0.0)
    if loss == Loss.SMOOTH:
        return np.square(1.0 - np.minimum(1.0, lead))
    shares = _softmax(scores)
    best = scores.argmax(axis=1)
    top = shares[np.arange(len(scores)), best]
    shares[np.arange(len(scores)), best] = 0.0
    return np.where(top >= 0.5, shares.sum(axis=1), 1.0)  # 1 - top, by summing small numbers


def surrogate_loss(
    loss: int, scores: Numbers, y: NDArray[np.int64], greedy: NDArray[np.int64]
) -> tuple[Numbers, Numbers]:
    """The surrogate loss at W in every round, and the squared length of its gradient for a row of length one."""
    rows = np.arange(len(y))
    if loss == Loss.LOGISTIC:
        shares = _softmax(scores)
        top = scores.max(axis=1, keepdims=True)
        value = (np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0] - scores[rows, y]) / math.log(2.0)
        shares[rows, y] -= 1.0
        return value, np.square(shares).sum(axis=1) / math.log(2.0) ** 2
    others = scores.copy()
    others[rows, y] = -np.inf
    margin = scores[rows, y] - others.max(axis=1)
    short = np.maximum(0.0, 1.0 - margin)
    if loss == Loss.SMOOTH:
        slope = 2.0 * np.minimum(1.0, short)
        return np.where(margin <= 0.0, 1.0 - 2.0 * margin, short**2), 2.0 * slope**2
    settled = (greedy == y) & (margin > 1.0 / scores.shape[1])
    value = np.where(settled, 0.0, short)
    return value, np.where(value > 0.0, 2.0, 0.0)


def surrogate_gap(
    params: Gaptron, scores: Numbers, y: NDArray[np.int64], squared: Numbers, greedy: NDArray[np.int64] | None = None
) -> Numbers:
    """The surrogate gap in every round, its gradient in expectation over what is played; without `greedy`, for the worst tie.

    >>> params = Gaptron(3, setting=FeedbackSetting.FULL, loss=Loss.SMOOTH, rate=1 / 12, exploration=0.0)
    >>> bool(abs(surrogate_gap(params, np.zeros((1, 3)), np.array([0]), np.ones(1))) < 1e-12)
    True
    """
    kinds = scores.shape[1]
    if greedy is None:
        tried = scores.copy()
        tried[np.arange(len(y)), y] -= 1e-15 * (1.0 + np.abs(scores).max(axis=1))
        greedy = tried.argmax(axis=1)
    explored = gap_map(int(params.loss), scores)
    value, slope = surrogate_loss(int(params.loss), scores, y, greedy)
    wrong = greedy != y
    if params.setting == FeedbackSetting.BANDIT:
        mixed = np.maximum(explored, params.exploration)
        chance = mixed / kinds + np.where(wrong, 0.0, 1.0 - mixed)
        slope = np.divide(slope, chance, out=np.zeros_like(slope), where=slope > 0.0)
    cost = (1.0 - explored) * wrong + explored * (kinds - 1.0) / kinds
    return np.asarray(cost - value + 0.5 * params.rate * slope * squared)


def figure1(loss: LossName, points: int = 401) -> Curves:
    """Figure 1 of the paper, for any of the losses: two classes, one weight vector, by the margin z = y <w, x> with ||x|| = 1.

    The gap is positive where a curve is above the loss: without a gap map around z = 0, with it nowhere.
    """
    z = np.linspace(-1.0, 1.5, points)
    code = int(next(code for code, name in LOSSES.items() if name == loss))
    rate = full_constants(Gaptron(2, loss=code, max_norm=1.0))[0]
    with_map, without, value = binary_curves(code, z, rate)
    series = [
        Series("the surrogate loss", {"z": Band(value.tolist())}),
        Series("mistakes and gradient, a = 0", {"z": Band(without.tolist())}),
        Series("mistakes and gradient, with the gap map", {"z": Band(with_map.tolist())}),
    ]
    return Curves(f"Surrogate gap, {loss} loss, rate {rate:.4g}", z.tolist(), "margin z", "loss", series)


def binary_curves(loss: int, z: Numbers, rate: float) -> tuple[Numbers, Numbers, Numbers]:
    """With the gap map, without it, and the loss itself: expected mistakes plus rate/2 ||g||^2 against the loss."""
    scores = np.stack([z, np.zeros_like(z)], axis=1)
    label = np.zeros(len(z), dtype=np.int64)
    greedy = np.where(z > 0.0, 0, 1)
    value, slope = surrogate_loss(loss, scores, label, greedy)
    gradient = 0.5 * rate * slope / 2.0  # one vector in place of two rows that mirror each other
    explored = gap_map(loss, scores)
    wrong = greedy != label
    return (1.0 - explored) * wrong + 0.5 * explored + gradient, wrong + gradient, value


def _softmax(scores: Numbers) -> Numbers:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
