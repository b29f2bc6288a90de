"""Auto of 0.3 on dense rows: softmax members on views of x and one of clusters, weighed by what they gave to what was heard.

Specification: docs/explanation/auto-03.md#dense-rows. Five things stand there in short, and are written out here: a class
is left alone below 1e-4 (not 1e-5), by its evidence given that of the others where matrices are full; a right answer with
rest^2 q_a < 1e-7 leaves a member alone; with two classes a wrong answer tells G that the other was right; after 1,000 rows the
variances of columns, and what G makes of them, are taken anew only every 16 rows; and rows whose scales differ by orders of magnitude
are divided by them (`Scales`), but for A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from .base import Array, Decided, Draw, SlowTwin, greedy_distribution, greedy_label, softmax, worth
from .change import Change

HALF = math.sqrt(0.5)


class Columns:
    """What is known of the columns: n, mu, M2 and the squared distances from the mean."""

    def __init__(self, features: int) -> None:
        self.features = features
        self.begin()

    def begin(self) -> None:
        self.n, self.rs = 0, 0.0
        self.mu, self.M2, self.tv = np.zeros(self.features), np.zeros(self.features), np.zeros(self.features)
        self.alive = np.zeros(self.features, dtype=bool)

    @property
    def anew(self) -> bool:
        """Whether variances are taken anew after this row."""
        return self.n <= 1000 or self.n % 16 == 0

    def see(self, x: Array) -> None:
        self.n += 1
        away = x - self.mu
        self.rs += float(away @ away) * (self.n - 1) / self.n
        self.mu = self.mu + away / self.n
        self.M2 = self.M2 + away * (x - self.mu)
        if self.anew:
            self.tv = self.M2 / self.n
            self.alive = (self.n > 1) & (self.tv > 1e-12 * self.mu**2)

    def standard(self, x: Array) -> tuple[Array, int]:
        """u, and how many columns are alive."""
        u = np.zeros(len(x))
        alive = np.flatnonzero(self.alive)
        u[alive] = np.clip((x[alive] - self.mu[alive]) / np.sqrt(self.tv[alive]), -5.0, 5.0)
        return u, max(1, len(alive))


class Scales:
    """The scales of rows: the mean of |x_j| over the usual sizes of columns. If the logarithms of the first 32 deviate by more than 2,
    rows are divided by them from then on, and everything begins anew.
    """

    def __init__(self, features: int) -> None:
        self.sizes, self.seen = np.zeros(features), 0
        self.logarithms: list[float] = []
        self.divides = False

    def scale(self, x: Array) -> float:
        known = self.sizes > 0.0
        if not x[known].any():
            return float(np.abs(x).mean())
        return float((np.abs(x[known]) / self.sizes[known]).mean())

    def taken(self, x: Array) -> Array:
        return x / self.scale(x) if self.divides and x.any() else x

    def watch(self, x: Array) -> bool:
        """Look at a row; whether it has just been settled that rows are divided."""
        if not x.any() or (self.seen >= 32 and not self.divides):
            return False
        self.seen += 1
        self.logarithms.append(math.log(self.scale(x)))
        self.sizes = self.sizes + (np.abs(x) / self.scale(x) - self.sizes) / self.seen
        settled = self.seen == 32 and float(np.std(self.logarithms)) > 2.0
        self.divides |= settled
        return settled


class Softmax:
    """A member with scores w_i.z of covariance P_i (a matrix, or its diagonal)."""

    def __init__(self, classes: int, size: int, full: bool) -> None:
        self.shape, self.full = (classes, size), full
        self.forget()

    def forget(self) -> None:
        classes, size = self.shape
        self.w = np.zeros(self.shape)
        self.P = np.array([100.0 * (np.eye(size) if self.full else np.ones(size)) for _ in range(classes)])

    def along(self, z: Array) -> Array:
        """P_i z for every class."""
        return np.asarray(self.P @ z if self.full else self.P * z)

    def judge(self, z: Array) -> tuple[Array, Array]:
        return self.w @ z, np.maximum(0.0, self.along(z) @ z)

    def learn(self, z: Array, a: int, right: bool) -> None:
        s, q = self.judge(z)
        K, p = len(s), softmax(s)
        others = np.arange(K) != a
        rest = max(1e-30, float(p[others].sum()))
        if right and rest**2 * q[a] < 1e-7:
            return
        if right:
            h, low, high = -p, 0.0, 1.0
            h[a] = rest
        else:
            h, low, high = -(0.9 * p / rest + 0.1 / (K - 1)), -float(p[a]), 0.0
            h[a] = 1.0
        H = float(h**2 @ q)

        def at(tau: float) -> tuple[Array, float]:
            moved = s + tau * q * h
            e = np.exp(moved - moved.max())
            return e, float(e[others].sum())

        for _ in range(12):
            tau = 0.5 * (low + high)
            e, ta = at(tau)
            F = float(ta * q[a] * h[a] - (e * q * h)[others].sum()) / (ta + e[a])
            if not right:
                F = -F * e[a] / ta
            if F - tau * H > 0.0:
                low = tau
            else:
                high = tau
        tau = 0.5 * (low + high)
        e, ta = at(tau)
        c = e / (ta + e[a])
        c[a] = ta / (ta + e[a])
        g = e[a] / ta * c**2
        total = float(g @ q)
        for i, v in enumerate(self.along(z)):
            evidence = g[i] / (1.0 + total - g[i] * q[i]) if self.full else g[i]
            if evidence * q[i] < 1e-4 and abs(tau * h[i]) * q[i] < 1e-4:
                continue
            self.w[i] += tau * h[i] * v
            if self.full:
                self.P[i] -= g[i] / (1.0 + total) * np.outer(v, v)
            else:
                self.P[i] /= 1.0 + g[i] * self.P[i] * z**2


class Clusters:
    """Member G."""

    def __init__(self, classes: int, columns: Columns) -> None:
        self.columns, self.shape = columns, (classes, len(columns.mu))
        self.forget()

    def forget(self) -> None:
        self.m, self.counts = np.zeros(self.shape), np.zeros(self.shape[0])
        self.gw, self.dof = np.zeros(self.shape[1]), 0
        self.part()

    def part(self) -> None:
        """Part the variances of columns into those within classes and those between them."""
        tv = self.columns.tv
        self.within = np.minimum(tv, (self.gw + 3.0 * tv) / (self.dof + 3.0))
        self.between = np.maximum(tv - self.within, 0.01 * tv)
        self.within = tv - self.between

    def judge(self, x: Array) -> tuple[Array, Array]:
        s, q = np.zeros(self.shape[0]), np.zeros(self.shape[0])
        if self.columns.n < 2:
            return s, q
        alive = np.flatnonzero(self.columns.alive)
        tv, mu, x = self.columns.tv[alive], self.columns.mu[alive], x[alive]
        within = self.within[alive]
        k = within / self.between[alive]
        for i, n in enumerate(self.counts):
            away = x - (n * self.m[i, alive] + k * mu) / (n + k)
            V = within * (1.0 + 1.0 / (n + k))
            s[i] = -0.5 * float((away**2 / V + np.log(V / tv)).sum())
            q[i] = float((away**2 / (V * (n + k))).sum())
        return s, q

    def parts(self, x: Array, label: int) -> Array:
        """The logarithm of the density of each value in a class, over that of a usual one, column by column."""
        n, k, tv = self.counts[label], self.within / self.between, self.columns.tv
        V = self.within * (1.0 + 1.0 / (n + k))
        middle = (n * self.m[label] + k * self.columns.mu) / (n + k)
        return np.asarray(norm.logpdf(x, middle, np.sqrt(V)) + 0.5 * np.log(2.0 * math.pi * tv))

    def hear(self, x: Array, label: int) -> None:
        n, away = self.counts[label], x - self.m[label]
        if n > 0:
            self.gw = self.gw + away**2 * n / (n + 1.0)
            self.dof += 1
        self.m[label] += away / (n + 1.0)
        self.counts[label] += 1.0


class Oracle(SlowTwin):
    """Play what may be best to the mixture of all members."""

    LEARNS_OVER_ALL = True
    TAKES_REWARDS = True

    def __init__(self, classes: int, features: int, *, seed: int = 0) -> None:
        self.classes = classes
        full = classes * (features + 1) ** 2 <= 1e6
        self.views = ["A", "B", "Z"] if full else ["A", "Z"]
        self.members = [Softmax(classes, features + 1, full) for _ in self.views]
        self.loss = [0.0] * (len(self.views) + 1)
        if full and classes <= 50:
            self.D = min(400, math.floor(math.sqrt(5e5 / classes)))
            generator = np.random.default_rng(seed)
            self.waves = generator.normal(size=(self.D, features))
            self.phases = 2.0 * math.pi * generator.random(self.D)
            self.views.append("R")
            self.members.append(Softmax(classes, self.D + 1, True))
            self.loss = [0.0, 0.0, 0.0, 3.0, 0.0]
        self.first_loss = list(self.loss)
        self.columns, self.scales = Columns(features), Scales(features)
        self.clusters = Clusters(classes, self.columns)
        self.change = Change(classes)
        self.beginnings = 0
        each = [f"members.{place}.{name}" for place in range(len(self.members)) for name in ("w", "P")]
        self.BY_CLASS = [*each, "clusters.m", "clusters.counts"]

    def only(self, among: Sequence[int]) -> Oracle:
        part: Oracle = super().only(among)
        part.classes = len(among)
        part.clusters.shape = (len(among), self.clusters.shape[1])
        return part

    def put_back(self, part: Oracle, among: Sequence[int]) -> None:
        part.classes, part.clusters.shape = self.classes, self.clusters.shape
        anew = part.beginnings > self.beginnings
        super().put_back(part, among)
        if anew:
            self.forget()

    @property
    def W(self) -> Array:
        return np.concatenate([*(member.w for member in self.members), self.clusters.m], axis=1)

    def seen(self, view: str, x: Array) -> Array:
        """The row z of a view, its constant last."""
        columns, z = self.columns, np.zeros(len(x))
        if view != "A":
            x = self.scales.taken(x)
        if view == "A" and x.any():
            z = x / np.linalg.norm(x) * HALF
        elif view == "B" and columns.n > 0:
            usual = math.sqrt(columns.rs / columns.n) if columns.rs > 0.0 else 1.0
            away = x - columns.mu
            z = away / usual * HALF * min(1.0, 3.0 * usual / max(1e-300, float(np.linalg.norm(away))))
        elif view == "Z":
            u, alive = columns.standard(x)
            z = u * math.sqrt(1.0 / (2.0 * alive))
            z = z * min(1.0, math.sqrt(4.5 / max(1e-300, float(z @ z))))
        elif view == "R":
            u, alive = columns.standard(x)
            z = math.sqrt(1.0 / self.D) * np.cos(self.waves @ u / math.sqrt(alive) + self.phases)
        return np.append(z, HALF)

    def judged(self, x: Array) -> list[tuple[Array, Array]]:
        """The scores and variances of every member."""
        linear = [member.judge(self.seen(view, x)) for view, member in zip(self.views, self.members, strict=True)]
        return [*linear, self.clusters.judge(self.scales.taken(x))]

    @property
    def weights(self) -> Array:
        return softmax(-np.array(self.loss))

    def worths(self, x: Array) -> tuple[Array, Array]:
        """What each class may be worth at best, and what it is thought to be worth."""
        hoped, thought = np.zeros(self.classes), np.zeros(self.classes)
        for v, (s, q) in zip(self.weights, self.judged(x), strict=True):
            p, e = softmax(s), np.exp(np.minimum(30.0, np.sqrt(q)))
            hoped += v * p * e / (1.0 - p + p * e)
            thought += v * p
        return hoped, thought

    def parts(self, x: Array, label: int, rival: int) -> tuple[Array, float]:
        """What each column adds to the lead of a class over another, and the constant; docs/explanation/auto-03.md#why-this-class."""
        total, constant, taken = np.zeros(len(x)), 0.0, self.scales.taken(x)
        for v, view, member in zip(self.weights[:-1], self.views, self.members, strict=True):
            w, z = v * (member.w[label] - member.w[rival]), self.seen(view, x)
            constant += w[-1] * HALF
            if view != "R":
                total += w[:-1] * z[:-1]
                continue
            u, alive = self.columns.standard(taken)
            a, slope = u / math.sqrt(alive), np.zeros(len(x))
            for t in (np.arange(1000) + 0.5) / 1000:  # from a row of means to this one
                slope -= w[:-1] * np.sin(self.waves @ (a * t) + self.phases) @ self.waves / 1000
            total += slope * a / math.sqrt(self.D)
            constant += w[:-1] @ np.cos(self.phases) / math.sqrt(self.D)
        return total + self.weights[-1] * (
            self.clusters.parts(taken, label) - self.clusters.parts(taken, rival)
        ), constant

    def decide(self, x: Array, draw: Draw) -> Decided:
        hoped, thought = self.worths(x)
        greedy = greedy_label(thought, draw)
        return Decided(label=greedy_label(hoped, draw), greedy=greedy, note=min(1.0, float(thought[greedy])))

    def probabilities(self, x: Array) -> Array:
        return greedy_distribution(self.worths(x)[0])

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float | None = None) -> None:
        a, right = decided.label, told == decided.label
        if self.change.heard(right):
            self.loss = list(self.first_loss)
            self.forget()
            return
        self.move(x, a, right, worth(decided, told, reward))

    def teach(self, x: Array, label: int, draw: Draw) -> None:
        self.move(x, label, True, 1.0)

    def move(self, x: Array, a: int, right: bool, r: float) -> None:
        for place, (s, _) in enumerate(self.judged(x)):
            p = float(softmax(s)[a])
            self.loss[place] -= r * math.log(max(0.01, p)) + (1.0 - r) * math.log(max(0.01, 1.0 - p))
        for view, member in zip(self.views, self.members, strict=True):
            member.learn(self.seen(view, x), a, right)
        if right or self.classes == 2:
            self.clusters.hear(self.scales.taken(x), a if right else 1 - a)
        self.columns.see(self.scales.taken(x))
        if self.columns.anew:
            self.clusters.part()
        if self.scales.watch(x):
            self.columns.begin()
            self.forget()

    def forget(self) -> None:
        self.beginnings += 1
        for member in self.members:
            member.forget()
        self.clusters.forget()
