"""Shadow mode: estimate the error of the learner's own decisions while something else was shown.

Each decision has the probabilities with which the learner would have played each class. Its feedback says how right the shown class was, and with which
probability that was chosen. So the log tells how the learner, as it was at each round, would have done, by the estimators of `onebit.offpolicy`: here SNIPS,
whose weights need only be right up to a factor. If the right class was named, the learner is right with the probability that it gave to that class, and
nothing is estimated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onebit.errors import InputError
from onebit.offpolicy.estimates import LEAST, RoundBlock, Scores, Trust, score_block, snips
from onebit.service.core.history import Ring
from onebit.service.inputs import decode_numbers
from onebit.service.store.queries import Event

KEPT = ("weight", "reward", "missing", "squares", "cubes")  # which scores of a round are kept


class ShadowRounds:
    """The last rounds in which something other than the decision was shown."""

    def __init__(self) -> None:
        self._rings = {name: Ring(float) for name in KEPT}

    def add(self, events: Sequence[Event], classes: int) -> None:
        """Append rounds of a task that now has `classes` classes."""
        scores = _compute_scores(events, classes)
        for name, ring in self._rings.items():
            ring.add(getattr(scores, name))

    def summarize(self, window: int) -> dict[str, Any]:
        """Return the estimate as the fields of `replies.ShadowStats`."""
        last = {name: ring.last(window) for name, ring in self._rings.items()}
        none = np.zeros(len(last["weight"]))  # there is no reward model here
        estimate = snips(Scores(**last, expected=none, predicted=none, missing_expected=none))
        known = not math.isnan(estimate.value)
        return {
            "rounds": estimate.rounds,
            "error": estimate.error if known else None,
            "low": 1.0 - estimate.high,
            "high": 1.0 - estimate.low,
            "effective": estimate.effective,
            "missing": float(last["missing"].mean()),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the state for a snapshot."""
        return {name: ring.to_dict() for name, ring in self._rings.items()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> ShadowRounds:
        """Restore from a snapshot, which is untrusted."""
        rounds = cls()
        highest = {"reward": 1.0, "missing": 1.0 + LEAST, "weight": 2.0 / LEAST, "squares": 2.0 / LEAST}
        rounds._rings = {name: Ring.from_dict(state[name], float, highest.get(name, 2.0 / LEAST**2)) for name in KEPT}
        counts = {ring.count for ring in rounds._rings.values()}
        if len(counts) != 1 or counts == {0}:
            raise InputError("the shadow-mode statistics have no rounds, or lists of different lengths")
        return rounds


def _compute_scores(events: Sequence[Event], classes: int) -> Scores:
    """Return the off-policy scores of each round."""
    count = len(events)
    target, offered = np.zeros((count, classes)), np.ones((count, classes), dtype=bool)
    for row, event in enumerate(events):
        known = decode_numbers(event.decision.probabilities)
        target[row, : len(known)] = known  # a class added later could not be played
        among = event.candidates
        if among is not None:
            offered[row] = False
            offered[row, among] = True
    labels, propensity = (np.array(column) for column in zip(*(event.played for event in events), strict=True))
    unknown = np.full((count, classes), np.nan)  # propensities of other classes are unknown
    reward = np.array([event.worth for event in events], dtype=float)
    block = RoundBlock(target, np.zeros((count, classes)), unknown, labels, reward, propensity, offered)
    scores = score_block(block, Trust())
    for row, event in enumerate(events):
        if event.truth is not None:
            scores.weight[row] = scores.squares[row] = scores.cubes[row] = 1.0
            scores.missing[row] = 0.0
            scores.reward[row] = min(1.0, target[row, event.truth])
    return scores
