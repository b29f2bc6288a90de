"""One round of a stream for any learner: x, the candidates, and the feedback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.candidates import candidates_at
from onebit.contract.draws import REVEALING, Draws, seed_key, uniform
from onebit.contract.validation import ClassName
from onebit.data.dataset import Dataset
from onebit.engine.schedule import Schedule


@dataclass(frozen=True)
class StreamFeedback:
    """The feedback of a round; call it with a label to learn whether that label is right.

    >>> answer = StreamFeedback("b", rewards={"a": 0.25, "b": 1.0}, corrected=True)
    >>> answer("a"), answer.reward("a"), answer.truth("a"), answer.given_for("b")
    (False, 0.25, 'b', {'reward': 1.0})
    """

    _label: ClassName
    among: tuple[ClassName, ...] | None = None  # the candidates, if not all classes are
    rewards: Mapping[ClassName, float] | None = None  # reward of each class, if not just right or wrong
    corrected: bool = False  # whether the right class is revealed after a wrong choice

    def __call__(self, label: object) -> bool:
        """Return True if the label is right: no other is worth more."""
        if self.rewards is None:
            return bool(label == self._label)
        return self.reward(label) >= self.reward(self._label)

    def reward(self, label: Any) -> float:
        """Return the reward of a label, from 0 to 1."""
        return float(self(label)) if self.rewards is None else self.rewards.get(label, 0.0)

    def truth(self, label: object) -> ClassName | None:
        """Return the right class if this label is wrong and the round reveals it, else None."""
        return self._label if self.corrected and not self(label) else None

    def given_for(self, label: Any) -> dict[str, Any]:
        """Return the feedback on a label as keywords of `Learner.learn`: `right`, `reward` or `truth`."""
        truth = self.truth(label)
        if truth is not None:
            return {"truth": truth}
        return {"right": self(label)} if self.rewards is None else {"reward": self.reward(label)}


class StreamRound(NamedTuple):
    """A round: x, and the feedback that tells whether a label is right."""

    x: Any
    right: StreamFeedback


class Offer(NamedTuple):
    """What to decide in a round with candidates: x, and the classes that may be chosen."""

    x: Any
    among: tuple[ClassName, ...]


def candidate_names(data: Dataset, schedule: Schedule, number: int) -> tuple[ClassName, ...] | None:
    """Return the names of a round's candidates; None if all classes are candidates."""
    if not len(schedule.among):
        return None
    return tuple(data.classes[member] for member in candidates_at(schedule.among, number))


def make_feedback(data: Dataset, schedule: Schedule, step: int, seed: int) -> StreamFeedback:
    """Return the feedback of a step of the schedule.

    Whether it is corrected is drawn as in a run of a new learner with this seed.
    """
    number = schedule.round_of(step)
    rewards = None
    if len(schedule.rewards):
        row = schedule.rewards[schedule.row(step, data.rows)]
        rewards = dict(zip(data.classes, row.tolist(), strict=True))
    corrected = False
    if schedule.corrections > 0.0:
        with np.errstate(over="ignore"):  # draws are computed modulo 2^64
            draws = Draws(seed_key(seed), np.uint64(schedule.number(number)), REVEALING)
            corrected = uniform(draws, 0) < schedule.corrections
    label = data.classes[schedule.labels[number]]
    return StreamFeedback(label, candidate_names(data, schedule, number), rewards, corrected)
