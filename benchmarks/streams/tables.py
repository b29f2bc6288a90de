"""Tables as people have them: columns of many kinds and scales, missing values, outliers, columns that move, classes that come and go.

None of these was looked at while `auto` was built. A few ways in which classes depend on columns, and troubles that each make one stream
of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from benchmarks.streams.recipes import Drawn, Maker, Recipe, dense, generator_of, sparse, zipf

Matrix = NDArray[np.float64]


# --- how classes depend on columns --------------------------------------------------------------------------------------


def mixed(
    rounds: int,
    seed: int,
    numeric: int = 12,
    binary: int = 20,
    classes: int = 5,
    noise: float = 0.5,
    prior: float = 0.0,
) -> Drawn:
    """Numbers of very different scales beside zeros and ones; the class is the largest of sums over columns and over pairs of them.

    Classes are even where `prior` is 0, and the less so the larger it is.
    """
    generator = generator_of(seed)
    numbers = generator.normal(size=(rounds, numeric))
    flags = generator.random((rounds, binary)) < generator.beta(1.0, 3.0, binary)
    first, second = generator.integers(0, numeric, (2, numeric))
    scores = numbers @ generator.normal(size=(numeric, classes)) + flags @ generator.normal(size=(binary, classes))
    scores += (numbers[:, first] * numbers[:, second]) @ generator.normal(size=(numeric, classes)) * 0.5
    scores += noise * generator.gumbel(size=scores.shape) - prior * np.arange(classes)
    scales = 10.0 ** generator.uniform(-3.0, 4.0, numeric)
    X = np.hstack([(numbers + generator.normal(size=numeric)) * scales, flags])
    return dense(X[:, generator.permutation(numeric + binary)]), scores.argmax(axis=1)


def linear(rounds: int, seed: int, columns: int, classes: int, telling: int, noise: float = 0.3) -> Drawn:
    """The class is the largest of linear functions of the first columns; the others tell nothing."""
    generator = generator_of(seed)
    X = generator.normal(size=(rounds, columns))
    scores = X[:, :telling] @ generator.normal(size=(telling, classes)) / np.sqrt(telling)
    return dense(X), (scores + noise * generator.gumbel(size=scores.shape)).argmax(axis=1)


def tree(rounds: int, seed: int, columns: int, depth: int, classes: int) -> Drawn:
    """A random tree of questions, each about one column that is even on [0, 1]; a class for each leaf."""
    generator = generator_of(seed)
    X = generator.random((rounds, columns))
    leaf = np.zeros(rounds, dtype=np.int64)
    for level in range(depth):
        asked = generator.integers(0, columns, 2**level)
        cuts = generator.uniform(0.3, 0.7, 2**level)
        leaf = 2 * leaf + (X[np.arange(rounds), asked[leaf]] > cuts[leaf])
    return dense(X), (generator.permutation(2**depth) % classes)[leaf]


def several_modes(rounds: int, seed: int, columns: int, classes: int, modes: int, deviation: float) -> Drawn:
    """Each class has several clusters, anywhere."""
    generator = generator_of(seed)
    centres = generator.normal(size=(classes * modes, columns))
    cluster = generator.integers(0, classes * modes, rounds)
    return dense(centres[cluster] + deviation * generator.normal(size=(rounds, columns))), cluster % classes


def chessboard(rounds: int, seed: int, fields: int) -> Drawn:
    """Black or white, by two columns."""
    X = generator_of(seed).random((rounds, 2))
    return dense(X), np.floor(fields * X).sum(axis=1).astype(np.int64) % 2


def shells(rounds: int, seed: int, columns: int, classes: int) -> Drawn:
    """Classes that lie around one another, equally many rows in each."""
    X = generator_of(seed).normal(size=(rounds, columns))
    radius = np.square(X).sum(axis=1)
    return dense(X), (np.argsort(np.argsort(radius)) * classes // rounds).astype(np.int64)


def spreads(rounds: int, seed: int, columns: int, classes: int) -> Drawn:
    """Classes of the same mean whose columns deviate differently."""
    generator = generator_of(seed)
    deviations = np.exp(0.7 * generator.normal(size=(classes, columns)))
    y = generator.integers(0, classes, rounds)
    return dense(deviations[y] * generator.normal(size=(rounds, columns))), y


def counts(rounds: int, seed: int, columns: int, classes: int) -> Drawn:
    """Numbers of events, each class with rates of its own."""
    generator = generator_of(seed)
    usual = np.exp(1.5 * generator.normal(size=columns))
    rates = usual * np.exp(0.35 * generator.normal(size=(classes, columns)))
    y = generator.integers(0, classes, rounds)
    return dense(generator.poisson(rates[y])), y


def pictures(rounds: int, seed: int, classes: int = 12, size: int = 16, shift: int = 2) -> Drawn:
    """Smooth patterns, shifted by a few pixels, brighter or darker, with noise."""
    generator = generator_of(seed)
    waves = np.fft.fft2(generator.normal(size=(classes, size, size)))
    distance = np.minimum(np.arange(size), size - np.arange(size))
    patterns = np.fft.ifft2(waves * np.exp(-0.15 * (distance[:, None] ** 2 + distance**2))).real
    patterns /= patterns.std(axis=(1, 2), keepdims=True)
    y = generator.integers(0, classes, rounds)
    down, right = generator.integers(-shift, shift + 1, (2, rounds, 1, 1))
    rows, columns = np.arange(size)[:, None], np.arange(size)
    X = patterns[y[:, None, None], (rows + down) % size, (columns + right) % size]
    X = X * generator.uniform(0.6, 1.4, (rounds, 1, 1)) + generator.normal(size=X.shape)
    return dense(X.reshape(rounds, -1)), y


def many_classes(rounds: int, seed: int, columns: int, classes: int, spread: float, exponent: float) -> Drawn:
    """Normal classes by Zipf's law, those of an exponent of 0 even."""
    generator = generator_of(seed)
    means = spread * generator.normal(size=(classes, columns))
    y = generator.choice(classes, rounds, p=zipf(classes, exponent))
    return dense(means[y] + generator.normal(size=(rounds, columns))), y


