"""Declared preparation: what is done to the rows before a run, as a tuple of steps that is part of the run's identity.

Each step is fitted on what those before it give, over the whole table. That is hindsight: a learner in production has not seen
the rows to come, and divides by constants that are known beforehand. Numbers are float64 from step to step and float32 in the
end. Rows pass in blocks, once for each step that has to look at them first and once (sparse rows: twice) for the result, so that
memory stays bounded where table and result are on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.preparation.blocks import Block, checked, dense_block
from onebit.data.preparation.spelling import MOST_COLUMNS, STEPS, steps_of
from onebit.data.preparation.steps import Step, step_of, through
from onebit.data.preparation.tables import block_rows, table_of
from onebit.data.synthetic import Labelled
from onebit.errors import InputError

__all__ = ["STEPS", "columns_after", "prepared", "prepared_pieces", "steps_of"]


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
    table = table_of(X)
    chain = _fitted(names, table.blocks)
    try:
        return table.result(chain, folder)
    except OSError as error:
        raise InputError(f"the prepared rows cannot be written to {folder}: {error.strerror or error}") from None


def prepared_pieces(draw: Callable[[], Iterator[Labelled]], steps: tuple[str, ...]) -> Iterator[Labelled]:
    """Labelled rows that are not held at once, after all steps: what `prepared` makes of all of them, bit for bit.

    `draw` gives them piece by piece, from the start whenever it is called, which it is once for each step that has to look.
    """

    def blocks() -> Iterator[tuple[Block, NDArray[np.int64]]]:
        first = 0
        for rows, labels in _regrouped(draw()):
            yield checked(dense_block(rows.astype(np.float64), first)), labels
            first += len(rows)

    chain = _fitted(steps, lambda: (block for block, _ in blocks()))
    for block, labels in blocks():
        (done,) = through([block], chain)
        yield done.values.astype(np.float32), labels


def columns_after(steps: tuple[str, ...], width: int) -> int:
    """How many columns rows of so many have at most after all steps.

    >>> columns_after(("fourier:500:0.5", "bias"), 100)
    501
    """
    for name in steps:
        width = min(step_of(name).columns(width), MOST_COLUMNS)
    return width


def _fitted(names: Iterable[str], blocks: Callable[[], Iterator[Block]]) -> list[Step]:
    """The steps, each of which has seen what those before it make of all blocks."""
    chain = [step_of(name) for name in names]
    for place, step in enumerate(chain):
        if step.looks:
            for block in through(blocks(), chain[:place]):
                step.observe(block)
    return chain


def _regrouped(pieces: Iterator[Labelled]) -> Iterator[Labelled]:
    """The rows of pieces in blocks as a table has them: what is summed over a block is summed over the same rows."""
    waiting: list[Labelled] = []
    count = 0
    for rows, labels in pieces:
        size, start = block_rows(rows.shape[1]), 0
        while start < len(rows):
            end = min(len(rows), start + size - count)
            waiting.append((rows[start:end], labels[start:end]))
            count, start = count + end - start, end
            if count == size:
                yield _joined(waiting)
                waiting, count = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(pieces: Iterable[Labelled]) -> Labelled:
    rows, labels = zip(*pieces, strict=True)
    return np.concatenate(rows), np.concatenate(labels)
