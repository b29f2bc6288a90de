"""The synthetic streams of the papers, each a function of (rounds, seed).

Each is drawn in pieces of bounded size, and the size does not affect what is drawn. Where the formulas draw one thing
for all rounds and then another, each has a generator of its own, which starts where that of the formulas would be.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Concatenate, Generic, ParamSpec

import numpy as np
from numpy.typing import NDArray

from onebit.data.stream_changes import add_noise

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]
P = ParamSpec("P")

NOISE = 0.05  # share of the labels that are replaced by one drawn uniformly
PIECE_VALUES = 1 << 19  # values in the rows of a piece


class Drawn(Generic[P]):
    """A generator of rows and labels from a seed: `pieces` yields them in parts, a call returns all."""

    def __init__(self, pieces: Callable[Concatenate[int, int, P], Iterator[Labelled]]) -> None:
        self.pieces = pieces
        update_wrapper(self, pieces)

    def __call__(self, rounds: int, seed: int, *args: P.args, **kwargs: P.kwargs) -> Labelled:
        """Return all rows and their labels."""
        pieces, filled = self.pieces(rounds, seed, *args, **kwargs), 0
        labels = np.empty(rounds, dtype=np.int64)
        for x, y in pieces:
            if filled == 0:
                rows = np.empty((rounds, x.shape[1]), dtype=np.float32)
            rows[filled : filled + len(y)], labels[filled : filled + len(y)] = x, y
            filled += len(y)
        return rows, labels


@Drawn
def synsep10(rounds: int, seed: int) -> Iterator[Labelled]:
    """SynSep of Arora and Manwani 2020 as described: ten classes over [-1, 1]^100, separable.

    x is uniform, and the label is the class whose ten coordinates have the smallest sum: argmax u_i.x, where u_i is all
    ones but -1 at i, i + 10, ..., i + 90. There is no margin; chance has an error of 90 %.
    """
    yield from _cube_pieces(rounds, [10, seed])


@Drawn
def synnonsep10(rounds: int, seed: int) -> Iterator[Labelled]:
    """SynNonSep of Arora and Manwani 2020 as described: `synsep10` with 5 % of the labels redrawn.

    The lowest possible error is 4.5 %.
    """
    noise = add_noise(np.random.default_rng([11, seed]), 10, NOISE, rounds)
    for x, y in synsep10.pieces(rounds, seed):
        yield x, noise(y)


@Drawn
def synsep10_released(rounds: int, seed: int) -> Iterator[Labelled]:
    """SynSep of Arora and Manwani 2020 as their released generator makes it: classes 8 and 9 only.

    The label is 8 if the last coordinate is positive, else 9: the generator overwrites its running sum, so that only
    the last term counts. The paper's figures were made with this generator.
    """
    for x, _ in _cube_pieces(rounds, [12, seed]):
        yield x, np.where(x[:, 99] > 0.0, 8, 9).astype(np.int64)


@Drawn
def synnonsep10_released(rounds: int, seed: int) -> Iterator[Labelled]:
    """SynNonSep as released: `synsep10_released` with 5 % of the labels redrawn from ten classes."""
    noise = add_noise(np.random.default_rng([13, seed]), 10, NOISE, rounds)
    for x, y in synsep10_released.pieces(rounds, seed):
        yield x, noise(y)


@Drawn
def synsep9(rounds: int, seed: int) -> Iterator[Labelled]:
    """SynSep of Kakade et al. 2008: nine topics over 400 binary words, scaled to unit length, separable.

    There is a margin. Each class owns 20 to 40 of the words 0..119. A row has all words of its class but five, and 20
    of the words 120..399.
    """
    generator = np.random.default_rng([9, seed])
    owned = [generator.permutation(120)[: generator.integers(20, 41)] for _ in range(9)]
    labels = copy.deepcopy(generator)
    # All labels are drawn first, then the words of each class, which take one number per row and word.
    counts = np.zeros(9, dtype=np.int64)
    for size in _piece_sizes(rounds, 1):
        counts += np.bincount(generator.integers(0, 9, size=size), minlength=9)
    dropped = []
    for count, words in zip(counts, owned, strict=True):
        dropped.append(copy.deepcopy(generator))
        _skip_draws(generator, int(count) * len(words))
    for size in _piece_sizes(rounds, 400):
        y = labels.integers(0, 9, size=size)
        x = np.zeros((size, 400), dtype=np.float32)
        for label, words in enumerate(owned):
            rows = np.flatnonzero(y == label)
            chosen = dropped[label].random((len(rows), len(words))).argsort(axis=1)[:, 5:]
            x[rows[:, None], words[chosen]] = 1.0
        common_words = np.argpartition(generator.random((size, 280), dtype=np.float32), 20, axis=1)[:, :20]
        x[np.arange(size)[:, None], 120 + common_words] = 1.0
        x /= np.sqrt(x.sum(axis=1, keepdims=True))
        yield x, y.astype(np.int64)


@Drawn
def synnonsep9(rounds: int, seed: int) -> Iterator[Labelled]:
    """SynNonSep of Kakade et al. 2008: `synsep9` with 5 % of the labels redrawn.

    The lowest possible error is 4.4 %.
    """
    noise = add_noise(np.random.default_rng([14, seed]), 9, NOISE, rounds)
    for x, y in synsep9.pieces(rounds, seed):
        yield x, noise(y)


def _cube_pieces(rounds: int, seed: list[int]) -> Iterator[Labelled]:
    """Yield rows uniform on [-1, 1)^100, labelled with the class whose coordinates have the lowest sum.

    Every tenth coordinate belongs to one class, and ties go to the first class.
    """
    generator = np.random.default_rng(seed)
    for size in _piece_sizes(rounds, 100):
        x = generator.random((size, 100), dtype=np.float32)
        x *= 2.0
        x -= 1.0
        sums = x[:, :10].astype(np.float64)
        for begin in range(10, 100, 10):  # the values are multiples of 2^-23, so no sum is rounded
            sums += x[:, begin : begin + 10]
        yield x, sums.argmin(axis=1).astype(np.int64)


def _piece_sizes(rounds: int, columns: int) -> Iterator[int]:
    """Return the number of rows of each piece, given the number of columns."""
    most = PIECE_VALUES // columns
    return (min(most, rounds - first) for first in range(0, rounds, most))


def _skip_draws(generator: np.random.Generator, count: int) -> None:
    """Advance the generator as if it had drawn `count` float64 values.

    An unused half of a word stays available for the next draw of 32 bits.
    """
    bits = generator.bit_generator
    half = {name: bits.state[name] for name in ("has_uint32", "uinteger")}
    bits.advance(count)  # type: ignore[attr-defined]
    bits.state = {**bits.state, **half}
