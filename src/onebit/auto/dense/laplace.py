"""How a linear member learns from bandit feedback, by the Laplace approximation.

The feedback on a has the likelihood p_a if right and 1 - p_a if wrong, and the prior is normal. The most likely
scores are sought along one direction, s_i + tau q_i h_i:

    right:   h_a = 1 - p_a,   h_j = -p_j
    wrong:   h_a = 1,         h_j = -(0.9 p_j/(1 - p_a) + 0.1/(K - 1))

by bisection, since a single Newton step overshoots where little is known and where a right answer is a surprise;
where the solution is near, one Newton step is as good. The tenth that a wrong answer gives to all others equally is
for classes that were never right. The covariance then shrinks by the curvature at the solution. Classes that would
change by less than a threshold are skipped, which is mostly known before their variances are computed.

After many rounds every change would be below the threshold, and a member would no longer learn. So a class whose
direction is long, because the feedback is a surprise, is drawn with probability change/threshold and then moves by
threshold/change times as much: on average as far as without a threshold.
"""

from __future__ import annotations

import math

from onebit.auto.dense.linear import LinearMembers, learnt_variance, move_class
from onebit.contract.rule import Vector

HALVINGS = 12
EVENLY = 0.1  # share of what a wrong answer takes from its class that is spread equally over all others
SETTLED = 1e-4  # a right answer with less variance than this to gain is ignored
NEAR = 0.05  # relative error allowed for a Newton step
LIKELY = 0.5  # from this probability on, the likelihood's curvature only decreases
MOST_RAISED = 600.0  # the logarithm of a probability moves by at most this
LEAST = 1e-300  # the smallest probability used in place of 0
SURPRISES = 0.1  # directions at least this long may be drawn at random

# Scratch space of a step: which classes may change, their directions, their new probabilities, and their chances to move.
CHANGED, DIRECTION, MOVED, CHANCE = 0, 1, 2, 3


def learn_linear(
    linear: LinearMembers,
    member: int,
    beliefs: Vector,
    about: Vector,
    label: int,
    right: bool,
    fine: float,
    draw: float,
) -> None:
    """Take the step of one linear member for feedback on a label.

    `beliefs` are over the classes that the feedback concerns; changes below `fine` are left out. `draw` is uniform on
    [0, 1) and decides which surprising changes below it are made all the same.
    """
    work = linear.work
    rest, count = LEAST, 0
    for other in range(beliefs.shape[0]):
        count += about[other] > 0.0
        if other != label:
            rest += beliefs[other]
    longest = 1.0 if right else beliefs[label]  # the solution is no farther along the directions
    likely, number, still, most = 0, 0, 0.0, 0.0
    for other in range(beliefs.shape[0]):
        if about[other] == 0.0:
            continue
        direction = rest if other == label else -beliefs[other]
        if not right:
            direction = 1.0 if other == label else -((1.0 - EVENLY) * beliefs[other] / rest + EVENLY / (count - 1))
        chance = chance_to_move(abs(longest * direction), linear.bounds[member, other], fine)
        most = max(most, chance)
        if chance > draw or other == label:
            work[CHANGED, likely], work[DIRECTION, likely] = other, direction
            likely += 1
        else:
            still += beliefs[other]
    expected = right and rest < SURPRISES
    if most <= draw or (expected and rest * rest * linear.bounds[member, label] < SETTLED):
        return
    if expected and rest * rest * learnt_variance(linear, member, label) < SETTLED:
        return
    spread, most = 0.0, 0.0
    for place in range(likely):
        other, direction = int(work[CHANGED, place]), work[DIRECTION, place]
        variance = learnt_variance(linear, member, other)
        chance = chance_to_move(abs(longest * direction), variance, fine)
        most = max(most, chance)
        if chance <= draw and other != label:
            still += beliefs[other]
            continue
        work[CHANGED, number], work[DIRECTION, number], work[CHANCE, number] = other, direction, chance
        spread += direction * direction * variance
        number += 1
    if most <= draw:
        return
    length = sought_length(linear, member, beliefs, label, right, number, spread, still)
    own, others = 0.0, still
    for place in range(number):
        other = int(work[CHANGED, place])
        raise_by = min(MOST_RAISED, length * work[DIRECTION, place] * linear.variances[member, other])
        moved = beliefs[other] * math.exp(raise_by)
        work[MOVED, place] = moved
        if other == label:
            own = moved
        else:
            others += moved
    others = max(LEAST, others)
    own, others, total = own / (own + others), others / (own + others), own + others
    evidence = 0.0
    for place in range(number):
        other = int(work[CHANGED, place])
        difference = others if other == label else work[MOVED, place] / total
        work[MOVED, place] = own / others * difference * difference
        evidence += work[MOVED, place] * linear.variances[member, other]
    for place in range(number):
        other = int(work[CHANGED, place])
        variance, curvature = linear.variances[member, other], work[MOVED, place]
        chance = most if other == label else work[CHANCE, place]  # the label moves whenever any class does
        # All classes share one evidence, in proportion.
        if linear.widths[member] != linear.lengths[member]:
            curvature /= 1.0 + evidence
            curvature /= 1.0 - curvature * variance
        curvature /= chance
        change = length * work[DIRECTION, place] / chance
        if chance < 1.0 or curvature * variance >= fine or abs(change) * variance >= fine:
            move_class(linear, member, other, change, curvature if curvature * variance >= 0.1 * fine else 0.0)


def chance_to_move(steep: float, variance: float, fine: float) -> float:
    """Return the probability that a class moves, given the length of its direction and its variance."""
    if steep * variance >= fine:
        return 1.0
    return steep * variance / fine if steep >= SURPRISES else 0.0


def sought_length(
    linear: LinearMembers,
    member: int,
    beliefs: Vector,
    label: int,
    right: bool,
    number: int,
    spread: float,
    still: float,
) -> float:
    """Return how far along the directions the most likely scores lie."""
    work, variances = linear.work, linear.variances
    if right and beliefs[label] >= LIKELY:
        mean, square = 0.0, 0.0
        for place in range(number):
            other = int(work[CHANGED, place])
            slope = work[DIRECTION, place] * variances[member, other]
            mean += beliefs[other] * slope
            square += beliefs[other] * slope * slope
        bend = (square - mean * mean) / spread
        if bend < NEAR:
            return float(1.0 / (1.0 + bend))
    low, high = (0.0, 1.0) if right else (-beliefs[label], 0.0)
    for _ in range(HALVINGS):
        length = 0.5 * (low + high)
        own, upward, others, downward = 0.0, 0.0, max(LEAST, still), 0.0
        for place in range(number):
            other = int(work[CHANGED, place])
            steep = work[DIRECTION, place] * variances[member, other]
            moved = beliefs[other] * math.exp(min(MOST_RAISED, length * steep))
            if other == label:
                own, upward = moved, steep
            else:
                others += moved
                downward += moved * steep
        # Computed from the others, which for an almost certain label are below the rounding error of 1 minus its probability.
        slope = (upward - downward / others) * (others if right else -own) / (own + others)
        if slope > length * spread:
            low = length
        else:
            high = length
    return 0.5 * (low + high)
