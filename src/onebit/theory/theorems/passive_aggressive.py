"""The passive-aggressive bounds, which Chen et al. 2009 quote as Lemmas 1-4, for full information.

Binary, for the sequence of rows that a learner steps on, with l its loss, l* that of any u, alpha its step, n = ||x||^2:

    Lemma 1     sum alpha (2 l - alpha n - 2 l*) <= ||u||^2
    Lemma 2     PA:     sum l^2 <= (R ||u|| + 2 sqrt(sum l*^2))^2            printed; needs rows of one length, or l* = 0
                        sum l^2 <= R^2 (||u|| + 2 sqrt(sum l*^2 / n))^2      what the proof gives for any rows
    Lemma 3     PA-II:  sum l^2 <= (R^2 + 1/(2C)) (||u||^2 + 2 C sum l*^2)
    Lemma 4     PA-I:   sum l <= max(B/C, sqrt(2 R^2 B)),  B = ||u||^2 + 2 C sum l*      printed; a factor T is lost in the root
                        sum l <= B/C + sqrt(T R^2 B)                                     what the proof gives
    Corollaries 2 and 3 are Lemmas 2 and 3 with sum l <= sqrt(T sum l^2).

In Kesler's construction the row of a round is (x, -x) at the positions of two classes, and 2 n stands for n. A mistake
costs a loss of at least one, so sum l and sum l^2 bound the mistakes; for PA-I so does max(R^2, 1/C) B (Crammer et al. 2006).
The exact passive-aggressive step meets all constraints at once and is at least as long: the same bounds hold, but for plain PA
with rows that U fails, where the losses of U count twice.
"""

from __future__ import annotations

import math

import numpy as np

from onebit.contract.steps import Variant
from onebit.theory.bound import Bound, Holds
from onebit.theory.comparators import Comparator, best, path
from onebit.theory.constraints import Numbers
from onebit.theory.setting import Setting

UNEQUAL = (
    "the proof needs rows of one length wherever U has a loss: a row of length 0.01 with a wrong label throws W so far that the next row "
    "of length 1 has a squared loss of 10,000, and that many orthogonal rows after it are mistakes"
)
LOST_T = "a factor T is lost in the root: on T orthogonal rows of length one the loss is T, and the bound with C = 10 is T/10"


def lemma2(norm: float, losses: Numbers, longest: float) -> float:
    """Return the bound on PA's sum l^2 as printed: (R ||u|| + 2 sqrt(sum l*^2))^2."""
    return (longest * norm + 2.0 * math.sqrt(float(np.square(losses).sum()))) ** 2


def lemma2_for_any_rows(norm: float, losses: Numbers, squared: Numbers) -> float:
    """Return the bound on PA's sum l^2 for any rows: R^2 (||u|| + 2 sqrt(sum l*^2 / n))^2.

    The inner sum leaves out rows that are 0.
    """
    there = squared > 0.0
    spread = math.sqrt(float((np.square(losses[there]) / squared[there]).sum()))
    return float(squared.max(initial=0.0)) * (norm + 2.0 * spread) ** 2


def lemma3(norm: float, losses: Numbers, longest: float, aggressiveness: float) -> float:
    """Return the bound on PA-II's sum l^2."""
    total = float(np.square(losses).sum())
    return (longest**2 + 0.5 / aggressiveness) * (norm**2 + 2.0 * aggressiveness * total)


def lemma4(norm: float, losses: Numbers, longest: float, aggressiveness: float) -> float:
    """Return the bound on PA-I's sum l as printed."""
    budget = norm**2 + 2.0 * aggressiveness * float(losses.sum())
    return max(budget / aggressiveness, math.sqrt(2.0 * longest**2 * budget))


def lemma4_with_rounds(norm: float, losses: Numbers, longest: float, aggressiveness: float) -> float:
    """Return the bound on PA-I's sum l with the number of rounds in the root.

    Steps at the cap cost B/C at most, the others sqrt(T R^2 B).
    """
    budget = norm**2 + 2.0 * aggressiveness * float(losses.sum())
    return budget / aggressiveness + math.sqrt(len(losses) * longest**2 * budget)


def mistakes_of_pa1(norm: float, losses: Numbers, longest: float, aggressiveness: float) -> float:
    """Return the bound on PA-I's mistakes: max(R^2, 1/C) (||u||^2 + 2 C sum l*)."""
    budget = norm**2 + 2.0 * aggressiveness * float(losses.sum())
    return max(longest**2, 1.0 / aggressiveness) * budget


def equal_lengths(squared: Numbers) -> bool:
    """Return True if all rows have the same length, up to rounding in float32."""
    return bool(squared.max() - squared.min() <= 1e-5 * squared.max())


