"""Lossless compression of numbers: decimals as integers, single precision, and deflated probabilities.

The first byte is the format: 0 to 6 for integers divided by this power of 10, with the width in bytes in the second byte; SINGLE for float32,
DEFLATED for zlib. A decimal in JSON is the double nearest to k / 10^d, which is what the division gives.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

SHORTEST, SHORTEST_DEFLATED = 32, 128  # bytes: shorter values are not packed
LONGEST = 2**20  # bytes after decompression: more than the probabilities of any decision
SINGLE, DEFLATED = 32, 64
_WHOLE: dict[int, np.dtype[Any]] = {1: np.dtype("<i1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}
_POWERS = [10.0**places for places in range(7)]


@np.errstate(over="ignore", invalid="ignore")  # a text may decode to any numbers
def pack_numbers(stored: bytes) -> bytes | None:
    """Pack an encoded list of doubles into fewer bytes; return None if that is not possible without loss.

    Also None if `stored` is too short, or is not such a list.
    """
    if len(stored) < SHORTEST or len(stored) % 8:
        return None
    numbers = np.frombuffer(stored, "<f8")
    largest = float(max(numbers.max(), -numbers.min()))
    # If the largest is no decimal of this many places, the others need no check.
    for places, power in enumerate(_POWERS if largest < 2**31 else ()):
        whole = round(largest * power)
        if whole / power == largest and whole < 2**31:
            width = 1 if whole < 2**7 else 2 if whole < 2**15 else 4
            packed = bytes((places, width)) + np.rint(numbers * power).astype(_WHOLE[width]).tobytes()
            if unpack(packed) == stored:
                return packed
    packed = bytes((SINGLE,)) + numbers.astype("<f4").tobytes()
    return packed if unpack(packed) == stored else None


def pack_probabilities(stored: bytes) -> bytes | None:
    """Compress encoded probabilities, many of which may be equal; return None if that saves nothing."""
    packed = bytes((DEFLATED,)) + zlib.compress(stored, 1) if len(stored) >= SHORTEST_DEFLATED else stored
    return packed if len(packed) < len(stored) else None


def unpack(packed: bytes) -> bytes | None:
    """Return the encoded numbers that were packed; None if the bytes are damaged."""
    try:
        if packed[0] == DEFLATED:
            inflater = zlib.decompressobj()
            plain = inflater.decompress(packed[1:], LONGEST)
            return plain if inflater.eof and not inflater.unused_data else None
        if packed[0] == SINGLE:
            return np.frombuffer(packed, "<f4", offset=1).astype("<f8").tobytes()
        return (np.frombuffer(packed, _WHOLE[packed[1]], offset=2) / _POWERS[packed[0]]).tobytes()
    except (LookupError, ValueError, zlib.error):
        return None
