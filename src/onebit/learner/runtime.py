"""The machinery of a learner: features, model, learnt ids and class names.

`Learner` is the user's interface. The service, experiments and other code that keeps rows, choices and ids in its own tables use
the runtime directly, with numbers: rows in, one choice for each out, and later back in with whether it was right.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels
from onebit.contract.draws import hash_id, hash_ids
from onebit.contract.options import Options
from onebit.contract.rule import Rule
from onebit.contract.validation import ClassName
from onebit.engine import stream as engine
from onebit.engine.schedule import NOTHING, Schedule
from onebit.errors import InputError, OnebitError
from onebit.features.features import Features, Kept, require_table
from onebit.features.frames import Names
from onebit.features.rows import Rows, is_sparse
from onebit.learner.batches import LearningBatch, checked_among, checked_batch, learn_choices
from onebit.learner.classes import Classes
from onebit.learner.ledger import CountingLedger, Ledger
from onebit.learner.loop_calls import (
    DECIDING,
    PLAIN_TERMS,
    DecisionTerms,
    decide_row,
    run_rows,
    take_lessons,
    walk_stream,
)
from onebit.learner.model import Model
from onebit.spaces.choose import KernelChoice, SpaceChoice, choose
from onebit.spaces.dense import DenseRows
from onebit.spaces.support import Support


class Runtime:
    """Features, model, ledger and class names of a learner."""

    def __init__(
        self, rule: Rule, classes: int | Iterable[ClassName], parameters: dict[str, Any], options: Options
    ) -> None:
        self.rule, self.options = rule, options
        self.names = Classes(classes)
        self.parameters = rule.plain(parameters)
        self.space_choice: SpaceChoice = choose(rule, options)
        self.features = Features(options)
        self.model = Model(rule, len(self.classes), self.parameters, self.features, self.space_choice, options)
        self.identity = uuid.uuid4().hex  # a learner accepts feedback only on its own decisions
        self.ledger = Ledger()
        self.rewarded = False  # whether a reward strictly between 0 and 1 was ever learnt
        self.taught = 0
        self.lock = threading.RLock()

    def allocate_early(self) -> None:
        """Allocate the weights if the options already determine the features."""
        if self.features.size is not None and self.features.space is not None:
            self.model.allocate()

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[ClassName, ...]:
        return self.names.names

    @property
    def needs_labels(self) -> bool:
        """True if the right class must be revealed (full information)."""
        return self.model.needs_labels

    @property
    def seed(self) -> int:
        """The seed that determines all randomness, together with the ids of the decisions."""
        return self.options.seed

    @property
    def support(self) -> Support:
        """The rows stored by the kernel, and their coefficients.

        Raise InputError without a kernel, or before the first x.
        """
        with self.lock:
            if not isinstance(self.space_choice, KernelChoice):
                raise InputError("this learner has no kernel, so it stores no rows: learner.weights has its weights")
            if self.model.space is None:
                raise InputError("this learner has seen no x yet, so it has stored nothing")
            return self.model.space.support()  # type: ignore[no-any-return]

    def add_class(self, name: ClassName) -> None:
        """Add a class without any knowledge of it."""
        with self.lock:
            names = self.names.with_class(name)
            self.model.add_class()
            self.names = names

    def remove_class(self, name: ClassName) -> None:
        """Retire a class, which is never played again; what was learnt about it is kept."""
        with self.lock:
            self.names.index(name)
            self._refuse_candidates()
            self.names.retire(name)

    def _refuse_candidates(self) -> None:
        if not self.rule.takes_candidates:
            raise InputError(f"{self.rule.title} does not say how it plays among some of its classes (Rule.narrowing)")

    def candidates(self, among: Iterable[ClassName] | None) -> list[int] | None:
        """Return the indices of the playable classes in ascending order; None if all are playable."""
        if among is not None:
            self._refuse_candidates()
        return self.names.candidates(among)

    # --- reading x -----------------------------------------------------------------------------------------------------

    @contextmanager
    def unchanged_if_refused(self) -> Iterator[None]:
        """Undo what the block found out about features if it raises an error."""
        is_first, columns, names = self.model.space is None, self.features.columns, self.features.feature_names
        try:
            yield
        except OnebitError:
            self.forget_features(is_first, columns, names)
            raise

    def forget_features(self, is_first: bool, columns: int, names: Names | None) -> None:
        """Undo what a refused row brought: the form of the features if it was the first, and new names.

        `columns` and `names` are `Features.columns` and `Features.feature_names` from before the row.
        """
        if is_first:
            self.features.reset()
            self.model.reset()
        else:
            self.features.forget_after(columns, names)

    def fix_features(self, X: Any) -> None:
        """Take the number and the form of the features from rows, without reading their values."""
        self.features.settle(X)
        if self.model.space is None:
            self.model.allocate()

    def table(self, X: Any) -> Rows:
        """Return rows in a form that `walk` accepts, cast once and shared by all runs."""
        self.fix_features(X)
        return self.features.table(X, self.table_form(X))

    def table_form(self, X: Any) -> str | None:
        """Return the form to read a table in: that of the space, or the table's own while still open.

        `walk` converts rows as it goes.
        """
        if self.model.routing is None:
            return self.features.space
        return "sparse" if is_sparse(X) else "dense"

    def read_many(self, X: Any) -> tuple[list[Kept], Rows]:
        """Read many x and make room for them: the copies that decisions keep, and the rows."""
        if isinstance(X, list | tuple) and len(X) == 0:
            return [], DenseRows(np.zeros((0, 0)))  # an empty list says nothing about features
        kept, rows = self.features.read_many(X)
        self.model.make_room(rows)
        return kept, rows

    def read_rows(self, X: Any, grow: bool = False) -> Rows:
        """Read the rows of X without copies for decisions; `grow` adds their names to the vocabulary."""
        rows = self.features.table(X, grow=grow)
        self.model.make_room(rows)
        return rows

    # --- deciding and learning in numbers ------------------------------------------------------------------------------

    def decide_one(self, x: Any, identity: int | str, terms: DecisionTerms = PLAIN_TERMS) -> tuple[Kept, Rows]:
        """Decide on one x and write the choice to `model.choice`; return the kept copy of x and its row."""
        features, row = self.features, None
        is_first, names = self.model.space is None, features.feature_names
        try:
            kept, row = features.read(x)
            decide_row(self.model, row, identity if type(identity) is int else hash_id(identity), terms)
        except OnebitError as error:
            # Quote a number that is too large as it was given: the loop sees only infinity.
            flaw = None if row is None else features.describe_not_finite(row, 0, x)
            self.forget_features(is_first, features.columns, names)
            raise (error if flaw is None else InputError(flaw)) from None
        return kept, row

    def variances(self, x: Any) -> NDArray[np.float64]:
        """Return the variance x'Px of every head's score for x; second-order learners only.

        >>> import onebit
        >>> onebit.LinUCB(classes=2, ridge=0.5).runtime.variances([1.0, 1.0])
        array([4., 4.])
        """
        if self.rule.second_order is None:
            why = "has several members" if self.rule.composite else "keeps no covariance"
            raise InputError(f"{self.rule.title} {why}, so its scores have no variance")
        with self.lock:
            self.decide_one(x, 0)
            heads = self.model.heads
            return self.model.buffers[engine.SCORES, heads : 2 * heads].copy()

    def decide_rows(
        self,
        X: Any,
        ids: Sequence[int | str],
        among: Labels | None = None,
        sure: float = math.nan,
        risk: float = math.nan,
    ) -> NDArray[np.float64]:
        """Choose a class for each row of X; return one line of numbers per row, for `learn_rows`.

        The columns are the indices of the label and of the greedy class in `classes`, the rule's propensity, two notes, the
        propensity, the rule's raw certainty, the confidence in the label, the confidence from which it counts as sure, and
        the probability of every class. `among` has the candidates of each row (`contract.candidates.pack_candidates`). It
        is for callers that keep decisions in their own tables, as the service does.

        >>> import onebit
        >>> runtime = onebit.Banditron(classes=["no", "yes"], exploration=0.1).runtime
        >>> choices = runtime.decide_rows([[1.0, 2.0], [2.0, 1.0]], ["a", "b"])
        >>> choices.shape, choices[:, 9:].sum(axis=1).tolist()
        ((2, 11), [1.0, 1.0])
        """
        with self.lock, self.unchanged_if_refused():
            columns = engine.CHOICE_COLUMNS + len(self.classes)
            terms = DecisionTerms(self._checked_among(among, len(ids)), sure, risk)
            return self.choices(self.read_rows(X), ids, columns, terms)

    def choices(self, rows: Rows, ids: Sequence[int | str], columns: int, terms: DecisionTerms) -> NDArray[np.float64]:
        """Decide on rows already read; return one line of choices per row, cut after `columns` columns."""
        if rows.height != len(ids):
            raise InputError(f"there are {len(ids)} ids for {rows.height} rows")
        choices = np.empty((rows.height, columns))
        run_rows(self.model, rows, choices, DECIDING, hash_ids(ids), **terms._asdict())
        return choices

    def _checked_among(self, among: Labels | None, rows: int) -> Labels:
        """Return the packed candidates, checked: one list for each row, or none at all."""
        if among is None or len(among) == 0:
            return NOTHING
        self._refuse_candidates()
        return checked_among(among, rows, len(self.classes))

    def learn_rows(
        self,
        X: Any,
        ids: Sequence[int | str],
        choices: NDArray[np.float64],
        right: Sequence[bool] | NDArray[np.bool_],
        **more: Any,
    ) -> None:
        """Learn from choices that `decide_rows` made, in this order; if one is refused, none is learnt.

        Further keywords are those of `batch`.

        >>> import onebit
        >>> learner = onebit.Banditron(classes=["no", "yes"])
        >>> rows, ids = [[1.0, 2.0], [2.0, 1.0]], ["a", "b"]
        >>> learner.runtime.learn_rows(rows, ids, learner.runtime.decide_rows(rows, ids), [True, False])
        >>> learner.learnt
        2
        """
        with self.lock, self.unchanged_if_refused():
            self.learn_batch(self.batch(X, ids, choices, right, **more))

    def batch(
        self,
        X: Any,
        ids: Sequence[int | str],
        choices: NDArray[np.float64],
        right: Sequence[bool] | NDArray[np.bool_],
        *,
        among: Labels | None = None,
        rewards: Sequence[float] | NDArray[np.float64] | None = None,
        truths: Labels | None = None,
    ) -> LearningBatch:
        """Read the arguments of `learn_rows` once, for `learn_batch` of this learner or of its copies.

        `among` packs the candidates that the choices were made from; `rewards` are numbers from 0 to 1 in place of `right`;
        `truths` are the indices of the right classes, -1 where unknown.
        """
        with self.lock:
            if self.needs_labels:
                raise InputError(f"{self.rule.title} learns from labels, not from right and wrong")
            sets = self._checked_among(among, len(ids))
            rows = self.read_rows(X, grow=True)
            return checked_batch(rows, ids, choices, right, sets, rewards, truths, len(self.classes))

    def learn_batch(self, batch: LearningBatch) -> None:
        """Learn a whole batch, or nothing if something in it cannot be learnt."""
        with self.lock:
            if not self.ledger.knows_none(batch.ids):
                for identity in batch.ids:
                    self.ledger.refuse_learnt(identity, self.ledger.moment)
            if len(batch.ids) == 0:
                return
            with self.model.unchanged_if_refused(batch.rows):
                learn_choices(self.model, batch, self.corrects)
            self.note_rewards(batch.rewards)
            self.ledger.record_all(batch.ids)

    @property
    def corrects(self) -> bool:
        """True if a given truth is learnt by the rule's step for known labels, not just as one bit."""
        return self.rule.teach is not None and not self.needs_labels

    def note_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Remember if any reward was strictly between 0 and 1; their sum is then no longer a count."""
        self.rewarded = self.rewarded or bool(((rewards > 0.0) & (rewards < 1.0)).any())

    def disable_ledger(self) -> None:
        """Stop remembering learnt ids: the caller ensures that nothing is learnt twice, however late."""
        with self.lock:
            self.ledger = CountingLedger(self.ledger.moment, self.ledger.next_id)

    def teach(self, X: Any, y: Iterable[ClassName]) -> None:
        """Learn from labelled rows: from all of them, or from none."""
        with self.lock, self.unchanged_if_refused():
            labels = self.names.indices(y)
            require_table(X)
            count = X.shape[0] if hasattr(X, "shape") else len(X)
            if count != len(labels):
                raise InputError(f"there are {len(labels)} labels for {count} rows")
            if count == 0:
                return
            rows = self.features.table(X)
            self.model.make_room()
            with self.model.unchanged_if_refused(rows):
                take_lessons(self.model, rows, labels, first_id=self.taught)
            self.taught += count

    # --- whole streams -----------------------------------------------------------------------------------------------

    def walk(
        self,
        rows: Rows,
        schedule: Schedule,
        kept: NDArray[np.float64],
        tally: engine.Tally,
        start: int,
        stop: int,
        calibrate: bool = True,
    ) -> None:
        """Decide and learn from step `start` to `stop` of a stream, counting mistakes.

        `kept` holds the choice of every round if feedback is delayed, and has no rows otherwise. Without `calibrate`,
        calibration of confidence is skipped to save time.
        """
        with self.lock:
            if len(schedule.among):
                self._refuse_candidates()
            self.ledger.next_ids(schedule.rounds)
            self.note_rewards(schedule.rewards)
            walk_stream(self.model, rows, schedule, kept, tally, self.ledger.next_id, (start, stop), calibrate)

    def finish_walk(self, schedule: Schedule) -> None:
        """Record which rounds of the stream, or of the part of it that was walked, have been learnt."""
        with self.lock:
            ids: Any = self.ledger.next_ids(schedule.rounds)
            end = ids.stop
            if len(schedule.events):
                ids = (schedule.learnt + (ids.start - schedule.part.first)).tolist()
            self.ledger.record_all(ids, more=not schedule.part.last)
            self.ledger.next_id = end
