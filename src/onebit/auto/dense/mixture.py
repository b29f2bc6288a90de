"""How the members of `auto` on dense rows are weighted: by Bayes' rule.

The share of a member is proportional to the product of the probabilities that it gave to the feedback; its loss is
minus the logarithm of that, less the smallest loss. Members that have more to learn start with a handicap. A member
that is far behind and not catching up sleeps: it then sees only one row in several, which counts that many times. All
of this changes only in learning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.choices import softmax
from onebit.contract.rule import Vector
from onebit.spaces.layout import LARGEST_FLOAT, ArraySpec, allocate

# The members: first the linear ones, then those with a distribution for each class.
DIRECTED, CENTRED, STANDARDISED, WAVED, COMPONENTS, CORRECTED, CLUSTERS, SHAPED = range(8)
LINEAR = CLUSTERS  # number of linear members
SHAPED_COUNT = 3  # number of sizes of shaped clusters
MEMBERS = SHAPED + SHAPED_COUNT
_BEFORE_SHAPED = ("directed", "centred", "standardised", "waved", "components", "corrected", "clusters")
MEMBER_NAMES = (*_BEFORE_SHAPED, *("shaped",) * SHAPED_COUNT)

HANDICAP = 3.0
LEAST_CHANCE = 0.01  # no member is ruled out by a single answer
RECENT_ROUNDS = 500.0  # rounds that recent averages cover
HOPELESS_LOSS = 15.0  # a member with a loss larger by this has no share
LEAST_SHARE = 1e-3  # share from which on a member's variances count
LARGEST_DEVIATION = 30.0  # a standard deviation above this is as good as infinite

# A member sleeps after SETTLED_IN rounds if its loss is larger by BEHIND, or by FAR_BEHIND while there are many mistakes,
# since others may then still improve; it then skips at most LONGEST_SLEEP - 1 rows in a row. Few means a share below FEW_MISTAKES.
ROUNDS_BEFORE_SLEEP, BEHIND, FAR_BEHIND, FEW_MISTAKES, LONGEST_SLEEP = 1000.0, 20.0, 100.0, 0.3, 16.0
SLOWER_BY = 1.3  # a member sleeps only if its recent loss is also larger by this factor

# Trust in a member's scores when it is weighted: initial trust, its variance, and its least and largest value.
INITIAL_TRUST, INITIAL_DOUBT, LEAST_TRUST, MOST_TRUST = 1.0, 0.1, 0.05, 4.0

ROUNDS, MISTAKES = 0, 1  # facts: rounds learnt, and the recent share of mistakes
ABSENT, PRESENT, BASED = 0, 1, 2  # a member that does not exist, that does, or that sees principal components


class Mixture(NamedTuple):
    """The losses and sleep of the members, and their scores for the row just seen."""

    kinds: NDArray[np.int64]  # ABSENT, PRESENT or BASED
    losses: Vector
    rates: Vector  # recent loss per round
    strides: Vector  # a member acts once in this many rounds
    trusts: Vector  # factor of its scores when it is weighted
    doubts: Vector  # variances of the trusts
    facts: Vector
    awake: NDArray[np.int64]
    shares: Vector
    scores: Vector  # K numbers for each member; likewise beliefs
    beliefs: Vector
    variances: Vector  # of the members that are not linear

    @classmethod
    def empty(cls, heads: int, kinds: Sequence[int]) -> Mixture:
        mixture = cls(**allocate(cls.layout(heads)))
        mixture.kinds[:] = kinds
        forget_mixture(mixture)
        return mixture

    @staticmethod
    def layout(heads: int) -> dict[str, ArraySpec]:
        members = ArraySpec((MEMBERS,), np.float64)
        return {
            "kinds": ArraySpec((MEMBERS,), np.int64, ABSENT, BASED),
            "losses": ArraySpec((MEMBERS,), np.float64, 0.0, LARGEST_FLOAT),
            "rates": members,
            "strides": ArraySpec((MEMBERS,), np.float64, 1.0, LONGEST_SLEEP),
            "trusts": ArraySpec((MEMBERS,), np.float64, LEAST_TRUST, MOST_TRUST),
            "doubts": ArraySpec((MEMBERS,), np.float64, 0.0, INITIAL_DOUBT),
            "facts": ArraySpec((2,), np.float64),
            "awake": ArraySpec((MEMBERS,), np.int64),
            "shares": members,
            **dict.fromkeys(("scores", "beliefs"), ArraySpec((MEMBERS * heads,), np.float64)),
            "variances": ArraySpec(((MEMBERS - LINEAR) * heads,), np.float64),
        }

    def copy_into(self, larger: Mixture) -> Mixture:
        for name in ("losses", "rates", "strides", "trusts", "doubts", "facts"):
            getattr(larger, name)[:] = getattr(self, name)
        return larger


def wake_members(mixture: Mixture, based: bool) -> None:
    """Write which members act in this round; those on a basis act only if there is one."""
    turn = int(mixture.facts[ROUNDS])
    for member in range(MEMBERS):
        place, stride = min(member, SHAPED), int(mixture.strides[member])  # the shaped members wake together
        acts = takes_part(mixture, member, based) and (turn + place) % stride == 0
        mixture.awake[member] = 1 if acts else 0


def takes_part(mixture: Mixture, member: int, based: bool) -> bool:
    """Return True if the member exists, or needs a basis and there is one."""
    return bool(mixture.kinds[member] == PRESENT or (based and mixture.kinds[member] == BASED))


def update_beliefs(mixture: Mixture) -> None:
    """Write the beliefs of each awake member, and its share."""
    heads, least, total = mixture.beliefs.shape[0] // MEMBERS, math.inf, 0.0
    for member in range(MEMBERS):
        mixture.shares[member] = 0.0
        if mixture.awake[member] == 1:
            least = min(least, mixture.losses[member])
    for member in range(MEMBERS):
        gap = mixture.losses[member] - least
        if mixture.awake[member] == 1 and gap < HOPELESS_LOSS:
            mixture.shares[member] = math.exp(-gap)
            total += mixture.shares[member]
    for member in range(MEMBERS):
        if mixture.awake[member] == 1:
            mixture.shares[member] /= total
            begin, end = member * heads, (member + 1) * heads
            softmax(mixture.scores[begin:end], heads, mixture.beliefs[begin:end])


def mix_members(mixture: Mixture, scores: Vector) -> float:
    """Write the shared beliefs and scores of the awake members; return 0, or NaN if one is not finite."""
    heads, flaw = mixture.beliefs.shape[0] // MEMBERS, 0.0
    for head in range(heads):
        scores[head], scores[2 * heads + head] = 0.0, 0.0
    for member in range(MEMBERS):
        if mixture.awake[member] == 0:
            continue
        share, begin, end = mixture.shares[member], member * heads, (member + 1) * heads
        member_scores, beliefs = mixture.scores[begin:end], mixture.beliefs[begin:end]
        for head in range(heads):
            flaw += 0.0 * member_scores[head]  # 0 times a number is 0, 0 times infinity or NaN is NaN
            scores[head] += share * beliefs[head]
            scores[2 * heads + head] += share * member_scores[head]
    return flaw


def raise_chance(chance: float, variance: float) -> float:
    """Return the probability of a class with its score raised by one standard deviation."""
    odds = chance * math.exp(min(LARGEST_DEVIATION, math.sqrt(variance)))
    return odds / (1.0 - chance + odds)


def trusted_chance(mixture: Mixture, member: int, about: Vector, label: int, reward: float) -> float:
    """Return a member's probability of the label with its scores scaled by the trust; update the trust.

    The trust is fitted by a logistic regression of the reward on the label's lead over what was expected of the
    others, with the update of a Kalman filter.
    """
    heads, trust, doubt = about.shape[0], mixture.trusts[member], mixture.doubts[member]
    scores, other_odds, lead = mixture.scores[member * heads : (member + 1) * heads], 0.0, 0.0
    for head in range(heads):
        if head != label and about[head] > 0.0:
            ahead = scores[label] - scores[head]
            odds = math.exp(min(LARGEST_DEVIATION, -trust * ahead))
            other_odds += odds
            lead += odds * ahead
    chance = 1.0 / (1.0 + other_odds)
    if other_odds > 0.0:
        lead /= other_odds
        bend = chance * (1.0 - chance) * lead * doubt
        moved = trust + (reward - chance) * lead * doubt / (1.0 + bend * lead)
        mixture.trusts[member] = min(MOST_TRUST, max(LEAST_TRUST, moved))
        mixture.doubts[member] = min(INITIAL_DOUBT, doubt / (1.0 + bend * lead) * (1.0 + 1.0 / RECENT_ROUNDS))
    return chance


def restrict_beliefs(mixture: Mixture, about: Vector) -> None:
    """Restrict beliefs to the classes that the feedback concerns."""
    heads = about.shape[0]
    for member in range(MEMBERS):
        beliefs, total = mixture.beliefs[member * heads : (member + 1) * heads], 0.0
        for head in range(heads):
            total += beliefs[head] * about[head]
        for head in range(heads):
            beliefs[head] = beliefs[head] * about[head] / total if total > 0.0 else about[head]


def add_loss(mixture: Mixture, member: int, chance: float, reward: float) -> None:
    """Add the loss of a member that gave the label this probability, given the label's reward."""
    loss = 0.0
    if reward > 0.0:
        loss -= reward * math.log(max(LEAST_CHANCE, chance))
    if reward < 1.0:
        loss -= (1.0 - reward) * math.log(max(LEAST_CHANCE, 1.0 - chance))
    stride = mixture.strides[member]
    mixture.losses[member] += loss * stride
    over = min(max(30.0, RECENT_ROUNDS / stride), mixture.facts[ROUNDS] + 1.0)
    mixture.rates[member] += (loss - mixture.rates[member]) / over


