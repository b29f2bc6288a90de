"""What a learner runs on: features, model, learnt ids and the names of the classes.

`Learner` is what a user holds. The service, experiments and whoever else keeps rows, choices and ids in tables of their own use
its runtime, in numbers: rows in, one choice for each out, and back again with what was right.
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
from onebit.features.rows import Row, Rows, as_rows, is_sparse
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
    """Features, model, ledger and the names of the classes."""

    # Slots, so that what is misspelt is an error.
    __slots__ = (
        "features",
        "identity",
        "ledger",
        "lock",
        "model",
        "names",
        "options",
        "parameters",
        "rewarded",
        "rule",
        "space_choice",
        "taught",
    )

    def __init__(
        self, rule: Rule, classes: int | Iterable[ClassName], parameters: dict[str, Any], options: Options
    ) -> None:
        self.rule, self.options = rule, options
        self.names = Classes(classes)
        self.parameters = rule.plain(parameters)
        self.space_choice: SpaceChoice = choose(rule, options)
        self.features = Features(options)
        self.model = Model(rule, len(self.classes), self.parameters, self.features, self.space_choice, options)
        self.identity = uuid.uuid4().hex  # which learner this is: it learns its own decisions
        self.ledger = Ledger()
        self.rewarded = False  # whether a reward between right and wrong was ever learnt
        self.taught = 0
        self.lock = threading.RLock()

    def allocate_early(self) -> None:
        """Allocate the weights where the options say all that is to be known of the features."""
        if self.features.size is not None and self.features.space is not None:
            self.model.allocate()

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[ClassName, ...]:
        return self.names.names

    @property
    def needs_labels(self) -> bool:
        """Whether the class must be revealed (full information)."""
        return self.model.needs_labels

    @property
    def seed(self) -> int:
        """What decides all chance, together with the ids of the decisions."""
        return self.options.seed

    @property
    def feature_names(self) -> Names | None:
        """The names of the columns of the first frame that it was shown, in the order that the weights have."""
        return self.features.feature_names

    @property
    def support(self) -> Support:
        """With a kernel: the rows that are stored, and their coefficients."""
        with self.lock:
            if not isinstance(self.space_choice, KernelChoice):
                raise InputError("this learner has no kernel, so it stores no rows: learner.weights has its weights")
            if self.model.space is None:
                raise InputError("this learner has seen no x yet, so it has stored nothing")
            return self.model.space.support()  # type: ignore[no-any-return]

    def add_class(self, name: ClassName) -> None:
        """Add a class of which nothing is known."""
        with self.lock:
            names = self.names.with_class(name)
            self.model.add_class()
            self.names = names

    def remove_class(self, name: ClassName) -> None:
        """Never play a class again; what is known of it stays."""
        with self.lock:
            self.names.index(name)
            self._refuse_candidates()
            self.names.retire(name)

    def _refuse_candidates(self) -> None:
        if not self.rule.takes_candidates:
            raise InputError(f"{self.rule.title} does not say how it plays among some of its classes (Rule.narrowing)")

    def candidates(self, among: Iterable[ClassName] | None) -> list[int] | None:
        """Return the numbers of the classes that can be played, in rising order; None if all can."""
        if among is not None:
            self._refuse_candidates()
        return self.names.candidates(among)

    # --- reading x -----------------------------------------------------------------------------------------------------

    @contextmanager
    def unchanged_if_refused(self) -> Iterator[None]:
        """Forget what was learnt about features inside, if it is refused."""
        is_first, known = self.model.space is None, self.features.known
        try:
            yield
        except OnebitError:
            self.forget_features(is_first, known)
            raise

    def forget_features(self, is_first: bool, known: tuple[int, Names | None]) -> None:
        """Forget what a refused row brought: the form of the features where it was the first, names beyond the known ones."""
        if is_first:
            self.features.reset()
            self.model.reset()
        else:
            self.features.forget_after(known)

    def fix_features(self, X: Any) -> None:
        """Take the number and the form of the features from rows, without reading them."""
        self.features.settle(X)
        if self.model.space is None:
            self.model.allocate()

    def table(self, X: Any) -> Rows:
        """Return rows in a form that `walk` takes, cast once and shared by all runs."""
        self.fix_features(X)
        return self.features.table(X, self.table_form(X))

    def table_form(self, X: Any) -> str | None:
        """Return the form to read a table in: that of the space, or its own while rows learnt decide; `walk` converts as it goes."""
        if self.model.routing is None:
            return self.features.space
        return "sparse" if is_sparse(X) else "dense"

    def read_many(self, X: Any) -> tuple[list[Kept], Rows]:
        """Read many x, with weights for them: the copies that decisions keep, and the rows."""
        if isinstance(X, list | tuple) and len(X) == 0:
            return [], DenseRows(np.zeros((0, 0)))  # which says nothing of features
        self.features.settle(X)
        kept, rows = self.features.read_many(X)
        self.model.make_room(rows)
        return kept, rows

    def read_rows(self, X: Any, grow: bool = False) -> Rows:
        """Read the rows of X alone, for those who keep them elsewhere; `grow` adds their names to the vocabulary."""
        self.features.settle(X)
        rows = self.features.read_many(X, grow)[1] if self.features.named else self.features.table(X)
        self.model.make_room(rows)
        return rows

    # --- deciding and learning in numbers ------------------------------------------------------------------------------

    def decide_one(self, x: Any, identity: int | str, terms: DecisionTerms = PLAIN_TERMS) -> tuple[Kept, Row]:
        """Decide on one x; `model.choice` then has the choice. Return x as it was read."""
        model, word = self.model, identity if type(identity) is int else hash_id(identity)
        is_first, names, row = model.space is None, self.features.feature_names, None
        try:
            kept, row = self.features.read(x)
            decide_row(model, row, word, terms)
        except OnebitError as error:
            # A number that is too large is named as it was given, which the loop does not know.
            flaw = None if row is None else self.features.describe_not_finite(as_rows(row), 0, x)
            self.forget_features(is_first, (self.features.columns, names))
            raise (error if flaw is None else InputError(flaw)) from None
        return kept, row

    def variances(self, x: Any) -> NDArray[np.float64]:
        """For second-order learners: the variance x'Px of the score of every head for x.

        >>> import onebit
        >>> onebit.LinUCB(classes=2, ridge=0.5).runtime.variances([1.0, 1.0])
        array([4., 4.])
        """
        if self.space_choice.no_variances is not None:
            raise InputError(f"{self.rule.title} {self.space_choice.no_variances}, so its scores have no variance")
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
        """Decide on a class for each row of X, in numbers: one line of choices for each, which `learn_rows` takes back.

        Its columns are the numbers of the label and of the greedy class in `classes`, the propensity of the rule, two notes, the propensity, how sure the
        rule is, the confidence in the label and the one from which it is sure, and the probability of every class. `among` has the candidates of each row (`contract.candidates.packed`). For those who keep decisions in tables
        of their own, as the service does.

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
        """Decide on rows that were read: one line of choices for each, cut after so many columns."""
        if rows.height != len(ids):
            raise InputError(f"there are {len(ids)} ids for {rows.height} rows")
        choices = np.empty((rows.height, columns))
        run_rows(self.model, rows, choices, DECIDING, hash_ids(ids), **terms._asdict())
        return choices

    def _checked_among(self, among: Labels | None, rows: int) -> Labels:
        """Return lists of candidates, one for each row, checked."""
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
        """Learn from choices that `decide_rows` made, in this order. If one cannot be learnt, none is. What `batch` takes more, this does too.

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
        """Read what `learn_rows` learns, once: `learn_batch` takes it, also that of copies of this learner.

        `among` are the candidates that the choices were made from; `rewards` are numbers from 0 to 1 in place of `right`; `truths` are the numbers of the
        classes that were right, -1 where that is not known.
        """
        with self.lock:
            if self.needs_labels:
                raise InputError(f"{self.rule.title} learns from labels, not from right and wrong")
            sets = self._checked_among(among, len(ids))
            rows = self.read_rows(X, grow=True)
            return checked_batch(rows, ids, choices, right, sets, rewards, truths, len(self.classes))

    def learn_batch(self, batch: LearningBatch) -> None:
        """Learn a batch, all of it or, where something in it cannot be learnt, nothing."""
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
        """Whether a given truth is learnt by the rule's step for known labels; if not, one bit of it is."""
        return self.rule.teach is not None and not self.needs_labels

    def note_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Note whether a reward was between right and wrong: then their sum is no count."""
        if len(rewards) and not self.rewarded:
            self.rewarded = bool(((rewards > 0.0) & (rewards < 1.0)).any())

    def disable_ledger(self) -> None:
        """Stop remembering learnt ids: the caller sees to it that nothing is learnt twice, however late it comes."""
        with self.lock:
            self.ledger = CountingLedger(self.ledger.moment, self.ledger.next_id)

    def teach(self, X: Any, y: Iterable[ClassName]) -> None:
        """Learn from labelled rows, all of them or none."""
        with self.lock, self.unchanged_if_refused():
            labels = self.names.indices(y)
            require_table(X)
            count = X.shape[0] if hasattr(X, "shape") else len(X)
            if count != len(labels):
                raise InputError(f"there are {len(labels)} labels for {count} rows")
            if count == 0:
                return
            self.features.settle(X)
            teach_rows(self.model, self.features.table(X), labels, self.taught)
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

        `kept` holds the choice of every round where feedback comes late, and has no rows otherwise. Who does not ask how sure the learner is
        saves time (`calibrate`).
        """
        with self.lock:
            if len(schedule.among):
                self._refuse_candidates()
            self.ledger.next_ids(schedule.rounds)
            self.note_rewards(schedule.rewards)
            walk_stream(self.model, rows, schedule, kept, tally, self.ledger.next_id, (start, stop), calibrate)

    def finish_walk(self, schedule: Schedule) -> None:
        """Note which rounds of the stream, or of the piece of it that was walked, have been learnt."""
        with self.lock:
            ledger = self.ledger
            if len(schedule.events):
                ids = schedule.learnt + (ledger.next_id - schedule.part.first)
                ledger.record_some(ids.tolist(), more=not schedule.part.last)
            else:
                ledger.record_run(ledger.next_id, schedule.rounds)
            ledger.next_id += schedule.rounds
