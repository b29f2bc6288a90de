"""Streams: the compiled loop is stepping through the events by hand; orders, noise, drift and delays are what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import onebit
from onebit.checks.examples import refused, rows, state
from onebit.data.stream_changes import Delay, Drift
from onebit.data.streams import Stream, stream
from onebit.engine.schedule import Schedule, list_events
from onebit.engine.stream import DECIDE, EVENT, LEARN
from onebit.experiments.run import Result, run
from onebit.learner.learner import Learner
from onebit.spaces.sparse import SparseRows

NAMES = ["ant", "bee", "cat", "dog", "eel"]
X, Y = rows(80)
LABELS = [NAMES[label] for label in Y]
SPARSE = np.where(X < 0.0, 0.0, X)
DICTS = [{f"f{column}": float(value) for column, value in enumerate(x) if value} for x in SPARSE]


def by_hand(streamed: Stream, learner: Learner) -> dict[int, Any]:
    """Step a learner through what happens; its decisions by their rounds."""
    made = {}
    for what, number, value in streamed.events():
        if what == "decide":
            made[number] = learner.decide(_csr(value))
        elif learner.runtime.needs_labels:
            (label,) = [name for name in learner.classes if value(name)]
            learner.learn(made[number], label=label)
        else:
            learner.learn(made[number], value(made[number].label))
    return made


def _csr(x: Any) -> Any:
    """A row of onebit's own sparse form as SciPy has it; others as they are."""
    if not isinstance(x, SparseRows):
        return x
    return scipy.sparse.csr_array((x.values, x.columns, x.starts), shape=(1, x.width))


def check_run_is_steps(streamed: Stream, result: Result) -> Learner:
    """Check a run, with the seed of its stream, against stepping: bit for bit."""
    data = streamed.data(streamed.seed)
    schedule = streamed.schedule(data, streamed.seed)
    learner = Learner(
        result.learner.runtime.rule, classes=data.classes, seed=streamed.seed, **result.learner.runtime.parameters
    )
    made = by_hand(streamed, learner)
    truths = [data.classes[label] for label in schedule.labels]
    played = np.cumsum([made[number].label != truth for number, truth in enumerate(truths)])
    greedy = np.cumsum([made[number].greedy != truth for number, truth in enumerate(truths)])
    assert len(made) == streamed.rounds
    assert result.errors[0] == played[-1] / streamed.rounds
    assert result.greedy_errors[0] == greedy[-1] / streamed.rounds
    assert np.array_equal(result.curve.played[0], played[result.curve.rounds - 1] / result.curve.rounds)
    assert {**state(learner), "identity": ""} == {**state(result.learner), "identity": ""}
    return learner


# --- late and missing feedback: a run is its events --------------------------------------------------------------------

DELAYS: list[dict[str, Any]] = [
    {"delay": 1},
    {"delay": 7, "order": "shuffle"},
    {"delay": "geometric:5", "order": "resample"},
    {"delay": "heavy-tail:4", "missing": 0.2},
    {"missing": 0.4, "order": "shuffle", "noise": 0.1, "drift": "abrupt:0.5"},
    {"delay": 250},  # only the last rounds of 200 would hear of it: none does
]
RULES: list[tuple[str, dict[str, Any]]] = [
    ("bpa", {}),
    ("banditron", {"exploration": 0.3}),
    ("policy-gradient", {"rate": 0.1}),
    ("gaptron", {"rate": 0.1, "exploration": 0.2}),
    ("gaptron", {}),
    ("conservative-ova", {"bias": True}),
    ("perceptron", {}),
]


