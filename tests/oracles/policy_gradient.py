"""Policy gradient (REINFORCE) on a softmax policy (Dauce, Proix, Ralaivola 2013, 2015).

Specification: docs/algorithms-first-order.md#policy-gradient; late feedback: docs/algorithms.md#late-feedback.
"""

from __future__ import annotations

import numpy as np

from .base import Array, Decided, Draw, all_scores, check_choice, greedy_label, softmax, squared_norm


class Oracle:
    """w_i <- (1 - eta lam) w_i + eta (reward - base) ([i = played] - pi_i) x."""

    def __init__(
        self, classes: int, features: int, *, rewards: str, rate: float | None, decay: float, baseline: bool
    ) -> None:
        self.W: Array = np.zeros((classes, features))
        centred = check_choice("rewards", rewards, ("centred", "plain")) == "centred"
        self.reward_right, self.reward_wrong = (classes - 1.0, -1.0) if centred else (1.0, 0.0)
        usual = 0.2 if centred else 0.1
        self.eta = usual if rate is None else rate
        self.lam = decay
        self.baseline = baseline
        self.rewards: list[float] = []

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

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        if squared_norm(x) == 0.0:
            return
        reward = self.reward_right if told == decided.label else self.reward_wrong
        base = sum(self.rewards) / len(self.rewards) if self.baseline and self.rewards else 0.0
        pi = softmax(all_scores(self.W, x))
        today = float(pi[decided.label])
        late = 1.0 if today >= decided.weight else today / decided.weight  # min(1, today / then)
        direction = -pi
        direction[decided.label] += 1.0
        self.W *= 1.0 - self.eta * self.lam
        self.W += self.eta * late * (reward - base) * np.outer(direction, x)
        self.rewards.append(reward)
