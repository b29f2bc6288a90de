"""The names under which the loop calls whatever rule and space it was given.

Called from Python they look up the rule or space by the type of the record; when compiled, `engine.compile` resolves them on
that type, so that the loop is one function and a call costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from onebit.contract.belief import surety_of
from onebit.contract.candidates import Labels
from onebit.contract.draws import TAUGHT, Draws
from onebit.contract.rule import LEARNT, NORM, Choice, Rule, RuleInput, Vector, known
from onebit.spaces import (
    dense,
    diagonal_dense,
    diagonal_sparse,
    full_dense,
    joint_dense,
    kernel_dense,
    kernel_sparse,
    sparse,
)

REFRESH = 4096  # so many feedbacks pass before ||W||^2 is summed afresh

SPACES: dict[type[Any], ModuleType] = {
    dense.Dense: dense,
    sparse.Sparse: sparse,
    kernel_dense.KernelDense: kernel_dense,
    kernel_sparse.KernelSparse: kernel_sparse,
    diagonal_dense.DiagonalDense: diagonal_dense,
    diagonal_sparse.DiagonalSparse: diagonal_sparse,
    full_dense.FullDense: full_dense,
    joint_dense.JointDense: joint_dense,
}


def rule_of(record: type[Any]) -> Rule:
    """The rule that a record belongs to."""
    return known[record]


def decide(params: Any, given: RuleInput) -> Choice:
    """The rule's decision."""
    return rule_of(type(params)).decide(params, given)


def learn(params: Any, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """The rule's step."""
    return rule_of(type(params)).learn(params, given, choice, revealed, step)


def probabilities(params: Any, given: RuleInput, out: Vector) -> None:
    """The rule's distribution over labels."""
    rule_of(type(params)).probabilities(params, given, out)


def teach(params: Any, given: RuleInput, label: int, step: Vector) -> float:
    """The rule's step for a known label."""
    return taught_by(rule_of(type(params)))(params, given, label, step)


def surety(params: Any, given: RuleInput, label: int) -> float:
    """How sure the rule is of a label, on a scale of its own."""
    return surety_of(rule_of(type(params)))(params, given, label)


def narrowed(params: Any, count: int) -> Any:
    """The rule's record for so many candidates."""
    return rule_of(type(params)).narrowed_by.params(params, count)


def gather(params: Any, scores: Vector, candidates: Labels, out: Vector) -> None:
    """The scores that the rule is given of the candidates."""
    rule_of(type(params)).narrowed_by.gather(params, scores, candidates, out)


def scatter(params: Any, step: Vector, candidates: Labels, out: Vector) -> None:
    """The rule's step for the candidates, among all heads."""
    rule_of(type(params)).narrowed_by.scatter(params, step, candidates, out)


def follow(params: Any, space: Any, given: RuleInput, step: Vector, scale: float) -> None:
    """What is kept beside the weights, after W <- scale * W + step (x) x: ||W||^2, for rules that ask for it."""
    followed_by(rule_of(type(params)))(params, space, given, step, scale)


def follow_nothing(params: Any, space: Any, given: RuleInput, step: Vector, scale: float) -> None:
    """For the rules that do not ask."""


def follow_norm(params: Any, space: Any, given: RuleInput, step: Vector, scale: float) -> None:
    """||W||^2 moves by what was added; now and then it is summed afresh."""
    memory = given.memory
    added = added_norm(given.scores, given.scores.shape[0], given.sq_norm, step, scale)
    memory[NORM] = max(0.0, scale * scale * memory[NORM] + added + moved(space))
    if memory[LEARNT] % REFRESH == 0.0:
        memory[NORM] = refreshed_norm(space, memory[NORM])


def added_norm(scores: Vector, heads: int, sq_norm: float, step: Vector, scale: float) -> float:
    """What a step adds to scale^2 ||W||^2."""
    added = 0.0
    for head in range(heads):
        added += step[head] * (2.0 * scale * scores[head] + sq_norm * step[head])
    return added


def play_and_learn(params: Any, given: RuleInput, label: int, step: Vector) -> float:
    """For a rule with bandit feedback and no step for known labels: what it learns from playing, and hearing about that."""
    choice = decide(params, given)
    return learn(params, learning_from(given, choice, label), choice, label if choice.label == label else -1, step)


def play_and_see(params: Any, given: RuleInput, label: int, step: Vector) -> float:
    """For a rule with full information: its own step, since it sees the label anyway."""
    choice = decide(params, given)
    return learn(params, learning_from(given, choice, label), choice, label, step)


def learning_from(given: RuleInput, choice: Choice, label: int) -> RuleInput:
    """The same round with the draws of learning in place of those of deciding, and what the choice was worth."""
    later, reward = Draws(given.draws.key, given.draws.id, TAUGHT), 1.0 if choice.label == label else 0.0
    return RuleInput(
        given.memory, given.scores, given.sq_norm, later, given.work, reward, given.candidates, given.complete
    )


def followed_by(rule: Rule) -> Callable[..., None]:
    """The function that keeps what a rule asks for beside the weights."""
    return follow_norm if rule.keeps_norm else follow_nothing


def taught_by(rule: Rule) -> Callable[..., float]:
    """The function that takes a step for a known label."""
    return rule.teach or (play_and_see if rule.full_information is True else play_and_learn)


def score(space: Any, rows: Any, row: int, scores: Vector) -> float:
    """The space's scores for one row, and its squared norm."""
    return float(SPACES[type(space)].score(space, rows, row, scores))


def hope(space: Any, scores: Vector, candidates: Labels) -> None:
    """Write what classes may be worth at best, in a space that works it out only where a decision is to be made: among the candidates, or all."""
    hoped_by(type(space))(space, scores, candidates)


def hope_nothing(space: Any, scores: Vector, candidates: Labels) -> None:
    """For the spaces whose scores say everything."""


def hoped_by(space: type[Any]) -> Callable[..., None]:
    """The function of a space that works out hopes."""
    return getattr(SPACES[space], "hope", hope_nothing)


def absorb(space: Any, rows: Any, row: int, coefficients: Vector, scale: float) -> None:
    """The space's step along one row."""
    SPACES[type(space)].absorb(space, rows, row, coefficients, scale)


def forget(space: Any) -> None:
    """Make the space as it was at the beginning."""
    SPACES[type(space)].forget(space)


def needs_room(space: Any, rows: Any, row: int) -> bool:
    """Whether the space must grow before it can take a step along this row."""
    return bool(SPACES[type(space)].needs_room(space, rows, row))


def moved(space: Any) -> float:
    """How ||W||^2 changed in the last step beside what the step itself added."""
    return float(SPACES[type(space)].moved(space))


def refreshed_norm(space: Any, kept: float) -> float:
    """||W||^2, summed afresh where that is cheap."""
    return float(SPACES[type(space)].refreshed_norm(space, kept))
