"""Trials on threads: the same for any number of them, few data sets at a time, failures are outcomes, and nothing is left running."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import rows, state
from onebit.data.dataset import Dataset
from onebit.data.sources import Source
from onebit.data.streams import Stream, stream
from onebit.errors import OnebitError
from onebit.experiments.executors.threads import execute
from onebit.experiments.trials import Outcome, Trial, choose_marks, make_entry

X, Y = rows(60)


def grouped(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials as the scheduler wants them: together where they share stream and seed."""

    def shared(trial: Trial) -> tuple[int, int]:
        return id(trial.stream), trial.seed

    return [list(group) for _, group in groupby(sorted(trials, key=shared), key=shared)]


def outcomes(
    trials: Sequence[Trial], threads: int, progress: Callable[[int], None] = lambda count: None
) -> list[Outcome]:
    """What comes of trials, in their order."""
    found = {id(one.trial): one for one in execute(grouped(trials), threads, progress)}
    assert len(found) == len(trials)
    return [found[id(trial)] for trial in trials]


def fake(make: Callable[[int, int], Dataset], rounds: int = 50, fixed: bool = False) -> Stream:
    """A stream from a source of the test's own."""
    plan = stream("synsep9", rounds=rounds)
    source = Source("fake", fixed, rounds, make, dict)
    return Stream(source, rounds, "file", plan.noise, plan.drift, plan.delay, plan.missing, 0)


def some_rows(rounds: int, seed: int) -> Dataset:
    table, labels = rows(rounds, seed=seed)
    return Dataset(table, labels, tuple(range(5)))


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before, "no thread goes on in the dark"


# --- any number of threads ---------------------------------------------------------------------------------------------


def test_outcomes_are_the_same_for_any_number_of_threads() -> None:
    streams = [
        stream("synsep9", rounds=300, noise=0.1, delay="geometric:5"),
        stream(X, Y, rounds=200, order="shuffle"),
        stream("synsep9", rounds=150, order="resample"),
    ]
    entries = [
        make_entry("bpa"),
        make_entry("banditron", {"exploration": 0.3}),
        make_entry("perceptron"),
        make_entry("gaptron"),
    ]
    trials = [Trial(entry, one, seed) for one in streams for seed in range(4) for entry in entries]
    alone = outcomes(trials, 1)
    for threads in (2, 7, 100):
        for one, other in zip(alone, outcomes(trials, threads), strict=True):
            assert one.trial is other.trial
            assert one.tally.mistakes.tolist() == other.tally.mistakes.tolist()
            assert one.tally.curve.tolist() == other.tally.curve.tolist()
            assert one.learner is not None
            assert other.learner is not None
            assert {**state(one.learner), "identity": ""} == {**state(other.learner), "identity": ""}
            assert one.why is other.why is None
    assert len({tuple(one.tally.mistakes.tolist()) for one in alone}) > 30, "or this shows little"


def test_progress_adds_up_for_any_number_of_threads() -> None:
    trials = [
        Trial(make_entry("bpa"), stream("synsep9", rounds=1234, delay=delay), seed)
        for delay in (0, 50)
        for seed in (0, 1)
    ]
    for threads in (1, 3):
        seen: list[int] = []
        outcomes(trials, threads, seen.append)
        assert sum(seen) == 4 * 1234
        assert min(seen) >= 0


def test_the_curve_of_an_outcome_ends_with_its_mistakes() -> None:
    for rounds in (1, 2, 119, 120, 5000):
        (one,) = outcomes([Trial(make_entry("bpa"), stream("synsep9", rounds=rounds), 0)], 1)
        assert one.tally.marks.tolist() == choose_marks(rounds).tolist()
        assert (one.tally.marks[0], one.tally.marks[-1]) == (1, rounds)
        assert (np.diff(one.tally.marks) > 0).all()
        assert one.tally.curve[:, -1].tolist() == one.tally.mistakes[:2].tolist()
        assert (np.diff(one.tally.curve, axis=1) >= 0).all()


def test_learners_that_read_rows_in_different_forms_share_them() -> None:
    options: list[dict[str, Any]] = [{}, {"dtype": "float64"}, {"space": "sparse"}, {"bias": True}, {}]
    one = stream(X, Y, order="shuffle")
    together = outcomes([Trial(make_entry("bpa", given), one, 3) for given in options], 2)
    for given, outcome in zip(options, together, strict=True):
        assert outcome.tally.mistakes[0] / 60 == onebit.run("bpa", X, Y, order="shuffle", seed=3, **given).error


# --- few data sets at a time -------------------------------------------------------------------------------------------


class Alive:
    """A source that counts how many of its data sets are in memory."""

    def __init__(self) -> None:
        self.now = self.most = self.made = 0
        self._lock = threading.RLock()

    def __call__(self, rounds: int, seed: int) -> Dataset:
        data = some_rows(rounds, seed)
        with self._lock:
            self.now += 1
            self.made += 1
            self.most = max(self.most, self.now)
        weakref.finalize(data, self._gone)
        time.sleep(0.001)
        return data

    def _gone(self) -> None:
        with self._lock:
            self.now -= 1


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("learners", [1, 4])
def test_no_more_data_sets_than_threads_are_in_memory(threads: int, learners: int) -> None:
    alive = Alive()
    streamed = fake(alive)
    entries = [make_entry("banditron", {"exploration": 0.1 + 0.1 * index}) for index in range(learners)]
    trials = [Trial(entry, streamed, seed) for seed in range(40) for entry in entries]
    count = 0
    for _ in execute(grouped(trials), threads, lambda count: None):
        count += 1
    assert count == 40 * learners
    assert alive.made == 40, "each is drawn once, for all learners"
    assert 1 <= alive.most <= threads + 1


