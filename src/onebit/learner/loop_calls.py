"""Functions that run the compiled loop on a model: over single rows, labelled rows and whole streams.

Rows go in and numbers come out; names of features and classes, ids and decisions belong to `Runtime`.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels, repack_list
from onebit.contract.draws import CORRECTING, TEACHING
from onebit.contract.rule import LEARNT
from onebit.engine import stream as engine
from onebit.engine.compile import loop_for
from onebit.engine.machine_code import CompiledLoop
from onebit.engine.schedule import NO_REWARDS, NOTHING, Schedule
from onebit.errors import InputError, OnebitError
from onebit.features.rows import Rows, convert_steps, count_filled_cells, slice_row
from onebit.learner.model import Model
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

DECIDING = engine.DECIDE | engine.MEASURE | engine.CALIBRATE  # the mode of a decision that is returned to a caller
BLOCK = 1 << 20  # number of cells converted at a time, from dense to sparse rows or back
_NO_CHOICES = np.zeros((0, engine.CHOICE_COLUMNS))
_WRONG = np.full(1, -1, dtype=np.int64)
NO_IDS = np.zeros(0, dtype=np.uint64)
_NO_LABELS = np.zeros(1, dtype=np.int64)
_CHOICE = struct.Struct(f"{engine.CHOICE_COLUMNS}d")


class DecisionTerms(NamedTuple):
    """Constraints on decisions: the packed candidates of each row, and the required certainty.

    `among` is empty if all classes can be played in every row. `sure` is the confidence from which a decision is sure,
    `risk` the share of the sure decisions that may be wrong; NaN if not requested.
    """

    among: Labels = NOTHING
    sure: float = math.nan
    risk: float = math.nan


PLAIN_TERMS = DecisionTerms()


class LoopTerms(NamedTuple):
    """The arguments of the loop that are the same for all steps of a call."""

    choices: NDArray[np.float64]
    tally: engine.Tally
    ids: NDArray[np.uint64]
    first_id: int
    mode: int
    corrections: float
    sure: float = math.nan
    risk: float = math.nan


# --- single rows ------------------------------------------------------------------------------------------------------


def decide_row(model: Model, row: Rows, word: int, terms: DecisionTerms = PLAIN_TERMS, mode: int = DECIDING) -> None:
    """Decide on one row and write the choice to `model.choice`."""
    row_loop = model.row_loop
    if terms is PLAIN_TERMS and row_loop is not None and row_loop.run(row, word, mode):
        return
    model.make_room(row)
    run_rows(model, row, model.choice, mode, np.array([word], dtype=np.uint64), **terms._asdict())
    prepare_row_loop(model, row)


def learn_row(model: Model, row: Rows, choice: Sequence[float], word: int, revealed: int) -> None:
    """Learn what was revealed about a choice on one row; if the row is refused, nothing changes."""
    row_loop = model.row_loop
    before = model.memory.tobytes(), model.calibration.tobytes()  # the loop may change these before it refuses a row
    if row_loop is not None:
        if row_loop.run(row, word, model.learning, choice, revealed):
            if model.watches_repairs:
                model.warn_of_repairs()
            return
        _restore(model, *before)
    words, labels, choices = np.array([word], dtype=np.uint64), np.array([revealed]), np.array([choice])
    model.make_room(row)
    try:
        run_rows(model, row, choices, model.learning, words, labels=labels)
    except OnebitError:
        _restore(model, *before)
        raise
    prepare_row_loop(model, row)


def _restore(model: Model, memory: bytes, calibration: bytes) -> None:
    model.memory[:], model.calibration[:] = np.frombuffer(memory), np.frombuffer(calibration)


def prepare_row_loop(model: Model, rows: Rows) -> None:
    """Pack the loop's arguments for later single rows, once dense or sparse form is final."""
    is_final = type(rows) is model.rows_type and not model.counts_rows
    if model.row_loop is None and is_final and isinstance(model.loop, CompiledLoop):
        model.row_loop = RowLoop(model, model.loop, rows)