def in_runs(rounds: int, seed: int, columns: int, classes: int, stays: float) -> Drawn:
    """A class stays for a while, and rows are like those before."""
    generator = generator_of(seed)
    means = generator.normal(size=(classes, columns))
    begins = generator.random(rounds) >= stays
    begins[0] = True
    y = generator.integers(0, classes, rounds)[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    noise = generator.normal(size=(rounds, columns))
    for row in range(1, rounds):
        noise[row] = 0.8 * noise[row - 1] + 0.6 * noise[row]
    return dense(means[y] + noise), y


def turning(rounds: int, seed: int, columns: int, classes: int) -> Drawn:
    """Linear functions that turn into others from the first round to the last."""
    generator = generator_of(seed)
    X = generator.normal(size=(rounds, columns))
    first, last = generator.normal(size=(2, columns, classes))
    angle = np.linspace(0.0, np.pi / 2.0, rounds)[:, None]
    return dense(X), (np.cos(angle) * (X @ first) + np.sin(angle) * (X @ last)).argmax(axis=1)


def clicks(rounds: int, seed: int, columns: int = 8, levels: int = 5000, features: int = 60_000) -> Drawn:
    """Who sees what where, hashed: a few of very many levels, most of them rare, and one answer in twenty is yes."""
    generator = generator_of(seed)
    weights = generator.normal(size=(columns, levels))
    found = generator.choice(levels, (rounds, columns), p=zipf(levels, 1.1))
    scores = weights[np.arange(columns), found].sum(axis=1) + 0.5 * generator.normal(size=rounds)
    places = generator.integers(0, features, (columns, levels))[np.arange(columns), found]
    rows = np.repeat(np.arange(rounds), columns)
    X = scipy.sparse.csr_matrix((np.ones(rows.size), (rows, places.ravel())), shape=(rounds, features))
    return sparse(X), (scores > np.quantile(scores, 0.95)).astype(np.int64)


# --- troubles -----------------------------------------------------------------------------------------------------------


def missing(make: Maker, share: float, value: float, rounds: int, seed: int) -> Drawn:
    """Some values are not there, and something stands in their place."""
    X, y = make(rounds, seed)
    return np.where(_more(seed).random(X.shape) < share, np.float32(value), X), y


def heavy_tailed(make: Maker, rounds: int, seed: int) -> Drawn:
    """Each column keeps its order, and its tails become as long as those of exp."""
    X, y = make(rounds, seed)
    z = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-12)
    return dense(np.sign(z) * np.expm1(2.5 * np.abs(z))), y


def outlying(make: Maker, share: float, rounds: int, seed: int) -> Drawn:
    """Some rows are a thousand times as large."""
    X, y = make(rounds, seed)
    return dense(X * np.where(_more(seed).random((rounds, 1)) < share, 1000.0, 1.0)), y