def test_rows_that_all_runs_share_are_made_once() -> None:
    alive = Alive()
    streamed = fake(alive, fixed=True)
    outcomes([Trial(make_entry("bpa"), streamed, seed) for seed in range(10)], 1)
    assert alive.made == 1


def test_threads_that_help_share_the_rows() -> None:
    """One seed and eight learners on four threads: three of them come while the rows are being drawn."""
    alive = Alive()

    def slow(rounds: int, seed: int) -> Dataset:
        time.sleep(0.05)
        return alive(rounds, seed)

    streamed = fake(slow)
    entries = [make_entry("banditron", {"exploration": 0.01 * (index + 1)}) for index in range(8)]
    outcomes([Trial(entry, streamed, 0) for entry in entries], 4)
    assert alive.made == 1


# --- failures ----------------------------------------------------------------------------------------------------------


def test_a_failure_is_an_outcome_and_the_others_go_on() -> None:
    long = X.copy()
    long[41] *= 1e25
    good, bad = stream(X, Y), stream(long, Y)
    trials = [Trial(make_entry("bpa"), one, seed) for seed in range(3) for one in (good, bad)]
    seen: list[int] = []
    for one in outcomes(trials, 2, seen.append):
        if one.trial.stream is bad:
            assert one.learner is None
            assert isinstance(one.why, OnebitError)
            assert "row 41" in str(one.why)
        else:
            assert one.why is None
            assert one.learner is not None
    assert sum(seen) == 6 * 60, "a failed trial is done too"


def test_data_that_cannot_be_made_fail_their_own_trials_only() -> None:
    def sometimes(rounds: int, seed: int) -> Dataset:
        if seed == 1:
            raise OnebitError("the second tape is torn")
        return some_rows(rounds, seed)

    streamed = fake(sometimes)
    found = outcomes([Trial(make_entry(name), streamed, seed) for seed in range(3) for name in ("bpa", "banditron")], 2)
    assert [str(one.why) for one in found if one.why] == ["the second tape is torn"] * 2
    assert {one.trial.seed for one in found if one.why} == {1}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("error", [ZeroDivisionError, MemoryError, KeyboardInterrupt])
def test_any_other_error_comes_out_and_nothing_is_left_running(threads: int, error: type[BaseException]) -> None:
    def broken(rounds: int, seed: int) -> Dataset:
        if seed == 5:
            raise error("a mistake of ours")
        return some_rows(rounds, seed)

    streamed = fake(broken)
    with pytest.raises(error, match="a mistake of ours"):
        outcomes([Trial(make_entry("bpa"), streamed, seed) for seed in range(200)], threads)


def test_an_error_of_the_progress_comes_out() -> None:
    def progress(count: int) -> None:
        raise RuntimeError("the bar fell over")

    with pytest.raises(RuntimeError, match="the bar fell over"):
        outcomes([Trial(make_entry("bpa"), stream("synsep9", rounds=100), seed) for seed in range(5)], 2, progress)


def test_an_error_of_the_list_comes_out() -> None:
    def groups() -> Iterator[list[Trial]]:
        yield [Trial(make_entry("bpa"), stream("synsep9", rounds=100), 0)]
        raise RuntimeError("the list is at an end too soon")

    with pytest.raises(RuntimeError, match="too soon"):
        list(execute(groups(), 2, lambda count: None))


# --- stopping ----------------------------------------------------------------------------------------------------------


def test_closing_stops_what_is_running() -> None:
    """The second trial is stopped in its midst, and the fixture sees that no thread is left."""
    table, labels, rounds = np.ones((4, 2)), [0, 1, 0, 1], 2_000_000
    groups = [[Trial(make_entry("bpa"), stream(table, labels, rounds=count), 0)] for count in (10, rounds)]
    begun, done = threading.Event(), 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        if done > 10:
            begun.set()
            time.sleep(0.2)  # longer than it takes to close

    with closing(execute(groups, 1, progress)) as found:
        assert next(found).trial.stream.rounds == 10
        assert begun.wait(timeout=120)
    assert 10 < done < rounds


def test_no_group_is_asked_for_before_a_thread_is_free() -> None:
    """So that Ctrl-C is heard at once, however many runs there are to come."""
    asked: list[int] = []

    def groups() -> Iterator[list[Trial]]:
        for seed in range(10_000):
            asked.append(seed)
            yield [Trial(make_entry("bpa"), stream("synsep9", rounds=50), seed)]

    with closing(execute(groups(), 1, lambda count: time.sleep(0.001))) as found:
        for _ in range(5):
            next(found)
    assert len(asked) < 5000


def test_no_trials_are_no_outcomes() -> None:
    assert list(execute([], 3, lambda count: None)) == []
    assert list(execute([[], []], 3, lambda count: None)) == []


# --- entries -----------------------------------------------------------------------------------------------------------


def test_entries_are_learners_in_any_form() -> None:
    rule = onebit.rules.rule_named("bpa")
    for given in ("bpa", onebit.BPA, rule):
        entry = make_entry(given, {"aggressiveness": 0.25})
        assert entry.rule is rule
        assert entry.title == "bpa, aggressiveness=0.25"
        assert entry.settings["aggressiveness"] == 0.25
        assert set(entry.settings) >= set(rule.parameters)


@pytest.mark.parametrize("options", [{"seed": 3}, {"classes": 4}])
def test_the_seed_and_the_classes_are_no_options_of_a_learner(options: dict[str, Any]) -> None:
    with pytest.raises(OnebitError):
        onebit.compare("synsep9", [("bpa", options)], rounds=50, runs=1)
