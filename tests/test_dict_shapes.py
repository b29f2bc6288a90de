"""Dicts whose names came before in the same order: read as any other dict is, bit for bit, and refused with the same words."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from onebit import dict_shapes
from onebit.dict_shapes import DictShapes
from onebit.errors import InputError
from onebit.features import Features
from onebit.learner import Learner

NAMES = ["speed", "Ünicode", "b", "a", "", "zeta", "n10", "n9"]


def features(hash_bits: int | None, dtype: str) -> Features:
    made = Features(None, None, dtype, False, hash_bits)
    made.settle({"a": 1.0})
    return made


def rows(count: int) -> list[dict[str, Any]]:
    draw = random.Random(1)
    numbers = [-0.0, 0.0, 1, 2**60, -7, 0.1, 1e15, 5e-324]
    return [{name: draw.choice([*numbers, draw.gauss(0.0, 1.0)]) for name in NAMES} for _ in range(count)]


def bits(found: Any) -> Any:
    return found.columns.tolist(), found.values.tobytes(), found.values.dtype, found.starts.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("hash_bits", [None, 20])
def test_the_same_row_and_the_same_copy(hash_bits: int | None, dtype: str) -> None:
    quick, slow = features(hash_bits, dtype), features(hash_bits, dtype)
    quick.row(quick.keep(rows(1)[0]), grow=True)
    for x in rows(200):
        wanted = slow.keep(x)
        found = quick.read_known(x)
        assert found is not None
        kept, row = found
        assert kept is not x
        assert isinstance(kept, dict)
        assert isinstance(wanted, dict)
        assert list(kept.items()) == list(wanted.items())
        assert {type(value) for value in kept.values()} == {float}
        assert bits(row) == bits(slow.row(wanted, grow=True))
        assert quick.recent_row(kept) is row


@pytest.mark.parametrize(
    "x",
    [
        dict.fromkeys(reversed(NAMES), 1.0),
        dict.fromkeys(NAMES[:-1], 1.0),
        {**dict.fromkeys(NAMES, 1.0), "n9": float("nan")},
        {**dict.fromkeys(NAMES, 1.0), "n9": -1e39},
        {**dict.fromkeys(NAMES, 1.0), "n9": True},
        {**dict.fromkeys(NAMES, 1.0), "n9": np.float32(2.0)},
        {**dict.fromkeys(NAMES, 1.0), "n9": Fraction(1, 3)},
        {**dict.fromkeys(NAMES, 1.0), "n9": 10**400},
        {**dict.fromkeys(NAMES, 1.0), "n9": "1"},
        "a text",
    ],
    ids=str,
)
def test_whatever_else_is_read_name_by_name(x: Any) -> None:
    made = features(None, "float32")
    made.row(made.keep(rows(1)[0]), grow=True)
    assert made.read_known(x) is None


def test_names_that_share_a_column_have_no_shape() -> None:
    made = features(1, "float32")
    made.row(made.keep(rows(1)[0]))
    assert made.read_known(rows(1)[0]) is None


def test_a_shape_is_forgotten_with_its_names() -> None:
    """What a refused row brought gets other columns when other names come first."""
    learner = Learner("banditron", classes=2)
    first, second = {"a": 1.0}, {"c": 1.0, "b": 1e30}
    learner.learn(learner.decide(first), right=True)
    for _ in range(2):
        with pytest.raises(InputError, match="x is too long for float32 weights"):
            learner.learn(learner.from_log(second, 0, propensity=1.0), right=True)
    learner.learn(learner.decide({"b": 2.0, "c": 3.0}), right=True)
    learner.learn(learner.decide({"c": 1.0, "b": 1.0}), right=True)
    assert learner.runtime.features.vocabulary == {"a": 0, "b": 1, "c": 2}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dict_shapes, "MOST_NAMES", 10)
    shapes = DictShapes(hashed=False)
    for number in range(200):
        x = dict.fromkeys(range(number, number + 3), 1.0)
        shapes.remember(x, np.arange(3, dtype=np.int32), lambda name, first=number: name - first)  # type: ignore[arg-type,misc]
    assert len(shapes._known) == 3
