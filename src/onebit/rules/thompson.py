"""Thompson sampling: play the label that is best under weights drawn from what is known of them.

Thompson, Biometrika 25, 1933; with ridge regression Agrawal and Goyal, "Thompson Sampling for Contextual Bandits with Linear
Payoffs", ICML 2013. Promise: regret O(d^(3/2) sqrt(T)) where being right is linear.

    play argmax s_i + width sqrt(q_i) z_i,   z_i standard normal, independent between classes
    ridge regression of the label played, as LinUCB

Compared with the paper: its Algorithm 1 draws all weights, N(w, v^2 B^-1), with B = I at the start. On a block of features for each class
that is this draw, with v = `width` and ridge 1; here any ridge. The Open Bandit Pipeline (st-tech/zr-obp 8cbd5fa; v = 1) and MABWiser
(fidelity/mabwiser b104071) draw so too; 40,000 draws by their formula agree with `probabilities`. The theorem's v,
R sqrt(24 d ln(1/delta) / epsilon), is far larger.

Only the score of this x matters, and its marginal is exact, so nothing is factorised. `probabilities` integrates the marginals, to
0.002. Time and memory as LinUCB. Randomised, so its logs can be evaluated, though rare labels have tiny propensities.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from onebit.contract.choices import greedy_label
from onebit.contract.covariance import Covariance, Matrices
from onebit.contract.draws import OWN
from onebit.contract.gaussians import normal, share_largest
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Rule, RuleInput, Vector
from onebit.contract.steps import RIDGE_REGRESSION


class Thompson(NamedTuple):
    classes: int
    width: Annotated[float, Real("[0, inf)", "the deviation of a draw, in deviations of the score; 0 is greedy")] = 0.3
    ridge: Annotated[float, Real("(0, inf)", "lambda, the penalty of the regression")] = 0.1
    matrix: Matrices = Covariance.DIAGONAL


def weigh(params: Thompson, given: RuleInput, first: int, apart: int) -> None:
    """Write a random draw of each class's value into `work[0]`."""
    for label in range(first, params.classes, apart):
        deviation = params.width * math.sqrt(given.scores[params.classes + label])
        given.work[0, label] = given.scores[label] + deviation * normal(given.draws, OWN + 2 * label)


def decide(params: Thompson, given: RuleInput) -> Choice:
    """Play the best label of a draw."""
    weigh(params, given, 0, 1)
    label = greedy_label(given.work[0], params.classes, given.draws)
    return Choice(label, greedy_label(given.scores, params.classes, given.draws), 1.0, 0.0, 0.0)


def probabilities(params: Thompson, given: RuleInput, out: Vector) -> None:
    """Write the probability that each label's draw is the largest."""
    work = given.work
    for label in range(params.classes):
        work[0, label] = params.width * math.sqrt(given.scores[params.classes + label])
    share_largest(given.scores, work[0], params.classes, out, work[1])


RULE = Rule(
    name="thompson",
    paper="Thompson 1933; Agrawal, Goyal 2013",
    summary="Ridge regression, and the best of a random draw",
    record=Thompson,
    decide=decide,
    probabilities=probabilities,
    weigh=weigh,
    examples=({}, {"width": 1.0, "matrix": "full"}),
    **RIDGE_REGRESSION,
)
