"""Auto of 0.3 on sparse rows: a regression on the non-zeros of a row whatever their scale, with naive Bayes as one more feature.

Specification: docs/explanation/auto-03.md#sparse-rows. How naive Bayes counts, and the order of the updates, is written out here alone. Everything
is kept as tables of features by classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .base import Array, Decided, Draw, SlowTwin, greedy_distribution, greedy_label, softmax, worth
from .change import Change


class Oracle(SlowTwin):
    """A regression of right and wrong; x is a dense row whose zeros are absent."""

    LEARNS_OVER_ALL = True
    TAKES_REWARDS = True

    def __init__(self, classes: int, features: int) -> None:
        self.K = classes
        self.shape = (features, classes)
        self.n, self.m = np.zeros(features), np.zeros(features)
        self.B = self.R = 0.0
        self.change = Change(classes)
        self.start()

    def start(self) -> None:
        """What is forgotten where the stream has changed."""
        self.weight, self.A, self.G, self.H = (np.zeros(self.shape) for _ in range(4))
        self.E = self.t = self.c = 1.0
        self.Ac = 0.0
        self.N = np.zeros(self.K)

    @property
    def W(self) -> Array:
        return np.asarray(self.weight.T)

    def view(self, x: Array) -> tuple[npt.NDArray[np.intp], Array, Array, float]:
        """The places of the non-zeros, b, z, and the scale r of the row."""
        J = np.flatnonzero(x)
        size, n, m = np.abs(x[J]), self.n[J], self.m[J]
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

    def judged(self, x: Array) -> tuple[Array, Array, Array]:
        """s, q, and the opinion g of naive Bayes."""
        if not x.any():
            return np.zeros(self.K), np.zeros(self.K), np.zeros(self.K)
        J, b, z, _ = self.view(x)
        lam, L = self.E / self.t, float(b.sum())
        likely = b @ self.G[J] - L * np.log(1.0 + self.N * (self.R + 1.0) / (10.0 * (self.B + L)))
        g = softmax(likely / math.sqrt(L))
        s = z @ self.weight[J] + self.c * g
        q = (z**2) @ (1.0 / (lam + self.A[J])) + g**2 / (lam + self.Ac)
        return s, q, g

    def parts(self, x: Array, label: int, rival: int) -> tuple[Array, float]:
        """What each column adds to the lead of a class over another, and the constant; docs/explanation/auto-03.md#why-this-class."""
        total = np.zeros(len(x))
        if not x.any():
            return total, 0.0
        J, b, z, _ = self.view(x)
        L, g = float(b.sum()), self.judged(x)[2]
        heard = L * np.log(1.0 + self.N * (self.R + 1.0) / (10.0 * (self.B + L)))
        evidence = b * (self.G[J, label] - self.G[J, rival]) / math.sqrt(L)
        constant = (heard[rival] - heard[label]) / math.sqrt(L)
        # Of the two alone, the opinion is a hyperbolic tangent of half the evidence.
        D = float(evidence.sum()) + constant
        share = self.c * (g[label] + g[rival]) * (math.tanh(D / 2.0) / D if abs(D) > 1e-5 else 0.5)
        total[J] = z * (self.weight[J, label] - self.weight[J, rival]) + share * evidence
        return total, share * constant

    def index(self, x: Array, among: Sequence[int]) -> tuple[Array, Array]:
        """What is hoped of each candidate, and its score."""
        s, q, _ = (all_classes[list(among)] for all_classes in self.judged(x))
        beta = 2.0 * np.sqrt(self.E / self.t * q)
        h = int(np.argmax(s))
        hoped = np.minimum(s + beta, 1.0 - s[h] + 2.0 * beta[h])
        hoped[h] = s[h] + beta[h]
        return hoped, s

    def decide(self, x: Array, draw: Draw) -> Decided:
        return self.decide_among(x, draw, range(self.K))

    def decide_among(self, x: Array, draw: Draw, among: Sequence[int]) -> Decided:
        if len(among) == 1:
            return Decided(among[0], among[0])
        hoped, s = self.index(x, among)
        greedy = greedy_label(s, draw)
        note = min(1.0, max(0.0, float(s[greedy])))
        return Decided(label=among[greedy_label(hoped, draw)], greedy=among[greedy], note=note)

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

    def move(self, x: Array, a: int, right: bool, r: float, among: Sequence[int]) -> None:
        J, b, z, scale = self.view(x)
        s, q, g = self.judged(x)
        lam, L = self.E / self.t, float(b.sum())
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
        self.weight[J] += steps * z[:, None] / (lam + self.A[J])
        self.A[J] += evidence * (z**2)[:, None]
        self.c += steps[a] * g[a] / (lam + self.Ac)
        self.Ac += g[a] ** 2
        self.E += min(1.0, residual**2)
        self.t += 1.0
        self.B += L
        self.R += 1.0
        known = a if right else other if two else -1
        if known >= 0:
            self.N[known] += L
            self.H[J, known] += b * self.R / (10.0 * (self.n[J] + 1.0))
            self.G[J, known] = np.log(1.0 + self.H[J, known])
        self.n[J] += 1.0
        self.m[J] += (np.abs(x[J]) / scale - self.m[J]) / self.n[J]
