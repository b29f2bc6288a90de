"""A change detector for streams: it reports when mistakes increase so much that restarting pays off.

It sees only whether answers were right. The error that the learner is used to, `usual`, is the upper bound of its
error in the last bucket of rounds; buckets double in length, so `usual` falls as the learner improves. Page's sum
counts the mistakes in excess of a level slightly above that (Page 1954). A change is detected when this sum is

    so large that by chance it comes once in e^16 rounds,
    more than a class that arrives costs (10 + 2K mistakes), and
    more than a quarter of what learning has cost since the last restart.

The last condition is that of a ski rental: a restart costs about as much as learning did, so a false alarm cannot be
ruinous.
"""

from __future__ import annotations

import math

from onebit.contract.rule import Vector

# Positions in the detector's part of the memory.
ROUNDS, MISTAKES, BUCKET, BUCKET_MISTAKES, BUCKET_LENGTH, USUAL, SUM = 0, 1, 2, 3, 4, 5, 6
STATE_SIZE = 7

FIRST_BUCKET = 100.0
SENSITIVITY = 0.125  # how far the level of Page's sum lies from the usual error towards chance
RARITY = 16.0  # logarithm of the rounds between false alarms
COST_SHARE = 0.25  # share of what learning has cost


def initial_state(classes: int) -> tuple[float, ...]:
    """Return the initial memory of a detector."""
    return 0.0, 0.0, 0.0, 0.0, FIRST_BUCKET, 1.0 - 1.0 / classes, 0.0


def reset_detector(memory: Vector, begin: int, classes: int) -> None:
    """Reset the detector to its initial memory."""
    for index in range(STATE_SIZE):
        memory[begin + index] = 0.0
    memory[begin + BUCKET_LENGTH] = FIRST_BUCKET
    memory[begin + USUAL] = 1.0 - 1.0 / classes


def detect_change(memory: Vector, begin: int, classes: int, wrong: bool) -> bool:
    """Add one answer; return True if it reveals a change, and then reset the detector."""
    chance, mistake = 1.0 - 1.0 / classes, 1.0 if wrong else 0.0
    memory[begin + ROUNDS] += 1.0
    memory[begin + MISTAKES] += mistake
    memory[begin + BUCKET] += 1.0
    memory[begin + BUCKET_MISTAKES] += mistake
    rounds = memory[begin + ROUNDS]
    if memory[begin + BUCKET] >= memory[begin + BUCKET_LENGTH]:
        length = memory[begin + BUCKET]
        share = (memory[begin + BUCKET_MISTAKES] + 1.0) / (length + 2.0)
        memory[begin + USUAL] = min(chance, share + 2.0 * math.sqrt(share * (1.0 - share) / length))
        memory[begin + BUCKET_LENGTH] = max(FIRST_BUCKET, rounds)
        memory[begin + BUCKET] = 0.0
        memory[begin + BUCKET_MISTAKES] = 0.0
    usual = memory[begin + USUAL]
    if usual >= chance:
        return False
    level = usual + SENSITIVITY * (chance - usual)
    excess = max(0.0, memory[begin + SUM] + mistake - level)
    memory[begin + SUM] = excess
    rare = RARITY / math.log(level * (1.0 - usual) / (usual * (1.0 - level)))
    paid = memory[begin + MISTAKES] - excess - usual * rounds
    if excess <= max(rare, 10.0 + 2.0 * classes, COST_SHARE * paid):
        return False
    reset_detector(memory, begin, classes)
    return True
