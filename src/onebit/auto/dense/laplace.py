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

BISECTIONS = 12
EVEN_SHARE = 0.1  # share of what a wrong answer takes from its class that is spread equally over all others
SETTLED_BELOW = 1e-4  # a right answer with less variance than this to gain is ignored
NEWTON_ERROR = 0.05  # relative error allowed for a Newton step
LIKELY_FROM = 0.5  # from this probability on, the likelihood's curvature only decreases
MOST_LOG_CHANGE = 600.0  # the logarithm of a probability moves by at most this
LEAST_PROBABILITY = 1e-300  # the smallest probability used in place of 0
SURPRISES = 0.1  # directions at least this long may be drawn at random

# Scratch space of a step: which classes may change, their directions, their new probabilities, and their chances to move.
CLASS, DIRECTION, NEW_PROBABILITY, CHANCE = 0, 1, 2, 3


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
    rest_mass, count = LEAST_PROBABILITY, 0
    for head in range(beliefs.shape[0]):
        count += about[head] > 0.0
        if head != label:
            rest_mass += beliefs[head]
    longest = 1.0 if right else beliefs[label]  # the solution is no farther along the directions
    candidates, movers, unmoved_mass, most = 0, 0, 0.0, 0.0
    for head in range(beliefs.shape[0]):
        if about[head] == 0.0:
            continue
        direction = rest_mass if head == label else -beliefs[head]
        if not right:
            direction = (
                1.0 if head == label else -((1.0 - EVEN_SHARE) * beliefs[head] / rest_mass + EVEN_SHARE / (count - 1))
            )
        chance = chance_to_move(abs(longest * direction), linear.bounds[member, head], fine)
        most = max(most, chance)
        if chance > draw or head == label:
            work[CLASS, candidates], work[DIRECTION, candidates] = head, direction
            candidates += 1
        else:
            unmoved_mass += beliefs[head]
    expected = right and rest_mass < SURPRISES
    if most <= draw or (expected and rest_mass * rest_mass * linear.bounds[member, label] < SETTLED_BELOW):
        return
    if expected and rest_mass * rest_mass * learnt_variance(linear, member, label) < SETTLED_BELOW:
        return
    spread, most = 0.0, 0.0
    for place in range(candidates):
        head, direction = int(work[CLASS, place]), work[DIRECTION, place]
        variance = learnt_variance(linear, member, head)
        chance = chance_to_move(abs(longest * direction), variance, fine)
        most = max(most, chance)
        if chance <= draw and head != label:
            unmoved_mass += beliefs[head]
            continue
        work[CLASS, movers], work[DIRECTION, movers], work[CHANCE, movers] = head, direction, chance
        spread += direction * direction * variance
        movers += 1
    if most <= draw:
        return
    length = find_step_length(linear, member, beliefs, label, right, movers, spread, unmoved_mass)
    own, other_mass = 0.0, unmoved_mass
    for place in range(movers):
        head = int(work[CLASS, place])
        raise_by = min(MOST_LOG_CHANGE, length * work[DIRECTION, place] * linear.variances[member, head])
        moved = beliefs[head] * math.exp(raise_by)
        work[NEW_PROBABILITY, place] = moved
        if head == label:
            own = moved
        else:
            other_mass += moved
    other_mass = max(LEAST_PROBABILITY, other_mass)
    own, other_mass, total = own / (own + other_mass), other_mass / (own + other_mass), own + other_mass
    evidence = 0.0
    for place in range(movers):
        head = int(work[CLASS, place])
        difference = other_mass if head == label else work[NEW_PROBABILITY, place] / total
        work[NEW_PROBABILITY, place] = own / other_mass * difference * difference
        evidence += work[NEW_PROBABILITY, place] * linear.variances[member, head]
    for place in range(movers):
        head = int(work[CLASS, place])
        variance, curvature = linear.variances[member, head], work[NEW_PROBABILITY, place]
        chance = most if head == label else work[CHANCE, place]  # the label moves whenever any class does
        # All classes share one evidence, in proportion.
        if linear.widths[member] != linear.lengths[member]:
            curvature /= 1.0 + evidence
            curvature /= 1.0 - curvature * variance
        curvature /= chance
        change = length * work[DIRECTION, place] / chance
        if chance < 1.0 or curvature * variance >= fine or abs(change) * variance >= fine:
            move_class(linear, member, head, change, curvature if curvature * variance >= 0.1 * fine else 0.0)


def chance_to_move(steep: float, variance: float, fine: float) -> float:
    """Return the probability that a class moves, given the length of its direction and its variance."""
    if steep * variance >= fine:
        return 1.0
    return steep * variance / fine if steep >= SURPRISES else 0.0


def find_step_length(
    linear: LinearMembers,
    member: int,
    beliefs: Vector,
    label: int,
    right: bool,
    movers: int,
    spread: float,
    unmoved_mass: float,
) -> float:
    """Return how far along the directions the most likely scores lie."""
    work, variances = linear.work, linear.variances
    if right and beliefs[label] >= LIKELY_FROM:
        mean, square = 0.0, 0.0
        for place in range(movers):
            head = int(work[CLASS, place])
            slope = work[DIRECTION, place] * variances[member, head]
            mean += beliefs[head] * slope
            square += beliefs[head] * slope * slope
        bend = (square - mean * mean) / spread
        if bend < NEWTON_ERROR:
            return float(1.0 / (1.0 + bend))
    low, high = (0.0, 1.0) if right else (-beliefs[label], 0.0)
    for _ in range(BISECTIONS):
        length = 0.5 * (low + high)
        own, upward, other_mass, downward = 0.0, 0.0, max(LEAST_PROBABILITY, unmoved_mass), 0.0
        for place in range(movers):
            head = int(work[CLASS, place])
            steep = work[DIRECTION, place] * variances[member, head]
            moved = beliefs[head] * math.exp(min(MOST_LOG_CHANGE, length * steep))
            if head == label:
                own, upward = moved, steep
            else:
                other_mass += moved
                downward += moved * steep
        # Computed from the others, which for an almost certain label are below the rounding error of 1 minus its probability.
        slope = (upward - downward / other_mass) * (other_mass if right else -own) / (own + other_mass)
        if slope > length * spread:
            low = length
        else:
            high = length
    return 0.5 * (low + high)
