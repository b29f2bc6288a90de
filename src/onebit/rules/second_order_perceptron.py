"""The second-order perceptron: a perceptron on whitened rows, with full information.

Cesa-Bianchi, Conconi and Gentile, "A Second-Order Perceptron Algorithm", SIAM Journal on Computing 34, 2005, with one matrix for all
classes. Promise: fewer mistakes than the perceptron where rows are correlated.

    predict argmax V P x;   on a mistake V_y += x, V_h -= x, P^-1 += x x'          P starts at I/a

Compared with public code; the paper itself was not available. With two classes it plays, label for label, what DOGMA plays
(denizyuret/dogma 91fef86, sop_train.m), ties apart; `ridge` is 1/a there. LIBOL (d7e11b5, SOP.m) counts a row in the matrix in every
round, not on mistakes alone. For more than two classes we found nothing to compare with: the sums are the multiclass perceptron's.

Since the matrix is shared, whether the row of a round is counted in it before that round's label, as in LIBOL, changes no label. Time
and memory O(K d + d^2), or O(K d) with a diagonal.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.candidates import Labels, Narrowing, fewer_classes, gather_moments, scatter_heads
from onebit.contract.choices import fill
from onebit.contract.covariance import Covariance, Matrices, Order
from onebit.contract.exploration import decide_greedy, greedy_probabilities
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Rule, RuleInput, Vector


class SecondOrderPerceptron(NamedTuple):
    classes: int
    ridge: Annotated[float, Real("(0, inf)", "a, the initial diagonal of the matrix")] = 1.0
    matrix: Matrices = Covariance.DIAGONAL


def learn(params: SecondOrderPerceptron, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """On a mistake, take the perceptron step of the sums and add the row to the matrix."""
    fill(step, 2 * params.classes, 0.0)
    if revealed != choice.label:
        step[revealed] = 1.0
        step[choice.label] = -1.0
        for label in range(params.classes):
            step[params.classes + label] = 1.0
    return 1.0


def scatter(params: SecondOrderPerceptron, step: Vector, candidates: Labels, out: Vector) -> None:
    """Write the steps of the candidates' sums; the matrix is shared by all classes."""
    scatter_heads(params, step, candidates, out)
    for label in range(params.classes):
        out[params.classes + label] = step[candidates.shape[0]]


def order(params: SecondOrderPerceptron) -> Order:
    """Return the covariance: the sums form, with one matrix for all classes."""
    return Order(start=1.0 / params.ridge, sums=True, shared=True)


RULE = Rule(
    name="second-order-perceptron",
    paper="Cesa-Bianchi, Conconi, Gentile 2005",
    summary="The perceptron in whitened coordinates (full information)",
    record=SecondOrderPerceptron,
    decide=decide_greedy,
    learn=learn,
    probabilities=greedy_probabilities,
    full_information=True,
    second_order=order,
    narrowing=Narrowing(fewer_classes(SecondOrderPerceptron), gather_moments, scatter),
    examples=({}, {"ridge": 0.1, "matrix": "full"}),
)