class RowLoop:
    """A loop over one row whose arguments are packed once; each call sets only the few that differ.

    The words hold addresses, so a model whose arrays are replaced needs a new one.
    """

    __slots__ = (
        "_address",
        "_choice",
        "_enter",
        "_first_id",
        "_mode",
        "_owners",
        "_revealed",
        "_room",
        "_row",
        "_words",
    )

    def __init__(self, model: Model, loop: CompiledLoop, rows: Rows) -> None:
        revealed = np.zeros(1, dtype=np.int64)
        terms = LoopTerms(model.choice, model.tally, NO_IDS, 0, 0, 0.0)
        arguments = loop_arguments(model, rows, Schedule(revealed), terms, 0, 1)
        words = np.frombuffer(loop.pack(*arguments), np.uint64).copy()
        self._enter, self._address = loop.enter, ctypes.c_char_p(words.ctypes.data)
        self._row, self._first_id, self._mode = (loop.word_of(name) for name in ("rows", "first_id", "mode"))
        self._words, self._revealed, self._choice = words.data, revealed.data, model.choice.data
        self._room = model.room if isinstance(rows, SparseRows) else None
        self._owners = arguments  # keep alive what the words point to

    def run(self, row: Rows, word: int, mode: int, choice: Sequence[float] | None = None, revealed: int = -1) -> bool:
        """Decide on a row, writing to `model.choice`, or learn what was revealed about a choice.

        `word` is the hash of the decision's id. Return False if the loop refuses the row, or if the row has another
        form or too many columns.
        """
        words, position, room = self._words, self._row, self._room
        if room is None and type(row) is DenseRows:
            words[position] = id(row.values)
        elif room is not None and type(row) is SparseRows and row.width <= room:
            words[position], words[position + 1], words[position + 2] = id(row.values), id(row.columns), id(row.starts)
        else:
            return False
        words[self._first_id], words[self._mode] = word, mode
        if choice is not None:
            _CHOICE.pack_into(self._choice, 0, *choice)
            self._revealed[0] = revealed
        stop: int = self._enter(self._address)
        return stop == 1


# --- a few rows, and streams ------------------------------------------------------------------------------------------


def run_rows(
    model: Model,
    rows: Rows,
    choices: NDArray[np.float64],
    mode: int,
    words: NDArray[np.uint64],
    *,
    labels: NDArray[np.int64] = _NO_LABELS,
    among: Labels = NOTHING,
    rewards: NDArray[np.float64] = NO_REWARDS,
    sure: float = math.nan,
    risk: float = math.nan,
) -> None:
    """Decide on rows or learn from choices on them; raise InputError for a row that the loop refuses."""
    count = len(choices)
    if count > 1:  # a single row was checked when it was read
        model.refuse_unfitting(rows)
    schedule = Schedule(labels, among=among, rewards=rewards)
    terms = LoopTerms(choices, model.tally, words, 0, mode, 0.0, sure, risk)

    def walk(rows: Rows, start: int, stop: int) -> int:
        return model.loop(*loop_arguments(model, rows, schedule, terms, start, stop))

    _walk_batch(model, rows, count, walk, learns=bool(mode & engine.LEARN))


def _walk_batch(
    model: Model,
    rows: Rows,
    count: int,
    walk: Callable[[Rows, int, int], int],
    learns: bool = True,
    teaches: bool = False,
) -> None:
    """Walk over a batch of rows, replacing the space if their form changes or it is full.

    Raise InputError for a row that the loop refuses, and explain why.
    """
    next_row = 0
    while next_row < count:
        rows = model.fit_rows(rows)
        counts_row, learnt = learns and model.counts_rows, model.memory[LEARNT]
        stop = next_row + 1 if counts_row else count
        next_row = walk(rows, next_row, stop)
        if next_row == stop:
            # Lessons are not feedback and do not raise memory[LEARNT].
            if counts_row and (model.memory[LEARNT] > learnt or (teaches and count_filled_cells(rows, next_row - 1))):
                model.count_row(rows, next_row - 1)
        elif not model.make_support_room(rows, next_row):
            where = f"row {next_row}: " if count > 1 else ""
            raise InputError(where + model.explain_refusal(rows, next_row))
    if learns and model.watches_repairs:
        model.warn_of_repairs()


def loop_arguments(
    model: Model, rows: Rows, schedule: Schedule, terms: LoopTerms, start: int, stop: int
) -> tuple[Any, ...]:
    """Return the arguments of `engine.stream`, in their order."""
    return (
        model.params,
        model.space,
        rows,
        schedule.order,
        schedule.events,
        schedule.labels,
        schedule.among,
        schedule.rewards,
        model.memory,
        model.calibration,
        model.buffers,
        terms.choices,
        terms.tally,
        model.key,
        terms.ids,
        terms.first_id,
        start,
        stop,
        rows.height,
        terms.mode,
        model.limit,
        model.exploration_floor,
        terms.corrections,
        terms.sure,
        terms.risk,
    )


