"""Checks of persistence and documentation: files, JSON, copies, other processes, memory, docstrings."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from onebit.checks.examples import NAMES, WIDTH, Factory, played, refused, rows, spaces_of, state, trained
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner, load
from onebit.learner.state import dump_state
from onebit.rules import registry


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


def check_same_in_another_process(factory: Factory) -> None:
    """Check that a learner loaded in another process makes the same decisions.

    Only for rules that onebit comes with.
    """
    learner = trained(factory)
    if registry().get(learner.runtime.rule.name) is not learner.runtime.rule:
        return
    X = rows(10, seed=9)[0]
    program = (
        "import sys, json, onebit; learner = onebit.load(sys.argv[1]);"
        "print('\\n'.join(learner.decide(x).to_json() for x in json.loads(sys.argv[2])))"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.onebit"
        learner.save(path)
        command = [sys.executable, "-P", "-c", program, str(path), str(X.tolist())]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    there = [Decision.from_json(line) for line in answer.stdout.splitlines()]
    assert there == [learner.decide(x) for x in X]


def check_clone(factory: Factory) -> None:
    """Check that training a copy leaves the original unchanged."""
    learner = trained(factory)
    before = state(learner)
    played(copy_learner(learner), *rows(20, seed=13))
    assert state(learner) == before


def check_documentation(factory: Factory) -> None:
    """Check that the class documents every parameter, and has it in its signature with its default."""
    learner = factory(classes=NAMES)
    made = type(learner)
    if made is Learner:
        return
    signature = inspect.signature(made)
    for name, default in learner.runtime.rule.defaults.items():
        assert signature.parameters[name].default == default, name
    for name in signature.parameters:
        assert f"    {name}: " in (made.__doc__ or ""), name


def check_memory_is_bounded(factory: Factory) -> None:
    """Check that a thousand feedbacks in order leave a learner no larger than a hundred did."""
    learner = trained(factory, 100)
    size = sum(array.nbytes for array in dump_state(learner.runtime)[1].values())
    played(learner, *rows(900, seed=14))
    assert sum(array.nbytes for array in dump_state(learner.runtime)[1].values()) == size


def check_quiet(factory: Factory) -> None:
    """Check that training and refusing a row raise no warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = trained(factory)
        refused(lambda: learner.decide(np.full(WIDTH, 1e300)))
