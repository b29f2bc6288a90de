"""What a learner runs on: how it reads x, what it has learnt, which ids it has learnt, and what its classes are called.

`Learner` is what a user holds. The service, experiments and whoever else keeps rows, choices and ids in tables of their own use
its runtime, in numbers: rows in, one choice for each out, and back again with what was right.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.batches import LearningBatch, checked_among, checked_batch, learn
from onebit.classes import Classes
from onebit.contract.candidates import Labels
from onebit.contract.draws import key_of, word_of, words_of
from onebit.contract.parameters import Real, checked_flag
from onebit.contract.rule import Rule
from onebit.decision import LoopForm
from onebit.engine import stream as engine
from onebit.engine.schedule import NOTHING, Schedule
from onebit.errors import InputError, OnebitError, brief
from onebit.features import Features, Kept, refuse_what_is_no_table
from onebit.frames import Names
from onebit.ledger import Ledger, Trusting
from onebit.model import Model
from onebit.options import Options
from onebit.row_reader import RowReader
from onebit.rows import Rows
from onebit.spaces.choose import KernelChoice, SpaceChoice, choose
from onebit.spaces.support import Support
from onebit.stepping import DECIDING
from onebit.validation import MOST_NUMBERS, ClassName, checked_seed

FLOOR = Real("[0, 1]", "the probability of playing any label")


class Runtime(RowReader):
    """Features, model, ledger and the names of the classes."""

    # Slots, so that what is misspelt is an error.
    __slots__ = (
        "bias",
        "form",
        "kernel",
        "ledger",
        "lock",
        "names",
        "next_id",
        "parameters",
        "retired",
        "rewarded",
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
        self.space_choice: SpaceChoice = choose(rule, self.bias, self.seed, options.kernel, options.max_support)
        text = checked_flag("text", options.text)
        self.features = Features(options.features, options.space, options.dtype, text, options.hash_bits)
        self.model = Model(
            rule, len(self.classes), self.parameters, self.features, self.space_choice, key_of(self.seed)
        )
        self.model.exploration_floor = self._checked_floor(options.exploration_floor)
        self.identity = uuid.uuid4().hex
        self.ledger = Ledger()
        self.retired: frozenset[int] = frozenset()  # classes that are never played again
        self.rewarded = False  # whether a reward between right and wrong was ever learnt
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
    def identity(self) -> str:
        """Which learner this is: it learns its own decisions."""
        return self.form.learner

    @identity.setter
    def identity(self, identity: str) -> None:
        self.form = LoopForm(self.names.names, self.features.dtype, identity)

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
            self.form = LoopForm(classes.names, self.features.dtype, self.identity)

    def remove_class(self, name: ClassName) -> None:
        """Play a class never again; what is known of it stays."""
        with self.lock:
            number = self.names.index(name)
            self._refuse_candidates()
            if number not in self.retired and len(self.classes) - len(self.retired) <= 2:
                raise InputError(f"{brief(name)} cannot be removed: two classes at least must be left")
            self.retired |= {number}

    def _refuse_candidates(self) -> None:
        if not self.rule.takes_candidates:
            raise InputError(f"{self.rule.title} does not say how it plays among some of its classes (Rule.narrowing)")

    def candidates(self, among: Iterable[ClassName] | None) -> list[int] | None:
        """The numbers of the classes that can be played, in rising order; None where all can be."""
        if among is not None:
            self._refuse_candidates()
        return self.names.candidates(among, self.retired)

    def next_ids(self, count: int) -> range:
        """The next free numbers; to go on is refused where they would be beyond what numbers may be."""
        if self.next_id + count > MOST_NUMBERS:
            raise InputError(
                f"decisions are numbered from {self.next_id} on, and there are no {count} numbers left: give ids"
            )
        return range(self.next_id, self.next_id + count)

    # --- deciding and learning in numbers ----------------------------------------------------------------------------

    def decide_one(
        self, x: Any, identity: int | str, among: Labels = NOTHING, sure: float = math.nan, risk: float = math.nan
    ) -> tuple[Kept, Rows]:
        """Decide on one x; `model.choice` then has the choice, and what is given back is what a decision keeps of x, and its row."""
        model, word = self.model, identity if type(identity) is int else word_of(identity)
        new, known = model.space is None, self.features.known
        try:
            kept, rows = self.array_row(x) or self.any_row(x)
            model.step(rows, model.choice, DECIDING, word, among=among, sure=sure, risk=risk, given=x)
        except OnebitError:
            self.forget(new, known)
            raise
        return kept, rows

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
            return self.choices(self.given_rows(X), ids, columns, self._checked_among(among, len(ids)), sure, risk)

    def choices(
        self,
        rows: Rows,
        ids: Sequence[int | str],
        columns: int,
        among: Labels = NOTHING,
        sure: float = math.nan,
        risk: float = math.nan,
    ) -> NDArray[np.float64]:
        """Choices for rows that were read."""
        if rows.height != len(ids):
            raise InputError(f"there are {len(ids)} ids for {rows.height} rows")
        choices = np.empty((rows.height, columns))
        self.model.run(rows, choices, DECIDING, words=words_of(ids), among=among, sure=sure, risk=risk)
        return choices

    def _checked_among(self, among: Labels | None, rows: int) -> Labels:
        """Lists of candidates, one a row."""
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
        """What `learn_rows` learns, read once: `learn_batch` takes it, also of copies of this learner.

        `among` are the candidates that the choices were made from; `rewards` are numbers from 0 to 1 in place of `right`; `truths` are the numbers of the
        classes that were right, -1 where that is not known.
        """
        with self.lock:
            if self.needs_labels:
                raise InputError(f"{self.rule.title} learns from labels, not from right and wrong")
            sets = self._checked_among(among, len(ids))
            rows = self.given_rows(X, grow=True)
            return checked_batch(rows, ids, choices, right, sets, rewards, truths, len(self.classes))

    def learn_batch(self, batch: LearningBatch) -> None:
        """Learn a batch, all of it or, where something in it cannot be learnt, nothing."""
        with self.lock:
            if not self.ledger.knows_none(batch.ids):
                for one in batch.ids:
                    self.ledger.refuse_learnt(one, self.ledger.moment)
            if len(batch.ids) == 0:
                return
            with self.model.unchanged_if_refused(batch.rows, batch.as_decided):
                learn(self.model, batch, self.corrects)
            self.note_rewards(batch.rewards)
            self.record(batch.ids)

    @property
    def corrects(self) -> bool:
        """Whether a label that somebody gives is learnt by the rule's step for known labels; else one bit of it is."""
        return self.rule.teach is not None and not self.needs_labels

    def note_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Remember whether answers are more than right and wrong: then their sum counts nothing."""
        if len(rewards) and not self.rewarded:
            self.rewarded = bool(((rewards > 0.0) & (rewards < 1.0)).any())

    def record(self, ids: Sequence[int | str]) -> None:
        """Note that these decisions have been learnt. Those that are made here get numbers beyond them."""
        self.ledger.record_all(ids)
        whole = type(ids) is range or set(map(type, ids)) == {int}
        numbers: Any = ids if whole else [one for one in ids if isinstance(one, int)]
        self._number_after(max(numbers, default=-1))

    def record_one(self, identity: int | str) -> None:
        """The same of one."""
        self.ledger.record(identity)
        if isinstance(identity, int) and identity >= self.next_id:
            self._number_after(identity)

    def _number_after(self, highest: int) -> None:
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
        self,
        rows: Rows,
        schedule: Schedule,
        kept: NDArray[np.float64],
        tally: engine.Tally,
        start: int,
        stop: int,
        calibrate: bool = True,
    ) -> None:
        """Decide, hear and learn from step `start` to `stop` of a stream, counting mistakes.

        `kept` holds the choice of every round where feedback comes late, and has no rows otherwise. Who does not ask how sure the learner is
        saves time (`calibrate`).
        """
        with self.lock:
            if len(schedule.among):
                self._refuse_candidates()
            self.next_ids(schedule.rounds)
            self.note_rewards(schedule.rewards)
            self.model.walk(rows, schedule, kept, tally, self.next_id, (start, stop), calibrate)

    def finish_walk(self, schedule: Schedule) -> None:
        """Note which rounds of the stream, or of the piece of it that was walked, have been learnt."""
        with self.lock:
            if len(schedule.events):
                ids = schedule.learnt + (self.next_id - schedule.part.first)
                self.ledger.record_some(ids.tolist(), more=not schedule.part.last)
            else:
                self.ledger.record_run(self.next_id, schedule.rounds)
            self.next_id += schedule.rounds