def duplicated(make: Maker, times: int, rounds: int, seed: int) -> Drawn:
    """The first half of the columns is there several times."""
    X, y = make(rounds, seed)
    return dense(np.hstack([X, *[X[:, : X.shape[1] // 2]] * (times - 1)])), y


def with_constants(make: Maker, values: Sequence[float], rounds: int, seed: int) -> Drawn:
    """Columns that never change, beside the others."""
    X, y = make(rounds, seed)
    return dense(np.hstack([np.tile(values, (rounds, 1)), X])), y


def with_noise(make: Maker, columns: int, rounds: int, seed: int) -> Drawn:
    """Columns that tell nothing, of the usual size of the others."""
    X, y = make(rounds, seed)
    return dense(np.hstack([X, X.std() * _more(seed).normal(size=(rounds, columns))])), y


def other_units(make: Maker, rounds: int, seed: int) -> Drawn:
    """From the middle on each column is in other units."""
    X, y = make(rounds, seed)
    factors = 10.0 ** _more(seed).uniform(-2.0, 2.0, X.shape[1])
    return dense(X * np.where(np.arange(rounds)[:, None] < rounds // 2, 1.0, factors)), y


def wandering(make: Maker, rounds: int, seed: int) -> Drawn:
    """The means of the columns wander off, by five deviations from the first round to the last."""
    X, y = make(rounds, seed)
    steps = _more(seed).normal(size=X.shape).cumsum(axis=0) / np.sqrt(rounds)
    return dense(X + 5.0 * X.std(axis=0) * steps), y


def arriving(make: Maker, classes: int, rounds: int, seed: int) -> Drawn:
    """Classes come up one after the other, mixed with those before."""
    X, y = make(rounds, seed)
    begin = _more(seed).permutation(classes)[y] / (classes + 2)
    order = np.argsort(begin + _more(seed + 1).random(rounds) * (1.0 - begin), kind="stable")
    return X[order], y[order]


def other_sizes(make: Maker, classes: int, rounds: int, seed: int) -> Drawn:
    """Half of the classes come early for the most part, the others late."""
    X, y = make(rounds, seed)
    late = _more(seed).permutation(classes)[y] >= classes // 2
    order = np.argsort(_more(seed + 1).random(rounds) ** np.where(late, 0.25, 4.0), kind="stable")
    return X[order], y[order]


def times(make: Maker, factor: float, rounds: int, seed: int) -> Drawn:
    """All values in other units."""
    X, y = make(rounds, seed)
    return dense(X * factor), y


def _more(seed: int) -> np.random.Generator:
    """The draws of a trouble, beside those of the stream that it is made of."""
    return np.random.default_rng([83, seed])


_TREE = partial(tree, columns=12, depth=5, classes=6)
_MODES = partial(several_modes, columns=10, classes=6, modes=4, deviation=0.5)
_LINEAR = partial(linear, columns=30, classes=6, telling=30)
_GAUSSIANS = partial(many_classes, columns=20, classes=10, spread=0.7, exponent=0.0)
# A recipe, after the name of the family that it belongs to: what is made of the same stream, or in the same way, is of one.
TABLES = {
    "mixed columns": ("mixed", Recipe(mixed, 5, 4000)),
    "mixed columns, 10,000 rounds": ("mixed", Recipe(mixed, 5, 10_000)),
    "mixed columns, two uneven classes": ("mixed", Recipe(partial(mixed, classes=2, prior=9.0), 2, 4000)),
    "mixed columns, 20 uneven classes": ("mixed", Recipe(partial(mixed, classes=20, prior=0.4), 20, 8000)),
    "mixed columns, noisy": ("mixed", Recipe(partial(mixed, noise=3.0), 5, 4000)),
    "mostly binary columns": ("binary columns", Recipe(partial(mixed, numeric=6, binary=180, classes=7), 7, 4000)),
    "missing values as 0": ("missing", Recipe(partial(missing, _LINEAR, 0.3, 0.0), 6, 4000)),
    "missing values as -999": ("missing", Recipe(partial(missing, _MODES, 0.1, -999.0), 6, 4000)),
    "missing values as -1 in counts": (
        "missing",
        Recipe(partial(missing, partial(counts, columns=15, classes=5), 0.2, -1.0), 5, 4000),
    ),
    "heavy tails": ("heavy tails", Recipe(partial(heavy_tailed, _LINEAR), 6, 4000)),
    "heavy tails, several clusters a class": ("heavy tails", Recipe(partial(heavy_tailed, _MODES), 6, 4000)),
    "rows that lie far out": ("heavy tails", Recipe(partial(outlying, _GAUSSIANS, 0.01), 10, 4000)),
    "duplicated columns": ("idle columns", Recipe(partial(duplicated, _LINEAR, 6), 6, 4000)),
    "constant columns": (
        "idle columns",
        Recipe(partial(with_constants, _GAUSSIANS, (0.0, 1.0, -5.0, 100.0, 1e6)), 10, 4000),
    ),
    "200 columns that tell nothing": ("idle columns", Recipe(partial(with_noise, _MODES, 200), 6, 4000)),
    "5 columns, 3 classes": ("linear", Recipe(partial(linear, columns=5, classes=3, telling=5), 3, 4000)),
    "1,000 columns, 30 of them telling": (
        "linear",
        Recipe(partial(linear, columns=1000, classes=4, telling=30), 4, 4000),
    ),
    "5,000 columns, 20 of them telling": (
        "linear",
        Recipe(partial(linear, columns=5000, classes=3, telling=20), 3, 3000),
    ),
    "two classes, 60 columns, noisy": (
        "linear",
        Recipe(partial(linear, columns=60, classes=2, telling=60, noise=1.0), 2, 4000),
    ),
    "tree of questions": ("tree", Recipe(_TREE, 6, 4000)),
    "tree of questions, 10,000 rounds": ("tree", Recipe(_TREE, 6, 10_000)),
    "deep tree, 40 columns": ("tree", Recipe(partial(tree, columns=40, depth=7, classes=4), 4, 8000)),
    "several clusters a class": ("clusters", Recipe(_MODES, 6, 4000)),
    "several clusters a class, 40 columns": (
        "clusters",
        Recipe(partial(several_modes, columns=40, classes=10, modes=8, deviation=0.7), 10, 8000),
    ),
    "chessboard": ("plane", Recipe(partial(chessboard, fields=4), 2, 4000)),
    "shells": ("shells", Recipe(partial(shells, columns=6, classes=4), 4, 4000)),
    "classes that differ in spread": ("shells", Recipe(partial(spreads, columns=20, classes=5), 5, 4000)),
    "counts of events": ("counts", Recipe(partial(counts, columns=40, classes=8), 8, 4000)),
    "counts of events, 400 columns": ("counts", Recipe(partial(counts, columns=400, classes=15), 15, 6000)),
    "shifted pictures": ("pictures", Recipe(pictures, 12, 8000)),
    "shifted pictures, short": ("pictures", Recipe(pictures, 12, 1500)),
    "300 equal classes": (
        "many classes",
        Recipe(partial(many_classes, columns=50, classes=300, spread=0.9, exponent=0.0), 300, 20_000),
    ),
    "1,000 equal classes": (
        "many classes",
        Recipe(partial(many_classes, columns=50, classes=1000, spread=0.9, exponent=0.0), 1000, 20_000),
    ),
    "1,000 uneven classes": (
        "many classes",
        Recipe(partial(many_classes, columns=30, classes=1000, spread=1.0, exponent=1.1), 1000, 10_000),
    ),
    "100 uneven classes": (
        "many classes",
        Recipe(partial(many_classes, columns=20, classes=100, spread=1.0, exponent=1.0), 100, 8000),
    ),
    "classes in runs": ("runs", Recipe(partial(in_runs, columns=15, classes=8, stays=0.95), 8, 4000)),
    "columns that wander": ("moving columns", Recipe(partial(wandering, _GAUSSIANS), 10, 6000)),
    "columns in other units half-way": ("moving columns", Recipe(partial(other_units, _LINEAR), 6, 6000)),
    "functions that turn": ("turning", Recipe(partial(turning, columns=20, classes=5), 5, 8000)),
    "classes arriving": ("coming and going", Recipe(partial(arriving, _GAUSSIANS, 10), 10, 6000)),
    "classes arriving, tree": ("coming and going", Recipe(partial(arriving, _TREE, 6), 6, 6000)),
    "sizes of classes change": ("coming and going", Recipe(partial(other_sizes, _MODES, 6), 6, 6000)),
    "tiny values": ("units", Recipe(partial(times, _LINEAR, 1e-8), 6, 4000)),
    "huge values": ("units", Recipe(partial(times, _MODES, 1e6), 6, 4000)),
    "clicks, sparse, one in twenty": ("clicks", Recipe(clicks, 2, 8000)),
    "200 rounds, linear": ("short", Recipe(_LINEAR, 6, 200)),
    "200 rounds, two classes": ("short", Recipe(partial(linear, columns=8, classes=2, telling=8), 2, 200)),
    "200 rounds, several clusters a class": ("short", Recipe(partial(_MODES, modes=1), 6, 200)),
    "200 rounds, mixed columns": ("short", Recipe(partial(mixed, classes=3), 3, 200)),
    "10^6 rounds, mixed columns": ("long", Recipe(partial(mixed, numeric=6, binary=6, classes=4), 4, 1_000_000)),
    "10^6 rounds, several clusters a class": ("long", Recipe(_MODES, 6, 1_000_000)),
}
