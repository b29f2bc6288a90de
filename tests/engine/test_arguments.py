"""Arrays that machine code writes to lie apart from all others: where they lie in memory must not decide in which order numbers are summed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from onebit.engine.arguments import CACHE_LINE, GAP_BYTES, LARGE_BYTES, place_apart
from onebit.learner.learner import Learner, copy_learner
from onebit.rules import registry
from tests.learner.learners import fresh


class Pair(NamedTuple):
    first: NDArray[Any]
    second: NDArray[Any]
    number: float


def arrays_in(value: Any) -> Iterator[NDArray[Any]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from arrays_in(part)


def assert_apart(arrays: list[NDArray[Any]]) -> None:
    """Each begins at a line of the cache, with nothing of the others within the gap."""
    small = {id(one): one for one in arrays if 0 < one.nbytes <= LARGE_BYTES}.values()
    assert all(one.ctypes.data % CACHE_LINE == 0 for one in small)
    begins = sorted((one.ctypes.data, one.nbytes) for one in small)
    for (begin, size), (after, _) in pairwise(begins):
        assert after - (begin + size) >= GAP_BYTES


def test_arrays_are_moved_apart_with_what_is_in_them() -> None:
    block = np.arange(20.0)
    found = place_apart(Pair(block[:5], block[5:10].astype(np.float32), 3.0))
    assert type(found) is Pair
    assert (found.first.tolist(), found.second.tolist(), found.number) == ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9], 3.0)
    assert found.second.dtype == np.float32
    assert_apart(list(arrays_in(found)))


def test_an_array_that_is_there_twice_stays_one_and_what_lies_apart_stays() -> None:
    array = np.ones((2, 3))
    found = place_apart((Pair(array, array, 0.0), array))
    assert found[0].first is found[0].second is found[1]
    assert found[1].shape == (2, 3)
    assert place_apart(found) is found


@pytest.mark.parametrize("array", [np.zeros(0), np.zeros(LARGE_BYTES // 8 + 1), np.zeros((4, 4))[:, :2]])
def test_what_is_empty_large_or_a_part_of_something_stays(array: NDArray[Any]) -> None:
    assert place_apart(array) is array


@pytest.mark.parametrize("name", registry())
def test_whatever_a_learner_learns_into_lies_apart(name: str) -> None:
    def written(learner: Learner) -> list[NDArray[Any]]:
        model = learner.runtime.model
        return list(arrays_in((model.space, model.memory, model.calibration, model.buffers)))

    learner = fresh(name, 3, features=5, space="dense")
    assert_apart(written(learner))
    assert_apart(written(copy_learner(learner)))


def test_learners_agree_bit_for_bit_wherever_their_arrays_are() -> None:
    """Five columns: an array of them that lay right behind another was taken to overlap with it."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(70, 5))
    learners, between = [], []
    for _ in range(12):
        learners.append(Learner("auto", classes=[0, 1, 2], features=5, dtype="float64"))
        between.append(np.ones(int(rng.integers(1, 3000))))  # so that the next one lies otherwise
        learners[-1].decide(X[0])
    for x in X:
        for learner in learners:
            decision = learner.decide(x)
            learner.learn(decision, right=decision.label == int(abs(x[0]) * 2) % 3)
    first, *others = (learner.weights for learner in learners)
    assert all(np.array_equal(first, other) for other in others)
