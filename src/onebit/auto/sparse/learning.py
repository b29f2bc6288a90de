"""Learning from feedback in the sparse-row space of `auto`."""

from __future__ import annotations

import math

from onebit.auto import ABOUT, LABEL, REWARD, RIGHT
from onebit.auto.sparse.scoring import (
    BACKGROUND,
    BELIEF,
    COMMON,
    CONSTANT,
    EVIDENCE,
    FACTOR,
    LED_BAYES,
    LED_SCORE,
    LENGTH,
    LENGTHS,
    MOST_TRUST,
    OPINION,
    OPINIONS,
    RECENT_ROUNDS,
    RESIDUALS,
    ROUNDS,
    ROWS,
    SCALE,
    SCORE,
    SEEN,
    SIZE,
    VARIANCE,
    WEIGHT,
    AutoSparseArrays,
    reset_trusts,
)
from onebit.contract.rule import Matrix, Vector
from onebit.spaces.sparse import SparseRows


def absorb(space: AutoSparseArrays, rows: SparseRows, row: int, feedback: Vector, scale: float) -> None:
    """Learn from the feedback on the row just scored, or restart from scratch if the scale is 0."""
    if scale == 0.0:
        forget_all(space)
        return
    heads = space.heads
    label, right, reward = int(feedback[heads + LABEL]), feedback[heads + RIGHT] == 1.0, feedback[heads + REWARD]
    concerned, not_played = 0, -1  # how many classes the feedback concerns, and one of them that was not played
    for head in range(heads):
        if feedback[head] == ABOUT:
            concerned += 1
            not_played = not_played if head == label else head
    known = label if right else not_played if concerned == 2 else -1  # which class is right, if that is known
    update_trusts(space, feedback, label, reward)
    noise = space.facts[RESIDUALS] / space.facts[ROUNDS]
    movers = find_movers(space, feedback, label, right, reward, concerned, noise)
    move_classes(space, rows, row, movers, 2 if concerned == 2 else 1, known, noise)


def update_trusts(space: AutoSparseArrays, feedback: Vector, label: int, reward: float) -> None:
    """Update the trusts by one step of a logistic regression of the answer on the leads.

    A lead is the opinion about the label, less the mean opinion about the others.
    """
    facts, trusts, doubts, values = space.facts, space.trusts, space.doubts, space.class_values
    own, other_mass = values[BELIEF, label], 0.0
    bayes, score, common = 0.0, 0.0, 0.0
    for head in range(space.heads):
        if feedback[head] == ABOUT and head != label:
            belief = values[BELIEF, head]
            other_mass += belief
            bayes += belief * values[OPINION, head]
            score += belief * values[SCORE, head]
            common += belief * values[COMMON, head]
    bayes, score, common = (
        values[OPINION, label] - bayes / other_mass,
        values[SCORE, label] - score / other_mass,
        values[COMMON, label] - common / other_mass,
    )
    rounds = min(RECENT_ROUNDS, facts[ROUNDS])
    facts[LED_BAYES] += (abs(trusts[OPINION] * bayes) - facts[LED_BAYES]) / rounds
    facts[LED_SCORE] += (abs(trusts[SCORE] * score) - facts[LED_SCORE]) / rounds
    along = (
        doubts[OPINION, OPINION] * bayes + doubts[OPINION, SCORE] * score + doubts[OPINION, COMMON] * common,
        doubts[SCORE, OPINION] * bayes + doubts[SCORE, SCORE] * score + doubts[SCORE, COMMON] * common,
        doubts[COMMON, OPINION] * bayes + doubts[COMMON, SCORE] * score + doubts[COMMON, COMMON] * common,
    )
    chance = own / (own + other_mass)
    curvature = chance * other_mass / (own + other_mass)
    whole = 1.0 + curvature * (along[OPINION] * bayes + along[SCORE] * score + along[COMMON] * common)
    for row in range(OPINIONS):
        trusts[row] += (reward - chance) * along[row] / whole
        for column in range(OPINIONS):
            doubts[row, column] -= along[row] * along[column] * curvature / whole
    bound_trusts(trusts, doubts, -MOST_TRUST if space.heads == 2 else 0.0)


