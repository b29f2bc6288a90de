"""Batches of choices to learn from: validation of those from outside, and learning in order."""

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
from onebit.learner.loop_calls import run_rows, teach_rows
from onebit.learner.model import Model

NO_TRUTHS = np.zeros(0, dtype=np.bool_)


class LearningBatch(NamedTuple):
    """Choices to learn from, with their rows and feedback.

    `revealed` has the right class of each row, or -1 for another than the one played. `among` packs the candidates that
    the choices were made from, and is empty if there were none. `rewards`, of shape (rows, 1), is filled only if feedback
    is more than right and wrong. `has_truth` says in which rows somebody named the right class; it is empty if in none.
    """

    rows: Rows
    ids: Sequence[int | str]
    choices: NDArray[np.float64]
    revealed: NDArray[np.int64]
    words: NDArray[np.uint64]
    among: Labels = NOTHING
    rewards: NDArray[np.float64] = NO_REWARDS
    has_truth: NDArray[np.bool_] = NO_TRUTHS


def checked_among(among: Labels, rows: int, classes: int) -> Labels:
    """Return packed candidates, validated: one list per row, with class indices in ascending order.

    Compiled code does not check them.
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
            raise InputError(f"row {row}: candidates must be class indices below {classes} in ascending order")
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
    """Validate choices of the loop that a caller has stored; return them as a batch."""
    if not rows.height == len(ids) == len(choices) == len(right):
        raise InputError(
            f"got {rows.height} rows, {len(ids)} ids, {len(choices)} choices and {len(right)} answers: expected as many of each"
        )
    labels = choices[:, engine.LABEL : engine.GREEDY + 1]
    if not ((labels >= 0) & (labels < classes)).all():
        raise InputError(f"a choice has a class index that is not from 0 to {classes - 1}")
    if not (choices[:, engine.RULE_PROPENSITY] > 0.0).all():
        raise InputError("a choice has a rule propensity that is not positive")
    if not np.isfinite(choices[:, engine.NOTE : engine.SECOND_NOTE + 1]).all():
        raise InputError("a choice has a note that is not a finite number")
    for row in range(len(ids) if len(among) else 0):
        if not np.isin(labels[row], candidates_at(among, row)).all():
            raise InputError(f"row {row}: the choice has a class that is not one of its candidates")
    reward_column = NO_REWARDS if rewards is None else np.asarray(rewards, dtype=np.float64).reshape(-1, 1)
    in_range = ((reward_column >= 0.0) & (reward_column <= 1.0)).all()
    if rewards is not None and not (len(reward_column) == len(ids) and in_range):
        raise InputError(f"rewards must be {len(ids)} numbers from 0 to 1")
    revealed, has_truth = np.where(np.asarray(right), labels[:, 0], -1).astype(np.int64), NO_TRUTHS
    if truths is not None:
        truth_labels = checked_truths(truths, among, len(ids), classes)
        has_truth = truth_labels >= 0
        revealed = np.where(has_truth, truth_labels, revealed)
        if len(reward_column):  # a truth determines the reward
            reward_column = np.where(has_truth, truth_labels == labels[:, 0], reward_column[:, 0]).reshape(-1, 1)
    return LearningBatch(rows, ids, choices, revealed, hash_ids(ids), among, reward_column, has_truth)


def checked_truths(truths: Labels, among: Labels, rows: int, classes: int) -> Labels:
    """Return the indices of the right classes, validated: each a candidate, or -1 if unknown."""
    labels = np.ascontiguousarray(truths, dtype=np.int64)
    if labels.shape != (rows,) or not ((labels >= -1) & (labels < classes)).all():
        raise InputError(f"truths must be {rows} class indices from 0 to {classes - 1}, or -1 where unknown")
    for row in range(rows if len(among) else 0):
        if labels[row] >= 0 and labels[row] not in candidates_at(among, row):
            raise InputError(f"row {row}: the right class is not one of the candidates")
    return labels


def learn_choices(model: Model, batch: LearningBatch, learns_truths: bool) -> None:
    """Learn from the choices of a batch in order.

    With `learns_truths`, named classes are learnt by the rule's full-information step.
    """
    if not (learns_truths and batch.has_truth.any()):
        _learn_bits(model, batch)
        return
    for row, has_truth in enumerate(batch.has_truth):
        one_row = slice(row, row + 1)
        part = batch._replace(
            rows=slice_row(batch.rows, row),
            choices=batch.choices[one_row],
            revealed=batch.revealed[one_row],
            words=batch.words[one_row],
            among=repack_list(batch.among, row),
            rewards=batch.rewards[one_row],
        )
        # With one candidate, a named class only says that it was right.
        if has_truth and (not len(part.among) or len(candidates_at(part.among, 0)) > 1):
            teach_rows(model, part.rows, part.revealed, part.choices, part.words, part.among)
        else:
            _learn_bits(model, part)


def _learn_bits(model: Model, batch: LearningBatch) -> None:
    rows, _, choices, labels, words, among, rewards, _ = batch
    run_rows(model, rows, choices, model.learning, words, labels=labels, among=among, rewards=rewards)
