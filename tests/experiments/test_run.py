"""A run is stepping by hand, whatever the order, the threads and the form of the rows; and Ctrl-C ends it at once."""

from __future__ import annotations

import _thread
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import onebit
from onebit.checks.examples import refused, rows, state
from onebit.experiments.run import Result, Stopped
from onebit.experiments.run import run as plain_run
from onebit.learner.learner import Learner, copy_learner

NAMES = ["ant", "bee", "cat", "dog", "eel"]
run = partial(plain_run, calibrate=True)  # as stepping by hand does
X, Y = rows(60)
LABELS = [NAMES[label] for label in Y]
SPARSE = np.where(X < 0.0, 0.0, X)


def stepped(learner: Learner, X: Any, labels: list[Any], order: list[int]) -> tuple[list[bool], list[bool], Learner]:
    """Decide, compare and learn, row after row: which were wrong as played, and as thought best."""
    played, greedy = [], []
    for row in order:
        decision = learner.decide(X[row])
        played.append(decision.label != labels[row])
        greedy.append(decision.greedy != labels[row])
        learner.learn(decision, label=labels[row])
    return played, greedy, learner


def same_learner(one: Learner, other: Learner) -> bool:
    """Equal in all but the name that every learner is given at birth."""
    return {**state(one), "identity": ""} == {**state(other), "identity": ""}


def assert_is_its_steps(
    result: Result, number: int, learner: Learner, X: Any, labels: list[Any], order: list[int]
) -> None:
    """Check one run of a result against stepping."""
    played, greedy, stepped_learner = stepped(learner, X, labels, order)
    assert result.errors[number] == sum(played) / len(order)
    assert result.greedy_errors[number] == sum(greedy) / len(order)
    for place, mark in enumerate(result.curve.rounds):
        assert result.curve.played[number, place] == sum(played[:mark]) / mark
        assert result.curve.greedy[number, place] == sum(greedy[:mark]) / mark
    if number == 0:
        assert same_learner(result.learner, stepped_learner)


# --- a run is its steps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [None, 25, 60, 61, 500])
def test_a_run_of_any_length_is_its_steps(rounds: int | None) -> None:
    """Fewer rounds than rows stop early, and more go through the rows again."""
    result = run("banditron", X, LABELS, exploration=0.3, rounds=rounds, order="file", seed=4)
    length = rounds or 60
    assert result.rounds == length
    order = [place % 60 for place in range(length)]
    assert_is_its_steps(result, 0, Learner("banditron", classes=NAMES, exploration=0.3, seed=4), X, LABELS, order)


@pytest.mark.parametrize("rounds", [20, 30, 75])
def test_shuffled_runs_are_steps_in_an_order_of_their_own(rounds: int) -> None:
    """Each run has its own order, each time through has every row once, and by hand in that order it is the same run."""
    count = 30
    numbered = np.arange(1.0, count + 1.0)[:, None]
    labels = [int(place % 2) for place in range(count)]
    result = run(
        "policy-gradient", numbered, labels, rounds=rounds, runs=3, seed=7, order="shuffle", rate=1e-6, dtype="float64"
    )
    orders = [_order_of(7 + number, count, rounds) for number in range(3)]
    assert len({tuple(order) for order in orders}) == 3
    for number, order in enumerate(orders):
        for start in range(0, rounds, count):
            block = order[start : start + count]
            assert len(set(block)) == len(block), "each time through, every row comes once"
        learner = Learner("policy-gradient", classes=2, rate=1e-6, dtype="float64", seed=7 + number)
        assert_is_its_steps(result, number, learner, numbered, labels, order)


def _order_of(seed: int, count: int, rounds: int) -> list[int]:
    """The order in which a shuffled run takes its rows, seen from outside.

    Banditron moves in every round, and row r of the unit matrix moves column r alone: the column that differs between a run
    and one that is a round longer is the row of that round.
    """
    seen: list[int] = []
    before = np.zeros((count, count))
    for length in range(1, rounds + 1):
        result = run(
            "banditron", np.eye(count), list(range(count)), rounds=length, seed=seed, order="shuffle", dtype="float64"
        )
        after = result.learner.weights
        (moved,) = np.flatnonzero((after != before).any(axis=0)).tolist()
        seen.append(moved)
        before = after
    return seen


