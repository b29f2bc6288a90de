"""A member of `auto` that believes in a softmax of linear scores, and learns from bandit feedback by the Laplace approximation.

The feedback on a has the likelihood p_a if right and 1 - p_a if wrong; what was known is normal, with the variances q of the scores. The
most likely scores are sought along one direction, s_i + tau q_i h_i, by halving: a single Newton step overshoots where little is known.
If right, h is the gradient; if wrong, what is taken from the label goes to the others by their probabilities, but a tenth of it to all
alike: a class that has never been right would otherwise stay so. The covariance then shrinks by the curvature at the point found.
With two classes bandit feedback says everything.
"""

from __future__ import annotations

import math

from onebit.contract.choices import softmax
from onebit.contract.rule import Matrix, Vector

START = 100.0  # the variance of a weight before anything is learnt: scores of tens are possible from the beginning
HIGHEST = 30.0  # a deviation above this is as good as infinite
HALVINGS = 12
EVENLY = 0.1  # the part of what a wrong answer takes from its class that goes to all others alike
NEGLIGIBLE = 1e-4  # a class whose score and variance would change less than this is left alone
SETTLED = 1e-7  # a right answer that was expected so surely says nothing
LEAST = 1e-30  # the smallest probability that is not 0


def believe(scores: Vector, begin: int, classes: int, beliefs: Vector, offset: int) -> None:
    """Write the probabilities of the classes, softmax of the scores from `begin` on, from `offset` on."""
    softmax(scores[begin : begin + classes], classes, beliefs[offset : offset + classes])


def raised(chance: float, variance: float) -> float:
    """The probability of a class where its score is one deviation up."""
    odds = chance * math.exp(min(HIGHEST, math.sqrt(variance)))
    return odds / (1.0 - chance + odds)


def laplace_step(
    scores: Vector, begin: int, classes: int, full: bool, label: int, right: bool, work: Matrix, step: Vector
) -> None:
    """Fill in the step after hearing of a label; work[0] has the beliefs before it, and work[1] is scratch."""
    beliefs, moved = work[0], work[1]
    variances = begin + classes
    rest = others(beliefs, classes, label)
    spread = 0.0
    for other in range(classes):
        direction = rest if other == label else -beliefs[other]
        if not right:
            share = (1.0 - EVENLY) * beliefs[other] / rest + EVENLY / (classes - 1)
            direction = 1.0 if other == label else -share
        step[begin + other] = direction
        spread += direction * direction * scores[variances + other]
    if right and rest * rest * scores[variances + label] < SETTLED:  # as most rounds are in the end
        for index in range(begin, begin + 2 * classes):
            step[index] = 0.0
        return
    low, high = (0.0, 1.0) if right else (-beliefs[label], 0.0)
    for _ in range(HALVINGS):
        length = 0.5 * (low + high)
        slope = follow(scores, begin, classes, label, length, step, moved)
        if not right:
            slope *= -moved[label] / others(moved, classes, label)
        if slope > length * spread:
            low = length
        else:
            high = length
    length = 0.5 * (low + high)
    follow(scores, begin, classes, label, length, step, moved)
    rest = others(moved, classes, label)
    total = 0.0
    for other in range(classes):
        difference = rest if other == label else moved[other]
        curvature = moved[label] / rest * difference * difference
        step[variances + other] = curvature
        total += curvature * scores[variances + other]
    for other in range(classes):
        variance, curvature = scores[variances + other], step[variances + other]
        if full:  # one evidence for all classes together, of which each has its share
            curvature /= 1.0 + total
            curvature /= 1.0 - curvature * variance
        change = length * step[begin + other]
        if curvature * variance < NEGLIGIBLE and abs(change) * variance < NEGLIGIBLE:
            change, curvature = 0.0, 0.0
        step[begin + other], step[variances + other] = change, curvature


def others(beliefs: Vector, classes: int, label: int) -> float:
    """The probability of all other classes, as their sum: one minus the label's would be 0 long before it is."""
    total = LEAST
    for other in range(classes):
        if other != label:
            total += beliefs[other]
    return total


def follow(
    scores: Vector, begin: int, classes: int, label: int, length: float, directions: Vector, moved: Vector
) -> float:
    """Write the probabilities after a step of this length; how fast the logarithm of the label's grows there."""
    variances = begin + classes
    for other in range(classes):
        moved[other] = scores[begin + other] + length * scores[variances + other] * directions[begin + other]
    softmax(moved, classes, moved)
    slope = others(moved, classes, label) * scores[variances + label] * directions[begin + label]
    for other in range(classes):
        if other != label:
            slope -= moved[other] * scores[variances + other] * directions[begin + other]
    return float(slope)
