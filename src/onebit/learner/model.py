"""What a learner has learnt: its rule's record and memory, and the space that holds the weights.

A model is allocated once the features are known, grows with them, and can be saved and restored. `loop_calls` runs the compiled loop on it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onebit.contract.calibration import initial_state
from onebit.contract.draws import seed_key
from onebit.contract.memory import require_memory
from onebit.contract.options import Options
from onebit.contract.rule import Rule, Vector
from onebit.engine import stream as engine
from onebit.engine.arguments import place_apart
from onebit.engine.compile import loop_for
from onebit.engine.generic import needs_room
from onebit.engine.schedule import NOTHING
from onebit.errors import InputError, OnebitError, OnebitWarning, OutOfMemoryError, brief
from onebit.features.features import Features
from onebit.features.rows import Rows, convert_rows, count_filled_cells, squared_lengths
from onebit.spaces.choose import LENGTH_SLACK, MOST_BYTES, Arrays, Blueprint, Form, KernelChoice, Routing, SpaceChoice
from onebit.spaces.dense import DenseRows
from onebit.spaces.layout import refuse_unlike
from onebit.spaces.sparse import SparseRows

if TYPE_CHECKING:
    from onebit.learner.loop_calls import RowLoop

_WRITABLE = frozenset({"space", "memory", "calibration", "buffers"})  # attributes that the loop writes to


class StartingPoint(NamedTuple):
    """The starting point of a linear learner, for an engine that runs its rule elsewhere."""

    params: Any
    memory: Vector
    largest_sq_norm: float  # largest squared length of a row, constant feature included


class Model:
    """A rule's record, memory and space, with scratch memory for the compiled loop."""

    row_loop: RowLoop | None

    def __init__(
        self,
        rule: Rule,
        classes: int,
        parameters: Mapping[str, Any],
        features: Features,
        space_choice: SpaceChoice,
        options: Options,
    ) -> None:
        self.rule, self.classes, self.parameters = rule, classes, parameters
        self.features, self.space_choice, self.key = features, space_choice, seed_key(options.seed)
        self.params, self.memory = rule.settle(classes, parameters)
        self.calibration = np.array(initial_state())  # state of `contract.calibration`
        self.needs_labels = rule.has_full_information(self.params)
        self.learning = _learning_mode(rule, self.needs_labels)
        self.exploration_floor = options.exploration_floor
        if self.exploration_floor > 0.0 and (rule.notes_the_label or self.needs_labels):
            reason = (
                "has its own exploration floor" if rule.notes_the_label else "learns from labels and does not explore"
            )
            raise InputError(f"exploration_floor cannot be set: {rule.title} {reason}")
        self.planned_heads = 0  # heads when the space was planned; later ones do not change its kind
        self.routing: Routing | None = None  # set while or after the learner chose the form of rows itself
        self.space: Any = None
        self.room = 0  # columns of the space
        self.rows_type: type[Rows] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute and discard the packed arguments of single rows, which may contain it."""
        object.__setattr__(self, "row_loop", None)
        object.__setattr__(self, name, place_apart(value) if name in _WRITABLE else value)

    @property
    def heads(self) -> int:
        return self.rule.heads(self.params)

    @property
    def repairs(self) -> int:
        """The number of times that a covariance had to be repaired."""
        return int(getattr(self.space, "repairs", (0,))[0])

    @property
    def starting_point(self) -> StartingPoint:
        """The current record, a copy of the memory, and the largest squared length of a row."""
        largest = largest_sq_norm(self.rule, self.params) + self.space_choice.bias
        return StartingPoint(self.params, self.memory.copy(), largest)

    # --- the space -----------------------------------------------------------------------------------------------------

    def allocate(self) -> None:
        """Create the space; the features must be known."""
        if self.features.space is None or self.features.named is None:
            raise InputError("the features of this learner are not known yet: decide on a row first")
        self._make_space(self._blueprint())
        # A composite rule has a space for either form of rows, and moves unless the options or names settle the form.
        if self.rule.composite and self.features.options.space is None and not self.features.named:
            self.routing = Routing(self.features.space)

    def make_room(self, rows: Rows | None = None) -> None:
        """Make room for the weights of all known columns and all columns of `rows`."""
        if self.space is None:
            self.allocate()
        needed = max(self.features.columns, rows.width if isinstance(rows, SparseRows) else 0)
        if needed > self.room:
            self._set_space(self.space.copy_into(self._blueprint(max(needed, 2 * self.room)).make()))

    def add_class(self) -> None:
        """Add a class about which nothing is known; raise InputError if the rule cannot."""
        params, memory = self.rule.settle(self.classes + 1, self.parameters)
        if len(memory) != len(self.memory):
            raise InputError(f"no class can be added: the memory of {self.rule.title} depends on their number")
        self.params = params if self.space is None else self.space_choice.complete_params(params, self.space)
        self.classes += 1
        if self.space is not None:
            blueprint = self._blueprint(self.room)
            self._set_space(self.space.copy_into(blueprint.make()))
            self._allocate_buffers(blueprint.layout.width)

    def reset(self) -> None:
        """Discard the space, because the row for which it was created has been refused."""
        self.space, self.room, self.planned_heads, self.routing = None, 0, 0, None
        self.params, _ = self.rule.settle(self.classes, self.parameters)

    def arrays(self) -> Arrays:
        """Return the arrays of the space, without room for names that were seen but never learnt."""
        if self.space is None:
            return {}
        arrays: Arrays = self.space.arrays(None if self.features.vocabulary is None else self.features.columns)
        return arrays

    def restore(self, arrays: Arrays, planned: int) -> None:
        """Restore from `arrays`, after checking that they are exactly those that the space would allocate."""
        if self.features.space is None or self.features.named is None:
            raise InputError(f"unexpected array {brief(next(iter(arrays)))}: the manifest says nothing about features")
        if planned > self.heads:
            raise InputError(f"the field 'planned' of the manifest is {planned}, but must be at most {self.heads}")
        self.planned_heads = planned
        refuse_unlike(arrays, self._blueprint(least=0).layout.saved)  # without names there are no columns to save
        self._make_space(self._blueprint(), arrays)

    def make_support_room(self, rows: Rows, row: int) -> bool:
        """Make room for another stored row if the loop stopped because there was none; return True if so."""
        if not needs_room(self.space, rows, row):
            return False
        current_size = sum(part.nbytes for part in self.space if isinstance(part, np.ndarray))
        require_memory(2 * current_size, "storing more rows", "set max_support")
        try:
            self._set_space(self.space.with_more_room(rows))
        except MemoryError:
            raise InputError("not enough memory to store more rows: set max_support") from None
        return True

    def _blueprint(self, least: int = 1) -> Blueprint:
        """Plan the space for the known features, or for `least` columns if more; allocate nothing."""
        self.planned_heads = self.planned_heads or self.heads
        return self.space_choice.blueprint(self.params, self._form(least), self.heads, self.planned_heads)

    def _form(self, least: int = 1) -> Form:
        features = self.features
        return Form(features.space == "dense", max(least, features.columns), bool(features.named), features.dtype)

    def _make_space(self, blueprint: Blueprint, arrays: Arrays | None = None) -> None:
        """Create the space, from saved arrays if given."""
        try:
            space = blueprint.make()
            self._set_space(space if arrays is None else space.load_arrays(arrays))
        except MemoryError:
            columns = max(1, self.features.columns)
            raise OutOfMemoryError(f"not enough memory for {self.heads} x {columns} weights") from None
        self.params = self.space_choice.complete_params(self.params, self.space)
        self._allocate_buffers(blueprint.layout.width)

    def _set_space(self, space: Any) -> None:
        self.space, self.room = space, space.room[1]

    def _allocate_buffers(self, width: int) -> None:
        """Allocate scratch memory and cache what every loop call needs.

        `width` is the count of numbers that the space returns for a row.
        """
        self.buffers = np.zeros((engine.BUFFERS, max(width, self.classes)))
        self.choice = np.zeros((1, engine.CHOICE_COLUMNS + self.classes))
        self.tally = engine.Tally.empty(NOTHING)
        # Squared lengths of x, without the bias; in kernel space if there is a kernel.
        self.largest = largest_sq_norm(self.rule, self.params)
        self.limit = self.largest + self.space_choice.slack
        self.loop: Callable[..., int] = loop_for(self.rule, self.space)
        dense = self.features.space == "dense"
        self.rows_type = DenseRows if dense else SparseRows
        self.watches_repairs = "repairs" in type(self.space)._fields

    # --- choosing dense or sparse by the first rows learnt -------------------------------------------------------------

    @property
    def counts_rows(self) -> bool:
        """True while the next learnt rows still decide between dense and sparse form."""
        return self.routing is not None and self.routing.is_open

    def count_row(self, rows: Rows, row: int) -> None:
        """Count the filled cells of a row just learnt; after the last row that counts, settle on a form."""
        assert self.routing is not None
        assert self.features.size is not None
        self.routing = self.routing.counted(count_filled_cells(rows, row))
        form = self.routing.form(self.features.size)
        if form != self.features.space:
            self._change_form(form)

    def _change_form(self, form: str) -> None:
        """Start over in a space for rows of another form, if there is memory for it."""
        old_form, self.features.space = self.features.space, form
        blueprint = self._blueprint()
        try:
            if blueprint.layout.nbytes <= MOST_BYTES:
                self._make_space(blueprint)
                return
        except OutOfMemoryError as error:
            warnings.warn(f"{error}; rows stay {old_form} instead of {form}", OnebitWarning, stacklevel=4)
        self.features.space = old_form

    # --- refusing rows -------------------------------------------------------------------------------------------------

    def fit_rows(self, rows: Rows) -> Rows:
        """Return rows in the form of the space, which may have changed since they were read."""
        if type(rows) is self.rows_type:
            return rows
        self.refuse_unfitting(rows)
        return convert_rows(rows)

    def refuse_unfitting(self, rows: Rows) -> None:
        """Raise InputError for rows of another width.

        This is the last check before compiled code, which checks no bounds.
        """
        dense = isinstance(rows, DenseRows)
        width = rows.values.shape[1] if isinstance(rows, DenseRows) else rows.width
        if type(rows) is self.rows_type:
            fits = width == self.room if dense else width <= self.room
        else:
            fits = self.routing is not None and width == self.room
        if not fits:
            raise InputError(f"the rows were read for another learner; this one takes {self.room} features")

    @contextmanager
    def undo_if_refused(self, rows: Rows) -> Iterator[None]:
        """Refuse rows that cannot be learnt, and undo all changes if the block refuses one later."""
        self.refuse_unfitting(rows)
        self._refuse_long(rows)
        memory, calibration = self.memory.copy(), self.calibration.copy()
        space, form, routing = self.space, self.features.space, self.routing
        # A single row is refused before any weight has changed, so no copy is needed.
        before = space.copy_state(self.fit_rows(rows)) if rows.height > 1 else None
        try:
            yield
        except OnebitError:
            self.memory[:], self.calibration[:] = memory, calibration
            self.routing = routing
            if form != self.features.space:
                self.features.space = form
                self._set_space(space)
                self.params = self.space_choice.complete_params(self.params, space)
                self._allocate_buffers(self._blueprint().layout.width)
            if before is not None:
                self._set_space(self.space.restore_state(before))
            raise

    def _refuse_long(self, rows: Rows) -> None:
        """Raise InputError for the first row that is too long or has no finite length."""
        sq_norms = self.space_choice.sq_norms(squared_lengths(rows) + self.space_choice.bias)
        fits = sq_norms <= self.limit
        if not fits.all():
            row = int(fits.argmin())
            raise InputError(f"row {row}: {self.explain_refusal(rows, row)}")

    def explain_refusal(self, rows: Rows, row: int) -> str:
        """Explain why the loop refused a row."""
        sq_norm = float(squared_lengths(rows)[row])
        return (
            self.features.describe_not_finite(rows, row)
            or self.space_choice.explain_too_long(sq_norm, self.largest, self.limit)
            or self.features.explain_overflow(sq_norm)
        )

    def warn_of_repairs(self) -> None:
        """Warn when a covariance has been repaired for the first time; `describe` reports the number."""
        if self.repairs:
            warnings.warn(
                f"{self.rule.title}: a covariance lost its positive definiteness and was repaired; rows of very different lengths "
                "cause this (prepare=unit-norm helps)",
                OnebitWarning,
                stacklevel=4,
            )
            self.watches_repairs = False

    # --- sizes ---------------------------------------------------------------------------------------------------------

    def size(self, classes: int, columns: int, dense: bool) -> int:
        """Return an upper bound of the bytes that the arrays take with this many classes and features."""
        _, memory = self.rule.settle(classes, self.parameters)
        layouts = [blueprint.layout for blueprint in self.blueprints(classes, columns, dense)]
        buffers = (engine.BUFFERS * max(layout.width, classes) * memory.itemsize for layout in layouts)
        return max(layout.nbytes + nbytes for layout, nbytes in zip(layouts, buffers, strict=True)) + memory.nbytes

    def blueprints(self, classes: int, columns: int, dense: bool) -> list[Blueprint]:
        """Plan the spaces that this learner may use with this many classes and features.

        There is a second one if rows may later be treated as sparse.
        """
        params, _ = self.rule.settle(classes, self.parameters)
        heads, dense_forms = self.rule.heads(params), [dense]
        if self.rule.composite and dense and Routing("dense").may_move(columns):
            dense_forms.append(False)
        named, dtype = bool(self.features.named), self.features.dtype
        forms = [Form(is_dense, max(1, columns), named, dtype) for is_dense in dense_forms]
        return [self.space_choice.blueprint(params, form, heads, self.planned_heads or heads) for form in forms]

    def refuse_unstorable(self, rows: int) -> None:
        """Raise OutOfMemoryError if a kernel without a budget may store more rows than fit into memory."""
        choice = self.space_choice
        if isinstance(choice, KernelChoice) and not choice.plan.budget:
            full_choice = replace(choice, plan=choice.plan._replace(budget=rows))
            require_memory(
                full_choice.blueprint(self.params, self._form(), self.heads, self.heads).layout.nbytes,
                f"a kernel without a budget, which may store all of {rows:,} rows,",
                "set max_support, the largest number of stored rows, or use fewer rounds",
            )


def largest_sq_norm(rule: Rule, params: Any) -> float:
    """Return the largest squared length that a row may have."""
    largest = float("inf") if rule.largest_norm is None else rule.largest_norm(params) * LENGTH_SLACK
    return min(largest, sys.float_info.max)


def _learning_mode(rule: Rule, needs_labels: bool) -> int:
    """Return the loop's flags for learning with a rule."""
    mode = engine.LEARN | engine.CALIBRATE | (engine.REVEALED if needs_labels else 0)
    return mode | (engine.ALONE if rule.learns_alone else 0) | (engine.OVER_ALL if rule.composite else 0)