@pytest.mark.parametrize("form", ["dense", "csr", "csc", "list"])
def test_rows_of_every_form_run_as_they_step(form: str) -> None:
    table: Any = {
        "dense": SPARSE,
        "csr": scipy.sparse.csr_matrix(SPARSE),
        "csc": scipy.sparse.csc_array(SPARSE),
        "list": SPARSE.tolist(),
    }[form]
    one_by_one = [scipy.sparse.csr_array(SPARSE[row : row + 1]) for row in range(60)] if "cs" in form else SPARSE
    result = run("conservative-ova", table, LABELS, order="file", seed=2, bias=True)
    assert_is_its_steps(
        result, 0, Learner("conservative-ova", classes=NAMES, seed=2, bias=True), one_by_one, LABELS, list(range(60))
    )


NAMED_ROWS = """
import json, sys
import numpy as np
from onebit.checks.examples import rows, state
from onebit.experiments.run import run
from onebit.learner.learner import Learner, copy_learner

X, Y = rows(60)
labels = [int(label) for label in Y]
tables = {
    "dicts": [{f"name {column % 7} {row % 5}": float(value) for column, value in enumerate(x)} for row, x in enumerate(X)],
    "texts": [" ".join(f"word{int(9 * value)}" for value in x) for x in X],
}
for kind, options in json.loads(sys.argv[1]):
    table = tables[kind]
    result = run("bpa", table, labels, runs=2, rounds=90, order="file", seed=3, calibrate=True, **options)
    for number in range(2):
        learner, wrong = Learner("bpa", classes=5, seed=3 + number, **options), 0
        for place in range(90):
            decision = learner.decide(table[place % 60])
            wrong += decision.label != labels[place % 60]
            learner.learn(decision, label=labels[place % 60])
        assert result.errors[number] == wrong / 90, (number, result.errors, wrong / 90)
        if number == 0:
            here, there = state(learner), state(result.learner)
            assert {**here, "identity": ""} == {**there, "identity": ""}, (learner.features, result.learner.features)
    trained = Learner("bpa", classes=5, **options)
    trained.learn(trained.decide(table[0]), right=True)
    before = state(trained)
    assert run(trained, table, labels, order="file").learner.features == learner.features
    assert state(trained) == before
    print(kind, options, "the same")
"""


def test_rows_of_names_run_as_they_step() -> None:
    """In a process of its own: a vocabulary that one learner has and another has not is a write outside the weights."""
    cases: list[tuple[str, dict[str, Any]]] = [
        ("dicts", {}),
        ("dicts", {"hash_bits": 6}),
        ("texts", {"text": True}),
        ("texts", {"text": True, "hash_bits": 6}),
    ]
    command = [sys.executable, "-c", NAMED_ROWS, json.dumps(cases)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-600:]
    assert answer.stdout.splitlines() == [f"{kind} {options} the same" for kind, options in cases]


def test_a_learner_that_has_learnt_goes_on_from_there() -> None:
    learner = Learner("banditron", classes=NAMES, exploration=0.3, seed=9)
    stepped(learner, X, LABELS, list(range(20)))
    before = state(learner)
    result = run(learner, X, LABELS, rounds=100, order="file")
    assert state(learner) == before
    assert_is_its_steps(result, 0, copy_learner(learner), X, LABELS, [place % 60 for place in range(100)])
    assert result.learner.learnt == 120
    assert result.learner.decide(X[0]).id == 120


def test_a_learner_that_waits_for_feedback_goes_on_too() -> None:
    """Decision 0 never hears anything; the rounds of the run come after it, and 0 can still be learnt."""
    learner = Learner("bpa", classes=NAMES)
    waiting = learner.decide(X[0])
    result = run(learner, X, LABELS, order="file")
    assert_is_its_steps(result, 0, copy_learner(learner), X, LABELS, list(range(60)))
    result.learner.learn(waiting, right=True)
    assert "already" in refused(lambda: result.learner.learn(waiting, right=True))
    assert learner.learnt == 0


def test_a_fresh_learner_that_is_given_stays_as_it_was() -> None:
    learner = Learner("bpa", classes=NAMES)
    before = state(learner)
    run(learner, X, LABELS, runs=2, order="shuffle")
    assert state(learner) == before
    assert learner.features is None