@pytest.mark.parametrize("settings", DELAYS, ids=str)
@pytest.mark.parametrize(("rule", "options"), RULES, ids=str)
def test_a_run_with_late_feedback_is_its_events_by_hand(
    rule: str, options: dict[str, Any], settings: dict[str, Any]
) -> None:
    streamed = stream(X, LABELS, rounds=200, seed=6, **settings)
    result = run(rule, streamed, seed=6, calibrate=True, **options)
    own = {name: value for name, value in options.items() if name == "bias"}
    if own:  # an option of the learner, which is no parameter of its rule
        data = streamed.data(6)
        learner = Learner(rule, classes=data.classes, seed=6, **own)
        by_hand(streamed, learner)
        assert {**state(learner), "identity": ""} == {**state(result.learner), "identity": ""}
    else:
        learner = check_run_is_steps(streamed, result)
    heard = sum(what == "answer" for what, _, _ in streamed.events())
    assert learner.learnt == result.learner.learnt == heard
    assert heard < 200, "some feedback is late or missing, or this shows nothing"


@pytest.mark.parametrize("settings", DELAYS[1:4], ids=str)
@pytest.mark.parametrize(
    "rule", ["banditron", *(pytest.param(name, marks=pytest.mark.long) for name in ("perceptron", "conservative-ova"))]
)
def test_sparse_rows_come_late_as_they_step(rule: str, settings: dict[str, Any]) -> None:
    streamed = stream(scipy.sparse.csr_array(SPARSE), LABELS, rounds=200, seed=2, **settings)
    result = run(rule, streamed, seed=2, calibrate=True)
    check_run_is_steps(streamed, result)
    assert result.errors[0] == run(rule, stream(SPARSE, LABELS, rounds=200, **settings), seed=2).errors[0]


@pytest.mark.parametrize("settings", [{"delay": 3}, {"delay": "geometric:5"}, {"missing": 0.3}], ids=str)
def test_rows_of_names_come_late_as_they_step(settings: dict[str, Any]) -> None:
    """The decisions are the same; the vocabularies need not be, since a run reads all rows and a learner what it hears of."""
    streamed = stream(DICTS, LABELS, rounds=200, seed=3, **settings)
    result = run("bpa", streamed, seed=3)
    data = streamed.data(3)
    learner = Learner("bpa", classes=data.classes, seed=3)
    made = by_hand(streamed, learner)
    truths = [data.classes[label] for label in streamed.schedule(data, 3).labels]
    assert result.errors[0] == sum(made[number].label != truth for number, truth in enumerate(truths)) / 200
    assert learner.learnt == result.learner.learnt
    assert [learner.scores(x).tolist() for x in DICTS] == [result.learner.scores(x).tolist() for x in DICTS]


@pytest.mark.parametrize("delay", [0, "fixed:0", "geometric:0", "heavy-tail:0", 0.0])
def test_no_delay_is_no_delay(delay: Any) -> None:
    assert stream(X, LABELS, delay=delay).delay is None
    at_once, delayed = run("banditron", X, LABELS, rounds=300), run("banditron", X, LABELS, rounds=300, delay=delay)
    assert np.array_equal(at_once.curve.played, delayed.curve.played)
    assert np.array_equal(at_once.learner.weights, delayed.learner.weights)


@pytest.mark.parametrize("rule", ["banditron", "policy-gradient", "perceptron"])
@pytest.mark.parametrize("order", ["file", "shuffle"])
def test_events_that_are_all_at_once_are_no_events_bit_for_bit(rule: str, order: str) -> None:
    """A mean delay of next to nothing goes through the events, and every feedback comes at once."""
    plain = stream(X, LABELS, rounds=300, order=order)
    late = replace(plain, delay=Delay("geometric", 1e-14))
    data = late.data(0)
    schedule = late.schedule(data, 0)
    assert len(schedule.events) == 300
    assert (schedule.events % EVENT == DECIDE | LEARN).all()
    one, other = run(rule, plain), run(rule, late)
    assert {**state(one.learner), "identity": ""} == {**state(other.learner), "identity": ""}
    assert np.array_equal(one.curve.played, other.curve.played)


def test_late_feedback_costs_something() -> None:
    """Of a thousand rounds five hundred pass before the first feedback: the error is higher by far more than chance."""
    at_once = run("perceptron", "synsep9", rounds=1000, runs=5)
    late = run("perceptron", "synsep9", rounds=1000, runs=5, delay=500)
    assert (late.errors > at_once.errors + 0.1).all()


