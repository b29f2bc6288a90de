"""Names and words read many at a time: the same columns and values as one after the other, bit for bit, for any Unicode."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from onebit.contract.options import Options
from onebit.errors import InputError
from onebit.features import named
from onebit.features.features import Features
from onebit.features.named import NameOrder, hash_row, list_words, read_dict, read_text
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner
from onebit.learner.state import dump_state
from onebit.spaces.sparse import SparseRows

FLOAT64 = np.dtype(np.float64)
LETTERS = [chr(one) for one in range(128)] * 3 + list("äÖßéİıſǅΣς中文字٣²\u2028\x85\U0001d538")


def slow_names(kept: Any) -> dict[str, float]:
    if isinstance(kept, str):
        words = sorted(set(re.findall(r"\w+", kept.lower())))
        return dict.fromkeys(words, 1.0 / math.sqrt(len(words))) if words else {}
    return {name: kept[name] for name in sorted(kept)}


def slow_hashed(kept: Any, columns: int) -> tuple[list[int], list[float]]:
    summed: dict[int, float] = {}
    for name, value in slow_names(kept).items():
        column = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") % columns
        summed[column] = summed.get(column, 0.0) + value
    return sorted(summed), [summed[column] for column in sorted(summed)]


def slow_learnt(kept: Any, vocabulary: dict[str, int], grow: bool) -> tuple[list[int], list[float]]:
    named = slow_names(kept)
    for name in named if grow else ():
        vocabulary.setdefault(name, len(vocabulary))
    fresh = itertools.count(len(vocabulary))
    return [vocabulary[name] if name in vocabulary else next(fresh) for name in named], list(named.values())


def examples(count: int) -> list[Any]:
    draw = random.Random(0)
    made: list[Any] = ["", {}, "ALL ASCII, all_of it 4 2", "ΣΑΣ ΣΑΣ", {"a": -0.0}]
    for number in range(count):
        letters = LETTERS if number % 4 < 2 else LETTERS[:384]
        if number % 2:
            made.append("".join(draw.choices(letters, k=draw.randrange(200))))
        else:
            names = ["".join(draw.choices(letters, k=draw.randrange(4))) for _ in range(draw.randrange(60))]
            made.append({name: draw.choice([-0.0, 0.0, 1.5, draw.gauss(0.0, 1.0)]) for name in names})
    return made


def same(found: Any, wanted: Any) -> bool:
    alike = (
        found.columns.dtype == np.int32
        and found.columns.tolist() == wanted[0]
        and max(wanted[0], default=0) <= found.width
    )
    return bool(alike and found.values.tobytes() == np.array(wanted[1], dtype=np.float64).tobytes())


def test_any_dict_and_any_text_is_read_as_one_name_after_the_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "MOST_CACHED_HASHES", 500)  # so that it is full now and then
    order = NameOrder()
    here: dict[str, int] = {}
    there: dict[str, int] = {}
    for number, kept in enumerate(examples(400)):
        row = read_text(kept) if isinstance(kept, str) else read_dict(kept, 1e300)
        for columns in (4, 64, 1 << 18):  # with names that share a column, and without
            assert same(hash_row(row, columns, FLOAT64), slow_hashed(kept, columns)), kept
        assert same(
            order.build_sparse_row(row, here, number % 3 > 0, FLOAT64), slow_learnt(kept, there, number % 3 > 0)
        ), kept
        if isinstance(kept, str):
            assert list_words(kept) == list(slow_names(kept))
    assert list(here.items()) == list(there.items())
    assert len(named._hash_cache) <= 500


NAMES = ["speed", "Ünicode", "b", "a", "", "zeta", "n10", "n9"]


def rows(count: int) -> list[dict[str, Any]]:
    draw = random.Random(1)
    numbers = [-0.0, 0.0, 1, 2**60, -7, 0.1, 1e15, 5e-324, True, np.float32(2.0), Fraction(1, 3)]
    return [{name: draw.choice([*numbers, draw.gauss(0.0, 1.0)]) for name in NAMES} for _ in range(count)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("hash_bits", [None, 1, 20])
def test_the_row_and_the_copy_of_a_dict_of_numbers_of_any_kind(hash_bits: int | None, dtype: str) -> None:
    """Also with fewer names, and with names in another order."""
    features = Features(Options(dtype=dtype, hash_bits=hash_bits))
    features.fix_form({"a": 1.0})
    features.read(dict.fromkeys(NAMES, 1.0), grow=True)
    vocabulary = {name: column for column, name in enumerate(sorted(NAMES))}
    draw = random.Random(2)
    for number, whole in enumerate(rows(400)):
        names = draw.sample(NAMES, draw.randint(0, len(NAMES))) if number % 2 else NAMES
        x = {name: whole[name] for name in names}
        kept, row = features.read(x)
        assert kept is not x
        assert isinstance(kept, dict)
        assert list(kept.items()) == [(name, float(value)) for name, value in x.items()]
        assert {type(value) for value in kept.values()} <= {float}
        wanted = slow_learnt(kept, vocabulary, False) if hash_bits is None else slow_hashed(kept, 1 << hash_bits)
        assert isinstance(row, SparseRows)
        assert row.columns.tolist() == wanted[0]
        assert row.values.tobytes() == np.array(wanted[1]).astype(dtype).tobytes()
        assert row.starts.tolist() == [0, len(wanted[0])]
    assert features.vocabulary == (vocabulary if hash_bits is None else None)


def test_names_that_a_refused_row_brought_are_forgotten() -> None:
    """They get other columns when other names come first."""
    learner = Learner("banditron", classes=2)
    first, second = {"a": 1.0}, {"c": 1.0, "b": 1e30}
    learner.learn(learner.decide(first), right=True)
    for _ in range(2):
        with pytest.raises(InputError, match="x is too long for float32 weights"):
            learner.learn(learner.from_log(second, 0, propensity=1.0), right=True)
    learner.learn(learner.decide({"b": 2.0, "c": 3.0}), right=True)
    learner.learn(learner.decide({"c": 1.0, "b": 1.0}), right=True)
    assert learner.runtime.features.vocabulary == {"a": 0, "b": 1, "c": 2}


def test_the_order_of_names_is_found_anew_as_the_vocabulary_grows() -> None:
    order = NameOrder()
    vocabulary: dict[str, int] = {}
    draw = random.Random(3)
    for number in range(300):
        vocabulary.setdefault(f"n{draw.randrange(10**6)}", len(vocabulary))
        x = {name: float(column) for column, name in enumerate(draw.sample(list(vocabulary), len(vocabulary) // 2))}
        found = order.build_sparse_row(read_dict(x, 1e300), vocabulary, False, FLOAT64)
        assert found.columns.tolist() == [vocabulary[name] for name in sorted(x)], number
        assert found.values.tolist() == [x[name] for name in sorted(x)]
    assert len(order._ranks) > 200
    order.clear()
    assert len(order._ranks) == 0


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        ({"a": 1.0, "b": math.nan}, "'b' is nan"),
        ({"a": math.inf, "b": -math.inf}, "'a' is inf"),
        ({"a": 1.0, "b": 1e39}, "at most"),
        ({"a": 1.0, "b": -1e39}, "at most"),
        ({"a": 1.0, "b": 10**400}, "'b' is inf"),
        ({"a": 1.0, "b": "1"}, "must be a number"),
        ({"a": 1.0, "b": Decimal(1)}, "must be a number"),
        ({"a": 1.0, 2: 1.0}, "named 2"),
        ({"a": 1.0, "\ud800": 1.0}, "Unicode"),
    ],
    ids=str,
)
def test_one_bad_name_or_number_among_good_ones_is_found(x: dict[Any, Any], sentence: str) -> None:
    for hash_bits in (None, 20):
        features = Features(Options(hash_bits=hash_bits))
        features.fix_form({"a": 1.0})
        for _ in range(2):
            with pytest.raises(InputError, match=sentence):
                features.read(x)
            features.read({"a": 1.0, "b": 1.0}, grow=True)


def test_numbers_whose_sum_is_none_are_good_one_by_one() -> None:
    assert read_dict({"a": 1.7e308, "b": 1.7e308}, 1.8e308).stored_x == {"a": 1.7e308, "b": 1.7e308}


def arrays(learner: Learner) -> Any:
    return {name: array.tobytes() for name, array in dump_state(learner.runtime)[1].items()}


@pytest.mark.parametrize("options", [{}, {"hash_bits": 8}], ids=["a vocabulary", "hashed"])
def test_a_dict_that_was_altered_after_the_decision_is_read_again(options: dict[str, Any]) -> None:
    learner = Learner("bpa", classes=2, **options)
    for _ in range(3):
        learner.learn(learner.decide({"a": 1.0, "b": 0.5}), right=True)
    decision = learner.decide({"a": 1.0, "b": 0.5})
    there = copy_learner(learner)
    decision.x["b"] = 4.0  # type: ignore[index]
    learner.learn(decision, right=False)
    there.learn(Decision.from_json(decision.to_json()), right=False)
    assert arrays(learner) == arrays(there)
