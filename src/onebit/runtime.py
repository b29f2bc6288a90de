"""What a learner runs on: how it reads x, what it has learnt, which ids it has learnt, and what its classes are called.

`Learner` is what a user holds. The service, experiments and whoever else keeps rows, choices and ids in tables of their own use
its runtime, in numbers: rows in, one choice for each out, and back again with what was right.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.classes import Classes
from onebit.contract.draws import key_of, word_of, words_of
from onebit.contract.parameters import Real, checked_flag
from onebit.contract.rule import Rule
from onebit.engine import stream as engine
from onebit.engine.schedule import Schedule
from onebit.errors import InputError, OnebitError
from onebit.features import Features, Kept, refuse_what_is_no_table
from onebit.frames import Names
from onebit.ledger import Ledger, Trusting
from onebit.model import Model
from onebit.options import Options
from onebit.rows import Rows, SparseRow
from onebit.spaces.choose import KernelChoice, SpaceChoice, choose
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows
from onebit.spaces.support import Support
from onebit.validation import MOST_NUMBERS, ClassName, checked_seed

FLOOR = Real("[0, 1]", "the probability of playing any label")


class LearningBatch(NamedTuple):
    """Choices to learn from, with their rows and what was revealed of them."""

    rows: Rows
    ids: Sequence[int | str]
    choices: NDArray[np.float64]
    revealed: NDArray[np.int64]
    words: NDArray[np.uint64]


class Runtime:
    """Features, model, ledger and the names of the classes."""

    # Slots, so that what is misspelt is an error.
    __slots__ = (
        "bias",
        "features",
        "identity",
        "kernel",
        "ledger",
        "lock",
        "model",
        "names",
        "next_id",
        "parameters",
        "rule",
        "seed",
        "space_choice",
        "taught",
    )

    def __init__(
        self, rule: Rule, classes: int | Iterable[ClassName], parameters: dict[str, Any], options: Options
    ) -> None:
        self.rule = rule
        self.names = Classes(classes)
        self.parameters = rule.plain(parameters)
        self.seed = checked_seed(options.seed)
        self.bias = checked_flag("bias", options.bias)
        self.kernel = options.kernel
        self.identity = uuid.uuid4().hex
        self.space_choice: SpaceChoice = choose(
            rule, self.bias, self.seed, options.kernel, options.max_support, options.when_full
        )
        text = checked_flag("text", options.text)
        self.features = Features(options.features, options.space, options.dtype, text, options.hash_bits)
        self.model = Model(
            rule, len(self.classes), self.parameters, self.features, self.space_choice, key_of(self.seed)
        )
        self.model.exploration_floor = self._checked_floor(options.exploration_floor)
        self.ledger = Ledger()
        self.next_id = 0
        self.taught = 0
        self.lock = threading.RLock()
        if self.features.size is not None and self.features.space is not None:
            self.model.allocate()

    def _checked_floor(self, floor: object) -> float:
        """The probability of playing any label; refused for rules that cannot have it."""
        checked = FLOOR.code("exploration_floor", floor)
        if checked > 0.0 and (self.rule.notes_the_label or self.needs_labels):
            exploring = "learns from full information, and does not explore"
            why = "keeps a floor of its own" if self.rule.notes_the_label else exploring
            raise InputError(f"{self.rule.title} {why}: it takes no exploration_floor")
        return checked

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[ClassName, ...]:
        """The names of the classes."""
        return self.names.names

    @property
    def needs_labels(self) -> bool:
        """Whether the class must be revealed (full information)."""
        return self.model.needs_labels

    @property
    def exploration_floor(self) -> float:
        """With this probability any label is played."""
        return self.model.exploration_floor

    @property
    def reads_names(self) -> bool:
        """Whether features have names: dicts or texts, not columns."""
        return bool(self.features.named)

    @property
    def feature_count(self) -> int | None:
        """The number of features, once it is known."""
        return None if self.features.named is None else self.features.columns

    @property
    def feature_names(self) -> Names | None:
        """The names of the columns of the first frame that it was shown, in the order that the weights have."""
        return self.features.feature_names

    @property
    def settings(self) -> dict[str, Any]:
        """Every parameter of the rule as it is in force: given, by default, or worked out by the rule."""
        in_force = {name: note.show(getattr(self.model.params, name)) for name, note in self.rule.parameters.items()}
        given = {name: value for name, value in self.parameters.items() if value is not None}
        chosen = {"matrix": in_force["matrix"]} if "matrix" in in_force else {}
        return {**in_force, **given, **chosen}

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
        """One class more, of which nothing is known."""
        with self.lock:
            classes = Classes((*self.classes, name))
            self.model.add_class()
            self.names = classes

    def next_ids(self, count: int) -> range:
        """The next free numbers; to go on is refused where they would be beyond what numbers may be."""
        if self.next_id + count > MOST_NUMBERS:
            raise InputError(
                f"decisions are numbered from {self.next_id} on, and there are no {count} numbers left: give ids"
            )
        return range(self.next_id, self.next_id + count)

    # --- reading x ---------------------------------------------------------------------------------------------------

    @contextmanager
    def unchanged_if_refused(self) -> Iterator[None]:
        """If what is done here is refused, forget what was taken from it about features."""
        new, known = self.model.space is None, self.features.known
        try:
            yield
        except OnebitError:
            self.forget(new, known)
            raise

    def forget(self, new: bool, known: tuple[int, Names | None]) -> None:
        """Forget what a refused row brought: the form of the features where it was the first, names beyond the known ones."""
        if new:
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
        """Rows in the form that `walk` takes, cast once and shared by all runs."""
        self.fix_features(X)
        return self.features.table(X)

    def kept(self, X: Any) -> list[Kept]:
        """Copies of rows, each in the form that a decision keeps."""
        if isinstance(X, list | tuple) and len(X) == 0:
            return []  # which says nothing of features
        features = self.features
        features.settle(X)
        if features.named:
            return features.keep_each(X)
        rows = features.table(X)
        if isinstance(rows, DenseRows):
            kept: list[Kept] = [row.copy() for row in rows.values]
            for one in kept:
                one.flags.writeable = False  # type: ignore[union-attr]
            return kept
        return [
            SparseRow(rows.columns[a:b].copy(), rows.values[a:b].copy(), features.columns)
            for a, b in pairwise(rows.starts)
        ]

    def rows(self, kept: Sequence[Kept], grow: bool = False) -> Rows:
        """Kept values as rows; `grow` takes their names into the vocabulary."""
        rows = self.features.rows(kept, grow)
        if isinstance(rows, SparseRows) and self.features.vocabulary is not None:
            self.model.make_room(0 if grow else len(rows.columns))
        elif self.model.space is None:
            self.model.allocate()
        return rows

    def row(self, kept: Kept, grow: bool = False) -> Rows:
        """One of them."""
        if self.model.space is not None and isinstance(kept, np.ndarray):
            return DenseRows(kept[None])  # the shortest way for what most users have
        return self.rows((kept,), grow)

    def _given_rows(self, X: Any, grow: bool = False) -> Rows:
        """Rows as they are given, for those who keep them elsewhere."""
        if isinstance(X, np.ndarray) and self.model.space is not None and not self.features.named:
            return self.features.table(X)
        return self.rows(self.kept(X), grow)

    # --- deciding and learning in numbers ----------------------------------------------------------------------------

    def decide_one(self, x: Any, identity: int | str) -> Kept:
        """Decide on one x; `model.choice` then has the choice, and what is given back is what a decision keeps of x."""
        model = self.model
        new, known = model.space is None, self.features.known
        try:
            if new:
                self.features.settle(x)
            kept = self.features.keep(x)
            rows = self.row(kept)
            model.one_word[0] = word_of(identity)
            model.run(rows, model.choice, engine.DECIDE | engine.MEASURE, given=x)
        except OnebitError:
            self.forget(new, known)
            raise
        return kept

    def scores(self, x: Any) -> NDArray[np.float64]:
        """The score of every head for x."""
        with self.lock:
            self.decide_one(x, 0)
            return self.model.buffers[engine.SCORES, : self.model.heads].copy()

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

    def decide_rows(self, X: Any, ids: Sequence[int | str]) -> NDArray[np.float64]:
        """Decide on a class for each row of X, in numbers: one line of choices for each, which `learn_rows` takes back.

        Its columns are the numbers of the label and of the greedy class in `classes`, the propensity of the rule, two notes, the propensity, and the
        probability of every class. For those who keep decisions in tables of their own, as the service does.

        >>> import onebit
        >>> runtime = onebit.Banditron(classes=["no", "yes"], exploration=0.1).runtime
        >>> choices = runtime.decide_rows([[1.0, 2.0], [2.0, 1.0]], ["a", "b"])
        >>> choices.shape, choices[:, 6:].sum(axis=1).tolist()
        ((2, 8), [1.0, 1.0])
        """
        with self.lock, self.unchanged_if_refused():
            return self.choices(self._given_rows(X), ids, engine.CHOICE_COLUMNS + len(self.classes))

    def choices(self, rows: Rows, ids: Sequence[int | str], columns: int) -> NDArray[np.float64]:
        """Choices for rows that were read."""
        if rows.height != len(ids):
            raise InputError(f"there are {len(ids)} ids for {rows.height} rows")
        choices = np.empty((rows.height, columns))
        self.model.run(rows, choices, engine.DECIDE | engine.MEASURE, words=words_of(ids))
        return choices

    def learn_rows(
        self, X: Any, ids: Sequence[int | str], choices: NDArray[np.float64], right: Sequence[bool] | NDArray[np.bool_]
    ) -> None:
        """Learn from choices that `decide_rows` made, in this order. If one cannot be learnt, none is.

        >>> import onebit
        >>> learner = onebit.Banditron(classes=["no", "yes"])
        >>> rows, ids = [[1.0, 2.0], [2.0, 1.0]], ["a", "b"]
        >>> learner.runtime.learn_rows(rows, ids, learner.runtime.decide_rows(rows, ids), [True, False])
        >>> learner.learnt
        2
        """
        with self.lock, self.unchanged_if_refused():
            self.learn_batch(self.batch(X, ids, choices, right))

    def batch(
        self, X: Any, ids: Sequence[int | str], choices: NDArray[np.float64], right: Sequence[bool] | NDArray[np.bool_]
    ) -> LearningBatch:
        """What `learn_rows` learns, read once: `learn_batch` takes it, also of copies of this learner."""
        with self.lock:
            if self.needs_labels:
                raise InputError(f"{self.rule.title} learns from labels, not from right and wrong")
            rows = self._given_rows(X, grow=True)
            if not rows.height == len(ids) == len(choices) == len(right):
                raise InputError(
                    f"there are {rows.height} rows, {len(ids)} ids, {len(choices)} choices and {len(right)} answers"
                )
            labels = choices[:, engine.LABEL : engine.GREEDY + 1]
            if not ((labels >= 0) & (labels < len(self.classes))).all():
                raise InputError(f"a choice names a class beyond the {len(self.classes)} that there are")
            if not (choices[:, engine.RULE_PROPENSITY] > 0.0).all():
                raise InputError("a choice has a propensity of its rule that is not above 0")
            if not np.isfinite(choices[:, engine.NOTE : engine.SECOND_NOTE + 1]).all():
                raise InputError("a choice has a note that is not a finite number")
            revealed = np.where(np.asarray(right), choices[:, engine.LABEL], -1).astype(np.int64)
            return LearningBatch(rows, ids, choices, revealed, words_of(ids))

    def learn_batch(self, batch: LearningBatch) -> None:
        """Learn a batch, all of it or, where something in it cannot be learnt, nothing."""
        with self.lock:
            for one in batch.ids:
                self.ledger.refuse_learnt(one, self.ledger.moment)
            if len(batch.ids) == 0:
                return
            model = self.model
            with model.unchanged_if_refused(batch.rows):
                model.run(batch.rows, batch.choices, model.learning, labels=batch.revealed, words=batch.words)
            self.record(batch.ids)

    def record(self, ids: Sequence[int | str]) -> None:
        """Note that these decisions have been learnt. Those that are made here get numbers beyond them."""
        self.ledger.record_all(ids)
        highest = max((one for one in ids if isinstance(one, int)), default=-1)
        if self.next_id <= highest < MOST_NUMBERS - 1:
            self.next_id = highest + 1

    def disable_ledger(self) -> None:
        """Keep no account of what was learnt: the caller sees to it that nothing is learnt twice, however late it comes."""
        with self.lock:
            self.ledger = Trusting(self.ledger.moment)

    def teach(self, X: Any, y: Iterable[ClassName]) -> None:
        """Learn from labelled rows, all of them or none."""
        with self.lock, self.unchanged_if_refused():
            labels = self.names.indices(y)
            refuse_what_is_no_table(X)
            count = X.shape[0] if hasattr(X, "shape") else len(X)
            if count != len(labels):
                raise InputError(f"there are {len(labels)} labels for {count} rows")
            if count == 0:
                return
            self.features.settle(X)
            self.model.teach(self.features.table(X), labels, self.taught)
            self.taught += count

    # --- whole streams -----------------------------------------------------------------------------------------------

    def walk(
        self, rows: Rows, schedule: Schedule, kept: NDArray[np.float64], tally: engine.Tally, start: int, stop: int
    ) -> None:
        """Decide, hear and learn from step `start` to `stop` of a stream, counting mistakes.

        `kept` holds the choice of every round where feedback comes late, and has no rows otherwise.
        """
        with self.lock:
            self.next_ids(schedule.rounds)
            self.model.walk(rows, schedule, kept, tally, self.next_id, (start, stop))

    def finish_walk(self, schedule: Schedule) -> None:
        """Note which rounds of the stream, or of the piece of it that was walked, have been learnt."""
        with self.lock:
            if len(schedule.events):
                ids = schedule.learnt + (self.next_id - schedule.part.first)
                self.ledger.record_some(ids.tolist(), more=not schedule.part.last)
            else:
                self.ledger.record_run(self.next_id, schedule.rounds)
            self.next_id += schedule.rounds