def multiclass(setting: Setting) -> list[Bound]:
    variant, aggressiveness = int(setting.record.variant), float(setting.record.aggressiveness)
    exact = setting.rule.name == "exact-pa"
    if variant == Variant.PA_II:
        return [_lemma3(setting, aggressiveness)]
    if variant == Variant.PA_I:
        return _lemma4(setting, aggressiveness)
    return _lemma2(setting, exact)


def _lemma2(setting: Setting, exact: bool) -> list[Bound]:
    rounds = setting.rounds
    double = 2.0 * rounds.squared  # Kesler's rows
    longest, zeros = math.sqrt(float(double.max())), float(rounds.zeros)
    weights = np.divide(1.0, double, out=np.zeros_like(double), where=double > 0.0)
    candidates = path("squared", rounds) + setting.separators()
    if not equal_lengths(double):
        candidates += path("squared", rounds, weights)
    # The multipliers of the exact step are bounded by its length over ||x||, not over ||(x, -x)||.
    stretch = math.sqrt(2.0) if exact else 1.0

    def any_rows(one: Comparator, until: int | None = None) -> float:
        losses = one.losses("hinge")[:until]
        return zeros + lemma2_for_any_rows(one.norm, stretch * losses, double[:until])

    def printed(one: Comparator) -> float:
        return lemma2(one.norm, one.losses("hinge"), longest)

    chosen = best(candidates, any_rows)
    equal, separators = equal_lengths(double), setting.separators()
    holds: Holds = "proved"
    if equal and not exact:
        told, why = best(candidates, printed), ""
    elif separators:
        told, why = separators[0], "only for a U without loss"
    else:
        told = best(candidates, printed)
        holds, why = ("unproved", "the exact step counts the losses of U twice") if equal else ("false", UNEQUAL)
    return [
        Bound(
            "Lemma 2, Kesler's construction",
            "Chen et al. 2009; Crammer et al. 2006",
            "mistakes <= (sqrt(2) R ||U|| + 2 sqrt(sum l*^2))^2",
            printed(told),
            holds=holds,
            why=why,
            assumptions=_numbers(told, rounds.longest),
        ),
        Bound(
            "Lemma 2, for any rows",
            "Crammer et al. 2006, by the same proof",
            f"mistakes <= 2 R^2 (||U|| + 2 sqrt(sum l*^2 / {'n' if exact else '(2 n)'}))^2, n = ||x||^2",
            any_rows(chosen),
            assumptions=_numbers(chosen, rounds.longest),
            line=[any_rows(chosen, int(mark)) for mark in setting.marks],
        ),
    ]


def _lemma3(setting: Setting, aggressiveness: float) -> Bound:
    rounds = setting.rounds
    longest = math.sqrt(2.0) * rounds.longest
    candidates = path("squared", rounds) + setting.separators()

    def bound(one: Comparator, until: int | None = None) -> float:
        return lemma3(one.norm, one.losses("hinge")[:until], longest, aggressiveness) + rounds.zeros

    chosen = best(candidates, bound)
    return Bound(
        "Lemma 3, Kesler's construction",
        "Chen et al. 2009; Crammer et al. 2006",
        "mistakes <= (2 R^2 + 1/(2C)) (||U||^2 + 2 C sum l*^2)",
        bound(chosen),
        assumptions={**_numbers(chosen, rounds.longest), "C": aggressiveness},
        line=[bound(chosen, int(mark)) for mark in setting.marks],
    )


def _lemma4(setting: Setting, aggressiveness: float) -> list[Bound]:
    rounds = setting.rounds
    longest = math.sqrt(2.0) * rounds.longest

    def printed(one: Comparator) -> float:
        return lemma4(one.norm, one.losses("hinge"), longest, aggressiveness)

    def bound(one: Comparator, until: int | None = None) -> float:
        return mistakes_of_pa1(one.norm, one.losses("hinge")[:until], longest, aggressiveness) + rounds.zeros

    chosen, told = best(setting.hinge_path, bound), best(setting.hinge_path, printed)
    return [
        Bound(
            "Lemma 4, Kesler's construction",
            "Chen et al. 2009",
            "mistakes <= max(B/C, sqrt(4 R^2 B)), B = ||U||^2 + 2 C sum l*",
            printed(told),
            holds="false",
            why=LOST_T,
            assumptions={**_numbers(told, rounds.longest), "C": aggressiveness},
        ),
        Bound(
            "PA-I, mistakes",
            "Crammer et al. 2006, from Lemma 1",
            "mistakes <= max(2 R^2, 1/C) (||U||^2 + 2 C sum l*)",
            bound(chosen),
            assumptions={**_numbers(chosen, rounds.longest), "C": aggressiveness},
            line=[bound(chosen, int(mark)) for mark in setting.marks],
        ),
    ]


def _numbers(chosen: Comparator, longest: float) -> dict[str, float]:
    losses = chosen.losses("hinge")
    return {
        "R": longest,
        "U norm": chosen.norm,
        "U loss": float(losses.sum()),
        "U squared loss": float(np.square(losses).sum()),
    }
