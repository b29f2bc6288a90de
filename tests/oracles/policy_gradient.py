"""Policy gradient (REINFORCE) on a softmax policy (Dauce, Proix, Ralaivola 2013, 2015).

Specification: docs/explanation/algorithms-first-order.md#policy-gradient; late feedback: docs/explanation/algorithms.md#late-feedback.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import Array, Decided, Draw, SlowTwin, all_scores, check_choice, greedy_label, softmax, squared_norm, worth


class Oracle(SlowTwin):
    """w_i <- (1 - eta lam) w_i + eta (rho - base) ([i = played] - pi_i) x."""

    TAKES_REWARDS = True

    def __init__(
        self, classes: int, features: int, *, rewards: str, rate: float | None, decay: float, baseline: bool
    ) -> None:
        self.W: Array = np.zeros((classes, features))
        self.centred = check_choice("rewards", rewards, ("centred", "plain")) == "centred"
        usual = 0.2 if self.centred else 0.1
        self.eta = usual if rate is None else rate
        self.lam = decay
        self.baseline = baseline
        self.mean = 1.0 / classes if self.centred else 0.0
        self.learnt = 0

    def rho(self, reward: float) -> float:
        """K r - 1, or r, with as many classes as can be played."""
        return len(self.W) * reward - 1.0 if self.centred else reward

    def decide(self, x: Array, draw: Draw) -> Decided:
        s = all_scores(self.W, x)
        pi = softmax(s)
        u = draw(0)
        label = len(pi) - 1
        cumulative = 0.0
        for r in range(len(pi)):
            cumulative += float(pi[r])
            if u < cumulative:
                label = r
                break
        return Decided(label=label, greedy=greedy_label(s, draw), weight=float(pi[label]))

    def probabilities(self, x: Array) -> Array:
        return softmax(all_scores(self.W, x))

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float | None = None) -> None:
        if squared_norm(x) == 0.0:
            return
        r = worth(decided, told, reward)
        base = self.rho(self.mean) if self.baseline else 0.0
        pi = softmax(all_scores(self.W, x))
        today = float(pi[decided.label])
        late = 1.0 if today >= decided.weight else today / decided.weight  # min(1, today / then)
        direction = -pi
        direction[decided.label] += 1.0
        self.W *= 1.0 - self.eta * self.lam
        self.W += self.eta * late * (self.rho(r) - base) * np.outer(direction, x)
        self.learnt += 1
        self.mean += (r - self.mean) / self.learnt

    def teach(self, x: Array, label: int, draw: Draw) -> None:
        direction = -softmax(all_scores(self.W, x))
        direction[label] += 1.0
        self.W *= 1.0 - self.eta * self.lam
        self.W += self.eta * np.outer(direction, x)
        self.learnt += 1

    def put_back(self, part: Oracle, among: Sequence[int]) -> None:
        if part.learnt > self.learnt:  # the weights of the others shrink too
            self.W *= 1.0 - self.eta * self.lam
        super().put_back(part, among)
