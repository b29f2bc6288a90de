"""onebit for river: any rule with `learn_one` and `predict_one`, and river's data sets as streams.

`learn_one(x, y)` is a round: the learner plays a label and learns whether that was y. It sees the label itself only with
`feedback="label"`, and when the label is new.
"""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np

from onebit.contract.installation import install_command
from onebit.contract.options import check_options
from onebit.contract.validation import checked_count
from onebit.data import streams
from onebit.data.streams import Stream
from onebit.errors import InputError, MissingExtraError, brief, nearest
from onebit.learner.classes import to_class_name
from onebit.learner.feedback import require_feedback_kind
from onebit.learner.inspection import compute_belief, describe_missing_belief
from onebit.learner.learner import Learner
from onebit.rules import DEFAULT, rule_named

try:
    from river import base, datasets
except ImportError:
    raise MissingExtraError(f"onebit.river needs river: {install_command('river')}") from None

CLASSIFICATION = ("Binary classification", "Multi-class classification")


class RiverClassifier(base.Classifier):
    """A classifier for river that learns from right and wrong, or with `feedback="label"` from labels.

    `rule` is the name of a rule, `options` are the keyword arguments of its learner class. A new label becomes a class once its
    round is over; with `classes` all of them are known from the beginning, and the learner gets only one bit per round. With `features`, the
    names of all features, rows are dense, which suits tables best: a feature missing from a row is 0, and an unknown one is refused.
    Without `features`, features may come and go, and rows are sparse. `predict_one` returns the label considered best, without exploration;
    `mistakes` counts the wrong labels played while learning.

    >>> model = RiverClassifier(classes=("no", "yes"), seed=1)
    >>> for x, y in [({"hot": 1.0}, "no"), ({"cold": 1.0}, "yes")] * 20:
    ...     model.learn_one(x, y)
    >>> model.predict_one({"cold": 1.0})
    'yes'
    """

    def __init__(
        self,
        rule: str = DEFAULT,
        classes: tuple[Any, ...] | None = None,
        features: tuple[Any, ...] | None = None,
        feedback: str = "bandit",
        options: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        self.rule, self.classes, self.features, self.feedback = rule, classes, features, feedback
        self.options, self.seed = options, seed
        self.mistakes = 0  # wrong labels played; stays 0 with feedback="label"
        self._has_belief = rule_named(rule).belief is not None
        self._chosen_seed = secrets.randbits(62) if seed is None else seed
        self._columns = None if features is None else {name: column for column, name in enumerate(features)}
        if self._columns is not None and not 0 < len(self._columns) == len(features or ()):
            raise InputError(f"features is {brief(features)}, but must be distinct names, at least one")
        self._labels: list[Any] = []  # river's labels by class index
        self._class_indices: dict[Any, int] = {}
        self.learner: Learner | None = None  # set once there are two classes
        self._make_learner()  # raises an error for bad options now
        for label in classes or ():
            self._add_label(label)

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Play a label for x, and learn whether it was y."""
        row = self._to_row(x)
        if not isinstance(y, Hashable):
            raise InputError(f"y is {brief(y)}, but must be a single, hashable label")
        if self.feedback == "label":
            if y not in self._class_indices:
                (self.learner or self._make_learner()).best(row)  # checks the row, so that a refused row adds no class
            self._add_label(y)
            if self.learner is not None:
                self.learner.teach([row], [self._class_indices[y]])
            return
        if self.learner is not None:
            decision = self.learner.decide(row)
            right = bool(self._labels[int(decision.label)] == y)
            self.learner.learn(decision, right=right)
            self.mistakes += not right
        self._add_label(y)

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Return the label that the learner considers best; None before any is known."""
        if self.learner is None:
            return self._labels[0] if self._labels else None
        return self._labels[int(self.learner.best(self._to_row(x)))]

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the rule's belief that each label is right; not how often it would be played."""
        if not self._has_belief:
            raise NotImplementedError(describe_missing_belief(rule_named(self.rule).title))
        if self.learner is None:
            return dict.fromkeys(self._labels, 1.0)
        return dict(zip(self._labels, compute_belief(self.learner.runtime, self._to_row(x)).tolist(), strict=True))

    def _to_row(self, x: Mapping[Any, Any]) -> Any:
        """Return x as the learner reads it: a dict, or the list of numbers of the known features."""
        row, columns = name_features(x), self._columns
        if columns is None:
            return row
        values = [0.0] * len(columns)
        for name, value in x.items():
            if name not in columns:
                raise InputError(
                    f"feature {brief(name)} is not one of `features`; {nearest(str(name), map(str, columns))}"
                )
            values[columns[name]] = value
        return values

    def _add_label(self, label: Any) -> None:
        """Add a class for a new label."""
        if label in self._class_indices:
            return
        if self.learner is not None:
            self.learner.add_class(len(self._labels))
        elif self._labels:
            self.learner = self._make_learner()
        self._class_indices[label] = len(self._labels)
        self._labels.append(label)

    def _make_learner(self) -> Learner:
        """Return a new learner of the first two classes."""
        learner = Learner(
            self.rule, classes=2, seed=self._chosen_seed, **check_options(self.options, classes="classes", seed="seed")
        )
        require_feedback_kind(learner.runtime, self.feedback)
        return learner


def name_features(x: Mapping[Any, Any]) -> dict[str, Any]:
    """Return river's features with strings for names; raise InputError for values that are not numbers.

    >>> name_features({0: 1.5, "size": 2})
    {'0': 1.5, 'size': 2}
    """
    if not isinstance(x, Mapping):
        raise InputError(f"x is {brief(x)}, but must be a dict of feature name -> number")
    for name, value in x.items():
        if type(value) not in (float, int) and not isinstance(value, Real | np.bool_):
            raise InputError(
                f"feature {brief(name)} is {brief(value)}, but must be a number: use river's OneHotEncoder"
            )
    return {name if isinstance(name, str) else str(name): value for name, value in x.items()}


def stream(dataset: Iterable[tuple[Any, Any]], *, rounds: int | None = None, **settings: Any) -> Stream:
    """Return a river data set as a stream for `onebit.run` and `onebit.compare`.

    Any iterable of pairs of a dict and a label will do. Rows come in the order of the data set, as in river, unless
    another `order` is given; the further keywords are those of `onebit.stream`. `rounds` limits the number of rows, and
    is required for endless data sets. If all rows have the same features they are read as a table, with its columns in
    the order of the first row, otherwise as sparse rows.

    >>> stream(datasets.Phishing(), rounds=100)
    Stream(Phishing, 100 rounds, order=file)
    """
    if not isinstance(dataset, Iterable):
        raise InputError(f"expected a data set of river or pairs of a dict and a label, got {brief(dataset)}")
    name = type(dataset).__name__ if isinstance(dataset, datasets.base.Dataset) else "pairs"
    if isinstance(dataset, datasets.base.Dataset) and dataset.task not in CLASSIFICATION:
        raise InputError(f"{name} is for {str(dataset.task).lower()}, but a stream needs one class label per row")
    if isinstance(dataset, datasets.base.SyntheticDataset) and dataset.n_samples is None and rounds is None:
        raise InputError(f"{name} is endless: give rounds")
    if rounds is not None:
        rounds = checked_count("rounds", rounds)
    rows, labels = [], []
    for row_number, pair in enumerate(islice(iter(dataset), rounds)):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"row {row_number} of {name} is {brief(pair)}, but must be a pair: a dict and a label")
        try:
            rows.append(name_features(pair[0]))
        except InputError as error:
            raise InputError(f"row {row_number} of {name}: {error}") from None
        labels.append(to_class_name(pair[1]))
    if not rows:
        raise InputError(f"{name} has no rows")
    names = rows[0].keys()
    table = (
        np.array([[row[name] for name in names] for row in rows]) if all(row.keys() == names for row in rows) else None
    )
    result = streams.stream(rows if table is None else table, labels, **{"rounds": rounds, "order": "file", **settings})
    return replace(result, source=replace(result.source, name=name))
