"""Chen et al. 2009, "Beyond Banditron": its theorems, of which Theorem 2 is false.

Theorem 1 and Corollary 1 hold, Lemmas 2 and 4 need repair.

    Theorem 1    mistakes <= (1/rho) sum_s sum_t [1 - M(y_t, s) f_s(x_t)]_+   for loss-based decoding over any coding matrix M,
                 rho = the least of (l - M_r.M_q)/2 over two classes r, q.    Corollary 1: one-vs-all has rho = 2.

The right side is the learner's own loss, so it is measured. The lemmas bound that loss by the loss of any u for a learner that steps in
every round; Theorem 2 puts both together, but the conservative learner does not step on every column in every round. The lemmas
are evaluated here on the rounds in which each column did step, where they apply.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from onebit.contract.draws import LEARNING, Draws
from onebit.contract.rule import RuleInput
from onebit.contract.steps import Variant, step_size
from onebit.rules.conservative_ova import Coding, ConservativeOVA, Decoding, move_columns
from onebit.theory.bound import LOOKED_AT, Bound, Holds
from onebit.theory.comparators import fit_path
from onebit.theory.constraints import Numbers
from onebit.theory.setting import Setting, Trace
from onebit.theory.theorems import passive_aggressive as lemmas

PAPER = "Chen et al. 2009"
FALSE = (
    "a column is not updated in every round, so the bounds of its learner do not add up: with x = (1, 0), y = 0 once and x = (2, 1), "
    "y = 1 for ever the rule locks in on class 0, if the first tie goes to it, and errs in all rounds but one, while the bound stays as it is"
)
PENALTIES = (100.0, 1.0, 0.01)  # of column comparators, in units of the longest row's squared length


def coding_distance(matrix: Numbers) -> float:
    """Return the paper's rho: the smallest (l - M_r.M_q)/2 between the rows of two classes.

    >>> coding_distance(2.0 * np.eye(5) - 1.0)
    2.0
    """
    products = matrix @ matrix.T
    pairs = itertools.combinations(range(len(matrix)), 2)
    return float(min((matrix.shape[1] - products[first, second]) / 2.0 for first, second in pairs))


def coding_matrix(params: ConservativeOVA, memory: Numbers) -> tuple[Numbers, Numbers]:
    """Return the sign that each class wants in each column when right, and when wrong."""
    right, wrong = np.zeros((2, params.classes, params.columns))
    unmoved = RuleInput(memory, np.zeros(params.columns), 1.0, Draws(np.uint64(0), 0, LEARNING), np.zeros((2, 0)))
    for signs, is_right in ((right, True), (wrong, False)):
        for label in range(params.classes):
            # With all scores 0, every column that has a target takes a step towards it.
            move_columns(params, unmoved, label, is_right, signs[label])
        np.sign(signs, out=signs)
    return right, wrong


def sum_losses(matrix: Numbers, scores: Numbers, y: NDArray[np.int64]) -> float:
    """Return the sum over rounds and columns of [1 - M(y, s) f_s]_+."""
    return float(np.maximum(0.0, 1.0 - matrix[y] * scores).sum())


def bound_conservative_ova(setting: Setting) -> list[Bound]:
    """Return the bounds of all theorems of the paper for `conservative-ova`."""
    params = setting.params
    right, wrong = coding_matrix(params, setting.memory)
    trace = setting.traces[0]
    y = setting.rounds.y[: len(trace.played)]
    mistakes = float((trace.played != y).sum())
    bounds = []
    if params.decoding == Decoding.LOSS:
        bounds.append(_theorem1(params, right, trace, y, mistakes))
    steps = np.where((trace.played == y)[:, None], right[trace.played], wrong[trace.played])
    bounds += bound_columns(setting, trace, steps)
    if params.coding == Coding.ONE_VS_ALL:
        bounds += _theorem2(setting, right)
    return bounds


def _theorem1(params: ConservativeOVA, matrix: Numbers, trace: Trace, y: NDArray[np.int64], mistakes: float) -> Bound:
    rho = coding_distance(matrix)
    loss = sum_losses(matrix, trace.scores, y)
    single = params.coding == Coding.ONE_VS_ALL
    if params.guess_if_all_negative:
        holds: Holds = "false"
        why = "it is about the class that decoding names, and `guess_if_all_negative` plays others"
    else:
        holds, why = "proved", ""
    return Bound(
        "Corollary 1" if single else "Theorem 1",
        PAPER,
        f"mistakes <= 1/rho times the learner's own hinge loss over all columns; rho = {rho:g}",
        loss / rho,
        holds=holds,
        why=why,
        assumptions={"rho": rho, "own loss": loss, LOOKED_AT: float(len(y))},
        of=f"mistakes in the first {len(y):,} rounds of the first run",
        left=[mistakes],
    )


# --- the lemmas, column by column, on the rounds in which it stepped -------------------------------------------------------


def bound_columns(setting: Setting, trace: Trace, steps: Numbers) -> list[Bound]:
    """Return Lemma 1 and the variant's lemmas, summed over columns: measured losses and bounds."""
    count = len(steps)
    X, squared = setting.rounds.X[:count], setting.rounds.squared[:count]
    variant, aggressiveness = int(setting.params.variant), float(setting.params.aggressiveness)
    steps = np.where(squared[:, None] > 0.0, steps, 0.0)
    heads = column_comparators(X, steps, setting.rounds.longest)
    longest = setting.rounds.longest
    of = f"in the first {count:,} rounds of the first run"
    sums: dict[str, list[float]] = {}

    def add_sums(name: str, left: float, values: list[float]) -> None:
        totals = sums.setdefault(name, [0.0, 0.0])
        totals[0] += left
        totals[1] += min(values)

    comparator_loss, unequal = 0.0, False
    for column in range(steps.shape[1]):
        own_rounds = np.flatnonzero(steps[:, column])
        sign, n = steps[own_rounds, column], squared[own_rounds]
        loss = np.maximum(0.0, 1.0 - sign * trace.scores[own_rounds, column])
        step = np.array([step_size(variant, aggressiveness, value, size) for value, size in zip(loss, n, strict=True)])
        stars, norms = [], []
        for head in heads:
            stars.append(np.maximum(0.0, 1.0 - sign * np.asarray(X[own_rounds] @ head[column])))
            norms.append(float(np.linalg.norm(head[column])))
        pairs = list(zip(norms, stars, strict=True))
        norm, star = pairs[-1]
        add_sums("Lemma 1", float((step * (2.0 * loss - step * n - 2.0 * star)).sum()), [norm**2])
        square, root = float(np.square(loss).sum()), math.sqrt(len(own_rounds))
        if variant == Variant.PA:
            values = [lemmas.lemma2(*pair, longest) for pair in pairs]
            repaired = [lemmas.lemma2_for_any_rows(*pair, n) for pair in pairs]
            add_sums("Lemma 2", square, values)
            add_sums("Corollary 2", float(loss.sum()), [root * math.sqrt(value) for value in values])
            add_sums("Lemma 2, for any rows", square, repaired)
            comparator_loss += min(float(star_losses.sum()) for star_losses in stars)
            unequal = unequal or (len(n) > 0 and not lemmas.equal_lengths(n))
        elif variant == Variant.PA_II:
            values = [lemmas.lemma3(*pair, longest, aggressiveness) for pair in pairs]
            add_sums("Lemma 3", square, values)
            add_sums("Corollary 3", float(loss.sum()), [root * math.sqrt(value) for value in values])
        else:
            add_sums("Lemma 4", float(loss.sum()), [lemmas.lemma4(*pair, longest, aggressiveness) for pair in pairs])
            add_sums(
                "Lemma 4, with the rounds in the root",
                float(loss.sum()),
                [lemmas.lemma4_with_rounds(*pair, longest, aggressiveness) for pair in pairs],
            )
    false_lemmas = {"Lemma 4": lemmas.LOST_T}
    if comparator_loss > 0.0 and unequal:
        false_lemmas |= {"Lemma 2": lemmas.UNEQUAL, "Corollary 2": lemmas.UNEQUAL}
    return [
        Bound(
            name,
            PAPER,
            STATEMENTS[name],
            value,
            holds="false" if name in false_lemmas else "proved",
            why=false_lemmas.get(name, ""),
            assumptions={"R": longest, "C": aggressiveness, LOOKED_AT: float(count)},
            of=f"{'squared loss' if name in SQUARES else 'left side' if name == 'Lemma 1' else 'loss'} of all columns {of}",
            left=[left],
        )
        for name, (left, value) in sums.items()
    ]


