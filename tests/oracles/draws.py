"""The slow twin of the draws: splitmix64 of splitmix64 in whole numbers.

Specification: docs/explanation/design.md#draws-are-functions-not-a-generator.

A learner's seed gives a key. The key and the decision's id give a state, and the state, the stream and the index give the
number, of which the top 53 bits are used.
"""

from __future__ import annotations

from collections.abc import Callable

WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15
STREAM = 2**40


def splitmix(state: int) -> int:
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % WORD
    return state ^ (state >> 31)


def draws(seed: int, identity: int, stream: int) -> Callable[[int], float]:
    """The numbers of one stream of one decision: 0 is deciding, 1 is learning."""
    key = splitmix((seed + GOLDEN) % WORD)
    state = splitmix((key + GOLDEN * identity) % WORD)

    def draw(index: int) -> float:
        return float((splitmix((state + GOLDEN * (stream * STREAM + index + 1)) % WORD) >> 11) / 2**53)

    return draw
