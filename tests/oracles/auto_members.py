"""What the new `auto` knows of dense rows, and its members that are linear or clusters, one class at a time.

Specification: docs/explanation/auto-method.md#dense-rows. What is kept is of the precision of the rows (`kind`), sums are of NumPy. The members on principal components
that have a shape are in `auto_shaped.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onebit.auto.dense.views import COSINE

from .auto_shaped import Components
from .base import Array

HALF = math.sqrt(0.5)


class ColumnStatistics:
    """Means of columns after every row, deviations now and then."""

    def __init__(self, features: int, kind: Any) -> None:
        self.features, self.kind = features, kind
        self.begin()

    def begin(self) -> None:
        self.n, self.next, self.varying, self.distances = 0, 0, 0, 0.0
        self.mu, self.M2 = np.zeros(self.features), np.zeros(self.features)
        self.mean, self.inverse = np.zeros(self.features, self.kind), np.zeros(self.features, self.kind)

    def see(self, x: Array) -> bool:
        """Count a row in; whether deviations were taken anew."""
        self.n += 1
        away = x.astype(np.float64) - self.mu
        self.distances += float(away @ away) * (self.n - 1) / self.n
        self.mu = self.mu + away / self.n
        self.M2 = self.M2 + away * (x - self.mu)
        self.mean = self.mu.astype(self.kind)
        if self.n < self.next:
            return False
        self.next = self.n + (1 if self.n < 64 else max(16, self.n // 32))
        varies = 1e-12 * self.n * self.mu**2 < self.M2
        self.varying = int(varies.sum())
        magnified = np.minimum(1e30, np.sqrt(self.n / np.where(varies, self.M2, 1.0)))
        self.inverse = np.where(varies, magnified, 0.0).astype(self.kind)
        return True

    def units(self, x: Array) -> Array:
        """The columns in units of their deviations, no farther out than a thousand of them."""
        return np.clip((x - self.mean) * self.inverse, -1000.0, 1000.0)

    def plain(self, x: Array) -> Array:
        return np.clip(self.units(x), -5.0, 5.0)

    def directed(self, x: Array) -> Array:
        length = float(np.linalg.norm(x.astype(np.float64)))
        return x * (HALF / length) if length > 0.0 else np.zeros(self.features)

    def centred(self, x: Array) -> Array:
        if self.n == 0:
            return np.zeros(self.features)
        usual = math.sqrt(self.distances / self.n) if self.distances > 0.0 else 1.0
        return shortened((x - self.mean).astype(np.float64) * HALF / usual)

    def standardised(self, x: Array) -> Array:
        return shortened(self.plain(x).astype(np.float64) * HALF / math.sqrt(max(1, self.varying)))


def shortened(row: Array) -> Array:
    """No more than 3 times as long as usual."""
    length = float(np.linalg.norm(row))
    return row * (3.0 * HALF / length) if length > 3.0 * HALF else row


class SlowWaves:
    """Cosines of a row, in turns, by the polynomial of the product: `test_waves_are_cosines` says how near that is."""

    def __init__(self, columns: int, number: int, kind: Any, generator: np.random.Generator) -> None:
        self.g = (generator.normal(size=(number, columns)) / (2.0 * math.pi)).astype(kind)
        self.phases = generator.random(number).astype(kind)

    def of(self, row: Array, factor: float) -> Array:
        turns = (self.g @ row.astype(self.g.dtype)) * self.g.dtype.type(factor) + self.phases
        turns = turns - np.floor(turns + 0.5)
        cosines = np.polynomial.polynomial.polyval(turns.astype(np.float64) ** 2, COSINE)
        return np.asarray(cosines / math.sqrt(len(turns)))


class SlowLinear:
    """A member with scores w_i.z of covariance P_i (a matrix, or its diagonal)."""

    def __init__(self, classes: int, size: int, full: bool, kind: Any, follows: bool = False) -> None:
        self.classes, self.size, self.full, self.kind, self.follows = classes, size, full, kind, follows
        self.repairs = 0
        self.forget()

    def forget(self) -> None:
        self.w = np.zeros((self.classes, self.size), self.kind)
        one = 100.0 * (np.eye(self.size) if self.full else np.ones(self.size))
        self.P = [one.astype(self.kind) for _ in range(self.classes)]
        self.B = np.full(self.classes, 100.0)
        self.steps = np.zeros(self.classes, np.int64)  # that took something off P
        self.surprises = 0  # that were below the threshold, and drawn

    def see(self, view: Array) -> Array:
        """Scores of a row, to which the constant is added."""
        self.z = np.append(view, HALF).astype(self.kind)
        self.along: dict[int, Array] = {}
        return self.w.astype(np.float64) @ self.z.astype(np.float64)

    def q(self, i: int) -> float:
        if i not in self.along:
            self.along[i] = self.P[i] @ self.z if self.full else self.P[i] * self.z
        return max(0.0, float(self.along[i] @ self.z))

    def learnt_q(self, i: int) -> float:
        """Whenever a variance is asked for in learning, its bound moves."""
        self.B[i] = max(self.q(i), (1 - 1 / min(1000, max(100, 10 * len(self.B)))) * self.B[i])
        return self.q(i)

    def learn(self, p: Array, A: Sequence[int], a: int, right: bool, fine: float, u: float) -> None:
        """`p` is over the classes A; with u < c[j] a class j moves, 1/c[j] times as far."""
        rest = float(sum(p[j] for j in A if j != a)) + 1e-300
        h = {j: -p[j] if right else -(0.9 * p[j] / rest + 0.1 / (len(A) - 1)) for j in A if j != a}
        h[a] = rest if right else 1.0
        most = {j: abs(h[j]) * (1.0 if right else p[a]) for j in A}

        def chance(j: int, variance: float) -> float:
            """That j moves."""
            if most[j] * variance >= fine:
                return 1.0
            return most[j] * variance / fine if most[j] >= 0.1 else 0.0

        likely = [j for j in A if chance(j, self.B[j]) > u]
        if not likely:
            return
        if right and rest < 0.1 and (rest**2 * self.B[a] < 1e-4 or rest**2 * self.learnt_q(a) < 1e-4):
            return
        c = {j: chance(j, self.learnt_q(j)) for j in A if j == a or j in likely}
        c[a] = max(c.values())
        moving = [j for j in A if c.get(j, 0.0) > u]
        if not moving:
            return
        still = float(sum(p[j] for j in A if j not in moving))
        steep = {j: h[j] * self.q(j) for j in moving}
        spread = sum(h[j] * steep[j] for j in moving)
        tau = self.length(p, a, right, moving, steep, spread, still)
        e = {j: p[j] * math.exp(min(600.0, tau * steep[j])) for j in moving}
        others = max(1e-300, still + sum(e[j] for j in moving if j != a))
        total = e[a] + others
        d = {j: others / total if j == a else e[j] / total for j in moving}
        k = {j: e[a] / others * d[j] ** 2 for j in moving}
        evidence = sum(k[j] * self.q(j) for j in moving)
        for j in moving:
            if self.full:
                k[j] /= 1.0 + evidence
                k[j] /= 1.0 - k[j] * self.q(j)
            if c[j] < 1.0 or max(k[j], abs(tau * h[j])) * self.q(j) >= fine:
                self.surprises += c[j] < 1.0
                curvature = k[j] / c[j]
                self.move(j, tau * h[j] / c[j], curvature if curvature * self.q(j) >= 0.1 * fine else 0.0)

    def length(
        self, p: Array, a: int, right: bool, moving: list[int], steep: dict[int, float], spread: float, still: float
    ) -> float:
        """Tau."""
        if right and p[a] >= 0.5:
            mean = sum(p[j] * steep[j] for j in moving)
            bend = (sum(p[j] * steep[j] ** 2 for j in moving) - mean**2) / spread
            if bend < 0.05:
                return float(1.0 / (1.0 + bend))
        low, high = (0.0, 1.0) if right else (-float(p[a]), 0.0)
        for _ in range(12):
            tau = 0.5 * (low + high)
            e = {j: p[j] * math.exp(min(600.0, tau * steep[j])) for j in moving}
            others = max(1e-300, still + sum(e[j] for j in moving if j != a))
            slope = steep[a] - sum(e[j] * steep[j] for j in moving if j != a) / others
            slope *= (others if right else -e[a]) / (e[a] + others)
            if slope > tau * spread:
                low = tau
            else:
                high = tau
        return 0.5 * (low + high)

    def move(self, j: int, change: float, curvature: float) -> None:
        v, q = self.along[j], self.q(j)
        self.w[j] += self.kind(change) * v
        if curvature > 0.0 and self.full:
            self.P[j] = self.P[j] - self.kind(curvature / (1.0 + curvature * q)) * np.outer(v, v)
            if not (np.diag(self.P[j]) > 0.0).all():
                self.P[j] = np.diag(np.clip(np.diag(self.P[j]), 1e-6, 100.0)).astype(self.kind)
                self.repairs += 1
            self.steps[j] += 1
            if self.follows and self.steps[j] % 8 == 0:
                known = np.diag(self.P[j]) < 100.0
                self.P[j] = self.P[j] + np.diag(np.where(known, 0.1, 0.0)).astype(self.kind)
                self.B[j] += 0.1
        elif curvature > 0.0:
            self.P[j] = self.P[j] / (1.0 + self.kind(curvature) * v * self.z)


class SlowClusters:
    """Classes that are normal distributions with one variance for each column."""

    def __init__(self, classes: int, columns: ColumnStatistics) -> None:
        self.columns, self.shape = columns, (classes, columns.features)
        self.forget()

    def forget(self) -> None:
        self.m, self.n = np.zeros(self.shape, self.columns.kind), np.zeros(self.shape[0])
        self.W, self.freedom = np.zeros(self.shape[1]), 0
        self.centre, self.V, self.strength = np.zeros(self.shape), np.ones(self.shape), np.ones(self.shape)
        self.worked = np.zeros(self.shape[0])
        self.part()

    def part(self) -> None:
        """Part variances, and work out every class."""
        within = np.minimum(1.0, (self.W * self.columns.inverse.astype(np.float64) ** 2 + 3.0) / (self.freedom + 3.0))
        between = np.maximum(1.0 - within, 0.01)
        self.w = 1.0 - between
        self.k = self.w / between
        for i in range(self.shape[0]):
            self.work_out(i)

    def work_out(self, i: int) -> None:
        self.strength[i] = self.n[i] + self.k
        self.V[i] = self.w * (1.0 + 1.0 / self.strength[i])
        away = (self.m[i].astype(np.float64) - self.columns.mean) * self.columns.inverse
        self.centre[i] = (self.n[i] / self.strength[i] * away).astype(self.columns.kind)
        self.worked[i] = self.n[i]
        self.alive = self.columns.inverse > 0.0

    def judge(self, x: Array) -> tuple[Array, Array]:
        if self.columns.n < 2:
            return np.zeros(self.shape[0]), np.zeros(self.shape[0])
        square = (self.columns.units(x) - self.centre) ** 2
        s = -0.5 * ((square / self.V + np.log(self.V)) * self.alive).sum(axis=1)
        return s, (square / (self.V * self.strength) * self.alive).sum(axis=1)

    def hear(self, x: Array, i: int) -> None:
        away, n = (x - self.m[i]).astype(np.float64), self.n[i]
        self.W = self.W + away**2 * n / (n + 1.0)
        self.freedom += 1 if n > 0 else 0
        self.m[i] += (away / (n + 1.0)).astype(self.m.dtype)
        self.n[i] += 1.0
        if self.n[i] > 1.02 * self.worked[i]:
            self.work_out(i)


class Found(NamedTuple):
    """What a basis in the making is said to have found by the product: how often, and the vectors, whose signs are arbitrary."""

    generation: int
    vectors: Array


class SlowBasis:
    """The rows kept, and their principal components.

    No formula says how many rounds the work on them takes, nor which signs they have: `ask` says it, of the product (or of nobody: then
    they are there at once).
    """

    STAGES = (64, 256, 1024)

    def __init__(self, features: int, kind: Any) -> None:
        self.kind, self.most = kind, max(1, min(1024, 2**21 // features))
        self.number = min(64, features, self.most)
        self.now = Components(
            np.zeros((self.number, features)), np.zeros(features), np.zeros(self.number), np.zeros(self.number), False
        )
        self.generation = 0
        self.ask: Any = None
        self.forget()

    def forget(self) -> None:
        """The components in use stay."""
        self.rows: list[Array] = []
        self.heard: list[tuple[int, bool]] = []
        self.stage, self.used, self.waited = 0, 0, 0

    def keep(self, x: Array, a: int, right: bool) -> None:
        if len(self.rows) < self.most:
            self.rows.append(x)
            self.heard.append((a, right))

    def work(self) -> bool:
        """Whether there are new components."""
        if self.used == 0:
            if self.stage == 3 or len(self.rows) < min(self.STAGES[self.stage], self.most):
                return False
            self.used, self.waited = len(self.rows), 0
            while self.stage < 3 and self.used >= min(self.STAGES[self.stage], self.most):
                self.stage += 1
        self.waited += 1
        found = self.ask() if self.ask is not None else Found(self.generation + 1, self.now.vectors)
        if found.generation == self.generation:
            return False
        assert found.generation == self.generation + 1
        self.now = self.components(np.array(self.rows[: self.used], dtype=np.float64))
        signs = np.where((self.now.vectors * found.vectors).sum(axis=1) < 0.0, -1.0, 1.0)
        self.now = self.now._replace(vectors=self.now.vectors * signs[:, None])
        self.generation, self.used = self.generation + 1, 0
        return True

    def components(self, rows: Array) -> Components:
        """Those of these rows; where there are fewer than rows and columns, by four iterations from those in use."""
        exact = Components.of(rows, self.number)
        if self.number == rows.shape[1] or len(rows) <= self.number:
            return exact
        variances = rows.var(axis=0)
        varies = variances > 1e-12 * exact.mean**2
        deviations = np.sqrt(variances[varies] if exact.standardised else variances[varies].mean())
        units = np.zeros(rows.shape[1])
        units[varies] = np.minimum(1e30, 1.0 / deviations)
        A = (rows - exact.mean) * units
        start = np.zeros((self.number, rows.shape[1]))
        start[:, varies] = self.now.vectors[:, varies] * deviations
        for index in np.flatnonzero(self.now.variances == 0.0):
            start[index] = A[index * len(rows) // self.number]
        Q = np.linalg.qr(start.T)[0]
        for _ in range(4):
            Q = np.linalg.qr(A.T @ (A @ Q))[0]
        _, singular, turned = np.linalg.svd(A @ Q, full_matrices=False)
        found = singular**2 / len(rows)
        usual = found.mean()
        known = found > 1e-6 * found[0]
        whitening = np.where(known, HALF / np.sqrt(known.sum() * found / usual), 0.0)
        vectors = turned @ Q.T * units / math.sqrt(usual)
        return Components(vectors, exact.mean, found / usual, whitening, exact.standardised)

    def project(self, x: Array) -> Array:
        away = (x - self.now.mean.astype(self.kind)).astype(np.float64)
        return np.asarray((self.now.vectors.astype(self.kind) @ away).astype(self.kind))

    def whitened(self, z: Array) -> Array:
        return shortened((z * self.now.whitening).astype(np.float64))
