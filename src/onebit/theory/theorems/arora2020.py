"""Arora and Manwani 2020: which classes move (Theorems 1 and 2), and the mistake bounds, of which our text has only parts.

Theorems 1 and 2 say which classes are in the support of EPABF and EPABF-II: with the losses l_(1) >= l_(2) >= ... in order, the
class (k) is in it as long as its loss exceeds what those before it are lowered by,

    l_(k) > a^2 sum_{j<k} l_(j) / (1 + (k-1) a^2 + e)                         the played class y not among those before it
    l_(k) > (a^2 sum_{j<k} l_(j) - a l_y) / (1 + (k-1) a^2 + e - a)           y among them

with e = 0 (Theorem 1) or 1/(2 C ||x||^2) (Theorem 2). This is about the printed steps; those are not the minimiser of the stated
program where y is in the support (`onebit.rules.epabf`).
"""

from __future__ import annotations

import math

from onebit.contract.margins import Variant
from onebit.theory.bound import Bound
from onebit.theory.setting import Setting
from onebit.theory.theorems.epabf import losses_of_a_run, mistakes

PAPER = "Arora and Manwani 2020"


def epabf(setting: Setting) -> list[Bound]:
    """Theorems 3-5, as far as they can be read, and what is proved in their place."""
    variant = int(setting.record.variant)
    if variant == Variant.PA:
        printed = _theorem3()
    else:
        printed = _theorem4() if variant == Variant.PA_I else _theorem5(setting)
    return [printed, losses_of_a_run(setting), mistakes(setting)]


def _theorem3() -> Bound:
    return Bound(
        "Theorem 3 (EPABF)",
        PAPER,
        "sum_t E sum_v l_v^2 <= R (... sum_v ||u_v||^2 ... + 4 sum_t E sum_v l*_v^2 ...), with a constant of K^3/2 + 1",
        math.nan,
        holds="unread",
        why="signs, roots and the name of the constant are lost, and so is the supplement with the proof. Its ideal case (no loss of u) cannot "
        "happen: a wrong answer asks u_r.x <= -1 of every class, a right one (a - 1) u_y.x >= 1",
        setting="in expectation",
    )


def _theorem4() -> Bound:
    return Bound(
        "Theorem 4 (EPABF-I)",
        PAPER,
        "... <= 1/2 sum_v ||u_v||^2 ... T K R^2 + T K^4 R^2 / 2 + T ...",
        math.nan,
        holds="unread",
        why="signs and roots are lost. The right side has the terms T K R^2, T K^4 R^2/2 and T: unless a root stands over them, which the "
        "text's remark O(sqrt T) suggests, it exceeds T for any data",
        setting="in expectation",
    )


def _theorem5(setting: Setting) -> Bound:
    rounds, C = setting.rounds, float(setting.record.aggressiveness)
    value = theorem5_as_read(rounds.longest, C, rounds.kinds, rounds.count)
    return Bound(
        "Theorem 5 (EPABF-II)",
        PAPER,
        "sum_t E sum_v l_v^2 <= M (sum_v ||u_v||^2 + 2 C R^2 sum_t E sum_v l*_v^2), M = (R^2 + 1/(2C)) / (2 K + 1/C)",
        math.nan,
        holds="unread",
        why=f"read literally it is {value:,.0f} for u = 0, but that cannot be what is meant: with x scaled by c and C by 1/c^2 every run stays the "
        "same, and this bound does not. Its ideal case (no loss of u) cannot happen",
        setting="in expectation",
        assumptions={"R": rounds.longest, "C": C, "K": float(rounds.kinds), "T": float(rounds.count)},
    )


def theorem5_as_read(longest: float, aggressiveness: float, kinds: int, count: int) -> float:
    """The right side of Theorem 5, literally as our text has it, for u = 0, whose loss is one for every class in every round."""
    constant = (longest**2 + 0.5 / aggressiveness) / (2.0 * kinds + 1.0 / aggressiveness)
    return constant * 2.0 * aggressiveness * longest**2 * kinds * count
