"""van der Hoeven 2020, "Exploiting the Surrogate Gap": Lemma 1 and Theorems 1-6.

With L the surrogate loss of any U:

    Lemma 1        mistakes <= L + ||U||^2/(2 rate) + gamma (K-1)/K T + the sum of the surrogate gaps      any rate and exploration
    Theorems 1-3   full information: L + ||U||^2/(2 rate), as the gaps are at most 0
    Theorems 4-6   bandit, ||U|| <= D:  L + regret,

        logistic   min(A/q0, max(2 A, 2 K X D sqrt(T/ln 2))),   A = (K X D)^2/ln 2      q0 = the smallest gap inside the ball
        hinge      max(K^3 X^2 D^2/(K-1), 2 K X D sqrt(T/2))
        smooth     max(4 (K X D)^2, 2 K X D sqrt(2 T))

All are in expectation over the learner's draws. The hinge loss of the paper is 0 wherever the learner leads by more than 1/K and
is right, whatever U says. The traces show where that was so; in rounds beyond them the loss is counted, which keeps the bound true.

The surrogate gap of a round is what it may cost beyond the surrogate loss; it is never above 0:

    gap = (1 - a) 1[ystar != y] + a (K-1)/K - loss(W) + rate/2 E||g||^2

with a the gap map of the loss, and g the gradient, divided by the probability of the label in the bandit setting.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onebit.experiments.report import Band, Curves, Series
from onebit.rules.gaptron import FeedbackSetting, Gaptron, Loss, bandit_constants, full_constants, gap, gradient, lead
from onebit.theory.bound import LOOKED_AT, Bound
from onebit.theory.comparators import Comparator, choose_comparator, fit_in_ball, zero_comparator
from onebit.theory.constraints import Numbers
from onebit.theory.setting import Setting

PAPER = "van der Hoeven 2020"
LossName = Literal["logistic", "hinge", "smooth"]

LOSSES: dict[int, LossName] = {int(Loss.LOGISTIC): "logistic", int(Loss.HINGE): "hinge", int(Loss.SMOOTH): "smooth"}
NOTES = {
    "Theorem 4": "the paper only says that there is an exploration for which it holds; this is for one that works, with the smallest gap inside "
    "the ball in place of exp(-2 D X), which is no lower bound of it",
    "Theorem 6": "the exploration is sqrt(2 K^2 X^2 D^2/T): with the printed 4 the proof gives 3 K X D sqrt(T)",
}


def bound_gaptron(setting: Setting) -> list[Bound]:
    """Return the bounds of Lemma 1 and, with planned rates, of the theorem for this loss and setting."""
    params: Gaptron = setting.params
    penalty, loss = 1.0 / params.rate, LOSSES[int(params.loss)]
    radius = math.inf if math.isnan(params.radius) else params.radius
    chosen = choose_comparator(
        [fit_in_ball(loss, setting.rounds, penalty, radius), zero_comparator(setting.rounds)],
        lambda comparator: _sum_without_gaps(params, comparator, setting),
        radius,
    )
    bounds = [_lemma1_bound(setting, params, chosen)]
    if has_planned_rates(params):
        bounds.append(
            _full_information_bound(setting, params, chosen)
            if params.setting == FeedbackSetting.FULL
            else _bandit_bound(setting, params, radius)
        )
    return bounds


def has_planned_rates(params: Gaptron) -> bool:
    """Return True if rate and exploration are those of the theorems."""
    if math.isnan(params.max_norm) or (
        params.setting == FeedbackSetting.BANDIT and (math.isnan(params.radius) or math.isnan(params.horizon))
    ):
        return False
    wanted = full_constants(params) if params.setting == FeedbackSetting.FULL else bandit_constants(params)
    return bool(np.allclose(wanted, (params.rate, params.exploration), rtol=1e-9, atol=0.0))


def regret(params: Gaptron) -> float:
    """Return the regret term of Theorems 4-6.

    >>> round(regret(Gaptron(2, loss=Loss.SMOOTH, radius=1.0, max_norm=1.0, horizon=200.0)), 9)
    80.0
    """
    kinds, horizon = float(params.classes), params.horizon
    reach = kinds * params.max_norm * params.radius  # K X D
    if params.loss == Loss.HINGE:
        return max(kinds * reach**2 / (kinds - 1.0), 2.0 * reach * math.sqrt(horizon / 2.0))
    if params.loss == Loss.SMOOTH:
        return max(4.0 * reach**2, 2.0 * reach * math.sqrt(2.0 * horizon))
    cost = reach**2 / math.log(2.0)
    lead = params.radius * params.max_norm * math.sqrt(kinds / (kinds - 1.0))
    inverse_gap = 1.0 + math.exp(min(700.0, lead)) / (kinds - 1.0)
    return min(cost * inverse_gap, max(2.0 * cost, 2.0 * reach * math.sqrt(horizon / math.log(2.0))))


def _sum_without_gaps(params: Gaptron, comparator: Comparator, setting: Setting) -> float:
    """Return the right side of Lemma 1 without the gaps."""
    explored = params.exploration * (params.classes - 1) / params.classes * setting.rounds.count
    loss = float(_counted_losses(setting, params, comparator).sum())
    return loss + comparator.norm**2 / (2.0 * params.rate) + explored


def _counted_losses(setting: Setting, params: Gaptron, comparator: Comparator) -> NDArray[np.float64]:
    """Return the loss of U in every round, as the paper counts it.

    The hinge loss is not counted where the learner is right and leads by more than 1/K.
    """
    losses = comparator.losses(LOSSES[int(params.loss)])
    if params.loss != Loss.HINGE:
        return losses
    count = len(setting.traces[0].played)
    y, counted = setting.rounds.y[:count], np.ones(len(losses))
    masks = []
    for trace in setting.traces:
        ordered = np.sort(trace.scores, axis=1)
        sure = (ordered[:, -1] - ordered[:, -2] > 1.0 / params.classes) & (trace.greedy == y)
        masks.append(~sure)
    counted[:count] = np.mean(masks, axis=0)
    return np.asarray(losses * counted)


def _lemma1_bound(setting: Setting, params: Gaptron, chosen: Comparator) -> Bound:
    count = len(setting.traces[0].played)
    y, squared = setting.rounds.y[:count], setting.rounds.squared[:count]
    gaps = [surrogate_gap(params, trace.scores, y, squared, trace.greedy) for trace in setting.traces]
    losses = _counted_losses(setting, params, chosen)[:count]
    explored = params.exploration * (params.classes - 1) / params.classes * count
    mean = float(np.mean([gap.sum() for gap in gaps]))
    return Bound(
        "Lemma 1",
        PAPER,
        "mistakes <= L + ||U||^2/(2 rate) + gamma (K-1)/K T + the sum of the surrogate gaps, which is measured",
        float(losses.sum()) + chosen.norm**2 / (2.0 * params.rate) + explored + mean,
        setting="in expectation",
        assumptions={
            **_numbers(params, chosen, setting),
            "sum of gaps": mean,
            "largest gap": float(max(gap.max() for gap in gaps)),
            LOOKED_AT: float(count),
        },
        of=f"mistakes in the first {count:,} rounds of {len(gaps)} {'run' if len(gaps) == 1 else 'runs'}",
        left=[float((trace.played != y).sum()) for trace in setting.traces],
    )


def _full_information_bound(setting: Setting, params: Gaptron, chosen: Comparator) -> Bound:
    losses = np.cumsum(_counted_losses(setting, params, chosen))
    length = chosen.norm**2 / (2.0 * params.rate)
    return Bound(
        f"Theorem {1 + int(params.loss)}",
        PAPER,
        f"full information, {LOSSES[int(params.loss)]} loss: mistakes <= L + ||U||^2/(2 rate), rate {params.rate:.4g}",
        float(losses[-1]) + length,
        setting="in expectation",
        assumptions=_numbers(params, chosen, setting),
        line=(losses[setting.marks - 1] + length).tolist(),
    )


def _bandit_bound(setting: Setting, params: Gaptron, radius: float) -> Bound:
    loss = LOSSES[int(params.loss)]
    # The regret does not depend on U inside the ball, so only its loss counts.
    chosen = fit_in_ball(loss, setting.rounds, 1e-9 * setting.rounds.longest**2, radius)
    losses, marks = np.cumsum(_counted_losses(setting, params, chosen)), setting.marks
    explored = params.exploration * (params.classes - 1) / params.classes
    name = f"Theorem {4 + int(params.loss)}"
    return Bound(
        name,
        PAPER,
        f"bandit, {loss} loss: mistakes <= L + {regret(params):,.1f} for any U with ||U|| <= D; rate {params.rate:.4g}, "
        f"exploration {params.exploration:.4g}",
        float(losses[-1]) + regret(params),
        why=NOTES.get(name, ""),
        setting="in expectation",
        assumptions={**_numbers(params, chosen, setting), "D": radius, "T": params.horizon, "regret": regret(params)},
        line=(losses[marks - 1] + chosen.norm**2 / (2.0 * params.rate) + explored * marks).tolist(),
    )


def _numbers(params: Gaptron, chosen: Comparator, setting: Setting) -> dict[str, float]:
    return {
        "K": float(params.classes),
        "X": setting.rounds.longest,
        "rate": params.rate,
        "exploration": params.exploration,
        "U norm": chosen.norm,
        "U loss": float(_counted_losses(setting, params, chosen).sum()),
    }


# --- the surrogate gap -------------------------------------------------------------------------------------------------------


def surrogate_terms(
    params: Gaptron, scores: Numbers, y: NDArray[np.int64], greedy: NDArray[np.int64]
) -> tuple[Numbers, Numbers, Numbers]:
    """Return per round the gap map, the surrogate loss at W, and its gradient's squared length.

    The length is that for rows of length 1. Gap map and gradient are the rule's own functions.
    """
    value = Comparator(scores, scores, y).losses(LOSSES[int(params.loss)])
    explored, squared, work = np.zeros(len(y)), np.zeros(len(y)), np.zeros(params.classes)
    for row, (label, best_label) in enumerate(zip(y.tolist(), greedy.tolist(), strict=True)):
        ahead = lead(scores[row], params.classes, int(scores[row].argmax()))
        explored[row] = gap(params, scores[row], ahead, work)
        gradient(params, scores[row], label, best_label, ahead, 1.0, work)
        squared[row] = work @ work
    if params.loss == Loss.HINGE:  # settled where the learner is right and leads by more than 1/K
        value = np.where(squared > 0.0, value, 0.0)
    return explored, value, squared


def surrogate_gap(
    params: Gaptron, scores: Numbers, y: NDArray[np.int64], squared: Numbers, greedy: NDArray[np.int64]
) -> Numbers:
    """Return the surrogate gap per round, with the gradient in expectation over the label played.

    >>> params = Gaptron(3, setting=FeedbackSetting.FULL, loss=Loss.SMOOTH, rate=1 / 12, exploration=0.0)
    >>> bool(abs(surrogate_gap(params, np.zeros((1, 3)), np.array([0]), np.ones(1), np.array([1]))) < 1e-12)
    True
    """
    kinds = scores.shape[1]
    explored, value, slope = surrogate_terms(params, scores, y, greedy)
    wrong = greedy != y
    if params.setting == FeedbackSetting.BANDIT:
        mixed = np.maximum(explored, params.exploration)
        chance = mixed / kinds + np.where(wrong, 0.0, 1.0 - mixed)
        slope = np.divide(slope, chance, out=np.zeros_like(slope), where=slope > 0.0)
    cost = (1.0 - explored) * wrong + explored * (kinds - 1.0) / kinds
    return np.asarray(cost - value + 0.5 * params.rate * slope * squared)


def draw_figure1(loss: LossName, points: int = 401) -> Curves:
    """Draw Figure 1 of the paper for any of the losses.

    Two classes, one weight vector, by the margin z = y <w, x> with ||x|| = 1. The gap is positive where a curve is above the loss: without a
    gap map around z = 0, with it nowhere.
    """
    z = np.linspace(-1.0, 1.5, points)
    code = int(next(code for code, name in LOSSES.items() if name == loss))
    rate = full_constants(Gaptron(2, loss=code, max_norm=1.0))[0]
    with_map, without, value = binary_curves(code, z, rate)
    series = [
        Series("the surrogate loss", {"z": Band(value.tolist())}),
        Series("mistakes and gradient, a = 0", {"z": Band(without.tolist())}),
        Series("mistakes and gradient, with the gap map", {"z": Band(with_map.tolist())}),
    ]
    return Curves(f"Surrogate gap, {loss} loss, rate {rate:.4g}", z.tolist(), "margin z", "loss", series)


def binary_curves(loss: int, z: Numbers, rate: float) -> tuple[Numbers, Numbers, Numbers]:
    """Return expected mistakes plus rate/2 ||g||^2 with and without the gap map, and the loss itself."""
    scores = np.stack([z, np.zeros_like(z)], axis=1)
    label = np.zeros(len(z), dtype=np.int64)
    greedy = np.where(z > 0.0, 0, 1)
    explored, value, slope = surrogate_terms(Gaptron(2, loss=loss), scores, label, greedy)
    gradient = 0.5 * rate * slope / 2.0  # one vector replaces two opposite ones
    wrong = greedy != label
    return (1.0 - explored) * wrong + 0.5 * explored + gradient, wrong + gradient, value
