"""The names under which the loop calls whatever rule and space it was given.

Called from Python they look up the rule or space by the type of the record; when compiled, `engine.compile` resolves them on
that type, so that the loop is one function and a call costs nothing.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from onebit.contract.draws import TAUGHT, Draws
from onebit.contract.rule import Choice, Matrix, Rule, Vector, known
from onebit.spaces import dense, scaled, sparse

SPACES: dict[type[Any], ModuleType] = {dense.Dense: dense, sparse.Sparse: sparse}
ROWS: dict[type[Any], ModuleType] = {dense.DenseRows: dense, sparse.SparseRows: sparse}

squared_norm = scaled.squared_norm


def rule_of(record: type[Any]) -> Rule:
    """The rule that a record belongs to."""
    return known[record]


def decide(params: Any, memory: Vector, scores: Vector, norm: float, draws: Draws, work: Matrix) -> Choice:
    """The rule's decision."""
    return rule_of(type(params)).decide(params, memory, scores, norm, draws, work)


def learn(
    params: Any,
    memory: Vector,
    scores: Vector,
    norm: float,
    choice: Choice,
    told: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """The rule's step."""
    return rule_of(type(params)).learn(params, memory, scores, norm, choice, told, draws, work, coefficients)


def probabilities(params: Any, memory: Vector, scores: Vector, norm: float, work: Matrix, chances: Vector) -> None:
    """The rule's distribution over labels."""
    rule_of(type(params)).probabilities(params, memory, scores, norm, work, chances)


def teach(
    params: Any,
    memory: Vector,
    scores: Vector,
    norm: float,
    label: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """The rule's step for a known label."""
    own = rule_of(type(params)).teach or play_and_learn
    return own(params, memory, scores, norm, label, draws, work, coefficients)


def play_and_learn(
    params: Any,
    memory: Vector,
    scores: Vector,
    norm: float,
    label: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """For a rule without a step for known labels: what it learns from hearing about the label it would have played."""
    choice = decide(params, memory, scores, norm, draws, work)
    told = label if choice.label == label else -1
    later = Draws(draws.key, draws.id, TAUGHT)
    return learn(params, memory, scores, norm, choice, told, later, work, coefficients)


def count(rows: Any) -> int:
    """How many rows there are."""
    return int(ROWS[type(rows)].count(rows))


def score(space: Any, rows: Any, row: int, scores: Vector) -> float:
    """The space's scores for one row, and its squared norm."""
    return float(SPACES[type(space)].score(space, rows, row, scores))


def absorb(space: Any, rows: Any, row: int, coefficients: Vector, scale: float) -> None:
    """The space's step along one row."""
    SPACES[type(space)].absorb(space, rows, row, coefficients, scale)


def heads(space: Any) -> int:
    """How many heads the space has."""
    return int(SPACES[type(space)].heads(space))
