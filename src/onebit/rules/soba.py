"""SOBA: a second-order perceptron with bandit feedback that learns from right answers alone.

Beygelzimer, Orabona and Zhang, "Efficient Online Bandit Multiclass Learning with O(sqrt(T)) Regret", ICML 2017. Promise: O(sqrt(T))
regret for a family of losses between the hinge and its square.

    play the greedy label, or with probability gamma any label;   p = the probability of what was played
    wrong: nothing.  right: b the best rival of a,  delta = s_b - s_a,  u = (e_b - e_a) (x) x,  v = A^-1 u,  q = u.v
    m = (delta^2 + 2 delta)/(p + q);   if M + m >= 0:  M += m,  A += u u'/p,  W -= (1 + delta)/(p + q) v

Compared with the paper: `full` is its Algorithm 1, number for number, and the diagonal in the published form its SOBAdiag, which is also
Caoang327/Efficient-Online-Bandit-Multiclass-learning (13721b6, SOBA2.py). The MATLAB of bahh723/separable-bandit-classification
(b0bdee5) agrees for greedy right answers alone: an explored one there adds nothing to M, takes delta = 0 and the root of p with q. The
paper's adaptive gamma (Appendix A) is not here.

An explored right answer always passes the test. With `full` there is one matrix over all classes and features, (K d)^2 numbers; the
diagonal moves weights and variances of two classes. Its published form, W = theta/A, is a little worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from onebit.contract.choices import fill, rival
from onebit.contract.covariance import Covariance, DiagonalForm, Forms, Matrices, Order, difference_variance
from onebit.contract.exploration import decide_epsilon_greedy, epsilon_greedy_probabilities
from onebit.contract.parameters import Real
from onebit.contract.rule import OWN, Choice, Rule, RuleInput, Vector

HEADROOM = OWN  # position of M


class SOBA(NamedTuple):
    classes: int
    ridge: Annotated[float, Real("(0, inf)", "a, the initial diagonal of the matrix")] = 1.0
    exploration: Annotated[float, Real("(0, 1]", "gamma, the probability of exploring")] = 0.1
    form: Forms = DiagonalForm.RESIDUAL
    matrix: Matrices = Covariance.DIAGONAL


def prepare(params: SOBA, options: Mapping[str, object]) -> tuple[SOBA, tuple[float, ...]]:
    """Allocate the sum M in the memory."""
    return params, (0.0,)


def learn(params: SOBA, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Separate a right label from its best rival."""
    memory, scores = given.memory, given.scores
    classes, label, joint = params.classes, choice.label, params.matrix == Covariance.FULL
    fill(step, 2 * classes, 0.0)
    if revealed != label:
        return 1.0
    other = rival(scores, classes, label)
    delta = scores[other] - scores[label]
    variance = choice.propensity + difference_variance(scores, classes, joint, label, other)
    gain = (delta * delta + 2.0 * delta) / variance
    if memory[HEADROOM] + gain >= 0.0:
        memory[HEADROOM] += gain
        size = (1.0 + delta) / variance if joint or params.form == DiagonalForm.RESIDUAL else 1.0 / choice.propensity
        step[label], step[other] = size, -size
        if joint:  # a direction, whose outer product is u u'/p
            direction = 1.0 / choice.propensity**0.5
            step[classes + label], step[classes + other] = -direction, direction
        else:
            step[classes + label] = 1.0 / choice.propensity
            step[classes + other] = 1.0 / choice.propensity
    return 1.0


def order(params: SOBA) -> Order:
    """Return the covariance: joint over all classes and features if it is full, else the diagonal."""
    return Order(start=1.0 / params.ridge, sums=params.form == DiagonalForm.PUBLISHED, joint=True)


RULE = Rule(
    name="soba",
    paper="Beygelzimer, Orabona, Zhang 2017",
    summary="A second-order perceptron that learns from right answers",
    record=SOBA,
    decide=decide_epsilon_greedy,
    learn=learn,
    probabilities=epsilon_greedy_probabilities,
    prepare=prepare,
    second_order=order,
    examples=({}, {"form": "published", "exploration": 0.3}, {"matrix": "full", "exploration": 0.3}),
)
