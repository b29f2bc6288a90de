"""The generic functions through which the loop calls whatever rule and space it is given.

Called from Python, they look up the rule or space by the type of the record. When compiled, they are resolved on that
type (`engine.overloads`), so the loop is one function and a call costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from onebit.contract.belief import margin
from onebit.contract.candidates import Labels
from onebit.contract.draws import TAUGHT, Draws
from onebit.contract.rule import LEARNT, NORM, Choice, Rule, RuleInput, Vector, rules_by_record
from onebit.spaces import space as common

REFRESH = 4096  # feedbacks between two times that ||W||^2 is summed afresh


# --- functions of the rule --------------------------------------------------------------------------------------------


def decide(params: Any, given: RuleInput) -> Choice:
    """Return the rule's decision."""
    choice: Choice = _of_rule(params, "decide")(params, given)
    return choice


def learn(params: Any, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Write the rule's step; return the scale of the weights."""
    return float(_of_rule(params, "learn")(params, given, choice, revealed, step))


def probabilities(params: Any, given: RuleInput, out: Vector) -> None:
    """Write the rule's distribution over labels."""
    _of_rule(params, "probabilities")(params, given, out)


def teach(params: Any, given: RuleInput, label: int, step: Vector) -> float:
    """Write the rule's step for a known label; return the scale of the weights."""
    return float(_of_rule(params, "teach")(params, given, label, step))


def surety(params: Any, given: RuleInput, label: int) -> float:
    """Return how sure the rule is of a label, on the rule's own scale."""
    return float(_of_rule(params, "surety")(params, given, label))


def narrow_params(params: Any, count: int) -> Any:
    """Return the rule's record for this number of candidates."""
    return _of_rule(params, "narrow_params")(params, count)


def gather(params: Any, scores: Vector, candidates: Labels, out: Vector) -> None:
    """Write the scores of the candidates in the form that the rule expects."""
    _of_rule(params, "gather")(params, scores, candidates, out)


def scatter(params: Any, step: Vector, candidates: Labels, out: Vector) -> None:
    """Write the rule's step for the candidates into the step for all heads."""
    _of_rule(params, "scatter")(params, step, candidates, out)


def follow(params: Any, space: Any, given: RuleInput, step: Vector, scale: float) -> None:
    """Update ||W||^2 after W <- scale * W + step (x) x, if the rule needs it."""
    _of_rule(params, "follow")(params, space, given, step, scale)


def follow_nothing(params: Any, space: Any, given: RuleInput, step: Vector, scale: float) -> None:
    """Do nothing, for rules that do not need ||W||^2."""


def follow_norm(params: Any, space: Any, given: RuleInput, step: Vector, scale: float) -> None:
    """Update ||W||^2 after a step; now and then sum it afresh."""
    memory = given.memory
    added = added_norm(given.scores, given.scores.shape[0], given.sq_norm, step, scale)
    memory[NORM] = max(0.0, scale * scale * memory[NORM] + added + extra_norm_change(space))
    if memory[LEARNT] % REFRESH == 0.0:
        memory[NORM] = refresh_norm(space, memory[NORM])


def added_norm(scores: Vector, heads: int, sq_norm: float, step: Vector, scale: float) -> float:
    """Return the amount that a step adds to scale^2 ||W||^2."""
    added = 0.0
    for head in range(heads):
        added += step[head] * (2.0 * scale * scores[head] + sq_norm * step[head])
    return added


def play_and_learn(params: Any, given: RuleInput, label: int, step: Vector) -> float:
    """Teach a bandit rule that has no step for known labels: let it play, and tell it if it was right.

    Return the scale of the weights.
    """
    choice = decide(params, given)
    return learn(params, learning_from(given, choice, label), choice, label if choice.label == label else -1, step)


def play_and_see(params: Any, given: RuleInput, label: int, step: Vector) -> float:
    """Teach a full-information rule by its own step, since it sees the label anyway.

    Return the scale of the weights.
    """
    choice = decide(params, given)
    return learn(params, learning_from(given, choice, label), choice, label, step)


def learning_from(given: RuleInput, choice: Choice, label: int) -> RuleInput:
    """Return the same round with the draws for learning, and the reward of the choice."""
    later, reward = Draws(given.draws.key, given.draws.id, TAUGHT), 1.0 if choice.label == label else 0.0
    return RuleInput(
        given.memory, given.scores, given.sq_norm, later, given.work, reward, given.candidates, given.complete
    )


# The function that each of these names stands for, given a rule.
RULE_FUNCTIONS: dict[str, Callable[[Rule], Callable[..., Any]]] = {
    **{name: attrgetter(name) for name in ("decide", "learn", "probabilities")},
    "teach": lambda rule: rule.teach or (play_and_see if rule.full_information is True else play_and_learn),
    "surety": lambda rule: rule.surety or margin,
    "narrow_params": attrgetter("narrowed_by.params"),
    "gather": attrgetter("narrowed_by.gather"),
    "scatter": attrgetter("narrowed_by.scatter"),
    "follow": lambda rule: follow_norm if rule.keeps_norm else follow_nothing,
}


def _of_rule(params: Any, name: str) -> Any:
    return RULE_FUNCTIONS[name](rules_by_record[type(params)])


# --- functions of the space -------------------------------------------------------------------------------------------


def space_function(space: type[Any], name: str) -> Any:
    """Return a space's version of a generic function: its module's own, else the common one, else None."""
    return getattr(sys.modules[space.__module__], name, None) or getattr(common, name, None)


def _of_space(space: Any, name: str) -> Any:
    return space_function(type(space), name)


def score(space: Any, rows: Any, row: int, scores: Vector) -> float:
    """Write the space's scores for one row; return the squared norm of the row."""
    return float(_of_space(space, "score")(space, rows, row, scores))


def write_hopes(space: Any, scores: Vector, candidates: Labels) -> None:
    """Write optimistic values of the classes, in spaces that compute them only for decisions."""
    _of_space(space, "write_hopes")(space, scores, candidates)


def absorb(space: Any, rows: Any, row: int, coefficients: Vector, scale: float) -> None:
    """Update the space by a step along one row."""
    _of_space(space, "absorb")(space, rows, row, coefficients, scale)


def needs_room(space: Any, rows: Any, row: int) -> bool:
    """Return True if the space must grow before it can take a step along this row."""
    return bool(_of_space(space, "needs_room")(space, rows, row))


def extra_norm_change(space: Any) -> float:
    """Return by how much the last step changed ||W||^2, apart from what the step itself added."""
    return float(_of_space(space, "extra_norm_change")(space))


def refresh_norm(space: Any, tracked: float) -> float:
    """Return ||W||^2, summed afresh where that is cheap, else `tracked`."""
    return float(_of_space(space, "refresh_norm")(space, tracked))
