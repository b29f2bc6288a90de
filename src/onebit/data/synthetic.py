"""The synthetic streams of the papers, each a function of (rounds, seed)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]

NOISE = 0.05  # this share of the labels is replaced by a label drawn uniformly


def synsep10(rounds: int, seed: int) -> Labelled:
    """SynSep of Arora and Manwani 2020 as described: x uniform on [-1, 1]^100; the class whose ten coordinates sum lowest.

    u_i is all ones but -1 at i, i + 10, ..., i + 90, and the label is argmax u_i.x. Separable, without a margin; chance 90 %.
    """
    x = _cube(rounds, np.random.default_rng([10, seed]))
    sums = x.reshape(rounds, 10, 10).sum(axis=1, dtype=np.float64)
    return x, sums.argmin(axis=1).astype(np.int64)


def synnonsep10(rounds: int, seed: int) -> Labelled:
    """SynNonSep of Arora and Manwani 2020 as described: `synsep10` with 5 % of the labels drawn anew (floor 4.5 %)."""
    x, y = synsep10(rounds, seed)
    return x, _noisy(y, 10, np.random.default_rng([11, seed]))


def synsep10_released(rounds: int, seed: int) -> Labelled:
    """SynSep of Arora and Manwani 2020 as their released generator makes it: 8 if the last coordinate is positive, else 9.

    The generator overwrites its running sum, so that only the last term counts. The paper's figures were made with this.
    """
    x = _cube(rounds, np.random.default_rng([12, seed]))
    return x, np.where(x[:, 99] > 0.0, 8, 9).astype(np.int64)


def synnonsep10_released(rounds: int, seed: int) -> Labelled:
    """The released SynSep with 5 % of the labels drawn anew, from ten classes."""
    x, y = synsep10_released(rounds, seed)
    return x, _noisy(y, 10, np.random.default_rng([13, seed]))


def synsep9(rounds: int, seed: int) -> Labelled:
    """SynSep of Kakade et al. 2008: nine topics over 400 binary words, scaled to length one; separable with a margin.

    Each class owns 20 to 40 of the words 0..119. A row has all words of its class but five, and 20 of the words 120..399.
    """
    generator = np.random.default_rng([9, seed])
    owned = [generator.permutation(120)[: generator.integers(20, 41)] for _ in range(9)]
    y = generator.integers(0, 9, size=rounds)
    x = np.zeros((rounds, 400), dtype=np.float32)
    for label, words in enumerate(owned):
        rows = np.flatnonzero(y == label)
        on = generator.random((len(rows), len(words))).argsort(axis=1)[:, 5:]
        x[rows[:, None], words[on]] = 1.0
    block = 10_000  # the draws below take 280 numbers a row
    for start in range(0, rounds, block):
        size = min(block, rounds - start)
        others = np.argpartition(generator.random((size, 280), dtype=np.float32), 20, axis=1)[:, :20]
        x[np.arange(start, start + size)[:, None], 120 + others] = 1.0
    x /= np.sqrt(x.sum(axis=1, keepdims=True))
    return x, y.astype(np.int64)


def synnonsep9(rounds: int, seed: int) -> Labelled:
    """SynNonSep of Kakade et al. 2008: `synsep9` with 5 % of the labels drawn anew (floor 4.4 %)."""
    x, y = synsep9(rounds, seed)
    return x, _noisy(y, 9, np.random.default_rng([14, seed]))


def _cube(rounds: int, generator: np.random.Generator) -> NDArray[np.float32]:
    x = generator.random((rounds, 100), dtype=np.float32)
    x *= 2.0
    x -= 1.0
    return x


def _noisy(y: NDArray[np.int64], classes: int, generator: np.random.Generator) -> NDArray[np.int64]:
    drawn = generator.integers(0, classes, size=len(y))
    return np.where(generator.random(len(y)) < NOISE, drawn, y).astype(np.int64)
