"""The second-order perceptron: the perceptron in coordinates in which everything seen so far looks round; told every label.

Cesa-Bianchi, Conconi and Gentile, "A Second-Order Perceptron Algorithm", SIAM Journal on Computing 34, 2005, with one matrix for all
classes (from memory: not compared with the original text). Promise: fewer mistakes than the perceptron where rows are correlated.

    predict argmax V P x;   on a mistake V_y += x, V_h -= x, P^-1 += x x'          P starts at I/a

Since the matrix is shared, whether the current row is counted in it changes no label. Full information. Time and memory
O(K d + d^2), or O(K d) with a diagonal.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import fill, greedy_label, share_greedy
from onebit.contract.draws import Draws
from onebit.contract.order import Covariance, Matrices, Order
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Matrix, Rule, Vector


class SecondOrderPerceptron(NamedTuple):
    """The parameters of the second-order perceptron."""

    classes: int
    ridge: Annotated[float, Real("(0, inf)", "a, what the matrix starts with")] = 1.0
    matrix: Matrices = Covariance.DIAGONAL


def decide(
    params: SecondOrderPerceptron, memory: Vector, scores: Vector, norm: float, draws: Draws, work: Matrix
) -> Choice:
    """The best label."""
    greedy = greedy_label(scores, params.classes, draws)
    return Choice(greedy, greedy, 1.0, 0.0, 0.0)


def learn(
    params: SecondOrderPerceptron,
    memory: Vector,
    scores: Vector,
    norm: float,
    choice: Choice,
    told: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """On a mistake: the perceptron step of the sums, and one row more in the matrix."""
    fill(coefficients, 2 * params.classes, 0.0)
    if told != choice.label:
        coefficients[told] = 1.0
        coefficients[choice.label] = -1.0
        for label in range(params.classes):
            coefficients[params.classes + label] = 1.0
    return 1.0


def probabilities(
    params: SecondOrderPerceptron, memory: Vector, scores: Vector, norm: float, work: Matrix, chances: Vector
) -> None:
    """The tied share alike."""
    share_greedy(scores, params.classes, 0.0, chances)


def order(params: SecondOrderPerceptron) -> Order:
    """Sums, and one matrix for all classes."""
    return Order(start=1.0 / params.ridge, sums=True, shared=True)


RULE = Rule(
    name="second-order-perceptron",
    paper="Cesa-Bianchi, Conconi, Gentile 2005",
    summary="the perceptron in whitened coordinates (full information)",
    record=SecondOrderPerceptron,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    full=True,
    second_order=order,
    examples=({}, {"ridge": 0.1, "matrix": "full"}),
)
