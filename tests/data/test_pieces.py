"""Streams in pieces: what comes is what came when all was made at once, bit for bit, however it is cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.data import plane, stream_changes, streams, synthetic
from onebit.data.dataset import Dataset
from onebit.data.preparation import prepare_rows
from onebit.data.sources import GENERATORS, source_of
from onebit.data.streams import Stream, stream
from onebit.engine.schedule import Schedule
from onebit.engine.stream import EVENT
from onebit.errors import InputError
from onebit.experiments.trials import shared_data
from onebit.rules import rule_named
from tests.data.drawn_at_once import AT_ONCE

SOME = np.random.default_rng(0).normal(size=(103, 3)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 3, 103)

ways: dict[str, dict[str, Any]] = {
    "plain": {},
    "noise": {"noise": 0.2},
    "drift": {"drift": "gradual"},
    "both": {"noise": 0.1, "drift": "abrupt:0.3"},
    "late": {"delay": 7},
    "geometric": {"delay": "geometric:9", "noise": 0.1},
    "heavy tail": {"delay": "heavy-tail:5", "missing": 0.2},
    "very late": {"delay": 400},
    "missing": {"missing": 0.4, "drift": "abrupt"},
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces so small that short streams have many."""
    monkeypatch.setattr(synthetic, "PIECE_VALUES", 4_000)  # 40 rows of 100
    monkeypatch.setattr(stream_changes, "DRAWS_AT_ONCE", 64)
    monkeypatch.setattr(streams, "PIECE_ROUNDS", 50)


def joined(pieces: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
    rows, labels = zip(*pieces, strict=True)
    return np.concatenate(rows), np.concatenate(labels)


# --- generators --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("rounds", [1, 39, 40, 41, 1003])
@pytest.mark.parametrize("name", AT_ONCE)
def test_pieces_are_what_the_formulas_draw_at_once(name: str, rounds: int) -> None:
    """An odd number of labels leaves half a word of the generator for the floats that come after them."""
    for seed in (0, 3):
        x, y = AT_ONCE[name](rounds, seed)
        pieces = list(GENERATORS[name].make.pieces(rounds, seed))
        assert len(pieces) == -(-rounds // (40 if GENERATORS[name].features == 100 else 10))
        for found in (joined(pieces), GENERATORS[name].make(rounds, seed)):
            assert np.array_equal(found[0], x)
            assert np.array_equal(found[1], y)


@pytest.mark.parametrize("name", [name for name in GENERATORS if name not in AT_ONCE])
def test_pieces_of_the_plane_are_all_its_rows(name: str) -> None:
    rounds = 3 * plane._BATCH
    x, y = GENERATORS[name].make(rounds, 2)
    pieces = list(GENERATORS[name].make.pieces(rounds, 2))
    assert len(pieces) > 3
    found = joined(pieces)
    assert np.array_equal(found[0], x)
    assert np.array_equal(found[1], y)
    short, labels = GENERATORS[name].make(1000, 2)
    assert np.array_equal(short, x[:1000])
    assert np.array_equal(labels, y[:1000])


@pytest.mark.usefixtures("small")
def test_prepared_rows_are_held_at_once() -> None:
    """A step may have to look at all of them first."""
    source = source_of("weak2d", prepare="standard")
    raw = source_of("weak2d").make(200, 3)
    assert source.pieces is None
    assert np.array_equal(source.make(200, 3).X, prepare_rows(raw.X, "standard"))


# --- schedules ---------------------------------------------------------------------------------------------------------


def given(kind: str, rounds: int, order: str, way: str) -> Stream:
    data = (SOME, LABELS) if kind == "given" else ("synnonsep10",)
    return stream(*data, rounds=rounds, order=order, **ways[way])


def at_once(one: Stream, seed: int) -> tuple[Dataset, Schedule]:
    data = one.data(seed)
    return data, one.schedule(data, seed)


def happened(parts: Iterable[tuple[Dataset, Schedule]]) -> list[tuple[int, int, bytes, int]]:
    """Step by step: which round, what is done, on which x, and its label."""
    found = []
    for data, schedule in parts:
        assert all(np.diff(schedule.numbers) > 0)
        for step in range(schedule.steps):
            event = int(schedule.events[step]) if len(schedule.events) else step * EVENT + 3
            here = event // EVENT
            x = np.asarray(data.X[schedule.row(step, data.rows)]).tobytes()
            found.append((schedule.number(here), event % EVENT, x, int(schedule.labels[here])))
    return found


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", ways)
@pytest.mark.parametrize("order", ["file", "shuffle", "resample"])
@pytest.mark.parametrize("kind", ["given", "drawn"])
def test_pieces_are_the_whole_stream(kind: str, order: str, way: str) -> None:
    for rounds in (1, 50, 611):
        one = given(kind, rounds, order, way)
        parts = list(one.pieces(5))
        assert happened(parts) == happened([at_once(one, 5)])
        schedules = [schedule for _, schedule in parts]
        assert sum(schedule.rounds for schedule in schedules) == rounds
        assert [schedule.part.last for schedule in schedules] == [False] * (len(parts) - 1) + [True]
        assert all(before.part.first + before.rounds == after.part.first for before, after in pairwise(schedules))
        learnt = np.concatenate([schedule.learnt for schedule in schedules])
        assert learnt.tolist() == at_once(one, 5)[1].learnt.tolist()
        if rounds == 611 and way != "very late":
            assert len(parts) > 5


@pytest.mark.usefixtures("small")
def test_what_waits_is_copied_in_proportion_to_the_rounds() -> None:
    """With a delay of many pieces, parts grow: else each of them would carry all rows that wait."""
    carried = [len(schedule.part.waiting) for _, schedule in given("drawn", 4000, "file", "very late").pieces(0)]
    assert max(carried) == 400
    assert sum(carried) < 4.5 * 4000


@pytest.mark.usefixtures("small")
def test_stepping_by_hand_holds_one_piece() -> None:
    rounds = stream("synsep10", rounds=10**12)  # all rows would be 400 TB
    for x, right in islice(rounds, 100):
        assert x.shape == (100,)
        assert [right(label) for label in range(10)].count(True) == 1


def test_rows_that_are_not_held_have_numbers_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence about a row names it as it comes, not as it lies in its piece."""
    monkeypatch.setattr(shared_data, "HELD_BYTES", 0)
    monkeypatch.setattr(synthetic, "PIECE_VALUES", 4_000)
    x, _ = synthetic.synsep10(2000, 0)
    lengths = np.linalg.norm(x[1:], axis=1)
    limit = float(np.sort(lengths)[-3])
    first = 1 + int(np.flatnonzero(lengths > limit)[0])
    assert first > 40
    rule = replace(rule_named("banditron"), name="short-rows", largest_norm=lambda params: limit**2)
    with pytest.raises(InputError, match=rf"^row {first}: "):
        onebit.run(rule, "synsep10", rounds=2000)
    with pytest.raises(InputError, match=rf"^row {first}: "):
        onebit.run(rule, "synsep10", rounds=2000, delay=3)
