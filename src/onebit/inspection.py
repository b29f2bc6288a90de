"""Inspecting a learner: its classes, weights and scores, and its description of itself. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.beliefs import belief_of
from onebit.contract.calibration import ASKED, SURE, SURE_WRONG
from onebit.contract.description import CertaintyReport, Description, NeverRight
from onebit.contract.rule import LEARNT, RIGHT
from onebit.deciding import Among
from onebit.errors import InputError, brief
from onebit.explaining import Explanation, explanation_of
from onebit.runtime import Runtime
from onebit.validation import ClassName

MOST_NAMED = 10  # classes


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
        return _description_of(self.runtime)

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


def _description_of(runtime: Runtime) -> Description:
    """Its error so far, its settings, and of several members what each of them does."""
    model = runtime.model
    with runtime.lock:
        right = model.memory[RIGHT]
        composed: dict[str, Any] = {}
        if runtime.rule.describe is not None and model.space is not None:
            composed.update(runtime.rule.describe(model.params, model.memory, model.space))
        never_right = composed.pop("never_right", None)
        return Description(
            learner=runtime.rule.title,
            learnt=runtime.ledger.moment,
            taught_nothing=max(0, runtime.ledger.moment - int(model.memory[LEARNT])),  # whatever a stranger's file says
            right=float(right) if runtime.rewarded else int(right),
            rewarded=runtime.rewarded,
            settings=runtime.settings,
            certainty=_certainty_of(runtime),
            repairs=model.repairs,
            form=_form_of(runtime),
            never_right=None if never_right is None else _named(runtime, never_right),
            **composed,
        )


def _form_of(runtime: Runtime) -> str | None:
    """The form in which rows are treated, and why; None where the learner does not choose it."""
    routing, features = runtime.model.routing, runtime.features
    if routing is None or features.size is None or features.space is None:
        return None
    return routing.said(features.size, features.space)


def _named(runtime: Runtime, never_right: Sequence[int]) -> NeverRight:
    """Of these classes those that can be played; a removed one has no chance of being right any more."""
    there = [runtime.classes[number] for number in never_right if number not in runtime.retired]
    return NeverRight(len(there), tuple(there[:MOST_NAMED]))


def _certainty_of(runtime: Runtime) -> CertaintyReport | None:
    """How sure it was where somebody asked."""
    state = runtime.model.calibration
    asked = int(state[ASKED])
    return CertaintyReport(asked, int(state[SURE]), float(state[SURE_WRONG])) if asked else None