def test_the_labels_of_a_file_may_be_fewer_than_the_classes_of_the_learner() -> None:
    learner = Learner("bpa", classes=[*reversed(NAMES), "fox"])
    result = run(learner, X, LABELS, order="file")
    assert result.learner.classes == (*reversed(NAMES), "fox")
    assert_is_its_steps(result, 0, copy_learner(learner), X, LABELS, list(range(60)))


def test_classes_that_are_given_are_the_classes() -> None:
    result = run("bpa", X, LABELS, classes=["fox", *NAMES], order="file")
    assert result.learner.classes == ("fox", *NAMES)
    assert_is_its_steps(result, 0, Learner("bpa", classes=["fox", *NAMES]), X, LABELS, list(range(60)))


def test_classes_of_two_kinds_run_as_they_step() -> None:
    learner = Learner("bpa", classes=[0, "a"])
    labels = [0, "a"] * 30
    assert_is_its_steps(run(learner, X, labels, order="file"), 0, copy_learner(learner), X, labels, list(range(60)))


def test_generated_data_run_as_they_step() -> None:
    result = run("bpa", "synsep10", rounds=120, runs=2, seed=5)
    for number in range(2):
        data = onebit.data.source_of("synsep10").make(120, 5 + number)
        learner = Learner("bpa", classes=10, seed=5 + number)
        assert_is_its_steps(result, number, learner, data.X, data.y.tolist(), list(range(120)))


# --- seeds and threads -------------------------------------------------------------------------------------------------


def assert_results_equal(one: Result, other: Result) -> None:
    assert np.array_equal(one.errors, other.errors)
    assert np.array_equal(one.greedy_errors, other.greedy_errors)
    assert np.array_equal(one.curve.played, other.curve.played)
    assert same_learner(one.learner, other.learner)


@pytest.mark.parametrize("data", ["arrays", "synsep10"])
def test_runs_do_not_depend_on_the_number_of_threads(data: str) -> None:
    table: tuple[Any, ...] = (X, LABELS) if data == "arrays" else (data,)
    options: dict[str, Any] = {"runs": 9, "rounds": 300, "order": "shuffle", "exploration": 0.2}
    alone = run("banditron", *table, threads=1, **options)
    for threads in (2, 5, 9, 30):
        assert_results_equal(run("banditron", *table, threads=threads, **options), alone)


def test_run_number_r_is_the_first_run_of_seed_plus_r() -> None:
    for table in ((X, LABELS), ("synsep10",)):
        many = run("banditron", *table, runs=4, seed=10, rounds=200, order="shuffle", exploration=0.4)
        for number in range(4):
            one = run("banditron", *table, seed=10 + number, rounds=200, order="shuffle", exploration=0.4)
            assert one.errors[0] == many.errors[number]
            assert np.array_equal(one.curve.played[0], many.curve.played[number])
        assert len(set(many.errors.tolist())) > 1


def test_a_learner_brings_its_seed_unless_another_is_given() -> None:
    learner = Learner("banditron", classes=NAMES, exploration=0.5, seed=21)
    assert_results_equal(run(learner, X, LABELS), run("banditron", X, LABELS, exploration=0.5, seed=21))
    assert_results_equal(run(learner, X, LABELS, seed=3), run("banditron", X, LABELS, exploration=0.5, seed=3))


def test_rows_and_labels_that_are_given_stay_as_they_were() -> None:
    table, labels = X.copy(), Y.copy()
    table.flags.writeable = labels.flags.writeable = False
    for form in (table, table.astype(np.float32)):
        form.flags.writeable = False
        run("banditron", form, labels, runs=2, order="shuffle")
    assert np.array_equal(table, X)
    assert np.array_equal(labels, Y)


# --- what comes out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 2, 199, 200, 201, 1000])
def test_the_curve_ends_with_the_error(rounds: int) -> None:
    result = run("banditron", X, LABELS, rounds=rounds, runs=2, exploration=0.5)
    assert result.curve.rounds[-1] == rounds
    assert result.curve.rounds[0] == 1
    assert (np.diff(result.curve.rounds) > 0).all()
    assert min(rounds, 120) <= len(result.curve.rounds) <= 200
    assert result.curve.played.shape == result.curve.greedy.shape == (2, len(result.curve.rounds))
    assert np.array_equal(result.curve.played[:, -1], result.errors)
    assert np.array_equal(result.curve.greedy[:, -1], result.greedy_errors)


