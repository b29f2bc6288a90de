"""Example rows and learners for the checks, and helpers to compare learners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.errors import OnebitError
from onebit.learner.learner import Learner
from onebit.learner.state import dump_state

Factory = Callable[..., Learner]
Array = NDArray[Any]

NAMES = ["ant", "bee", "cat", "dog", "eel"]
WIDTH = 6


def rows(count: int, seed: int = 0, classes: int = len(NAMES), width: int = WIDTH) -> tuple[Array, Array]:
    """Return rows of length 1 scattered around class centres, and the class index of each."""
    generator = np.random.default_rng([seed, classes, width])
    centres = generator.normal(size=(classes, width))
    y = generator.integers(0, classes, size=count)
    X = centres[y] + 0.7 * generator.normal(size=(count, width))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def easy_rows(count: int) -> tuple[Array, Array]:
    """Return rows of length 1 near the coordinate axes, one axis for each of five classes.

    The class index of each row is returned too.
    """
    generator = np.random.default_rng(19)
    y = generator.integers(0, len(NAMES), size=count)
    X = np.eye(len(NAMES))[y] + 0.05 * generator.normal(size=(count, len(NAMES)))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def pick_names(row: int) -> list[str]:
    """Return one to four of the class names, chosen by the index of a row."""
    return [name for position, name in enumerate(NAMES) if (1 + row % 30) >> position & 1]


def play(learner: Learner, X: Any, y: Array) -> list[tuple[Any, ...]]:
    """Decide on and learn from labelled rows; return the choice, propensity and notes of each decision."""
    decisions = []
    for x, label in zip(X, y, strict=True):
        decision = learner.decide(x)
        learner.learn(decision, label=learner.classes[label])
        decisions.append((decision.label, decision.greedy, decision.propensity, decision.weight, decision.notes))
    return decisions


def train(factory: Factory, count: int = 60, **options: Any) -> Learner:
    """Return a learner that has learnt from `count` rows."""
    learner = factory(classes=NAMES, **options)
    play(learner, *rows(count))
    return learner


def state(learner: Learner) -> dict[str, Any]:
    """Return the complete state of a learner, to compare learners."""
    manifest, arrays = dump_state(learner.runtime)
    return {**manifest, **{name: array.tobytes() for name, array in arrays.items()}}


def list_spaces(factory: Factory) -> tuple[str, ...]:
    """Return the spaces that a learner supports; one with full matrices takes only dense rows."""
    try:
        factory(classes=NAMES, features=WIDTH, space="sparse")
    except OnebitError:
        return ("dense",)
    return ("dense", "sparse")


def refused(action: Callable[[], object]) -> str:
    """Return the message of the error that an action raises; fail if it raises none."""
    try:
        action()
    except OnebitError as error:
        return str(error)
    raise AssertionError("expected an OnebitError, but none was raised")
