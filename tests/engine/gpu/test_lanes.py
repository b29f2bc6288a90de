"""The lanes of the tests themselves: exchanges give what they should, and what a device would not forgive is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from onebit.engine.gpu.build import Binding
from tests.engine.gpu.lanes import Lanes, Race, Stuck

cuda: Any = None
ALL = 0xFFFFFFFF


def run(kernel: Callable[..., Any], *arguments: Any, threads: int = 8, seed: int = 0, size: int = 0) -> None:
    lanes = Lanes(seed)
    binding = Binding({__name__: {"cuda": lanes}}, {}, lanes.wrap)
    lanes.launch(lanes.wrap(binding.plain(kernel)), 1, threads, size, arguments)


def exchange(value: Any, offset: int) -> Any:
    return value + cuda.shfl_xor_sync(ALL, value, offset)


def summed(found: Any) -> None:
    total = cuda.threadIdx.x
    offset = 4
    while offset > 0:
        total = exchange(total, offset)
        offset //= 2
    found[cuda.threadIdx.x] = total


def test_exchanges_reach_every_lane() -> None:
    found = np.zeros(8)
    run(summed, found)
    assert found.tolist() == [28.0] * 8


def handed_on(found: Any, waits_before: bool, waits_after: bool) -> None:
    lane = cuda.threadIdx.x
    numbers = cuda.shared.array(8, np.float64)
    numbers[lane] = lane
    if waits_before:
        cuda.syncwarp()
    found[lane] = numbers[(lane + 1) % 8]
    if waits_after:
        cuda.syncwarp()
    numbers[lane] = -1.0


def test_what_was_written_before_a_barrier_is_read_after_it() -> None:
    found = np.zeros(8)
    run(handed_on, found, True, True)
    assert found.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("waits", [(False, True), (True, False)])
def test_a_missing_barrier_is_found_in_every_order(waits: tuple[bool, bool], seed: int) -> None:
    with pytest.raises(Race, match="no barrier between"):
        run(handed_on, np.zeros(8), *waits, seed=seed)


def two_write(found: Any) -> None:
    numbers = cuda.shared.array(1, np.float32)
    numbers[0] = cuda.threadIdx.x


def test_two_lanes_that_write_the_same_place_are_found() -> None:
    with pytest.raises(Race, match="writes over"):
        run(two_write, np.zeros(8))


def exchanged_is_no_barrier(found: Any) -> None:
    numbers = cuda.shared.array(8, np.float32)
    numbers[cuda.threadIdx.x] = 1.0
    cuda.shfl_xor_sync(ALL, 1.0, 1)
    found[cuda.threadIdx.x] = numbers[cuda.threadIdx.x ^ 1]


def test_an_exchange_orders_no_memory() -> None:
    with pytest.raises(Race):
        run(exchanged_is_no_barrier, np.zeros(8))


def some_wait(found: Any, mask: int) -> None:
    if cuda.threadIdx.x < 4:
        cuda.syncwarp(mask)
    found[cuda.threadIdx.x] = 1.0


def some_exchange(found: Any, mask: int) -> None:
    if cuda.threadIdx.x < 4:
        found[cuda.threadIdx.x] = cuda.shfl_xor_sync(mask, cuda.threadIdx.x, 2)


@pytest.mark.parametrize("kernel", [some_wait, some_exchange])
def test_a_meeting_that_not_all_come_to_is_found(kernel: Callable[..., Any]) -> None:
    with pytest.raises(Stuck, match="4 of 8 lanes wait"):
        run(kernel, np.zeros(8), ALL)
    found = np.zeros(8)
    run(kernel, found, 0b1111)
    assert found[:4].tolist() == ([1.0] * 4 if kernel is some_wait else [2.0, 3.0, 0.0, 1.0])


def waits_elsewhere(found: Any) -> None:
    if cuda.threadIdx.x < 4:
        cuda.syncwarp()
    else:
        cuda.syncwarp()


def test_all_must_come_to_the_same_line() -> None:
    with pytest.raises(Stuck):
        run(waits_elsewhere, np.zeros(8))


def unwritten(found: Any) -> None:
    lane = cuda.threadIdx.x
    found[0, lane] = cuda.shared.array((2, 8), np.float64)[1][lane]
    found[1, lane] = cuda.local.array(3, np.int32)[2]
    found[2, lane] = cuda.shared.array(0, np.float32)[2:][0]


def test_memory_that_nobody_wrote_is_garbage() -> None:
    found = np.zeros((3, 8))
    run(unwritten, found, size=12)
    assert np.isnan(found[[0, 2]]).all()
    assert (np.abs(found[1]) > 1e6).all()
    with pytest.raises(IndexError):
        run(unwritten, found, size=8)
