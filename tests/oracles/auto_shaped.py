"""Principal components, and classes that are normal distributions on them, from their formulas (`auto.dense.basis`, `auto.dense.shaped`).

Specification: docs/explanation/auto-method.md#dense-rows.

What stands there in loops and pieces is here a decomposition of NumPy, of all rows at once: the means and scatters of classes are those of lists of rows.
What is stale there is stale here: a factor is that of the rows up to the round in which it was taken.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .base import Array


class Components(NamedTuple):
    """The principal components of some rows, with variances of mean one."""

    vectors: Array
    mean: Array
    variances: Array
    whitening: Array
    standardised: bool

    @classmethod
    def of(cls, rows: Array, number: int) -> Components:
        rows = rows.astype(np.float64)
        mean, variances = rows.mean(axis=0), rows.var(axis=0)
        variances = np.where(variances > 1e-12 * mean**2, variances, 0.0)
        varying = variances > 0.0
        standardised = bool(variances.sum() ** 2 < 0.1 * varying.sum() * (variances**2).sum())
        units = np.zeros(rows.shape[1])
        if varying.any():
            deviations = np.sqrt(variances[varying] if standardised else variances.sum() / varying.sum())
            units[varying] = np.minimum(1e30, 1.0 / deviations)
        _, singular, directions = np.linalg.svd((rows - mean) * units, full_matrices=False)
        found = np.zeros(number)
        found[: len(singular)] = singular[:number] ** 2 / len(rows)
        there = found > 1e-12 * found[0]
        usual = found[there].sum() / number if there.any() else 1.0
        vectors = np.zeros((number, rows.shape[1]))
        vectors[there] = directions[:number][there[: len(directions)]] * units / math.sqrt(usual)
        found = np.where(there, found / usual, 0.0)
        known = found > 1e-6 * found[0]
        whitening = np.zeros(number)
        whitening[known] = math.sqrt(0.5) / np.sqrt(known.sum() * found[known])
        return cls(vectors, mean, found, whitening, standardised)


class Place(NamedTuple):
    """A class as it is looked at: the factor of the covariance of when it was taken, log determinants, and where it is expected."""

    factor: Array
    logarithms: Array
    centre: Array


class SlowShaped:
    """Three members: the first 8, 24 and 64 components. All factors of a round are taken in it, as they are where components are few."""

    PREFIXES = (8, 24, 64)

    def __init__(self, heads: int, components: int, dtype: type, shared: bool) -> None:
        self.heads, self.components, self.dtype, self.shared = heads, components, dtype, shared
        self.logarithms, self.gradients = np.full(3, math.log(0.5)), np.zeros(3)
        self.begin()

    def begin(self) -> None:
        self.rows: list[Array] = []
        self.own: list[list[Array]] = [[] for _ in range(self.heads)]
        self.sum, self.sums = np.zeros(self.components), np.zeros((self.heads, self.components))
        self.k, self.next = 1.0, 0.0
        self.varying = np.zeros(self.components, dtype=bool)
        self.places: dict[int, Place] = {}  # -1: of the classes that were never right
        self.factored = np.zeros(self.heads)

    def shortened(self, z: Array) -> Array:
        z = z.astype(np.float64)
        length, farthest = float(np.linalg.norm(z)), 5.0 * math.sqrt(len(z))
        return z * (farthest / length) if length > farthest else z

    def distances(self, head: int, row: Array) -> Array:
        """The squared distances along the first components: 1, 2, and so on."""
        if not self.varying.any():
            return np.zeros(self.components)
        place = self.places[head if self.own[head] else -1]
        alive = np.flatnonzero(self.varying)
        along = np.zeros(self.components)
        along[alive] = np.linalg.solve(place.factor, (row - place.centre)[alive])
        return np.cumsum(along**2) / self.width(head)

    def width(self, head: int) -> float:
        return 1.0 + 1.0 / (len(self.own[head]) + self.k)

    def logarithm(self, head: int, end: int) -> float:
        """Of the determinant of the covariance of the first components."""
        if not self.varying[:end].any():
            return 0.0
        place = self.places[head if self.own[head] else -1]
        return float(place.logarithms[end - 1] + self.varying[:end].sum() * math.log(self.width(head)))

    def place(self, covariance: Array, centre: Array) -> Place:
        alive = np.flatnonzero(self.varying)
        factor: Array = np.linalg.cholesky(covariance[np.ix_(alive, alive)]).astype(np.float64)
        logarithms = np.zeros(self.components)
        logarithms[alive] = 2.0 * np.log(np.diag(factor))
        return Place(factor, np.cumsum(logarithms), centre)

    def score(self, z: Array, about: Array) -> tuple[Array, Array]:
        """The scores and variances, a row for each member; NaN for classes that it is not about."""
        row, heads = self.shortened(z), [head for head in range(self.heads) if about[head]]
        raw, distance = np.full((3, self.heads), np.nan), np.full((3, self.heads), np.nan)
        along = {head: self.distances(head, row) for head in heads}
        behind: set[int] = set()
        begin = 0
        for shape, prefix in enumerate(self.PREFIXES):
            end = min(prefix, self.components)
            for head in heads:
                new = 1.5 * (end - begin)
                if head not in behind:
                    new = along[head][end - 1] - (along[head][begin - 1] if begin else 0.0)
                distance[shape, head] = new + (distance[shape - 1, head] if shape else 0.0)
                raw[shape, head] = -0.5 * (distance[shape, head] + self.logarithm(head, end))
            far = np.nanmax(raw[shape]) - 12.0 / math.exp(self.logarithms[2])
            behind |= {head for head in heads if raw[shape, head] < far}
            begin = end
        trusts = np.exp(self.logarithms)[:, None]
        counts = np.array([len(rows) for rows in self.own])
        self.said = trusts * raw
        return self.said, trusts**2 * distance / (counts + self.k)

    def learn(self, z: Array, label: int, right: bool, beliefs: Array, head: int) -> None:
        """`head` is the class that is now known to be right, or -1."""
        for shape in range(3):
            said = np.where(beliefs[shape] > 0.0, self.said[shape], 0.0)
            chance = beliefs[shape, label]
            gradient = float(beliefs[shape] @ (said[label] - said))
            gradient *= 1.0 if right else -chance / max(1e-3, 1.0 - chance)
            gradient = min(2.0, max(-2.0, gradient))
            self.gradients[shape] += gradient**2
            step = 0.3 * gradient / math.sqrt(4.0 + self.gradients[shape])
            self.logarithms[shape] = min(0.5, max(-4.0, self.logarithms[shape] + step))
        row = self.shortened(z)
        self.rows.append(row)
        self.sum += row if len(self.rows) <= 2000 else 0.0
        if head >= 0:
            self.own[head].append(row)
            self.sums[head] += row
        if len(self.rows) >= self.next:
            self.next = len(self.rows) * (1.1 if len(self.rows) < 300 else 1.2) + 1.0
            self.measure()
            self.places[-1] = self.place(self.total, self.mean)
            for known in range(self.heads):
                if self.own[known]:
                    self.factorise(known)
        elif head >= 0:
            grown = not self.shared and len(self.own[head]) >= 1.5 * self.factored[head]
            if grown or head not in self.places:
                self.factorise(head)
            self.places[head] = self.places[head]._replace(centre=self.centre(head))

    @property
    def mean(self) -> Array:
        return self.sum / min(2000, len(self.rows))

    def centre(self, head: int) -> Array:
        count = len(self.own[head])
        return np.asarray((self.sums[head] + self.k * self.mean) / (count + self.k))

    def scatter(self, head: int) -> Array:
        if not self.own[head]:
            return np.zeros((self.components, self.components))
        away = np.array(self.own[head]) - np.mean(self.own[head], axis=0)
        return away.T @ away  # type: ignore[no-any-return]

    def measure(self) -> None:
        """T, M and k."""
        rows, size = np.array(self.rows[:2000]), self.components
        covariance = (rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0)) / len(rows)
        variances = np.diag(covariance) * (1.0 + 1e-4)
        self.total = covariance * len(rows) / (len(rows) + size)
        np.fill_diagonal(self.total, variances)
        prior, freedom = size / 2 + 2.0, sum(max(0, len(rows) - 1) for rows in self.own)
        scatter = sum((self.scatter(head) for head in range(self.heads)), np.zeros((size, size)))
        self.within = (scatter + prior * self.total) / (freedom + prior) + 1e-4 * np.diag(variances)
        self.varying = variances > 1e-12
        trace, within = variances.sum(), np.diag(self.within)[self.varying].sum()
        self.k = within / max(0.05 * trace, trace - within) if within > 0.0 else 1.0

    def factorise(self, head: int) -> None:
        count, size = len(self.own[head]), self.components
        covariance = self.within if self.shared else (size * self.within + self.scatter(head)) / (size + count)
        self.places[head] = self.place(covariance, self.centre(head))
        self.factored[head] = count
