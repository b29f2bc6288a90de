"""Rounds one by one: the compiled loop over one row or a few, with what has been learnt.

Rows in, numbers out. What features and classes are called, ids and decisions are the runtime's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.calibration import initial
from onebit.contract.candidates import Labels
from onebit.contract.rule import LEARNT, Rule
from onebit.engine import stream as engine
from onebit.engine.apart import apart
from onebit.engine.compile import loop_for
from onebit.engine.generic import needs_room
from onebit.engine.machine_code import CompiledLoop
from onebit.engine.schedule import NO_REWARDS, NOTHING, Schedule
from onebit.errors import InputError, OnebitError, OnebitWarning
from onebit.features import Features
from onebit.learnt_weights import LearntWeights, longest_row
from onebit.memory import refuse_beyond_memory
from onebit.rows import Row, Rows, as_rows, in_other_form, squared_lengths
from onebit.spaces.choose import SpaceChoice
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

if TYPE_CHECKING:
    from onebit.engine.entry import LaidOutLoop

DECIDING = engine.DECIDE | engine.MEASURE | engine.CALIBRATE  # a decision for somebody who sees it
_NO_LABELS = np.zeros(1, dtype=np.int64)
_WRITTEN = frozenset({"space", "memory", "calibration", "buffers"})  # by the loop, between one call and the next
WRONG = np.full(1, -1, dtype=np.int64)
STEPS = 50  # taken one by one before it pays to lay out the arguments of the loop
NO_IDS = np.zeros(0, dtype=np.uint64)


class DecisionTerms(NamedTuple):
    """What is asked beside x: the candidates of each row, packed; none where all classes can be played in every row.

    And from which confidence on a decision is sure, or what share of the sure ones may be wrong; NaN where nobody asks.
    """

    among: Labels = NOTHING
    sure: float = math.nan
    risk: float = math.nan


PLAIN_TERMS = DecisionTerms()


class LoopTerms(NamedTuple):
    """What is the same for all steps of a run or a walk."""

    kept: NDArray[np.float64]
    tally: engine.Tally
    ids: NDArray[np.uint64]
    first_id: int
    mode: int
    corrections: float
    sure: float = math.nan
    risk: float = math.nan


class SteppingModel(LearntWeights):
    """What has been learnt, with scratch memory for the loop."""

    _laid_out: LaidOutLoop | None

    __slots__ = (
        "_laid_out",
        "_largest",
        "_limit",
        "_loop",
        "_repairable",
        "_row_type",
        "_rows_type",
        "_steps",
        "_tally",
        "_warned",
        "buffers",
        "calibration",
        "choice",
        "exploration_floor",
        "key",
        "learning",
        "needs_labels",
    )

    def __init__(
        self,
        rule: Rule,
        classes: int,
        options: Mapping[str, Any],
        features: Features,
        space_choice: SpaceChoice,
        key: np.uint64,
    ) -> None:
        super().__init__(rule, classes, options, features, space_choice)
        self.key = key
        self.needs_labels = rule.has_full_information(self.params)
        self.learning = _learning_of(rule, self.needs_labels)
        self.exploration_floor = 0.0
        self.calibration = np.array(initial())  # what is known of how sure to be of a label
        self._steps = 0  # that were taken before arguments are laid out
        self._rows_type: type[Rows] | None = None
        self._row_type: type[Row] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Replace something, perhaps an argument of the loop: where these were laid out, they must be laid out anew."""
        object.__setattr__(self, "_laid_out", None)
        object.__setattr__(self, name, apart(value) if name in _WRITTEN else value)

    def _prepare(self, width: int) -> None:
        """Scratch memory, for a space that gives so many numbers for a row, and what every call of the loop needs."""
        self.buffers = np.zeros((engine.BUFFERS, max(width, self.classes)))
        self.choice = np.zeros((1, engine.CHOICE_COLUMNS + self.classes))
        self._tally = engine.Tally.empty(NOTHING)
        # Of x, without the bias; by the kernel where there is one.
        self._largest = longest_row(self.rule, self.params)
        self._limit = self._largest + self.space_choice.slack
        self._loop = loop_for(self.rule, self.space)
        dense = self.features.space == "dense"
        self._rows_type, self._row_type = (DenseRows, np.ndarray) if dense else (SparseRows, SparseRows)
        self._repairable = "repairs" in type(self.space)._fields
        self._warned = False

    def _lay_out(self, row: Row) -> LaidOutLoop | None:
        """Lay out the arguments of the loop, once it has turned out that rows come one by one; None where that cannot be."""
        if self._steps < STEPS or self.counts_rows:
            return None
        if not isinstance(self._loop, CompiledLoop):  # as where Numba was asked not to compile
            return None
        from onebit.engine.entry import LaidOutLoop

        arguments = {
            "params": self.params,
            "space": self.space,
            "rows": as_rows(row),
            "kept": self.choice,
            "among": NOTHING,
            "rewards": NO_REWARDS,
            "order": NOTHING,
            "events": NOTHING,
            "memory": self.memory,
            "calibration": self.calibration,
            "buffers": self.buffers,
            "tally": self._tally,
            "key": self.key,
            "ids": NO_IDS,
            "start": 0,
            "stop": 1,
            "total_rows": 1,
            "largest_norm": self._limit,
            "floor": self.exploration_floor,
            "corrections": 0.0,
            "sure": math.nan,
            "risk": math.nan,
        }
        laid_out = LaidOutLoop(self._loop, arguments)
        object.__setattr__(self, "_laid_out", laid_out)
        return laid_out

    def decide_row(
        self, row: Row, word: int, terms: DecisionTerms = PLAIN_TERMS, mode: int = DECIDING, given: Any = None
    ) -> None:
        """Decide on one row: `choice` then has what was decided."""
        if terms is PLAIN_TERMS and type(row) is self._row_type:
            laid_out = self._laid_out or self._lay_out(row)
            if laid_out is not None:
                if isinstance(row, np.ndarray):
                    done = laid_out.decide(id(row), 0, 0, word, mode)
                elif row.width <= self.space.room[1]:
                    done = laid_out.decide(id(row.values), id(row.columns), id(row.starts), word, mode)
                else:
                    done = 0
                if done == 1:
                    return
        rows, among, sure, risk = self.rows_of(row), *terms
        words = np.array([word], dtype=np.uint64)
        self.run(rows, self.choice, mode, words, among=among, sure=sure, risk=risk, given=given)

    def learn_row(
        self,
        row: Row,
        made: Sequence[float],
        word: int,
        revealed: int,
        among: Labels = NOTHING,
        rewards: NDArray[np.float64] = NO_REWARDS,
    ) -> None:
        """Learn what is revealed of the choice that was made on one row, given by its numbers; where it is refused, nothing has changed."""
        if among is NOTHING and rewards is NO_REWARDS and type(row) is self._row_type:
            laid_out = self._laid_out or self._lay_out(row)
            if laid_out is not None:
                if isinstance(row, np.ndarray):
                    done = laid_out.learn(id(row), 0, 0, made, word, self.learning, revealed)
                elif row.width <= self.space.room[1]:
                    at = id(row.values), id(row.columns), id(row.starts)
                    done = laid_out.learn(*at, made, word, self.learning, revealed)
                else:
                    done = 0
                if done == 1:
                    if self._repairable:
                        self._report_repairs()
                    return
        rows = self.rows_of(row)
        words, labels, choices = np.array([word], dtype=np.uint64), np.array([revealed]), np.array([made])
        memory, calibration = self.memory.copy(), self.calibration.copy()
        try:
            self.run(rows, choices, self.learning, words, labels=labels, among=among, rewards=rewards)
        except OnebitError:
            self.memory[:], self.calibration[:] = memory, calibration
            raise

    def rows_of(self, row: Row) -> Rows:
        """One row for the usual way into the loop, with weights for it."""
        if self._steps < STEPS:
            self._steps += 1
        self.make_room(row)
        return as_rows(row)

    def run(
        self,
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
            self.refuse_unfitting(rows)
        rows = self._fitted(rows)
        schedule = Schedule(labels, among=among, rewards=rewards)
        on, done = LoopTerms(choices, self._tally, words, 0, mode, 0.0, sure, risk), 0
        while True:
            counting = bool(mode & engine.LEARN) and self.counts_rows
            until = done + 1 if counting else count
            learnt = self.memory[LEARNT] if counting else 0.0
            done = self._looped(rows, schedule, on, done, until)
            if done == until:
                if counting and self.memory[LEARNT] > learnt:
                    self.count_row(rows, done - 1)
                if done == count:
                    if mode & engine.LEARN and self._repairable:
                        self._report_repairs()
                    return
                rows = self._fitted(rows)
            elif not self._made_room(rows, done):
                where = f"row {done}: " if count > 1 else ""
                raise InputError(where + self._explain(rows, done, given))

    def _looped(self, rows: Rows, schedule: Schedule, on: LoopTerms, start: int, stop: int) -> int:
        """Go through the loop from one step to another; where it ended."""
        return self._loop(
            self.params,
            self.space,
            rows,
            schedule.order,
            schedule.events,
            schedule.labels,
            schedule.among,
            schedule.rewards,
            self.memory,
            self.calibration,
            self.buffers,
            on.kept,
            on.tally,
            self.key,
            on.ids,
            on.first_id,
            start,
            stop,
            rows.height,
            on.mode,
            self._limit,
            self.exploration_floor,
            on.corrections,
            on.sure,
            on.risk,
        )

    def _fitted(self, rows: Rows) -> Rows:
        """Rows in the form of the space, which may have changed since they were read."""
        if type(rows) is self._rows_type:
            return rows
        self.refuse_unfitting(rows)
        return in_other_form(rows)

    def refuse_unfitting(self, rows: Rows) -> None:
        """The last guard before compiled code, which checks no bounds."""
        room, dense = self.space.room[1], isinstance(rows, DenseRows)
        width = rows.values.shape[1] if isinstance(rows, DenseRows) else rows.width
        if type(rows) is self._rows_type:
            fits = width == room if dense else width <= room
        else:
            fits = self.routing is not None and width == room
        if not fits:
            raise InputError(f"the rows were read for another learner: this one has room for {room} features")

    def _made_room(self, rows: Rows, row: int) -> bool:
        """Whether the loop stopped for want of room, which there is now."""
        if not needs_room(self.space, rows, row):
            return False
        held = sum(part.nbytes for part in self.space if isinstance(part, np.ndarray))
        refuse_beyond_memory(2 * held, "storing more rows", "give max_support")
        try:
            self.space = self.space.roomier(rows)
        except MemoryError:
            raise InputError("there is not enough memory to store more rows: give max_support") from None
        return True

    def _explain(self, rows: Rows, row: int, given: Any = None) -> str:
        """Why the loop refused a row."""
        sq_norm = float(squared_lengths(rows)[row])
        return (
            self.features.not_finite(rows, row, given)
            or self.space_choice.too_long(sq_norm, self._largest, self._limit)
            or self.features.out_of_range(sq_norm)
        )

    def _report_repairs(self) -> None:
        """Warn where a covariance has been repaired, the first time; `describe` has their number."""
        if self.repairs and not self._warned:
            warnings.warn(
                f"{self.rule.title}: a covariance lost its positive definiteness and was repaired; rows of wildly different lengths "
                "do this (prepare=unit-norm helps)",
                OnebitWarning,
                stacklevel=4,
            )
            self._warned = True


def _learning_of(rule: Rule, needs_labels: bool) -> int:
    """What the loop must know of a rule where it learns."""
    mode = engine.LEARN | engine.CALIBRATE | (engine.REVEALED if needs_labels else 0)
    return mode | (engine.ALONE if rule.learns_alone else 0) | (engine.OVER_ALL if rule.learns_over_all else 0)