def bound_trusts(trusts: Vector, doubts: Matrix, least_common: float) -> None:
    """Keep the trusts within bounds; one clipped at its lower bound shifts the others accordingly.

    If the trust in how common classes are is clipped, the others move to what is most likely given that. With more
    than two classes its bound is 0: below, rare classes would be preferred to those that were never right, which
    would then be tried too late.
    """
    beyond = trusts[COMMON] - least_common
    if beyond < 0.0:
        for index in range(OPINIONS):
            trusts[index] -= doubts[index, COMMON] / doubts[COMMON, COMMON] * beyond
    for index in range(OPINIONS):
        trusts[index] = min(MOST_TRUST, max(least_common if index == COMMON else 0.0, trusts[index]))


def find_movers(
    space: AutoSparseArrays, feedback: Vector, label: int, right: bool, reward: float, concerned: int, noise: float
) -> int:
    """Write which classes move and by how much, the label first, towards its reward; return their number.

    If the feedback concerns two classes, the other one moves towards 1 minus the reward. If it concerns several and
    the label was right, those that score above a level are lowered to it. These keep their variances: a class that
    only learns what it is not must still be tried, or it would never be seen again.
    """
    facts, values, level, movers = space.facts, space.class_values, min(0.5, 2.0 / concerned), 1
    for head in range(space.heads):
        if feedback[head] == ABOUT:
            place, residual, amount = movers, 0.0, 0.0
            if head == label:
                place, residual, amount = 0, one_sided_residual(values[SCORE, head], reward), 1.0
                facts[RESIDUALS] += min(1.0, residual * residual)
                facts[ROUNDS] += 1.0
            elif concerned == 2:
                residual, amount = one_sided_residual(values[SCORE, head], 1.0 - reward), 1.0
            elif right:
                residual = min(0.0, level - values[SCORE, head])
            if amount > 0.0 or residual < 0.0:
                constant, change = space.constants[head], residual / (1.0 + values[VARIANCE, head])
                space.moving[place], space.sums[place] = head, change
                constant[WEIGHT] += change * CONSTANT / (noise + constant[EVIDENCE])
                constant[EVIDENCE] += amount * CONSTANT * CONSTANT
                movers = max(movers, place + 1)
    return movers


def move_classes(
    space: AutoSparseArrays, rows: SparseRows, row: int, movers: int, informed: int, known: int, noise: float
) -> None:
    """Take the steps along the row, and count the row, also for the class known to be right.

    The first `informed` of the moving classes gain evidence. Everything is done in one pass over the row, since most
    of the time is spent waiting for its cells.
    """
    facts, kind, stride, start = space.facts, space.weights.dtype.type, space.stride, rows.starts[row]
    facts[LENGTHS] += space.row[LENGTH]
    facts[ROWS] += 1.0
    if known >= 0:
        space.counts[known] += space.row[LENGTH]
    prior, factor, unit = kind(noise), kind(space.row[FACTOR]), kind(1)
    usual, scaling = kind(facts[ROWS] / BACKGROUND), kind(1.0 / space.row[SCALE])
    for entry in range(rows.starts[row + 1] - start):
        size = space.sizes[entry]
        if size > 0.0:
            cell, feature = space.weights[rows.columns[start + entry]], space.features[rows.columns[start + entry]]
            value = size * factor if rows.values[start + entry] >= 0.0 else -size * factor
            for place in range(movers):
                head = space.moving[place]
                cell[head] += space.sums[place] * value / (prior + cell[stride + head])
            for place in range(informed):
                cell[stride + space.moving[place]] += value * value
            feature[SEEN] += unit
            share = unit / feature[SEEN]
            feature[SIZE] += (abs(rows.values[start + entry]) * scaling - feature[SIZE]) * share
            if known >= 0:
                more = cell[3 * stride + known] + size * usual * share
                cell[3 * stride + known] = more
                cell[2 * stride + known] = math.log(unit + more)


def forget_all(space: AutoSparseArrays) -> None:
    """Restart from scratch, but keep what is known of features and of the background."""
    for feature in range(space.weights.shape[0]):
        for index in range(space.weights.shape[1]):
            space.weights[feature, index] = 0.0
    for head in range(space.heads):
        space.counts[head] = 0.0
        space.constants[head, WEIGHT] = 0.0
        space.constants[head, EVIDENCE] = 0.0
    reset_trusts(space)


def one_sided_residual(score: float, reward: float) -> float:
    """Return the reward minus the score; 0 if the score lies beyond a reward of 1 or 0."""
    residual = reward - score
    if reward == 1.0:
        residual = max(0.0, residual)
    elif reward == 0.0:
        residual = min(0.0, residual)
    return float(residual)
