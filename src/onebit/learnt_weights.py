"""What has been learnt: the record of a rule, its memory, and the space that holds its weights. Made, grown, written down and taken up."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from onebit.contract.rule import Rule, Vector
from onebit.engine import stream as engine
from onebit.errors import InputError, OnebitWarning, OutOfMemoryError, brief
from onebit.features import Features
from onebit.memory import refuse_beyond_memory
from onebit.rows import Row, Rows, filled_cells
from onebit.spaces.choose import SLACK, Arrays, Blueprint, Form, SpaceChoice
from onebit.spaces.layout import refuse_unlike
from onebit.spaces.routing import MOST_BYTES, Routing
from onebit.spaces.sparse import SparseRows


class Beginning(NamedTuple):
    """What a learner of weights of features begins with, for an engine that runs its rule elsewhere."""

    params: Any
    memory: Vector
    longest: float  # squared, of a row with its constant feature


class LearntWeights:
    """A rule's record, memory and space."""

    __slots__ = (
        "classes",
        "features",
        "memory",
        "options",
        "params",
        "planned",
        "routing",
        "rule",
        "space",
        "space_choice",
    )

    def __init__(
        self, rule: Rule, classes: int, options: Mapping[str, Any], features: Features, space_choice: SpaceChoice
    ) -> None:
        self.rule, self.classes, self.options = rule, classes, options
        self.features, self.space_choice = features, space_choice
        self.params, self.memory = rule.settle(classes, options)
        self.planned = 0  # for how many heads the space was planned; those added later do not change its kind
        self.space: Any = None
        self.routing: Routing | None = None  # where the form of the rows is not said, and the rule settles on one

    @property
    def heads(self) -> int:
        """The number of weight vectors."""
        return self.rule.heads(self.params)

    def allocate(self) -> None:
        """Make the space, now that the features are known."""
        if self.features.space is None or self.features.named is None:
            raise InputError("this learner does not know its features yet: show it a row first")
        self._take_up(self._blueprint())
        if self.space_choice.routes and self.features.may_change_form:
            self.routing = Routing(self.features.space)

    @property
    def counts_rows(self) -> bool:
        """Whether the rows that are learnt next have a say in the form of all that come after them."""
        return self.routing is not None and self.routing.is_open

    def count_row(self, rows: Rows, row: int) -> None:
        """Count the cells of a row that was just learnt; after the last row that counts, settle on the form of all that come."""
        assert self.routing is not None
        assert self.features.size is not None
        self.routing = self.routing.counted(filled_cells(rows, row))
        form = self.routing.form(self.features.size)
        if form != self.features.space:
            self._change_form(form)

    def _change_form(self, form: str) -> None:
        """Begin anew with the members for rows of another form, as far as there is memory for them."""
        before, self.features.space = self.features.space, form
        blueprint = self._blueprint()
        try:
            if blueprint.layout.nbytes <= MOST_BYTES:
                self._take_up(blueprint)
                return
        except OutOfMemoryError as error:
            warnings.warn(f"{error}: rows are treated as {before}, not as {form}", OnebitWarning, stacklevel=4)
        self.features.space = before

    def _go_back_to(self, space: Any, form: str | None) -> None:
        """Take up the space again that there was before the form was changed."""
        self.features.space, self.space = form, space
        self.params = self.space_choice.settled(self.params, space)
        self._prepare(self._blueprint().layout.width)

    def _blueprint(self, least: int = 1) -> Blueprint:
        """The space for the features that are known, with room for `least` at least, of which nothing is allocated yet."""
        features, heads = self.features, self.heads
        self.planned = self.planned or heads
        form = Form(features.space == "dense", max(least, features.columns), bool(features.named), features.dtype)
        return self.space_choice.blueprint(self.params, form, heads, self.planned)

    def _take_up(self, blueprint: Blueprint, arrays: Arrays | None = None) -> None:
        """Make the space, with what was written down where something was."""
        try:
            space = blueprint.make()
            self.space = space if arrays is None else space.loaded(arrays)
        except MemoryError:
            columns = max(1, self.features.columns)
            raise OutOfMemoryError(f"there is not enough memory for {self.heads} x {columns} weights") from None
        self.params = self.space_choice.settled(self.params, self.space)
        self._prepare(blueprint.layout.width)

    def make_room(self, rows: Row | Rows | None = None) -> None:
        """Have weights for every column that has a meaning, and for all that rows may name."""
        if self.space is None:
            self.allocate()
        needed = max(self.features.columns, rows.width if isinstance(rows, SparseRows) else 0)
        if needed > self.space.room[1]:
            self.space = self.space.grown(self.space.room[0], max(needed, 2 * self.space.room[1]))

    def add_class(self) -> None:
        """One class more, of which nothing is known."""
        params, memory = self.rule.settle(self.classes + 1, self.options)
        if len(memory) != len(self.memory):
            raise InputError(f"{self.rule.title} keeps something for each class, so that none can be added")
        self.params = params if self.space is None else self.space_choice.settled(params, self.space)
        self.classes += 1
        if self.space is not None:
            self.space = self.space.grown(self.heads, self.space.room[1])
            self._prepare(self._blueprint().layout.width)

    def reset(self) -> None:
        """Forget the space: the row for which it was made has been refused."""
        self.space, self.planned, self.routing = None, 0, None
        self.params, _ = self.rule.settle(self.classes, self.options)

    def arrays(self) -> Arrays:
        """What has been learnt, beside the memory. Room for names that were seen but never learnt is no part of it."""
        if self.space is None:
            return {}
        arrays: Arrays = self.space.arrays(None if self.features.vocabulary is None else self.features.columns)
        return arrays

    def restore(self, arrays: Arrays, planned: int) -> None:
        """Take up what was written down, once it is known that it holds all that the space would ask memory for."""
        if self.features.space is None or self.features.named is None:
            raise InputError(
                f"there is the array {brief(next(iter(arrays)))}, but no features are known that it could be of"
            )
        if planned > self.heads:
            raise InputError(f"the field 'planned' of the manifest is {planned}, but must be at most {self.heads}")
        self.planned = planned
        refuse_unlike(arrays, self._blueprint(least=0).layout.saved)  # who has seen no name yet has none to write down
        self._take_up(self._blueprint(), arrays)

    def size(self, classes: int, columns: int, dense: bool) -> int:
        """How many bytes the arrays would take with so many classes and features, as large as they may become. Nothing is allocated."""
        _, memory = self.rule.settle(classes, self.options)
        layouts = [one.layout for one in self.blueprints(classes, columns, dense)]
        buffers = (engine.BUFFERS * max(one.width, classes) * memory.itemsize for one in layouts)
        return max(layout.nbytes + more for layout, more in zip(layouts, buffers, strict=True)) + memory.nbytes

    def blueprints(self, classes: int, columns: int, dense: bool) -> list[Blueprint]:
        """The spaces that this learner may have with so many classes and features: the second is the form in which rows may be treated later."""
        params, _ = self.rule.settle(classes, self.options)
        heads, forms = self.rule.heads(params), [dense]
        if self.space_choice.routes and dense and Routing("dense").may_move(columns):
            forms.append(False)
        named, dtype = bool(self.features.named), self.features.dtype
        wanted = [Form(one, max(1, columns), named, dtype) for one in forms]
        return [self.space_choice.blueprint(params, form, heads, self.planned or heads) for form in wanted]

    def refuse_unstorable(self, rows: int) -> None:
        """Refuse to learn from so many rows where a kernel without a budget may store all of them, and there is no memory for it."""
        features = self.features
        form = Form(features.space == "dense", max(1, features.columns), bool(features.named), features.dtype)
        needed = self.space_choice.stored_bytes(self.params, form, self.heads, rows)
        refuse_beyond_memory(
            needed,
            f"a kernel without a budget, which may store each of {rows:,} rows,",
            "give max_support, the most rows that are stored, or take fewer rounds",
        )

    def _prepare(self, width: int) -> None:
        """What is needed beside the space that there is now, which gives so many numbers for a row."""

    @property
    def repairs(self) -> int:
        """How often a covariance had to be repaired."""
        return int(getattr(self.space, "repairs", (0,))[0])

    @property
    def beginning(self) -> Beginning:
        """The record, the memory and the longest row of this learner as it is now."""
        longest = longest_row(self.rule, self.params) + self.space_choice.bias
        return Beginning(self.params, self.memory.copy(), longest)


def longest_row(rule: Rule, params: Any) -> float:
    """The squared length that a row may have at most."""
    longest = float("inf") if rule.largest_norm is None else rule.largest_norm(params) * SLACK
    return min(longest, sys.float_info.max)