def test_means_and_spreads_are_over_runs() -> None:
    result = run("banditron", X, LABELS, runs=4, exploration=0.5)
    assert result.runs == 4
    assert result.error == pytest.approx(float(np.mean(result.errors)))
    assert result.error_sd == pytest.approx(float(np.std(result.errors, ddof=1)))
    assert result.greedy_error == pytest.approx(float(np.mean(result.greedy_errors)))
    assert result.rounds_per_second > 0.0
    assert run("banditron", X, LABELS).error_sd == 0.0


def test_a_result_as_plain_values_is_json() -> None:
    for learner in (
        "banditron",
        Learner("conservative-ova", classes=NAMES, coding=np.eye(5) * 2 - 1),
        Learner("bpa", classes=NAMES, aggressiveness=np.float32(0.5)),
    ):
        plain = run(learner, X, LABELS, runs=2).to_dict()
        assert json.loads(json.dumps(plain, allow_nan=False))["runs"] == 2
    needed = {
        "rule",
        "params",
        "data",
        "rounds",
        "runs",
        "error_mean",
        "error_sd",
        "greedy_error_mean",
        "rounds_per_second",
    }
    assert needed <= set(plain)


def test_gaptron_is_given_what_only_a_run_knows() -> None:
    result = run("gaptron", X, LABELS)
    assert result.params["horizon"] == 60
    assert result.params["max_norm"] == pytest.approx(1.0, rel=1e-6)
    assert run("gaptron", X, LABELS, rate=0.1, exploration=0.1).params["horizon"] is None
    for table in (scipy.sparse.csr_array(SPARSE), SPARSE):
        longest = run("gaptron", table, LABELS, setting="full").params["max_norm"]
        assert longest == pytest.approx(float(np.linalg.norm(SPARSE, axis=1).max()))


def test_progress_adds_up_to_all_rounds_and_its_errors_end_the_run() -> None:
    seen: list[int] = []
    run("bpa", "synsep10", rounds=4000, runs=3, progress=seen.append)
    assert sum(seen) == 12_000

    def broken(count: int) -> None:
        raise RuntimeError("the bar fell over")

    with pytest.raises(RuntimeError, match="the bar fell over"):
        run("bpa", "synsep10", rounds=4000, runs=3, progress=broken)


# --- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("rule", ["bpa", "gaptron"])
@pytest.mark.parametrize("form", [np.asarray, np.float32, scipy.sparse.csr_array, np.ndarray.tolist])
def test_what_is_not_a_finite_number_is_refused_with_row_and_column(
    form: Callable[[Any], Any], rule: str, bad: float
) -> None:
    spoilt = X.copy()
    spoilt[7, 3] = bad
    spoilt[9, 1] = math.nan
    sentence = refused(lambda: run(rule, form(spoilt), LABELS))
    assert "row 7, column 3" in sentence
    assert str(bad) in sentence


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_numbers_too_large_for_float32_are_refused_as_given_with_row_and_column() -> None:
    spoilt = X.copy()
    spoilt[7, 3] = 1e300
    sentence = refused(lambda: run("bpa", spoilt, LABELS))
    assert "row 7, column 3" in sentence
    assert "1e+300" in sentence


