"""What a user holds: a rule, the weights, the names of the classes, and a seed.

    learner = onebit.ConservativeOVA(classes=["sport", "politics", "tech"])
    decision = learner.decide(x)                  # decision.label, decision.propensity
    learner.learn(decision, right=True)           # now, later, out of order, or never

`decide` changes nothing but the next free number. All chance is a function of the seed and the decision's id: the same id, the
same x and the same weights give the same decision, in any process. Learners may be used from several threads.
"""

from __future__ import annotations

import inspect
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onebit.contract.draws import key_of, word_of
from onebit.contract.parameters import checked_flag, refuse_unknown
from onebit.contract.rule import Rule
from onebit.decision import Decision
from onebit.engine import stream as engine
from onebit.engine.compile import loop_for
from onebit.errors import OnebitError
from onebit.features import Features, Kept, Rows, SparseRow, refuse_what_is_no_table, squared_lengths
from onebit.ledger import Ledger
from onebit.names import MOST_NUMBERS, ClassName, checked_classes, checked_id, checked_seed, listed
from onebit.rules import registry, rule_named
from onebit.spaces.dense import Dense, DenseRows
from onebit.spaces.sparse import Sparse, SparseRows

_NO_ORDER = np.zeros(0, dtype=np.int64)
_NO_LABELS = np.zeros(1, dtype=np.int64)
_NO_IDS = np.zeros(0, dtype=np.uint64)
_NO_CHOICES = np.zeros((0, engine.CHOICE_COLUMNS))
_ZERO = np.uint64(0)


def quiet_tally() -> engine.Tally:
    """Counts that nobody looks at."""
    return engine.Tally(np.zeros(3, dtype=np.int64), _NO_ORDER, np.zeros((2, 0), dtype=np.int64))


