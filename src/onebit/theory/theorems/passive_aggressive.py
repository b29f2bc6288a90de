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
from onebit.theory.comparators import Comparator, choose_comparator, fit_comparators
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
    is_nonzero = squared > 0.0
    spread = math.sqrt(float((np.square(losses[is_nonzero]) / squared[is_nonzero]).sum()))
    return float(squared.max(initial=0.0)) * (norm + 2.0 * spread) ** 2


def lemma3(norm: float, losses: Numbers, longest: float, aggressiveness: float) -> float:
    """Return Lemma 3's bound on PA-II's sum of squared losses."""
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


def bound_passive_aggressive(setting: Setting) -> list[Bound]:
    """Return the lemma for the variant that is run, with its repaired form where it needs one."""
    variant, aggressiveness = int(setting.params.variant), float(setting.params.aggressiveness)
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
    candidates = fit_comparators("squared", rounds) + setting.separators()
    if not equal_lengths(double):
        candidates += fit_comparators("squared", rounds, weights)
    # The multipliers of the exact step are bounded by its length over ||x||, not over ||(x, -x)||.
    stretch = math.sqrt(2.0) if exact else 1.0

    def bound_any_rows(comparator: Comparator, until: int | None = None) -> float:
        losses = comparator.losses("hinge")[:until]
        return zeros + lemma2_for_any_rows(comparator.norm, stretch * losses, double[:until])

    def bound_printed(comparator: Comparator) -> float:
        return lemma2(comparator.norm, comparator.losses("hinge"), longest)

    chosen = choose_comparator(candidates, bound_any_rows)
    equal, separators = equal_lengths(double), setting.separators()
    holds: Holds = "proved"
    if equal and not exact:
        printed_U, why = choose_comparator(candidates, bound_printed), ""
    elif separators:
        printed_U, why = separators[0], "only for a U without loss"
    else:
        printed_U = choose_comparator(candidates, bound_printed)
        holds, why = ("unproved", "the exact step counts the losses of U twice") if equal else ("false", UNEQUAL)
    return [
        Bound(
            "Lemma 2, Kesler's construction",
            "Chen et al. 2009; Crammer et al. 2006",
            "mistakes <= (sqrt(2) R ||U|| + 2 sqrt(sum l*^2))^2",
            bound_printed(printed_U),
            holds=holds,
            why=why,
            assumptions=_numbers(printed_U, rounds.longest),
        ),
        Bound(
            "Lemma 2, for any rows",
            "Crammer et al. 2006, by the same proof",
            f"mistakes <= 2 R^2 (||U|| + 2 sqrt(sum l*^2 / {'n' if exact else '(2 n)'}))^2, n = ||x||^2",
            bound_any_rows(chosen),
            assumptions=_numbers(chosen, rounds.longest),
            line=[bound_any_rows(chosen, int(mark)) for mark in setting.marks],
        ),
    ]


def _lemma3(setting: Setting, aggressiveness: float) -> Bound:
    rounds = setting.rounds
    longest = math.sqrt(2.0) * rounds.longest
    candidates = fit_comparators("squared", rounds) + setting.separators()

    def bound(comparator: Comparator, until: int | None = None) -> float:
        return lemma3(comparator.norm, comparator.losses("hinge")[:until], longest, aggressiveness) + rounds.zeros

    chosen = choose_comparator(candidates, bound)
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

    def bound_printed(comparator: Comparator) -> float:
        return lemma4(comparator.norm, comparator.losses("hinge"), longest, aggressiveness)

    def bound(comparator: Comparator, until: int | None = None) -> float:
        losses = comparator.losses("hinge")[:until]
        return mistakes_of_pa1(comparator.norm, losses, longest, aggressiveness) + rounds.zeros

    chosen = choose_comparator(setting.hinge_path, bound)
    printed_U = choose_comparator(setting.hinge_path, bound_printed)
    return [
        Bound(
            "Lemma 4, Kesler's construction",
            "Chen et al. 2009",
            "mistakes <= max(B/C, sqrt(4 R^2 B)), B = ||U||^2 + 2 C sum l*",
            bound_printed(printed_U),
            holds="false",
            why=LOST_T,
            assumptions={**_numbers(printed_U, rounds.longest), "C": aggressiveness},
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
