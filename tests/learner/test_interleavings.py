"""Whatever happens to a learner between two events, it goes on as one to which nothing happened, bit for bit.

Hypothesis writes the stories: decisions, answers that come late, out of order, twice or never, and new classes; and in between learners are
saved, pickled, copied, and decisions travel as JSON. Every story is told twice, once with and once without what happens in between.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import onebit
from onebit.checks.examples import state
from onebit.errors import OnebitError
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner

ROWS, WIDTH, CLASSES = 12, 4, 3
_GENERATOR = np.random.default_rng(7)
DENSE = _GENERATOR.normal(size=(ROWS, WIDTH)) / 2.0
DENSE[3] = 0.0
NAMED = [{f"f{column}": float(value) for column, value in enumerate(row) if value > 0.0} for row in DENSE]
TEXTS = [" ".join(f"word{column}" for column in range(WIDTH) if row[column] > 0.0) or "nothing" for row in DENSE]
TRUTHS = _GENERATOR.integers(CLASSES, size=ROWS).tolist()

Event = tuple[str, int]

LEARNERS: dict[str, tuple[Callable[[], Learner], Any]] = {
    "banditron": (lambda: onebit.Banditron(CLASSES, seed=1), DENSE),
    "gaptron": (lambda: Learner("gaptron", classes=CLASSES, rate=0.5, exploration=0.2, seed=1), DENSE),
    "offset tree": (lambda: Learner("offset-tree", classes=CLASSES, seed=1), DENSE),
    "linucb, full": (lambda: Learner("linucb", classes=CLASSES, matrix="full", seed=1), DENSE),
    "confidit, sparse": (lambda: Learner("confidit", classes=CLASSES, space="sparse", seed=1), DENSE),
    "kernel": (lambda: onebit.Banditron(CLASSES, kernel="rbf", max_support=5, seed=1), DENSE),
    "names": (lambda: onebit.BPA(CLASSES, seed=1), NAMED),
    "hashed names": (lambda: Learner("softmax", classes=CLASSES, hash_bits=5, seed=1), NAMED),
    "text": (lambda: Learner("epsilon-greedy", classes=CLASSES, text=True, seed=1), TEXTS),
    "auto": (lambda: onebit.Auto(CLASSES, seed=1), DENSE),
    "auto, names": (lambda: onebit.Auto(CLASSES, seed=1), NAMED),
}

# What a learner is asked and told; the number says which row, or which of the decisions that wait for an answer.
ASKED = (
    "decide",
    "decide",
    "decide",
    "best",
    "right",
    "right",
    "right",
    "reward",
    "truth",
    "lost",
    "again",
    "new class",
)
BETWEEN = ("save", "pickle", "bytes", "copy", "travel")

stories = st.lists(st.tuples(st.sampled_from(ASKED + BETWEEN), st.integers(0, ROWS - 1)), max_size=45)


def saved(learner: Learner) -> Learner:
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "learner.onebit")
        return onebit.load(Path(folder) / "learner.onebit")


RESTORED: dict[str, Callable[[Learner], Learner]] = {
    "save": saved,
    "pickle": lambda learner: pickle.loads(pickle.dumps(learner)),
    "bytes": lambda learner: Learner.from_bytes(learner.to_bytes()),
    "copy": copy.copy,
}


class Told:
    """A learner, what waits for an answer, and all that it said."""

    def __init__(self, learner: Learner, rows: Any) -> None:
        self.learner, self.rows = learner, rows
        self.waiting: list[tuple[Decision, int]] = []
        self.answered: list[tuple[Decision, int]] = []
        self.said: list[Any] = []
        self.decisions = 0

    def tell(self, what: str, number: int) -> None:
        """One event. What is refused is part of the story: both must refuse it, with the same words."""
        try:
            self.said.append((what, self._told(what, number)))
        except OnebitError as refusal:
            self.said.append((what, str(refusal)))

    def _told(self, what: str, number: int) -> Any:
        if what == "decide":
            self.decisions += 1
            decision = self.learner.decide(self.rows[number], id=f"d{self.decisions}")
            self.waiting.append((decision, number))
            return decision.to_json()
        if what == "best":
            return self.learner.best(self.rows[number]), self.learner.probabilities(self.rows[number])
        if what == "new class":
            return self.learner.add_class(len(self.learner.classes))
        if what in RESTORED:
            self.learner = RESTORED[what](self.learner)
            return None
        if what == "travel":
            self.waiting = [(Decision.from_json(decision.to_json()), row) for decision, row in self.waiting]
            return None
        among = self.answered if what == "again" else self.waiting
        if not among:
            return None
        decision, row = among[number % len(among)] if what == "again" else among.pop(number % len(among))
        if what == "lost":
            return None
        truth = TRUTHS[row]
        answer: dict[str, dict[str, Any]] = {"reward": {"reward": 0.25 * (row % 5)}, "truth": {"truth": truth}}
        self.answered.append((decision, row))
        return self.learner.learn(decision, **answer.get(what, {"right": decision.label == truth}))


@pytest.mark.parametrize("name", LEARNERS)
@settings(derandomize=True, max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(story=stories)
def test_what_happens_between_two_events_changes_nothing(name: str, story: list[Event]) -> None:
    make, rows = LEARNERS[name]
    learner = make()
    through, undisturbed = Told(Learner.from_bytes(learner.to_bytes()), rows), Told(learner, rows)
    for what, number in story:
        through.tell(what, number)
        if what not in BETWEEN:
            undisturbed.tell(what, number)
    assert [one for one in through.said if one[0] not in BETWEEN] == undisturbed.said
    assert state(through.learner) == state(undisturbed.learner)


@pytest.mark.parametrize("name", LEARNERS)
@settings(derandomize=True, max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(story=stories, kept=st.integers(0, 40))
def test_what_happens_to_a_copy_does_not_reach_the_learner(name: str, story: list[Event], kept: int) -> None:
    """Two learners part at some event: the first goes on as if there had never been a second."""
    make, rows = LEARNERS[name]
    learner = make()
    alone, first = Told(Learner.from_bytes(learner.to_bytes()), rows), Told(learner, rows)
    asked = [event for event in story if event[0] not in BETWEEN]
    for what, number in asked[:kept]:
        alone.tell(what, number)
        first.tell(what, number)
    second = Told(copy.deepcopy(first.learner), rows)
    second.waiting, second.decisions = list(first.waiting), first.decisions
    for what, number in asked[kept:]:
        alone.tell(what, number)
        second.tell(what, ROWS - 1 - number)
        first.tell(what, number)
    assert first.said == alone.said
    assert state(first.learner) == state(alone.learner)
