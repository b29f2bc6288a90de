"""The GPU as an executor of trials, imagined: its rows are those of threads, and what it cannot run, threads run."""

from __future__ import annotations

import gc
import json
import time
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import onebit
from onebit.checks.examples import rows
from onebit.cli import main
from onebit.contract.choices import greedy_label
from onebit.contract.rule import Choice, Rule, RuleInput
from onebit.data.dataset import Dataset
from onebit.data.streams import Stream, stream
from onebit.engine.gpu import device, launch
from onebit.engine.gpu.launch import DeviceRows
from onebit.engine.gpu.layout import Layout
from onebit.errors import OnebitError
from onebit.experiments import executors
from onebit.experiments.executors import gpu as gpu_module
from onebit.experiments.executors import make_executor
from onebit.experiments.executors.gpu import GpuExecutor, scheduler
from onebit.experiments.executors.threads import ThreadsExecutor
from onebit.experiments.run import Stopped
from onebit.experiments.trials import ComparisonEntry, Trial, make_entry
from onebit.experiments.trials.records import FILE, read_records
from onebit.rules import rule_named
from tests.engine.gpu.imagined import NAME, Device, imagine
from tests.experiments.executors.helpers import come, drawn, on_threads
from tests.logged import heard

X, Y = rows(40, classes=3, width=4)
ENTRIES = [
    make_entry("banditron", {"exploration": 0.3}),
    make_entry("banditron", {"exploration": 0.1}),
    make_entry("bpa", {"variant": "PA", "bias": True}),
    make_entry("gaptron"),
    make_entry("gaptron", {"bias": True, "loss": "smooth"}),
    make_entry("perceptron"),
    make_entry("policy-gradient", {"rate": 0.3, "decay": 0.5}),
    make_entry("conservative-ova", {"coding": "all-pairs", "dtype": "float32"}),
    make_entry("linucb", {"ridge": 0.5, "bias": True}),
    make_entry("newtron", {"matrix": "diagonal", "radius": 3.0}),
]
STREAMS = {
    "drawn": stream("strong2d", rounds=36),
    "drawn, with noise and drift": stream("strong2d", rounds=31, noise=0.2, drift="abrupt"),
    "given, again from the start": stream(X, Y, rounds=57),
    "given, shuffled": stream(X, Y, rounds=57, order="shuffle"),
    "given, resampled, drifting": stream(X, Y, rounds=33, order="resample", drift="gradual"),
    "drawn, shuffled": stream("strong2d", rounds=31, order="shuffle"),
    "prepared": stream(X, Y, prepare="unit-norm"),
    "late or never": stream(X, Y, rounds=57, delay="geometric:4", missing=0.2, order="shuffle"),
    "drawn, late": stream("strong2d", rounds=31, delay=3),
    "named": stream(X, [["ant", "bee", "cat"][label] for label in Y], rounds=25),
}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = imagine(monkeypatch)
    monkeypatch.setattr(executors, "find_problem", lambda: None)
    monkeypatch.setattr(executors, "is_installed", lambda: True)
    monkeypatch.setattr(launch, "FIRST_ROUNDS", 10)
    return made


@pytest.fixture
def announced() -> Iterator[list[str]]:
    """What is said of what takes long, or runs elsewhere."""
    with heard("onebit") as messages:
        yield messages


def trials(streamed: Stream, seeds: int = 2, entries: Any = ENTRIES) -> list[Trial]:
    return [Trial(entry, streamed, seed) for seed in range(seeds) for entry in entries]


def assert_same(found: dict[str, dict[str, Any]], right: dict[str, dict[str, Any]], on: str | None = NAME) -> None:
    """The rows of two places differ in nothing but where they ran."""
    for identity, fields in right.items():
        expected = {**fields, "on": found[identity]["on"] if on is None else on}
        assert found[identity] == expected, fields["learner"]


