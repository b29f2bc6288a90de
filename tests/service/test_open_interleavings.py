"""A task of `onebit.open` that is closed and opened again at any point goes on as one that stayed open, bit for bit.

Hypothesis writes the stories, as in `tests/learner/test_interleavings.py`; here answers can be revised and withdrawn, and the log remembers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onebit.errors import OnebitError
from tests.service.test_open import DURABLE, known_by, settle, with_snapshots

ROWS = [(0.5, -1.0), (1.0, 1.0), (-0.25, 0.5), (0.0, 0.0), (-1.0, -0.5)]
CLASSES = ["a", "b", "c"]
KINDS: dict[str, dict[str, Any]] = {
    "banditron": {"learner": "banditron", "features": 2},
    "linucb": {"learner": "linucb", "features": 2, "parameters": {"matrix": "full"}},
    "kernel": {"learner": "banditron", "features": 2, "parameters": {"kernel": "rbf", "max_support": 5}},
    "dict": {"learner": "bpa", "features": {"kind": "dict", "hash_bits": 5}},
    "auto": {"features": 2},
}
ASKED = ("decide", "decide", "decide", "right", "right", "reward", "truth", "revise", "withdraw", "new class")
stories = st.lists(st.tuples(st.sampled_from((*ASKED, "reopen")), st.integers(0, 11)), max_size=25)


class Told:
    """A task in a folder, and all that it said."""

    def __init__(self, folder: Path, durable: Any, kind: dict[str, Any]) -> None:
        self.folder, self.durable = folder, durable
        self.task = with_snapshots(7, folder, "fruit", classes=CLASSES, seed=1, durable=durable, **kind)
        self.features = kind["features"]
        self.ids: list[str] = []
        self.said: list[Any] = []

    def tell(self, what: str, number: int) -> None:
        """One event; what is refused is part of the story."""
        try:
            self.said.append((what, self._told(what, number)))
        except OnebitError as refusal:
            self.said.append((what, str(refusal)))
        settle(self.task)  # a revision is learnt in the background: when, is no part of the story

    def reopen(self) -> None:
        self.task.close()
        self.task = with_snapshots(7, self.folder, durable=self.durable)

    def _told(self, what: str, number: int) -> Any:
        if what == "decide":
            x: Any = ROWS[number % len(ROWS)]
            self.ids.append(f"d{len(self.ids)}")
            decision = self.task.decide(
                {"a": x[0], "b": x[1]} if isinstance(self.features, dict) else x, id=self.ids[-1]
            )
            return decision.label, decision.propensity, decision.probabilities
        if what == "new class":
            return self.task.change(add_classes=[f"class {len(self.task.classes)}"])["classes"]
        if not self.ids:
            return None
        name = self.ids[number % len(self.ids)]
        if what == "withdraw":
            return self.task.withdraw(name)
        answer: dict[str, Any] = {"reward": {"reward": number / 11}, "truth": {"truth": CLASSES[number % 3]}}
        return self.task.feedback(name, **answer.get(what, {"right": number % 2 == 0}), revise=what == "revise")


@pytest.mark.parametrize("durable", DURABLE)
@pytest.mark.parametrize("kind", KINDS)
@settings(derandomize=True, max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(story=stories)
def test_closing_and_opening_again_changes_nothing(kind: str, durable: Any, story: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        often, once = (Told(Path(folder) / name, durable, KINDS[kind]) for name in ("often", "once"))
        with often.task, once.task:
            for what, number in story:
                if what == "reopen":
                    often.reopen()
                    continue
                often.tell(what, number)
                once.tell(what, number)
            assert often.said == once.said
            assert known_by(often.task) == known_by(once.task)
        often.task.close()
