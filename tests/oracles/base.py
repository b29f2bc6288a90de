"""What the slow twins share: scores, ties, the epsilon-greedy draw and the binary passive-aggressive step size.

Specification: docs/algorithms.md#notation, docs/algorithms.md#exploring, docs/algorithms.md#ties and
docs/algorithms.md#passive-aggressive-steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Draw = Callable[[int], float]

VARIANTS = ("PA", "PA-I", "PA-II")


@dataclass
class Decided:
    """What a decision leaves behind for the (possibly late) feedback.

    `weight` is the probability of `label` given how ties were broken: the number the papers divide by.
    """

    label: int
    greedy: int
    weight: float = 1.0
    note: float = 0.0
    second_note: float = 0.0


def check_choice(name: str, value: str, allowed: Sequence[str]) -> str:
    """Refuse a misspelt option, so that a test never compares the wrong thing."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}, expected one of {tuple(allowed)}")
    return value


def dot(w: Array, x: Array) -> float:
    """w.x as a plain loop from left to right, the same order for every row."""
    total = 0.0
    for j in range(len(x)):
        total += float(w[j]) * float(x[j])
    return total


def all_scores(W: Array, x: Array) -> Array:
    """One score per row of W."""
    return np.array([dot(row, x) for row in W], dtype=np.float64)


def squared_norm(x: Array) -> float:
    """n = ||x||^2."""
    return dot(x, x)


def tied_labels(scores: Array) -> list[int]:
    """Labels within 1e-12 (1 + |max|) of the best score, in increasing order."""
    best = float(max(scores))
    limit = best - 1e-12 * (1.0 + abs(best))
    return [r for r in range(len(scores)) if scores[r] >= limit]


def greedy_label(scores: Array, draw: Draw) -> int:
    """Argmax; ties uniformly at random with draw(1)."""
    tied = tied_labels(scores)
    if len(tied) == 1:
        return tied[0]
    return tied[math.floor(draw(1) * len(tied))]


def greedy_distribution(scores: Array) -> Array:
    """The distribution of greedy_label over all draws."""
    tied = tied_labels(scores)
    probabilities = np.zeros(len(scores))
    for r in tied:
        probabilities[r] = 1.0 / len(tied)
    return probabilities


def uniform_label(classes: int, draw: Draw) -> int:
    """A label drawn uniformly with draw(0)."""
    return math.floor(classes * draw(0))


def epsilon_greedy(greedy: int, gamma: float, classes: int, draw: Draw) -> tuple[int, float]:
    """Played label and its probability (given `greedy`): the greedy label, or a uniform one with probability gamma."""
    u = draw(0)
    label = min(classes - 1, math.floor(classes * u / gamma)) if u < gamma else greedy
    weight = gamma / classes
    if label == greedy:
        weight += 1.0 - gamma
    return label, weight


def epsilon_greedy_distribution(greedy: Array, gamma: float) -> Array:
    """Distribution of the played label when `greedy` is the distribution of the greedy label."""
    return (1.0 - gamma) * greedy + gamma / len(greedy)


def best_other(scores: Array, y: int) -> int:
    """Best class other than y, the lowest index among exact ties."""
    best = -1
    for r in range(len(scores)):
        if r != y and (best < 0 or scores[r] > scores[best]):
            best = r
    return best


def binary_pa_size(variant: str, C: float, loss: float, n: float) -> float:
    """The tau of one binary passive-aggressive step: l/n | min(C, l/n) | l/(n + 1/(2C))."""
    if variant == "PA":
        return loss / n
    if variant == "PA-I":
        return min(C, loss / n)
    return loss / (n + 1.0 / (2.0 * C))


def binary_pa_step(W: Array, row: int, x: Array, z: float, variant: str, C: float) -> None:
    """Binary passive-aggressive step on one row towards the sign z, in place."""
    loss = max(0.0, 1.0 - z * dot(W[row], x))
    W[row] += z * binary_pa_size(variant, C, loss, squared_norm(x)) * x


def softmax(scores: Array) -> Array:
    """exp(s_r) / sum exp(s), the maximum subtracted first."""
    best = float(max(scores))
    powers = [math.exp(float(s) - best) for s in scores]
    total = math.fsum(powers)
    return np.array([p / total for p in powers], dtype=np.float64)


def bisect_increasing(f: Callable[[float], float], low: float, high: float) -> float:
    """Where the increasing function f changes sign in [low, high], to the last bit (f may jump)."""
    while True:
        middle = low + (high - low) / 2.0
        if middle <= low or middle >= high:
            return middle
        if f(middle) < 0.0:
            low = middle
        else:
            high = middle