STATEMENTS = {
    "Lemma 1": "sum alpha (2 l - alpha ||x||^2 - 2 l*) <= ||u||^2, column by column",
    "Lemma 2": "PA: sum l^2 <= (R ||u|| + 2 sqrt(sum l*^2))^2, column by column",
    "Corollary 2": "PA: sum l <= sqrt(T) R ||u|| + 2 sqrt(T sum l*^2), column by column",
    "Lemma 2, for any rows": "PA: sum l^2 <= R^2 (||u|| + 2 sqrt(sum l*^2 / ||x||^2))^2, column by column",
    "Lemma 3": "PA-II: sum l^2 <= (R^2 + 1/(2C)) (||u||^2 + 2 C sum l*^2), column by column",
    "Corollary 3": "PA-II: sum l <= sqrt(T (R^2 + 1/(2C)) (||u||^2 + 2 C sum l*^2)), column by column",
    "Lemma 4": "PA-I: sum l <= max(B/C, sqrt(2 R^2 B)), B = ||u||^2 + 2 C sum l*, column by column",
    "Lemma 4, with the rounds in the root": "PA-I: sum l <= B/C + sqrt(T R^2 B), B = ||u||^2 + 2 C sum l*, column by column",
}
SQUARES = ("Lemma 2", "Lemma 2, for any rows", "Lemma 3")


