"""The public `Learner`: a rule, its weights, the class names and a seed.

    learner = onebit.ConservativeOVA(classes=["sport", "politics", "tech"])
    decision = learner.decide(x)                  # decision.label, decision.propensity
    learner.learn(decision, right=True)           # now, later, out of order, or never

`decide` changes nothing but the next free number. All randomness is a function of the seed and the decision's id: the same id, the
same x and the same weights give the same decision, in any process. Learners may be used from several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from onebit.contract.description import Description
from onebit.contract.options import MEANINGS, Options, build_documentation, build_signature
from onebit.contract.parameters import require_known
from onebit.contract.rule import Rule
from onebit.contract.validation import ClassName, IdLike, checked_id, checked_seed
from onebit.engine import stream as engine
from onebit.errors import InputError, brief
from onebit.learner import inspection
from onebit.learner.decide import Among, build_decision, build_logged_decision, choose_best, decide_many, parse_terms
from onebit.learner.decision import Decision
from onebit.learner.feedback import learn_answer, learn_answers
from onebit.learner.inspection import Explanation, explain
from onebit.learner.model_file import decode_file, encode_file, name_file_in_errors, read_file, write_file
from onebit.learner.runtime import Runtime
from onebit.learner.state import dump_state, load_state
from onebit.rules import DEFAULT, registry, rule_named


class Learner:
    """A classifier that learns from feedback that says only right or wrong.

    `onebit.Banditron(classes=...)` and the other learner classes are this class with the rule filled in; pass a `Rule`
    of your own as `rule`. The default is `auto`, which needs no tuning. The further arguments are the options of any
    learner (`onebit.contract.options`) and the parameters of the rule.
    """

    # Slots make `learner.aggressiveness = 3`, which would have no effect, an error.
    __slots__ = ("__weakref__", "runtime")

    _rule: ClassVar[Rule | None] = None

    def __init__(self, rule: Rule | str = DEFAULT, *, classes: int | Iterable[ClassName], **options: Any) -> None:
        parsed_rule = rule_named(rule) if isinstance(rule, str) else rule
        if not isinstance(parsed_rule, Rule):
            raise InputError(f"rule is {brief(rule)}, but must be a Rule or the name of one")
        require_known(parsed_rule.title, options, {**parsed_rule.parameters, **MEANINGS})
        common_options = Options(**{name: options.pop(name) for name in Options._fields if name in options}).checked()
        # The lower-level interface for the service, experiments and other programs with tables of numbers.
        self.runtime = Runtime(parsed_rule, classes, options, common_options)
        self.runtime.allocate_early()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]

    # --- deciding --------------------------------------------------------------------------------------------------

    def decide(
        self,
        x: Any,
        id: IdLike | None = None,  # noqa: A002 - the word that users use
        *,
        among: Among = None,
        complete: bool = False,
        sure: float | None = None,
        risk: float | None = None,
    ) -> Decision:
        """Choose a class for x.

        Side effect: without an `id`, the next free number is used up. Nothing else changes, so an unanswered decision costs nothing.

        `among` restricts the choice to these candidates. If the candidate played turns out wrong, that says nothing about the others, unless `complete`
        says that the right class is one of them. A decision with a confidence below `sure` is marked `unsure`; with `risk` in place of `sure`, that
        threshold is chosen so that at most this share of the other decisions is wrong.

        >>> import onebit
        >>> learner = onebit.BPA(classes=["left", "right", "up"])
        >>> learner.decide([0.5, -1.0]).id, learner.decide([0.5, -1.0], among=["up"]).label
        (0, 'up')
        """
        runtime = self.runtime
        with runtime.lock:
            terms = parse_terms(runtime, among, complete, sure, risk)
            identity = checked_id(runtime.ledger.next_id if id is None else id)
            stored_x, _ = runtime.decide_one(x, identity, terms)
            if id is None:
                runtime.ledger.next_id += 1
            return build_decision(runtime, identity, stored_x, runtime.model.choice[0].tolist(), terms)

    def decide_many(
        self,
        X: Any,
        ids: Sequence[IdLike] | NDArray[Any] | None = None,
        *,
        among: Among | Sequence[Among] = None,
        complete: bool = False,
        sure: float | None = None,
        risk: float | None = None,
    ) -> list[Decision]:
        """Choose a class for each row of X, all with the current weights.

        `among` is one list of candidates, or one list for each row.
        Side effect: without `ids`, as many free numbers are used up as there are rows.
        """
        return decide_many(self.runtime, X, ids, among, complete, sure, risk)

    def from_log(
        self,
        x: Any,
        label: ClassName,
        propensity: float,
        id: IdLike | None = None,  # noqa: A002
        *,
        among: Among = None,
        complete: bool = False,
    ) -> Decision:
        """Return a decision made by another system, for `learn`: the label it played and its probability.

        Use it to train a learner from a log, or alongside the system that it will replace. `among` and `complete` mean the same as in `decide`.
        Side effect: without an `id`, the next free number is used up.

        >>> import onebit
        >>> learner = onebit.BPA(classes=["left", "right"])
        >>> learner.learn(learner.from_log([0.5, -1.0], "right", propensity=0.9), right=True)
        >>> learner.best([0.5, -1.0])
        'right'
        """
        return build_logged_decision(self.runtime, x, label, propensity, id, among, complete)

    def probabilities(self, x: Any, *, among: Among = None) -> dict[ClassName, float]:
        """Return the probability that each class would be played for x, over all ids; 0 outside `among`.

        Nothing changes.

        >>> import onebit
        >>> onebit.Banditron(classes=["a", "b"], exploration=0.1).probabilities([1.0])
        {'a': 0.5, 'b': 0.5}
        """
        runtime = self.runtime
        with runtime.lock:
            runtime.decide_one(x, 0, parse_terms(runtime, among, False))
            chances = runtime.model.choice[0, engine.CHOICE_COLUMNS :]
            return dict(zip(runtime.classes, chances.tolist(), strict=True))

    def best(self, x: Any, id: IdLike | None = None, *, among: Among = None) -> ClassName:  # noqa: A002
        """Return the class that the learner considers best for x, without exploring.

        Ties are broken as `decide` breaks them for this id. Nothing changes.
        """
        runtime = self.runtime
        with runtime.lock:
            terms = parse_terms(runtime, among, False)
            runtime.decide_one(x, checked_id(runtime.ledger.next_id if id is None else id), terms)
            return runtime.classes[int(runtime.model.choice[0, engine.GREEDY])]

    def best_many(self, X: Any, *, among: Among | Sequence[Among] = None) -> list[ClassName]:
        """Return the class considered best for each row of X, as `best` does. Nothing changes."""
        return choose_best(self.runtime, X, among)

    # --- learning --------------------------------------------------------------------------------------------------

    def learn(
        self,
        decision: Decision,
        right: bool | None = None,
        *,
        label: ClassName | None = None,
        reward: float | None = None,
        truth: ClassName | None = None,
    ) -> None:
        """Learn from the outcome of a decision: whether it was `right`, or its `reward` from 0 to 1.

        `truth` is the class that would have been right, if somebody has named it; the learner then takes one
        full-information step in place of the bandit step. A learner with full information needs `label`, the right class;
        other learners use only whether it equals the class played.

        Side effects: the weights change, and the id counts as learnt, so that the same decision cannot be learnt twice.

        >>> import onebit
        >>> learner = onebit.LinUCB(classes=["left", "right"])
        >>> learner.learn(learner.decide([0.5, -1.0]), right=False)
        >>> learner.learn(learner.decide([0.5, -1.0]), reward=0.7)
        >>> learner.learn(learner.decide([0.5, -1.0]), truth="left")
        >>> learner.learnt
        3
        """
        learn_answer(self.runtime, decision, right, label, reward, truth)

    def learn_many(
        self,
        decisions: Sequence[Decision],
        right: Sequence[bool] | NDArray[np.bool_] | None = None,
        *,
        labels: Sequence[ClassName] | NDArray[Any] | None = None,
        rewards: Sequence[float] | NDArray[Any] | None = None,
        truths: Sequence[ClassName | None] | NDArray[Any] | None = None,
    ) -> None:
        """Learn from many decisions, in the given order. If one of them is refused, none is learnt.

        `truths` has the class that would have been right where it is known, and None elsewhere. The side effects are those of `learn`.
        """
        learn_answers(self.runtime, decisions, right, labels, rewards, truths)

    def teach(self, X: Any, y: Iterable[ClassName]) -> None:
        """Learn from labelled rows, with the full-information step of the rule's family.

        A rule without such a step plays a class for each row, and learns from right and wrong. Side effect: the weights change.

        >>> import onebit
        >>> learner = onebit.ConservativeOVA(classes=["no", "yes"])
        >>> learner.teach([[1.0, 0.0], [0.0, 1.0]], ["no", "yes"])
        >>> learner.best([0.0, 2.0])
        'yes'
        """
        self.runtime.teach(X, y)

    def add_class(self, name: ClassName) -> None:
        """Add a class to this learner.

        Its weights start at 0, which beats negative scores, so that it is tried at once.

        >>> import onebit
        >>> learner = onebit.BPA(classes=["left", "right"])
        >>> learner.add_class("up")
        >>> learner.classes
        ('left', 'right', 'up')
        """
        self.runtime.add_class(name)

    def remove_class(self, name: ClassName) -> None:
        """Retire a class of this learner: it is never played again.

        Its weights and its place in `classes` are kept.

        >>> import onebit
        >>> learner = onebit.BPA(classes=["left", "right", "up"])
        >>> learner.remove_class("left")
        >>> learner.probabilities([0.5, -1.0])
        {'left': 0.0, 'right': 0.5, 'up': 0.5}
        """
        self.runtime.remove_class(name)

    # --- inspecting ------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[ClassName, ...]:
        """The names of the classes."""
        return self.runtime.classes

    @property
    def learnt(self) -> int:
        """The number of feedbacks learnt, including those that had no effect (`describe().taught_nothing`)."""
        return self.runtime.ledger.moment

    @property
    def features(self) -> int | None:
        """The number of features, once it is known."""
        features = self.runtime.features
        return None if features.named is None else features.columns

    @property
    def settings(self) -> dict[str, Any]:
        """Every parameter of the rule with its current value: given, the default, or computed by the rule."""
        return inspection.collect_settings(self.runtime)

    @property
    def weights(self) -> NDArray[Any]:
        """A copy of the weights: one row for each head, one column for each feature, the bias last.

        For `auto` they are in the views of its members, side by side.
        """
        return inspection.copy_weights(self.runtime)

    def __repr__(self) -> str:
        runtime = self.runtime
        settings = "".join(f", {name}={brief(value)}" for name, value in runtime.parameters.items())
        classes = brief(list(runtime.classes))
        return f"{runtime.rule.title}(classes={classes}{settings}, seed={runtime.seed}), {self.learnt} feedbacks learnt"

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    def describe(self) -> Description:
        """Return a report: the error so far and, for `auto`, its members and what exploring has gained.

        >>> import onebit
        >>> learner = onebit.Perceptron(classes=2)
        >>> learner.learn(learner.decide([1.0]), label=0)
        >>> learner.describe().learnt
        1
        """
        return inspection.describe_learner(self.runtime)

    def scores(self, x: Any) -> NDArray[np.float64]:
        """Return the score of every head for x.

        There is one for each class, node or pair, depending on the rule; `auto` returns its belief in each class.
        """
        return inspection.score_row(self.runtime, x)

    def beliefs(self, x: Any) -> dict[ClassName, float]:
        """Return the rule's probability that each class is right for x, removed classes included.

        `probabilities` tells how often each is played.
        """
        return dict(zip(self.classes, inspection.compute_belief(self.runtime, x).tolist(), strict=True))

    def explain(
        self, x: Any, label: ClassName | None = None, top: int | None = 10, *, among: Among = None
    ) -> Explanation:
        """Explain which features or words of x speak for a label and against the best of the others.

        The label is by default the class considered best.
        """
        return explain(self.runtime, x, label, top, among)

    # --- saving and copying ----------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the learner to one file, atomically; an existing file is replaced.

        `onebit.load` reads it, and training continues as if it had never stopped.
        """
        write_file(*dump_state(self.runtime), path)

    def to_bytes(self) -> bytes:
        """Return the learner as the bytes that `save` writes."""
        return encode_file(*dump_state(self.runtime))

    @classmethod
    def from_bytes(cls, content: bytes, rule: Rule | str | None = None) -> Learner:
        """Load a learner from the bytes of `to_bytes`. Nothing in the bytes is executed.

        If it used a rule of your own, pass that as `rule`.

        >>> import onebit
        >>> onebit.Learner.from_bytes(onebit.BPA(classes=2).to_bytes())
        BPA(classes=[0, 1], seed=0), 0 feedbacks learnt
        """
        return wrap_runtime(load_state(*decode_file(content), rule))

    def __deepcopy__(self, memo: dict[int, Any]) -> Learner:
        return copy_learner(self)

    def __reduce__(self) -> Any:
        rule = self.runtime.rule
        return Learner.from_bytes, (self.to_bytes(), None if rule.name in registry() else rule)


