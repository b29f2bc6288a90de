"""The memory of a learner, estimated before it is made: the bytes of its arrays, for every rule in every space."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from onebit.engine.compile import spaces_of
from onebit.errors import OnebitError
from onebit.learner.learner import Learner
from onebit.rules import registry
from tests.learner.learners import fresh as make


def bytes_in(part: Any) -> int:
    """The bytes of all arrays in a space, each once."""
    found: dict[int, int] = {}

    def look(one: Any) -> None:
        if isinstance(one, np.ndarray):
            found[id(one)] = one.nbytes
        elif isinstance(one, tuple):
            for inner in one:
                look(inner)

    look(part)
    return sum(found.values())


def actual(learner: Learner) -> int:
    return (
        bytes_in(learner.runtime.model.space)
        + learner.runtime.model.memory.nbytes
        + learner.runtime.model.buffers.nbytes
    )


def estimated(learner: Learner) -> int:
    return learner.runtime.model.size(
        len(learner.classes), learner.runtime.features.columns, learner.runtime.features.space == "dense"
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing need be compiled to be measured."""
    monkeypatch.setattr("onebit.learner.model.loop_for", lambda *given: None)


FORMS: list[dict[str, Any]] = [
    {"features": 3, "space": "dense"},
    {"features": 400, "space": "dense"},
    {"hash_bits": 6, "text": True},
    {"hash_bits": 6},
]
WAYS: list[dict[str, Any]] = [
    {},
    {"bias": True},
    {"dtype": "float64"},
    {"matrix": "full"},
    {"matrix": "diagonal"},
    {"kernel": "rbf:0.5", "max_support": 30},
]


@pytest.mark.parametrize("name", registry())
def test_the_estimate_is_the_bytes_of_the_arrays(name: str) -> None:
    compared = 0
    for classes in (2, 9, 60):
        for form in FORMS:
            for way in WAYS:
                try:
                    learner = make(name, classes, **form, **way)
                except OnebitError:
                    continue  # not every rule takes each of them
                assert estimated(learner) == actual(learner), (classes, form, way)
                compared += 1
    assert compared >= 12


@pytest.mark.parametrize("name", registry())
def test_the_layout_names_every_array_with_its_shape_and_dtype(name: str) -> None:
    for form in FORMS:
        for way in WAYS[:-1]:  # a kernel's layout is that of all rows that it may store
            try:
                model = make(name, 9, **form, **way).runtime.model
            except OnebitError:
                continue
            layout = model._blueprint().layout
            found = {array: attrgetter(array)(model.space) for array in layout.arrays}
            assert {array: (one.shape, one.dtype) for array, one in found.items()} == {
                array: (spec.shape, np.dtype(spec.dtype)) for array, spec in layout.arrays.items()
            }
            assert len({id(one) for one in found.values()}) == len(found)
            assert set(model.space.arrays(None)) == set(layout.saved)


@pytest.mark.parametrize("name", registry())
def test_with_more_classes_too(name: str) -> None:
    for form in FORMS:
        learner = make(name, 4, **form)
        columns, dense = learner.runtime.features.columns, learner.runtime.features.space == "dense"
        expected = learner.runtime.model.size(7, columns, dense)
        try:
            for number in range(4, 7):
                learner.add_class(number)
        except OnebitError:
            continue
        assert actual(learner) == expected, form


@pytest.mark.parametrize("form", FORMS)
def test_a_kernel_is_counted_as_full_as_it_may_become(form: dict[str, Any]) -> None:
    learner = make("banditron", 3, kernel="rbf:0.5", max_support=1000, **form)
    space = learner.runtime.model.space
    rows = space.example_rows(np.float32)
    while len(space.norms) < 1000:
        space = space._replace(counts=np.array([len(space.norms), 0])).with_more_room(rows)
    full = bytes_in(space) + learner.runtime.model.memory.nbytes + learner.runtime.model.buffers.nbytes
    entries = (
        0 if "features" in form else 8 * (2 * 1000 * 64) - 8 * len(space.entries)
    )  # rows of 64 values, and as much again
    assert estimated(learner) == full + entries


def test_every_space_is_compared() -> None:
    compared = set[type]()
    for name in registry():
        for form in FORMS:
            for way in WAYS:
                with suppress(OnebitError):
                    compared.add(type(make(name, 2, **form, **way).runtime.model.space))
    assert compared == {space for rule in registry().values() for space in spaces_of(rule)}


def test_nothing_is_allocated() -> None:
    learner = Learner("auto", classes=2)
    needed = learner.runtime.model.size(2, 2**40, dense=False)
    assert needed > 2**40 * 4 * 8 * 4
    assert learner.runtime.model.space is None
