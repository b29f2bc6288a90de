"""Deciding and learning on one row or a few: calls of the compiled loop over a model.

Rows in, numbers out. What features and classes are called, ids and decisions are the runtime's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels
from onebit.contract.rule import LEARNT
from onebit.engine import stream as engine
from onebit.engine.machine_code import CompiledLoop
from onebit.engine.schedule import NO_REWARDS, NOTHING, Schedule
from onebit.errors import InputError, OnebitError
from onebit.features.rows import Row, Rows, as_rows
from onebit.learner.model import Model

if TYPE_CHECKING:
    from onebit.engine.entry import LaidOutLoop

DECIDING = engine.DECIDE | engine.MEASURE | engine.CALIBRATE  # a decision for somebody who sees it
STEPS = 50  # taken one by one before it pays to lay out the arguments of the loop
NO_IDS = np.zeros(0, dtype=np.uint64)
_NO_LABELS = np.zeros(1, dtype=np.int64)


class DecisionTerms(NamedTuple):
    """Terms of decisions: the candidates of each row, packed; none where all classes can be played in every row.

    And from which confidence on a decision is sure, or what share of the sure ones may be wrong; NaN where nobody asks.
    """

    among: Labels = NOTHING
    sure: float = math.nan
    risk: float = math.nan


PLAIN_TERMS = DecisionTerms()


class LoopTerms(NamedTuple):
    """The arguments of the loop that are the same for all steps of a call."""

    kept: NDArray[np.float64]
    tally: engine.Tally
    ids: NDArray[np.uint64]
    first_id: int
    mode: int
    corrections: float
    sure: float = math.nan
    risk: float = math.nan


def decide_row(
    model: Model, row: Row, word: int, terms: DecisionTerms = PLAIN_TERMS, mode: int = DECIDING, given: Any = None
) -> None:
    """Decide on one row: `model.choice` then has what was decided."""
    if terms is PLAIN_TERMS and type(row) is model.row_type:
        laid_out = model.laid_out or _lay_out(model, row)
        if laid_out is not None:
            if isinstance(row, np.ndarray):
                done = laid_out.decide(id(row), 0, 0, word, mode)
            elif row.width <= model.room:
                done = laid_out.decide(id(row.values), id(row.columns), id(row.starts), word, mode)
            else:
                done = 0
            if done == 1:
                return
    words = np.array([word], dtype=np.uint64)
    among, sure, risk = terms
    run_rows(model, single_row(model, row), model.choice, mode, words, among=among, sure=sure, risk=risk, given=given)


def learn_row(
    model: Model,
    row: Row,
    made: Sequence[float],
    word: int,
    revealed: int,
    among: Labels = NOTHING,
    rewards: NDArray[np.float64] = NO_REWARDS,
) -> None:
    """Learn what is revealed of the choice that was made on one row, given by its numbers; where it is refused, nothing has changed."""
    if among is NOTHING and rewards is NO_REWARDS and type(row) is model.row_type:
        laid_out = model.laid_out or _lay_out(model, row)
        if laid_out is not None:
            if isinstance(row, np.ndarray):
                done = laid_out.learn(id(row), 0, 0, made, word, model.learning, revealed)
            elif row.width <= model.room:
                at = id(row.values), id(row.columns), id(row.starts)
                done = laid_out.learn(*at, made, word, model.learning, revealed)
            else:
                done = 0
            if done == 1:
                if model.watches_repairs:
                    model.warn_of_repairs()
                return
    rows = single_row(model, row)
    words, labels, choices = np.array([word], dtype=np.uint64), np.array([revealed]), np.array([made])
    memory, calibration = model.memory.copy(), model.calibration.copy()
    try:
        run_rows(model, rows, choices, model.learning, words, labels=labels, among=among, rewards=rewards)
    except OnebitError:
        model.memory[:], model.calibration[:] = memory, calibration
        raise


def single_row(model: Model, row: Row) -> Rows:
    """Return one row for the usual way into the loop, with weights for it."""
    if model.steps < STEPS:
        model.steps += 1
    model.make_room(row)
    return as_rows(row)


def _lay_out(model: Model, row: Row) -> LaidOutLoop | None:
    """Lay out the arguments of the loop, once it has turned out that rows come one by one; None where that cannot be."""
    if model.steps < STEPS or model.counts_rows:
        return None
    if not isinstance(model.loop, CompiledLoop):  # as where Numba was asked not to compile
        return None
    from onebit.engine.entry import LaidOutLoop

    arguments = {
        "params": model.params,
        "space": model.space,
        "rows": as_rows(row),
        "kept": model.choice,
        "among": NOTHING,
        "rewards": NO_REWARDS,
        "order": NOTHING,
        "events": NOTHING,
        "memory": model.memory,
        "calibration": model.calibration,
        "buffers": model.buffers,
        "tally": model.tally,
        "key": model.key,
        "ids": NO_IDS,
        "start": 0,
        "stop": 1,
        "total_rows": 1,
        "largest_norm": model.limit,
        "floor": model.exploration_floor,
        "corrections": 0.0,
        "sure": math.nan,
        "risk": math.nan,
    }
    laid_out = LaidOutLoop(model.loop, arguments)
    model.laid_out = laid_out
    return laid_out


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
    given: Any = None,
) -> None:
    """Decide on a few rows, or learn from choices on them; a row that the loop refuses is explained."""
    count = len(choices)
    if count > 1:  # one row was fitted when it was read
        model.refuse_unfitting(rows)
    rows = model.fit_rows(rows)
    schedule = Schedule(labels, among=among, rewards=rewards)
    terms, done = LoopTerms(choices, model.tally, words, 0, mode, 0.0, sure, risk), 0
    while True:
        counting = bool(mode & engine.LEARN) and model.counts_rows
        until = done + 1 if counting else count
        learnt = model.memory[LEARNT] if counting else 0.0
        done = call_loop(model, rows, schedule, terms, done, until)
        if done == until:
            if counting and model.memory[LEARNT] > learnt:
                model.count_row(rows, done - 1)
            if done == count:
                if mode & engine.LEARN and model.watches_repairs:
                    model.warn_of_repairs()
                return
            rows = model.fit_rows(rows)
        elif not model.make_support_room(rows, done):
            where = f"row {done}: " if count > 1 else ""
            raise InputError(where + model.explain_refusal(rows, done, given))


def call_loop(model: Model, rows: Rows, schedule: Schedule, terms: LoopTerms, start: int, stop: int) -> int:
    """Run the compiled loop from one step to another; return where it ended."""
    return model.loop(
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
        terms.kept,
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
