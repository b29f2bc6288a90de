"""Auto on sparse rows: a regression and a naive Bayes on the non-zeros of a row, and how common classes are, weighed by a logistic regression of the answers.

Specification: docs/explanation/auto-method.md#sparse-rows. How naive Bayes counts, and the order of the updates, is written out here alone. Everything
is kept as tables of features by classes, in the precision that is asked for; all sums are in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .base import Array, Decided, Draw, SlowTwin, greedy_distribution, greedy_label, softmax, worth
from .change import Change


class Oracle(SlowTwin):
    """x is a dense row whose zeros are absent."""

    LEARNS_OVER_ALL = True
    TAKES_REWARDS = True

    def __init__(self, classes: int, features: int, dtype: Any = np.float64) -> None:
        self.K = classes
        self.shape, self.dtype = (features, classes), dtype
        self.n, self.m = np.zeros(features, dtype), np.zeros(features, dtype)
        self.B = self.R = 0.0
        self.change = Change(classes)
        self.start()

    def start(self) -> None:
        """What is forgotten where the stream has changed."""
        self.weight, self.A, self.G, self.H = (np.zeros(self.shape, self.dtype) for _ in range(4))
        self.c, self.Ac, self.N = (np.zeros(self.K) for _ in range(3))
        self.E = self.rounds = 1.0
        self.t, self.P = np.array([1.0, 8.0, 0.0]), np.diag([1.0, 16.0, 0.1])
        self.lead = np.zeros(2)

    @property
    def W(self) -> Array:
        return np.asarray(self.weight.T)

    @property
    def shares(self) -> dict[str, float]:
        """The parts of the two in how far classes played led."""
        bayes = self.lead[0] / self.lead.sum() if self.lead.any() else 0.5
        return {"naive Bayes": bayes, "regression": 1.0 - bayes}

    def view(self, x: Array) -> tuple[npt.NDArray[np.intp], Array, Array, float]:
        """The places of the non-zeros, b, z, and the scale r of the row."""
        J = np.flatnonzero(x)
        size, n, m = np.abs(x[J]).astype(np.float64), self.n[J].astype(np.float64), self.m[J].astype(np.float64)
        known = n > 0
        if known.any():
            trust = n[known] / (n[known] + 1.0)
            r1 = float((trust * size[known] / m[known]).sum() / trust.sum())
        else:
            r1 = float(size.mean())
        v = size / r1
        u = v * (n + 1.0) / (n * m + v)
        b = 1.25 * u / (1.0 + u / 4.0)
        return J, b, np.sign(x[J]) * b / np.linalg.norm(b), r1 * float(u.mean())

    def heard(self, b: Array) -> Array:
        """The logarithm of one more than the length of the rows in which each class was right, in units of ten of usual length, this row included."""
        return np.asarray(np.log(1.0 + self.N * (self.R + 1.0) / (10.0 * (self.B + b.sum()))))

    def counted(self, J: npt.NDArray[np.intp], b: Array) -> float:
        """The length of what naive Bayes goes by: with two classes, of features that it knows."""
        return float(b[self.n[J] > 0].sum() if self.K == 2 else b.sum())

    def common(self, b: Array) -> Array:
        """How common the classes are, against what is usual in the rows that were right; 0 where a class was never right."""
        if not self.N.any():
            return np.zeros(self.K)
        h = self.heard(b)
        return np.where(self.N > 0.0, h - self.N @ h / self.N.sum(), 0.0)

    def judged(self, x: Array) -> tuple[Array, Array]:
        """The opinion g, the score s and how common it is, of every class, one below the other; the variances q of the scores."""
        if not x.any():
            return np.stack([np.zeros(self.K), 0.5 * self.c, np.zeros(self.K)]), np.zeros(self.K)
        J, b, z, _ = self.view(x)
        lam = self.E / self.rounds
        g = (b @ self.G[J] - self.counted(J, b) * self.heard(b)) / math.sqrt(b.sum())
        s = z @ self.weight[J] + 0.5 * self.c
        q = (z**2) @ (1.0 / (lam + self.A[J].astype(np.float64))) + 0.25 / (lam + self.Ac)
        return np.stack([g, s, self.common(b)]), q

    def parts(self, x: Array, label: int, rival: int) -> tuple[Array, float]:
        """What each column adds to the lead of a class over another, and the constant; docs/explanation/auto-method.md#why-this-class."""
        total, constant = np.zeros(len(x)), self.t[1] * 0.5 * (self.c[label] - self.c[rival])
        if not x.any():
            return total, constant
        J, b, z, _ = self.view(x)
        root = math.sqrt(b.sum())
        constants = self.t[2] * self.common(b) - self.t[0] * self.counted(J, b) * self.heard(b) / root
        total[J] = self.t[1] * z * (self.weight[J, label] - self.weight[J, rival])
        total[J] += self.t[0] * b * (self.G[J, label] - self.G[J, rival]) / root
        return total, constant + constants[label] - constants[rival]

    def index(self, x: Array, among: Sequence[int]) -> tuple[Array, Array]:
        """What is hoped of each candidate, and what is believed."""
        f, q = (of_all[..., list(among)] for of_all in self.judged(x))
        p = softmax(self.t @ f)
        e = np.exp(np.minimum(30.0, self.t[1] * np.sqrt(self.E / self.rounds * q)))
        return p * e / (1.0 - p + p * e), p

    def decide(self, x: Array, draw: Draw) -> Decided:
        return self.decide_among(x, draw, range(self.K))

    def decide_among(self, x: Array, draw: Draw, among: Sequence[int]) -> Decided:
        if len(among) == 1:
            return Decided(among[0], among[0])
        hoped, p = self.index(x, among)
        greedy = greedy_label(p, draw)
        return Decided(label=among[greedy_label(hoped, draw)], greedy=among[greedy], note=float(p[greedy]))

    def probabilities(self, x: Array) -> Array:
        return self.probabilities_among(x, range(self.K), self.K)

    def probabilities_among(self, x: Array, among: Sequence[int], classes: int) -> Array:
        found = np.zeros(classes)
        found[list(among)] = greedy_distribution(self.index(x, among)[0])
        return found

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float | None = None) -> None:
        self.answer_among(x, decided, told, draw, worth(decided, told, reward), range(self.K), True)

    def answer_among(
        self, x: Array, decided: Decided, told: int, draw: Draw, reward: float, among: Sequence[int], complete: bool
    ) -> None:
        if not x.any():
            return
        if self.change.heard(told == decided.label):
            self.start()
            return
        self.move(x, decided.label, told == decided.label, reward, among)

    def correct(self, x: Array, truth: int, draw: Draw, among: Sequence[int]) -> None:
        if x.any():
            self.move(x, truth, True, 1.0, among)

    def weigh(self, f: Array, a: int, r: float, among: Sequence[int]) -> None:
        """One step of the trusts, by the gradient delta of log p_a and its expected square kappa."""
        p = dict(zip(among, softmax((self.t @ f)[list(among)]), strict=True))
        others = [i for i in among if i != a]
        rest = math.fsum(p[i] for i in others)
        delta = rest * f[:, a] - sum(p[i] * f[:, i] for i in others)
        kappa = p[a] / rest
        D = 1.0 + kappa * delta @ self.P @ delta
        step = (r - (1.0 - r) * kappa) * self.P @ delta / D
        self.lead += (np.abs(self.t * delta / rest)[:2] - self.lead) / min(200.0, self.rounds)
        self.P = self.P - kappa * np.outer(self.P @ delta, self.P @ delta) / D
        t, least = self.t + step, np.array([0.0, 0.0, -30.0 if self.K == 2 else 0.0])
        if t[2] < least[2]:
            t -= self.P[:, 2] / self.P[2, 2] * (t[2] - least[2])  # the most likely with the third there
        self.t = np.clip(t, least, 30.0)

    def move(self, x: Array, a: int, right: bool, r: float, among: Sequence[int]) -> None:
        J, b, z, scale = self.view(x)
        f, q = self.judged(x)
        s = f[1]
        self.weigh(f, a, r, among)
        lam, L = self.E / self.rounds, float(b.sum())
        steps, evidence = np.zeros(self.K), np.zeros(self.K)
        two = len(among) == 2
        other = next(i for i in among if i != a)
        targets = {a: r, other: 1.0 - r} if two else {a: r}
        for i, target in targets.items():
            e = target - s[i]
            e = 0.0 if (target == 1.0 and e < 0.0) or (target == 0.0 and e > 0.0) else e
            steps[i], evidence[i] = e / (1.0 + q[i]), 1.0
            if i == a:
                residual = e
        if right and not two:
            tau = min(0.5, 2.0 / len(among))
            for i in among:
                if i != a and s[i] > tau:
                    steps[i] = -(s[i] - tau) / (1.0 + q[i])
        self.weight[J] += steps * z[:, None] / (lam + self.A[J].astype(np.float64))
        self.A[J] += evidence * (z**2)[:, None]
        self.c += steps * 0.5 / (lam + self.Ac)
        self.Ac += evidence * 0.25
        self.E += min(1.0, residual**2)
        self.rounds += 1.0
        self.B += L
        self.R += 1.0
        known = a if right else other if two else -1
        if known >= 0:
            self.N[known] += L
            self.H[J, known] += b * self.R / (10.0 * (self.n[J].astype(np.float64) + 1.0))
            self.G[J, known] = np.log(1.0 + self.H[J, known].astype(np.float64))
        self.n[J] += 1.0
        self.m[J] += (np.abs(x[J]) / scale - self.m[J]) / self.n[J]
