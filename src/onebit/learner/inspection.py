"""What a learner knows, in numbers: its settings, weights, scores and beliefs, and its description of itself. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.calibration import ASKED, SURE, SURE_WRONG
from onebit.contract.description import CertaintyReport, Description, NeverRight
from onebit.contract.rule import LEARNT, RIGHT
from onebit.engine import stream as engine
from onebit.errors import InputError
from onebit.features.rows import Rows, slice_row
from onebit.learner.loop_calls import decide_row, run_rows
from onebit.learner.runtime import Runtime

MOST_NAMED = 10  # classes


def settings_of(runtime: Runtime) -> dict[str, Any]:
    """Return every parameter of the rule as it is in force: given, by default, or computed by the rule."""
    params = runtime.model.params
    in_force = {name: note.show(getattr(params, name)) for name, note in runtime.rule.parameters.items()}
    given = {name: value for name, value in runtime.parameters.items() if value is not None}
    chosen = {"matrix": in_force["matrix"]} if "matrix" in in_force else {}
    return {**in_force, **given, **chosen}


def weights_of(runtime: Runtime) -> NDArray[Any]:
    """Return a copy of the weights: one row for each head, one column for each feature, the bias last."""
    with runtime.lock:
        if runtime.model.space is None:
            raise InputError("this learner has seen no x yet, so it has no weights")
        return runtime.space_choice.weights(runtime.model.space, runtime.features.columns)


def score_row(runtime: Runtime, x: Any) -> NDArray[np.float64]:
    """Return the score of every head for one x."""
    with runtime.lock:
        runtime.decide_one(x, 0)
        return runtime.model.buffers[engine.SCORES, : runtime.model.heads].copy()


def best_classes(runtime: Runtime, rows: Rows) -> NDArray[np.int64]:
    """Return the number of the best class for each row; ties are broken alike for equal rows."""
    choices = np.empty((rows.height, engine.CHOICE_COLUMNS))
    with runtime.lock:
        run_rows(runtime.model, rows, choices, engine.DECIDE, np.zeros(rows.height, dtype=np.uint64))
    return choices[:, engine.GREEDY].astype(np.int64)


def score_rows(runtime: Runtime, rows: Rows) -> NDArray[np.float64]:
    """Return what the space computes of each row: the scores of the heads, then variances if the rule is of second order."""
    model = runtime.model
    with runtime.lock:
        found = np.empty((rows.height, model.buffers.shape[1]))
        model.refuse_unfitting(rows)
        for number in range(rows.height):
            try:
                decide_row(model, slice_row(rows, number), 0, mode=engine.DECIDE)
            except InputError as error:
                raise InputError(f"row {number}: {error}") from None
            found[number] = model.buffers[engine.SCORES]
    return found


def believe_rows(runtime: Runtime, rows: Rows) -> NDArray[np.float64]:
    """Return the rule's belief that each class is right, row by row; refused if it has scores alone."""
    with runtime.lock:
        return _believed(runtime, score_rows(runtime, rows))


def believe_row(runtime: Runtime, x: Any) -> NDArray[np.float64]:
    """Return the rule's belief that each class is right for one x.

    >>> import onebit
    >>> believe_row(onebit.Auto(classes=2).runtime, [1.0, 2.0]).round(6).tolist()
    [0.5, 0.5]
    """
    with runtime.lock:
        runtime.decide_one(x, 0)
        return np.asarray(_believed(runtime, runtime.model.buffers[engine.SCORES][None])[0])


def no_belief_message(title: str) -> str:
    """Say that a rule has scores and no beliefs."""
    return f"{title} has scores, and no belief in the classes: they say which is best, and not how probably it is right"


def _believed(runtime: Runtime, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    model, rule = runtime.model, runtime.rule
    if rule.belief is None:
        raise InputError(no_belief_message(rule.title))
    return rule.belief(model.params, model.memory, scores)


def description_of(runtime: Runtime) -> Description:
    """Describe a learner: its error so far, its settings and, for `auto`, its members."""
    model = runtime.model
    with runtime.lock:
        right = model.memory[RIGHT]
        composed: dict[str, Any] = {}
        if runtime.rule.composite is not None and model.space is not None:
            composed.update(runtime.rule.composite.describe(model.params, model.memory, model.space))
        never_right = composed.pop("never_right", None)
        return Description(
            learner=runtime.rule.title,
            learnt=runtime.ledger.moment,
            taught_nothing=max(0, runtime.ledger.moment - int(model.memory[LEARNT])),  # whatever a stranger's file says
            right=float(right) if runtime.rewarded else int(right),
            rewarded=runtime.rewarded,
            settings=settings_of(runtime),
            certainty=_certainty_of(runtime),
            repairs=model.repairs,
            form=_form_of(runtime),
            never_right=None if never_right is None else _named(runtime, never_right),
            **composed,
        )


def _form_of(runtime: Runtime) -> str | None:
    """Say in which form rows are treated, and why; None if the learner does not choose it."""
    routing, features = runtime.model.routing, runtime.features
    if routing is None or features.size is None or features.space is None:
        return None
    return routing.said(features.size, features.space)


def _named(runtime: Runtime, never_right: Sequence[int]) -> NeverRight:
    """Name the classes that were never right, without removed ones."""
    there = [runtime.classes[number] for number in never_right if number not in runtime.names.retired]
    return NeverRight(len(there), tuple(there[:MOST_NAMED]))


def _certainty_of(runtime: Runtime) -> CertaintyReport | None:
    """Report how often the learner was sure, where somebody asked."""
    state = runtime.model.calibration
    asked = int(state[ASKED])
    return CertaintyReport(asked, int(state[SURE]), float(state[SURE_WRONG])) if asked else None
