"""Rounds one by one: the compiled loop over one row or a few, with what has been learnt.

Rows in, numbers out. What features and classes are called, ids and decisions are the runtime's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
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
from onebit.errors import InputError, OnebitWarning
from onebit.features import Features
from onebit.learnt_weights import LearntWeights, longest_row
from onebit.memory import refuse_beyond_memory
from onebit.rows import Rows, cast_to, in_other_form, squared_lengths
from onebit.spaces.choose import SpaceChoice
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

if TYPE_CHECKING:
    from onebit.engine.entry import LaidOutDense, LaidOutSparse

DECIDING = engine.DECIDE | engine.MEASURE | engine.CALIBRATE  # a decision for somebody who sees it
_NO_LABELS = np.zeros(1, dtype=np.int64)
_WRITTEN = frozenset({"space", "memory", "calibration", "buffers"})  # by the loop, between one call and the next
WRONG = np.full(1, -1, dtype=np.int64)
STEPS = 50  # taken one by one before it pays to lay out the arguments of the loop
LEAST_VALUES = 512  # of a sparse row that there is room for where arguments are laid out
NO_IDS = np.zeros(0, dtype=np.uint64)


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

    _laid_out: LaidOutDense | LaidOutSparse | None

    __slots__ = (
        "_laid_out",
        "_largest",
        "_limit",
        "_loop",
        "_repairable",
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
        "one_label",
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

    def __setattr__(self, name: str, value: Any) -> None:
        """Replace something, perhaps an argument of the loop: where these were laid out, they must be laid out anew."""
        object.__setattr__(self, "_laid_out", None)
        object.__setattr__(self, name, apart(value) if name in _WRITTEN else value)

    def _prepare(self, width: int) -> None:
        """Scratch memory, for a space that gives so many numbers for a row, and what every call of the loop needs."""
        self.buffers = np.zeros((engine.BUFFERS, max(width, self.classes)))
        self.choice = np.zeros((1, engine.CHOICE_COLUMNS + self.classes))
        self.one_label = np.zeros(1, dtype=np.int64)
        self._tally = engine.Tally.empty(NOTHING)
        # Of x, without the bias; by the kernel where there is one.
        self._largest = longest_row(self.rule, self.params)
        self._limit = self._largest + self.space_choice.slack
        self._loop = loop_for(self.rule, self.space)
        self._rows_type = DenseRows if self.features.space == "dense" else SparseRows
        self._repairable = "repairs" in type(self.space)._fields
        self._warned = False

    def decide_array(self, x: Any, word: int) -> bytes | None:
        """Decide on an array that fits, as it is mostly: the choice and the row behind it. None where `step` must see to it."""
        laid_out: Any = self._laid_out
        if type(x) is not np.ndarray or x.ndim != 1 or self._rows_type is not DenseRows:
            return None
        if laid_out is None:
            laid_out = self._lay_out()
            if laid_out is None:
                return None
        if x.dtype is not laid_out.dtype:
            if x.dtype.kind not in "fiub":
                return None
            x = cast_to(x, laid_out.dtype, copy=False)
        return laid_out.record.tobytes() if laid_out.decide(x, word, DECIDING) == 1 else None

    def learn_record(self, record: bytes, word: int, revealed: int) -> bool:
        """Learn right (`PLAYED`, or the class itself) or wrong of what `decide_array` gave; if not, nothing has changed, and `step` must see to it."""
        laid_out: Any = self._laid_out
        if laid_out is None or self._rows_type is not DenseRows or len(record) != laid_out.size:
            return False
        if laid_out.learn(record, word, self.learning, revealed) != 1:
            return False
        if self._repairable:
            self._report_repairs()
        return True

    def _lay_out(self, values: int = 0) -> LaidOutDense | LaidOutSparse | None:
        """Lay out the arguments of the loop, once it has turned out that rows come one by one; None where that cannot be.

        A sparse row has so many values, or fewer. From then on `choice` is where the loop writes that of the last row.
        """
        if self._steps < STEPS or self.space is None:
            return None
        if self.counts_rows or not isinstance(self._loop, CompiledLoop):  # as where Numba was asked not to compile
            return None
        from onebit.engine.entry import LaidOutDense, LaidOutSparse

        arguments = {
            "params": self.params,
            "space": self.space,
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
        columns, dtype = engine.CHOICE_COLUMNS + self.classes, self.features.dtype
        laid_out: LaidOutDense | LaidOutSparse
        if self._rows_type is DenseRows:
            laid_out = LaidOutDense(self._loop, arguments, columns, self.space.room[1], dtype)
        else:
            laid_out = LaidOutSparse(self._loop, arguments, columns, max(LEAST_VALUES, 2 * values), dtype)
        self.choice = laid_out.choice
        object.__setattr__(self, "_laid_out", laid_out)
        return laid_out

    def step(
        self,
        rows: Rows,
        choice: NDArray[np.float64],
        mode: int,
        word: int,
        *,
        labels: NDArray[np.int64] = _NO_LABELS,
        among: Labels = NOTHING,
        rewards: NDArray[np.float64] = NO_REWARDS,
        sure: float = math.nan,
        risk: float = math.nan,
        given: Any = None,
    ) -> None:
        """Decide on one row, where `choice` of this model then has what was decided, or learn from a choice on it."""
        if self._steps < STEPS:
            self._steps += 1
        plain = among is NOTHING and rewards is NO_REWARDS and math.isnan(sure) and math.isnan(risk)
        if plain and type(rows) is SparseRows and self._walk_sparse(rows, choice, mode, word, labels):
            return
        words = np.array([word], dtype=np.uint64)
        written = choice if mode & engine.LEARN else self.choice
        more: dict[str, Any] = {"among": among, "rewards": rewards, "sure": sure, "risk": risk}
        self.run(rows, written, mode, words, labels=labels, given=given, **more)

    def _walk_sparse(
        self, rows: SparseRows, choice: NDArray[np.float64], mode: int, word: int, labels: NDArray[np.int64]
    ) -> bool:
        """The step on a sparse row where arguments are laid out; if not, nothing has changed."""
        if self._rows_type is not SparseRows:
            return False
        laid_out: Any = self._laid_out
        if laid_out is None or laid_out.room < len(rows.columns):
            laid_out = self._lay_out(len(rows.columns))
            if laid_out is None:
                return False
        if laid_out.walk(rows.columns, rows.values, choice, word, mode, labels.item()) != 1:
            return False
        if self._repairable and mode & engine.LEARN:
            self._report_repairs()
        return True

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