def copy_learner(learner: Learner, seed: int | None = None) -> Learner:
    """Return an independent copy, as if saved and loaded, optionally with another seed.

    The copy may learn the decisions that the original made.
    """
    runtime = learner.runtime
    manifest, arrays = dump_state(runtime)
    changed = manifest if seed is None else {**manifest, "seed": checked_seed(seed)}
    return wrap_runtime(load_state(changed, arrays, runtime.rule))


def wrap_runtime(runtime: Runtime) -> Learner:
    """Return a learner for an existing runtime."""
    learner: Learner = object.__new__(cast("type[Learner]", learner_class(runtime.rule)))
    learner.runtime = runtime
    return learner


def load(path: Any, rule: Rule | str | None = None) -> Learner:
    """Load a learner that `save` wrote. Nothing in the file is executed.

    If it used a rule of your own, pass that as `rule`.
    """
    manifest, arrays = read_file(path)
    with name_file_in_errors(path):
        return wrap_runtime(load_state(manifest, arrays, rule))


@cache
def learner_class(rule: Rule) -> Callable[..., Learner]:
    """Return the learner class of a rule: `onebit.Banditron` is that of `rule_named("banditron")`."""

    def initialise(self: Learner, classes: int | Iterable[ClassName], **options: Any) -> None:
        Learner.__init__(self, rule, classes=classes, **options)

    initialise.__name__, initialise.__qualname__ = "__init__", f"{rule.title}.__init__"
    presentation = {"__doc__": build_documentation(rule), "__signature__": build_signature(rule)}
    attributes = {"__init__": initialise, "__module__": "onebit", "__slots__": (), "_rule": rule}
    return type(rule.title, (Learner,), {**attributes, **presentation})
