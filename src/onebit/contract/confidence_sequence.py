"""Time-uniform bounds of a mean error, from the number of answers and the sum of their errors.

Each answer is wrong to a degree X from 0 to 1, and e_t is its expectation, given all that came before. With psi(l,
e) = log(1 - e + e exp(l)) the product of exp(l X_t - psi(l, e_t)) is a supermartingale, since exp is convex
(Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of
Statistics 49, 2021: the sub-Bernoulli case). psi is concave in e, so with the mean E of e_1 .. e_n and the sum S of
the X_t

    exp(l S - n psi(l, E))  is at most that product,

for errors that change arbitrarily. The evidence is the mean of it over a few fixed rates l, all of one sign: by Ville's
inequality it is ever above 1/delta with probability at most delta, whatever E is then. For l > 0 it falls with E, which gives
a lower bound; for l < 0 it rises, and where it is above 1/delta at an error m, then E is below m.
"""

from __future__ import annotations

import math

DELTA = 0.05  # the probability that a bound ever fails
RATES = 8  # 4, 2, 1 .. 1/32: each is best for another distance between the compared errors
HIGHEST_RATE = 4.0
HALVINGS = 40


def evidence(answers: float, errors: float, error: float, sign: float) -> float:
    """Return the evidence that the mean error is below `error` (sign -1) or above it (sign 1)."""
    total, rate = 0.0, sign * HIGHEST_RATE
    for _ in range(RATES):
        exponent = rate * errors - answers * math.log1p(error * math.expm1(rate))
        total += math.exp(min(700.0, exponent))
        rate *= 0.5
    return total / RATES


def is_below(answers: float, errors: float, error: float, delta: float) -> bool:
    """Return True if the mean error is below `error`, with confidence 1 - delta at all times at once."""
    return errors < error * answers and evidence(answers, errors, error, -1.0) * delta >= 1.0


def least_error(answers: float, errors: float, delta: float) -> float:
    """Return a lower bound of the mean error, with confidence 1 - delta at all times at once."""
    low, high = 0.0, errors / max(1.0, answers)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if evidence(answers, errors, middle, 1.0) * delta >= 1.0:
            low = middle
        else:
            high = middle
    return low


def most_error(answers: float, errors: float, delta: float) -> float:
    """Return an upper bound of the mean error, with confidence 1 - delta at all times at once."""
    low, high = errors / max(1.0, answers), 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if is_below(answers, errors, middle, delta):
            high = middle
        else:
            low = middle
    return high


def overshoot(answers: float, errors: float, risk: float) -> float:
    """Return a lower bound of how far the mean error exceeds a promised risk; 0 if not significant."""
    return max(0.0, least_error(answers, errors, DELTA) - risk)
