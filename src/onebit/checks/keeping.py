"""Checks of persistence: files, and decisions sent as JSON."""

from __future__ import annotations

import tempfile
from pathlib import Path

from onebit.checks.examples import NAMES, Factory, played, rows, spaces_of, state, trained
from onebit.learner.decision import Decision
from onebit.learner.learner import copy_learner, load


def check_json(factory: Factory) -> None:
    """Check that learning from a decision that was sent as JSON gives the same learner."""
    here = trained(factory)
    there = copy_learner(here)
    for x in rows(5, seed=7)[0]:
        decision = here.decide(x)
        there.decide(x)
        here.learn(decision, label=NAMES[1])
        there.learn(Decision.from_json(decision.to_json()), label=NAMES[1])
    assert state(here) == state(there)


def check_saves(factory: Factory) -> None:
    """Check that saving and loading changes nothing in later decisions and learning, bit for bit."""
    X, y = rows(60, seed=8)
    for space in spaces_of(factory):
        learner = trained(factory, space=space)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learner.onebit"
            learner.save(path)
            loaded = load(path, learner.runtime.rule)
        assert state(loaded) == state(learner)
        assert played(loaded, X, y) == played(learner, X, y)
        assert state(loaded) == state(learner)
