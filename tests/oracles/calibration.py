"""The slow twin of the calibration of confidences, and of its thresholds.

Specification: docs/explanation/confidence.md#from-the-raw-score-to-a-probability and docs/explanation/confidence.md#a-promise-at-most-this-share-wrong, with their
letters. Answers are kept one by one with their weights, and matrices are matrices.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


class Calibration:
    """Keeps every answer, and sums what the page sums."""

    def __init__(self) -> None:
        self.n = 0
        self.m, self.d, self.w = 0.0, 1.0, 0.0
        self.theta = np.array([0.0, 1.0])
        self.V: NDArray[np.float64] = np.eye(2)
        self.answers: list[tuple[float, float, float]] = []  # the weight, the logit, and what was above p
        self.logged: list[tuple[float, float]] = []  # the confidence, and how wrong it was

    def z(self, raw: float) -> float:
        if raw == self.m:
            return 0.0
        if self.d == 0.0:
            return math.copysign(5.0, raw - self.m)
        u = (raw - self.m) / self.d
        return u / (1.0 + abs(u) / 5.0)

    def logit(self, z: float) -> float:
        h = np.array([1.0, z])
        v = float(h @ self.V @ h)
        return float(np.clip(h @ self.theta / math.sqrt(1.0 + math.pi * v / 8.0), -6.0, 6.0))

    def confidence(self, raw: float) -> float:
        if self.n == 0:
            return math.nan
        knots = np.linspace(-6.0, 6.0, 16)
        width = knots[1] - knots[0]
        logit = self.logit(self.z(raw))
        total = sigmoid(logit)
        for knot in knots:
            near = max(0.0, 1.0 - abs(logit - knot) / width)
            if near > 0.0:
                hats = [weight * max(0.0, 1.0 - abs(other - knot) / width) for weight, other, _ in self.answers]
                above = sum(hat * residual for hat, (_, _, residual) in zip(hats, self.answers, strict=True))
                total += near * above / (sum(hats) + 5.0)
        return min(1.0 - 1e-4, max(1e-4, total))

    def hear(self, raw: float, confidence: float, reward: float) -> None:
        self.n += 1
        keep = 1.0 - 1.0 / min(1000.0, max(100.0, self.n / 5.0))
        z = self.z(raw) if self.n > 1 else 0.0
        logit = self.logit(z)
        self.answers = [(keep * weight, other, residual) for weight, other, residual in self.answers]
        self.answers.append((1.0, logit, reward - sigmoid(logit)))
        self._newton(z, reward, keep)
        step = raw - self.m
        if self.n > 1 and self.d > 0.0:
            step = float(np.clip(step, -10.0 * self.d, 10.0 * self.d))
        self.w = keep * self.w + 1.0
        self.d += (abs(step) - self.d) / self.w
        self.m += step / self.w
        self.logged.append((confidence, 1.0 - reward))

    def _newton(self, z: float, reward: float, keep: float) -> None:
        V = self.V / keep
        V[0, 0], V[1, 1] = min(1.0, V[0, 0]), min(1.0, V[1, 1])
        most = 0.999 * math.sqrt(V[0, 0] * V[1, 1])
        V[0, 1] = V[1, 0] = float(np.clip(V[0, 1], -most, most))
        h = np.array([1.0, z])
        q = sigmoid(float(h @ self.theta))
        rho = max(1e-3, q * (1.0 - q))
        # The covariance after an answer with evidence rho is the inverse of the sum of precisions.
        self.V = np.asarray(np.linalg.inv(np.linalg.inv(V) + rho * np.outer(h, h)), dtype=np.float64)
        self.theta = self.theta + V @ h * (reward - q) / (1.0 + rho * float(h @ V @ h))
        self.theta[1] = max(0.0, self.theta[1])

    def threshold(self, risk: float) -> float:
        for g in range(19):
            start = 1.0 - math.pow(2.0, -g / 2.0)
            wrongs = [wrong for confidence, wrong in self.logged if confidence >= start - 1e-12]
            if evidence(len(wrongs), sum(wrongs), risk) >= 19 / 0.05 and sum(wrongs) < risk * len(wrongs):
                return start
        return math.inf


def evidence(n: int, wrong: float, error: float) -> float:
    """That the mean error is below `error`."""
    rates: list[float] = [-(2.0**power) for power in range(2, -6, -1)]
    logs = [rate * wrong - n * math.log(1.0 - error + error * math.exp(rate)) for rate in rates]
    return math.fsum(math.exp(min(700.0, one)) for one in logs) / len(rates)
