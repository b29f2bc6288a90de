"""The estimators: what rounds that somebody else decided say of a learner that would have decided otherwise.

With w = p(label) / propensity, the probability of the learner over that of the log, the reward r (1 for right, 0 for wrong), and a model's predictions q:

    IPS     mean of w r                                    Horvitz, Thompson 1952
    SNIPS   sum of w r / sum of w                          Swaminathan, Joachims 2015
    DR      mean of sum_a p(a) q(a) + w (r - q(label))     Dudik, Langford, Li 2011

The terms of IPS and DR are right on average given all that came before, so their sums are martingales, also where the learner and
the log's own learner went on learning. Their 95 % intervals are normal, with the variance of the terms; that of SNIPS is the delta
method's. A large weight that happened not to be seen, or was seen twice, is what such intervals forget. So each is taken as if
1.96^2 more rounds had been seen, half of them with the reward 1 and half with 0, with a weight of sum w^3 / sum w^2, that of the rounds which the
variance comes from. Where all weights are equal this is the interval of Agresti and Coull (1998).

Labels that the log could never show may all be right, or all wrong: every interval is widened by that, where it is known. Those that
are none of the candidates of a round cannot be played in it by the learner either, and are not missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.description import NORMAL, share

PerRound = NDArray[np.float64]  # a number for each round
ROUNDING = 1e-9  # what a right rate may be beyond 0 or 1 without meaning it


class Scores(NamedTuple):
    """What is known of each round, a column for each number."""

    weight: PerRound
    reward: PerRound  # 1 for right, 0 for wrong
    expected: PerRound  # sum over the labels of p(a) q(a)
    predicted: PerRound  # q of the label shown
    missing: PerRound  # the learner's probability of labels that could not be shown
    missing_expected: PerRound  # the part of `expected` that is theirs
    squares: PerRound  # the expectation of w^2 over the labels that the log could show
    cubes: PerRound  # the same of w^3

    @property
    def effective(self) -> float:
        """The effective number of rounds, or the one to be expected where that is lower: rare labels may not have been seen yet."""
        squares = float(self.squares.sum())
        likely = float((1.0 - self.missing).sum()) ** 2 / squares if squares > 0.0 else 0.0
        return min(likely, effective_rounds(self.weight))

    @property
    def typical(self) -> float:
        """The weight of the rounds that the variance comes from."""
        squares = float(self.squares.sum())
        return float(self.cubes.sum()) / squares if squares > 0.0 else 0.0


class Estimate(NamedTuple):
    """A right rate, or mean reward, with the ends of its 95 % interval; NaN where there is nothing to estimate it from.

    `effective` is the number of rounds of its own that would be as informative, and `rounds` the number of logged rounds it is based on.
    `warnings` are plain sentences on why not to trust it.
    """

    name: str
    value: float
    low: float
    high: float
    effective: float
    rounds: int
    warnings: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The share of wrong answers, or 1 minus the mean reward; its interval is from 1 - high to 1 - low."""
        return 1.0 - self.value

    def to_dict(self) -> dict[str, Any]:
        """As plain values; None for what is not known, since JSON has no NaN."""
        known = not math.isnan(self.value)
        return {
            **self._asdict(),
            "value": self.value if known else None,
            "error": self.error if known else None,
            "warnings": list(self.warnings),
        }


def effective_rounds(weight: PerRound) -> float:
    """(sum w)^2 / sum w^2.

    >>> effective_rounds(np.array([1.0, 1.0, 0.0])), effective_rounds(np.array([3.0, 1.0]))
    (2.0, 1.6)
    """
    squares = float(np.square(weight).sum())
    return float(weight.sum()) ** 2 / squares if squares > 0.0 else 0.0


def ips(scores: Scores) -> Estimate:
    """Inverse propensity scoring."""
    value, low, high = _interval(_ips, scores)
    return _estimate("ips", value, low, high + float(scores.missing.mean()), scores)