def test_missing_feedback_is_missing_in_its_share_of_the_rounds() -> None:
    """Binomial(20,000, 0.7): five standard deviations are 324. Wrong once in 1.7 million seeds."""
    result = run("banditron", "synsep9", rounds=20_000, missing=0.3, seed=1)
    assert abs(result.learner.learnt - 14_000) < 324


def test_feedback_after_the_last_round_never_comes() -> None:
    result = run("bpa", X, LABELS, rounds=50, delay=50)
    assert result.learner.learnt == 0
    assert run("bpa", X, LABELS, rounds=50, delay=49).learner.learnt == 1


# --- the order of events -----------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.just(-1), st.integers(0, 12)), min_size=1, max_size=25))
def test_events_come_in_order(delays: list[int]) -> None:
    """Each round is decided once, in order; its answer comes after the decision of its time and before the next, or never."""
    answers = np.array([-1 if delay < 0 else number + delay for number, delay in enumerate(delays)])
    events = list_events(answers)
    assert events.dtype == np.int64
    decided = [event // EVENT for event in events if event & DECIDE]
    assert decided == list(range(len(delays)))
    heard: list[int] = []
    late_now: list[int] = []
    latest = -1
    for event in events.tolist():
        number = event // EVENT
        if event & DECIDE:
            latest, late_now = number, []
        if event & LEARN:
            assert answers[number] == latest >= number
            heard.append(number)
            if not event & DECIDE:
                late_now.append(number)
        assert late_now == sorted(late_now), "at the same time they come in the order of the rounds"
    assert sorted(heard) == [number for number, at in enumerate(answers) if number <= at < len(delays)]
    assert Schedule(np.zeros(len(delays), dtype=np.int64), events=events).learnt.tolist() == sorted(heard)


def test_events_are_told_with_their_rows_and_the_truth() -> None:
    streamed = stream(np.arange(4.0)[:, None], ["a", "b", "a", "b"], rounds=6, order="file", delay=2)
    told = [(what, number) for what, number, _ in streamed.events()]
    assert told == [
        ("decide", 0), ("decide", 1), ("decide", 2), ("answer", 0), ("decide", 3), ("answer", 1), ("decide", 4), ("answer", 2),
        ("decide", 5), ("answer", 3),
    ]  # fmt: skip
    for what, number, value in streamed.events():
        if what == "decide":
            assert value.tolist() == [number % 4]
        else:
            assert (value("a"), value("b"), value("c")) == (number % 2 == 0, number % 2 == 1, False)
            assert type(value("a")) is bool


def test_rounds_one_by_one_are_refused_where_feedback_is_late() -> None:
    for late in ({"delay": 1}, {"missing": 0.1}):
        assert "events()" in refused(lambda late=late: next(iter(stream(X, LABELS, **late))))  # type: ignore[misc]


# --- how late ----------------------------------------------------------------------------------------------------------


def test_a_fixed_delay_is_always_the_same() -> None:
    assert set(Delay("fixed", 7).draws(1000, 3)(1000).tolist()) == {7}


@pytest.mark.parametrize("mean", [0.5, 3.0, 100.0])
def test_geometric_delays_have_their_mean_and_forget_the_time(mean: float) -> None:
    """The mean within five standard errors, and the chance of one round more always the same. Wrong once in a million."""
    drawn = Delay("geometric", mean).draws(400_000, 5)(400_000)
    assert drawn.min() == 0
    assert abs(drawn.mean() - mean) < 5 * np.sqrt(mean * (mean + 1) / 400_000)
    for waited in (0, 1, int(mean)):
        left = drawn[drawn >= waited]
        on = mean / (1 + mean)
        assert abs((left > waited).mean() - on) < 5 * np.sqrt(on * (1 - on) / len(left))


@pytest.mark.parametrize(
    "mean",
    [
        100.0,
        pytest.param(
            1.0,
        ),
    ],
)
def test_heavy_tails_have_their_mean(mean: float) -> None:
    """Of infinite variance: over seeds the mean of a million draws stays within 8 %, far from 0.69."""
    drawn = np.mean([Delay("heavy-tail", mean).draws(1_000_000, seed)(1_000_000).mean() for seed in range(4)])
    assert abs(drawn / mean - 1.0) < 0.12


def test_heavy_tails_are_heavy() -> None:
    """Far out, ten times as long is 10^-1.5 times as likely; a geometric delay of that mean never gets there."""
    drawn = Delay("heavy-tail", 10).draws(2_000_000, 1)(2_000_000)
    far, further = (drawn >= 500).mean(), (drawn >= 5000).mean()
    assert 0.8 < further / far * 10**1.5 < 1.2
    assert drawn.min() == 0
    assert (Delay("geometric", 10).draws(2_000_000, 1)(2_000_000) < 500).all()


@pytest.mark.parametrize("delay", ["fixed:3", "geometric:8", "heavy-tail:8"])
def test_a_delay_is_said_as_it_is_read(delay: str) -> None:
    assert str(Delay.read(delay)) == delay
    assert Delay.read(Delay.read(delay)) == Delay.read(delay)


# --- orders ------------------------------------------------------------------------------------------------------------

NUMBERED = np.arange(30.0)[:, None]
PARITY = [number % 2 for number in range(30)]


def visited(streamed: Stream, seed: int) -> list[int]:
    """The rows of a run, round after round, as they come to a learner."""
    return [int(x[0]) for x, _ in replace(streamed, seed=seed)]


def test_rows_in_the_order_of_the_file_begin_again() -> None:
    assert visited(stream(NUMBERED, PARITY, rounds=70, order="file"), 5) == [number % 30 for number in range(70)]
    assert visited(stream(NUMBERED, PARITY, rounds=7, order="file"), 5) == list(range(7))
    assert len(stream(NUMBERED, PARITY)) == 30


def test_shuffled_rows_come_once_each_time_through() -> None:
    seen = visited(stream(NUMBERED, PARITY, rounds=75, order="shuffle"), 5)
    assert sorted(seen[:30]) == sorted(seen[30:60]) == list(range(30))
    assert len(set(seen[60:])) == 15
    assert seen[:30] != seen[30:60]
    assert seen[:30] != list(range(30))
    assert seen != visited(stream(NUMBERED, PARITY, rounds=75, order="shuffle"), 6)
    assert seen == visited(stream(NUMBERED, PARITY, rounds=75, order="shuffle"), 5)


def test_resampled_rows_are_drawn_uniformly_with_replacement() -> None:
    """Chi-squared with 29 degrees of freedom is below 72 but once in 100,000 seeds; without replacement it is 0."""
    seen = visited(stream(NUMBERED, PARITY, rounds=3000, order="resample"), 5)
    counts = np.bincount(seen, minlength=30)
    assert 5 < ((counts - 100) ** 2 / 100).sum() < 72
    assert len(set(seen[:30])) < 30
    assert seen != visited(stream(NUMBERED, PARITY, rounds=3000, order="resample"), 6)


def test_files_and_arrays_are_shuffled_unless_another_order_is_said_and_generators_come_as_they_are_drawn() -> None:
    assert stream(NUMBERED, PARITY).order == "shuffle"
    assert stream(NUMBERED, PARITY, order="file").order == "file"
    assert stream("synsep9").order == "file"


def test_a_generator_draws_fresh_rows_for_each_seed() -> None:
    fresh = stream("synsep9", rounds=50)
    assert not np.array_equal(fresh.data(0).X, fresh.data(1).X)
    assert np.array_equal(fresh.data(1).X, fresh.data(1).X)


# --- the same seed is the same stream ----------------------------------------------------------------------------------


def test_what_is_drawn_for_one_thing_does_not_move_with_another() -> None:
    """Two learners, or two streams that differ in one thing, have the rest in common: so they can be compared."""
    source = stream(
        X, LABELS, rounds=400, order="shuffle", noise=0.3, drift="gradual", delay="geometric:9", missing=0.2
    )
    data = source.data(0)
    whole = source.schedule(data, 7)
    again = source.schedule(data, 7)
    assert all(np.array_equal(getattr(whole, name), getattr(again, name)) for name in ("labels", "order", "events"))
    for name in ("labels", "order", "events"):
        assert not np.array_equal(getattr(whole, name), getattr(source.schedule(data, 8), name)), name
    assert np.array_equal(
        whole.order, replace(source, noise=0.0, drift=None, delay=None, missing=0.0).schedule(data, 7).order
    )
    assert np.array_equal(whole.labels, replace(source, delay=None, missing=0.0).schedule(data, 7).labels)
    assert np.array_equal(whole.events, replace(source, noise=0.0, drift=None, order="file").schedule(data, 7).events)
    never = set(range(400)) - set(replace(source, delay=None).schedule(data, 7).learnt.tolist())
    assert never.isdisjoint(whole.learnt.tolist())


def test_a_learner_hears_of_the_stream_and_not_the_stream_of_the_learner() -> None:
    """A learner that never errs on clean labels errs exactly where the noise is, whichever it is."""
    X, labels = np.eye(3).repeat(200, axis=0), np.arange(3).repeat(200)
    streamed = stream(X, labels, noise=0.4, order="shuffle", rounds=600)
    wrong = [[not right(int(x.argmax())) for x, right in streamed] for _ in range(2)]
    assert wrong[0] == wrong[1]
    schedule = streamed.schedule(streamed.data(0), 0)
    assert wrong[0] == (schedule.labels != labels[schedule.order]).tolist()


# --- noise -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.05, 0.4, 0.9])
def test_noise_replaces_its_share_of_the_labels_by_any_class(noise: float) -> None:
    """The replacement may be the label itself, so noise (K-1)/K of them are wrong: five standard deviations."""
    truth = np.arange(50_000) % 5
    streamed = stream(np.zeros((50_000, 1)), truth, order="file", noise=noise)
    labels = streamed.schedule(streamed.data(0), 3).labels
    floor = noise * 4 / 5
    assert abs((labels != truth).mean() - floor) < 5 * np.sqrt(floor * (1 - floor) / 50_000)
    moved = np.bincount((labels - truth)[labels != truth] % 5, minlength=5)
    assert moved[0] == 0
    assert np.ptp(moved[1:]) < 10 * np.sqrt(moved.sum() / 4), "to all other classes alike"


def test_noise_is_the_floor_of_the_error() -> None:
    """Who knows the clean label errs noise (K-1)/K = 0.3 of 20,000 rounds, within five standard deviations (0.0162)."""
    X, labels = np.eye(4).repeat(5000, axis=0), np.arange(4).repeat(5000)
    result = run("perceptron", X, labels, noise=0.4, order="shuffle")
    knowing = np.mean([not right(int(x.argmax())) for x, right in stream(X, labels, noise=0.4, order="shuffle")])
    assert abs(knowing - 0.3) < 0.0162
    assert result.error > knowing


# --- drift -------------------------------------------------------------------------------------------------------------


def renamed(drift: str, seed: int, classes: int = 6, rounds: int = 20_000) -> tuple[NDArray[Any], NDArray[Any]]:
    truth = np.arange(rounds) % classes
    streamed = stream(np.zeros((rounds, 1)), truth, order="file", drift=drift)
    return truth, streamed.schedule(streamed.data(seed), seed).labels


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_after_an_abrupt_drift_no_class_keeps_its_name(seed: int, classes: int) -> None:
    truth, labels = renamed("abrupt:0.25", seed, classes)
    assert np.array_equal(labels[:5000], truth[:5000])
    assert (labels[5000:] != truth[5000:]).all()
    names = {(int(old), int(new)) for old, new in zip(truth[5000:], labels[5000:], strict=True)}
    assert len(names) == classes, "each class has one new name"
    assert {new for _, new in names} == set(range(classes)), "and no two the same"


def test_a_gradual_drift_mixes_old_names_and_new() -> None:
    """Of 20,000 rounds, those from a fifth to three fifths: the share of new names climbs in a line. Five sd in each tenth."""
    truth, labels = renamed("gradual:0.2..0.6", 4)
    new = labels != truth
    assert not new[:4000].any()
    assert new[12_000:].all()
    for begin in range(4000, 12_000, 1000):
        expected = (begin + 500 - 4000) / 8000
        assert abs(new[begin : begin + 1000].mean() - expected) < 5 * np.sqrt(expected * (1 - expected) / 1000)
    assert len({(int(old), int(name)) for old, name in zip(truth[new], labels[new], strict=True)}) == 6


def test_a_drift_is_each_runs_own_and_is_felt() -> None:
    assert not np.array_equal(renamed("abrupt", 0)[1], renamed("abrupt", 1)[1])
    still, moved = (run("perceptron", "synsep9", rounds=4000, runs=3, drift=drift) for drift in (None, "abrupt:0.9"))
    place = int(np.searchsorted(still.curve.rounds, 3500))
    assert np.array_equal(still.curve.played[:, :place], moved.curve.played[:, :place])
    assert (moved.errors > still.errors).all()


@pytest.mark.parametrize("drift", ["abrupt:0.5", "gradual:0.25..0.75", "gradual:0..1"])
def test_a_drift_is_said_as_it_is_read(drift: str) -> None:
    assert str(Drift.read(drift)) == drift
    assert str(Drift.read("abrupt")) == "abrupt:0.5"


# --- one line of Python ------------------------------------------------------------------------------------------------


def test_the_line_of_the_documentation_is_a_run() -> None:
    learner = onebit.BPA(classes=10, aggressiveness=0.001)
    for x, right in onebit.stream("synsep10", rounds=300):
        decision = learner.decide(x)
        learner.learn(decision, right(decision.label))
    result = onebit.run("bpa", "synsep10", rounds=300, aggressiveness=0.001, calibrate=True)
    assert {**state(learner), "identity": ""} == {**state(result.learner), "identity": ""}


def test_a_stream_can_be_gone_through_again() -> None:
    streamed = stream(X, LABELS, order="shuffle", noise=0.3)
    first, second = ([(x.tolist(), [right(name) for name in NAMES]) for x, right in streamed] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        np.ndarray.tolist,
        scipy.sparse.csr_array,
        scipy.sparse.csc_array,
        scipy.sparse.coo_array,
    ],
    ids=["array", "list", "csr", "csc", "coo"],
)
def test_rows_of_every_form_come_as_they_are(form: Callable[[Any], Any]) -> None:
    """What `run` takes, one by one."""
    square = SPARSE[:6, :6]  # as many rows as columns, so that a mistaken one is no error
    table, labels = form(square), [0, 1] * 3
    learner = Learner("bpa", classes=2, dtype="float64", seed=1)
    for x, right in stream(table, labels, order="file"):
        decision = learner.decide(x)
        learner.learn(decision, right(decision.label))
    options: dict[str, Any] = {"order": "file", "dtype": "float64", "seed": 1}
    assert np.array_equal(learner.weights, run("bpa", table, labels, **options).learner.weights)
    assert np.allclose(learner.weights, run("bpa", square, labels, **options).learner.weights)


