"""Estimators of how a learner would have done on rounds that another decided.

With w = p(label) / propensity, the probability of the learner over that of the log, the reward r (1 for right, 0 for
wrong), and a model's predictions q:

    IPS     mean of w r                                    Horvitz, Thompson 1952
    SNIPS   sum of w r / sum of w                          Swaminathan, Joachims 2015
    DR      mean of sum_a p(a) q(a) + w (r - q(label))     Dudik, Langford, Li 2011

Given the past, the terms of IPS and DR are unbiased, so their sums are martingales, even if the learner and the log's
own learner kept learning. Their 95 % intervals are normal, with the variance of the terms; that of SNIPS uses the delta
method. Such intervals do not allow for a large weight that by chance was not seen, or seen twice. Each is therefore
computed as if 1.96^2 more rounds had been seen, half of them with reward 1 and half with 0, with a weight of
sum w^3 / sum w^2, that of the rounds which dominate the variance. If all weights are equal, this is the interval of Agresti and
Coull (1998).

Labels that the log could never show may all be right, or all wrong: every interval is widened by their share, where it
is known. Labels that are not candidates in a round cannot be played there by the learner either, and are not missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.description import NORMAL, wilson_interval
from onebit.learner.learner import Learner
from onebit.offpolicy.logged_rounds import CheckedRound, learn_feedback

PerRound = NDArray[np.float64]  # a number for each round
PerLabel = NDArray[np.float64]  # a row for each round, a column for each class
ROUNDING = 1e-9  # rounding error by which a right rate may be outside of 0 to 1
RARE = 0.01  # of an equal share: for replay, a label shown less often counts as one that could not be shown
LEAST = 1e-9  # a label less likely than this could not be shown; if it was shown nevertheless, this is its probability


class Scores(NamedTuple):
    """The numbers of each round that the estimates are made of."""

    weight: PerRound
    reward: PerRound  # 1 for right, 0 for wrong
    expected: PerRound  # sum over the labels of p(a) q(a)
    predicted: PerRound  # q of the label shown
    missing: PerRound  # the learner's probability of labels that could not be shown
    missing_expected: PerRound  # the part of `expected` that is due to these labels
    squares: PerRound  # the expectation of w^2 over the labels that the log could show
    cubes: PerRound  # the same of w^3

    @property
    def effective(self) -> float:
        """The effective number of rounds, or its expectation if lower.

        Rare labels with large weights may not have been seen yet.
        """
        squares = float(self.squares.sum())
        likely = float((1.0 - self.missing).sum()) ** 2 / squares if squares > 0.0 else 0.0
        return min(likely, effective_rounds(self.weight))

    @property
    def typical(self) -> float:
        """The weight of the rounds that dominate the variance."""
        squares = float(self.squares.sum())
        return float(self.cubes.sum()) / squares if squares > 0.0 else 0.0


class Weights(NamedTuple):
    """Summary of the weights, the ratios of the learner's probabilities to those of the log."""

    effective: float  # (sum w)^2 / sum w^2
    largest: float
    largest_share: float  # of the sum of all weights
    mean: float  # about 1 - missing, if the propensities are correct
    missing: float  # the learner's probability of labels that the log could not show, as far as known

    @classmethod
    def of(cls, scores: Scores) -> Weights:
        total, largest = float(scores.weight.sum()), float(scores.weight.max())
        share_of_largest = largest / total if total > 0.0 else 0.0
        mean, missing = float(scores.weight.mean()), float(scores.missing.mean())
        return cls(effective_rounds(scores.weight), largest, share_of_largest, mean, missing)


class RoundBlock(NamedTuple):
    """Consecutive rounds as arrays."""

    target: PerLabel  # the learner's probability of each label
    model: PerLabel  # the model's probability that each label is right
    logged: PerLabel  # the logged probability of each label; NaN if only the propensity is known
    labels: NDArray[np.int64]
    reward: PerRound  # 1 for right, 0 for wrong
    propensity: PerRound
    offered: NDArray[np.bool_]  # which labels are candidates


def score_block(block: RoundBlock, trust: Trust) -> Scores:
    """Return the numbers that the estimates need for each round of a block."""
    rows = np.arange(len(block.labels))
    weight = block.target[rows, block.labels] / np.maximum(block.propensity, LEAST)
    predicted = block.model[rows, block.labels]
    trusted = trust.follow(weight, block.reward, predicted)
    share, certain = guess_logged(block)
    can = share >= LEAST
    can[rows, block.labels] = True
    ratio = np.where(can, block.target / np.maximum(share, LEAST), 0.0)
    # If only propensities are logged, nothing is known about the labels that could not be shown.
    missing = np.where(can | ~certain[:, None], 0.0, block.target)
    return Scores(
        weight=weight,
        reward=block.reward,
        expected=trusted * (block.target * block.model).sum(axis=1),
        predicted=trusted * predicted,
        missing=missing.sum(axis=1),
        missing_expected=trusted * (missing * block.model).sum(axis=1),
        squares=(block.target * ratio).sum(axis=1),
        cubes=(block.target * ratio * ratio).sum(axis=1),
    )


