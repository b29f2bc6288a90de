"""Numbers in fewer bytes, and every bit of them back.

Most numbers that people send are decimals with a few places, small whole numbers, or single precision in JSON: eight bytes each say little. And
probabilities are mostly few different numbers. What is packed here says in its first byte how:

    0 .. 6      whole numbers of one, two or four bytes (the second byte says which), divided by 10 to this power; the lowest of them is -0.0
    32          single precision
    64, 65      a few different numbers, and for each place which of them; there are so many places as the next four bytes say, or the next one
    128 .. 183  whole numbers of so many bits as the second byte says, above a lowest one in four bytes, divided by a power of 10; from 128 on
                the power goes in steps of eight, and what is beyond such a step is how many bits of the last byte mean nothing

A number that a decimal in JSON stands for is the double next to k / 10^d, and division of whole numbers gives just that one. Whether all bits come
back is looked at before anything is packed so, and what cannot be packed stays as it was. Rows are packed and unpacked many at a time, in NumPy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_PLACES = 6  # of a decimal
SHORTEST = 32  # bytes: what is shorter stays as it is
MOST_BYTES = 2**20  # of what is looked at together
SINGLE, FEW, FEW_OF_SOME, BITS = 32, 64, 65, 128
MOST_DIFFERENT = 16
LARGEST = 2.0**33  # of a decimal, so that a millionth of it is not less than what a double can tell apart
TOGETHER = 4  # rows from which on NumPy is faster
LONGEST_ALONE = 2048  # bytes
MOST_BITS = 32
_FIRST, _ONE_SINGLE = struct.Struct("<d"), struct.Struct("<f")
_POWERS = [10**places for places in range(MOST_PLACES + 1)]
_DOUBLE, _SINGLE, _LOWEST = np.dtype("<f8"), np.dtype("<f4"), np.dtype("<i4")
_WHOLE: dict[int, np.dtype[Any]] = {1: np.dtype("<i1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}
_NEGATIVE_ZERO = np.float64(-0.0).view(np.int64)
_NEGATIVE_ZERO_BYTES = struct.pack("<d", -0.0)
_LARGEST = {width: 2 ** (8 * width - 1) - 1 for width in _WHOLE}
_HEAD = {FEW: 6, FEW_OF_SOME: 3}  # bytes that say how the rest is to be read; of all others two
Bytes = NDArray[np.uint8]


# --- packing -----------------------------------------------------------------------------------------------------------


def packed_numbers(stored: Sequence[bytes]) -> list[bytes | None]:
    """Lists of doubles in fewer bytes; None for one that stays as it is, as does whatever is no list of doubles."""
    if _are_few(stored):
        return [_packed_alone(one) or _packed([one], _packed_rows)[0] if _may_fit(one) else None for one in stored]
    return _packed([one if _may_fit(one) else b"" for one in stored], _packed_rows)


def packed_few(stored: Sequence[bytes]) -> list[bytes | None]:
    """Lists of doubles of which few are different, in fewer bytes; None for one in which they are not."""
    if _are_few(stored):
        return [_few_alone(one) for one in stored]
    return _packed(stored, _packed_few_rows)


def _are_few(stored: Sequence[bytes]) -> bool:
    """Whether these are packed one by one."""
    return len(stored) < TOGETHER and max(map(len, stored), default=0) <= LONGEST_ALONE


def _packed_alone(stored: bytes) -> bytes | None:
    """What `_packed_rows` makes of one row of decimals that are kept in bits: to call NumPy takes longer than its few numbers do."""
    count = len(stored) // 8
    row: Sequence[float] = memoryview(stored).cast("d").tolist()
    for places, power in enumerate(_POWERS):
        try:
            if round(row[0] * power) / power != row[0]:  # as of most that are no decimals of so many places
                continue
            whole: list[int] = [round(one * power) for one in row]
        except (ValueError, OverflowError):  # NaN, or infinite
            return None
        if [one / power for one in whole] != row:
            continue
        low, high = min(whole), max(whole)
        form = _form(low, high, _NEGATIVE_ZERO_BYTES in stored, count)
        if form < BITS or not -LARGEST * power < low <= high < LARGEST * power:
            return None
        bits, total = form - BITS, 0
        for one in whole:
            total = total << bits | one - low
        total <<= -count * bits % 8
        lowest = low.to_bytes(4, "little", signed=True)
        return _bits_head(places, bits, count) + lowest + total.to_bytes(-(-count * bits // 8), "big")
    return None


@lru_cache(maxsize=256)  # rules that explore evenly have one such row for each class
def _few_alone(stored: bytes) -> bytes | None:
    """What `_packed_few_rows` makes of one row."""
    if len(stored) < SHORTEST or len(stored) % 8:
        return None
    cells = memoryview(stored).cast("q").tolist()
    values = sorted(set(cells))
    if len(values) > min(MOST_DIFFERENT, len(cells) // 2):
        return None
    places, width, total = {value: place for place, value in enumerate(values)}, _width_of(len(values)), 0
    for cell in reversed(cells):
        total = total << width | places[cell]
    indices = total.to_bytes(-(-len(cells) * width // 8), "little")
    return _few_head(len(values), len(cells)) + struct.pack(f"<{len(values)}q", *values) + indices


def _packed(stored: Sequence[bytes], pack: Callable[[NDArray[np.float64]], list[bytes | None]]) -> list[bytes | None]:
    """What is made of lists of doubles, those of one length together."""
    found: list[bytes | None] = [None] * len(stored)
    by_length: dict[int, list[int]] = {}
    for index, one in enumerate(stored):
        if len(one) >= SHORTEST and len(one) % 8 == 0:
            by_length.setdefault(len(one), []).append(index)
    for length, every in by_length.items():
        step = max(1, MOST_BYTES // length)
        for indices in (every[start : start + step] for start in range(0, len(every), step)):
            rows = np.frombuffer(b"".join([stored[index] for index in indices]), dtype=_DOUBLE)
            for index, packed in zip(indices, pack(rows.reshape(len(indices), -1)), strict=True):
                found[index] = packed
    return found


def _may_fit(stored: bytes) -> bool:
    """Whether these may be doubles, the first of them a short decimal or of single precision: where it is neither, all are looked at in vain."""
    if len(stored) < SHORTEST or len(stored) % 8:
        return False
    (first,) = _FIRST.unpack_from(stored)
    if not abs(first) < LARGEST:  # which the others decide
        return True
    return bool(
        round(first * _POWERS[-1]) / _POWERS[-1] == first or _ONE_SINGLE.unpack(_ONE_SINGLE.pack(first)) == (first,)
    )


def _packed_rows(rows: NDArray[np.float64]) -> list[bytes | None]:
    found: list[bytes | None] = [None] * len(rows)
    left, first = np.ones(len(rows), dtype=bool), rows[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        for places, power in enumerate(_POWERS):
            maybe = np.flatnonzero(left & (np.rint(first * power) / power == first))  # which is so of few others
            if not len(maybe):
                continue
            some = rows[maybe]
            scaled = np.rint(some * power)
            exact = (scaled / power == some).all(axis=1) & (np.abs(some).max(axis=1) < LARGEST)  # NaN is neither
            _pack_whole(found, rows, maybe[exact], scaled[exact].astype(np.int64), places)
            left[maybe[exact]] = False
            if not left.any():
                return found
        indices = np.flatnonzero(left)
        single = rows[indices].astype(_SINGLE)
        exact = (single.astype(_DOUBLE).view(np.int64) == rows[indices].view(np.int64)).all(axis=1)
        _put(found, indices[exact], (bytes((SINGLE,)),), single[exact])
    return found


def _pack_whole(
    found: list[bytes | None],
    rows: NDArray[np.float64],
    indices: NDArray[np.int64],
    whole: NDArray[np.int64],
    places: int,
) -> None:
    """Put rows that are whole numbers divided by a power of 10, each in whichever form is shorter."""
    if not len(indices):
        return
    low, high, count = whole.min(axis=1), whole.max(axis=1), whole.shape[1]
    zeros = rows[indices].view(np.int64) == _NEGATIVE_ZERO
    forms = [_form(*one, count) for one in zip(low.tolist(), high.tolist(), zeros.any(axis=1).tolist(), strict=True)]
    for form in set(forms):
        of = np.array([index for index, one in enumerate(forms) if one == form])
        if form > BITS:
            content = np.packbits(_bits_of(whole[of] - low[of, None], form - BITS), axis=1)
            head = _bits_head(places, form - BITS, count)
            _put(found, indices[of], (head, low[of].astype(_LOWEST)), content)
        elif form:
            content = whole[of].astype(_WHOLE[form])
            content[zeros[of]] = -_LARGEST[form] - 1
            _put(found, indices[of], (bytes((places, form)),), content)


def _form(low: int, high: int, has_negative_zero: bool, count: int) -> int:
    """How whole numbers are kept: in so many bytes each; or in so many bits beyond BITS, where that is shorter; 0 where in neither way."""
    top = max(high, -low)
    width = 1 if top <= _LARGEST[1] else 2 if top <= _LARGEST[2] else 4 if top <= _LARGEST[4] else 0
    bits = max(1, (high - low).bit_length())
    fits = bits <= MOST_BITS and -(2**31) <= low < 2**31 and not has_negative_zero
    return BITS + bits if fits and (not width or 6 + -(-count * bits // 8) < 2 + count * width) else width


def _bits_head(places: int, bits: int, count: int) -> bytes:
    return bytes((BITS + 8 * places + -count * bits % 8, bits))


def _packed_few_rows(rows: NDArray[np.float64]) -> list[bytes | None]:
    found: list[bytes | None] = [None] * len(rows)
    bits, count = rows.view(np.int64), rows.shape[1]
    ordered = np.sort(bits, axis=1)
    is_new = np.ones(ordered.shape, dtype=bool)
    is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    different = is_new.sum(axis=1)
    for many in np.unique(different[different <= min(MOST_DIFFERENT, count // 2)]).tolist():
        of = np.flatnonzero(different == many)
        values = ordered[of][is_new[of]].reshape(len(of), many)
        places = (values[:, None, :] < bits[of][:, :, None]).sum(axis=2) if many > 2 else bits[of] > values[:, :1]
        width = _width_of(many)
        flags = np.unpackbits(places.astype(np.uint8)[:, :, None], axis=2, count=width, bitorder="little")
        content = np.packbits(flags.reshape(len(of), -1), axis=1, bitorder="little")
        _put(found, of, (_few_head(many, count), values), content)
    return found


def _few_head(different: int, count: int) -> bytes:
    if count < 256:
        return bytes((FEW_OF_SOME, different, count))
    return bytes((FEW, different)) + count.to_bytes(4, "little")


def _width_of(different: int) -> int:
    """How many bits say which of so many it is."""
    return max(1, (different - 1).bit_length())


def _bits_of(whole: NDArray[np.int64], width: int) -> Bytes:
    """Rows of whole numbers as rows of so many bits each, the highest first."""
    size = 1 if width <= 8 else 2 if width <= 16 else 4
    flags = np.unpackbits(whole.astype(f">u{size}").view(np.uint8).reshape(-1))  # of all at once, which is faster
    return flags.reshape(*whole.shape, 8 * size)[:, :, 8 * size - width :].reshape(len(whole), -1)


def _put(
    found: list[bytes | None], indices: NDArray[np.int64], heads: Sequence[bytes | NDArray[Any]], content: NDArray[Any]
) -> None:
    """Put rows of one length in their places: what is the same of all, then what each of them has."""
    count = len(indices)
    if not count:
        return
    columns = [
        np.broadcast_to(np.frombuffer(one, np.uint8), (count, len(one)))
        if isinstance(one, bytes)
        else np.ascontiguousarray(one).view(np.uint8).reshape(count, -1)
        for one in (*heads, content)
    ]
    for index, row in zip(indices.tolist(), _cut(np.concatenate(columns, axis=1), count), strict=True):
        found[index] = row


def _cut(rows: NDArray[Any], count: int) -> Iterator[bytes]:
    """The bytes of each of so many rows."""
    content = rows.tobytes()
    width = len(content) // count
    return (content[start : start + width] for start in range(0, len(content), width))


# --- unpacking ---------------------------------------------------------------------------------------------------------


def unpacked(content: bytes) -> bytes | None:
    """The bytes that were packed; None where nothing was packed so: the disk has changed it."""
    return unpacked_all([content])[0]


def unpacked_all(contents: Sequence[bytes]) -> list[bytes | None]:
    """The bytes that were packed, of many."""
    found: list[bytes | None] = [None] * len(contents)
    by_form: dict[tuple[bytes, int], list[int]] = {}
    for index, one in enumerate(contents):
        if one:
            by_form.setdefault((one[: _HEAD.get(one[0], 2)], len(one)), []).append(index)
    for (head, _), indices in by_form.items():
        rows = np.frombuffer(b"".join([contents[index] for index in indices]), np.uint8).reshape(len(indices), -1)
        numbers = _read(head, rows[:, len(head) if head[0] != SINGLE else 1 :])
        if numbers is not None and numbers.size:
            for index, plain in zip(indices, _cut(numbers, len(indices)), strict=True):
                found[index] = plain
    return found


def _read(head: bytes, content: Bytes) -> NDArray[Any] | None:
    """Rows of doubles, or of their bits, of rows that begin with the same head; None where they cannot be that."""
    try:
        if head[0] <= MOST_PLACES:
            whole = np.ascontiguousarray(content).view(_WHOLE[head[1]])
            numbers: NDArray[Any] = whole / _POWERS[head[0]]
            numbers[whole == -_LARGEST[head[1]] - 1] = -0.0
            return numbers
        if head[0] == SINGLE:
            return np.ascontiguousarray(content).view(_SINGLE).astype(_DOUBLE)
        if head[0] in _HEAD:
            return _read_few(head[1], int.from_bytes(head[2:], "little"), content)
        if BITS <= head[0] < BITS + 8 * (MOST_PLACES + 1):
            return _read_bits(*divmod(head[0] - BITS, 8), head[1], content)
    except (LookupError, ValueError):
        pass
    return None


def _read_few(different: int, count: int, content: Bytes) -> NDArray[Any] | None:
    values = np.ascontiguousarray(content[:, : 8 * different]).view(np.int64)
    indices, width = content[:, 8 * different :], _width_of(different)
    if indices.shape[1] != -(-count * width // 8) or not count:
        return None
    flags = np.unpackbits(indices, axis=1, count=count * width, bitorder="little").reshape(len(content), count, width)
    places = flags[:, :, 0] if width == 1 else np.packbits(flags, axis=2, bitorder="little")[:, :, 0]
    return np.take_along_axis(values, places.astype(np.intp), axis=1)


def _read_bits(power: int, spare: int, width: int, content: Bytes) -> NDArray[Any] | None:
    count = (8 * (content.shape[1] - 4) - spare) // width if 1 <= width <= MOST_BITS else 0
    if count < 1:
        return None
    flags = np.unpackbits(content[:, 4:], axis=1, count=count * width).reshape(len(content), count, width)
    size = 1 if width <= 8 else 2 if width <= 16 else 4
    octets = np.zeros((len(content), count, 8 * size), np.uint8)
    octets[:, :, 8 * size - width :] = flags
    whole = np.packbits(octets.reshape(-1)).view(f">u{size}").reshape(len(content), count).astype(np.int64)
    numbers: NDArray[Any] = (whole + np.ascontiguousarray(content[:, :4]).view(_LOWEST)) / _POWERS[power]
    return numbers
