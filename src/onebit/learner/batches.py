"""Many rows of a model: whole streams, labelled rows, and batches of choices to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels, candidates_at, count_lists, repack_list
from onebit.contract.draws import CORRECTING, TEACHING, hash_ids
from onebit.contract.rule import LEARNT
from onebit.engine import stream as engine
from onebit.engine.compile import loop_for
from onebit.engine.schedule import NO_REWARDS, NOTHING, Schedule
from onebit.errors import InputError
from onebit.features.rows import Rows, convert_stretch, filled_cells, one_row
from onebit.learner.loop_calls import NO_IDS, LoopTerms, call_loop, run_rows
from onebit.learner.model import Model

BLOCK = 1 << 20  # cells of rows that are turned into the form of the space at a time
_NO_CHOICES = np.zeros((0, engine.CHOICE_COLUMNS))
_WRONG = np.full(1, -1, dtype=np.int64)


def walk_stream(
    model: Model,
    rows: Rows,
    schedule: Schedule,
    kept: NDArray[np.float64],
    tally: engine.Tally,
    first_id: int,
    steps: tuple[int, int],
    calibrate: bool,
) -> None:
    """Decide and learn over some steps of a stream, counting mistakes, and unless it takes too long how sure to be of a label."""
    model.make_room()
    model.refuse_unfitting(rows)
    step, stop = steps
    mode = engine.DECIDE | engine.COUNT | (model.learning if calibrate else model.learning & ~engine.CALIBRATE)
    ids = NO_IDS
    if len(schedule.part.waiting):
        ids = (schedule.numbers - schedule.part.first + first_id).astype(np.uint64)
    # Without a step for known labels a correction is a "wrong", which it is anyway unless classes are worth more or less.
    by_bit = model.rule.teach is None and not len(schedule.rewards)
    corrections = 0.0 if model.needs_labels or by_bit else schedule.corrections
    terms, order = LoopTerms(kept, tally, ids, first_id, mode, corrections), NOTHING
    while step < stop:
        routing, learnt = model.routing, model.memory[LEARNT]
        until = schedule.next_feedback(step, stop) if model.counts_rows else stop
        here, part = rows, schedule
        if type(rows) is not model.rows_type:
            until = min(until, step + max(1, BLOCK // model.room))
            order = order if len(order) else np.zeros(len(schedule.labels), dtype=np.int64)
            here, part = convert_stretch(rows, schedule, (step, until), order)
        reached = _walk_rows(model, here, part, terms, step, until)
        if reached < until:
            row = schedule.named_row(schedule.row(reached, rows.height))
            raise InputError(f"row {row}: {model.explain_refusal(here, part.row(reached, here.height))}")
        counted = model.routing is not routing  # as a correction
        if model.counts_rows and model.memory[LEARNT] > learnt and not counted:
            model.count_row(rows, schedule.row(until - 1, rows.height))
        step = until
    if model.watches_repairs:
        model.warn_of_repairs()


def _walk_rows(model: Model, rows: Rows, schedule: Schedule, terms: LoopTerms, start: int, stop: int) -> int:
    """Walk over rows in the form of the space; return the step that was refused, or `stop`."""
    while True:
        start = call_loop(model, rows, schedule, terms, start, stop)
        if start < 0:  # a label is revealed
            start = -1 - start
            _correct_round(model, rows, schedule, terms, start)
            start += 1
            if start < stop:
                continue
        if start == stop or not model.make_support_room(rows, schedule.row(start, rows.height)):
            return start


def _correct_round(model: Model, rows: Rows, schedule: Schedule, terms: LoopTerms, step: int) -> None:
    """Teach the label of a round in which a wrong one was played, or where the rule cannot be taught, say that it was wrong."""
    now, row = schedule.round_of(step), schedule.row(step, rows.height)
    word = terms.ids[now : now + 1] if len(terms.ids) else np.array([terms.first_id + now], dtype=np.uint64)
    here, choice, among = one_row(rows, row), terms.kept[now : now + 1], repack_list(schedule.among, now)
    if model.rule.teach is None:
        run_rows(model, here, choice, model.learning, word, labels=_WRONG, among=among)
    else:
        correct_rows(model, here, schedule.labels[now : now + 1], choice, word, among)


def correct_rows(
    model: Model,
    rows: Rows,
    labels: NDArray[np.int64],
    choices: NDArray[np.float64],
    words: NDArray[np.uint64],
    among: Labels = NOTHING,
) -> None:
    """Take the step for a known label in answer to each choice, which counts as feedback."""
    _take_lessons(model, rows, labels, among, choices, words, 0, CORRECTING)


def teach_rows(model: Model, rows: Rows, labels: NDArray[np.int64], first_id: int) -> None:
    """Take the step for a known label on every row, all of them or none."""
    model.make_room()
    with model.unchanged_if_refused(rows):
        _take_lessons(model, rows, labels, NOTHING, _NO_CHOICES, NO_IDS, first_id, TEACHING)


def _take_lessons(
    model: Model,
    rows: Rows,
    labels: NDArray[np.int64],
    among: Labels,
    choices: NDArray[np.float64],
    words: NDArray[np.uint64],
    first_id: int,
    purpose: int,
) -> None:
    done = 0
    while True:
        rows, loop = model.fit_rows(rows), loop_for(model.rule, model.space, engine.lessons)
        counting, learnt = model.counts_rows, model.memory[LEARNT]
        until = done + 1 if counting else len(labels)
        done = loop(
            model.params,
            model.space,
            rows,
            labels[:until],
            among,
            model.memory,
            model.calibration,
            model.buffers,
            choices,
            model.key,
            words,
            np.uint64(first_id),
            purpose,
            done,
            model.limit,
        )
        if done < until:
            if not model.make_support_room(rows, done):
                raise InputError(f"row {done}: {model.explain_refusal(rows, done)}")
            continue
        # Lessons are no feedback, and are not counted as such.
        if counting and (model.memory[LEARNT] > learnt or (len(choices) == 0 and filled_cells(rows, done - 1))):
            model.count_row(rows, done - 1)
        if done == len(labels):
            return


# --- batches of choices ------------------------------------------------------------------------------------------------

Rewards = Sequence[float] | NDArray[np.float64]


class LearningBatch(NamedTuple):
    """Choices to learn from, with their rows and what was revealed of them.

    `among` are the candidates that they were made from, where there were any; `rewards`, (rows, 1), what they were worth, where right and wrong are
    not all there is; `truths` the classes that somebody named as right, -1 where nobody did, where any are named.
    """

    rows: Rows
    ids: Sequence[int | str]
    choices: NDArray[np.float64]
    revealed: NDArray[np.int64]
    words: NDArray[np.uint64]
    among: Labels = NOTHING
    rewards: NDArray[np.float64] = NO_REWARDS
    truths: Labels = NOTHING


def checked_among(among: Labels, rows: int, classes: int) -> Labels:
    """Check lists of candidates, since compiled code does not: one for each row, of classes in rising order."""
    if count_lists(among) != rows:
        raise InputError(f"there are {count_lists(among)} lists of candidates for {rows} rows")
    for row in range(rows):
        found = candidates_at(among, row)
        if len(found) == 0 or found[0] < 0 or found[-1] >= classes or not (np.diff(found) > 0).all():
            raise InputError(f"row {row}: the candidates are no list of classes in rising order")
    return among


def checked_batch(
    rows: Rows,
    ids: Sequence[int | str],
    choices: NDArray[np.float64],
    right: Sequence[bool] | NDArray[np.bool_],
    among: Labels,
    rewards: Rewards | None,
    truths: Labels | None,
    classes: int,
) -> LearningBatch:
    """Check choices as the loop wrote them, kept by somebody, and return them as a batch."""
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
    known = NOTHING if truths is None else checked_truths(truths, among, len(ids), classes)
    if len(known) and len(worth):  # right and wrong follow from a truth
        worth = np.where(known >= 0, known == choices[:, engine.LABEL], worth[:, 0]).reshape(-1, 1)
    revealed = np.where(np.asarray(right), choices[:, engine.LABEL], -1).astype(np.int64)
    return LearningBatch(rows, ids, choices, revealed, hash_ids(ids), among, worth, known)


def checked_truths(truths: Labels, among: Labels, rows: int, classes: int) -> Labels:
    """Check the classes that were right: each a candidate, or -1 where that is not known."""
    found = np.ascontiguousarray(truths, dtype=np.int64)
    if found.shape != (rows,) or not ((found >= -1) & (found < classes)).all():
        raise InputError(f"truths must be the numbers of {rows} classes, or -1")
    for row in range(rows if len(among) else 0):
        if found[row] >= 0 and found[row] not in candidates_at(among, row):
            raise InputError(f"row {row}: the class that was right is none of the candidates")
    return found


def learn_rows(model: Model, batch: LearningBatch, corrects: bool) -> None:
    """Learn a batch in its order; named classes by the rule's step for known labels, if it `corrects`."""
    known, taught = batch.revealed, None
    if len(batch.truths):
        named = batch.truths >= 0
        known = np.where(named, batch.truths, known)
        taught = named & (_candidates(batch, model.classes) > 1) & corrects
    if taught is None or not taught.any():
        run_rows(
            model,
            batch.rows,
            batch.choices,
            model.learning,
            labels=known,
            words=batch.words,
            among=batch.among,
            rewards=batch.rewards,
        )
        return
    for row in range(len(batch.ids)):
        one = slice(row, row + 1)
        rows, choices, words = one_row(batch.rows, row), batch.choices[one], batch.words[one]
        among = repack_list(batch.among, row)
        if taught[row]:
            correct_rows(model, rows, known[one], choices, words, among)
        else:
            worth = batch.rewards[one]
            run_rows(model, rows, choices, model.learning, labels=known[one], words=words, among=among, rewards=worth)


def _candidates(batch: LearningBatch, classes: int) -> Labels:
    """Count the classes that could be played in each row."""
    rows = range(len(batch.ids))
    return np.array([len(candidates_at(batch.among, row)) if len(batch.among) else classes for row in rows])
