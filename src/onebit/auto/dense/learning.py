"""How the members of `auto` on dense rows learn from feedback, and how they restart."""

from __future__ import annotations

import math

import numpy as np

from onebit.auto import LABEL, REWARD, RIGHT
from onebit.auto.dense.basis import READY, ROWS_KEPT, do_work, forget_basis, keep_row
from onebit.auto.dense.basis import STANDARDISED as BY_DEVIATIONS
from onebit.auto.dense.clusters import add_class_row, divide_variances, forget_clusters, update_shape
from onebit.auto.dense.laplace import learn_linear
from onebit.auto.dense.linear import forget_linear, forget_member, score_linear
from onebit.auto.dense.mixture import (
    BASED,
    CORRECTED,
    HOPELESS_LOSS,
    LINEAR,
    MEMBERS,
    MISTAKES,
    PRESENT,
    ROUNDS,
    SHAPED,
    Mixture,
    add_loss,
    finish_round,
    forget_mixture,
    restrict_beliefs,
    trusted_chance,
)
from onebit.auto.dense.scoring import (
    CORRECTOR_STAYS,
    FIRST_PROGRESS,
    IS_CURRENT,
    RELEARNS,
    REPLAYED,
    SEES_STANDARDISED,
    SQUARED_SLOPES,
    TRUST,
    AutoDenseArrays,
    add_opinion,
    score_on_basis,
    waves_of_columns,
)
from onebit.auto.dense.shaped import clear_shaped, forget_shaped, learn_shaped
from onebit.auto.dense.views import add_to_statistics, watch_scale
from onebit.contract.choices import softmax
from onebit.contract.draws import LEARNING, Draws, seed_key, uniform
from onebit.contract.rule import Vector
from onebit.spaces.dense import DenseRows

TRUST_RATE, MOST_TRUST, MOST_SLOPE = 0.3, 1.5, 2.0
REPLAYED_AT_ONCE = 64
MOST_LEFT_OUT, LEAST_LEFT_OUT = 3e-2, 1e-3  # limits below which changes are left out, larger if there are few mistakes
LEAST_MISTAKES = 1e-3
COARSER_BY = 8.0  # factor of the limit for a member that has no share
ANY_KEY = seed_key(0)  # key of the draws for changes left out, which may be predictable


def absorb(space: AutoDenseArrays, rows: DenseRows, row: int, feedback: Vector, scale: float) -> None:
    """Let every awake member learn from the feedback on the row just scored, and count the row.

    If the scale is 0, everything learnt is forgotten instead.
    """
    mixture, heads = space.mixture, space.everything.shape[0]
    space.latest[IS_CURRENT] = 0.0
    if scale == 0.0:
        forget_all(space)
        return
    about, count = feedback[:heads], 0
    label, right, reward = int(feedback[heads + LABEL]), feedback[heads + RIGHT] == 1.0, feedback[heads + REWARD]
    for head in range(heads):
        count += about[head] > 0.0
    if count < heads:
        restrict_beliefs(mixture, about)
    for member in range(MEMBERS):
        if mixture.awake[member] == 1:
            add_loss(mixture, member, chance_of(mixture, member, about, label, reward), reward)
    known = known_class(about, label, right, count)
    if known >= 0:
        add_class_row(space.clusters, space.scaled_row, known)
        update_shape(space.clusters, space.statistics, known)
    keep_row(space.basis, space.scaled_row, label, right, reward)
    learn_members(space, about, label, right, known, 0)
    finish_round(mixture, right, space.basis.generation[0] > 0, space.progress[RELEARNS] == 1.0)
    if do_work(space.basis) == READY:
        start_on_basis(space)
    for _ in range(REPLAYED_AT_ONCE):
        if space.progress[RELEARNS] == 1.0:
            # Limited to existing rows, since an untrusted file may say more.
            index = max(0, min(int(space.progress[REPLAYED]), space.basis.rows.shape[0] - 1))
            rescore_kept_row(space, index)
            label, right = int(space.basis.heard[index, 0]), space.basis.heard[index, 1] == 1.0
            known = known_class(space.everything, label, right, heads)
            learn_members(space, space.everything, label, right, known, index + 1)
    if add_to_statistics(space.statistics, space.scaled_row):
        divide_variances(space.clusters, space.statistics)
    if watch_scale(space.statistics, rows.values[row]):
        forget_all(space)


def known_class(about: Vector, label: int, right: bool, count: int) -> int:
    """Return the class that is now known to be right, or -1 if it is not known.

    With two classes in question, a wrong answer determines the right one.
    """
    if right:
        return label
    if count == 2:
        for head in range(about.shape[0]):
            if about[head] > 0.0 and head != label:
                return head
    return -1


