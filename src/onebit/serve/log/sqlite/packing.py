"""Numbers in fewer bytes, and every bit of them back.

Most numbers that people send are decimals with a few places, small whole numbers, or single precision in JSON: eight bytes each say little. And
probabilities are mostly few different numbers. What is packed here says in its first byte how:

    0 .. 6      whole numbers of one, two or four bytes (the second byte says which), divided by 10 to this power; the lowest of them is -0.0
    32          single precision
    64          a few different numbers, and for each place which of them

A number that a decimal in JSON stands for is the double next to k / 10^d, and division of whole numbers gives just that one. Whether all bits come
back is looked at before anything is packed so, and what cannot be packed stays as it was.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_PLACES = 6  # of a decimal
SHORTEST = 32  # bytes: what is shorter stays as it is
MOST_BYTES = 2**20  # of what is looked at together
SINGLE, FEW = 32, 64
MOST_DIFFERENT = 16
_FIRST = struct.Struct("<d")
_POWERS = [10**places for places in range(MOST_PLACES + 1)]
_DOUBLE, _SINGLE = np.dtype("<f8"), np.dtype("<f4")
_WHOLE: dict[int, np.dtype[Any]] = {1: np.dtype("<i1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}
_NEGATIVE_ZERO = np.float64(-0.0).view(np.int64)
_LARGEST = {width: 2 ** (8 * width - 1) - 1 for width in _WHOLE}


def packed_numbers(stored: Sequence[bytes]) -> list[bytes | None]:
    """Lists of doubles in fewer bytes; None for one that stays as it is, as does whatever is no list of doubles."""
    found: list[bytes | None] = [None] * len(stored)
    by_length: dict[int, list[int]] = {}
    for index, one in enumerate(stored):
        if len(one) >= SHORTEST and len(one) % 8 == 0 and _may_fit(one):
            by_length.setdefault(len(one), []).append(index)
    for length, all_indices in by_length.items():
        step = max(1, MOST_BYTES // length)
        for start in range(0, len(all_indices), step):
            indices = all_indices[start : start + step]
            rows = np.frombuffer(b"".join([stored[index] for index in indices]), dtype=_DOUBLE).reshape(
                len(indices), -1
            )
            for index, packed in zip(indices, _packed_rows(rows), strict=True):
                found[index] = packed
    return found


def _may_fit(stored: bytes) -> bool:
    """Whether the first number is a short decimal or of single precision: where it is neither, all are looked at in vain."""
    (first,) = _FIRST.unpack_from(stored)
    if not abs(first) < 2.0**33:  # which the others decide
        return True
    return bool(round(first * _POWERS[-1]) / _POWERS[-1] == first or float(np.float32(first)) == first)


def packed_few(stored: bytes) -> bytes | None:
    """Doubles of which few are different, in fewer bytes; None where they are not."""
    if len(stored) < SHORTEST or len(stored) % 8:
        return None
    cells = [stored[start : start + 8] for start in range(0, len(stored), 8)]
    places = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
    if len(places) > min(MOST_DIFFERENT, len(cells) // 2):
        return None
    width = max(1, (len(places) - 1).bit_length())
    total = 0
    for cell in reversed(cells):
        total = total << width | places[cell]
    indices = total.to_bytes(-(-len(cells) * width // 8), "little")
    return b"".join((bytes((FEW, len(places))), len(cells).to_bytes(4, "little"), *places, indices))


def unpacked(content: bytes) -> bytes | None:
    """The bytes that were packed; None where nothing was packed so: the disk has changed it."""
    kind = content[0] if content else 255
    try:
        if kind <= MOST_PLACES:
            whole = np.frombuffer(content, dtype=_WHOLE[content[1]], offset=2)
            numbers = whole.astype(_DOUBLE) / _POWERS[kind]
            lowest = -_LARGEST[content[1]] - 1
            if whole.min() == lowest:
                numbers[whole == lowest] = -0.0
            return bytes(numbers.tobytes())
        if kind == SINGLE:
            return np.frombuffer(content, dtype=_SINGLE, offset=1).astype(_DOUBLE).tobytes()
        if kind == FEW:
            return _unpacked_few(content)
    except (LookupError, ValueError):
        return None
    return None


def _packed_rows(rows: NDArray[np.float64]) -> list[bytes | None]:
    found: list[bytes | None] = [None] * len(rows)
    bits = rows.view(np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.rint(rows * _POWERS[-1])
        largest = np.abs(scaled).max(axis=1)
        fits = largest < 2.0**53  # NaN does not
        if not fits.all():
            scaled[~fits] = 0.0
        zeros = bits == _NEGATIVE_ZERO
        exact = fits & (((scaled / _POWERS[-1]).view(np.int64) == bits) | zeros).all(axis=1)
        if not exact.all():
            single = rows.astype(_SINGLE)
            as_single = ~exact & (single.astype(_DOUBLE).view(np.int64) == bits).all(axis=1)
            for index in np.flatnonzero(as_single).tolist():
                found[index] = bytes((SINGLE,)) + single[index].tobytes()
    if exact.any():
        whole = scaled.astype(np.int64)
        steps = np.gcd(np.gcd.reduce(whole, axis=1), _POWERS[-1]).tolist()
        forms: dict[tuple[int, int], list[int]] = {}
        for index in np.flatnonzero(exact).tolist():
            places = next(places for places, power in enumerate(reversed(_POWERS)) if steps[index] % power == 0)
            top = int(largest[index]) // _POWERS[MOST_PLACES - places]
            width = next((width for width, most in _LARGEST.items() if top <= most), None)
            if width is not None:
                forms.setdefault((places, width), []).append(index)
        for (places, width), indices in forms.items():
            content = (whole[indices] // _POWERS[MOST_PLACES - places]).astype(_WHOLE[width])
            content[zeros[indices]] = -_LARGEST[width] - 1
            head = bytes((places, width))
            for index, row in zip(indices, content, strict=True):
                found[index] = head + row.tobytes()
    return found


def _unpacked_few(content: bytes) -> bytes | None:
    different, count = content[1], int.from_bytes(content[2:6], "little")
    values = [content[start : start + 8] for start in range(6, 6 + 8 * different, 8)]
    width = max(1, (different - 1).bit_length())
    indices = content[6 + 8 * different :]
    if len(indices) != -(-count * width // 8):
        return None
    total, mask = int.from_bytes(indices, "little"), (1 << width) - 1
    return b"".join([values[total >> place & mask] for place in range(0, count * width, width)])
