"""Logs that these tests share: real learners on small streams, and scores of logs that nobody had to play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.learner.learner import Learner, copy_learner
from onebit.offpolicy import Round
from onebit.offpolicy.estimates import RoundBlock, Scores, Trust, score_block

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def gaussians(rounds: int, classes: int, seed: int) -> tuple[Array, Labels]:
    """Classes around points of a circle, which overlap a little; the first is the most frequent."""
    generator = np.random.default_rng([7, seed])
    share = np.arange(classes, 0, -1.0)
    y = generator.choice(classes, size=rounds, p=share / share.sum())
    angle = 2.0 * np.pi * y / classes
    centres = 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.c_[centres + generator.normal(size=(rounds, 2)), np.ones(rounds)], y


def played_log(learner: Learner, X: Any, y: Labels, *, whole: bool = True) -> list[Round]:
    """What a learner decided on a stream, learning as it went."""
    log = []
    for row, truth in zip(X, y.tolist(), strict=True):
        chances = list(learner.probabilities(row).values()) if whole else None
        decision = learner.decide(row)
        right = decision.label == learner.classes[truth]
        learner.learn(decision, right)
        log.append(Round(decision.id, row, decision.label, right, decision.propensity, chances))
    return log


def drawn_log(chances: Array, X: Any, y: Labels, seed: int, *, whole: bool = True) -> list[Round]:
    """Labels drawn from these distributions, a row for each round."""
    labels = drawn(chances, np.random.default_rng([8, seed]))
    return [
        Round(f"r{n}", X[n], int(a), bool(a == y[n]), float(chances[n, a]), chances[n] if whole else None)
        for n, a in enumerate(labels)
    ]


def drawn(chances: Array, generator: np.random.Generator) -> Labels:
    """A label for each row."""
    below = generator.random(len(chances))[:, None] > chances.cumsum(axis=1)
    return np.asarray(np.minimum(below.sum(axis=1), chances.shape[1] - 1), dtype=np.int64)


def greedy_chances(favourites: Labels, classes: int, exploration: float) -> Array:
    """Mostly the favourite, any label with the probability of exploring."""
    chances = np.full((len(favourites), classes), exploration / classes)
    chances[np.arange(len(favourites)), favourites] += 1.0 - exploration
    return chances


def progressive_truth(learner: Learner, log: Sequence[Round], y: Labels) -> float:
    """What a learner that learns from this log would really have scored: its probability of the right label, round by round."""
    follower, total = copy_learner(learner), 0.0
    for one, truth in zip(log, y.tolist(), strict=True):
        total += follower.probabilities(one.x)[learner.classes[truth]]
        assert one.propensity is not None
        follower.learn(follower.from_log(one.x, one.label, one.propensity), one.right)
    return total / len(log)


def scores_of(
    target: Array,
    model: Array,
    logged: Array,
    labels: Labels,
    rewards: Array,
    *,
    whole: bool = True,
    offered: NDArray[np.bool_] | None = None,
) -> Scores:
    """What `evaluate` would make of these tables; `offered` are the candidates, all classes where none are given."""
    propensity = logged[np.arange(len(labels)), labels]
    known = logged if whole else np.full_like(logged, np.nan)
    could = np.ones_like(logged, dtype=np.bool_) if offered is None else offered
    return score_block(RoundBlock(target, model, known, labels, rewards, propensity, could), Trust())


def simulated(
    rounds: int,
    classes: int,
    exploration: float,
    accuracies: tuple[float, float],
    generator: np.random.Generator,
    *,
    whole: bool = True,
) -> tuple[Scores, float]:
    """A log of one greedy learner with some exploration, scored for another, and what that one really scores on it.

    Both err on the same hard third of the rounds, as learners do: so they agree where they are right, and the errors of the one
    are met only where the other explores. The model is right about most labels, with noise.
    """
    y = generator.integers(0, classes, rounds)
    hard = generator.random(rounds) < 1 / 3
    favourites = []
    for accuracy in accuracies:
        wrong = hard & (generator.random(rounds) < 3.0 * (1.0 - accuracy))
        favourites.append(np.where(wrong, (y + generator.integers(1, classes, rounds)) % classes, y))
    logged = greedy_chances(favourites[0], classes, exploration)
    target = greedy_chances(favourites[1], classes, 0.0)
    outcome = np.eye(classes)[y]
    model = np.clip(0.05 + 0.9 * outcome + 0.3 * generator.normal(size=outcome.shape), 0.0, 1.0)
    labels = drawn(logged, generator)
    right = (labels == y).astype(np.float64)
    scores = scores_of(target, model, logged, labels, right, whole=whole)
    return scores, float((target * outcome).sum() / rounds)