def test_the_rows_of_a_frame_come_one_by_one() -> None:
    import pandas

    table = pandas.DataFrame(X)
    assert run("bpa", table, LABELS).rounds == 80
    assert [np.asarray(x).tolist() for x, _ in stream(table, LABELS, order="file")] == X.tolist()


# --- a stream brings its own -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rounds", 10),
        ("order", "shuffle"),
        ("noise", 0.1),
        pytest.param(
            "missing",
            0.1,
        ),
        ("drift", "abrupt"),
        ("delay", 3),
        ("prepare", "scale"),
        ("classes", NAMES),
        ("label", "team"),
    ],
)
def test_a_stream_is_not_changed_by_whoever_is_given_it(name: str, value: Any) -> None:
    streamed = stream(X, LABELS)
    for take in (lambda: run("bpa", streamed, **{name: value}), lambda: stream(streamed, **{name: value})):
        assert f"its own {name}" in refused(take)
    assert "its own y" in refused(lambda: run("bpa", streamed, LABELS))
    assert stream(streamed) is streamed


def test_a_seed_is_not_dropped_in_silence() -> None:
    streamed = stream(X, LABELS, order="shuffle")
    try:
        again = stream(streamed, seed=4)
    except onebit.OnebitError:
        return
    assert again.seed == 4


