"""What a user holds: a rule, the weights, the names of the classes, and a seed.

    learner = onebit.ConservativeOVA(classes=["sport", "politics", "tech"])
    decision = learner.decide(x)                  # decision.label, decision.propensity
    learner.learn(decision, right=True)           # now, later, out of order, or never

`decide` changes nothing but the next free number. All chance is a function of the seed and the decision's id: the same id, the
same x and the same weights give the same decision, in any process. Learners may be used from several threads.
"""

from __future__ import annotations

import inspect
import math
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.description import Description
from onebit.contract.draws import key_of, word_of, words_of
from onebit.contract.parameters import checked_flag, refuse_unknown
from onebit.contract.rule import LEARNT, RIGHT, Rule
from onebit.decision import Decision
from onebit.engine import stream as engine
from onebit.engine.compile import loop_for
from onebit.engine.schedule import Schedule
from onebit.errors import OnebitError
from onebit.features import Features, Kept, Rows, refuse_what_is_no_table
from onebit.ledger import Ledger, Trusting
from onebit.machine import USUAL, Machine
from onebit.names import MOST_NUMBERS, ClassName, checked_classes, checked_id, checked_seed, listed
from onebit.rules import DEFAULT, registry, rule_named
from onebit.spaces.support import Support, support_of


class Lesson(NamedTuple):
    """Choices to learn from, with their rows and what was told of them."""

    rows: Rows
    ids: Sequence[int | str]
    choices: NDArray[np.float64]
    told: NDArray[np.int64]
    words: NDArray[np.uint64]


