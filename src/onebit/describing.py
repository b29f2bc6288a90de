"""What a learner says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onebit.contract.calibration import ASKED, SURE, SURE_WRONG
from onebit.contract.description import CertaintyReport, Description, NeverRight
from onebit.contract.rule import LEARNT, RIGHT
from onebit.runtime import Runtime

MOST_NAMED = 10  # classes


def description_of(runtime: Runtime) -> Description:
    """Its error so far, its settings, and of several members what each of them does."""
    model = runtime.model
    with runtime.lock:
        right = model.memory[RIGHT]
        composed: dict[str, Any] = {}
        if runtime.rule.describe is not None and model.space is not None:
            composed.update(runtime.rule.describe(model.params, model.memory, model.space))
        never_right = composed.pop("never_right", None)
        return Description(
            learner=runtime.rule.title,
            learnt=runtime.ledger.moment,
            taught_nothing=max(0, runtime.ledger.moment - int(model.memory[LEARNT])),  # whatever a stranger's file says
            right=float(right) if runtime.rewarded else int(right),
            rewarded=runtime.rewarded,
            settings=runtime.settings,
            certainty=_certainty_of(runtime),
            repairs=model.repairs,
            form=_form_of(runtime),
            never_right=None if never_right is None else _named(runtime, never_right),
            **composed,
        )


def _form_of(runtime: Runtime) -> str | None:
    """The form in which rows are treated, and why; None where the learner does not choose it."""
    routing, features = runtime.model.routing, runtime.features
    if routing is None or features.size is None or features.space is None:
        return None
    return routing.said(features.size, features.space)


def _named(runtime: Runtime, never_right: Sequence[int]) -> NeverRight:
    """Of these classes those that can be played; a removed one has no chance of being right any more."""
    there = [runtime.classes[number] for number in never_right if number not in runtime.retired]
    return NeverRight(len(there), tuple(there[:MOST_NAMED]))


def _certainty_of(runtime: Runtime) -> CertaintyReport | None:
    """How sure it was where somebody asked."""
    state = runtime.model.calibration
    asked = int(state[ASKED])
    return CertaintyReport(asked, int(state[SURE]), float(state[SURE_WRONG])) if asked else None