def walk_stream(
    model: Model,
    rows: Rows,
    schedule: Schedule,
    choices: NDArray[np.float64],
    tally: engine.Tally,
    first_id: int,
    steps: tuple[int, int],
    calibrate: bool,
) -> None:
    """Decide and learn over the given steps of a stream, counting mistakes.

    Without `calibrate`, calibration of confidence is skipped to save time.
    """
    model.make_room()
    model.refuse_unfitting(rows)
    step, stop = steps
    mode = engine.DECIDE | engine.COUNT | (model.learning if calibrate else model.learning & ~engine.CALIBRATE)
    ids = NO_IDS
    if len(schedule.part.waiting):
        ids = (schedule.numbers - schedule.part.first + first_id).astype(np.uint64)
    # Without a step for known labels a correction only says "wrong", which the loop does itself unless there are rewards.
    loop_corrects = model.rule.teach is None and not len(schedule.rewards)
    corrections = 0.0 if model.needs_labels or loop_corrects else schedule.corrections
    terms, order = LoopTerms(choices, tally, ids, first_id, mode, corrections), NOTHING
    while step < stop:
        routing, learnt = model.routing, model.memory[LEARNT]
        block_stop = schedule.next_feedback(step, stop) if model.counts_rows else stop
        block, block_schedule = rows, schedule
        if type(rows) is not model.rows_type:
            block_stop = min(block_stop, step + max(1, BLOCK // model.room))
            order = order if len(order) else np.zeros(len(schedule.labels), dtype=np.int64)
            block, block_schedule = convert_steps(rows, schedule, (step, block_stop), order)
        position = _walk_rows(model, block, block_schedule, terms, step, block_stop)
        if position < block_stop:
            row = schedule.named_row(schedule.row(position, rows.height))
            raise InputError(f"row {row}: {model.explain_refusal(block, block_schedule.row(position, block.height))}")
        is_counted = model.routing is not routing  # a correction has already counted the row
        if model.counts_rows and model.memory[LEARNT] > learnt and not is_counted:
            model.count_row(rows, schedule.row(block_stop - 1, rows.height))
        step = block_stop
    if model.watches_repairs:
        model.warn_of_repairs()


def _walk_rows(model: Model, rows: Rows, schedule: Schedule, terms: LoopTerms, start: int, stop: int) -> int:
    """Walk over rows of the same form as the space; return the refused step, or `stop` if none was."""
    while True:
        start = model.loop(*loop_arguments(model, rows, schedule, terms, start, stop))
        if start < 0:  # the loop stopped because a label is revealed
            start = -1 - start
            _correct_round(model, rows, schedule, terms, start)
            start += 1
            if start < stop:
                continue
        if start == stop or not model.make_support_room(rows, schedule.row(start, rows.height)):
            return start


def _correct_round(model: Model, rows: Rows, schedule: Schedule, terms: LoopTerms, step: int) -> None:
    """Teach the right label of a round in which a wrong one was played.

    If the rule has no step for known labels, learn only that the label was wrong.
    """
    round_index, row = schedule.round_of(step), schedule.row(step, rows.height)
    one_round, single = slice(round_index, round_index + 1), slice_row(rows, row)
    word = terms.ids[one_round] if len(terms.ids) else np.array([terms.first_id + round_index], dtype=np.uint64)
    choice, among = terms.choices[one_round], repack_list(schedule.among, round_index)
    if model.rule.teach is None:
        run_rows(model, single, choice, model.learning, word, labels=_WRONG, among=among)
    else:
        teach_rows(model, single, schedule.labels[one_round], choice, word, among)


def teach_rows(
    model: Model,
    rows: Rows,
    labels: NDArray[np.int64],
    choices: NDArray[np.float64] = _NO_CHOICES,
    words: NDArray[np.uint64] = NO_IDS,
    among: Labels = NOTHING,
    first_id: int = 0,
) -> None:
    """Learn the label of every row by the rule's full-information step; with `choices`, as feedback."""
    purpose = CORRECTING if len(choices) else TEACHING

    def walk(rows: Rows, start: int, stop: int) -> int:
        lessons = loop_for(model.rule, model.space, engine.lessons)
        return lessons(
            model.params,
            model.space,
            rows,
            labels[:stop],
            among,
            model.memory,
            model.calibration,
            model.buffers,
            choices,
            model.key,
            words,
            np.uint64(first_id),
            purpose,
            start,
            model.limit,
        )

    _walk_batch(model, rows, len(labels), walk, teaches=purpose == TEACHING)
