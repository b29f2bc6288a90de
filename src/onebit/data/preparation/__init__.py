"""Declared preparation: what is done to the rows before a run, as a tuple of steps that is part of the run's identity.

Each step is fitted on what those before it give, over the whole table. That is hindsight: a learner in production has not seen
the rows to come, and divides by constants that are known beforehand. Numbers are float64 from step to step and float32 in the
end. Rows pass in blocks, once for each step that has to look at them first and once (sparse rows: twice) for the result, so that
memory stays bounded where table and result are on disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from onebit.data.preparation.blocks import table_of
from onebit.data.preparation.steps import MOST_COLUMNS, STEPS, step_of, steps_of, through
from onebit.errors import InputError

__all__ = ["STEPS", "columns_after", "prepared", "steps_of"]


def prepared(X: Any, steps: str | Iterable[str] | None, folder: Path | None = None) -> Any:
    """The rows after all steps: an array or a CSR matrix of float32, as X was one; without steps X itself.

    With a folder the result is in files there (X.npy; or data.npy, indices.npy and indptr.npy), mapped into memory, and written
    completely or not at all.

    >>> prepared([[3, 4], [0, 8]], "unit-norm,bias")
    array([[0.6, 0.8, 1. ],
           [0. , 1. , 1. ]], dtype=float32)
    """
    names = steps_of(steps)
    if not names:
        return X
    table, chain = table_of(X), [step_of(name) for name in names]
    for place, step in enumerate(chain):
        if step.looks:
            for block in through(table.blocks(), chain[:place]):
                step.observe(block)
    try:
        return table.result(lambda: through(table.blocks(), chain), folder)
    except OSError as error:
        raise InputError(f"the prepared rows cannot be written to {folder}: {error.strerror or error}") from None


def columns_after(steps: tuple[str, ...], width: int) -> int:
    """How many columns rows of so many have at most after all steps.

    >>> columns_after(("fourier:500:0.5", "bias"), 100)
    501
    """
    for name in steps:
        width = min(step_of(name).columns(width), MOST_COLUMNS)
    return width