def test_a_run_on_a_stream_with_a_seed_is_the_run_of_that_seed() -> None:
    streamed = stream("synsep9", rounds=200, seed=5)
    assert run("bpa", streamed).error == run("bpa", streamed, seed=5).error


# --- bad input ---------------------------------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"rounds": 0}, ["rounds is 0", "at least 1"]),
    ({"rounds": True}, ["rounds is True"]),
    ({"rounds": 1.5}, ["rounds is 1.5"]),
    ({"order": "shuffel"}, ["'shuffel'", "'shuffle'"]),
    ({"noise": 1.0}, ["noise is 1.0", "in [0, 1)"]),
    ({"noise": -0.1}, ["noise is -0.1"]),
    ({"noise": float("nan")}, ["noise is nan"]),
    ({"noise": "0.1"}, ["noise is '0.1'"]),
    ({"noise": True}, ["noise is True"]),
    ({"missing": 1}, ["missing is 1"]),
    ({"drift": "sudden"}, ["'sudden'", "abrupt:AT"]),
    ({"drift": "abrupt:1"}, ["'abrupt:1'", "fractions"]),
    ({"drift": "abrupt:x"}, ["'abrupt:x'"]),
    ({"drift": "abrupt:0.2..0.4"}, ["'abrupt:0.2..0.4'"]),
    ({"drift": "gradual:0.5"}, ["'gradual:0.5'"]),
    ({"drift": "gradual:0.7..0.3"}, ["'gradual:0.7..0.3'"]),
    ({"drift": "gradual:-1..2"}, ["'gradual:-1..2'"]),
    ({"drift": 5}, ["5"]),
    ({"delay": -1}, ["delay is -1", "from 0"]),
    ({"delay": 1.5}, ["delay is 1.5", "whole number"]),
    ({"delay": "1e99"}, ["1e99"]),
    ({"delay": "geometic:5"}, ["'geometic:5'", "'geometric'"]),
    ({"delay": "geometric"}, ["'geometric'", "number"]),
    ({"delay": "heavy-tail:x"}, ["'heavy-tail:x'"]),
    ({"delay": "geometric:nan"}, ["'geometric:nan'"]),
    ({"delay": True}, ["True"]),
    ({"seed": -1}, ["seed is -1"]),
    ({"prepare": "scael"}, ["scael", "scale"]),
]


@pytest.mark.parametrize(("given_", "words"), BAD, ids=[str(one[0]) for one in BAD])
def test_bad_input_is_refused_with_what_was_wrong(given_: dict[str, Any], words: list[str]) -> None:
    sentence = refused(lambda: stream(X, LABELS, **given_))
    for word in words:
        assert word in sentence
    assert "\n" not in sentence


def test_a_stream_says_what_it_is() -> None:
    plain = stream("synsep9", rounds=10)
    changed = stream("synsep9", rounds=10, noise=0.1, drift="abrupt", delay=20, missing=0.2, prepare="unit-norm")
    assert plain.name == "synsep9"
    for word in ("synsep9", "unit-norm", "noise 0.1", "drift abrupt:0.5", "delay fixed:20", "missing 0.2"):
        assert word in changed.name
    assert changed.described() == {
        "data": "synsep9", "prepare": ["unit-norm"], "rounds": 10, "order": "file", "noise": 0.1, "drift": "abrupt:0.5",
        "delay": "fixed:20", "missing": 0.2,
    }  # fmt: skip
