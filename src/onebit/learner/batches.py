"""Batches of choices to learn from: validated when they come from outside, and learnt in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels, candidates_at, count_lists, repack_list
from onebit.contract.draws import hash_ids
from onebit.engine import stream as engine
from onebit.engine.schedule import NO_REWARDS, NOTHING
from onebit.errors import InputError
from onebit.features.rows import Rows, slice_row
from onebit.learner.loop_calls import run_rows, take_lessons
from onebit.learner.model import Model

NONE_NAMED = np.zeros(0, dtype=np.bool_)


class LearningBatch(NamedTuple):
    """Choices to learn from, with their rows and feedback.

    `revealed` has the right class of each row, or -1 for another than the one played. `among` packs the candidates that
    the choices were made from, and is empty if there were none. `rewards`, of shape (rows, 1), is filled only if feedback
    is more than right and wrong. `named` says in which rows somebody named the right class; it is empty if in none.
    """

    rows: Rows
    ids: Sequence[int | str]
    choices: NDArray[np.float64]
    revealed: NDArray[np.int64]
    words: NDArray[np.uint64]
    among: Labels = NOTHING
    rewards: NDArray[np.float64] = NO_REWARDS
    named: NDArray[np.bool_] = NONE_NAMED


def checked_among(among: Labels, rows: int, classes: int) -> Labels:
    """Validate packed candidates, because compiled code does not.

    There must be one list for each row, with class indices in ascending order.
    """
    if count_lists(among) != rows:
        raise InputError(f"there are {count_lists(among)} lists of candidates for {rows} rows")
    for row in range(rows):
        candidates = candidates_at(among, row)
        if (
            len(candidates) == 0
            or candidates[0] < 0
            or candidates[-1] >= classes
            or not (np.diff(candidates) > 0).all()
        ):
            raise InputError(f"row {row}: the candidates are no list of classes in rising order")
    return among


def checked_batch(
    rows: Rows,
    ids: Sequence[int | str],
    choices: NDArray[np.float64],
    right: Sequence[bool] | NDArray[np.bool_],
    among: Labels,
    rewards: Sequence[float] | NDArray[np.float64] | None,
    truths: Labels | None,
    classes: int,
) -> LearningBatch:
    """Validate choices that the loop made and a caller kept, and return them as a batch."""
    if not rows.height == len(ids) == len(choices) == len(right):
        raise InputError(
            f"there are {rows.height} rows, {len(ids)} ids, {len(choices)} choices and {len(right)} answers"
        )
    labels = choices[:, engine.LABEL : engine.GREEDY + 1]
    if not ((labels >= 0) & (labels < classes)).all():
        raise InputError(f"a choice names a class beyond the {classes} that there are")
    if not (choices[:, engine.RULE_PROPENSITY] > 0.0).all():
        raise InputError("a choice has a propensity of its rule that is not above 0")
    if not np.isfinite(choices[:, engine.NOTE : engine.SECOND_NOTE + 1]).all():
        raise InputError("a choice has a note that is not a finite number")
    for row in range(len(ids) if len(among) else 0):
        if not np.isin(labels[row], candidates_at(among, row)).all():
            raise InputError(f"row {row}: the choice names a class that is none of its candidates")
    worth = NO_REWARDS if rewards is None else np.asarray(rewards, dtype=np.float64).reshape(-1, 1)
    if rewards is not None and not (len(worth) == len(ids) and ((worth >= 0.0) & (worth <= 1.0)).all()):
        raise InputError(f"rewards must be {len(ids)} numbers from 0 to 1")
    revealed, named = np.where(np.asarray(right), labels[:, 0], -1).astype(np.int64), NONE_NAMED
    if truths is not None:
        known = checked_truths(truths, among, len(ids), classes)
        named = known >= 0
        revealed = np.where(named, known, revealed)
        if len(worth):  # a truth determines the reward
            worth = np.where(named, known == labels[:, 0], worth[:, 0]).reshape(-1, 1)
    return LearningBatch(rows, ids, choices, revealed, hash_ids(ids), among, worth, named)


def checked_truths(truths: Labels, among: Labels, rows: int, classes: int) -> Labels:
    """Validate the indices of the right classes: each a candidate, or -1 if unknown."""
    labels = np.ascontiguousarray(truths, dtype=np.int64)
    if labels.shape != (rows,) or not ((labels >= -1) & (labels < classes)).all():
        raise InputError(f"truths must be the numbers of {rows} classes, or -1")
    for row in range(rows if len(among) else 0):
        if labels[row] >= 0 and labels[row] not in candidates_at(among, row):
            raise InputError(f"row {row}: the class that was right is none of the candidates")
    return labels


def learn_choices(model: Model, batch: LearningBatch, corrects: bool) -> None:
    """Learn a batch in order.

    With `corrects`, named classes are learnt by the rule's full-information step.
    """
    if not (corrects and batch.named.any()):
        _learn_bits(model, batch)
        return
    for row, named in enumerate(batch.named):
        here = slice(row, row + 1)
        part = batch._replace(
            rows=slice_row(batch.rows, row),
            choices=batch.choices[here],
            revealed=batch.revealed[here],
            words=batch.words[here],
            among=repack_list(batch.among, row),
            rewards=batch.rewards[here],
        )
        # With one candidate, a named class only says that it was right.
        if named and (not len(part.among) or len(candidates_at(part.among, 0)) > 1):
            take_lessons(model, part.rows, part.revealed, part.choices, part.words, part.among)
        else:
            _learn_bits(model, part)


def _learn_bits(model: Model, batch: LearningBatch) -> None:
    rows, _, choices, labels, words, among, rewards, _ = batch
    run_rows(model, rows, choices, model.learning, words, labels=labels, among=among, rewards=rewards)
