"""How labels are chosen from scores: tied maxima, exploration, sampling and sorting.

All of it is in one place because ties decide results: they are broken uniformly at random among all labels within
rounding of the maximum (lowest-index ties turn EPABF's 3.6 % errors into 67 % on one published stream). Each
function that chooses has a counterpart that computes the probabilities of that choice.
"""

from __future__ import annotations

import math

from onebit.contract.draws import PLAY, TIE, Draws, uniform
from onebit.contract.rule import Vector


def fill(vector: Vector, count: int, value: float) -> None:
    """Set the first `count` entries to a value.

    A slice would do the same, but costs Numba 50 ms for each compilation.
    """
    for index in range(count):
        vector[index] = value


def highest(scores: Vector, count: int) -> int:
    """Return the label with the largest of the first `count` scores; the lowest label if tied."""
    best = 0
    for label in range(1, count):
        if scores[label] > scores[best]:
            best = label
    return best


def tie_threshold(top: float) -> float:
    """Return the lowest score that counts as tied with the maximum `top`."""
    return top - 1e-12 * (1.0 + abs(top))


def label_at_least(scores: Vector, count: int, least: float, index: int) -> int:
    """Return the label at `index` among the labels with a score of at least `least`, in ascending order."""
    for label in range(count):
        if scores[label] >= least:
            if index == 0:
                return label
            index -= 1
    return 0  # only reached with NaN scores, which the engine refuses before calling a rule


def count_at_least(scores: Vector, count: int, least: float) -> int:
    """Return the number of labels with a score of at least `least`."""
    number = 0
    for label in range(count):
        if scores[label] >= least:
            number += 1
    return number


def greedy_label(scores: Vector, count: int, draws: Draws) -> int:
    """Return the label with the highest score, breaking ties at random."""
    best = highest(scores, count)
    least = tie_threshold(scores[best])
    tied = count_at_least(scores, count, least)
    if tied == 1:
        return best
    return label_at_least(scores, count, least, int(uniform(draws, TIE) * tied))


def share_greedy(scores: Vector, count: int, exploration: float, probabilities: Vector) -> None:
    """Write the probabilities of `explored_label` around `greedy_label`.

    Tied labels share equally what exploration leaves.
    """
    least = tie_threshold(scores[highest(scores, count)])
    share = (1.0 - exploration) / count_at_least(scores, count, least)
    for label in range(count):
        probabilities[label] = exploration / count
        if scores[label] >= least:
            probabilities[label] += share


def rival(scores: Vector, count: int, label: int) -> int:
    """Return the label with the highest score apart from `label`; -1 if there is no other.

    Of tied labels it is the lowest, since any is a valid subgradient.
    """
    best = -1
    for candidate in range(count):
        if candidate != label and (best < 0 or scores[candidate] > scores[best]):
            best = candidate
    return best


def uniform_label(count: int, draws: Draws) -> int:
    """Return a label drawn uniformly at random."""
    return int(uniform(draws, PLAY) * count)


def explored_label(greedy: int, count: int, exploration: float, draws: Draws) -> int:
    """Return the greedy label or, with probability `exploration`, any label including the greedy one.

    One draw decides both.
    """
    drawn = uniform(draws, PLAY)
    if drawn >= exploration:
        return greedy
    label = int(count * drawn / exploration)
    return label if label < count else count - 1


def explored_propensity(label: int, greedy: int, count: int, exploration: float) -> float:
    """Return the probability that `explored_label` returns this label, given the greedy one."""
    propensity = exploration / count
    if label == greedy:
        propensity += 1.0 - exploration
    return propensity


def softmax(scores: Vector, count: int, probabilities: Vector) -> None:
    """Write exp(score) over its sum; `scores` and `probabilities` may be the same array.

    The maximum is subtracted first.
    """
    top = scores[highest(scores, count)]
    for label in range(count):
        probabilities[label] = math.exp(scores[label] - top)
    normalise(probabilities, count)


def normalise(weights: Vector, count: int) -> None:
    """Divide the first `count` entries by their sum."""
    total = 0.0
    for label in range(count):
        total += weights[label]
    for label in range(count):
        weights[label] /= total


def sampled_label(probabilities: Vector, count: int, draws: Draws) -> int:
    """Return a label drawn from these probabilities."""
    remainder = uniform(draws, PLAY)
    for label in range(count - 1):
        remainder -= probabilities[label]
        if remainder < 0.0:
            return label
    return count - 1


def sort_descending(keys: Vector, labels: Vector, count: int) -> None:
    """Sort `keys` in place, largest first, and reorder `labels` along with them.

    This is Shellsort: for the few dozen classes of most problems it is a faster insertion sort, and even at K = 1000 it
    costs little compared with K dot products.
    """
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for index in range(gap, count):
            key = keys[index]
            label = labels[index]
            hole = index
            while hole >= gap and keys[hole - gap] < key:
                keys[hole] = keys[hole - gap]
                labels[hole] = labels[hole - gap]
                hole -= gap
            keys[hole] = key
            labels[hole] = label
        gap //= 3
