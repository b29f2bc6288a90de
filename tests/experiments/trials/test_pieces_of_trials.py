"""Trials on streams in pieces: the outcomes are those of streams that are held, and memory does not grow with the rounds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import rows, state
from onebit.data import streams, synthetic
from onebit.data.streams import Stream, stream
from onebit.errors import OutOfMemoryError
from onebit.experiments.executors import threads as threads_module
from onebit.experiments.executors.threads import execute
from onebit.experiments.trials import Outcome, Trial, make_entry, shared_data
from onebit.experiments.trials.shared_data import group_by_data
from onebit.theory.margins import margin

X, Y = rows(60)
ENTRIES = [
    make_entry("bpa"),
    make_entry("gaptron", {"bias": True}),
    make_entry("banditron", {"exploration": 0.3, "dtype": "float64"}),
    make_entry("perceptron", {"kernel": "rbf:0.5", "max_support": 30}),
    make_entry("linucb", {"space": "sparse", "matrix": "diagonal"}),
]
STREAMS = {
    "drawn": stream("synsep9", rounds=331),
    "drawn, prepared, with noise and drift": stream(
        "synnonsep9", rounds=331, prepare="standard,unit-norm", noise=0.1, drift="gradual"
    ),
    "drawn, late": stream("synsep9", rounds=331, delay="heavy-tail:9", missing=0.1),
    "drawn, shuffled": stream("synsep9", rounds=331, order="shuffle", delay=30),
    "given, shuffled": stream(X, Y, rounds=400, noise=0.1),
    "given, in the order of the file, late": stream(X, Y, rounds=331, order="file", delay="geometric:20"),
    "given, with other names": stream(X, [f"class {label}" for label in Y], rounds=200, order="resample"),
}


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def cut() -> None:
        monkeypatch.setattr(shared_data, "HELD_BYTES", 0)
        monkeypatch.setattr(synthetic, "PIECE_VALUES", 16_000)  # 40 rows of 400
        monkeypatch.setattr(streams, "PIECE_ROUNDS", 37)

    return cut


def outcomes(trials: list[Trial], threads: int, progress: Callable[[int], None] = lambda count: None) -> list[Outcome]:
    found = {one.trial.identity: one for one in execute(group_by_data(trials), threads, progress)}
    return [found[trial.identity] for trial in trials]


def shown(one: Outcome) -> tuple[Any, ...]:
    assert one.learner is not None, one.why
    return one.tally.mistakes.tolist(), one.tally.curve.tolist(), {**state(one.learner), "identity": ""}


@pytest.mark.parametrize("name", STREAMS)
def test_outcomes_are_those_of_streams_that_are_held(name: str, in_pieces: Callable[[], None]) -> None:
    trials = [Trial(entry, STREAMS[name], seed) for seed in range(2) for entry in ENTRIES]
    held = [shown(one) for one in outcomes(trials, 2)]
    in_pieces()
    for threads in (1, 3):
        told: list[int] = []
        assert [shown(one) for one in outcomes(trials, threads, told.append)] == held
        assert sum(told) == sum(trial.stream.rounds for trial in trials)
    assert len({str(one[0]) for one in held}) > 4, "or this shows little"


def test_one_that_fails_does_not_stop_those_beside_it(in_pieces: Callable[[], None]) -> None:
    entries = [make_entry("bpa"), make_entry("bpa", {"kernel": "rational"}), make_entry("bpa", {"features": 7})]
    one = stream("synsep10", rounds=200)
    trials = [Trial(entry, one, 0) for entry in entries]
    held = outcomes(trials, 1)
    in_pieces()
    told: list[int] = []
    found = outcomes(trials, 1, told.append)
    assert [str(outcome.why) for outcome in found[:2]] == [str(outcome.why) for outcome in held[:2]]
    assert str(found[2].why).endswith("but must have 7 columns")
    assert [outcome.why is None for outcome in found] == [True, False, False]
    assert sum(told) == 600


def test_rows_are_drawn_once_for_trials_side_by_side(
    in_pieces: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_pieces()
    drawn: list[int] = []
    whole = Stream.pieces

    def counted(self: Stream, seed: int, *rest: Any) -> Any:
        drawn.append(seed)
        return whole(self, seed, *rest)

    monkeypatch.setattr(Stream, "pieces", counted)
    entries = [make_entry("bpa", {"exploration": 0.1 + 0.01 * number}) for number in range(6)]
    trials = [Trial(entry, STREAMS["drawn"], seed) for seed in range(3) for entry in entries]
    outcomes(trials, 1)
    assert drawn == [0, 1, 2]
    drawn.clear()
    outcomes(trials[:6], 2)
    assert drawn == [0, 0], "each of two threads takes half of the trials"
    drawn.clear()
    monkeypatch.setattr(threads_module, "SIDE_BY_SIDE", 2)
    outcomes(trials[:6], 1)
    assert drawn == [0, 0, 0]


# --- memory ------------------------------------------------------------------------------------------------------------


def peak(**settings: Any) -> int:
    """The most bytes that a run has at a time, NumPy's among them."""
    tracemalloc.start()
    try:
        onebit.run("banditron", threads=2, **settings)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("settings", "bytes_a_round"),
    [
        ({"X": "synsep10", "runs": 2}, 800),
        ({"X": "synsep10", "delay": "geometric:20", "missing": 0.01}, 500),
        ({"X": "weak2d", "noise": 0.1}, 30),
        ({"X": X, "y": Y, "noise": 0.1}, 30),
    ],
)
def test_memory_does_not_grow_with_the_rounds(
    settings: dict[str, Any], bytes_a_round: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is made at once takes so many bytes a round at least, which the versions before this one did."""
    monkeypatch.setattr(shared_data, "HELD_BYTES", 2_000_000)
    short = 60_000 if bytes_a_round > 100 else 400_000
    long = 4 * short
    onebit.run("banditron", **{**settings, "rounds": 1000, "runs": 1})  # compiled, and what is made once is made
    # How many pieces the threads hold at once is up to chance, so the least of three is what a run needs.
    growth = min(peak(rounds=long, **settings) - peak(rounds=short, **settings) for _ in range(3))
    assert growth < 6_000_000 < (long - short) * bytes_a_round


# --- what does not fit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"order": "shuffle", "runs": 2, "threads": 2},
            r"^synsep10 with 1,000,000 rounds, 2 runs of it at a time, whose rows must all be in memory at once, needs 848 MB of memory, "
            r"but only 100 MB is free: take fewer rounds, or fresh rows in the order in which they are drawn, or fewer threads$",
        ),
        (
            {"order": "resample"},
            "whose rows must all be in memory at once, needs 408 MB of memory, but only 100 MB",
        ),
        (
            {"delay": 400_000},
            r"^synsep10 \(delay fixed:400000\) with .*, whose feedback comes late, needs 1.2 GB of memory",
        ),
        (
            {"learner": "perceptron", "kernel": "rbf", "max_support": None},
            "may store all of 1,000,000 rows, needs .* MB .*: set max_support",
        ),
        ({"X": X, "y": Y, "rounds": 10**9, "delay": 10**8}, "whose feedback comes late, needs 51.2 GB of memory"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_drawn(
    settings: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onebit.contract.memory.available_memory", lambda: 100_000_000)
    monkeypatch.setattr(synthetic, "PIECE_VALUES", 4_000)
    given = {"learner": "banditron", "X": "synsep10", "rounds": 1_000_000, **settings}
    with pytest.raises(OutOfMemoryError, match=sentence):
        onebit.run(given.pop("learner"), given.pop("X"), given.pop("y", None), **given)


def test_what_is_walked_in_pieces_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onebit.contract.memory.available_memory", lambda: 20_000_000)
    assert onebit.run("banditron", "synsep10", rounds=130_000, delay=20).rounds == 130_000


def test_a_comparison_is_refused_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onebit.contract.memory.available_memory", lambda: 100_000_000)
    with pytest.raises(
        OutOfMemoryError, match=r"^synsep10 with 1,000,000 rounds, 3 runs of it at a time, .* needs 1.3 GB"
    ):
        onebit.compare("synsep10", ["banditron"], rounds=1_000_000, order="shuffle", runs=4, threads=3, on="threads")


def test_a_copy_of_large_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table, labels = rows(60_000, width=50)
    monkeypatch.setattr("onebit.contract.memory.available_memory", lambda: 20_000_000)
    sentence = r"^a copy of all 60,000 rows, dense and in float64, needs 24 MB of memory, but only 20 MB is free: use the dtype and space of the rows"
    with pytest.raises(OutOfMemoryError, match=sentence):
        onebit.run("banditron", table.astype(np.float32), labels, rounds=100, dtype="float64")
    assert onebit.run("banditron", table.astype(np.float32), labels, rounds=100).rounds == 100


@pytest.mark.parametrize("what", ["margin", "data", "schedule"])
def test_whoever_needs_all_rows_at_once_is_told(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onebit.contract.memory.available_memory", lambda: 100_000_000)
    late = stream(X, Y, rounds=10**7, delay=1)
    calls: dict[str, Callable[[], object]] = {
        "margin": lambda: margin("synsep10", rounds=10**6),
        "data": lambda: stream("synsep10", rounds=10**6).data(0),
        "schedule": lambda: late.schedule(late.data(0), 0),
    }
    with pytest.raises(
        OutOfMemoryError, match=r"at once, needs .* of memory, but only 100 MB is free: take fewer rounds"
    ):
        calls[what]()


def test_a_kernel_that_grows_out_of_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the machine was not as empty as it seemed."""
    generator = np.random.default_rng(0)
    table, labels = generator.normal(size=(500, 5)).astype(np.float32), generator.integers(0, 5, 500)
    monkeypatch.setattr("onebit.contract.memory.NEGLIGIBLE", 0)
    monkeypatch.setattr("onebit.contract.memory.available_memory", lambda: 10_000)
    with pytest.raises(
        OutOfMemoryError, match=r"^storing more rows needs .* of memory, but only .* is free: set max_support$"
    ):
        onebit.run("banditron", table, labels, kernel="rbf:0.5", max_support=1000, order="file")
