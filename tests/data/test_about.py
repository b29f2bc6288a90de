"""The runs test: its mean and variance against all orders of a few labels, and what it says of sorted files."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

import onebit
from onebit.data.dataset import runs_test
from onebit.data.streams import stream


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 1], [0, 1, 2, 2, 1, 0], [0, 0, 0, 1], [0, 1, 2, 3]])
def test_mean_and_deviation_are_those_over_all_orders(labels: list[int]) -> None:
    counts = [1 + sum(a != b for a, b in itertools.pairwise(order)) for order in itertools.permutations(labels)]
    found = runs_test(np.array(labels))
    assert math.isclose(found.mean, float(np.mean(counts)), rel_tol=1e-12)
    assert math.isclose(found.deviation, float(np.std(counts)), rel_tol=1e-9, abs_tol=1e-7)


@pytest.mark.parametrize("labels", [[], [0], [0, 0, 0, 0]])
def test_what_cannot_be_in_another_order_has_no_long_runs(labels: list[int]) -> None:
    assert not runs_test(np.array(labels, dtype=np.int64)).are_long


def test_orders_drawn_uniformly_have_no_long_runs() -> None:
    # 6 standard deviations and a fifth fewer runs: of 200 orders none, but for one time in 10^6 at most.
    generator = np.random.default_rng(3)
    assert not any(runs_test(generator.integers(0, 5, size=400)).are_long for _ in range(200))


def test_slightly_sticky_labels_are_nothing_to_speak_of() -> None:
    generator = np.random.default_rng(4)
    stays = generator.random(100_000) < 0.1
    labels = generator.integers(0, 10, size=100_000)
    for at in np.flatnonzero(stays[1:]) + 1:
        labels[at] = labels[at - 1]
    found = runs_test(labels)
    assert found.runs < found.mean - 6 * found.deviation
    assert not found.are_long


def noise(sort: bool) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    generator = np.random.default_rng(5)
    y = generator.integers(0, 2, size=800)
    return generator.random((800, 3)), np.sort(y) if sort else y


def test_rows_are_shuffled_unless_said_so_that_sorted_noise_is_noise() -> None:
    X, y = noise(sort=True)
    shuffled, in_order = onebit.run("perceptron", X, y), onebit.run("perceptron", X, y, order="file")
    assert 0.4 < shuffled.error < 0.6  # a fair coin 800 times: outside of this one time in 10^7
    assert not shuffled.caveat
    assert in_order.error < 0.1
    assert "2 runs of them" in in_order.caveat
    assert in_order.to_dict()["caveat"] == in_order.caveat


def test_unsorted_rows_in_the_order_of_a_file_have_no_caveat() -> None:
    X, y = noise(sort=False)
    assert stream(X, y, order="file").caveat == ""
    assert stream("synsep9", rounds=100).caveat == ""