BAD: list[tuple[str, list[str], Callable[[], object]]] = [
    ("runs 0", ["runs", "0"], lambda: run("bpa", X, LABELS, runs=0)),
    ("runs negative", ["runs", "-1"], lambda: run("bpa", X, LABELS, runs=-1)),
    ("runs fraction", ["runs", "1.5"], lambda: run("bpa", X, LABELS, runs=1.5)),  # type: ignore[arg-type]
    ("runs true", ["runs", "True"], lambda: run("bpa", X, LABELS, runs=True)),
    ("rounds 0", ["rounds", "0"], lambda: run("bpa", X, LABELS, rounds=0)),
    ("rounds word", ["rounds", "'ten'"], lambda: run("bpa", X, LABELS, rounds="ten")),
    ("seed", ["seed", "-1"], lambda: run("bpa", X, LABELS, seed=-1)),
    ("last seed", ["seed"], lambda: run("bpa", X, LABELS, seed=2**63 - 1, runs=2)),
    ("threads negative", ["threads", "-1"], lambda: run("bpa", X, LABELS, threads=-1)),
    ("threads zero", ["threads", "0"], lambda: run("bpa", X, LABELS, threads=0)),
    ("threads word", ["threads", "'two'"], lambda: run("bpa", X, LABELS, threads="two")),  # type: ignore[arg-type]
    ("rule", ["'bandtron'", "'banditron'"], lambda: run("bandtron", X, LABELS)),
    ("rule of no kind", ["5"], lambda: run(5, X, LABELS)),
    ("parameter", ["'aggresiveness'", "'aggressiveness'"], lambda: run("bpa", X, LABELS, aggresiveness=1)),
    ("range", ["exploration is 2"], lambda: run("bpa", X, LABELS, exploration=2)),
    ("data", ["'synsep1'", "'synsep10'"], lambda: run("bpa", "synsep1")),
    ("no data", ["X is missing"], lambda: run("bpa", None)),
    ("nothing", ["X is missing"], run),
    ("no labels", ["label"], lambda: run("bpa", X)),
    ("labels twice", ["labels", "'synsep10'"], lambda: run("bpa", "synsep10", LABELS)),
    ("lengths", ["60 rows", "59 labels"], lambda: run("bpa", X, LABELS[:-1])),
    ("label", ["y[0]", "'ant', 'bee'"], lambda: run(Learner("bpa", classes=["ant", "bee"]), X, ["cat"] * 60)),
    ("one label", ["1 class"], lambda: run("bpa", X, ["ant"] * 60)),
    ("one row", ["shape (60,)"], lambda: run("bpa", X[:, 0], LABELS)),
    ("three axes", ["(60, 6, 1)"], lambda: run("bpa", X[:, :, None], LABELS)),
    ("ragged", ["row"], lambda: run("bpa", [[1.0, 2.0], [1.0]], [0, 1])),
    ("no columns", ["no features"], lambda: run("bpa", X[:, :0], LABELS)),
    ("no rows", ["no rows"], lambda: run("bpa", X[:0], [])),
    ("words", ["dtype"], lambda: run("bpa", X.astype(str), LABELS)),
    ("width", ["6", "4"], lambda: run(Learner("bpa", classes=NAMES, features=4), X, LABELS)),
    ("own classes", ["own classes"], lambda: run(Learner("bpa", classes=NAMES), X, LABELS, classes=NAMES)),
    ("own options", ["own"], lambda: run(Learner("bpa", classes=NAMES), X, LABELS, exploration=0.5)),
    ("names and arrays", ["dict"], lambda: run("bpa", X, LABELS, hash_bits=4)),
    ("names and csr", ["dict"], lambda: run("bpa", scipy.sparse.csr_array(X), LABELS, hash_bits=4)),
    ("too long", ["row 0", "at most 0.5"], lambda: run("gaptron", X, LABELS, order="file", max_norm=0.5)),
    ("own rule", ["rule"], lambda: run("bpa", X, LABELS, rule="banditron")),
]


@pytest.mark.parametrize(("words", "action"), [one[1:] for one in BAD], ids=[one[0] for one in BAD])
def test_bad_input_is_refused_with_what_was_wrong(words: list[str], action: Callable[[], object]) -> None:
    sentence = refused(action)
    for word in words:
        assert word in sentence


def test_classes_given_with_data_that_have_their_own_are_not_silently_dropped() -> None:
    assert "classes" in refused(lambda: run("bpa", "synsep10", rounds=10, classes=["ant", "bee"]))


def test_a_row_that_a_learner_cannot_use_ends_the_run_with_the_number_of_the_row() -> None:
    """float32 holds 1e25 but not its square: seen by the loop only, shuffled or not, at the row it is in."""
    long = X.copy()
    long[41] *= 1e25
    for order in ("file", "shuffle"):
        assert "row 41" in refused(lambda order=order: run("bpa", long, LABELS, runs=3, order=order))  # type: ignore[misc]
        assert "row 41" in refused(lambda: run("bpa", scipy.sparse.csr_array(long * 1e10), LABELS, dtype="float32"))