class Learner(Machine):
    """Learns to classify from right and wrong.

    `onebit.Banditron(classes=...)` and its sisters are this class with the rule filled in; a `Rule` of your own goes in here. Without
    a rule it is `auto`, which needs no tuning.
    """

    __slots__ = ("_index", "_ledger", "_taught", "identity", "kernel", "parameters", "seed")

    common: ClassVar[dict[str, str]] = {
        "classes": "the names of the classes (strings or whole numbers), or their number",
        "features": "the number of features; none takes it from the first x",
        "space": "dense or sparse; none takes it from the first x",
        "bias": "adds a constant feature",
        "dtype": "float32 or float64, the precision of the weights",
        "text": "x may be a string, read as the set of its words, scaled to length one",
        "hash_bits": "named features are hashed into 2^bits columns; none keeps a vocabulary that grows",
        "kernel": "linear, polynomial:DEGREE, rational or rbf:GAMMA; none learns weights of features",
        "max_support": "with a kernel, the most rows that are stored: usual is 2000, or none (all) for rules that store few",
        "when_full": "with a kernel, what happens to a new row beyond that: merge, project, oldest or stop",
        "exploration_floor": "with this probability any label is played, so that no propensity is below floor / classes",
        "seed": "decides all chance, together with the ids of the decisions",
    }

    def __init__(
        self,
        rule: Rule | str = DEFAULT,
        classes: int | Iterable[ClassName] | None = None,
        *,
        features: int | None = None,
        space: str | None = None,
        bias: bool = False,
        dtype: str = "float32",
        text: bool = False,
        hash_bits: int | None = None,
        kernel: str | None = None,
        max_support: int | str | None = USUAL,
        when_full: str = "merge",
        exploration_floor: float = 0.0,
        seed: int = 0,
        **parameters: Any,
    ) -> None:
        self.rule = rule_named(rule) if isinstance(rule, str) else rule
        if not isinstance(self.rule, Rule):
            raise OnebitError(f"rule is {rule!r}, but must be a Rule, or the name of one")
        refuse_unknown(self.rule.title, parameters, {**self.rule.parameters, **self.common})
        if classes is None:
            raise OnebitError("classes is missing: give the names of the classes, or their number")
        self.classes: tuple[ClassName, ...] = checked_classes(classes)
        self.parameters = self.rule.plain(parameters)
        self.seed = checked_seed(seed)
        self.bias = checked_flag("bias", bias)
        if self.bias and self.rule.composite:
            raise OnebitError(f"{self.rule.title} has a constant feature in every view, and takes no bias")
        self.identity = uuid.uuid4().hex
        self._feature_options = (features, space, dtype, checked_flag("text", text), hash_bits)
        self.kernel = kernel
        self._support = self._checked_support(kernel, max_support, when_full)
        self._features = Features(*self._feature_options)
        self._params, self._memory = self.rule.settle(len(self.classes), self.parameters)
        self._index = {name: index for index, name in enumerate(self.classes)}
        self._needs_labels = self.rule.has_full_information(self._params)
        self.exploration_floor = self._checked_floor(exploration_floor)
        self._key = key_of(self.seed)
        self._ledger = Ledger()
        self._next = 0  # the next free number
        self._taught = 0
        self._lock = threading.RLock()
        self._planned = 0
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
            decision = self._decide(x, checked_id(self._next if id is None else id))
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
                self._numbers_left(len(kept))
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
            choices = self._choices(self._rows(kept), ids, engine.CHOICE_COLUMNS)
            self._next += consumed
            return [self._decision(ids[row], choices[row], kept[row]) for row in range(len(kept))]

    def decide_rows(self, X: Any, ids: Sequence[int | str]) -> NDArray[np.float64]:
        """Decide on a class for each row of X, in numbers: one row of choices for each, which `learn_rows` takes back.

        Its columns are the places of the label and of the greedy class in `classes`, the weight, two notes, the propensity, and the
        probability of every class. For those who keep decisions in tables of their own, as the service does.

        >>> import onebit
        >>> learner = onebit.Banditron(classes=["no", "yes"], exploration=0.1)
        >>> choices = learner.decide_rows([[1.0, 2.0], [2.0, 1.0]], ["a", "b"])
        >>> choices.shape, choices[:, 6:].sum(axis=1).tolist()
        ((2, 8), [1.0, 1.0])
        """
        with self._lock, self._unchanged_if_refused():
            return self._choices(self._read_rows(X), ids, engine.CHOICE_COLUMNS + len(self.classes))

    def _choices(self, rows: Rows, ids: Sequence[int | str], columns: int) -> NDArray[np.float64]:
        if rows.height != len(ids):
            raise OnebitError(f"there are {len(ids)} ids for {rows.height} rows")
        choices = np.empty((rows.height, columns))
        self._walk(rows, choices, engine.DECIDE | engine.MEASURE, words=words_of(ids))
        return choices

    def decided_elsewhere(
        self,
        x: Any,
        label: ClassName,
        propensity: float,
        id: int | str | None = None,  # noqa: A002
    ) -> Decision:
        """The decision of somebody else, who played this label with this probability, for `learn` to take.

        That is how a learner is trained from the log of another one, or beside the system that it will replace.

        >>> import onebit
        >>> learner = onebit.BPA(classes=["left", "right"])
        >>> learner.learn(learner.decided_elsewhere([0.5, -1.0], "right", propensity=0.9), right=True)
        >>> learner.best([0.5, -1.0])
        'right'
        """
        self._class_index(label)
        if isinstance(propensity, bool) or not isinstance(propensity, int | float) or not 0.0 < propensity <= 1.0:
            raise OnebitError(f"propensity is {propensity!r}, but must be a number in (0, 1]")
        decision = self.decide(x, id)
        if self.rule.notes_the_label and label != decision.label:
            raise OnebitError(
                f"{self.rule.title} learns only from labels that it would have played itself: it plays {decision.label!r} here, "
                f"and {label!r} was played"
            )
        return decision._replace(label=label, propensity=propensity, weight=float(propensity))

    def probabilities(self, x: Any) -> dict[ClassName, float]:
        """The probability with which each class would be played for x, over all ids. Changes nothing.

        >>> import onebit
        >>> onebit.Banditron(classes=["a", "b"], exploration=0.1).probabilities([1.0])
        {'a': 0.5, 'b': 0.5}
        """
        with self._lock:
            self._decide(x, 0)
            chances = self._buffers[engine.PROBABILITIES, : len(self.classes)]
            return dict(zip(self.classes, chances.tolist(), strict=True))

    def best(self, x: Any, id: int | str | None = None) -> ClassName:  # noqa: A002
        """The class that the learner thinks best for x, without exploring; ties as `decide` with this id breaks them."""
        with self._lock:
            return self._decide(x, checked_id(self._next if id is None else id)).greedy

    def scores(self, x: Any) -> NDArray[np.float64]:
        """The score of every head for x: one for each class, node or pair, as the rule has it; of `auto` those of its first member."""
        with self._lock:
            self._decide(x, 0)
            return self._buffers[engine.SCORES, : self.rule.heads(self._params)].copy()

    def variances(self, x: Any) -> NDArray[np.float64]:
        """For second-order learners: the variance x'Px of the score of every head for x.

        >>> import onebit
        >>> onebit.LinUCB(classes=2, ridge=0.5).variances([1.0, 1.0])
        array([4., 4.])
        """
        if self.rule.second_order is None or self.rule.composite:
            what = "has several members" if self.rule.composite else "keeps no covariance"
            raise OnebitError(f"{self.rule.title} {what}, so its scores have no variance")
        with self._lock:
            self._decide(x, 0)
            heads = self.rule.heads(self._params)
            return self._buffers[engine.SCORES, heads : 2 * heads].copy()

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
            ids = [decision.id for decision in decisions]
            self.study(Lesson(self._rows(kept, grow=True), ids, choices, told, words_of(ids)))

    def learn_rows(
        self, X: Any, ids: Sequence[int | str], choices: NDArray[np.float64], right: Sequence[bool] | NDArray[np.bool_]
    ) -> None:
        """Learn from choices that `decide_rows` made, in this order. If one cannot be learnt, none is.

        >>> import onebit
        >>> learner = onebit.Banditron(classes=["no", "yes"])
        >>> rows, ids = [[1.0, 2.0], [2.0, 1.0]], ["a", "b"]
        >>> learner.learn_rows(rows, ids, learner.decide_rows(rows, ids), [True, False])
        >>> learner.learnt
        2
        """
        with self._lock, self._unchanged_if_refused():
            self.study(self.lesson(X, ids, choices, right))

    def lesson(
        self, X: Any, ids: Sequence[int | str], choices: NDArray[np.float64], right: Sequence[bool] | NDArray[np.bool_]
    ) -> Lesson:
        """What `learn_rows` learns, read once: `study` takes it, also of copies of this learner."""
        with self._lock:
            if self._needs_labels:
                raise OnebitError(f"{self.rule.title} learns from labels, not from right and wrong")
            rows = self._read_rows(X, grow=True)
            if not rows.height == len(ids) == len(choices) == len(right):
                raise OnebitError(
                    f"there are {rows.height} rows, {len(ids)} ids, {len(choices)} choices and {len(right)} answers"
                )
            labels = choices[:, engine.LABEL : engine.GREEDY + 1]
            if not ((labels >= 0) & (labels < len(self.classes))).all():
                raise OnebitError(f"a choice names a class beyond the {len(self.classes)} that there are")
            if not (choices[:, engine.WEIGHT] > 0.0).all():
                raise OnebitError("a choice has a weight that is not above 0, as a probability is")
            if not np.isfinite(choices[:, engine.NOTE : engine.SECOND_NOTE + 1]).all():
                raise OnebitError("a choice has a note that is not a finite number")
            told = np.where(np.asarray(right), choices[:, engine.LABEL], -1).astype(np.int64)
            return Lesson(rows, ids, choices, told, words_of(ids))

    def study(self, lesson: Lesson) -> None:
        """Learn a lesson, all of it or, where something in it cannot be learnt, nothing."""
        with self._lock:
            for one in lesson.ids:
                self._ledger.refuse_learnt(one, self._ledger.moment)
            if len(lesson.ids) == 0:
                return
            with self._weights_unchanged_if_refused(lesson.rows):
                self._walk(lesson.rows, lesson.choices, self._learning, labels=lesson.told, words=lesson.words)
            self._ledger.record_all(lesson.ids)
            numbers = [one for one in lesson.ids if isinstance(one, int)]
            if numbers and self._next <= max(numbers) < MOST_NUMBERS - 1:
                self._next = max(numbers) + 1

    def trust(self) -> None:
        """Keep no account of what was learnt: the caller sees to it that nothing is learnt twice, however late it comes."""
        with self._lock:
            self._ledger = Trusting(self._ledger.moment)

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
            loop = loop_for(self.rule, self._space, engine.lessons)
            with self._weights_unchanged_if_refused(rows):
                done = 0
                while True:
                    done = loop(
                        self._params,
                        self._space,
                        rows,
                        labels,
                        self._memory,
                        self._buffers,
                        self._key,
                        np.uint64(self._taught),
                        done,
                        self._limit,
                    )
                    if done == len(labels):
                        break
                    if not self._made_room(rows, done):
                        raise OnebitError(f"row {done}: {self._explain(rows, done)}")
            self._taught += done

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
            params, memory = self.rule.settle(len(classes), self.parameters)
            if len(memory) != len(self._memory):
                raise OnebitError(f"{self.rule.title} keeps something for each class, so that none can be added")
            if self.rule.composite and self._space is not None:
                params = params._replace(**self._space.kind)
            elif (
                self.rule.second_order is not None and not self.rule.composite
            ):  # a matrix that was full when it was chosen remains so
                params = params._replace(matrix=self._params.matrix)
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
        """A copy of the weights: one row for each head, one column for each feature, the bias last.

        Those of `auto` are in the views of its members, side by side.
        """
        with self._lock:
            if self._space is None:
                raise OnebitError("this learner has seen no x yet, so it has no weights")
            matrix: NDArray[Any] = self._space.matrix()
            views = self.rule.composite and self._features.space == "dense"
            known = matrix.shape[1] if views else self._features.columns
            return np.concatenate([matrix[:, :known], matrix[:, matrix.shape[1] - self.bias :]], axis=1)

    @property
    def settings(self) -> dict[str, Any]:
        """Every parameter of the rule as it is in force: given, by default, or worked out by the rule."""
        in_force = {name: note.show(getattr(self._params, name)) for name, note in self.rule.parameters.items()}
        given = {name: value for name, value in self.parameters.items() if value is not None}
        chosen = {"matrix": in_force["matrix"]} if "matrix" in in_force else {}
        return {**in_force, **given, **chosen}

    @property
    def reads_names(self) -> bool:
        """Whether features have names: dicts or texts, not columns."""
        return bool(self._features.named)

    @property
    def support(self) -> Support:
        """With a kernel: the rows that are stored, and their coefficients."""
        with self._lock:
            if self.kernel is None:
                raise OnebitError("this learner has no kernel, so it stores no rows: learner.weights has its weights")
            if self._space is None:
                raise OnebitError("this learner has seen no x yet, so it has stored nothing")
            return support_of(self._space)

    @property
    def feature_options(self) -> tuple[Any, ...]:
        """What was said of the features; learners with the same read a table in the same way."""
        return self._feature_options

    @property
    def needs_labels(self) -> bool:
        """Whether this learner must be told the class (full information)."""
        return self._needs_labels

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"{self.rule.title}(classes={list(self.classes)!r}{given}, seed={self.seed}), {self.learnt} feedbacks learnt"

    def describe(self) -> Description:
        """What the learner says of itself: its error so far, and for `auto` its members and what exploring brought.

        >>> import onebit
        >>> learner = onebit.Perceptron(classes=2)
        >>> learner.learn(learner.decide([1.0]), label=0)
        >>> learner.describe().learnt
        1
        """
        with self._lock:
            right = self._memory[RIGHT]
            composed: Mapping[str, Any] = {}
            if self.rule.describe is not None and self._space is not None:
                composed = self.rule.describe(self._params, self._memory, self._space.member_names)
            return Description(
                learner=self.rule.title,
                learnt=int(self._memory[LEARNT]),
                right=None if np.isnan(right) else int(right),
                settings=self.settings,
                repairs=int(getattr(self._space, "repairs", (0,))[0]),
                **composed,
            )

    def plot_boundary(
        self,
        X: Any = None,
        y: Sequence[ClassName] | None = None,
        *,
        features: tuple[int, int] = (0, 1),
        at: Sequence[float] | None = None,
        label: ClassName | None = None,
    ) -> Any:
        """The class that the learner thinks best at each point of the plane of two features, as a matplotlib figure.

        The rows X span the rectangle, and are drawn where they have labels y; the other features are `at`, by itself their mean.
        With a `label` the boundary of that class is drawn in black.
        """
        from onebit.regions import regions_of
        from onebit.report.figures import figure

        return figure(regions_of(self, X, y, features=features, at=at, label=label))

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

    def finish_walk(self, schedule: Schedule) -> None:
        """Note which of the stream's rounds have been learnt."""
        with self._lock:
            if len(schedule.events):
                self._ledger.record_some(self._next + round_ for round_ in schedule.learnt.tolist())
            else:
                self._ledger.record_run(self._next, len(schedule.labels))
            self._next += len(schedule.labels)

    # --- inside ----------------------------------------------------------------------------------------------------

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
        try:
            choice[engine.WEIGHT] = decision.weight
            choice[engine.NOTE], choice[engine.SECOND_NOTE] = decision.notes
        except (TypeError, ValueError):
            raise OnebitError(
                f"decision {decision.id!r} has the weight {decision.weight!r} and the notes {decision.notes!r}, but must have "
                "a number and two numbers"
            ) from None
        if not (math.isfinite(choice[engine.NOTE]) and math.isfinite(choice[engine.SECOND_NOTE])):
            raise OnebitError(f"decision {decision.id!r} has the notes {decision.notes!r}, but they must be finite")
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
    made = type(
        rule.title,
        (Learner,),
        {"__init__": initialise, "__doc__": documentation, "__module__": "onebit", "__slots__": (), "_rule": rule},
    )
    common = list(inspect.signature(Learner.__init__).parameters.values())[2:-1]
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=rule.defaults[name]) for name in rule.parameters
    ]
    made.__signature__ = inspect.Signature([*common, *extra])  # type: ignore[attr-defined]
    return made


def learner_classes() -> dict[str, Callable[..., Learner]]:
    """Every learner class that onebit comes with, by its Python name."""
    return {rule.title: learner_class(rule) for rule in registry().values()}
