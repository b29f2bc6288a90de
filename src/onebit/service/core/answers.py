"""Decisions of the core as their callers see them: in a reply of the service, and in a program."""

from __future__ import annotations

from typing import Any

import numpy as np

from onebit.features.features import Kept
from onebit.learner.decision import Decision
from onebit.service.core.decide import MadeDecision
from onebit.service.core.request_terms import is_unsure
from onebit.service.core.served_task import ServedTask
from onebit.service.inputs import decode_indices, decode_numbers


def as_reply(served: ServedTask, decision: MadeDecision) -> dict[str, Any]:
    """Return a decision as `replies.DecisionReply` has it."""
    row, classes = decision.row, served.info.classes
    return {
        "id": row.id,
        "label": classes[row.label],
        "greedy": classes[row.greedy],
        "propensity": row.propensity,
        "probabilities": dict(zip(served.texts, decode_numbers(row.probabilities).tolist(), strict=False)),
        "version": f"{row.generation}.{row.learnt}",
        "among": None if row.among is None else [classes[place] for place in decode_indices(row.among)],
        "confidence": row.confidence,
        "unsure": is_unsure(row.confidence, row.sure),
    }


def as_decision(served: ServedTask, decision: MadeDecision) -> Decision:
    """Return a decision as the learner of the task makes it."""
    row, classes = decision.row, served.info.classes
    x: Kept = decision.x
    if served.info.inputs.kind == "numbers":
        x = np.frombuffer(row.x)
    elif isinstance(x, dict):
        x = dict(x)
    chances = zip(classes, decode_numbers(row.probabilities).tolist(), strict=False)
    return Decision(
        row.id,
        classes[row.label],
        row.propensity,
        classes[row.greedy],
        row.weight,
        (row.note, row.second_note),
        x,
        row.learnt,
        served.follower.replicas.resting.runtime.identity,
        None if row.among is None else tuple(classes[place] for place in decode_indices(row.among)),
        bool(row.complete),
        {name: chance for name, chance in chances if chance > 0.0},
        row.raw,
        row.confidence,
        row.sure,
    )
