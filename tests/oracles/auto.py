"""Auto: on dense rows ten members, weighed by what they gave to what was heard; on sparse rows the twin is `auto_sparse.py`.

Specification: docs/explanation/auto-method.md#dense-rows and docs/explanation/auto-method.md#candidates-rewards-and-truths. Written out here alone: that bounds move as often as a variance is asked for in
learning; that after a restart the components in use, and what waves are of, stay until the next are ready; and that of members which are not there yet none is the best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onebit.auto.dense import scoring

from .auto_members import HALF, ColumnStatistics, Found, SlowBasis, SlowClusters, SlowLinear, SlowWaves
from .auto_shaped import SlowShaped
from .base import Array, Decided, Draw, SlowTwin, greedy_distribution, greedy_label, softmax, worth
from .change import Change
from .draws import draws

LINEAR = ("directed", "centred", "standardised", "waved", "components", "corrected")
SHAPED = ("shaped 8", "shaped 24", "shaped 64")
MEMBERS = (*LINEAR, "clusters", *SHAPED)


def raised(p: float, q: float) -> float:
    """A probability whose score is one deviation up."""
    e = math.exp(min(30.0, math.sqrt(q)))
    return p * e / (1.0 - p + p * e)


def found_class(a: int, right: bool, A: Sequence[int]) -> int:
    """The class that is now known to be right, or -1."""
    others = [i for i in A if i != a]
    return a if right else others[0] if len(A) == 2 else -1


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


class Oracle(SlowTwin):
    """Dense rows. `dtype` is that of what the members keep."""

    LEARNS_OVER_ALL = True
    TAKES_REWARDS = True

    def __init__(self, classes: int, features: int, seed: int, dtype: Any = np.float64) -> None:
        self.K, self.features, self.dtype = classes, features, dtype
        self.columns, self.scales = ColumnStatistics(features, dtype), Scales(features)
        self.basis, self.clusters = SlowBasis(features, dtype), SlowClusters(classes, self.columns)
        R = self.basis.number
        self.shaped = SlowShaped(classes, R, dtype, classes * R**2 > 2**19)
        full = classes * (features + 1) ** 2 <= 1e6
        D = min(scoring.MOST_WAVES, int(math.sqrt(5e5 / classes))) if classes <= 50 else 0
        generator = np.random.default_rng(seed)
        self.narrow = features <= 128
        self.waves = SlowWaves(features, D if full else 0, dtype, generator)
        self.more_waves = SlowWaves(features if self.narrow else R, D, dtype, generator)
        sizes = {
            "directed": features + 1,
            "centred": features + 1 if full else 0,
            "standardised": features + 1,
            "waved": D + 1 if D else 0,
            "components": R + 1 if classes * (R + 1) ** 2 <= 1e6 else 0,
            "corrected": D + 1 if D else 0,
        }
        self.linear = {
            m: SlowLinear(classes, n, full or n != features + 1, dtype, m == "centred") for m, n in sizes.items() if n
        }
        self.based = {*SHAPED, *({"components", "corrected"} & self.linear.keys())}
        if not full and D:
            self.based.add("waved")
        self.there = [m for m in MEMBERS if m in self.linear or m not in LINEAR]
        self.change, self.standard = Change(classes), False
        self.forget()

    def accompany(self, learner: Any) -> None:
        def ask() -> Found:
            basis = learner.runtime.model.space.basis
            return Found(int(basis.generation[0]), basis.vectors.astype(np.float64))

        self.basis.ask = ask

    def forget(self) -> None:
        """Everything but what is known of columns."""
        for member in self.linear.values():
            member.forget()
        self.basis.forget()
        self.clusters.forget()
        self.shaped = SlowShaped(self.K, self.basis.number, self.dtype, self.shaped.shared)
        eager = {"directed", "centred", "standardised", "clusters"}
        self.loss = {m: 0.0 if m in eager else 3.0 for m in self.there}
        self.rate = dict.fromkeys(self.there, 0.0)
        self.stride = dict.fromkeys(self.there, 1)
        self.worth = dict.fromkeys(self.there, (1.0, 0.1))
        self.rounds, self.mistakes = 0, 0.0
        self.trust, self.slopes = 1.0, 0.0
        self.pending, self.replayed, self.stays = False, 0, False

    @property
    def W(self) -> Array:
        return np.concatenate([member.w for member in self.linear.values()], axis=1).astype(np.float64)

    # --- what is believed ----------------------------------------------------------------------------------------------------

    def part_takers(self, based: bool) -> list[str]:
        return [m for m in self.there if based or m not in self.based]

    def awake(self) -> list[str]:
        number = {m: min(MEMBERS.index(m), len(LINEAR) + 1) for m in MEMBERS}
        there = self.part_takers(self.basis.generation > 0 and not self.pending)
        return [m for m in there if (self.rounds + number[m]) % self.stride[m] == 0]

    def judge(self, raw: Array, taken: Array, awake: Sequence[str]) -> None:
        """The scores of the members awake: `s`; their beliefs `p`; the variances `q` of those that are not linear."""
        self.s: dict[str, Array] = {}
        self.q: dict[str, Array] = {}
        self.z = self.basis.project(taken)
        if "clusters" in awake:
            self.s["clusters"], self.q["clusters"] = self.clusters.judge(taken)
        if "corrected" in awake or SHAPED[0] in awake:
            said, doubts = self.shaped.score(self.z, np.ones(self.K))
            self.s.update(zip(SHAPED, said, strict=True))
            self.q.update(zip(SHAPED, doubts, strict=True))
        for m in LINEAR:
            if m in awake:
                self.s[m] = self.linear[m].see(self.view(m, raw, taken))
        if "corrected" in awake:
            best = min(SHAPED, key=lambda m: self.loss[m])
            self.opinion = np.log(softmax(self.s[best]) + 0.03)
            self.s["corrected"] = self.s["corrected"] + self.trust * self.opinion
        self.p = {m: softmax(self.s[m]) for m in MEMBERS if m in awake}

    def view(self, m: str, raw: Array, taken: Array) -> Array:
        columns = self.columns
        if m == "directed":
            return columns.directed(raw)
        if m == "centred":
            return columns.centred(taken)
        if m == "standardised":
            return columns.standardised(taken)
        if m == "components":
            return self.basis.whitened(self.z)
        if m == "waved" and m not in self.based:
            return self.waves.of(columns.plain(taken), 1.0 / math.sqrt(max(1, columns.varying)))
        if not self.narrow:
            return self.more_waves.of(self.z, 1.5 / math.sqrt(len(self.z)))
        row = columns.standardised(taken) if self.standard else columns.centred(taken)
        return self.more_waves.of(row, 1.5 / HALF)

    def taken(self, x: Array) -> Array:
        return self.scales.taken(x.astype(self.dtype).astype(np.float64)).astype(self.dtype)

    def shares(self) -> dict[str, float]:
        least = min(self.loss[m] for m in self.p)
        v = {m: math.exp(least - self.loss[m]) if self.loss[m] - least < 15.0 else 0.0 for m in self.p}
        return {m: share / sum(v.values()) for m, share in v.items()}

    def worths(self, x: Array, among: Sequence[int]) -> tuple[Array, Array]:
        """What each class is believed and hoped to be worth; hopes are worked out for those in question."""
        self.judge(x.astype(self.dtype), self.taken(x), self.awake())
        v = self.shares()
        belief = np.array(sum(v[m] * self.p[m] for m in self.p))

        def hope(i: int, exactly: bool) -> float:
            total = 0.0
            for m, share in v.items():
                chance = float(self.p[m][i])
                if share > 1e-3:
                    linear = self.linear.get(m)
                    if linear is None:
                        chance = raised(chance, float(self.q[m][i]))
                    else:
                        chance = raised(chance, linear.q(i) if exactly else float(linear.B[i]))
                total += share * chance
            return total

        best, hopes = max(float(belief[i]) for i in among), belief.copy()
        upper = {i: hope(i, exactly=False) for i in among}
        if sum(one >= best for one in upper.values()) > 1:
            for i in among:
                if upper[i] >= best:
                    hopes[i] = hope(i, exactly=True)
                    best = max(best, hopes[i])
        return belief, hopes

    def among(self, x: Array, among: Sequence[int]) -> tuple[Array, Array]:
        """The same of candidates, given that one of them is right: the odds of each are raised as much as those among all."""
        belief, hopes = (of_all[list(among)] for of_all in self.worths(x, among))
        if len(among) in (1, self.K) or belief.sum() >= 1.0:
            return belief, hopes
        total = float(belief.sum())
        few = belief / total if total > 0.0 else np.full(len(among), 1.0 / len(among))
        raised_odds, odds = hopes * (1.0 - belief), belief * (1.0 - hopes)
        higher = raised_odds > odds
        return few, np.where(higher, few * raised_odds / (few * raised_odds + (1.0 - few) * odds + ~higher), few)

    def decide(self, x: Array, draw: Draw) -> Decided:
        return self.decide_among(x, draw, range(self.K))

    def decide_among(self, x: Array, draw: Draw, among: Sequence[int]) -> Decided:
        if len(among) == 1:
            return Decided(among[0], among[0])
        belief, hopes = self.among(x, among)
        greedy = greedy_label(belief, draw)
        return Decided(label=among[greedy_label(hopes, draw)], greedy=among[greedy], note=float(belief[greedy]))

    def probabilities(self, x: Array) -> Array:
        return self.probabilities_among(x, range(self.K), self.K)

    def probabilities_among(self, x: Array, among: Sequence[int], classes: int) -> Array:
        found = np.zeros(classes)
        found[list(among)] = greedy_distribution(self.among(x, among)[1])
        return found

    # --- learning ------------------------------------------------------------------------------------------------------------

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float | None = None) -> None:
        self.answer_among(x, decided, told, draw, worth(decided, told, reward), range(self.K), True)

    def answer_among(
        self, x: Array, decided: Decided, told: int, draw: Draw, reward: float, among: Sequence[int], complete: bool
    ) -> None:
        right = told == decided.label
        if self.change.heard(right):
            self.forget()
            return
        self.absorb(x, decided.label, right, reward, among)

    def teach(self, x: Array, label: int, draw: Draw) -> None:
        self.correct(x, label, draw, range(self.K))

    def correct(self, x: Array, truth: int, draw: Draw, among: Sequence[int]) -> None:
        self.absorb(x, truth, True, 1.0, among)

    def absorb(self, x: Array, a: int, right: bool, r: float, A: Sequence[int]) -> None:
        taken = self.taken(x)
        self.judge(x.astype(self.dtype), taken, self.awake())
        for m, p in self.p.items():
            narrowed = np.zeros(self.K)
            narrowed[list(A)] = p[list(A)] / p[list(A)].sum()
            self.p[m] = narrowed
            self.lose(m, self.chance(m, a, A, r), r)
        known = found_class(a, right, A)
        if known >= 0:
            self.clusters.hear(taken, known)
        self.basis.keep(taken, a, right)
        self.learn_members(a, right, A)
        self.rest(right)
        if self.basis.work():
            self.start_on_basis()
        for _ in range(64):
            if self.pending:
                self.replay()
        if self.columns.see(taken):
            self.clusters.part()
        if self.scales.watch(x.astype(self.dtype).astype(np.float64)):
            self.columns.begin()
            self.forget()

    def chance(self, m: str, a: int, A: Sequence[int], r: float) -> float:
        """What m believes of a where its scores are multiplied by b; then b moves, a logistic regression of r with the variance v."""
        if m in SHAPED:
            return float(self.p[m][a])
        b, v = self.worth[m]
        ahead = np.array([self.s[m][a] - self.s[m][i] for i in A if i != a])
        odds = np.exp(np.minimum(30.0, -b * ahead))
        c = 1.0 / (1.0 + odds.sum())
        if odds.sum() > 0.0:
            lead = float(odds @ ahead / odds.sum())
            D = 1.0 + c * (1.0 - c) * lead**2 * v
            moved = min(4.0, max(0.05, b + (r - c) * v * lead / D))
            self.worth[m] = moved, min(0.1, (v - c * (1.0 - c) * (v * lead) ** 2 / D) * (1.0 + 1.0 / 500.0))
        return float(c)

    def lose(self, m: str, c: float, r: float) -> None:
        loss = -r * math.log(max(0.01, c)) - (1.0 - r) * math.log(max(0.01, 1.0 - c))
        self.loss[m] += loss * self.stride[m]
        self.rate[m] += (loss - self.rate[m]) / min(max(30.0, 500.0 / self.stride[m]), self.rounds + 1)

    def learn_members(self, a: int, right: bool, A: Sequence[int], number: int = 0) -> None:
        fine = max(1e-3, min(3e-2, 1e-3 / max(1e-3, self.mistakes) ** 2))
        u = draws(0, self.rounds, 1)(number)
        for m in LINEAR:
            if m in self.p:
                self.linear[m].learn(self.p[m], A, a, right, fine if self.loss[m] < 15.0 else 8.0 * fine, u)
        if "corrected" in self.p:
            p = self.p["corrected"]
            g = float(p @ (self.opinion[a] - self.opinion))
            g *= 1.0 if right else -p[a] / max(1e-3, 1.0 - p[a])
            g = min(2.0, max(-2.0, g))
            self.slopes += g**2
            self.trust = min(1.5, max(0.0, self.trust + 0.3 * g / math.sqrt(4.0 + self.slopes)))
        if SHAPED[0] in self.p:
            self.shaped.learn(self.z, a, right, np.array([self.p[m] for m in SHAPED]), found_class(a, right, A))

    def rest(self, right: bool) -> None:
        """Losses are those beyond the least, and members that are far behind sleep."""
        self.rounds += 1
        self.mistakes += ((0.0 if right else 1.0) - self.mistakes) / min(500, self.rounds)
        playing = self.part_takers(self.basis.generation > 0)
        leader = min(playing, key=lambda m: self.loss[m])
        least = self.loss[leader]
        for m in self.there:
            self.loss[m] -= least if m in playing else 0.0
            slower = self.rounds > 1000 and self.rate[m] > 1.3 * self.rate[leader]
            slower = slower and not (self.pending and m not in self.based)
            behind = self.loss[m] > (20.0 if self.mistakes < 0.3 else 100.0)
            self.stride[m] = min(16, int(self.loss[m] / 20.0)) if slower and behind else 1
        together = min(self.stride[m] for m in (*SHAPED, "corrected") if m in self.there)
        self.stride.update(dict.fromkeys(SHAPED, together))

    def start_on_basis(self) -> None:
        first, standard = self.basis.generation == 1, self.basis.now.standardised
        self.stays = self.narrow and not first and standard == self.standard
        self.standard = standard
        for m in self.based:
            if m in self.linear and not (m == "corrected" and self.stays):
                self.linear[m].forget()
        self.shaped.begin()
        self.stride.update(dict.fromkeys((m for m in self.there if m not in self.based), 1))
        self.pending, self.replayed = True, 0

    def replay(self) -> None:
        """Learn one of the rows kept again, with the members on the basis."""
        a, right = self.basis.heard[self.replayed]
        row = self.basis.rows[self.replayed]
        based = [m for m in self.there if m in self.based and not (m == "corrected" and self.stays)]
        self.judge(row, row, [m for m in based if self.replayed % self.stride[m] == 0])
        self.replayed += 1
        self.pending = self.replayed < len(self.basis.rows)
        self.learn_members(a, right, range(self.K), self.replayed)
