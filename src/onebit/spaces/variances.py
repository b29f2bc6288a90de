"""What the diagonal spaces share: how one weight and its variance move, and the ball."""

from __future__ import annotations

import math


def shrunk(variance: float, amount: float, value: float) -> float:
    """The variance after evidence of this amount along this value: 1/(1/S + rho x^2)."""
    return variance / (1.0 + amount * variance * value * value)


def stepped(weight: float, old: float, new: float, step: float, sums: int, root: int) -> float:
    """The weight after a step, where its variance went from `old` to `new`.

    The step of the sums, w = S' (w/S + step), is the step of the weights and then the factor by which the variance shrank.
    """
    if root == 1:
        return weight + step * math.sqrt(new)
    weight += step * old
    return weight * (new / old) if sums == 1 and old > 0.0 else weight


def ball_factor(squared: float, radius: float) -> float:
    """What takes weights of this squared length into the ball."""
    return radius / math.sqrt(squared) if squared > radius * radius else 1.0
