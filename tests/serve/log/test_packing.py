"""Numbers in fewer bytes: every bit comes back, and what is damaged is no number."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from onebit.serve.log.sqlite.packing import SHORTEST, packed_few, packed_numbers, unpacked, unpacked_all

decimals = some.builds(lambda whole, places: whole / 10**places, some.integers(-(10**12), 10**12), some.integers(0, 9))
floats = some.floats(allow_nan=True, allow_infinity=True)
singles = some.floats(width=32)
rows = some.lists(
    some.one_of(decimals, floats, singles, some.just(-0.0), some.integers(-130, 130).map(float)), max_size=40
)


def stored(numbers: list[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


def back(plain: bytes, packed: bytes | None) -> bytes | None:
    return plain if packed is None else unpacked(packed)


@settings(max_examples=300, deadline=None)
@given(
    some.lists(
        some.one_of(rows.map(stored), some.lists(decimals, min_size=4).map(stored), some.binary(max_size=80)),
        max_size=8,
    )
)
def test_every_bit_comes_back(plain: list[bytes]) -> None:
    """Whatever it is: numbers, texts, together or alone."""
    together = packed_numbers(plain)
    assert [back(one, packed) for one, packed in zip(plain, together, strict=True)] == plain
    assert together == [packed_numbers([one])[0] for one in plain]
    there = [one for one in together if one is not None]
    assert unpacked_all(there) == [unpacked(one) for one in there]
    assert all(packed is None or len(packed) < len(one) for one, packed in zip(plain, together, strict=True))


@settings(max_examples=300, deadline=None)
@given(
    some.lists(some.sampled_from([0.1, 0.005, -0.0, 0.0, float("nan"), 0.7]), max_size=60).map(stored)
    | some.binary(max_size=80)
)
def test_few_different_numbers_come_back(plain: bytes) -> None:
    (packed,) = packed_few([plain])
    assert back(plain, packed) == plain
    assert packed_few([plain] * 5) == [packed] * 5  # many together, in NumPy, or one alone


@pytest.mark.parametrize(
    ("numbers", "size"),
    [
        ([16.0, 0.0, 3.0, 7.0] * 16, 6 + 40),  # the pixels of a digit: five bits
        ([0.125, -1.734, 2.5, 0.001] * 16, 6 + 104),  # three places: thirteen bits
        ([-0.0, 1.5, 2.0, 3.0] * 16, 2 + 64),
        ([123456.789, 0.5, 1.0, 2.0] * 16, 6 + 216),
        ([1.0, 2.0, 4.0, 3.0], 2 + 4),  # so short that bytes are shorter
        (np.random.default_rng(1).normal(size=64).astype(np.float32).tolist(), 1 + 256),
        (np.random.default_rng(1).normal(size=64).tolist(), None),
        ([1.0, 2.0, 3.0], None),  # too short to be worth it
        ([1e300] * 8, None),
        ([float("nan")] + [1.0] * 7, 1 + 32),
    ],
)
def test_how_many_bytes(numbers: list[float], size: int | None) -> None:
    (packed,) = packed_numbers([stored(numbers)])
    assert (None if packed is None else len(packed)) == size


def test_what_json_says_is_a_decimal() -> None:
    """The numbers that a program reads from JSON are those that are packed."""
    chance = np.random.default_rng(2)
    for places in range(7):
        texts = [f"{one:.{places}f}" for one in chance.normal(scale=50.0, size=64)]
        (packed,) = packed_numbers([stored([float(number) for number in json.loads(f"[{', '.join(texts)}]")])])
        assert packed is not None
        assert (packed[0] - 128) // 8 <= places


def test_probabilities_of_one_class_and_the_rest() -> None:
    probabilities = np.full(10, 0.1 / 10)
    probabilities[3] += 0.9
    (packed,) = packed_few([probabilities.tobytes()])
    assert packed is not None
    assert len(packed) == 21
    assert packed_few([np.random.default_rng(1).dirichlet(np.ones(10)).tobytes(), b"\0" * (SHORTEST - 8)]) == [
        None,
        None,
    ]


@pytest.mark.parametrize(
    "packed",
    [
        "00022d01f6ff0900a00f",  # tenths in two bytes, as version 4 wrote them
        "2000000c400000c03f",  # single precision
        "40020a0000007b14ae47e17a843f1f85eb51b81eed3f0800",  # one of ten classes, and the rest
    ],
)
def test_what_older_versions_packed_is_read(packed: str) -> None:
    found = unpacked(bytes.fromhex(packed))
    expected = {
        0: [301.0, -10.0, 9.0, 4000.0],
        0x20: [2.1875, 1.5],
        0x40: [0.01] * 3 + [0.91] + [0.01] * 6,
    }[bytes.fromhex(packed)[0]]
    assert found == stored(expected)


@settings(max_examples=300, deadline=None)
@given(some.binary(max_size=60))
def test_damage_is_no_error(content: bytes) -> None:
    """Whoever reads it finds that it is nothing, or other numbers."""
    found = unpacked(content)
    assert found is None or len(found) % 8 == 0
