"""Prompak 2017: the bandit perceptron, and the rational kernel that makes classes strongly separable.

    Theorem 3   strongly separable with margin g, k(x, x) <= R^2:  E mistakes <= (K-1) floor(4 (R/g)^2)
    Theorem 4   weakly separable with margin g, ||x|| <= 1, rational kernel:  strongly separable with margin max(g1, g2)
    Theorem 5   a polynomial p with p >= 1/2 on a class of a group weakly separable set and p <= -1/2 on all others
    Theorem 6   group weakly separable in L groups:  strongly separable with a margin that depends on log L in the exponent

The margins of Theorems 4 and 6 are so small that they and the bounds that follow from them (Corollaries 1 and 2, with Theorem 3 and
R^2 = 2) are computed as logarithms. Theorem 6 divides K vectors by sqrt(L), and their squared lengths then sum to K/L, not to 1:
sqrt(K) is right, which costs a factor K/L in the mistakes. It also applies Theorem 5 to u_g - u_j, of length up to sqrt(2), for which
Theorem 5 is not stated; it holds for these too, with the same constants.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, brief
from onebit.theory.bound import Bound
from onebit.theory.constraints import Numbers
from onebit.theory.setting import Setting
from onebit.theory.theorems.perceptron import floor_value

PAPER = "Prompak 2017"


def bound_bandit_perceptron(setting: Setting) -> list[Bound]:
    """Return Theorem 3 in the learner's own space, and Theorems 4 and 6 for the rational kernel."""
    bounds = [_theorem3(setting)]
    rounds = setting.raw_rounds
    if rounds.longest > 1.0 + 1e-5 or setting.options.get("bias"):
        return bounds  # the margin transformations need rows of length at most 1
    kinds, applies = rounds.kinds, setting.kernel == "rational"
    weak = setting.margin("weak")
    log_margin = log_margin_weak(kinds, weak.margin) if weak.separable else -math.inf
    bounds.append(
        _kernel_bound(
            "Theorem 4 and Corollary 1",
            "weakly separable, rational kernel: mistakes <= (K-1) 8 / margin'^2, margin' = max(g1, g2)",
            kinds,
            log_margin,
            weak.margin,
            applies,
        )
    )
    if setting.groups is None:
        return bounds
    group = setting.margin("group")
    for divisor, name in ((len(setting.groups), "as printed"), (kinds, "with sqrt(K)")):
        log_margin = log_margin_group(len(setting.groups), group.margin, divisor) if group.separable else -math.inf
        bound = _kernel_bound(
            f"Theorem 6 and Corollary 2, {name}",
            "group weakly separable in L groups, rational kernel: mistakes <= (K-1) 8 / margin'^2",
            kinds,
            log_margin,
            group.margin,
            applies,
            unproved=divisor != kinds,
        )
        bounds.append(bound)
    return bounds


def _theorem3(setting: Setting) -> Bound:
    strong = setting.margin("strong", setting.kernel)
    kinds = setting.rounds.kinds
    value = (kinds - 1) * floor_value(4.0 * (strong.R / strong.margin) ** 2) if strong.separable else math.inf
    space = f", in the space of the kernel {setting.kernel}" if setting.kernel else ""
    return Bound(
        "Theorem 3",
        PAPER,
        f"mistakes <= (K-1) floor(4 (R/margin)^2), strongly separable with that margin{space}",
        value,
        why="" if strong.separable else "the rows are not strongly separable: nothing is promised",
        setting="in expectation",
        assumptions={"K": float(kinds), "R": strong.R, "margin": strong.margin},
        line=[float(value)] * len(setting.marks),
    )


def _kernel_bound(
    name: str, statement: str, kinds: int, log_margin: float, margin: float, applies: bool, unproved: bool = False
) -> Bound:
    log_value = math.log(8.0 * (kinds - 1)) - 2.0 * log_margin
    why = "the K vectors of the proof are divided by sqrt(L), so that they are too long" if unproved else ""
    if margin <= 0.0:
        why = "the rows are not separable in this way: nothing is promised"
    elif not applies:
        why = (why + "; " if why else "") + "it is about the rational kernel, which this run did not have"
    return Bound(
        name,
        PAPER,
        statement,
        math.exp(log_value) if log_value < 700.0 else math.inf,
        holds="unproved" if unproved else "proved",
        why=why,
        setting="in expectation",
        assumptions={"K": float(kinds), "margin": margin, "log of margin'": log_margin},
        log_value=log_value,
        applies=applies,
    )


# --- margin transformations, as logarithms ---------------------------------------------------------------------------------


