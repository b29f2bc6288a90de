"""A kernel for any first-order rule, slowly: stored rows and coefficients as plain lists, kernel values by their formulas.

Specification: docs/explanation/algorithms-first-order.md#bandit-perceptron (f_i(x) = sum of z k(x', x) over what is stored), and for budgets
docs/how-to/kernels.md#what-it-costs and the text at the head of `onebit/spaces/kernel.py`.

A first-order rule knows of x only the scores and n = k(x, x). So the rule's own linear twin is posed the same question in one
dimension: x = [sqrt(n)] and W = s / sqrt(n) have those scores and that norm, and what it adds to W tells the coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .base import Array, Decided, Draw

Row = list[float]

NEGLIGIBLE = 1e-12  # the share of the scores below which a step is not stored


def kernel_value(kernel: str, x: Sequence[float], z: Sequence[float]) -> float:
    """k(x, z), by the formula of the kernel named."""
    name, _, number = kernel.partition(":")
    if name == "rbf":
        return math.exp(-float(number) * math.fsum((a - b) ** 2 for a, b in zip(x, z, strict=True)))
    inner = math.fsum(a * b for a, b in zip(x, z, strict=True))
    if name == "linear":
        return inner
    if name == "polynomial":
        return float((inner + 1.0) ** int(number))
    if number == "shorten":
        inner /= max(1.0, math.hypot(*x)) * max(1.0, math.hypot(*z))
    return 1.0 / (1.0 - inner / 2.0)


class Twin:
    """What `oracle` learns in the space of a kernel, with at most `budget` rows stored (None for any number).

    `radius` is that of a rule that keeps ||W|| within a ball; such an oracle is given none itself, since it does not see W.
    """

    def __init__(self, oracle: Any, kernel: str, budget: int | None = None, radius: float | None = None) -> None:
        self.oracle = oracle
        self.kernel = kernel
        self.budget = budget
        self.radius = radius
        self.heads = len(oracle.W)
        self.rows: list[Row] = []  # a new row takes the place of the one that gives way to it
        self.coefficients: list[list[float]] = []  # of each row, one for each head
        self.gone = 0
        self.shrunk = 1.0  # the product of all factors so far

    # ---- W as it is ----

    def scores(self, x: Array) -> list[float]:
        values = [self._value(row, x) for row in self.rows]
        return [
            math.fsum(own[head] * value for own, value in zip(self.coefficients, values, strict=True))
            for head in range(self.heads)
        ]

    def squared_norm(self) -> float:
        """||W||^2, from every pair of stored rows."""
        return math.fsum(
            sum(a * b for a, b in zip(first, second, strict=True)) * self._value(row, other)
            for first, row in zip(self.coefficients, self.rows, strict=True)
            for second, other in zip(self.coefficients, self.rows, strict=True)
        )

    # ---- the rule, in one dimension ----

    def decide(self, x: Array, draw: Draw) -> Decided:
        decided: Decided = self.oracle.decide(self._pose(x), draw)
        return decided

    def probabilities(self, x: Array) -> Array:
        chances: Array = self.oracle.probabilities(self._pose(x))
        return chances

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        self._learn(x, told, lambda posed: self.oracle.learn(posed, decided, told, draw))

    def decide_among(self, x: Array, draw: Draw, among: Sequence[int]) -> Decided:
        decided: Decided = self.oracle.decide_among(self._pose(x), draw, among)
        return decided

    def hear(
        self, x: Array, decided: Decided, told: int, draw: Draw, reward: float, among: Sequence[int], complete: bool
    ) -> None:
        self._learn(x, told, lambda posed: self.oracle.hear(posed, decided, told, draw, reward, among, complete))

    def _learn(self, x: Array, told: int, learn: Callable[[Array], None]) -> None:
        posed = self._pose(x)
        before = self.oracle.W[:, 0].copy()
        learn(posed)
        own = self._value(x, x)
        if own == 0.0:
            return
        change = ((self.oracle.W[:, 0] - before) / math.sqrt(own)).tolist()
        scores = self.scores(x)
        factor = 1.0
        if self.radius is not None and told >= 0:  # a wrong answer is no step
            added = math.fsum(c * (2.0 * s + c * own) for c, s in zip(change, scores, strict=True))
            length = math.sqrt(max(0.0, self.squared_norm() + added))
            factor = min(1.0, self.radius / length) if length > 0.0 else 1.0
        self._step([float(value) for value in x], [factor * c for c in change], factor, own, scores)

    def _pose(self, x: Array) -> Array:
        own = self._value(x, x)
        self.oracle.W = np.array([[score / math.sqrt(own) if own > 0.0 else 0.0] for score in self.scores(x)])
        return np.array([math.sqrt(own)])

    def _value(self, x: Sequence[float] | Array, z: Sequence[float] | Array) -> float:
        return kernel_value(self.kernel, [float(value) for value in x], [float(value) for value in z])

    # ---- what is stored ----

    def _step(self, x: Row, change: list[float], factor: float, own: float, scores: list[float]) -> None:
        negligible = max(map(abs, change)) * own <= NEGLIGIBLE * (1.0 + max(map(abs, scores)))
        new = not negligible and x not in self.rows
        crowded = new and self.budget is not None and len(self.rows) == self.budget
        if crowded:
            self.gone += 1
        self.shrunk *= factor
        self.coefficients = [[factor * c for c in row] for row in self.coefficients]
        if negligible:
            return
        if not new:
            self._grow(self.rows.index(x), 1.0, change)
        elif crowded:
            place = self._smallest()
            row, part = self.rows[place], self.coefficients[place]
            self.rows[place], self.coefficients[place] = x, change
            place = self._nearest(row, self.rows)
            self._grow(place, self._share(row, self.rows[place]), part)
        else:
            self.rows.append(x)
            self.coefficients.append(change)

    def _grow(self, place: int, share: float, change: list[float]) -> None:
        self.coefficients[place] = [a + share * b for a, b in zip(self.coefficients[place], change, strict=True)]

    def _smallest(self) -> int:
        """The first row, but for rounding, whose part ||c_i||^2 k(x_i, x_i) is the smallest."""
        parts = [
            sum(c * c for c in own) * self._value(row, row)
            for own, row in zip(self.coefficients, self.rows, strict=True)
        ]
        return next(place for place, part in enumerate(parts) if part <= min(parts) * (1.0 + 1e-9) + 1e-18)

    def _share(self, x: Row, row: Row) -> float:
        """What is left of phi(x) when it is projected onto another row."""
        return self._value(x, row) / self._value(row, row)

    def _nearest(self, x: Row, rows: list[Row]) -> int:
        """Where the projection loses least."""
        return max(range(len(rows)), key=lambda place: self._share(x, rows[place]) * self._value(x, rows[place]))
