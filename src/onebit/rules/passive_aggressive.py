"""Multiclass passive-aggressive learning, told every label: as little as possible, until the label leads by one.

Crammer, Dekel, Keshet, Shalev-Shwartz and Singer, "Online Passive-Aggressive Algorithms", JMLR 7, 2006 (uniform cost). Full
information. Promise: cumulative squared loss at most (R ||u||)^2-fold of the best u's where the data are separable.

    r = argmax_{j != y} s_j,   l = [1 - s_y + s_r]_+
    tau = l/(2n)  |  min(C, l/(2n))  |  l/(2n + 1/(2C))          w_y += tau x,   w_r -= tau x

Exact for the single most violated constraint; `exact-pa` meets all of them. It also moves on right answers whose margin is
below one. Time and memory O(K d). Use PA-I with a small C on noisy data.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import fill, rival
from onebit.contract.draws import Draws
from onebit.contract.margins import Variant, hinge, step_size
from onebit.contract.parameters import OneOf, Real
from onebit.contract.rule import Choice, Matrix, Rule, Vector
from onebit.rules.perceptron import decide, probabilities


class PassiveAggressive(NamedTuple):
    """The parameters of multiclass PA, PA-I and PA-II."""

    classes: int
    variant: Annotated[int, OneOf(Variant, "how the aggressiveness holds a step back")] = Variant.PA_I
    aggressiveness: Annotated[float, Real("(0, inf)", "C, the largest step of PA-I, the damping of PA-II")] = 1.0


def learn(
    params: PassiveAggressive,
    memory: Vector,
    scores: Vector,
    norm: float,
    choice: Choice,
    told: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """Part the true class and its best rival until they are one apart."""
    fill(coefficients, params.classes, 0.0)
    other = rival(scores, params.classes, told)
    # Two rows move by the same multiple of x, so their difference moves by twice the norm.
    step = step_size(params.variant, params.aggressiveness, hinge(scores[told] - scores[other]), 2.0 * norm)
    coefficients[told] = step
    coefficients[other] = -step
    return 1.0


RULE = Rule(
    name="passive-aggressive",
    paper="Crammer et al. 2006",
    summary="parts the label and its best rival; told every label",
    record=PassiveAggressive,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    full=True,
    examples=({}, {"variant": "PA"}, {"variant": "PA-II", "aggressiveness": 0.1}),
)
