"""Streams that `auto` was not built on: if its constants were fitted to others, it shows here.

Wine and breast cancer were looked at while it was built, as were the digits and satimage without the factors. The classic generators
(waveform, LED display, Hastie's spheres) and the shapes of blobs and hypercubes below were not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.streams.recipes import Drawn, Maker, Recipe, dense, generator_of, resampled
from benchmarks.streams.stress import gaussians

# The seven lights of a digit: top, upper left, upper right, middle, lower left, lower right, bottom.
LIGHTS = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
FLIPPED = 0.01  # of the labels of hypercubes
MEDIAN_OF_CHI_SQUARED = 9.342  # with ten degrees of freedom


def hypercubes(
    features: int,
    informative: int,
    classes: int,
    rounds: int,
    seed: int,
    clusters: int = 1,
    redundant: int = 2,
    chances: Sequence[float] | None = None,
) -> Drawn:
    """Clusters at the corners of a hypercube, each of a shape of its own (Guyon 2003).

    Some columns tell them apart, some are sums of those, the rest is noise; a label in a hundred is drawn anew.
    """
    generator = generator_of(seed)
    found = np.unique(generator.integers(0, 2, (20 * classes * clusters, informative)), axis=0)
    corners = 2.0 * generator.permutation(found)[: classes * clusters] - 1.0
    y = generator.choice(classes, rounds, p=chances)
    cluster = y * clusters + generator.integers(0, clusters, rounds)
    telling = generator.normal(size=(rounds, informative))
    for number, corner in enumerate(corners):
        rows = cluster == number
        telling[rows] = telling[rows] @ generator.uniform(-1.0, 1.0, (informative, informative)) + corner
    sums = telling @ generator.uniform(-1.0, 1.0, (informative, redundant))
    noise = generator.normal(size=(rounds, features - informative - redundant))
    X = np.hstack([telling, sums, noise])[:, generator.permutation(features)]
    flipped = generator.random(rounds) < FLIPPED
    return dense(X), np.where(flipped, generator.integers(0, classes, rounds), y)


def blobs(features: int, classes: int, deviation: float, rounds: int, seed: int) -> Drawn:
    """Round clusters in a box from -10 to 10."""
    generator = generator_of(seed)
    centres = generator.uniform(-10.0, 10.0, (classes, features))
    y = generator.integers(0, classes, rounds)
    return dense(centres[y] + deviation * generator.normal(size=(rounds, features))), y


def spheres(rounds: int, seed: int) -> Drawn:
    """Two classes inside and outside of a sphere (Hastie et al. 2009, 10.2): no linear rule is better than guessing."""
    X = generator_of(seed).normal(size=(rounds, 10))
    return dense(X), (np.square(X).sum(axis=1) > MEDIAN_OF_CHI_SQUARED).astype(np.int64)


def waveform(rounds: int, seed: int) -> Drawn:
    """Breiman et al. 1984: random mixtures of two of three triangles, 21 points, unit noise; the best rule errs 14 %."""
    generator = generator_of(seed)
    triangles = [np.maximum(6.0 - abs(np.arange(1, 22) - peak), 0.0) for peak in (7, 15, 11)]
    y = generator.integers(0, 3, rounds)
    first, second = np.stack(triangles)[[0, 0, 1]][y], np.stack(triangles)[[1, 2, 2]][y]
    share = generator.random((rounds, 1))
    return dense(share * first + (1.0 - share) * second + generator.normal(size=first.shape)), y


def led(rounds: int, seed: int) -> Drawn:
    """Breiman et al. 1984: the lights of a digit, each false one time in ten, and 17 that mean nothing; the best rule errs 26 %."""
    generator = generator_of(seed)
    lights = np.array([[light == "1" for light in digit] for digit in LIGHTS.split()])
    y = generator.integers(0, 10, rounds)
    shown = lights[y] ^ (generator.random((rounds, 7)) < 0.1)
    return dense(np.hstack([shown, generator.random((rounds, 17)) < 0.5])), y


def factors(shape: tuple[int, int], seed: int) -> NDArray[np.float64]:
    """From a thousandth to a thousand, even in the logarithm."""
    factor: NDArray[np.float64] = 10.0 ** np.random.default_rng([78, seed]).uniform(-3.0, 3.0, shape)
    return factor


def columns_scaled(make: Maker, rounds: int, seed: int) -> Drawn:
    """Each column times a factor of its own."""
    X, y = make(rounds, seed)
    return dense(X * factors((1, X.shape[1]), seed)), y


def rows_scaled(make: Maker, rounds: int, seed: int) -> Drawn:
    """Each row times a factor of its own."""
    X, y = make(rounds, seed)
    return dense(X * factors((len(X), 1), seed)), y


_WIDE = partial(hypercubes, 40, 12, 7)

UNSEEN = {
    "wine": Recipe(partial(resampled, "wine"), 3, needs=("wine",)),
    "breast cancer": Recipe(partial(resampled, "breast_cancer"), 2, needs=("breast_cancer",)),
    "diabetes, quarters": Recipe(partial(resampled, "diabetes"), 4, needs=("diabetes",)),
    "waveform": Recipe(waveform, 3),
    "LED display": Recipe(led, 10),
    "spheres": Recipe(spheres, 2),
    "hypercubes, 8 features, 4 classes": Recipe(partial(hypercubes, 8, 6, 4, clusters=2, redundant=0), 4),
    "hypercubes, 40 features, 7 classes": Recipe(_WIDE, 7),
    "hypercubes, 300 features, 3 classes": Recipe(partial(hypercubes, 300, 20, 3), 3),
    "hypercubes, 25 features, 15 classes, imbalanced": Recipe(
        partial(hypercubes, 25, 15, 15, chances=(0.3, *[0.05] * 14)), 15
    ),
    "blobs, 2 features, 12 classes": Recipe(partial(blobs, 2, 12, 1.0), 12),
    "blobs, 20 features, 50 classes": Recipe(partial(blobs, 20, 50, 8.0), 50),
    "blobs, 15 features, 300 classes": Recipe(partial(blobs, 15, 300, 2.0), 300),
    "Gaussians, 1000 features, 6 classes": Recipe(partial(gaussians, classes=6, features=1000, spread=0.1), 6),
    "digits, columns scaled": Recipe(partial(columns_scaled, partial(resampled, "digits")), 10, needs=("digits",)),
    "digits, rows scaled": Recipe(partial(rows_scaled, partial(resampled, "digits")), 10, needs=("digits",)),
    "satimage, columns scaled": Recipe(partial(columns_scaled, partial(resampled, "satimage")), 6, needs=("satimage",)),
    "satimage, rows scaled": Recipe(partial(rows_scaled, partial(resampled, "satimage")), 6, needs=("satimage",)),
    "hypercubes, 40 features, 7 classes, columns scaled": Recipe(partial(columns_scaled, _WIDE), 7),
    "hypercubes, 40 features, 7 classes, rows scaled": Recipe(partial(rows_scaled, _WIDE), 7),
}
