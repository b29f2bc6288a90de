"""Numbers in fewer bytes: every bit comes back, and what is damaged is no number."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from onebit.service.store.sqlite.packing import DEFLATED, LONGEST, pack_numbers, pack_probabilities, unpack

decimals = some.builds(lambda whole, places: whole / 10**places, some.integers(-(10**12), 10**12), some.integers(0, 9))
floats = some.floats(allow_nan=True, allow_infinity=True)
singles = some.floats(width=32)
rows = some.lists(
    some.one_of(decimals, floats, singles, some.just(-0.0), some.integers(-130, 130).map(float)), max_size=40
)


def stored(numbers: list[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


def back(plain: bytes, packed: bytes | None) -> bytes | None:
    return plain if packed is None else unpack(packed)


@settings(max_examples=300, deadline=None)
@given(some.one_of(rows.map(stored), some.lists(decimals, min_size=4).map(stored), some.binary(max_size=80)))
def test_every_bit_comes_back(plain: bytes) -> None:
    """Whatever it is: numbers, or a text."""
    packed = pack_numbers(plain)
    assert back(plain, packed) == plain
    assert packed is None or len(packed) < len(plain)


@settings(max_examples=300, deadline=None)
@given(
    some.lists(some.sampled_from([0.1, 0.005, -0.0, 0.0, float("nan"), 0.7]), max_size=60).map(stored)
    | some.binary(max_size=300)
)
def test_probabilities_come_back(plain: bytes) -> None:
    packed = pack_probabilities(plain)
    assert back(plain, packed) == plain
    assert packed is None or len(packed) < len(plain)


@pytest.mark.parametrize(
    ("numbers", "size"),
    [
        ([16.0, 0.0, 3.0, 7.0] * 16, 2 + 64),  # the pixels of a digit: a byte each
        ([0.125, -1.734, 2.5, 0.001] * 16, 2 + 128),  # three places: two bytes
        ([-0.0, 1.5, 2.0, 3.0] * 16, 1 + 256),  # which no whole number stands for
        ([123456.789, 0.5, 1.0, 2.0] * 16, 2 + 256),
        ([1.0, 2.0, 4.0, 3.0], 2 + 4),
        (np.random.default_rng(1).normal(size=64).astype(np.float32).tolist(), 1 + 256),
        (np.random.default_rng(1).normal(size=64).tolist(), None),
        ([1.0, 2.0, 3.0], None),  # too short to be worth it
        ([1e300] * 8, None),
        ([float("nan")] + [1.0] * 7, 1 + 32),
    ],
)
def test_how_many_bytes(numbers: list[float], size: int | None) -> None:
    packed = pack_numbers(stored(numbers))
    assert (None if packed is None else len(packed)) == size


def test_what_json_says_is_a_decimal() -> None:
    """The numbers that a program reads from JSON are those that are packed."""
    chance = np.random.default_rng(2)
    for places in range(7):
        texts = [f"{one:.{places}f}" for one in chance.normal(scale=50.0, size=64)]
        packed = pack_numbers(stored([float(number) for number in json.loads(f"[{', '.join(texts)}]")]))
        assert packed is not None
        assert packed[0] <= places


def test_probabilities_of_one_class_and_the_rest() -> None:
    probabilities = np.full(1000, 0.1 / 1000)
    probabilities[3] += 0.9
    packed = pack_probabilities(probabilities.tobytes())
    assert packed is not None
    assert len(packed) < 120
    assert pack_probabilities(np.random.default_rng(1).dirichlet(np.ones(10)).tobytes()) is None


def test_no_more_is_inflated_than_a_decision_has() -> None:
    assert unpack(bytes((DEFLATED,)) + zlib.compress(b"\0" * (LONGEST + 8))) is None


@settings(max_examples=300, deadline=None)
@given(some.binary(max_size=60))
def test_damage_is_no_error(content: bytes) -> None:
    """Whoever reads it finds that it is nothing, or other numbers."""
    found = unpack(content)
    assert found is None or len(found) % 8 == 0
