"""Texts: classes of very uneven size, groups that arrive, are renamed or merged, titles, and 20 Newsgroups in several forms.

Those of 20 Newsgroups need its file. The others are drawn: words by Zipf's law, each class with words of its own that it shares in part
with its kin.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from benchmarks.streams.recipes import Drawn, Maker, Recipe, dense, generator_of, held, sparse, zipf
from benchmarks.streams.stress import TOPICS, topics
from onebit.data import real
from onebit.data.user_files import load_arrays

NEWS, GROUPS = "20newsgroups", 20
COMMON = 0.1  # words in a larger share of all messages are left out of the short ones
SHORT = 70  # words of a short message, about
KINSHIPS = 8  # classes of drawn texts are of one of so many kinds
COLUMNS = 384  # of latent semantic analysis
MERGED = (("comp.", 3000), ("rec.sport.", 1800), ("talk.politics.", 1200), ("rec.autos rec.motorcycles", 700))

Texts = tuple[Any, NDArray[np.int64]]  # a CSR matrix of SciPy's, with labels


# --- 20 Newsgroups ------------------------------------------------------------------------------------------------------


@cache
def news(binary: bool = True) -> Texts:
    """All messages, as words or as counts of words."""
    X, y = held(NEWS)
    values = np.ones(len(X.data), dtype=np.float32) if binary else X.data.astype(np.float32)
    return scipy.sparse.csr_matrix((values, X.indices, X.indptr), shape=X.shape), y


@cache
def short_news() -> Texts:
    """Messages cut to few words, drawn from those that are not common; the same in every stream."""
    X, y = news()
    X = X[:, np.asarray(X.sum(axis=0)).ravel() < COMMON * X.shape[0]].tocsr()
    generator = np.random.default_rng(5)
    lengths = np.maximum(8, SHORT * np.exp(0.6 * generator.normal(size=len(y)) - 0.18)).astype(np.int64)
    rows = np.repeat(np.arange(len(y)), np.diff(X.indptr))
    order = np.lexsort((generator.random(X.nnz), rows))  # the words of each message in an order by chance
    kept = order[np.arange(X.nnz) - X.indptr[rows] < lengths[rows]]
    return scipy.sparse.csr_matrix((X.data[kept], (rows[kept], X.indices[kept])), shape=X.shape), y


@cache
def group_names() -> tuple[str, ...]:
    """What the groups are called."""
    path = real.fetch(NEWS)
    assert path is not None
    return tuple(str(name) for name in load_arrays(path)["classes"])


def mixed(X: Any, y: NDArray[np.int64], rounds: int, seed: int) -> Drawn:
    """Rows in an order by chance, at most so many."""
    order = generator_of(seed).permutation(len(y))[:rounds]
    return sparse(X[order]), y[order]


def whole_news(binary: bool, rounds: int, seed: int) -> Drawn:
    """All messages once."""
    return mixed(*news(binary), rounds, seed)


def sized(X: Any, classes: list[NDArray[np.int64]], sizes: Any, rounds: int, seed: int) -> Drawn:
    """From each list of rows so many by chance, four at least: class after class, then mixed."""
    generator = np.random.default_rng([78, seed])
    taken = [generator.permutation(rows)[: max(4, int(size))] for rows, size in zip(classes, sizes, strict=True)]
    y = np.repeat(np.arange(len(taken)), [len(rows) for rows in taken])
    return mixed(X[np.concatenate(taken)], y, rounds, seed)


def geometric(ratio: float, short: bool, rounds: int, seed: int) -> Drawn:
    """Groups in an order by chance, each so many times as large as the one before."""
    X, y = short_news() if short else news()
    order = np.random.default_rng([79, seed]).permutation(GROUPS)
    return sized(X, [np.flatnonzero(y == group) for group in order], 1000 * ratio ** np.arange(GROUPS), rounds, seed)


def merged_groups(seed: int) -> list[list[int]]:
    """Computers, sports, politics and vehicles as one class each, then the other groups in an order by chance."""
    names = group_names()
    sets = [[i for i, name in enumerate(names) if name.startswith(tuple(begin.split()))] for begin, _ in MERGED]
    rest = [group for group in range(GROUPS) if not any(group in one for one in sets)]
    return [*sets, *([int(group)] for group in np.random.default_rng([80, seed]).permutation(rest))]


def hierarchy(rounds: int, seed: int) -> Drawn:
    """Four large classes of merged groups, and small ones, each 0.62 times as large as the one before."""
    X, y = short_news()
    sets = merged_groups(seed)
    small = 450 * 0.62 ** np.arange(len(sets) - len(MERGED))
    return sized(X, [np.flatnonzero(np.isin(y, one)) for one in sets], [*(n for _, n in MERGED), *small], rounds, seed)


@cache
def split_groups(classes: int = 52) -> NDArray[np.int64]:
    """Groups split by a word that 8 to 25 % of a group's messages have, one at a time by chance, until there are so many."""
    X, y = short_news()
    generator, labels, count = np.random.default_rng(3), y.copy(), GROUPS
    everywhere = np.asarray(X.sum(axis=0)).ravel()
    while count < classes:
        sizes = np.bincount(labels, minlength=count)
        rows = np.flatnonzero(labels == generator.choice(count, p=sizes / sizes.sum()))
        here = np.asarray(X[rows].sum(axis=0)).ravel()
        words = np.flatnonzero((here > 0.08 * len(rows)) & (here < 0.25 * len(rows)))
        if len(rows) < 60 or not len(words):
            continue
        word = generator.choice(words[np.argsort(-here[words] / everywhere[words])[:10]])
        labels[rows[X[rows][:, [word]].toarray().ravel() > 0]] = count
        count += 1
    return labels