# --- the same rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STREAMS)
def test_rows_are_those_of_threads(name: str, gpu: Device) -> None:
    some = trials(STREAMS[name])
    heard: list[int] = []
    executor = GpuExecutor(ThreadsExecutor())
    assert_same(come(executor, some, heard.append), on_threads(some))
    assert sum(heard) == sum(trial.stream.rounds for trial in some)
    assert executor.where == NAME
    assert len(gpu.kernels) == len(ENTRIES) - 1, "two settings of a number are one kernel"


@pytest.mark.parametrize("late", [False, True])
def test_sparse_rows_are_those_of_threads(late: bool, gpu: Device) -> None:
    thin = scipy.sparse.csr_matrix(np.where(np.abs(X) > 0.3, X, 0.0))
    streamed = stream(thin, Y, rounds=33, order="shuffle", delay=3 if late else None)
    entries = [ENTRIES[0], make_entry("bpa", {"bias": True}), make_entry("conservative-ova")]
    some, executor = trials(streamed, 2, entries), GpuExecutor(ThreadsExecutor())
    assert_same(come(executor, some), on_threads(some))
    assert executor.where == NAME


@pytest.mark.parametrize(("name", "sent"), [("drawn", 6), ("given, shuffled", 2)])
def test_waves_and_seeds_a_few_at_a_time_change_nothing(
    name: str, sent: int, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are drawn are sent for three times two seeds, those that are given once, each without and with a bias."""
    made: list[weakref.ref[DeviceRows]] = []

    def recorded(*given: Any) -> DeviceRows:
        device_rows = DeviceRows(*given)
        made.append(weakref.ref(device_rows))
        return device_rows

    gpu.together = 1
    monkeypatch.setattr(launch, "MOST_WAVES", 3)
    monkeypatch.setattr(scheduler, "DeviceRows", recorded)
    monkeypatch.setattr(scheduler, "MOST_BYTES", 2200 if name == "drawn" else 1000)
    some = trials(STREAMS[name], seeds=5, entries=ENTRIES[:4])
    assert_same(come(GpuExecutor(ThreadsExecutor()), some), on_threads(some))
    assert all(kernel.launches.count((0, 10)) >= 2 for kernel in gpu.kernels.values()), "several waves"
    assert len(made) == sent
    gc.collect()
    assert all(device_rows() is None for device_rows in made), "nothing stays on the device"


def test_streams_come_one_after_the_other(gpu: Device) -> None:
    some = [trial for streamed in STREAMS.values() for trial in trials(streamed, seeds=1, entries=ENTRIES[:2])]
    assert_same(come(GpuExecutor(ThreadsExecutor()), some), on_threads(some))


def test_seconds_are_shares_of_the_devices_time(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def passes(start: int, stop: int) -> None:
        now[0] += 1.0

    gpu.launching = passes
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(launch, "FIRST_ROUNDS", 100)
    found = list(GpuExecutor(ThreadsExecutor()).run(trials(STREAMS["drawn"], 2, ENTRIES[:2]), lambda count: None))
    assert [row.seconds for row in found] == pytest.approx([0.25] * 4)


# --- what threads run --------------------------------------------------------------------------------------------------


class Case:
    """Trials that the GPU cannot run, and the words in which it says so."""

    def __init__(self, words: str, streamed: Stream, learner: str, **options: Any) -> None:
        self.words, self.trial = words, Trial(make_entry(learner, options), streamed, 0)


LEFT = [
    Case("arow keeps full matrices", stream(X, Y), "arow", matrix="full"),
    Case("weights of 64 bits", stream(X, Y), "banditron", dtype="float64"),
    Case("exploration_floor is set", stream(X, Y), "banditron", exploration_floor=0.1),
    Case("space is set", stream(X, Y), "banditron", space="sparse"),
    Case("linucb keeps variances, and rows are sparse", stream(scipy.sparse.csr_matrix(X), Y), "linucb"),
    Case("rows have names", stream([{"a": float(x[0]), "b": float(x[1])} for x in X], Y), "banditron"),
]


@pytest.mark.parametrize("case", LEFT, ids=lambda case: case.words)
def test_what_a_gpu_cannot_run_runs_on_threads_and_that_is_said(case: Case, gpu: Device, announced: list[str]) -> None:
    others = trials(STREAMS["drawn"], 1, ENTRIES[:1])
    executor = GpuExecutor(ThreadsExecutor(2))
    some = [case.trial, *others]
    found = come(executor, some)
    assert_same(found, on_threads(some), on=None)
    assert found[case.trial.identity]["on"] == "CPU"
    assert found[others[0].identity]["on"] == NAME
    assert executor.where.startswith(f"{NAME} and 2 threads, ")
    assert case.words in executor.where
    said = [one for one in announced if "runs on threads" in one]
    assert len(said) == 1
    assert said[0].startswith(f"{case.trial.entry.rule.name} on {case.trial.stream.name} runs on threads: ")
    assert case.words in said[0]


def test_learners_of_other_kinds_run_on_threads() -> None:
    for name, options, reason in (
        ("perceptron", {"kernel": "rbf:0.5"}, "kernel is set"),
        ("auto", {}, "auto has several members"),
        ("newtron", {"matrix": "fit"}, "newtron keeps full matrices"),
    ):
        assert gpu_module.find_obstacle(Trial(make_entry(name, options), stream(X, Y), 0)) == reason
    assert all(gpu_module.find_obstacle(trial) is None for trial in trials(STREAMS["drawn"]))


def test_what_is_too_large_runs_on_threads(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Layout, "of", lambda *given: None)
    some, executor = trials(STREAMS["drawn"], 1, ENTRIES[:2]), GpuExecutor(ThreadsExecutor())
    assert_same(come(executor, some), on_threads(some), on="CPU")
    assert executor.where == f"{ThreadsExecutor().where} (rows are too long, or classes too many)", "none on the GPU"


@pytest.mark.parametrize("name", ["drawn", "given, shuffled", "drawn, shuffled"])
def test_rows_that_have_no_room_run_on_threads(name: str, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what is free must do. Otherwise nothing is cast, built or sent."""
    some = trials(STREAMS[name], 2, ENTRIES[:2])
    rounds = some[0].stream.rounds
    height, width = X.shape if name == "given, shuffled" else (rounds, 3)
    needed = 4 * height * (width + 1) + 8 * (rounds + 2)
    gpu.memory = 2 * needed
    assert_same(come(GpuExecutor(ThreadsExecutor()), some), on_threads(some))
    gpu.memory, gpu.kernels = 2 * needed - 2, {}
    for module, what in ((scheduler, "_cast_rows"), (scheduler, "DeviceRows"), (launch, "kernel_for")):
        monkeypatch.setattr(module, what, None)
    executor = GpuExecutor(ThreadsExecutor())
    assert_same(come(executor, some), on_threads(some), on="CPU")
    assert executor.where == f"{ThreadsExecutor().where} (more rows than the GPU has room for)"
    assert not gpu.kernels


def test_rows_without_memory_here_are_not_drawn_for_the_gpu(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads walk them in pieces."""
    some = trials(STREAMS["drawn"])
    right = on_threads(some)
    monkeypatch.setattr(scheduler, "SharedData", None)
    monkeypatch.setattr(scheduler, "available_memory", lambda: 2 * some[0].stream.whole_bytes - 1)
    executor = GpuExecutor(ThreadsExecutor())
    assert_same(come(executor, some), right, on="CPU")
    reason = "more rows than this machine has memory for at once"
    assert executor.where == f"{ThreadsExecutor().where} ({reason})"
    assert not gpu.kernels


def test_a_rule_that_does_not_compile_runs_on_threads(gpu: Device, announced: list[str]) -> None:
    gpu.refuses = {"banditron"}
    some, executor = trials(STREAMS["drawn"]), GpuExecutor(ThreadsExecutor())
    found = come(executor, some)
    assert_same(found, on_threads(some), on=None)
    on = {(found[one.identity]["learner"], found[one.identity]["on"]) for one in some}
    assert on == {(entry.rule.name, "CPU" if entry.rule.name == "banditron" else NAME) for entry in ENTRIES}
    assert executor.where == f"{NAME} and {ThreadsExecutor().where} (banditron does not compile for a GPU)"
    assert [one for one in announced if "runs on threads" in one] == [
        "banditron on strong2d runs on threads: banditron does not compile for a GPU"
    ]


def test_where_nothing_compiles_all_runs_on_threads(gpu: Device) -> None:
    gpu.refuses = {entry.rule.name for entry in ENTRIES}
    some = trials(STREAMS["given, shuffled"])
    assert_same(come(GpuExecutor(ThreadsExecutor()), some), on_threads(some), on="CPU")


@pytest.mark.usefixtures("rules_as_before")
def test_a_rule_that_is_a_closure_runs_on_the_gpu(gpu: Device) -> None:
    def made(step: float, label_of: Any) -> Rule:
        def decide(params: Any, given: RuleInput) -> Choice:
            label = label_of(given.scores, params.classes, given.draws)
            return Choice(label, label, 1.0, step, 0.0)

        return replace(rule_named("perceptron"), name="closed", decide=decide)

    some = trials(STREAMS["given, shuffled"], 1, [make_entry("perceptron")])
    rule = made(0.5, greedy_label)
    found = list(GpuExecutor(ThreadsExecutor()).run([replace(some[0], entry=make_entry(rule))], lambda count: None))
    assert [row.on for row in found] == [NAME]
    assert found[0].error == come(GpuExecutor(ThreadsExecutor()), some)[some[0].identity]["error"]


def test_where_is_that_of_all_runs_so_far(gpu: Device, announced: list[str]) -> None:
    executor, exact = (
        GpuExecutor(ThreadsExecutor()),
        trials(stream(X, Y), 1, [make_entry("banditron", {"dtype": "float64"})]),
    )
    threads = f"{ThreadsExecutor().where} (weights of 64 bits)"
    for some, where in (
        (exact, threads),
        (trials(STREAMS["drawn"], 1, ENTRIES[:1]), f"{NAME} and {threads}"),
        ([], f"{NAME} and {threads}"),
        (exact + trials(STREAMS["drawn"], 1, ENTRIES[:1]), f"{NAME} and {threads}"),
    ):
        come(executor, some)
        assert executor.where == where
    assert sum("runs on threads" in one for one in announced) == 1


def test_a_reason_is_said_once(gpu: Device, announced: list[str]) -> None:
    full = make_entry("arow", {"matrix": "full"})
    some = [Trial(full, STREAMS[name], seed) for name in ("drawn", "given, shuffled") for seed in range(3)]
    some += trials(stream(X, Y), 2, [make_entry("banditron", {"dtype": "float64"})])
    come(GpuExecutor(ThreadsExecutor()), some)
    said = sorted(one.split(" runs on threads: ")[1] for one in announced if "runs on threads" in one)
    assert said == ["arow keeps full matrices", "weights of 64 bits"]


# --- what fails --------------------------------------------------------------------------------------------------------


def refused_stream() -> Stream:
    """Row 17 is far too long for 32 bits."""
    long = X.copy()
    long[17] *= 1e25
    return stream(long, Y)


def test_what_the_device_refuses_is_explained_by_a_cpu(gpu: Device) -> None:
    bad = trials(refused_stream(), 2, ENTRIES[:2])
    good = trials(STREAMS["drawn"], 2, ENTRIES[:2])
    heard: list[int] = []
    executor = GpuExecutor(ThreadsExecutor())
    found = come(executor, bad + good, heard.append)
    assert_same(found, on_threads(bad + good), on=None)
    for trial in bad:
        assert found[trial.identity]["why"].startswith("row 17: x is too long for float32 weights")
        assert found[trial.identity]["on"] == "CPU"
    assert sum(heard) == sum(trial.stream.rounds for trial in bad + good)
    assert "rounds are refused" in executor.where


def test_only_those_that_are_refused_go_to_threads(gpu: Device) -> None:
    """Rows may be at most as long as max_norm, which differs from setting to setting."""
    entries = [make_entry("gaptron", {"rate": 0.1, "exploration": 0.1, "max_norm": length}) for length in (0.1, 100.0)]
    some = trials(STREAMS["given, shuffled"], 2, entries)
    found = come(GpuExecutor(ThreadsExecutor()), some)
    assert_same(found, on_threads(some), on=None)
    on = [found[trial.identity]["on"] for trial in some]
    assert on == ["CPU", NAME] * 2
    assert "takes at most 0.1" in found[some[0].identity]["why"]


def test_rows_that_cannot_be_read_fail_as_on_threads(gpu: Device) -> None:
    bad = X.copy()
    bad[3, 1] = np.nan
    some = trials(stream(bad, Y), 2, ENTRIES[:1])
    found = come(GpuExecutor(ThreadsExecutor()), some)
    assert_same(found, on_threads(some), on=None)
    assert all(fields["why"] for fields in found.values())


def test_a_learner_that_cannot_be_made_fails_as_on_threads(gpu: Device) -> None:
    """All rows are 0, so that what theory plans with, their length, is refused."""
    some = trials(stream(np.zeros((30, 4)), np.arange(30) % 3), 2, [make_entry("gaptron"), ENTRIES[0]])
    found = come(GpuExecutor(ThreadsExecutor()), some)
    assert_same(found, on_threads(some), on=None)
    assert "max_norm" in found[some[0].identity]["why"]
    assert found[some[1].identity]["why"] is None


def test_a_learner_that_only_the_first_seed_refuses_is_not_lost(gpu: Device) -> None:
    """Room is made by the first seed, whose rows are all 0."""

    def make(rounds: int, seed: int) -> Dataset:
        table, labels = rows(rounds, classes=3, width=4, seed=seed)
        return Dataset(table * (seed > 0), labels, (0, 1, 2))

    for others in ([], ENTRIES[:1], ENTRIES[2:3]):
        some = trials(drawn(make), 3, [*others, make_entry("gaptron")])
        assert_same(come(GpuExecutor(ThreadsExecutor()), some), on_threads(some), on=None)


def test_rows_of_another_width_fail_as_on_threads(gpu: Device) -> None:
    some = trials(stream(X, Y), 2, [make_entry("banditron", {"features": 7}), make_entry("banditron", {"features": 4})])
    found = come(GpuExecutor(ThreadsExecutor()), some)
    assert_same(found, on_threads(some), on=None)
    assert [found[trial.identity]["on"] for trial in some] == ["CPU", "CPU"] * 2


# --- stopping and going on ---------------------------------------------------------------------------------------------

GRID: dict[str, Any] = {"grid": {"exploration": [0.1, 0.3]}, "rounds": 36, "runs": 3, "fresh_runs": 2, "on": "gpu"}


def swept(**more: Any) -> Any:
    return onebit.sweep("banditron", "strong2d", **{**GRID, **more})


def test_a_sweep_on_the_gpu_is_one_on_threads(gpu: Device) -> None:
    found, right = swept(), swept(on="threads")
    assert found.best == right.best
    assert [one.errors.tolist() for one in found.summaries] == [one.errors.tolist() for one in right.summaries]
    assert found.fresh.errors.tolist() == right.fresh.errors.tolist()
    assert (found.cost.where, found.cost.rounds) == (NAME, 36 * (2 * 3 + 2))
    assert found.page().facts["ran on"].startswith(f"{NAME}: 288 rounds in ")


@pytest.mark.parametrize("launches", [2, 5])
def test_ctrl_c_keeps_what_was_done_and_a_second_sweep_goes_on(
    launches: int, gpu: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two replicates at a time, in two launches each."""
    monkeypatch.setattr(launch, "FIRST_ROUNDS", 20)
    monkeypatch.setattr(scheduler, "most_at_once", lambda shape, layout, rounds, places=1: 2)

    def interrupted(start: int, stop: int) -> None:
        if gpu.launched == launches:
            raise KeyboardInterrupt

    gpu.launching = interrupted
    with pytest.raises(Stopped) as stopped:
        swept(out=tmp_path)
    done = list(read_records(tmp_path / FILE))
    assert len(done) == 2 * ((launches - 1) // 2)
    assert stopped.value.result.cost.rounds == 36 * len(done)
    gpu.launching = lambda start, stop: None
    found = swept(out=tmp_path)
    assert found.cost.found == len(done)
    assert found.cost.rounds == 36 * (8 - len(done))
    assert len({row.id for row in read_records(tmp_path / FILE)}) == len(list(read_records(tmp_path / FILE))) == 8
    right = swept(on="threads")
    assert [one.errors.tolist() for one in found.summaries] == [one.errors.tolist() for one in right.summaries]


def test_closing_stops_what_is_running(gpu: Device) -> None:
    some = trials(STREAMS["drawn"], 3)
    list(GpuExecutor(ThreadsExecutor()).run(some, lambda count: None))
    whole, gpu.launched = gpu.launched, 0
    with closing(GpuExecutor(ThreadsExecutor()).run(some, lambda count: None)) as come_rows:
        next(come_rows)
    assert 0 < gpu.launched < whole / 2, "beside the wave whose rows come, the next one alone was begun"


def test_an_error_of_the_device_is_no_row(gpu: Device) -> None:
    def broken(start: int, stop: int) -> None:
        raise RuntimeError("the device is gone")

    gpu.launching = broken
    with pytest.raises(OnebitError, match=r"^the GPU failed \(the device is gone\)"):
        list(GpuExecutor(ThreadsExecutor()).run(trials(STREAMS["drawn"], 1), lambda count: None))


# --- whether there is one, and whether it pays -------------------------------------------------------------------------


def test_trials_of_a_kind_differ_in_numbers_alone() -> None:
    def kind(name: str, seed: int = 0, **options: Any) -> Hashable:
        return gpu_module.kernel_key(Trial(make_entry(name, options), onebit.stream("synsep9", rounds=120), seed))

    one = kind("conservative-ova")
    assert one == kind("conservative-ova", seed=1, aggressiveness=0.3, bias=False, coding="one-vs-all")
    others = [
        kind("conservative-ova", coding="all-pairs"),
        kind("bpa"), kind("bpa", variant="PA"), kind("policy-gradient"), kind("policy-gradient", baseline=True),
    ]  # fmt: skip
    assert len({one, *others}) == 6


def test_without_a_device_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "find_problem", lambda: "there is no usable GPU: it is away")
    with pytest.raises(OnebitError, match="it is away"):
        make_executor("gpu")


@pytest.mark.parametrize(
    "command", [["sweep", "banditron", "strong2d", "--grid", "exploration=0.1,0.2"], ["compare", "strong2d"]]
)
def test_without_a_device_a_command_ends_with_one_line(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(device, "find_problem", lambda: "there is no usable GPU: it is away")
    monkeypatch.chdir(tmp_path)
    code = main([*command, "--rounds", "20", "--runs", "1", "--on", "gpu"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "there is no usable GPU: it is away" in err


def test_a_command_runs_on_the_gpu(
    gpu: Device, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = ["--rounds", "20", "--runs", "2", "--json"]
    assert main(["sweep", "banditron", "strong2d", "--grid", "exploration=0.1,0.2", "--on", "gpu", *sizes]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["effort"]["where"] == NAME


def of_kinds(count: int, runs: int, rounds: int) -> list[Trial]:
    """Trials of so many kernels, each with so many runs."""
    kinds = [ComparisonEntry(replace(rule_named("bpa"), name=f"bpa-{number}")) for number in range(count)]
    streamed = stream("synsep10", rounds=rounds)
    return [Trial(entry, streamed, seed) for entry in kinds for seed in range(runs)]


def set_speeds(monkeypatch: pytest.MonkeyPatch, replicate: float, kernel_s: float) -> None:
    """Let a core do a round a second, and a GPU what is given."""
    monkeypatch.setattr(gpu_module, "KERNEL_S", kernel_s)
    monkeypatch.setattr(gpu_module, "REPLICATE_ROUNDS_S", replicate)
    monkeypatch.setattr(gpu_module, "TOGETHER", 4000)
    monkeypatch.setattr(gpu_module, "CORE_ROUNDS_S", 1.0)


@pytest.mark.usefixtures("rules_as_before")
@pytest.mark.parametrize(
    ("kernels", "runs", "rounds", "threads", "pays"),
    [
        pytest.param(1, 1, 10**9, 16, False, id="one run, however long"),
        pytest.param(1, 100, 10**7, 2, True, id="hundred long runs, two threads"),
        pytest.param(1, 100, 10**7, 64, False, id="hundred long runs, which sixty-four threads do in seven seconds"),
        pytest.param(12, 40, 100_000, 16, False, id="a comparison"),
        pytest.param(1, 768, 100_000, 2, True, id="a sweep, two threads"),
        pytest.param(1, 768, 100_000, 16, False, id="a sweep, sixteen threads"),
        pytest.param(5, 9120, 100_000, 16, True, id="one of the seven data sets of arora2020"),
    ],
)
def test_a_gpu_pays_where_it_is_done_first(kernels: int, runs: int, rounds: int, threads: int, pays: bool) -> None:
    assert gpu_module.is_worthwhile(of_kinds(kernels, runs, rounds), threads) == pays


@pytest.mark.parametrize(("rounds", "where"), [(5, "CPU"), (36, NAME)])
def test_auto_takes_the_gpu_only_where_it_pays(
    rounds: int, where: str, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A core does a round a second, and a kernel takes a minute: 20 trials of 5 rounds are too few for it, with two threads."""
    set_speeds(monkeypatch, replicate=3e5, kernel_s=60.0)
    executor = make_executor("auto", 2)
    assert isinstance(executor, GpuExecutor)
    some = trials(stream("strong2d", rounds=rounds), 10, ENTRIES[:2])
    assert {fields["on"] for fields in come(executor, some).values()} == {where}
    assert executor.where == (NAME if where == NAME else f"{ThreadsExecutor(2).where} (few rounds)")
    named = make_executor("gpu")
    assert {fields["on"] for fields in come(named, some).values()} == {NAME}, "asked for, it need not pay"


def test_a_sweep_whose_fresh_runs_do_not_pay_says_each_place_once(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six tuning runs on two threads take 108 s, two fresh ones 36."""
    set_speeds(monkeypatch, replicate=36 / 50, kernel_s=0.0)
    found = swept(on="auto", threads=2)
    assert found.cost.where == f"{NAME} and {ThreadsExecutor(2).where} (few rounds)"


@pytest.mark.parametrize("missing", ["is_installed", "find_problem"])
def test_auto_is_threads_where_there_is_no_gpu(missing: str, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Callable[[], Any]] = {"is_installed": lambda: False, "find_problem": lambda: "none"}
    monkeypatch.setattr(executors, missing, answers[missing])
    assert isinstance(make_executor("auto"), ThreadsExecutor)