def column_comparators(X: NDArray[np.float64], signs: Numbers, longest: float) -> list[Numbers]:
    """Return u = 0 and the u of each column with the least penalised squared hinge loss."""

    def loss(U: Numbers) -> tuple[float, Numbers]:
        short = np.where(signs != 0.0, np.maximum(0.0, 1.0 - signs * np.asarray(X @ U.T)), 0.0)
        return np.square(short).sum(), np.asarray(X.T @ (-2.0 * signs * short)).T

    return list(fit_path(loss, (signs.shape[1], X.shape[1]), longest, PENALTIES))


# --- Theorem 2 -------------------------------------------------------------------------------------------------------------


def theorem2(variant: int, norms: Numbers, losses: Numbers, longest: float, aggressiveness: float) -> float:
    """Return the bound of Theorem 2: equation (27) with its lost R restored, (28) or (29).

    That is half the sum over columns of what Corollary 2, Lemma 4 or Corollary 3 says. `losses` has the hinge loss of u_s in every round: one
    row a round, one column for each s.
    """
    total, root = 0.0, math.sqrt(len(losses))
    for norm, star in zip(norms.tolist(), losses.T, strict=True):
        if variant == Variant.PA:
            total += root * math.sqrt(lemmas.lemma2(norm, star, longest))
        elif variant == Variant.PA_II:
            total += root * math.sqrt(lemmas.lemma3(norm, star, longest, aggressiveness))
        else:
            total += lemmas.lemma4(norm, star, longest, aggressiveness)
    return total / 2.0


def _theorem2(setting: Setting, matrix: Numbers) -> list[Bound]:
    rounds, params = setting.rounds, setting.params
    signs = matrix[rounds.y]
    values = []
    for head in column_comparators(rounds.X, signs, rounds.longest):
        losses = np.maximum(0.0, 1.0 - signs * np.asarray(rounds.X @ head.T))
        norms = np.linalg.norm(head, axis=1)
        value = theorem2(int(params.variant), norms, losses, rounds.longest, float(params.aggressiveness))
        values.append((value, float(np.square(norms).sum()), float(losses.sum())))
    value, square, loss = min(values)
    number = {int(Variant.PA): "(27), its R restored", int(Variant.PA_I): "(28)", int(Variant.PA_II): "(29)"}
    return [
        Bound(
            f"Theorem 2 {number[int(params.variant)]}",
            PAPER,
            "mistakes <= half the sum over columns of Corollary 2 (PA), Lemma 4 (PA-I) or Corollary 3 (PA-II)",
            value,
            holds="false",
            why=FALSE,
            assumptions={
                "R": rounds.longest,
                "C": float(params.aggressiveness),
                "U norm": math.sqrt(square),
                "U loss": loss,
                "T": float(rounds.count),
            },
        )
    ]