def guess_logged(block: RoundBlock) -> tuple[PerLabel, NDArray[np.bool_]]:
    """Return the logged distributions, guessed where unknown, and which of them are certain.

    If only the propensity of the label is known, the other candidates are assumed to share the rest evenly, as in
    uniform exploration. The guess affects the width of intervals, not the estimates themselves. A propensity of 1
    leaves nothing to guess.
    """
    unknown = np.isnan(block.logged[:, 0])
    other_count = np.maximum(block.offered.sum(axis=1) - 1, 1)  # avoids 0 / 0 for a single candidate
    other_share = (1.0 - block.propensity) / other_count
    guess = np.where(block.offered, other_share[:, None], 0.0)
    guess[np.arange(len(other_share)), block.labels] = block.propensity
    return np.where(unknown[:, None], guess, block.logged), ~unknown | (block.propensity >= 1.0)


class Trust:
    """A factor from 0 to 1 for the model's predictions: sum w^2 r q / sum w^2 q^2 over the rounds so far.

    It starts at 1. This multiple of q minimizes the sum of w^2 (r - q)^2, which causes most of the variance. The trust
    in a round depends only on the rounds before it, so the estimate stays unbiased.
    """

    def __init__(self) -> None:
        self._observed = self._predicted = 1.0

    def follow(
        self, weights: NDArray[np.float64], rewards: NDArray[np.float64], predicted: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the trust in each of the next rounds, and update it with them."""
        squares = weights * weights * predicted
        observed = self._observed + np.cumsum(squares * rewards)
        expected = self._predicted + np.cumsum(squares * predicted)
        trust: NDArray[np.float64] = np.clip(
            np.r_[self._observed, observed[:-1]] / np.r_[self._predicted, expected[:-1]], 0.0, 1.0
        )
        self._observed, self._predicted = float(observed[-1]), float(expected[-1])
        return trust


class Estimate(NamedTuple):
    """A right rate or mean reward with its 95 % interval; NaN if there is nothing to estimate it from.

    `effective` is the number of rounds of the learner's own that would be as informative, and `rounds` the number of
    logged rounds it is based on. `warnings` are plain sentences on why not to trust it.
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
        """The share of wrong answers, or 1 minus the mean reward; its interval is 1 - high to 1 - low."""
        return 1.0 - self.value

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with None for NaN, which JSON cannot represent."""
        known = not math.isnan(self.value)
        return {
            **self._asdict(),
            "value": self.value if known else None,
            "error": self.error if known else None,
            "warnings": list(self.warnings),
        }


def effective_rounds(weight: PerRound) -> float:
    """Return the effective number of rounds: (sum w)^2 / sum w^2.

    >>> effective_rounds(np.array([1.0, 1.0, 0.0])), effective_rounds(np.array([3.0, 1.0]))
    (2.0, 1.6)
    """
    squares = float(np.square(weight).sum())
    return float(weight.sum()) ** 2 / squares if squares > 0.0 else 0.0


def ips(scores: Scores) -> Estimate:
    """Estimate by inverse propensity scoring."""
    value, low, high = _interval(lambda rounds, counts: _mean(rounds.weight * rounds.reward, counts), scores)
    return _estimate("ips", value, low, high + float(scores.missing.mean()), scores)


def snips(scores: Scores) -> Estimate:
    """Estimate by self-normalised inverse propensity scoring."""
    value, low, high = _interval(_snips, scores)
    return _estimate("snips", value, *widen_interval(low, high, float(scores.missing.mean())), scores)


def doubly_robust(scores: Scores) -> Estimate:
    """Estimate by the model's predictions, corrected by the logged feedback."""

    def mean(rounds: Scores, counts: PerRound) -> tuple[float, float]:
        return _mean(rounds.expected + rounds.weight * (rounds.reward - rounds.predicted), counts)

    value, low, high = _interval(mean, scores)
    missing, expected = float(scores.missing.mean()), float(scores.missing_expected.mean())
    return _estimate("doubly_robust", value, low - expected, high + missing - expected, scores)


def widen_interval(low: float, high: float, missing: float) -> tuple[float, float]:
    """Widen an interval by the missing share, all of which may be wrong, or right."""
    return low * (1.0 - missing), high * (1.0 - missing) + missing


def estimate_mean(name: str, rewards: float, squares: float, total: int, missing: float = 0.0) -> Estimate:
    """Estimate the mean reward of independent rounds, with Wilson's interval.

    `rewards` is the sum of their rewards and `squares` that of the squared rewards.
    """
    if total == 0:
        return Estimate(name, math.nan, 0.0, 1.0, 0.0, 0)
    value, low, high = wilson_interval(rewards, total, squares)
    low, high = widen_interval(low, high, missing)
    return Estimate(name, value, min(low, value), max(high, value), float(total), total)


def _snips(scores: Scores, counts: PerRound) -> tuple[float, float]:
    total = float(counts @ scores.weight)
    if total == 0.0:
        return math.nan, math.nan
    value = float(counts @ (scores.weight * scores.reward)) / total
    return value, math.sqrt(float(counts @ np.square(scores.weight * (scores.reward - value)))) / total


def _mean(values: PerRound, counts: PerRound) -> tuple[float, float]:
    """Return the mean and its standard error; `counts` are the weights of the values."""
    total = float(counts.sum())
    mean = float(counts @ values) / total
    return mean, math.sqrt(float(counts @ np.square(values - mean))) / total


def _interval(
    estimator: Callable[[Scores, PerRound], tuple[float, float]], scores: Scores
) -> tuple[float, float, float]:
    """Return the estimate and the ends of an interval that allows for rounds not seen."""
    count, typical = len(scores.weight), scores.typical
    value, _ = estimator(scores, np.ones(count))
    if typical == 0.0:  # no round is informative
        return value, 0.0, 1.0
    weighed = float(np.square(scores.weight).sum())
    predicted = float(np.square(scores.weight) @ scores.predicted) / weighed if weighed > 0.0 else 0.5
    more = [(typical, reward, float(scores.expected.mean()), predicted, 0.0, 0.0, 0.0, 0.0) for reward in (1.0, 0.0)]
    doubted = Scores(*(np.r_[column, added] for column, added in zip(scores, zip(*more, strict=True), strict=True)))
    middle, deviation = estimator(doubted, np.r_[np.ones(count), NORMAL**2 / 2.0, NORMAL**2 / 2.0])
    return value, middle - NORMAL * deviation, middle + NORMAL * deviation


def _clip(value: float) -> float:
    return max(0.0, min(1.0, value))


def _estimate(name: str, value: float, low: float, high: float, scores: Scores) -> Estimate:
    """Return an estimate with its interval clipped to [0, 1], but extended to include the estimate."""
    low, high, within = _clip(low), _clip(high), _clip(value)
    if not math.isnan(value):
        value = within if abs(value - within) < ROUNDING else value
        low, high = min(low, value), max(high, value)
    return Estimate(name, value, low, high, scores.effective, len(scores.weight))


# --- replay -----------------------------------------------------------------------------------------------------------


class Replay:
    """Replay evaluation: rounds in which a copy of the learner agrees with the log form a run of its own.

    Li, Chu, Langford and Wang, "Unbiased offline evaluation of contextual-bandit-based news article recommendation
    algorithms" (WSDM 2011): if the log showed every label with the same probability, the rounds in which a copy of the
    learner draws the logged label are what it would have met by itself, and it may learn from them.

    A log that prefers some labels shows these too often among the matches. With known propensities a match is therefore
    kept only with the probability level / propensity, where `level` is the smallest probability seen so far: then every
    label of the learner is kept equally often, whatever the log preferred, at the price of matches. A uniform log keeps
    them all. Labels below a hundredth of an equal share would cost nearly all matches; they count as labels that could
    not be shown. In the same way, rounds with few candidates, in which a match is likely, are no more frequent among
    the kept rounds than in the log.
    """

    def __init__(self, learner: Learner, learning: bool, seed: int) -> None:
        self._learner, self._learning = learner, learning
        self._places = {name: place for place, name in enumerate(learner.classes)}
        self._level = 1.0
        self._chance = np.random.default_rng(seed)
        self.rounds = self.matches = self.impossible = 0
        self.rewards = self._squares = 0.0  # of the matches

    def follow(self, checked: CheckedRound) -> None:
        """Replay one round and count it if it matches."""
        round_ = checked.round
        decision = self._learner.decide(round_.x, checked.number, among=round_.among, complete=round_.complete)
        self.rounds += 1
        self._lower_level(checked)
        if not self._could_show(checked, self._places[decision.label]):
            self.impossible += 1
        elif decision.label == round_.label and self._keep_match(shown_propensity(checked)):
            self.matches += 1
            self.rewards += checked.reward
            self._squares += checked.reward**2
            if self._learning:
                learn_feedback(self._learner, decision, round_)

    @property
    def missing(self) -> float:
        """The share of the rounds in which the copy drew a label that the log could not show."""
        return self.impossible / max(1, self.rounds)

    def estimate(self) -> Estimate:
        """Return the estimated mean reward of the matches."""
        return estimate_mean("replay", self.rewards, self._squares, self.matches, self.missing)

    def _lower_level(self, checked: CheckedRound) -> None:
        """Lower the level to the smallest probability of this round.

        If the whole distribution is known, the label is not used: which matches are kept must not depend on it.
        """
        least = RARE / len(checked.candidates)
        if checked.logged is not None:
            self._level = min(self._level, float(checked.logged[checked.logged >= least].min()))
        else:
            self._level = min(self._level, max(least, shown_propensity(checked)))

    def _could_show(self, checked: CheckedRound, place: int) -> bool:
        if checked.logged is not None:
            return bool(checked.logged[place] >= RARE / len(checked.candidates))
        return shown_propensity(checked) < 1.0 or place == checked.place

    def _keep_match(self, propensity: float) -> bool:
        return self._chance.random() * propensity < self._level


def shown_propensity(checked: CheckedRound) -> float:
    """Return the probability with which the label was shown; if unknown, that of a uniform choice."""
    return 1.0 / len(checked.candidates) if checked.propensity is None else checked.propensity
