"""Names and words read many at a time: the same columns and values as one after the other, bit for bit, for any Unicode."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from typing import Any

import numpy as np
import pytest

from onebit import named_features
from onebit.decision import Decision
from onebit.errors import InputError
from onebit.learner import Learner, copy_of
from onebit.named_features import hashed_entries, kept_names, learnt_entries, words_in
from onebit.state import state_of

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
    columns, values = found
    alike = columns.dtype == np.int32 and columns.tolist() == wanted[0]
    return bool(alike and values.tobytes() == np.array(wanted[1], dtype=np.float64).tobytes())


def test_any_dict_and_any_text_is_read_as_one_name_after_the_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_features, "REMEMBERED", 500)  # so that it is full now and then
    here: dict[str, int] = {}
    there: dict[str, int] = {}
    for number, kept in enumerate(examples(400)):
        for columns in (4, 64, 1 << 18):  # with names that share a column, and without
            assert same(hashed_entries(kept, columns), slow_hashed(kept, columns)), kept
        assert same(learnt_entries(kept, here, number % 3 > 0), slow_learnt(kept, there, number % 3 > 0)), kept
        if isinstance(kept, str):
            assert words_in(kept) == list(slow_names(kept))
    assert list(here.items()) == list(there.items())
    assert len(named_features._known) <= 500


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        ({"a": 1.0, "b": math.nan}, "'b' is nan"),
        ({"a": math.inf, "b": -math.inf}, "'a' is inf"),
        ({"a": 1.0, "b": 1e39}, "at most"),
        ({"a": 1.0, "b": -1e39}, "at most"),
        ({"a": 1.0, "b": "1"}, "must be a number"),
        ({"a": 1.0, 2: 1.0}, "called 2"),
        ({"a": 1.0, "\ud800": 1.0}, "Unicode"),
    ],
    ids=str,
)
def test_one_bad_name_or_number_among_good_ones_is_found(x: dict[Any, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        kept_names(x, 3e38)


def test_numbers_whose_sum_is_none_are_good_one_by_one() -> None:
    assert kept_names({"a": 1.7e308, "b": 1.7e308}, 1.8e308) == {"a": 1.7e308, "b": 1.7e308}


def arrays(learner: Learner) -> Any:
    return {name: array.tobytes() for name, array in state_of(learner.runtime)[1].items()}


@pytest.mark.parametrize("options", [{}, {"hash_bits": 8}], ids=["a vocabulary", "hashed"])
def test_a_dict_that_was_altered_after_the_decision_is_read_again(options: dict[str, Any]) -> None:
    """What was just decided on is not read twice, unless somebody has changed it meanwhile."""
    learner = Learner("bpa", classes=2, **options)
    for _ in range(3):
        learner.learn(learner.decide({"a": 1.0, "b": 0.5}), right=True)
    decision = learner.decide({"a": 1.0, "b": 0.5})
    there = copy_of(learner)
    decision.x["b"] = 4.0  # type: ignore[index]
    learner.learn(decision, right=False)
    there.learn(Decision.from_json(decision.to_json()), right=False)
    assert arrays(learner) == arrays(there)