def learn_members(space: AutoDenseArrays, about: Vector, label: int, right: bool, known: int, number: int) -> None:
    """Let the awake linear members and shaped clusters learn one row.

    Its `number` is 0 for the row of the round, and counts from 1 for the rows kept.
    """
    mixture, heads = space.mixture, space.everything.shape[0]
    mistakes = max(mixture.facts[MISTAKES], LEAST_MISTAKES)
    fine = max(LEAST_LEFT_OUT, min(MOST_LEFT_OUT, LEAST_LEFT_OUT / (mistakes * mistakes)))
    draw = uniform(Draws(ANY_KEY, np.uint64(mixture.facts[ROUNDS]), LEARNING), number)
    for member in range(LINEAR):
        if mixture.awake[member] == 1:
            beliefs = mixture.beliefs[member * heads : (member + 1) * heads]
            left_out = fine if mixture.losses[member] < HOPELESS_LOSS else COARSER_BY * fine
            learn_linear(space.linear, member, beliefs, about, label, right, left_out, draw)
    if mixture.awake[CORRECTED] == 1:
        weigh_opinion(space, label, right)
    if mixture.awake[SHAPED] == 1:
        learn_shaped(space.shaped, space.components, label, right, mixture.beliefs[SHAPED * heads :], known)


def weigh_opinion(space: AutoDenseArrays, label: int, right: bool) -> None:
    """Update the trust in the opinion of the shaped clusters, by the gradient of the likelihood."""
    heads, progress, slope = space.everything.shape[0], space.progress, 0.0
    beliefs = space.mixture.beliefs[CORRECTED * heads : (CORRECTED + 1) * heads]
    for head in range(heads):
        slope += beliefs[head] * (space.opinion[label] - space.opinion[head])
    if not right:
        slope *= -beliefs[label] / max(1e-3, 1.0 - beliefs[label])
    slope = min(MOST_SLOPE, max(-MOST_SLOPE, slope))
    progress[SQUARED_SLOPES] += slope * slope
    progress[TRUST] += TRUST_RATE * slope / math.sqrt(4.0 + progress[SQUARED_SLOPES])
    progress[TRUST] = min(MOST_TRUST, max(0.0, progress[TRUST]))


def start_on_basis(space: AutoDenseArrays) -> None:
    """Let the members on principal components relearn the first rows after the components have changed.

    They relearn a few rows in each round; meanwhile no other member sleeps.
    """
    mixture, progress = space.mixture, space.progress
    first, standard = space.basis.generation[0] == 1, space.basis.facts[BY_DEVIATIONS]
    progress[CORRECTOR_STAYS] = (
        1.0 if waves_of_columns(space) and not first and standard == progress[SEES_STANDARDISED] else 0.0
    )
    progress[SEES_STANDARDISED] = standard
    for member in range(MEMBERS):
        stays = member == CORRECTED and progress[CORRECTOR_STAYS] == 1.0
        if mixture.kinds[member] == BASED and member < LINEAR and not stays:
            forget_member(space.linear, member)
        if mixture.kinds[member] == PRESENT:
            mixture.strides[member] = 1.0
    clear_shaped(space.shaped)
    progress[RELEARNS], progress[REPLAYED] = 1.0, 0.0


def rescore_kept_row(space: AutoDenseArrays, index: int) -> None:
    """Score one of the rows kept again, with the members on principal components; sleeping ones skip some."""
    mixture, heads = space.mixture, space.everything.shape[0]
    for member in range(MEMBERS):
        acts = mixture.kinds[member] == BASED and index % int(mixture.strides[member]) == 0
        mixture.awake[member] = 1 if acts else 0
    if space.progress[CORRECTOR_STAYS] == 1.0:
        mixture.awake[CORRECTED] = 0
    score_on_basis(space, space.basis.rows[index])
    for member in range(MEMBERS):
        begin, end = member * heads, (member + 1) * heads
        if mixture.awake[member] == 1 and member < LINEAR:
            score_linear(space.linear, member, mixture.scores[begin:end])
        if mixture.awake[member] == 1 and member == CORRECTED:
            add_opinion(space)
        if mixture.awake[member] == 1:
            softmax(mixture.scores[begin:end], heads, mixture.beliefs[begin:end])
    space.progress[REPLAYED] += 1.0
    if space.progress[REPLAYED] >= space.basis.facts[ROWS_KEPT]:
        space.progress[RELEARNS] = 0.0


def chance_of(mixture: Mixture, member: int, about: Vector, label: int, reward: float) -> float:
    """Return the probability that a member gave the label; shaped clusters have a trust of their own."""
    if member >= SHAPED:
        return float(mixture.beliefs[member * about.shape[0] + label])
    return trusted_chance(mixture, member, about, label, reward)


def forget_all(space: AutoDenseArrays) -> None:
    """Restart from scratch, but keep the statistics of the columns."""
    space.latest[IS_CURRENT] = 0.0
    forget_linear(space.linear)
    forget_mixture(space.mixture)
    forget_basis(space.basis)
    forget_shaped(space.shaped)
    for index in range(len(FIRST_PROGRESS)):
        if index != SEES_STANDARDISED:  # it belongs to the components in use, which stay
            space.progress[index] = FIRST_PROGRESS[index]
    forget_clusters(space.clusters)
    divide_variances(space.clusters, space.statistics)
