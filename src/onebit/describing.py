"""What a learner says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onebit.contract.description import Description
from onebit.contract.rule import LEARNT, RIGHT
from onebit.runtime import Runtime


def description_of(runtime: Runtime) -> Description:
    """Its error so far, its settings, and of several members what each of them does."""
    model = runtime.model
    with runtime.lock:
        right = model.memory[RIGHT]
        composed: Mapping[str, Any] = {}
        if runtime.rule.describe is not None and model.space is not None:
            composed = runtime.rule.describe(model.params, model.memory, model.space.member_names)
        return Description(
            learner=runtime.rule.title,
            learnt=int(model.memory[LEARNT]),
            right=None if np.isnan(right) else int(right) if right.is_integer() else float(right),
            settings=runtime.settings,
            repairs=model.repairs,
            **composed,
        )