def finish_round(mixture: Mixture, right: bool, based: bool, relearns: bool) -> None:
    """Finish a round: subtract the smallest loss, and let members that are far behind sleep.

    Members that wait for a basis have lost nothing yet, but do not count as the best for that. While they relearn on
    a new basis, the other members must stay awake.
    """
    facts, least, leader = mixture.facts, math.inf, 0
    facts[ROUNDS] += 1.0
    facts[MISTAKES] += ((0.0 if right else 1.0) - facts[MISTAKES]) / min(RECENT_ROUNDS, facts[ROUNDS])
    for member in range(MEMBERS):
        if takes_part(mixture, member, based) and mixture.losses[member] < least:
            least, leader = mixture.losses[member], member
    enough = BEHIND if facts[MISTAKES] < FEW_MISTAKES else FAR_BEHIND
    for member in range(MEMBERS):
        if takes_part(mixture, member, based):
            mixture.losses[member] -= least
        gap, slower = mixture.losses[member], mixture.rates[member] > SLOWER_BY * mixture.rates[leader]
        mixture.strides[member] = 1.0
        stands_in = relearns and mixture.kinds[member] == PRESENT
        if facts[ROUNDS] > ROUNDS_BEFORE_SLEEP and gap > enough and slower and not stands_in:
            mixture.strides[member] = min(LONGEST_SLEEP, math.floor(gap / BEHIND))
    together = mixture.strides[CORRECTED] if mixture.kinds[CORRECTED] != ABSENT else LONGEST_SLEEP
    for member in range(SHAPED, MEMBERS):  # they share their factors, and the correcting member needs them
        together = min(together, mixture.strides[member])
    for member in range(SHAPED, MEMBERS):
        mixture.strides[member] = together


def forget_mixture(mixture: Mixture) -> None:
    for member in range(MEMBERS):
        eager = member in (DIRECTED, CENTRED, STANDARDISED, CLUSTERS)
        mixture.losses[member] = 0.0 if eager else HANDICAP
        mixture.rates[member] = 0.0
        mixture.strides[member] = 1.0
        mixture.trusts[member], mixture.doubts[member] = INITIAL_TRUST, INITIAL_DOUBT
    mixture.facts[ROUNDS] = 0.0
    mixture.facts[MISTAKES] = 0.0