# --- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's own handler of Ctrl-C, which is not there where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_raises_stopped_with_the_runs_that_are_done() -> None:
    """The interrupt is sent once two runs are done and the third has begun; the runs are long, so it cannot be done too."""
    rounds, done = 30_000, 0
    sent = threading.Event()

    def progress(count: int) -> None:
        nonlocal done
        done += count
        if done > 2 * rounds and not sent.is_set():
            sent.set()
            _thread.interrupt_main()
        elif sent.is_set():
            time.sleep(0.01)

    with pytest.raises(Stopped) as stopped:
        run("banditron", "synsep10", rounds=rounds, runs=40, threads=1, progress=progress)
    result = stopped.value.result
    assert result is not None
    assert 2 <= result.runs < 40
    assert result.rounds == rounds
    whole = run("banditron", "synsep10", rounds=rounds, runs=2, threads=1)
    assert np.array_equal(result.errors[:2], whole.errors)
    assert isinstance(stopped.value, KeyboardInterrupt)
    assert onebit.Stopped is Stopped


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_before_any_run_is_done_leaves_no_result() -> None:
    sent = threading.Event()

    def progress(count: int) -> None:
        if not sent.is_set():
            sent.set()
            _thread.interrupt_main()
        time.sleep(0.3)  # longer than the main thread takes to hear of it

    before = threading.active_count()
    with pytest.raises(Stopped) as stopped:
        run("banditron", "synsep10", rounds=200_000, runs=3, threads=2, progress=progress)
    assert stopped.value.result is None
    assert threading.active_count() == before, "no thread goes on in the dark"


def interrupted(arguments: list[str], wait_s: float) -> tuple[int, str, str]:
    """Run the command line, send SIGINT this long after its runs have begun, and give it fifteen seconds to end."""
    program = (
        "import os, signal, sys;"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"  # on many cores all runs might be done by then
        "signal.signal(signal.SIGINT, signal.default_int_handler);"  # it is ignored by what is started in the background
        "from onebit.cli import main; sys.exit(main())"
    )
    run("banditron", "synsep10", rounds=1)  # compiled by now, since compiling says so on stderr
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            for _ in range(2400):
                if process.poll() is not None or has_workers(process.pid):
                    break
                time.sleep(0.025)
            time.sleep(wait_s)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    return process.returncode, out, err


def has_workers(pid: int) -> bool:
    """Whether a process has more threads than its first: the runs have begun."""
    return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc for the right moment")


@needs_proc
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["table", "json"])
def test_ctrl_c_on_the_command_line_prints_the_runs_that_are_done_and_ends_with_130(options: list[str]) -> None:
    """On one core 10,000 runs take half a minute, and each a few milliseconds: some are done by then, and not all."""
    code, out, err = interrupted(["run", "banditron", "synsep10", "--rounds", "5000", "--runs", "10000", *options], 5.0)
    assert (code, err) == (130, "onebit: stopped\n")
    if options:
        printed = json.loads(out)
        assert 1 <= printed["runs"] < 10_000
        assert len(printed["errors"]) == printed["runs"]
    else:
        assert out.startswith("banditron on synsep10: ")
        assert " x 5,000 rounds" in out


@needs_proc
def test_ctrl_c_ends_a_comparison_with_130(tmp_path: Path) -> None:
    arguments = ["compare", "synsep10", "--rounds", "5000", "--runs", "10000", "--learners", "banditron"]
    code, _, err = interrupted([*arguments, "--out", str(tmp_path)], 0.3)
    assert code == 130
    assert err.splitlines() == [f"onebit: stopped; finished runs are kept in {tmp_path}, and the same command resumes"]


@needs_proc
def test_ctrl_c_works_at_once_however_many_runs_there_are_to_come() -> None:
    """The runs are being handed to the threads when it comes; none of the 300,000 may be waited for."""
    code, _, err = interrupted(["run", "banditron", "synsep10", "--rounds", "5000", "--runs", "300000"], 0.1)
    assert (code, err) == (130, "onebit: stopped\n")
