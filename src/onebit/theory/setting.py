"""The setting of a theorem: a learner's parameters, the rounds, their margins and traces of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Rule
from onebit.contract.validation import ClassName
from onebit.learner.learner import learner_class
from onebit.theory.comparators import Comparator, fit_comparators, make_comparator
from onebit.theory.rounds import Rounds

TRACED_ROUNDS = 20_000  # traced from a run's start: theorems on the learner's scores hold for any prefix
TRACED = 60_000  # traced rounds in all runs together


@dataclass(frozen=True)
class Trace:
    """A learner's scores and greedy label in each round before the feedback, and the label it played."""

    scores: NDArray[np.float64]
    played: NDArray[np.int64]
    greedy: NDArray[np.int64]


@dataclass
class Setting:
    """A learner and the rounds on which theorems are evaluated.

    `raw_rounds` are the rounds of the data, `rounds` those that a learner with these options sees.
    """

    rule: Rule
    options: dict[str, Any]
    raw_rounds: Rounds
    runs: int
    seed: int
    marks: NDArray[np.int64]
    groups: Sequence[Sequence[ClassName]] | None = None
    _margins: dict[tuple[str, str | None], Any] = field(default_factory=dict)

    @cached_property
    def rounds(self) -> Rounds:
        """The rounds, with a constant feature if the learner has a bias."""
        return self.raw_rounds.with_constant() if self.options.get("bias") else self.raw_rounds

    @property
    def kernel(self) -> str | None:
        """The learner's kernel, or None."""
        kernel = self.options.get("kernel")
        return None if kernel is None else str(kernel)

    @cached_property
    def planned_options(self) -> dict[str, Any]:
        """The options, including those that the rule plans for such a run."""
        if self.rule.plan is None:
            return self.options
        return {**self.options, **self.rule.plan(self.options, self.rounds.count, self.rounds.longest)}

    @property
    def params(self) -> Any:
        """The rule's complete parameters."""
        return self._params_and_memory[0]

    @property
    def memory(self) -> NDArray[np.float64]:
        """The rule's memory before the first round."""
        return self._params_and_memory[1]

    @cached_property
    def _params_and_memory(self) -> tuple[Any, NDArray[np.float64]]:
        own = {name: value for name, value in self.planned_options.items() if name in self.rule.parameters}
        return self.rule.settle(self.rounds.kinds, own)

    def margin(self, kind: str, kernel: str | None = None) -> Any:
        """Return the separability of the rounds, as computed by `onebit.theory.margin`."""
        from onebit.theory.margins import margin

        if (kind, kernel) not in self._margins:
            self._margins[kind, kernel] = margin(
                self.raw_rounds.X,
                self.raw_rounds.labels,
                kind=kind,
                groups=self.groups if kind == "group" else None,
                kernel=kernel,
                bias=bool(self.options.get("bias")),
                classes=self.raw_rounds.classes,
            )
        return self._margins[kind, kernel]

    def separators(self) -> list[Comparator]:
        """Return the largest-margin separator, scaled so that labels lead by one; empty if there is none."""
        separability = self.margin("weak")
        if not separability.separable:
            return []
        separator = make_comparator(np.asarray(separability.vectors), self.rounds)
        least = (
            float((1.0 - separator.scale(0.5 / separability.margin).losses("hinge")).min()) * 2.0 * separability.margin
        )
        return [separator.scale((1.0 + 1e-12) / least)]  # dividing by the smallest lead gives loss 0, not 1e-9

    @cached_property
    def hinge_path(self) -> list[Comparator]:
        """Comparators for bounds that mix the hinge loss of U with its length."""
        return fit_comparators("hinge", self.rounds) + self.separators()

    @cached_property
    def traces(self) -> list[Trace]:
        """The first rounds of some runs, traced by stepping a learner by hand."""
        count = min(self.rounds.count, TRACED_ROUNDS)
        return [self._trace(self.seed + run, count) for run in range(max(1, min(self.runs, TRACED // count)))]

    def _trace(self, seed: int, count: int) -> Trace:
        learner = learner_class(self.rule)(self.raw_rounds.classes, seed=seed, **self.planned_options)
        rows, classes, labels = self.raw_rounds.X, learner.classes, self.raw_rounds.labels
        position = {name: index for index, name in enumerate(classes)}
        scores = np.empty((count, self.rule.heads(self.params)))
        played, greedy = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        for number in range(count):
            x = rows[[number]] if hasattr(rows, "indptr") else rows[number]
            scores[number] = learner.scores(x)
            decision = learner.decide(x)
            learner.learn(decision, label=labels[number])  # the learner derives bandit feedback from the label
            played[number], greedy[number] = position[decision.label], position[decision.greedy]
        return Trace(scores, played, greedy)
