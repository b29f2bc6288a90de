"""EPABF, EPABF-I, EPABF-II: exact passive-aggressive with bandit feedback (Arora and Manwani 2020).

Specification: `update="printed"` is docs/explanation/algorithms-first-order.md#epabf-as-printed word for word, `"stated"` the minimiser of the
problem of docs/explanation/algorithms-first-order.md#epabf, `"others"` the same with the constraint r = y left out when right.

The exact steps are found by bisection, not by the sorted walk of docs/explanation/algorithms-first-order.md#epabf-the-exact-minimiser. With beta = change of the score of the
played class y, the optimality conditions are

    lam_r = the multiplier of constraint r, a function of what is still missing there, g_r - a beta (r != y)
            and g_y - (a-1) beta (r = y):  [missing]_+ / n | min(C, .) | [missing]_+ / (n + 1/(2C))   for r != y
            in {0, infinity} | {0, C} | 2C [missing]_+                                                for r = y
    beta / n = a sum_{r != y} lam_r + (a - 1) lam_y

the left side rises with beta and the right side falls, so there is one crossing (possibly inside a jump of lam_y).
"""

from __future__ import annotations

import math

import numpy as np

from .base import (
    VARIANTS,
    Array,
    Decided,
    Draw,
    SlowTwin,
    all_scores,
    binary_pa_size,
    bisect_increasing,
    check_choice,
    epsilon_greedy,
    epsilon_greedy_distribution,
    greedy_distribution,
    greedy_label,
    squared_norm,
)

SWEEPS = 60


class Oracle(SlowTwin):
    """Change all rows so that a w_y.x - w_r.x >= 1, where a = 1[right]/P(played)."""

    def __init__(
        self,
        classes: int,
        features: int,
        *,
        variant: str,
        aggressiveness: float,
        exploration: float,
        update: str = "printed",
        wrong: str = "all",
    ) -> None:
        self.W: Array = np.zeros((classes, features))
        self.variant = check_choice("variant", variant, VARIANTS)
        self.C = aggressiveness
        self.gamma = exploration
        self.update = check_choice("update", update, ("printed", "stated", "others"))
        self.wrong = check_choice("wrong", wrong, ("all", "played"))

    def decide(self, x: Array, draw: Draw) -> Decided:
        greedy = greedy_label(all_scores(self.W, x), draw)
        label, weight = epsilon_greedy(greedy, self.gamma, len(self.W), draw)
        return Decided(label=label, greedy=greedy, weight=weight)

    def probabilities(self, x: Array) -> Array:
        return epsilon_greedy_distribution(greedy_distribution(all_scores(self.W, x)), self.gamma)

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        n = squared_norm(x)
        if n == 0.0:
            return
        y = decided.label
        right = told == y
        a = 1.0 / decided.weight if right else 0.0
        s = all_scores(self.W, x)
        if self.update == "printed":
            change = self._printed(s, y, a, n)
        elif right:
            change = self._exact_right(s, y, a, n)
        else:
            change = self._exact_wrong(s, y, n)
        self.W += np.outer(change, x)

    def teach(self, x: Array, label: int, draw: Draw) -> None:
        self.W += np.outer(self._exact_right(all_scores(self.W, x), label, 1.0, squared_norm(x)), x)

    # ---- as printed ----

    def _printed(self, s: Array, y: int, a: float, n: float) -> Array:
        classes = len(s)
        losses = [max(0.0, 1.0 - a * float(s[y]) + float(s[r])) for r in range(classes)]
        order = sorted(range(classes), key=lambda r: (-losses[r], r))
        if self.variant == "PA-I":
            lam = self._printed_capped(losses, order, y, a, n)
        else:
            lam = self._printed_uncapped(losses, order, y, a, n)
        change = np.array([-size for size in lam], dtype=np.float64)
        change[y] += a * sum(lam)
        return change

    def _printed_uncapped(self, losses: list[float], order: list[int], y: int, a: float, n: float) -> list[float]:
        e = 1.0 / (2.0 * self.C * n) if self.variant == "PA-II" else 0.0
        support: list[int] = []
        for j in order:
            denominator = self._denominator(support, y, a, e)
            right_side = losses[j]
            if y in support:
                right_side += a * losses[y] / denominator
            summed = sum(losses[r] for r in support)
            if losses[j] > 0.0 and a**2 * summed / denominator < right_side:
                support.append(j)
            else:
                break
        q = self._q(losses, support, y, a, e)
        return [(losses[r] + q) / (n * (1.0 + e)) if r in support else 0.0 for r in range(len(losses))]

    def _printed_capped(self, losses: list[float], order: list[int], y: int, a: float, n: float) -> list[float]:
        support: list[int] = []
        for _ in range(SWEEPS):
            before = set(support)
            for j in order:
                size = min(self.C, (losses[j] + self._q(losses, support, y, a, 0.0)) / n)
                if size > 0.0 and j not in support:
                    support.append(j)
                if not size > 0.0 and j in support:
                    support.remove(j)
            if set(support) == before:
                break
        q = self._q(losses, support, y, a, 0.0)
        return [min(self.C, (losses[r] + q) / n) if r in support else 0.0 for r in range(len(losses))]

    @staticmethod
    def _denominator(support: list[int], y: int, a: float, e: float) -> float:
        denominator = 1.0 + len(support) * a**2 + e
        if y in support:
            denominator -= a
        return denominator

    def _q(self, losses: list[float], support: list[int], y: int, a: float, e: float) -> float:
        numerator = -(a**2) * sum(losses[r] for r in support)
        if y in support:
            numerator += a * losses[y]
        return numerator / self._denominator(support, y, a, e)

    # ---- exact ----

    def _exact_wrong(self, s: Array, y: int, n: float) -> Array:
        """a = 0: every row (or only the played one) is pushed to a score of -1 at most, each for itself."""
        change = np.zeros(len(s))
        for r in range(len(s)):
            if r == y or self.update == "stated" or self.wrong == "all":
                change[r] = -binary_pa_size(self.variant, self.C, max(0.0, 1.0 + float(s[r])), n)
        return change

    def _exact_right(self, s: Array, y: int, a: float, n: float) -> Array:
        g = [1.0 - a * float(s[y]) + float(s[r]) for r in range(len(s))]
        g[y] = 1.0 - (a - 1.0) * float(s[y])
        others = [r for r in range(len(s)) if r != y]
        with_y = self.update == "stated" and a > 1.0  # a = 1: the constraint r = y is a constant

        def lam_other(r: int, beta: float) -> float:
            return binary_pa_size(self.variant, self.C, max(0.0, g[r] - a * beta), n)

        def lam_played(beta: float) -> float:
            missing = max(0.0, g[y] - (a - 1.0) * beta)
            if missing == 0.0:
                return 0.0
            if self.variant == "PA":
                return math.inf
            if self.variant == "PA-I":
                return self.C
            return 2.0 * self.C * missing

        def balance(beta: float) -> float:
            pull = a * sum(lam_other(r, beta) for r in others)
            if with_y:
                pull += (a - 1.0) * lam_played(beta)
            return beta / n - pull

        # At this beta no constraint is missing anything, at 0 no constraint has been served yet.
        highest = max(0.0, *(g[r] / a for r in others))
        if with_y:
            highest = max(highest, g[y] / (a - 1.0))
        beta = bisect_increasing(balance, 0.0, highest)

        change = np.zeros(len(s))
        for r in others:
            change[r] = -lam_other(r, beta)
        change[y] = beta / n
        return change
