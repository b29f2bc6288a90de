"""What a learner thinks of many rows, in numbers: the class that it thinks best, its scores, its beliefs. It changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.engine import stream as engine
from onebit.errors import InputError
from onebit.rows import Rows, row_of
from onebit.runtime import Runtime


def greedy_of(runtime: Runtime, rows: Rows) -> NDArray[np.int64]:
    """The number of the class that is thought best for each row; ties are broken alike for equal rows, wherever they stand."""
    choices = np.empty((rows.height, engine.CHOICE_COLUMNS))
    with runtime.lock:
        runtime.model.run(rows, choices, engine.DECIDE, words=np.zeros(rows.height, dtype=np.uint64))
    return choices[:, engine.GREEDY].astype(np.int64)


def scores_of(runtime: Runtime, rows: Rows) -> NDArray[np.float64]:
    """All that the space says of each row: a score for each head, and what follows them where the rule is of second order."""
    model = runtime.model
    with runtime.lock:
        found = np.empty((rows.height, model.buffers.shape[1]))
        model.refuse_unfitting(rows)
        for number in range(rows.height):
            try:
                model.decide_row(row_of(rows, number), 0, mode=engine.DECIDE)
            except InputError as error:
                raise InputError(f"row {number}: {error}") from None
            found[number] = model.buffers[engine.SCORES]
    return found


def beliefs_of(runtime: Runtime, rows: Rows) -> NDArray[np.float64]:
    """The probability that each class is the right one, row by row, as the rule believes; refused where it has scores alone."""
    with runtime.lock:
        return _believed(runtime, scores_of(runtime, rows))


def belief_of(runtime: Runtime, x: Any) -> NDArray[np.float64]:
    """The same of one x in any form.

    >>> import onebit
    >>> belief_of(onebit.Auto(classes=2).runtime, [1.0, 2.0]).round(6).tolist()
    [0.5, 0.5]
    """
    with runtime.lock:
        runtime.decide_one(x, 0)
        return np.asarray(_believed(runtime, runtime.model.buffers[engine.SCORES][None])[0])


def no_belief(title: str) -> str:
    """The sentence about a rule that believes nothing that could be told."""
    return f"{title} has scores, and no belief in the classes: they say which is best, and not how probably it is right"


def _believed(runtime: Runtime, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    model, rule = runtime.model, runtime.rule
    if rule.belief is None:
        raise InputError(no_belief(rule.title))
    return rule.belief(model.params, model.memory, scores)
