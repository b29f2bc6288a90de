"""Streams that `auto` was not built on: if its constants were fitted to others, it shows here.

Wine and breast cancer were looked at while it was built, as were the digits and satimage without the factors. The classic generators
(waveform, LED display, Hastie's spheres) and the shapes of blobs and hypercubes below were not.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from benchmarks.stress import Drawn, Recipe, dense, gaussians, generator_of, resampled
from numpy.typing import NDArray

# The seven lights of a digit: top, upper left, upper right, middle, lower left, lower right, bottom.
LIGHTS = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"


def shipped(name: str, rounds: int, seed: int) -> Drawn:
    """A data set that scikit-learn brings along, resampled."""
    import sklearn.datasets

    data = getattr(sklearn.datasets, f"load_{name}")()
    drawn = generator_of(seed).choice(len(data.target), rounds)
    return dense(data.data[drawn]), data.target[drawn].astype(np.int64)


def diabetes(rounds: int, seed: int) -> Drawn:
    """Which quarter of the patients one belongs to, by the progress of the disease; resampled."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    quarters = np.searchsorted(np.quantile(data.target, [0.25, 0.5, 0.75]), data.target)
    drawn = generator_of(seed).choice(len(quarters), rounds)
    return dense(data.data[drawn]), quarters[drawn].astype(np.int64)


def hypercubes(features: int, informative: int, classes: int, rounds: int, seed: int, **settings: Any) -> Drawn:
    """scikit-learn's make_classification: clusters at the corners of a hypercube."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        rounds, features, n_informative=informative, n_classes=classes, random_state=seed, **settings
    )
    return dense(X), y.astype(np.int64)


def blobs(features: int, classes: int, deviation: float, rounds: int, seed: int) -> Drawn:
    """scikit-learn's make_blobs: round clusters in a box from -10 to 10."""
    from sklearn.datasets import make_blobs

    X, y = make_blobs(rounds, features, centers=classes, cluster_std=deviation, random_state=seed)
    return dense(X), y.astype(np.int64)


def spheres(rounds: int, seed: int) -> Drawn:
    """Two classes inside and outside of a sphere (Hastie et al. 2009, 10.2): no linear rule is better than guessing."""
    from sklearn.datasets import make_hastie_10_2

    X, y = make_hastie_10_2(rounds, random_state=seed)
    return dense(X), (y > 0).astype(np.int64)


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


def columns_scaled(make: Any, rounds: int, seed: int) -> Drawn:
    """Each column times a factor of its own."""
    X, y = make(rounds, seed)
    return dense(X * factors((1, X.shape[1]), seed)), y


def rows_scaled(make: Any, rounds: int, seed: int) -> Drawn:
    """Each row times a factor of its own."""
    X, y = make(rounds, seed)
    return dense(X * factors((len(X), 1), seed)), y


def drawn_from(name: str, rounds: int, seed: int) -> Drawn:
    """A data set of onebit's, resampled."""
    return resampled(name, rounds, generator_of(seed))


_WIDE = partial(hypercubes, 40, 12, 7, n_clusters_per_class=1)

UNSEEN = {
    "wine": Recipe(partial(shipped, "wine"), 3),
    "breast cancer": Recipe(partial(shipped, "breast_cancer"), 2),
    "diabetes, quarters": Recipe(diabetes, 4),
    "waveform": Recipe(waveform, 3),
    "LED display": Recipe(led, 10),
    "spheres": Recipe(spheres, 2),
    "hypercubes, 8 features, 4 classes": Recipe(partial(hypercubes, 8, 6, 4, n_redundant=0), 4),
    "hypercubes, 40 features, 7 classes": Recipe(_WIDE, 7),
    "hypercubes, 300 features, 3 classes": Recipe(partial(hypercubes, 300, 20, 3, n_clusters_per_class=1), 3),
    "hypercubes, 25 features, 15 classes, imbalanced": Recipe(
        partial(hypercubes, 25, 15, 15, n_clusters_per_class=1, weights=[0.3] + [0.05] * 14), 15
    ),
    "blobs, 2 features, 12 classes": Recipe(partial(blobs, 2, 12, 1.0), 12),
    "blobs, 20 features, 50 classes": Recipe(partial(blobs, 20, 50, 8.0), 50),
    "blobs, 15 features, 300 classes": Recipe(partial(blobs, 15, 300, 2.0), 300),
    "Gaussians, 1000 features, 6 classes": Recipe(partial(gaussians, classes=6, features=1000, spread=0.1), 6),
    "digits, columns scaled": Recipe(partial(columns_scaled, partial(drawn_from, "digits")), 10),
    "digits, rows scaled": Recipe(partial(rows_scaled, partial(drawn_from, "digits")), 10),
    "satimage, columns scaled": Recipe(partial(columns_scaled, partial(drawn_from, "satimage")), 6),
    "satimage, rows scaled": Recipe(partial(rows_scaled, partial(drawn_from, "satimage")), 6),
    "hypercubes, 40 features, 7 classes, columns scaled": Recipe(partial(columns_scaled, _WIDE), 7),
    "hypercubes, 40 features, 7 classes, rows scaled": Recipe(partial(rows_scaled, _WIDE), 7),
}
