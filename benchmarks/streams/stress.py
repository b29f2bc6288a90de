"""Streams that are made to go wrong: sorted, imbalanced, with two classes and with a hundred, with words as rare as in texts.

docs/explanation/algorithms-numbers.md#stress-streams has their shapes and what learners err on them, not their constants. Those were chosen so that
reference learners err as they do there; `auto` had no part in it:

    two Gaussians       the distance of the means, so that the best possible rule errs 13 %
    hundred Gaussians   the spread of the means, so that diagonal AROW with full information errs 18.5 % (there 18.3)
    topics              length, share of a topic's own words and Zipf's exponent, so that diagonal LinUCB errs about 11 % (11.6),
                        Banditron 48 % (47.0) and AROW with full information 1.1 % (0.5)

Sorted and imbalanced digits, ecoli and abalone have nothing to calibrate. All are functions of (rounds, seed), as in
`onebit.data.synthetic`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.streams.recipes import Drawn, Recipe, as_csr, dense, generator_of, held, resampled, zipf
from onebit.data import real
from onebit.data.real import SEXES
from onebit.data.user_files import load_arrays
from onebit.errors import OnebitError

HALF_DISTANCE = 1.126  # of two means with unit deviations: the normal distribution has 13 % beyond it
SPREAD = 0.59  # of a hundred means in 50 dimensions
LENGTH, OWN_SHARE, EXPONENT = (
    120,
    0.5,
    0.68,
)  # of a document: words, share from its topic's own order of words, Zipf's law
VOCABULARY, TOPICS = 3000, 20
IMBALANCE = 0.7  # each digit is so many times as frequent as the one before


def sorted_digits(rounds: int, seed: int) -> Drawn:
    """All zeros first, then all ones, and so on."""
    X, y = resampled("digits", rounds, seed)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def imbalanced_digits(rounds: int, seed: int) -> Drawn:
    """Each digit is 0.7 times as frequent as the one before."""
    _, y = held("digits")
    chances = IMBALANCE**y / np.bincount(y)[y]
    return resampled("digits", rounds, seed, chances / chances.sum())


def two_gaussians(rounds: int, seed: int) -> Drawn:
    """Two classes in ten dimensions, of which one tells them apart."""
    generator = generator_of(seed)
    y = generator.integers(0, 2, rounds)
    X = generator.normal(size=(rounds, 10))
    X[:, 0] += HALF_DISTANCE * (2 * y - 1)
    return dense(X), y


def gaussians(rounds: int, seed: int, classes: int, features: int, spread: float) -> Drawn:
    """Gaussian classes of unit deviation, their means drawn from one of deviation `spread`."""
    generator = generator_of(seed)
    means = generator.normal(size=(classes, features)) * spread
    y = generator.integers(0, classes, rounds)
    return dense(means[y] + generator.normal(size=(rounds, features))), y


def hundred_gaussians(rounds: int, seed: int) -> Drawn:
    """A hundred classes in 50 dimensions."""
    return gaussians(rounds, seed, 100, 50, SPREAD)


def topics(rounds: int, seed: int) -> Drawn:
    """Counts of words: half of a document's are as frequent as in all documents, half as in its topic, both by Zipf's law."""
    generator = generator_of(seed)
    frequencies = zipf(VOCABULARY, EXPONENT)
    common = frequencies[generator.permutation(VOCABULARY)]
    own = np.empty((TOPICS, VOCABULARY))
    for words in own:
        words[generator.permutation(VOCABULARY)] = frequencies
    y = generator.integers(0, TOPICS, rounds)
    X = np.zeros((rounds, VOCABULARY), dtype=np.float32)
    for topic, words in enumerate(own):
        rows = np.flatnonzero(y == topic)
        X[rows] = generator.multinomial(LENGTH, (1.0 - OWN_SHARE) * common + OWN_SHARE * words, size=len(rows))
    return X, y


def abalone_rings(rounds: int, seed: int) -> Drawn:
    """Abalone with a class for each of the 28 numbers of rings that occur; by the name `abalone` onebit has four."""
    path = real.fetch("abalone")
    if path is None:
        raise OnebitError("there is no file of abalone: put abalone.npz into the folder named by ONEBIT_DATA")
    parts = load_arrays(path)
    sex = parts["X"][:, :1] == np.arange(len(SEXES))
    y = np.unique(parts["rings"], return_inverse=True)[1].astype(np.int64)
    drawn = generator_of(seed).choice(len(y), rounds)
    return dense(np.hstack([sex, parts["X"][:, 1:]])[drawn]), y[drawn]


STRESS = {
    "digits sorted": Recipe(sorted_digits, 10, needs=("digits",)),
    "digits imbalanced": Recipe(imbalanced_digits, 10, needs=("digits",)),
    "2 Gaussians": Recipe(two_gaussians, 2),
    "100 Gaussians": Recipe(hundred_gaussians, 100),
    "topics": Recipe(topics, TOPICS),
    "topics, sparse": Recipe(partial(as_csr, topics), TOPICS),
    "abalone": Recipe(abalone_rings, 28, needs=("abalone",)),
}