class Learner:
    """Learns to classify from right and wrong.

    `onebit.Banditron(classes=...)` and its sisters are this class with the rule filled in; a `Rule` of your own goes in here.
    """

    rule: Rule
    common: ClassVar[dict[str, str]] = {
        "classes": "the names of the classes (strings or whole numbers), or their number",
        "features": "the number of features; none takes it from the first x",
        "space": "dense or sparse; none takes it from the first x",
        "bias": "adds a constant feature",
        "dtype": "float32 or float64, the precision of the weights",
        "text": "x may be a string, read as the set of its words, scaled to length one",
        "hash_bits": "named features are hashed into 2^bits columns; none keeps a vocabulary that grows",
        "seed": "decides all chance, together with the ids of the decisions",
    }

    def __init__(
        self,
        rule: Rule | str,
        classes: int | Iterable[ClassName],
        *,
        features: int | None = None,
        space: str | None = None,
        bias: bool = False,
        dtype: str = "float32",
        text: bool = False,
        hash_bits: int | None = None,
        seed: int = 0,
        **parameters: Any,
    ) -> None:
        self.rule = rule_named(rule) if isinstance(rule, str) else rule
        if not isinstance(self.rule, Rule):
            raise OnebitError(f"rule is {rule!r}, but must be a Rule, or the name of one")
        refuse_unknown(self.rule.title, parameters, {**self.rule.parameters, **self.common})
        self.classes: tuple[ClassName, ...] = checked_classes(classes)
        self.parameters = self.rule.plain(parameters)
        self.seed = checked_seed(seed)
        self.bias = checked_flag("bias", bias)
        self.identity = uuid.uuid4().hex
        self._feature_options = (features, space, dtype, checked_flag("text", text), hash_bits)
        self._features = Features(*self._feature_options)
        self._params, self._memory = self.rule.settle(len(self.classes), self.parameters)
        self._index = {name: index for index, name in enumerate(self.classes)}
        self._needs_labels = self.rule.is_told(self._params)
        self._key = key_of(self.seed)
        self._ledger = Ledger()
        self._next = 0  # the next free number
        self._taught = 0
        self._lock = threading.RLock()
        self._space: Any = None
        if self._features.size is not None and self._features.space is not None:
            self._allocate()

    # --- deciding --------------------------------------------------------------------------------------------------

    def decide(self, x: Any, id: int | str | None = None) -> Decision:  # noqa: A002 - the word that users use
        """Decide on a class for x. Without an id the next free number is taken, which is all that changes.

        >>> import onebit
        >>> learner = onebit.BPA(classes=["left", "right"])
        >>> learner.decide([0.5, -1.0]).id, learner.decide([0.5, -1.0]).id
        (0, 1)
        """
        with self._lock:
            decision = self._decide(x, self._next if id is None else checked_id(id))
            if id is None:
                self._next += 1
            return decision

    def decide_many(self, X: Any, ids: Sequence[int | str] | None = None) -> list[Decision]:
        """Decide on a class for each row of X, all with the weights of this moment."""
        refuse_what_is_no_table(X)
        if isinstance(X, list | tuple) and len(X) == 0:
            return []
        with self._lock, self._unchanged_if_refused():
            kept = self._read_many(X)
            if ids is None:
                ids = range(self._next, self._next + len(kept))
                consumed = len(kept)
            else:
                if isinstance(ids, str) or not isinstance(ids, Iterable):
                    raise OnebitError(f"ids is {ids!r}, but must be a list with an id for each row")
                ids = [checked_id(one) for one in ids]
                consumed = 0
                if len(ids) != len(kept):
                    raise OnebitError(f"there are {len(ids)} ids for {len(kept)} rows")
            if not kept:
                return []
            rows = self._rows(kept)
            choices = np.empty((len(kept), engine.CHOICE_COLUMNS))
            words = np.array([word_of(one) for one in ids], dtype=np.uint64)
            self._walk(rows, choices, engine.DECIDE | engine.MEASURE, words=words)
            self._next += consumed
            return [self._decision(ids[row], choices[row], kept[row]) for row in range(len(kept))]

    def probabilities(self, x: Any) -> dict[ClassName, float]:
        """The probability with which each class would be played for x, over all ids. Changes nothing.

        >>> import onebit
        >>> onebit.Banditron(classes=["a", "b"], exploration=0.1).probabilities([1.0])
        {'a': 0.5, 'b': 0.5}
        """
        with self._lock:
            self._decide(x, 0)
            chances = self._buffers[engine.CHANCES, : len(self.classes)]
            return dict(zip(self.classes, chances.tolist(), strict=True))

    def best(self, x: Any, id: int | str | None = None) -> ClassName:  # noqa: A002
        """The class that the learner thinks best for x, without exploring; ties as `decide` with this id breaks them."""
        with self._lock:
            return self._decide(x, self._next if id is None else checked_id(id)).greedy

    def scores(self, x: Any) -> NDArray[np.float64]:
        """The score of every head for x: one for each class, node or pair, as the rule has it."""
        with self._lock:
            self._decide(x, 0)
            return self._buffers[engine.SCORES, : self.rule.heads(self._params)].copy()

    # --- learning --------------------------------------------------------------------------------------------------

    def learn(self, decision: Decision, right: bool | None = None, *, label: ClassName | None = None) -> None:
        """Learn whether a decision was right. A learner with full information needs the label; others use one bit of it.

        >>> import onebit
        >>> learner = onebit.BPA(classes=["left", "right"])
        >>> learner.learn(learner.decide([0.5, -1.0]), right=False)
        >>> learner.learnt
        1
        """
        with self._lock:
            told = self._told(decision, right, label)
            self._refuse(decision)
            known, memory = self._features.columns, self._memory.copy()
            try:
                rows = self._row(self._kept_of(decision), grow=True)
                self._labels[0] = told
                self._fill_choice(self._choice[0], decision)
                self._walk(rows, self._choice, self._learning, labels=self._labels)
            except OnebitError:
                self._features.forget_after(known)
                self._memory = memory
                raise
            self._note(decision.id)

    def learn_many(
        self,
        decisions: Sequence[Decision],
        right: Sequence[bool] | NDArray[np.bool_] | None = None,
        *,
        labels: Sequence[ClassName] | NDArray[Any] | None = None,
    ) -> None:
        """Learn from many decisions, in this order. If one cannot be learnt, none is."""
        with self._lock, self._unchanged_if_refused():
            answers = right if right is not None else labels
            if answers is None or (right is not None and labels is not None):
                raise OnebitError("give either right or labels, one for each decision")
            if not hasattr(answers, "__len__") or not hasattr(decisions, "__len__"):
                raise OnebitError("decisions and answers must be lists, one answer for each decision")
            if len(answers) != len(decisions):
                raise OnebitError(f"there are {len(answers)} answers for {len(decisions)} decisions")
            if not decisions:
                return
            told = np.empty(len(decisions), dtype=np.int64)
            choices = np.empty((len(decisions), engine.CHOICE_COLUMNS))
            kept = []
            seen: set[int | str] = set()
            for place, (decision, answer) in enumerate(zip(decisions, answers, strict=True)):
                one = answer.item() if isinstance(answer, np.generic) else answer
                told[place] = self._told(decision, one if right is not None else None, one if right is None else None)
                self._refuse(decision)
                if decision.id in seen:
                    raise OnebitError(f"decision {decision.id!r} is there twice")
                seen.add(decision.id)
                kept.append(self._kept_of(decision))
                self._fill_choice(choices[place], decision)
            words = np.array([word_of(decision.id) for decision in decisions], dtype=np.uint64)
            rows = self._rows(kept, grow=True)
            with self._weights_unchanged_if_refused(rows):
                self._walk(rows, choices, self._learning, labels=told, words=words)
            for decision in decisions:
                self._note(decision.id)

    def teach(self, X: Any, y: Iterable[ClassName]) -> None:
        """Learn from labelled rows: the full-information step of the rule's family, or what it would learn by playing.

        >>> import onebit
        >>> learner = onebit.ConservativeOVA(classes=["no", "yes"])
        >>> learner.teach([[1.0, 0.0], [0.0, 1.0]], ["no", "yes"])
        >>> learner.best([0.0, 2.0])
        'yes'
        """
        with self._lock, self._unchanged_if_refused():
            labels = self.label_indices(y)
            refuse_what_is_no_table(X)
            count = X.shape[0] if hasattr(X, "shape") else len(X)
            if count != len(labels):
                raise OnebitError(f"there are {len(labels)} labels for {count} rows")
            if count == 0:
                return
            self._features.settle(X)
            rows = self._features.table(X)
            self._make_room()
            self._refuse_unfitting(rows)
            loop = loop_for(self.rule, self._space, engine.lessons)
            with self._weights_unchanged_if_refused(rows):
                ended = loop(
                    self._params,
                    self._space,
                    rows,
                    labels,
                    self._memory,
                    self._buffers,
                    self._key,
                    np.uint64(self._taught),
                    self._largest_norm + self.bias,
                )
                if ended < len(labels):
                    raise OnebitError(f"row {ended}: {self._features.explain(rows, ended, self._largest_norm)}")
            self._taught += ended

    def add_class(self, name: ClassName) -> None:
        """Add a class at run time. Its weights start at 0, which beats scores that are all negative: it is tried at once.

        >>> import onebit
        >>> learner = onebit.BPA(classes=["left", "right"])
        >>> learner.add_class("up")
        >>> learner.classes
        ('left', 'right', 'up')
        """
        with self._lock:
            classes = checked_classes((*self.classes, name))
            params, _ = self.rule.settle(len(classes), self.parameters)
            self.classes, self._params = classes, params
            self._index = {known: index for index, known in enumerate(classes)}
            if self._space is not None:
                self._space = self._space.grown(self.rule.heads(params), self._space.room[1])
                self._prepare_buffers()

    # --- what there is to see --------------------------------------------------------------------------------------

    @property
    def learnt(self) -> int:
        """How many feedbacks have been learnt."""
        return self._ledger.moment

    @property
    def features(self) -> int | None:
        """The number of features, once it is known."""
        return None if self._features.named is None else self._features.columns

    @property
    def weights(self) -> NDArray[Any]:
        """A copy of the weights: one row for each head, one column for each feature, the bias last."""
        with self._lock:
            if self._space is None:
                raise OnebitError("this learner has seen no x yet, so it has no weights")
            matrix: NDArray[Any] = self._space.matrix()
            known = self._features.columns
            return np.concatenate([matrix[:, :known], matrix[:, matrix.shape[1] - self.bias :]], axis=1)

    @property
    def settings(self) -> dict[str, Any]:
        """Every parameter of the rule as it is in force: given, by default, or worked out by the rule."""
        in_force = {name: note.show(getattr(self._params, name)) for name, note in self.rule.parameters.items()}
        return {**in_force, **{name: value for name, value in self.parameters.items() if value is not None}}

    @property
    def reads_names(self) -> bool:
        """Whether features have names: dicts or texts, not columns."""
        return bool(self._features.named)

    @property
    def needs_labels(self) -> bool:
        """Whether this learner must be told the class (full information)."""
        return self._needs_labels

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"{self.rule.title}(classes={list(self.classes)!r}{given}, seed={self.seed}), {self.learnt} feedbacks learnt"

    # --- keeping ---------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the learner to one file, atomically. `onebit.load` gives it back, and going on is as if never stopped."""
        from onebit.storage import save

        save(self, path)

    def clone(self, seed: int | None = None) -> Learner:
        """An independent copy, as if saved and loaded: it may learn the decisions that this one made."""
        from onebit.storage import pack, unpack

        manifest, arrays = pack(self)
        return unpack(manifest if seed is None else {**manifest, "seed": checked_seed(seed)}, arrays, self.rule)

    def __deepcopy__(self, memo: dict[int, Any]) -> Learner:
        return self.clone()

    def __reduce__(self) -> Any:
        raise OnebitError(
            "a learner is not pickled: save it with learner.save(path), and load it with onebit.load(path)"
        )

    # --- whole streams, for onebit.run -----------------------------------------------------------------------------

    def fix_features(self, X: Any) -> None:
        """Take the number and the form of the features from rows, without reading them."""
        self._features.settle(X)
        if self._space is None:
            self._allocate()

    def table(self, X: Any) -> Rows:
        """Rows in the form that `walk` takes, cast once and shared by all runs."""
        self.fix_features(X)
        return self._features.table(X)

    def walk(
        self,
        rows: Rows,
        labels: NDArray[np.int64],
        order: NDArray[np.int64],
        tally: engine.Tally,
        start: int,
        stop: int,
    ) -> None:
        """Decide, hear and learn from round `start` to `stop` of a stream, counting mistakes."""
        with self._lock:
            self._make_room()
            self._refuse_unfitting(rows)
            ended = self._loop(
                self._params,
                self._space,
                rows,
                order,
                labels,
                self._memory,
                self._buffers,
                _NO_CHOICES,
                tally,
                self._key,
                _NO_IDS,
                np.uint64(self._next),
                start,
                stop,
                len(labels),
                engine.DECIDE | self._learning,
                self._largest_norm + self.bias,
            )
            if ended < stop:
                row = int(order[ended]) if len(order) else ended % len(labels)
                raise OnebitError(f"row {row}: {self._features.explain(rows, row, self._largest_norm)}")

    def finish_walk(self, rounds: int) -> None:
        """Note that the stream's rounds have been learnt."""
        with self._lock:
            self._ledger.record_run(self._next, rounds)
            self._next += rounds

    # --- inside ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        """If what is done here is refused, forget what was taken from it about features."""
        new, known = self._space is None, self._features.columns
        try:
            yield
        except OnebitError:
            self._forget_features(new, known)
            raise

    @contextmanager
    def _weights_unchanged_if_refused(self, rows: Rows) -> Iterator[None]:
        """Refuse rows that cannot be learnt before any is; if one turns out to be too much on the way, undo those before it."""
        self._refuse_unfitting(rows)
        bad = np.flatnonzero(~(squared_lengths(rows) <= self._largest_norm))
        if len(bad):
            raise OnebitError(f"row {bad[0]}: {self._features.explain(rows, int(bad[0]), self._largest_norm)}")
        memory, before = self._memory.copy(), self._space.kept_of(rows)
        try:
            yield
        except OnebitError:
            self._memory[:] = memory
            self._space.restore(before)
            raise

    def _forget_features(self, new: bool, known: int) -> None:
        if new:
            self._features, self._space = Features(*self._feature_options), None
        else:
            self._features.forget_after(known)

    def _read_many(self, X: Any) -> list[Kept]:
        features = self._features
        features.settle(X)
        if features.named:
            return [features.keep(x) for x in X]
        rows = features.table(X)
        if isinstance(rows, DenseRows):
            kept: list[Kept] = [row.copy() for row in rows.values]
            for one in kept:
                one.flags.writeable = False  # type: ignore[union-attr]
            return kept
        cuts = rows.starts
        return [
            SparseRow(rows.columns[a:b].copy(), rows.values[a:b].copy(), features.columns) for a, b in pairwise(cuts)
        ]

    def _row(self, kept: Kept, grow: bool = False) -> Rows:
        if self._space is not None and isinstance(kept, np.ndarray):
            return DenseRows(kept[None])  # the shortest way for what most users have
        return self._rows((kept,), grow)

    def _rows(self, kept: Sequence[Kept], grow: bool = False) -> Rows:
        rows = self._features.rows(kept, grow)
        if isinstance(rows, SparseRows) and self._features.vocabulary is not None:
            self._make_room(0 if grow else len(rows.columns))
        elif self._space is None:
            self._allocate()
        return rows

    def _make_room(self, extra: int = 0) -> None:
        """Weights for every column that a row may name."""
        if self._space is None:
            self._allocate()
        needed = self._features.columns + extra
        if needed > self._space.room[1]:
            self._space = self._space.grown(self._space.room[0], max(needed, 2 * self._space.room[1]))

    def _refuse_unfitting(self, rows: Rows) -> None:
        """The last guard before compiled code, which checks no bounds."""
        room = self._space.room[1]
        if isinstance(rows, DenseRows):
            fits = isinstance(self._space, Dense) and rows.values.shape[1] == room
        else:
            fits = isinstance(self._space, Sparse) and rows.width <= room
        if not fits:
            raise OnebitError(f"the rows were read for another learner: this one has room for {room} features")

    def _allocate(self) -> None:
        if self._features.space is None or self._features.named is None:
            raise OnebitError("this learner does not know its features yet: show it a row first")
        columns = max(1, self._features.columns)
        heads = self.rule.heads(self._params)
        try:
            self._space = self._features.space_type.empty(heads, columns, self.bias, self._features.dtype)
        except MemoryError:
            raise OnebitError(f"there is not enough memory for {heads} x {columns} weights") from None
        self._prepare_buffers()

    def _prepare_buffers(self) -> None:
        """Scratch memory, and what every call of the loop needs."""
        width = max(self.rule.heads(self._params), len(self.classes))
        self._buffers = np.zeros((engine.BUFFER_ROWS, width))
        self._choice = np.zeros((1, engine.CHOICE_COLUMNS))
        self._labels = np.zeros(1, dtype=np.int64)
        self._word = np.zeros(1, dtype=np.uint64)
        self._tally = quiet_tally()
        limit = self.rule.largest_norm
        # A hair of room, since the norm of a row scaled to the limit is rounded.
        longest = float("inf") if limit is None else limit(self._params) * (1.0 + 1e-5)
        self._largest_norm = min(longest, sys.float_info.max)  # of x, without the bias
        self._learning = engine.LEARN | (engine.REVEALED if self.needs_labels else 0)
        self._loop = loop_for(self.rule, self._space)

    def _walk(
        self,
        rows: Rows,
        choices: NDArray[np.float64],
        mode: int,
        labels: NDArray[np.int64] = _NO_LABELS,
        words: NDArray[np.uint64] | None = None,
        given: Any = None,
    ) -> None:
        """Run the loop over a few rows; a row that it refuses is explained."""
        count = len(choices)
        if count > 1:  # one row was fitted when it was read
            self._refuse_unfitting(rows)
        ended = self._loop(
            self._params,
            self._space,
            rows,
            _NO_ORDER,
            labels,
            self._memory,
            self._buffers,
            choices,
            self._tally,
            self._key,
            self._word if words is None else words,
            _ZERO,
            0,
            count,
            count,
            mode,
            self._largest_norm + self.bias,
        )
        if ended < count:
            where = f"row {ended}: " if count > 1 else ""
            raise OnebitError(where + self._features.explain(rows, ended, self._largest_norm, given))

    def _decide(self, x: Any, identity: int | str) -> Decision:
        new = self._space is None
        try:
            if new:
                self._features.settle(x)
            kept = self._features.keep(x)
            rows = self._row(kept)
            self._word[0] = word_of(identity)
            self._walk(rows, self._choice, engine.DECIDE | engine.MEASURE, given=x)
        except OnebitError:
            self._forget_features(new, self._features.columns)
            raise
        return self._decision(identity, self._choice[0], kept)

    def _decision(self, identity: int | str, choice: NDArray[np.float64], kept: Kept) -> Decision:
        label, greedy, weight, note, second_note, propensity = choice.tolist()
        return Decision(
            identity,
            self.classes[int(label)],
            propensity,
            self.classes[int(greedy)],
            weight,
            (note, second_note),
            kept,
            self._ledger.moment,
            self.identity,
        )

    def _told(self, decision: Decision, right: bool | None, label: ClassName | None) -> int:
        """The class index that the loop compares with: the label, or -1 for some other class than the one played."""
        if not isinstance(decision, Decision):
            raise OnebitError(f"learn takes a Decision, and was given a {type(decision).__name__}")
        if (right is None) == (label is None):
            raise OnebitError("give either right=True or False, or the label")
        if label is not None:
            return self._class_index(label)
        if right is not True and right is not False and not isinstance(right, np.bool_):
            raise OnebitError(f"right is {right!r}, but must be True or False (bool(...) makes it so)")
        if right:
            return self._class_index(decision.label)
        if self._needs_labels:
            raise OnebitError(f"{self.rule.title} learns from labels: give label=..., not only that it was wrong")
        return -1

    def _refuse(self, decision: Decision) -> None:
        """Refuse a decision that is not this learner's to learn, now."""
        if decision.learner != self.identity:
            raise OnebitError(f"decision {decision.id!r} was made by another learner")
        self._ledger.refuse_learnt(decision.id, decision.version)

    def _kept_of(self, decision: Decision) -> Kept:
        """The x of a decision, checked again, since it may have come from outside."""
        x = decision.x
        features = self._features
        dense = isinstance(x, np.ndarray) and features.space == "dense"
        if dense and x.dtype == features.dtype and x.shape == (features.size,):  # type: ignore[union-attr]
            return x
        return self._features.keep(x)

    def _fill_choice(self, choice: NDArray[np.float64], decision: Decision) -> None:
        choice[engine.LABEL] = self._class_index(decision.label)
        choice[engine.GREEDY] = self._class_index(decision.greedy)
        choice[engine.WEIGHT] = decision.weight
        choice[engine.NOTE], choice[engine.SECOND_NOTE] = decision.notes
        self._word[0] = word_of(decision.id)

    def _note(self, identity: int | str) -> None:
        self._ledger.record(identity)
        if isinstance(identity, int) and self._next <= identity < MOST_NUMBERS - 1:
            self._next = identity + 1

    def _class_index(self, name: ClassName) -> int:
        try:
            if not isinstance(name, bool):  # True is 1, but it is not the name of class 1
                return self._index[name]
        except (KeyError, TypeError):
            pass
        raise OnebitError(f"there is no class {name!r}; the classes are {listed(self.classes)}")

    def label_indices(self, y: Iterable[ClassName]) -> NDArray[np.int64]:
        """Class names as indices; an unknown one is refused with its row."""
        if isinstance(y, str) or not isinstance(y, Iterable):
            raise OnebitError(f"the labels are {y!r}, but must be a list of class names")
        names = y.tolist() if isinstance(y, np.ndarray) else list(y)
        indices = np.empty(len(names), dtype=np.int64)
        for row, name in enumerate(names):
            try:
                indices[row] = self._class_index(name)
            except OnebitError:
                raise OnebitError(
                    f"row {row} has the label {name!r}, but the classes are {listed(self.classes)}"
                ) from None
        return indices