def snips(scores: Scores) -> Estimate:
    """Self-normalised inverse propensity scoring."""
    value, low, high = _interval(_snips, scores)
    return _estimate("snips", value, *stretched(low, high, float(scores.missing.mean())), scores)


def doubly_robust(scores: Scores) -> Estimate:
    """What the model predicts, corrected where the log shows it wrong."""
    value, low, high = _interval(_doubly_robust, scores)
    missing, expected = float(scores.missing.mean()), float(scores.missing_expected.mean())
    return _estimate("doubly_robust", value, low - expected, high + missing - expected, scores)


def stretched(low: float, high: float, missing: float) -> tuple[float, float]:
    """The ends of an interval for the rest, where this share is missing: all of it may be wrong, or right."""
    return low * (1.0 - missing), high * (1.0 - missing) + missing


def counted(name: str, rewards: float, squares: float, total: int, missing: float = 0.0) -> Estimate:
    """The mean reward of independent rounds, by the sum of the rewards and that of their squares, with Wilson's interval."""
    if total == 0:
        return Estimate(name, math.nan, 0.0, 1.0, 0.0, 0)
    value, low, high = share(rewards, total, squares)
    low, high = stretched(low, high, missing)
    return Estimate(name, value, min(low, value), max(high, value), float(total), total)


def _ips(scores: Scores, counts: PerRound) -> tuple[float, float]:
    return _mean(scores.weight * scores.reward, counts)


def _doubly_robust(scores: Scores, counts: PerRound) -> tuple[float, float]:
    return _mean(scores.expected + scores.weight * (scores.reward - scores.predicted), counts)


def _snips(scores: Scores, counts: PerRound) -> tuple[float, float]:
    total = float(counts @ scores.weight)
    if total == 0.0:
        return math.nan, math.nan
    value = float(counts @ (scores.weight * scores.reward)) / total
    return value, math.sqrt(float(counts @ np.square(scores.weight * (scores.reward - value)))) / total


def _mean(values: PerRound, counts: PerRound) -> tuple[float, float]:
    """A mean and its deviation."""
    total = float(counts.sum())
    mean = float(counts @ values) / total
    return mean, math.sqrt(float(counts @ np.square(values - mean))) / total


def _interval(
    estimator: Callable[[Scores, PerRound], tuple[float, float]], scores: Scores
) -> tuple[float, float, float]:
    """The estimate, and the ends of the interval that allows for rounds not seen."""
    count, typical = len(scores.weight), scores.typical
    value, _ = estimator(scores, np.ones(count))
    if typical == 0.0:  # no round says anything
        return value, 0.0, 1.0
    weighed = float(np.square(scores.weight).sum())
    predicted = float(np.square(scores.weight) @ scores.predicted) / weighed if weighed > 0.0 else 0.5
    more = [(typical, reward, float(scores.expected.mean()), predicted, 0.0, 0.0, 0.0, 0.0) for reward in (1.0, 0.0)]
    doubted = Scores(*(np.r_[column, added] for column, added in zip(scores, zip(*more, strict=True), strict=True)))
    middle, deviation = estimator(doubted, np.r_[np.ones(count), NORMAL**2 / 2.0, NORMAL**2 / 2.0])
    return value, middle - NORMAL * deviation, middle + NORMAL * deviation


def _cut(value: float) -> float:
    return max(0.0, min(1.0, value))


def _estimate(name: str, value: float, low: float, high: float, scores: Scores) -> Estimate:
    """A mean reward is from 0 to 1, and so is its interval; where the estimate itself is outside, the interval reaches to it."""
    low, high, within = _cut(low), _cut(high), _cut(value)
    if not math.isnan(value):
        value = within if abs(value - within) < ROUNDING else value
        low, high = min(low, value), max(high, value)
    return Estimate(name, value, low, high, scores.effective, len(scores.weight))
