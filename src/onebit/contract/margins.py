"""The passive-aggressive step: as little as possible, as much as a margin of one needs.

Crammer, Dekel, Keshet, Shalev-Shwartz and Singer, "Online Passive-Aggressive Algorithms", JMLR 7, 2006.
"""

from __future__ import annotations

from enum import IntEnum


class Variant(IntEnum):
    """How a passive-aggressive step is held back by the aggressiveness C."""

    PA = 0  # not at all
    PA_I = 1  # the step is at most C
    PA_II = 2  # the step is damped by 1/(2C)


def hinge(margin: float) -> float:
    """The hinge loss of a margin."""
    return max(0.0, 1.0 - margin)


def step_size(variant: int, aggressiveness: float, loss: float, sq_norm: float) -> float:
    """The multiple of x that takes the loss away: loss/n, min(C, loss/n) or loss/(n + 1/(2C)), n = ||x||^2."""
    if variant == Variant.PA_II:
        return loss / (sq_norm + 0.5 / aggressiveness)
    step = loss / sq_norm
    if variant == Variant.PA_I:
        step = min(step, aggressiveness)
    return step


def binary_step(variant: int, aggressiveness: float, score: float, sign: float, sq_norm: float) -> float:
    """The coefficient of x in a binary passive-aggressive step towards sign * score >= 1."""
    return sign * step_size(variant, aggressiveness, hinge(sign * score), sq_norm)
