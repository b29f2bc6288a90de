"""From what the learner, the model and the log say of each label to the numbers that the estimators take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.offpolicy.estimates import PerRound, Scores
from onebit.offpolicy.model import Trust

LEAST = 1e-9  # a label less likely than this could not be shown; if it was shown nevertheless, it counts as so likely

PerLabel = NDArray[np.float64]  # a row for each round, a column for each class


class RoundBlock(NamedTuple):
    """Some rounds, one after the other."""

    target: PerLabel  # the probabilities with which the learner would play each label
    model: PerLabel  # how likely the model thinks each label right
    logged: PerLabel  # the probabilities with which the log's learner played each label; NaN where only the propensity is known
    labels: NDArray[np.int64]
    reward: PerRound  # 1 for right, 0 for wrong
    propensity: PerRound
    offered: NDArray[np.bool_]  # which labels could be shown, by the candidates


def scored(block: RoundBlock, trust: Trust) -> Scores:
    """The numbers of each round."""
    rows = np.arange(len(block.labels))
    weight = block.target[rows, block.labels] / np.maximum(block.propensity, LEAST)
    predicted = block.model[rows, block.labels]
    trusted = trust.follow(weight, block.reward, predicted)
    share, certain = likely_logged(block)
    can = share >= LEAST
    can[rows, block.labels] = True
    ratio = np.where(can, block.target / np.maximum(share, LEAST), 0.0)
    # Nothing is known of what a log that keeps only propensities could not show.
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


def likely_logged(block: RoundBlock) -> tuple[PerLabel, NDArray[np.bool_]]:
    """The logged distributions, and which of them are certain.

    Where only the propensity of the label is known, the other candidates are taken to share the rest evenly, as where somebody explores. This
    guess is used for how wide intervals are, and not in the estimates themselves. A propensity of 1 leaves nothing to guess.
    """
    unknown = np.isnan(block.logged[:, 0])
    others = np.maximum(block.offered.sum(axis=1) - 1, 1)  # one candidate leaves no rest
    rest = (1.0 - block.propensity) / others
    guess = np.where(block.offered, rest[:, None], 0.0)
    guess[np.arange(len(rest)), block.labels] = block.propensity
    return np.where(unknown[:, None], guess, block.logged), ~unknown | (block.propensity >= 1.0)


def joined(parts: list[Scores]) -> Scores:
    """Blocks of rounds as one."""
    return Scores(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
