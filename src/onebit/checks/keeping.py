"""Checks of persistence: files, and decisions sent as JSON."""

from __future__ import annotations

import tempfile
from pathlib import Path

from onebit.checks.examples import NAMES, Factory, list_spaces, play, rows, state, train
from onebit.learner.decision import Decision
from onebit.learner.learner import copy_learner, load


def check_json(factory: Factory) -> None:
    """Check that learning from a decision that was sent as JSON gives the same learner."""
    direct = train(factory)
    by_json = copy_learner(direct)
    for x in rows(5, seed=7)[0]:
        decision = direct.decide(x)
        by_json.decide(x)
        direct.learn(decision, label=NAMES[1])
        by_json.learn(Decision.from_json(decision.to_json()), label=NAMES[1])
    assert state(direct) == state(by_json)


def check_saves(factory: Factory) -> None:
    """Check that saving and loading changes nothing in later decisions and learning, bit for bit."""
    X, y = rows(60, seed=8)
    for space in list_spaces(factory):
        learner = train(factory, space=space)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learner.onebit"
            learner.save(path)
            copy = load(path, learner.runtime.rule)
        assert state(copy) == state(learner)
        assert play(copy, X, y) == play(learner, X, y)
        assert state(copy) == state(learner)