def split_news(rounds: int, seed: int) -> Drawn:
    """The four largest of the split groups as one class of 3,000, and the others by Zipf's law below it."""
    X, _ = short_news()
    labels = split_groups()
    order = np.argsort(-np.bincount(labels), kind="stable")
    classes = [np.flatnonzero(np.isin(labels, order[:4])), *(np.flatnonzero(labels == one) for one in order[4:])]
    return sized(X, classes, 3000 / np.arange(1, len(classes) + 1) ** 1.15, rounds, seed)


def arriving(rounds: int, seed: int) -> Drawn:
    """Groups that come up one after the other, mixed with those before."""
    X, y = short_news()
    generator = generator_of(seed)
    begin = generator.permutation(GROUPS)[y] / (GROUPS + 2)
    order = np.argsort(begin + generator.random(len(y)) * (1.0 - begin))[:rounds]
    return sparse(X[order]), y[order]


def sorted_news(rounds: int, seed: int) -> Drawn:
    """One group after the other."""
    X, y = short_news()
    generator = generator_of(seed)
    some = generator.permutation(len(y))[:rounds]
    order = some[np.argsort(generator.permutation(GROUPS)[y[some]], kind="stable")]
    return sparse(X[order]), y[order]


def largest_late(rounds: int, seed: int) -> Drawn:
    """The hierarchy, whose largest class is not there before half of the others have passed."""
    X, y = hierarchy(rounds, seed)
    first, largest = np.flatnonzero(y != 0), np.flatnonzero(y == 0)
    rest = generator_of(seed).permutation(np.concatenate([first[len(first) // 2 :], largest]))
    order = np.concatenate([first[: len(first) // 2], rest])
    matrix = scipy.sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)
    return sparse(matrix[order]), y[order]


def two_classes(groups: int, rounds: int, seed: int) -> Drawn:
    """Whether a message is from one of so many groups."""
    X, y = short_news()
    chosen = np.random.default_rng([81, seed]).permutation(GROUPS)[:groups]
    return mixed(X, np.isin(y, chosen).astype(np.int64), rounds, seed)


def frequent_words(columns: int, rounds: int, seed: int) -> Drawn:
    """Counts of the most frequent words, kept in dense rows."""
    X, y = news(binary=False)
    words = np.sort(np.argsort(-np.diff(X.tocsc().indptr), kind="stable")[:columns])
    order = generator_of(seed).permutation(len(y))[:rounds]
    return dense(X[order][:, words].toarray()), y[order]


@cache
def latent(weighted: bool) -> NDArray[np.float32]:
    """Latent semantic analysis of the messages (Deerwester et al. 1990) by subspace iteration (Halko et al. 2011).

    `weighted` rows are of logarithms of counts times inverse document frequency, of length one, and keep the singular values; the others are of
    words as they are, and every column is of the same size.
    """
    X, y = news(binary=False)
    documents = np.diff(X.tocsc().indptr)
    X = X[:, (documents >= 5) & (documents < COMMON * len(y))].tocsr()
    if weighted:
        X.data = np.log1p(X.data)
        X = X @ scipy.sparse.diags(np.log(len(y) / np.diff(X.tocsc().indptr)))
        X = (
            scipy.sparse.diags(1.0 / np.maximum(1e-9, np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel()))) @ X
        ).tocsr()
    else:
        X.data[:] = 1.0
    X = X.astype(np.float32)
    basis = np.random.default_rng(7).normal(size=(X.shape[1], COLUMNS + 16)).astype(np.float32)
    for _ in range(2):
        basis = X.T @ np.linalg.qr(X @ basis)[0]
    basis = np.linalg.qr(basis)[0]
    left, sizes, _ = np.linalg.svd(X @ basis, full_matrices=False)
    scale = sizes[:COLUMNS] if weighted else np.sqrt(len(y))
    return dense(left[:, :COLUMNS] * scale)


def latent_news(weighted: bool, rounds: int, seed: int) -> Drawn:
    """Messages as 384 dense columns."""
    order = generator_of(seed).permutation(len(held(NEWS)[1]))[:rounds]
    return latent(weighted)[order], held(NEWS)[1][order]


# --- drawn texts --------------------------------------------------------------------------------------------------------


def texts(
    rounds: int,
    seed: int,
    classes: int = 52,
    words: int = 8000,
    length: int = 90,
    own_share: float = 0.25,
    exponent: float = 1.2,
) -> Drawn:
    """Texts of classes by Zipf's law (an exponent of 0 makes them even), each with words of its own, half of them those of its kin."""
    generator = generator_of(seed)
    common = zipf(words, 0.9)[generator.permutation(words)]
    kin = generator.dirichlet(np.full(words, 0.02), size=KINSHIPS)
    own = 0.5 * kin[generator.integers(0, KINSHIPS, classes)] + 0.5 * generator.dirichlet(np.full(words, 0.01), classes)
    y = generator.choice(classes, rounds, p=zipf(classes, exponent))
    y[generator.permutation(rounds)[:classes]] = np.arange(classes)  # no class without rows
    lengths = np.maximum(10, length * np.exp(0.5 * generator.normal(size=rounds) - 0.12)).astype(np.int64)
    shares = np.clip(generator.beta(2.0, 2.0 / own_share - 2.0, size=rounds), 0.03, 0.9)
    owned = generator.binomial(lengths, shares)
    rows = [np.repeat(np.arange(rounds), lengths - owned)]
    columns = [_words(common, len(rows[0]), generator)]
    for label in range(classes):
        mine = np.flatnonzero(y == label)
        rows.append(np.repeat(mine, owned[mine]))
        columns.append(_words(own[label], len(rows[-1]), generator))
    places = np.unique(np.concatenate(rows) * words + np.concatenate(columns))
    ones = np.ones(len(places), dtype=np.float32)
    return sparse(scipy.sparse.csr_matrix((ones, (places // words, places % words)), shape=(rounds, words))), y


def _words(chances: NDArray[np.float64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    sums = np.cumsum(chances)
    drawn: NDArray[np.int64] = np.searchsorted(sums, generator.random(count) * sums[-1])
    return np.clip(drawn, 0, len(sums) - 1)


titles = partial(texts, classes=60, words=6000, length=11, own_share=0.55, exponent=1.0)


def hashed(make: Maker, columns: int, rounds: int, seed: int) -> Drawn:
    """Words that share so many columns."""
    X, y = make(rounds, seed)
    matrix = scipy.sparse.csr_matrix((X.data, X.indices % columns, X.indptr), shape=(len(y), columns))
    return sparse(matrix), y


def heavy_topics(rounds: int, seed: int) -> Drawn:
    """The topics with counts whose logarithms deviate by 1.5 more."""
    X, y = topics(rounds, seed)
    rows = sparse(X)
    rows.data[:] *= np.exp(1.5 * np.random.default_rng([82, seed]).normal(size=len(rows.data)))
    return rows, y


def small_topics(rounds: int, seed: int) -> Drawn:
    """The topics in their 200 most frequent words."""
    X, y = topics(rounds, seed)
    return sparse(X[:, np.sort(np.argsort(-(X > 0).sum(axis=0), kind="stable")[:200])]), y


def one_hot(rounds: int, seed: int, classes: int, columns: int, levels: int, features: int) -> Drawn:
    """So many columns with so many levels each, hashed; the class is the largest of sums of weights, and classes are uneven."""
    generator = generator_of(seed)
    weights = generator.normal(size=(columns, levels, classes))
    found = generator.choice(levels, (rounds, columns), p=zipf(levels, 0.7))
    scores = sum(weights[column, found[:, column]] for column in range(columns)) - 0.8 * np.arange(classes)
    y = (scores + 0.5 * generator.gumbel(size=(rounds, classes))).argmax(axis=1)
    places = generator.integers(0, features, (columns, levels))[np.arange(columns), found]
    rows = np.repeat(np.arange(rounds), columns)
    ones = np.ones(len(rows), dtype=np.float32)
    return sparse(scipy.sparse.csr_matrix((ones, (rows, places.ravel())), shape=(rounds, features))), y


def real_valued(rounds: int, seed: int, classes: int = 10, features: int = 2000, filled: int = 40) -> Drawn:
    """Normal values in a few of many columns; the class is the largest of random linear functions."""
    generator = generator_of(seed)
    weights = generator.normal(size=(features, classes))
    places = np.argpartition(generator.random((rounds, features), dtype=np.float32), filled, axis=1)[:, :filled]
    rows = np.repeat(np.arange(rounds), filled)
    X = scipy.sparse.csr_matrix((generator.normal(size=rows.size), (rows, places.ravel())), shape=(rounds, features))
    return sparse(X), np.asarray(X @ weights).argmax(axis=1)


def named_levels(rounds: int, seed: int) -> Drawn:
    """One of a hundred levels, each of one class, and nothing else."""
    generator = generator_of(seed)
    levels = generator.integers(0, 100, rounds)
    ones = np.ones(rounds, dtype=np.float32)
    X = scipy.sparse.csr_matrix((ones, levels, np.arange(rounds + 1)), shape=(rounds, 100))
    return sparse(X), generator.integers(0, 10, 100)[levels]


_OF_NEWS = (NEWS,)
ALL = 18_846
UNEVEN = {
    "20 Newsgroups, binary": Recipe(partial(whole_news, True), GROUPS, ALL, _OF_NEWS),
    "20 Newsgroups, counts": Recipe(partial(whole_news, False), GROUPS, ALL, _OF_NEWS),
    "LSA of 20 Newsgroups, weighted": Recipe(partial(latent_news, True), GROUPS, 8000, _OF_NEWS),
    "LSA of 20 Newsgroups, white": Recipe(partial(latent_news, False), GROUPS, 8000, _OF_NEWS),
    "news, 2,000 words kept dense": Recipe(partial(frequent_words, 2000), GROUPS, 6000, _OF_NEWS),
    "geo60: sizes 0.6^k": Recipe(partial(geometric, 0.6, True), GROUPS, 2140, _OF_NEWS),
    "geo75s: sizes 0.75^k, short": Recipe(partial(geometric, 0.75, True), GROUPS, 3600, _OF_NEWS),
    "geo75: sizes 0.75^k": Recipe(partial(geometric, 0.75, False), GROUPS, 3600, _OF_NEWS),
    "hier: merged groups": Recipe(hierarchy, 12, 7855, _OF_NEWS),
    "split52: split groups": Recipe(split_news, 49, 10_000, _OF_NEWS),
    "arrive: groups one after the other, mixed": Recipe(arriving, GROUPS, ALL, _OF_NEWS),
    "sorted groups": Recipe(sorted_news, GROUPS, 8000, _OF_NEWS),
    "hier, the largest class late": Recipe(largest_late, 12, 7855, _OF_NEWS),
    "one group against the others": Recipe(partial(two_classes, 1), 2, 8000, _OF_NEWS),
    "four groups against the others": Recipe(partial(two_classes, 4), 2, 8000, _OF_NEWS),
    "zipf52: texts, 52 uneven classes": Recipe(texts, 52, 9000),
    "zipf52h: the same, harder": Recipe(partial(texts, own_share=0.12), 52, 9000),
    "zipf52e: the same, easier": Recipe(partial(texts, words=15_000, own_share=0.5, exponent=1.4), 52, 9000),
    "even52: texts, 52 even classes": Recipe(partial(texts, exponent=0.0), 52, 9000),
    "titles: 60 classes, 11 words": Recipe(titles, 60, 15_000),
    "titles, hashed": Recipe(partial(hashed, titles, 1024), 60, 15_000),
    "many: texts, 300 uneven classes": Recipe(
        partial(texts, classes=300, words=15_000, length=60, own_share=0.5, exponent=0.8), 300, 20_000
    ),
    "topics, sparse, heavy-tailed": Recipe(heavy_topics, TOPICS, 8000),
    "topics, 200 words": Recipe(small_topics, TOPICS, 8000),
    "one-hot, hashed": Recipe(partial(one_hot, classes=8, columns=10, levels=50, features=4096), 8, 10_000),
    "one-hot, 48 columns": Recipe(partial(one_hot, classes=5, columns=6, levels=8, features=48), 5, 10_000),
    "real-valued, sparse": Recipe(real_valued, 10, 10_000),
    "a hundred levels": Recipe(named_levels, 10, 4000),
}