def log_margin_weak(kinds: int, margin: float) -> float:
    """Return the natural logarithm of the larger of g1 and g2 of Theorem 4.

    >>> round(math.exp(log_margin_weak(2, 1.0)), 9) == round(752 ** -1.0 / (2 * math.sqrt(2)), 9)
    True
    """
    _require_margin(kinds, margin)
    degree = _ceiling_log2(2 * kinds - 2) * math.ceil(math.sqrt(2.0 / margin))
    first = (
        -0.5 * degree * math.log(376.0 * degree) - math.log(2.0 * math.sqrt(kinds))
        if degree
        else -math.log(2.0 * math.sqrt(kinds))
    )
    r = 2 * math.ceil(0.25 * math.log2(4 * kinds - 3)) + 1
    s = max(0, math.ceil(math.log2(2.0 / margin)))
    base = (s + 1) * math.log(2.0) + math.log(r * (kinds - 1) * (4 * s + 2))
    second = -(s + 0.5) * r * (kinds - 1) * base
    second -= math.log(4.0 * math.sqrt(kinds) * (4 * kinds - 5)) + (kinds - 1) * math.log(2.0)
    return max(first, second)


def log_margin_group(groups: int, margin: float, divisor: int) -> float:
    """Return the natural logarithm of the margin of Theorem 6.

    The divisor under its root is L as printed, K as it must be.
    """
    _require_margin(max(2, groups), margin)
    degree = _ceiling_log2(2 * groups + 2) * math.ceil(math.sqrt(2.0 / margin))
    return -0.5 * degree * math.log(840.0 * degree) - math.log(9.0 * math.sqrt(divisor))


def _ceiling_log2(number: int) -> int:
    """Return the least k with 2^k >= number, exactly."""
    return (number - 1).bit_length()


def _require_margin(kinds: int, margin: float) -> None:
    if kinds < 2 or not margin > 0.0:
        raise InputError(
            f"the margin is {brief(margin)} with {kinds} classes, but must be above 0, with at least 2 classes"
        )


# --- Theorem 5 ---------------------------------------------------------------------------------------------------------------


def polynomial_degree(halfspaces: int, margin: float) -> tuple[int, int]:
    """Return r and s of Theorem 5's polynomial sum of T_s(...)^r, whose degree is r s.

    >>> polynomial_degree(2, 0.02)
    (3, 10)
    """
    return _ceiling_log2(2 * halfspaces + 4), math.ceil(math.sqrt(2.0 / margin))


def separating_polynomial(
    X: Numbers, vectors: Numbers, direction: Numbers, low: float, high: float, margin: float
) -> Numbers:
    """Return Theorem 5's p at every row.

    It is at least 1/2 where <v_i, x> >= margin for all i and low + margin <= <v', x> <= high - margin, and at most -1/2 where a <v_i, x> <=
    -margin, or <v', x> is beyond low or high by the margin. (The thesis writes low and high as <v_b, v'> and <v_t, v'>.)
    """
    power, degree = polynomial_degree(len(vectors), margin)
    along = X @ direction
    arguments = np.column_stack([1.0 - X @ vectors.T, 1.0 - (along - low) / 2.0, 1.0 - (high - along) / 2.0])
    with np.errstate(over="ignore"):
        terms = chebyshev(degree, arguments) ** power
    return np.asarray(len(vectors) + 2.5 - terms.sum(axis=1))


def chebyshev(degree: int, z: Numbers) -> Numbers:
    """Return T_degree(z), by cosines inside [-1, 1] and hyperbolic ones outside, which do not cancel."""
    inside = np.cos(degree * np.arccos(np.clip(z, -1.0, 1.0)))
    with np.errstate(over="ignore"):
        outside = np.cosh(degree * np.arccosh(np.maximum(1.0, np.abs(z)))) * np.where(z < 0.0, (-1.0) ** degree, 1.0)
    return np.asarray(np.where(np.abs(z) <= 1.0, inside, outside))


def polynomial_values(
    X: Numbers, y: NDArray[np.int64], groups: list[list[int]], between: Numbers, within: Numbers, margin: float
) -> Numbers:
    """Return each class's polynomial (columns) at every row.

    The thresholds are those that Lemma 3 takes from the rows.
    """
    values = np.empty((len(X), sum(map(len, groups))))
    for position, members in enumerate(groups):
        vectors = between[position] - np.delete(between, position, axis=0)
        along = X @ within[position]
        for label in members:
            mine = along[y == label]
            if len(mine) == 0:
                raise InputError(f"class {label} has no rows, so there are no thresholds for its polynomial")
            low, high = float(mine.min()) - margin, float(mine.max()) + margin
            values[:, label] = separating_polynomial(X, vectors, within[position], low, high, margin)
    return values
