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
from onebit.named_features import NameOrder

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
    """Also with fewer names, and with names in another order, of which no shape is remembered once there are many."""
    quick, slow = features(hash_bits, dtype), features(hash_bits, dtype)
    quick.row(quick.keep(rows(1)[0]), grow=True)
    slow.row(slow.keep(rows(1)[0]), grow=True)
    quick.read_known(rows(1)[0])  # looks at the order of the names
    draw = random.Random(2)
    for number, whole in enumerate(rows(400)):
        names = draw.sample(NAMES, draw.randint(0, len(NAMES))) if number % 2 else NAMES
        x = {name: whole[name] for name in names}
        wanted = slow.keep(x)
        found = quick.read_known(x)
        assert found is not None
        kept, row = found
        assert kept is not x
        assert isinstance(kept, dict)
        assert isinstance(wanted, dict)
        assert list(kept.items()) == list(wanted.items())
        assert {type(value) for value in kept.values()} <= {float}
        assert bits(row) == bits(slow.row(wanted, grow=True))
        assert quick.recent_row(kept) is row


@pytest.mark.parametrize(
    "x",
    [
        {**dict.fromkeys(NAMES, 1.0), "new": 1.0},
        {**dict.fromkeys(NAMES, 1.0), "n9": float("nan")},
        {**dict.fromkeys(NAMES, 1.0), "n9": -1e39},
        {**dict.fromkeys(NAMES, 1.0), "n9": 1e25},  # whose square is too large
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
    made.read_known(rows(1)[0])
    assert made.read_known(rows(1)[0]) is not None
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
    shapes, places = DictShapes(hashed=False), (np.arange(3, dtype=np.int32), np.arange(3))
    for number in range(200):
        assert shapes.read(dict.fromkeys(range(number, number + 3), 1.0), np.dtype("float32"), 3, lambda x: places)
    assert len(shapes._known) == 3


def test_the_order_of_names_is_found_anew_as_the_vocabulary_grows() -> None:
    order = NameOrder()
    vocabulary: dict[str, int] = {}
    draw, quick = random.Random(3), 0
    for number in range(300):
        vocabulary.setdefault(f"n{draw.randrange(10**6)}", len(vocabulary))
        names = draw.sample(list(vocabulary), draw.randint(1, len(vocabulary)))
        found = order.places(names, len(names), vocabulary)
        if found is not None:
            quick += 1
            assert [names[place] for place in found[1]] == sorted(names), number
            assert found[0].tolist() == [vocabulary[name] for name in sorted(names)]
    assert quick > 40
    order.forget()
    assert order.places(names, len(names), vocabulary) is None