@cache
def learner_class(rule: Rule) -> Callable[..., Learner]:
    """The learner class of a rule: `onebit.Banditron` is `learner_class(rule_named("banditron"))`."""

    def initialise(self: Learner, classes: int | Iterable[ClassName], **options: Any) -> None:
        Learner.__init__(self, rule, classes, **options)

    initialise.__name__, initialise.__qualname__ = "__init__", f"{rule.title}.__init__"
    own = {
        name: f"{parameter.meaning}; {parameter.range}, {rule.defaults[name]} where not given"
        for name, parameter in rule.parameters.items()
    }
    listed = "\n".join(f"    {name}: {meaning}" for name, meaning in {**Learner.common, **own}.items())
    documentation = f"{rule.documentation}\n\nParameters\n\n{listed}\n"
    made = type(rule.title, (Learner,), {"__init__": initialise, "__doc__": documentation, "__module__": "onebit"})
    common = list(inspect.signature(Learner.__init__).parameters.values())[2:-1]
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=rule.defaults[name]) for name in rule.parameters
    ]
    made.__signature__ = inspect.Signature([*common, *extra])  # type: ignore[attr-defined]
    return made


def learner_classes() -> dict[str, Callable[..., Learner]]:
    """Every learner class that onebit comes with, by its Python name."""
    return {rule.title: learner_class(rule) for rule in registry().values()}
