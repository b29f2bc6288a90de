"""What was said of decisions, on its way to the loop: checked, and in numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.draws import words_of
from onebit.decision import Decision
from onebit.engine import stream as engine
from onebit.errors import InputError, brief
from onebit.features import Kept
from onebit.runtime import LearningBatch, Runtime
from onebit.validation import ClassName

KINDS = ("bandit", "label")


def refuse_other_feedback(runtime: Runtime, feedback: object) -> None:
    """For those who are shown labels and may pass on one bit of each, or all: refuse what is neither, or too little for a rule."""
    if feedback not in KINDS:
        raise InputError(f"feedback is {brief(feedback)}, but must be 'bandit' or 'label'")
    if runtime.needs_labels and feedback == "bandit":
        raise InputError(f"{runtime.rule.title} learns from labels, not from one bit: give feedback='label'")


def revealed_by(runtime: Runtime, decision: Decision, right: bool | None, label: ClassName | None) -> int:
    """The class index that the loop compares with: the label, or -1 for some other class than the one played.

    A decision that is not this learner's to learn, now, is refused.
    """
    if not isinstance(decision, Decision):
        raise InputError(f"learn takes a Decision, and was given a {type(decision).__name__}")
    if (right is None) == (label is None):
        raise InputError("give either right=True or False, or the label")
    if label is not None:
        revealed = runtime.names.index(label)
    elif right is not True and right is not False and not isinstance(right, np.bool_):
        raise InputError(f"right is {brief(right)}, but must be True or False (bool(...) makes it so)")
    elif right:
        revealed = runtime.names.index(decision.label)
    elif runtime.needs_labels:
        raise InputError(f"{runtime.rule.title} learns from labels: give label=..., not only that it was wrong")
    else:
        revealed = -1
    if decision.learner != runtime.identity:
        raise InputError(f"decision {brief(decision.id)} was made by another learner")
    runtime.ledger.refuse_learnt(decision.id, decision.version)
    return revealed


def kept_of(runtime: Runtime, decision: Decision) -> Kept:
    """The x of a decision, checked again, since it may have come from outside."""
    x = decision.x
    features = runtime.features
    dense = isinstance(x, np.ndarray) and features.space == "dense"
    if dense and x.dtype == features.dtype and x.shape == (features.size,):  # type: ignore[union-attr]
        return x
    return features.keep(x)


def fill_choice(runtime: Runtime, choice: NDArray[np.float64], decision: Decision) -> None:
    """The choice of a decision as the loop keeps it."""
    choice[engine.LABEL] = runtime.names.index(decision.label)
    choice[engine.GREEDY] = runtime.names.index(decision.greedy)
    try:
        choice[engine.RULE_PROPENSITY] = decision.weight
        choice[engine.NOTE], choice[engine.SECOND_NOTE] = decision.notes
    except (TypeError, ValueError):
        raise InputError(
            f"decision {brief(decision.id)} has the weight {brief(decision.weight)} and the notes {brief(decision.notes)}, but must "
            "have a number and two numbers"
        ) from None
    if not (math.isfinite(choice[engine.NOTE]) and math.isfinite(choice[engine.SECOND_NOTE])):
        raise InputError(
            f"decision {brief(decision.id)} has the notes {brief(decision.notes)}, but they must be finite"
        )


def batch_of(
    runtime: Runtime,
    decisions: Sequence[Decision],
    right: Sequence[bool] | NDArray[np.bool_] | None,
    labels: Sequence[ClassName] | NDArray[Any] | None,
) -> LearningBatch | None:
    """Many decisions with what was said of each; None where there are none."""
    answers = right if right is not None else labels
    if answers is None or (right is not None and labels is not None):
        raise InputError("give either right or labels, one for each decision")
    if not hasattr(answers, "__len__") or not hasattr(decisions, "__len__"):
        raise InputError("decisions and answers must be lists, one answer for each decision")
    if len(answers) != len(decisions):
        raise InputError(f"there are {len(answers)} answers for {len(decisions)} decisions")
    if not decisions:
        return None
    revealed = np.empty(len(decisions), dtype=np.int64)
    choices = np.empty((len(decisions), engine.CHOICE_COLUMNS))
    kept = []
    seen: set[int | str] = set()
    for index, (decision, answer) in enumerate(zip(decisions, answers, strict=True)):
        one = answer.item() if isinstance(answer, np.generic) else answer
        one_right, one_label = (one, None) if right is not None else (None, one)
        revealed[index] = revealed_by(runtime, decision, one_right, one_label)
        if decision.id in seen:
            raise InputError(f"decision {brief(decision.id)} is there twice")
        seen.add(decision.id)
        kept.append(kept_of(runtime, decision))
        fill_choice(runtime, choices[index], decision)
    ids = [decision.id for decision in decisions]
    return LearningBatch(runtime.rows(kept, grow=True), ids, choices, revealed, words_of(ids))
