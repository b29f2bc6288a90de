"""Inspecting a learner: its classes, weights and scores, and its description of itself. Nothing here changes anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.beliefs import belief_of
from onebit.contract.description import Description
from onebit.deciding import Among
from onebit.describing import description_of
from onebit.errors import InputError, brief
from onebit.explaining import Explanation, explanation_of
from onebit.runtime import Runtime
from onebit.validation import ClassName


class InspectableLearner:
    """A learner, to be looked at."""

    # Slots, so that `learner.aggressiveness = 3`, which would do nothing, is an error.
    __slots__ = ("__weakref__", "runtime")

    runtime: Runtime

    @property
    def classes(self) -> tuple[ClassName, ...]:
        """The names of the classes."""
        return self.runtime.classes

    @property
    def learnt(self) -> int:
        """How many feedbacks have been learnt, including those that taught nothing (`describe().taught_nothing`)."""
        return self.runtime.ledger.moment

    @property
    def features(self) -> int | None:
        """The number of features, once it is known."""
        return self.runtime.feature_count

    @property
    def settings(self) -> dict[str, Any]:
        """Every parameter of the rule with its current value: given, the default, or computed by the rule."""
        return self.runtime.settings

    @property
    def weights(self) -> NDArray[Any]:
        """A copy of the weights: one row for each head, one column for each feature, the bias last.

        Those of `auto` are in the views of its members, side by side.
        """
        runtime = self.runtime
        with runtime.lock:
            if runtime.model.space is None:
                raise InputError("this learner has seen no x yet, so it has no weights")
            return runtime.space_choice.weights(runtime.model.space, runtime.features.columns)

    def __repr__(self) -> str:
        runtime = self.runtime
        given = "".join(f", {name}={brief(value)}" for name, value in runtime.parameters.items())
        classes = brief(list(runtime.classes))
        return f"{runtime.rule.title}(classes={classes}{given}, seed={runtime.seed}), {self.learnt} feedbacks learnt"

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    def describe(self) -> Description:
        """A report of the learner on itself: its error so far and, for `auto`, its members and what exploring has gained.

        >>> import onebit
        >>> learner = onebit.Perceptron(classes=2)
        >>> learner.learn(learner.decide([1.0]), label=0)
        >>> learner.describe().learnt
        1
        """
        return description_of(self.runtime)

    def scores(self, x: Any) -> NDArray[np.float64]:
        """The score of every head for x: one for each class, node or pair, depending on the rule; for `auto`, its belief in each class."""
        return self.runtime.scores(x)

    def beliefs(self, x: Any) -> dict[ClassName, float]:
        """The probability that each class is right for x, according to the rule, removed classes included. `probabilities` has how often each is played."""
        return dict(zip(self.classes, belief_of(self.runtime, x).tolist(), strict=True))

    def explain(
        self, x: Any, label: ClassName | None = None, top: int | None = 10, *, among: Among = None
    ) -> Explanation:
        """Which features or words of x speak for a label (by default the class considered best), and against the best of the others."""
        return explanation_of(self.runtime, x, label, top, among)
