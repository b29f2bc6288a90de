"""Rows of a cube drawn by machine code are those that NumPy draws, bit for bit, wherever one takes over from the other."""

from __future__ import annotations

import numpy as np
import pytest

from onebit.data import cubes as module
from onebit.data.cubes import cubes
from onebit.data.pcg64 import cube_entry, state_of


def drawn(generator: np.random.Generator, sizes: list[int]) -> tuple[bytes, bytes]:
    pieces = list(cubes(iter(sizes), generator))
    return b"".join(x.tobytes() for x, _ in pieces), b"".join(lowest.tobytes() for _, lowest in pieces)


@pytest.mark.parametrize("taken_over", [0, 300, 10_000])
def test_the_bits_are_numpys(taken_over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_drawn", [0])
    monkeypatch.setattr(module, "WORTH_COMPILING", 1 << 60)
    wanted = drawn(np.random.default_rng([10, 3]), [500])
    monkeypatch.setattr(module, "_drawn", [0])
    monkeypatch.setattr(module, "WORTH_COMPILING", taken_over)
    assert drawn(np.random.default_rng([10, 3]), [1, 3, 96, 0, 400]) == wanted


def test_of_groups_that_sum_alike_the_first_is_the_lowest() -> None:
    """A state of 0 to which nothing is added gives zeros for ever."""
    x, lowest = np.ones((2, 100), dtype=np.float32), np.ones(2, dtype=np.int64)
    words = np.ones(50, dtype=np.uint64)
    cube_entry()(np.zeros(4, dtype=np.uint64), words, words.view(np.uint32), np.ones(10, dtype=np.int32), x, lowest)
    assert (x == -1.0).all()
    assert lowest.tolist() == [0, 0]


@pytest.mark.parametrize("bits", [np.random.Philox(1), np.random.PCG64DXSM(1)], ids=["Philox", "PCG64DXSM"])
def test_other_generators_are_left_to_numpy(bits: np.random.BitGenerator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH_COMPILING", 0)
    generator = np.random.Generator(bits)
    assert state_of(generator) is None
    (x, _), *_ = cubes(iter([2]), generator)
    assert x.shape == (2, 100)


def test_a_generator_with_half_a_word_left_is_left_to_numpy() -> None:
    generator = np.random.default_rng(0)
    generator.random(1, dtype=np.float32)
    assert state_of(generator) is None
