"""The perceptron in Kesler's construction, and Banditron, which is the perceptron in expectation.

On a mistake the squared length of W grows by at most 2 R^2 (its own step, since the label did not lead), and <W, U> by at least
1 - loss of U. So M - L <= ||U|| sqrt(2 R^2 M), from which all bounds here follow, with L the hinge loss of U and D = 2 R^2 ||U||^2:

    separable with margin g:   M <= 2 (R/g)^2                      (U = the separating vectors over g, L = 0)
    in general:                M <= L + D + sqrt(L D)

Banditron's step is the perceptron's in expectation, and its expected squared length at most R^2 (1 + K/gamma) when the greedy
label is wrong, R^2 2 gamma when it is right.
"""

from __future__ import annotations

import math

import numpy as np

from onebit.theory.bound import Bound
from onebit.theory.comparators import Comparator, choose_comparator
from onebit.theory.setting import Setting


def bound_perceptron(setting: Setting) -> list[Bound]:
    """Return the perceptron's bounds: on separable rows, and without a kernel those on any rows."""
    bounds = bound_separable(setting)
    if setting.kernel is not None:
        return bounds
    longest = setting.rounds.longest

    def bound_mistakes(loss: float, norm: float) -> float:
        return general_bound(loss, norm, longest)

    chosen = choose_comparator(setting.hinge_path, lambda U: bound_mistakes(float(U.losses("hinge").sum()), U.norm))
    quoted = choose_comparator(
        setting.hinge_path, lambda U: quoted_bound(float(U.losses("hinge").sum()), U.norm, longest)
    )
    losses, norm = np.cumsum(chosen.losses("hinge")), chosen.norm
    bounds.append(
        Bound(
            "Perceptron, any data",
            "Fink et al. 2006; Kakade et al. 2008",
            "mistakes <= L + D + sqrt(L D), with L the hinge loss of any U and D = 2 R^2 ||U||^2",
            bound_mistakes(float(losses[-1]), norm),
            assumptions=_numbers(chosen, longest),
            line=[bound_mistakes(float(losses[mark - 1]), norm) for mark in setting.marks],
        )
    )
    bounds.append(
        Bound(
            "Perceptron, as quoted",
            "van der Hoeven 2020, section 4.2",
            "mistakes <= L + X^2 ||U||^2 + 2 X ||U|| sqrt(2 L)",
            quoted_bound(float(quoted.losses("hinge").sum()), quoted.norm, longest),
            holds="false",
            why="for L = 0 it is half of what the proof gives, and rows that lean against those before them break it (two classes, "
            "x_t = e_t less a little of each e_s before it, with the sign of y_s y_t)",
            assumptions=_numbers(quoted, longest),
        )
    )
    return bounds


def bound_separable(setting: Setting) -> list[Bound]:
    """Return the bounds of Theorems 1 and 2 of the thesis, in the kernel's space if there is one."""
    separated = setting.margin("weak", setting.kernel)
    value = floor_value(2.0 * (separated.R / separated.margin) ** 2) if separated.separable else math.inf
    why = "" if separated.separable else "the rows are not separable: nothing is promised"
    numbers = {"R": separated.R, "margin": separated.margin}
    bounds = [
        Bound(
            "Theorem 2",
            "Prompak 2017",
            "mistakes <= floor(2 (R/margin)^2), separable with that margin (the thesis asks for strong separability; weak will do)",
            value,
            why=why,
            assumptions=numbers,
            line=[float(value)] * len(setting.marks),
        )
    ]
    if setting.rounds.kinds == 2:
        bounds.insert(
            0,
            Bound(
                "Theorem 1",
                "Prompak 2017",
                "two classes: mistakes <= floor((R/margin)^2), one vector w with y <w, x> >= margin",
                value,
                why=why,
                assumptions={**numbers, "margin": separated.margin / math.sqrt(2.0)},
            ),
        )
    return bounds


def floor_value(value: float) -> float:
    """Return the floor, with tolerance for the rounding of a margin that a solver found.

    >>> floor_value(7.9), floor_value(7.9999999)
    (7.0, 8.0)
    """
    return float(math.floor(value * (1.0 + 1e-6)))


def general_bound(loss: float, norm: float, longest: float) -> float:
    size = 2.0 * (longest * norm) ** 2
    return loss + size + math.sqrt(loss * size)


def quoted_bound(loss: float, norm: float, longest: float) -> float:
    """Return the bound as van der Hoeven 2020 quotes it: L + X^2 ||U||^2 + 2 X ||U|| sqrt(2 L)."""
    return loss + (longest * norm) ** 2 + 2.0 * longest * norm * math.sqrt(2.0 * loss)


def bound_banditron(setting: Setting) -> list[Bound]:
    """Return the bound on Banditron's expected mistakes on any rows."""
    rounds, gamma = setting.rounds, float(setting.params.exploration)
    longest, kinds = rounds.longest, rounds.kinds

    def bound_mistakes(loss: float, norm: float, count: int) -> float:
        return banditron_bound(loss, norm, longest, kinds, gamma, count)

    chosen = choose_comparator(
        setting.hinge_path, lambda U: bound_mistakes(float(U.losses("hinge").sum()), U.norm, rounds.count)
    )
    losses, norm = np.cumsum(chosen.losses("hinge")), chosen.norm
    order = (norm * longest * kinds) ** (1 / 3) * rounds.count ** (2 / 3)
    return [
        Bound(
            "Banditron, any data",
            "Kakade et al. 2008",
            "mistakes <= gamma T + the root M of M = L + R ||U|| sqrt((1 + K/gamma) M + 2 gamma T), with L the hinge loss of any U",
            bound_mistakes(float(losses[-1]), norm, rounds.count),
            setting="in expectation",
            assumptions={
                **_numbers(chosen, longest),
                "exploration": gamma,
                "order in Table 1 of van der Hoeven 2020": order,
            },
            line=[bound_mistakes(float(losses[mark - 1]), norm, int(mark)) for mark in setting.marks],
        ),
    ]


def banditron_bound(loss: float, norm: float, longest: float, kinds: int, gamma: float, count: int) -> float:
    """Return gamma T plus the largest M with M - L <= R ||U|| sqrt((1 + K/gamma) M + 2 gamma T).

    >>> banditron_bound(0.0, 0.0, 1.0, 3, 0.1, 100)
    10.0
    """
    size = (longest * norm) ** 2
    half = loss + 0.5 * size * (1.0 + kinds / gamma)
    return gamma * count + half + math.sqrt(max(0.0, half**2 - loss**2 + 2.0 * size * gamma * count))


def _numbers(chosen: Comparator, longest: float) -> dict[str, float]:
    return {"R": longest, "U norm": chosen.norm, "U loss": float(chosen.losses("hinge").sum())}
