"""onebit for scikit-learn: any rule as a classifier with `fit`, `partial_fit` and `predict`.

Like every scikit-learn classifier it takes labelled rows, and turns each into a round: the learner plays a label, and learns whether
that was right. It sees the label itself only with `feedback="label"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onebit.contract.installation import install_command
from onebit.contract.options import check_options
from onebit.contract.rule import Rule
from onebit.contract.validation import join_names
from onebit.data.streams import stream
from onebit.engine.schedule import NOTHING, Schedule
from onebit.engine.stream import Tally
from onebit.errors import InputError, MissingExtraError, OnebitError, brief
from onebit.learner.classes import to_class_name
from onebit.learner.feedback import require_feedback_kind
from onebit.learner.inspection import compute_beliefs, describe_missing_belief, find_best_classes, score_rows
from onebit.learner.learner import Learner
from onebit.rules import DEFAULT, rule_named

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import Tags, check_random_state
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtraError(
        f"onebit.sklearn needs scikit-learn 1.6 or newer: {install_command('experiments')}"
    ) from None

_MOST_SEEDS = np.iinfo(np.int32).max


def find_rule(classifier: BanditClassifier) -> Rule | None:
    """Return the rule that a classifier names; None if there is no such rule, which `fit` refuses."""
    try:
        return rule_named(classifier.rule) if isinstance(classifier.rule, str) else classifier.rule
    except OnebitError:
        return None


def has_belief(classifier: BanditClassifier) -> bool:
    """Return True if the classifier has `predict_proba`; raise AttributeError with the reason if not."""
    rule = find_rule(classifier)
    if isinstance(rule, Rule) and rule.belief is None:
        raise AttributeError(f"{describe_missing_belief(rule.title)}; there is no predict_proba")
    return True


def has_scores(classifier: BanditClassifier) -> bool:
    """Return True if the classifier has `decision_function`; if not, raise AttributeError with the reason.

    A rule has it if it has a score for each class and no belief.
    """
    rule = find_rule(classifier)
    if not isinstance(rule, Rule):
        return True
    if rule.belief is not None:
        raise AttributeError(f"{rule.title} has beliefs, so use predict_proba; there is no decision_function")
    try:
        parameters = {
            name: value for name, value in check_options(classifier.options).items() if name in rule.parameters
        }
        params, _ = rule.settle(4, parameters)  # 4, because 3 classes have as many pairs as classes
    except OnebitError:
        return True
    if rule.heads(params) != 4:
        raise AttributeError(f"{rule.title} has scores of nodes or pairs of classes, so there is no decision_function")
    return True


class BanditClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns from right and wrong, or with `feedback="label"` from labels.

    `rule` is the name of a rule, or a `Rule` of your own; `options` are the keyword arguments of its learner class: the rule's parameters,
    and `bias`, `kernel`, `exploration_floor` and the like. `fit` starts over and goes through the rows once, in an order drawn from
    `random_state` unless `shuffle` is False; `partial_fit` continues, in the order given. An integer `random_state` is the learner's seed.

    After fitting, `learner_` is the onebit learner: `learner_.describe()` says how often it was wrong on the
    way, `learner_.save(path)` saves it, and `learner_.decide(x)` continues to explore.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = BanditClassifier(random_state=0).fit(X, y)
    >>> classifier.predict(X[:2]).tolist(), classifier.predict_proba(X[:2]).shape
    ([0, 0], (2, 3))
    """

    def __init__(
        self,
        rule: str | Rule = DEFAULT,
        *,
        options: Mapping[str, Any] | None = None,
        feedback: str = "bandit",
        shuffle: bool = True,
        random_state: Any = None,
    ) -> None:
        self.rule = rule
        self.options = options
        self.feedback = feedback
        self.shuffle = shuffle
        self.random_state = random_state

    # --- learning --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Start over, and go through the rows once."""
        X, y = self._check_rows(X, y, reset=True)
        classes, labels = np.unique(y, return_inverse=True)
        learner = self._make_learner(classes)
        order = NOTHING
        if self.shuffle:  # in the same order as `onebit.run` with this seed
            shuffled = stream(X, labels, classes=range(len(classes)), order="shuffle", seed=learner.runtime.seed)
            order = shuffled.schedule(shuffled.data(shuffled.seed), shuffled.seed).order
        self._walk_rows(learner, X, labels.astype(np.int64), order)
        self.classes_, self.learner_ = classes, learner
        return self

    def partial_fit(self, X: Any, y: Any, classes: Iterable[Any] | None = None) -> Self:
        """Continue training on more rows, in the given order; if a row is refused, none is learnt.

        The first call needs `classes`: all labels that may occur.
        """
        is_first = not hasattr(self, "learner_")
        X, y = self._check_rows(X, y, reset=is_first)
        if is_first and classes is None:
            raise InputError("the first call of partial_fit needs classes: all labels that may occur")
        sorted_classes = None if classes is None else unique_labels(list(classes))
        fixed_classes = sorted_classes if is_first else self.classes_
        assert fixed_classes is not None
        if sorted_classes is not None and not np.array_equal(sorted_classes, fixed_classes):
            raise InputError(
                f"classes is {brief(sorted_classes.tolist())}, but in the first call it was {brief(fixed_classes.tolist())}"
            )
        names = fixed_classes.tolist()
        index_by_label = {label: index for index, label in enumerate(names)}
        labels = np.array([index_by_label.get(label, -1) for label in y.tolist()], dtype=np.int64)
        unknown = np.flatnonzero(labels < 0)
        if len(unknown):
            row = int(unknown[0])
            raise InputError(f"y[{row}] is {brief(y.tolist()[row])}, but the classes are {join_names(names)}")
        learner = self._make_learner(fixed_classes) if is_first else self.learner_
        self._walk_rows(learner, X, labels, NOTHING)
        self.classes_, self.learner_ = fixed_classes, learner
        return self

    def _check_rows(self, X: Any, y: Any, reset: bool) -> tuple[Any, NDArray[Any]]:
        """Return rows and labels, validated by scikit-learn."""
        X, y = validate_data(self, X, y, accept_sparse="csr", reset=reset)
        check_classification_targets(y)
        return X, y

    def _make_learner(self, classes: NDArray[Any]) -> Learner:
        """Return a new learner for these classes."""
        options = check_options(self.options, classes="y", seed="random_state")
        state = self.random_state
        is_seed = isinstance(state, int | np.integer)
        seed = int(state) if is_seed else int(check_random_state(state).randint(_MOST_SEEDS))
        learner = Learner(self.rule, classes=[to_class_name(label) for label in classes], seed=seed, **options)
        require_feedback_kind(learner.runtime, self.feedback)
        return learner

    def _walk_rows(self, learner: Learner, X: Any, labels: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        """Learn from all rows in one call of the compiled loop; if a row is refused, change nothing."""
        runtime = learner.runtime
        if self.feedback == "label":
            names = [learner.classes[label] for label in (labels[order] if len(order) else labels)]
            runtime.teach(X[order] if len(order) else X, names)
            return
        with runtime.lock, runtime.undo_if_refused():
            rows, schedule = runtime.read_table(X), Schedule(labels[order] if len(order) else labels, order)
            tally = Tally.empty(NOTHING)
            with runtime.model.undo_if_refused(rows):
                runtime.walk(rows, schedule, schedule.choices, tally, 0, schedule.steps)
            runtime.finish_walk(schedule)

    # --- predicting ------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class that the learner considers best for each row, without exploring."""
        rows = self._read_rows(X)
        return np.asarray(self.classes_[find_best_classes(self.learner_.runtime, rows)])

    @available_if(has_belief)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the rule's belief that each class is right; not how often it would be played."""
        rows = self._read_rows(X)
        return compute_beliefs(self.learner_.runtime, rows)

    @available_if(has_scores)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each class; with two classes, the second's lead over the first.

        Only for rules that have scores and no belief.
        """
        rows = self._read_rows(X)
        scores = score_rows(self.learner_.runtime, rows)[:, : len(self.classes_)]
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def _read_rows(self, X: Any) -> Any:
        check_is_fitted(self, "learner_")
        return self.learner_.runtime.read_table(validate_data(self, X, accept_sparse="csr", reset=False))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
