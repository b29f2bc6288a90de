"""The runtime of a learner: its features, model, ledger of learnt ids and class names.

`Learner` is the user's interface. The service, experiments and other code that keeps rows, choices and ids in its own tables use
the runtime directly, with arrays: it takes rows and returns one choice for each, and later learns if the choices were right.
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
from onebit.features.features import Features, StoredX, require_table
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
    teach_rows,
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
        self.rewarded = False  # True once a reward strictly between 0 and 1 has been learnt
        self.taught_rows = 0  # labelled rows learnt by `teach`
        self.lock = threading.RLock()

    def allocate_early(self) -> None:
        """Allocate the weights if the options already determine the features."""
        if self.features.size is not None and self.features.space is not None:
            self.model.allocate()

    # --- classes, seed and support -----------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[ClassName, ...]:
        return self.names.names

    @property
    def needs_labels(self) -> bool:
        """True if the right class must always be revealed (full information)."""
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
                raise InputError("this learner has no kernel and stores no rows: see learner.weights")
            if self.model.space is None:
                raise InputError("this learner has not seen any x yet, so it stores no rows")
            return self.model.space.support()  # type: ignore[no-any-return]

    def add_class(self, name: ClassName) -> None:
        """Add a class about which nothing is known."""
        with self.lock:
            names = self.names.with_class(name)
            self.model.add_class()
            self.names = names

    def remove_class(self, name: ClassName) -> None:
        """Retire a class, which is never played again; what was learnt about it is kept."""
        with self.lock:
            self.names.index(name)
            self._require_candidates()
            self.names.retire(name)

    def _require_candidates(self) -> None:
        if not self.rule.takes_candidates:
            raise InputError(f"{self.rule.title} cannot choose among some of its classes: it has no Rule.narrowing")

    def find_candidates(self, among: Iterable[ClassName] | None) -> list[int] | None:
        """Return the indices of the playable classes in ascending order; None if all are playable."""
        if among is not None:
            self._require_candidates()
        return self.names.find_candidates(among)

    # --- reading x -----------------------------------------------------------------------------------------------------

    @contextmanager
    def undo_if_refused(self) -> Iterator[None]:
        """Undo what the block has learnt about the form and names of features if it raises an error."""
        is_first, columns, names = self.model.space is None, self.features.columns, self.features.feature_names
        try:
            yield
        except OnebitError:
            self.forget_features(is_first, columns, names)
            raise

    def forget_features(self, is_first: bool, columns: int, names: Names | None) -> None:
        """Undo what a refused row has fixed: the form of the features if it was the first, and new names.

        `columns` and `names` are `Features.columns` and `Features.feature_names` from before the row.
        """
        if is_first:
            self.features.reset()
            self.model.reset()
        else:
            self.features.forget_after(columns, names)

    def fix_features(self, X: Any) -> None:
        """Take the number and the form of the features from rows, without reading their values."""
        self.features.fix_form(X)
        if self.model.space is None:
            self.model.allocate()

    def read_table(self, X: Any) -> Rows:
        """Read a table into rows for `walk`, cast once so that several runs can share them."""
        self.fix_features(X)
        return self.features.read_table(X, self.choose_table_form(X))

    def choose_table_form(self, X: Any) -> str | None:
        """Return the form to read a table in: that of the space, or the table's own while it may change.

        `walk` converts rows as it goes.
        """
        if self.model.routing is None:
            return self.features.space
        return "sparse" if is_sparse(X) else "dense"

    def read_many(self, X: Any) -> tuple[list[StoredX], Rows]:
        """Read many x and make room for them; return the copies that decisions store, and the rows."""
        if isinstance(X, list | tuple) and len(X) == 0:
            return [], DenseRows(np.zeros((0, 0)))  # an empty list says nothing about features
        stored, rows = self.features.read_many(X)
        self.model.make_room(rows)
        return stored, rows

    def read_rows(self, X: Any, grow: bool = False) -> Rows:
        """Read the rows of X without copies for decisions; `grow` adds their names to the vocabulary."""
        rows = self.features.read_table(X, grow=grow)
        self.model.make_room(rows)
        return rows

    # --- deciding and learning in numbers ------------------------------------------------------------------------------

    def decide_one(self, x: Any, identity: int | str, terms: DecisionTerms = PLAIN_TERMS) -> tuple[StoredX, Rows]:
        """Decide on one x and write the choice to `model.choice`; return the stored x and its row."""
        features, row = self.features, None
        is_first, names = self.model.space is None, features.feature_names
        try:
            stored_x, row = features.read(x)
            decide_row(self.model, row, identity if type(identity) is int else hash_id(identity), terms)
        except OnebitError as error:
            # Quote a number that is too large as it was given: the loop sees only infinity.
            flaw = None if row is None else features.describe_not_finite(row, 0, x)
            self.forget_features(is_first, features.columns, names)
            raise (error if flaw is None else InputError(flaw)) from None
        return stored_x, row

    def variances(self, x: Any) -> NDArray[np.float64]:
        """Return the variance x'Px of every head's score for x; second-order learners only.

        >>> import onebit
        >>> onebit.LinUCB(classes=2, ridge=0.5).runtime.variances([1.0, 1.0])
        array([4., 4.])
        """
        if self.rule.second_order is None:
            reason = "has several members" if self.rule.composite else "keeps no covariance"
            raise InputError(f"{self.rule.title} {reason}, so its scores have no variance")
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
        with self.lock, self.undo_if_refused():
            columns = engine.CHOICE_COLUMNS + len(self.classes)
            terms = DecisionTerms(self._checked_among(among, len(ids)), sure, risk)
            return self.choose_classes(self.read_rows(X), ids, columns, terms)

    def choose_classes(
        self, rows: Rows, ids: Sequence[int | str], columns: int, terms: DecisionTerms
    ) -> NDArray[np.float64]:
        """Decide on parsed rows; return the choice for each row as a line of `columns` numbers."""
        if rows.height != len(ids):
            raise InputError(f"there are {len(ids)} ids for {rows.height} rows")
        choices = np.empty((rows.height, columns))
        run_rows(self.model, rows, choices, DECIDING, hash_ids(ids), **terms._asdict())
        return choices

    def _checked_among(self, among: Labels | None, rows: int) -> Labels:
        """Return the packed candidates, checked: one list for each row, or none at all."""
        if among is None or len(among) == 0:
            return NOTHING
        self._require_candidates()
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

        Further keywords are those of `read_batch`.

        >>> import onebit
        >>> learner = onebit.Banditron(classes=["no", "yes"])
        >>> rows, ids = [[1.0, 2.0], [2.0, 1.0]], ["a", "b"]
        >>> learner.runtime.learn_rows(rows, ids, learner.runtime.decide_rows(rows, ids), [True, False])
        >>> learner.learnt
        2
        """
        with self.lock, self.undo_if_refused():
            self.learn_batch(self.read_batch(X, ids, choices, right, **more))

    def read_batch(
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
            candidate_lists = self._checked_among(among, len(ids))
            rows = self.read_rows(X, grow=True)
            return checked_batch(rows, ids, choices, right, candidate_lists, rewards, truths, len(self.classes))

    def learn_batch(self, batch: LearningBatch) -> None:
        """Learn a whole batch, or nothing if any part of it is refused."""
        with self.lock:
            if not self.ledger.are_all_learnable(batch.ids):
                for identity in batch.ids:
                    self.ledger.refuse_learnt(identity, self.ledger.moment)
            if len(batch.ids) == 0:
                return
            with self.model.undo_if_refused(batch.rows):
                learn_choices(self.model, batch, self.learns_truths)
            self.record_rewards(batch.rewards)
            self.ledger.record_all(batch.ids)

    @property
    def learns_truths(self) -> bool:
        """True if a given truth is learnt by the rule's full-information step, not just as one bit."""
        return self.rule.teach is not None and not self.needs_labels

    def record_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Record if any reward was strictly between 0 and 1: the sum of rewards is then not a count."""
        self.rewarded = self.rewarded or bool(((rewards > 0.0) & (rewards < 1.0)).any())

    def disable_ledger(self) -> None:
        """Stop remembering learnt ids: the caller ensures that nothing is learnt twice, however late."""
        with self.lock:
            self.ledger = CountingLedger(self.ledger.moment, self.ledger.next_id)

    def teach(self, X: Any, y: Iterable[ClassName]) -> None:
        """Learn from labelled rows: from all of them, or from none."""
        with self.lock, self.undo_if_refused():
            labels = self.names.indices(y)
            require_table(X)
            count = X.shape[0] if hasattr(X, "shape") else len(X)
            if count != len(labels):
                raise InputError(f"there are {len(labels)} labels for {count} rows")
            if count == 0:
                return
            rows = self.features.read_table(X)
            self.model.make_room()
            with self.model.undo_if_refused(rows):
                teach_rows(self.model, rows, labels, first_id=self.taught_rows)
            self.taught_rows += count

    # --- whole streams -----------------------------------------------------------------------------------------------

    def walk(
        self,
        rows: Rows,
        schedule: Schedule,
        choices: NDArray[np.float64],
        tally: engine.Tally,
        start: int,
        stop: int,
        calibrate: bool = True,
    ) -> None:
        """Decide and learn from step `start` to `stop` of a stream, counting mistakes.

        `choices` holds the choice of every round if feedback is delayed, and has no rows otherwise. Without `calibrate`,
        calibration of confidence is skipped to save time.
        """
        with self.lock:
            if len(schedule.among):
                self._require_candidates()
            self.ledger.next_ids(schedule.rounds)
            self.record_rewards(schedule.rewards)
            walk_stream(self.model, rows, schedule, choices, tally, self.ledger.next_id, (start, stop), calibrate)

    def finish_walk(self, schedule: Schedule) -> None:
        """Record which rounds have been learnt, of the stream or of the part of it that was walked."""
        with self.lock:
            ids: Any = self.ledger.next_ids(schedule.rounds)
            end = ids.stop
            if len(schedule.events):
                ids = (schedule.learnt + (ids.start - schedule.part.first)).tolist()
            self.ledger.record_all(ids, more_follow=not schedule.part.last)
            self.ledger.next_id = end
