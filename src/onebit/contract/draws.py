"""Random numbers as a function of (seed, decision id, stream, index).

They are the same in any process, in a retry and on a GPU. A rule never draws by itself: it is handed a `Draws` and calls
`uniform(draws, index)`; calling twice gives the same number. The generator is splitmix64 applied to splitmix64, so that
neighbouring ids and indices give unrelated numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# The streams that the engine hands out. A rule sees only the one that it is given.
DECIDING = 0
LEARNING = 1
TEACHING = 2  # the decision that a learner would have made on a labelled row
TAUGHT = 3  # what the learner learns from that decision
FLOORING = 4  # the exploration floor, which rules do not know about
REWARDING = 5  # the bit that stands for a reward between 0 and 1
CORRECTING = 6  # what is learnt from a label revealed after a wrong answer
REVEALING = 7  # whether a label is revealed, in simulated streams

# Indices within the stream of one decision that several rules share.
PLAY = 0  # whether to explore, and which label
TIE = 1  # which of the tied labels to choose
OWN = 2  # the first index that belongs to the rule alone

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_27, _30, _31, _11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
_STREAM = 1 << 40  # with smaller indices, streams never overlap


class Draws(NamedTuple):
    """The source of a rule's random numbers: the learner's key, the decision's id, and the stream."""

    key: np.uint64
    id: np.uint64 | int
    stream: int


def splitmix(state: np.uint64) -> np.uint64:
    """Mix a 64-bit word by the output function of splitmix64 (Steele, Lea and Flood 2014), a bijection."""
    mixed = (state ^ (state >> _30)) * _FIRST
    mixed = (mixed ^ (mixed >> _27)) * _SECOND
    return mixed ^ (mixed >> _31)


def uniform(draws: Draws, index: int) -> float:
    """Return the stream's number at this index, uniform on [0, 1), a multiple of 2^-53."""
    state = splitmix(draws.key + _GOLDEN * draws.id)
    state = splitmix(state + _GOLDEN * np.uint64(draws.stream * _STREAM + index + 1))
    return float(state >> _11) * (1.0 / 9007199254740992.0)


def seed_key(seed: int) -> np.uint64:
    """Return the generator's key for a seed.

    >>> hex(seed_key(0)) != hex(seed_key(1))
    True
    """
    with np.errstate(over="ignore"):
        return splitmix(np.uint64(seed) + _GOLDEN)


def hash_id(identity: int | str) -> int:
    """Return the 64-bit word for an id in the generator: numbers are unchanged, strings are hashed.

    >>> hash_id(7)
    7
    >>> hash_id("ticket-7") == hash_id("ticket-7")
    True
    """
    if isinstance(identity, str):
        return int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest(), "little")
    return identity


def hash_ids(identities: Sequence[int | str]) -> NDArray[np.uint64]:
    """Return the 64-bit words of many ids."""
    if isinstance(identities, range):
        return np.arange(identities.start, identities.stop, identities.step, dtype=np.uint64)
    words = identities if set(map(type, identities)) == {int} else [hash_id(identity) for identity in identities]
    return np.array(words, dtype=np.uint64)
