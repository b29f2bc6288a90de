"""Executors: what `on` may name, that all get the same trials, and that what they took is said."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import onebit
from onebit.checks.examples import rows as some_rows
from onebit.engine.compile import helpers_for
from onebit.engine.processes import CompilingProcesses, cores
from onebit.errors import OnebitError
from onebit.experiments.executors import EXECUTORS, Executor, make_executor, parse_place
from onebit.experiments.executors.threads import ThreadsExecutor
from onebit.experiments.pages import error_table
from onebit.experiments.run import Stopped
from onebit.experiments.runner import TrialCollector
from onebit.experiments.statistics import describe_speed
from onebit.experiments.trials import Progress, Trial, make_entry
from onebit.experiments.trials.cost import Cost, processor
from onebit.experiments.trials.records import FILE, Record, Records, read_records
from onebit.experiments.trials.shared_data import group_by_data
from onebit.rules import rule_named
from tests.experiments.executors.helpers import collect

DEVICE = "Imagined 9000"
SHORT: dict[str, Any] = {"rounds": 120, "runs": 2}


class Device:
    """A device that runs trials on a thread of this process and says that it was somebody else."""

    where = f"one {DEVICE}"

    def __init__(self, twice: bool = False, until: int | None = None) -> None:
        self.twice, self.until = twice, until
        self.groups: list[list[Trial]] = []
        self.closed = 0

    def run(self, trials: Sequence[Trial], progress: Progress) -> Generator[Record, None, None]:
        assert not self.closed
        self.groups += group_by_data(trials)
        with closing(ThreadsExecutor(1).run(trials, progress)) as found:
            for position, record in enumerate(found):
                if position == self.until:
                    raise KeyboardInterrupt
                yield replace(record, on=DEVICE)
                if self.twice:
                    yield replace(record, on=DEVICE)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """What compare, sweep and reproduce run on; each has closed it when it is done, and once."""
    made = Device()
    monkeypatch.setattr("onebit.experiments.runner.make_executor", lambda on, threads: made)
    yield made
    assert made.closed == 1


def trials(*learners: str, seeds: int = 2, rounds: int = 120) -> list[Trial]:
    streamed = onebit.stream("synsep9", rounds=rounds)
    return [Trial(make_entry(name), streamed, seed) for seed in range(seeds) for name in learners]


# --- what on may name --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "found"),
    [
        ("auto", ("auto", None)),
        ("threads", ("threads", None)),
        ("gpu", ("gpu", None)),
        ("dask", ("dask", None)),
        ("dask://localhost:8786", ("dask", "localhost:8786")),
        ("dask://10.0.0.1:1", ("dask", "10.0.0.1:1")),
        ("dask://[::1]:8786", ("dask", "[::1]:8786")),
        ("ray", ("ray", None)),
        ("ray://Head.example:10001", ("ray", "Head.example:10001")),
    ],
)
def test_executors_are_read(on: str, found: tuple[str, str | None]) -> None:
    assert parse_place(on) == found


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("gup", ["'gup'", "did you mean 'gpu'?"]),
        ("GPU", ["'GPU'", "did you mean 'gpu'?"]),
        ("thread", ["did you mean 'threads'?"]),
        ("dusk://host:1", ["did you mean 'dask'?"]),
        ("", ["''", *EXECUTORS]),
        ("cluster", ["'cluster'", *EXECUTORS]),
        ("gpu://0", ["'gpu://0'"]),
        ("threads://localhost:4", ["'threads://localhost:4'"]),
        ("dask://", ["dask://host:port"]),
        ("dask://host", ["dask://host:port"]),
        ("dask://host:port", ["dask://host:port"]),
        ("dask://host:0", ["dask://host:port"]),
        ("dask://host:65536", ["dask://host:port"]),
        ("dask://:8786", ["dask://host:port"]),
        ("dask://[::1:8786", ["dask://host:port"]),
        ("dask://me@host:8786", ["dask://host:port"]),
        ("ray://host:10001/home", ["ray://host:port"]),
        (None, ["on is None", *EXECUTORS]),
        (2, ["on is 2", *EXECUTORS]),
    ],
)
def test_what_is_no_executor_is_refused(on: Any, words: list[str]) -> None:
    with pytest.raises(OnebitError) as error:
        make_executor(on)
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_threads_are_counted() -> None:
    assert make_executor("threads", 3) == ThreadsExecutor(3)
    assert make_executor("threads") == ThreadsExecutor(cores())
    assert make_executor("threads", 3).where == f"3 threads, {processor()}"
    assert make_executor("threads", 1).where == f"1 thread, {processor()}"
    assert processor()
    for bad in (0, -1, 1.5, "2", True):
        with pytest.raises(OnebitError, match=r"threads is .* whole number of at least 1"):
            make_executor("threads", bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("on", "module", "function", "heard"),
    [
        ("gpu", "gpu", "GpuExecutor", ThreadsExecutor()),
        ("dask", "cluster.dask", "dask_executor", None),
        ("dask://host:8786", "cluster.dask", "dask_executor", "host:8786"),
        ("ray", "cluster.ray", "ray_executor", None),
        ("ray://host:10001", "cluster.ray", "ray_executor", "host:10001"),
    ],
)
def test_an_executor_is_made_by_its_module(
    on: str, module: str, function: str, heard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"onebit.experiments.executors.{module}"
    fake, seen, made = ModuleType(name), [], Device()

    def make(argument: Any, **options: Any) -> Executor:
        seen.append(argument)
        return made

    setattr(fake, function, make)
    monkeypatch.setitem(sys.modules, name, fake)
    assert make_executor(on) is made
    assert seen == [heard]


@pytest.mark.parametrize("on", ["dask", "dask://host:8786", "ray", "ray://host:10001"])
def test_a_cluster_has_its_own_number_of_threads(on: str) -> None:
    with pytest.raises(OnebitError, match="threads is 4, but a cluster has its own number"):
        make_executor(on, 4)


# --- collecting ---------------------------------------------------------------------------------------------------------


def test_threads_give_rows_and_stop_when_closed() -> None:
    seen: list[int] = []
    found = list(ThreadsExecutor(2).run(trials("bpa", "banditron"), seen.append))
    assert {row.id for row in found} == {one.identity for one in trials("bpa", "banditron")}
    assert {row.on for row in found} == {"CPU"}
    assert sum(seen) == 4 * 120
    seen.clear()
    with closing(ThreadsExecutor(1).run(trials("bpa", seeds=500), seen.append)) as come:
        next(come)
    assert sum(seen) < 500 * 120


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_have_helpers_that_compile_and_end_with_them(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread compiles in this process; where there are more, each of the others may have a process of its own."""
    made, had, stopped = list[object](), set[object](), list[object]()

    class Helpers(CompilingProcesses):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def close(self) -> None:
            super().close()
            stopped.append(self)

    def run(*given: Any) -> None:
        had.add(helpers_for(rule_named("banditron")))

    monkeypatch.setattr("onebit.experiments.executors.threads.CompilingProcesses", Helpers)
    monkeypatch.setattr("onebit.experiments.executors.threads.run_trials", run)
    with closing(ThreadsExecutor(threads).run(trials("bpa", seeds=3), lambda count: None)) as records:
        assert list(records) == []
    assert len(made) == (1 if threads > 1 else 0)
    assert had == (set(stopped) if threads > 1 else {None})
    assert len(stopped) == len(made)


def test_threads_begin_with_different_learners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one would have to wait for each other, where its loop has to be compiled. Every trial is run once."""
    begun, both, met = list[tuple[int, str]](), threading.Barrier(2), set[int]()

    def run(trials: Sequence[Trial], *given: Any) -> None:
        begun.extend((trial.seed, trial.entry.rule.name) for trial in trials)
        if threading.get_ident() not in met:
            met.add(threading.get_ident())
            both.wait(60)

    monkeypatch.setattr("onebit.experiments.executors.threads.run_trials", run)
    names = ["bpa", "banditron", "gaptron", "perceptron"]
    with closing(ThreadsExecutor(2).run(trials(*names), lambda count: None)) as records:
        assert list(records) == []
    assert sorted(begun[:2]) == [(0, "bpa"), (1, "gaptron")]
    assert sorted(begun) == sorted((seed, name) for seed in range(2) for name in names)


def test_groups_share_stream_and_seed() -> None:
    device = Device()
    collect(trials("bpa", "banditron"), Records(None), device, None)
    assert [[(one.entry.title, one.seed) for one in group] for group in device.groups] == [
        [("bpa", 0), ("banditron", 0)],
        [("bpa", 1), ("banditron", 1)],
    ]


def test_a_row_that_comes_twice_is_kept_once(tmp_path: Path) -> None:
    with closing(Records(tmp_path)) as rows:
        found = collect(trials("bpa"), rows, Device(twice=True), None)
    assert len(list(read_records(tmp_path / FILE))) == 2
    assert found.cost.rounds == 240


def test_the_cost_on_threads_is_that_of_the_records(tmp_path: Path) -> None:
    seen: list[int] = []
    with closing(Records(tmp_path)) as rows:
        collect(trials("bpa"), rows, ThreadsExecutor(2), None)
        found = collect(trials("bpa", "banditron"), rows, ThreadsExecutor(2), seen.append)
    cost = found.cost
    assert (cost.where, cost.rounds, cost.found) == (f"2 threads, {processor()}", 240, 2)
    assert cost.seconds > 0
    assert sum(seen) == 480, "those that were there are done too"


def test_failed_runs_count_as_no_rounds() -> None:
    table, labels = some_rows(60)
    table[41] *= 1e25
    streamed = onebit.stream(table, labels)
    found = collect([Trial(make_entry("bpa"), streamed, 0)], Records(None), ThreadsExecutor(1), None)
    assert (found.cost.rounds, found.cost.text) == (0, "")
    assert len(found.failures([Trial(make_entry("bpa"), streamed, 0)])) == 1


def test_an_interrupted_collection_keeps_what_came() -> None:
    device = Device(until=3)
    collector = TrialCollector(Records(None), device)
    with pytest.raises(KeyboardInterrupt):
        collector.collect(trials("bpa", seeds=5))
    assert len(collector.records_of(trials("bpa", seeds=5))) == 3
    assert collector.cost.rounds == 360


# --- compare, sweep, reproduce -----------------------------------------------------------------------------------------


def test_compare_says_where_it_ran(device: Device) -> None:
    found = onebit.compare("synsep9", ["bpa", "perceptron"], **SHORT)
    cost = found.cost
    assert (cost.where, cost.rounds) == (f"one {DEVICE}", 480)
    assert found.page().facts["ran on"] == cost.text
    assert cost.text.startswith(f"one {DEVICE}: 480 rounds in ")
    assert found.to_dict()["effort"] == cost.to_dict()
    assert describe_speed(found[0].summaries) == f"{DEVICE}, its share of the time"
    notes = [column.help for column in error_table(found[0]).columns]
    assert f"on {DEVICE}, its share of the time" in notes


def test_the_speeds_of_cores_and_devices_are_told_apart(tmp_path: Path, device: Device) -> None:
    with closing(Records(tmp_path)) as rows:
        collect(trials("bpa"), rows, ThreadsExecutor(1), None)
    found = onebit.compare("synsep9", ["bpa", "banditron"], out=tmp_path, **SHORT)
    assert sorted(one.devices[0] for one in found[0].summaries) == ["CPU", DEVICE]
    assert set(describe_speed(found[0].summaries).split(" or ")) == {"one core", f"{DEVICE}, its share of the time"}


def test_a_sweep_chooses_and_runs_afresh_on_one_place(device: Device) -> None:
    found = onebit.sweep("bpa", "synsep9", grid={"aggressiveness": [0.01, 1.0]}, fresh_runs=3, **SHORT)
    assert len(device.groups) == 2 + 3
    assert found.cost.rounds == 120 * (2 * 2 + 3)
    assert found.page().facts["ran on"] == found.cost.text
    assert found.to_dict()["effort"] == found.cost.to_dict()


@pytest.mark.parametrize("until", [1, 6])
def test_a_sweep_that_is_stopped_says_what_was_done(device: Device, until: int) -> None:
    """In the midst of tuning, or, since the count begins anew with each collection, of the fresh runs."""
    device.until = until
    with pytest.raises(Stopped) as stopped:
        onebit.sweep("bpa", "synsep9", grid={"aggressiveness": [0.01, 1.0]}, rounds=120, runs=2, fresh_runs=9)
    found = stopped.value.result
    assert found.cost.rounds == 120 * (1 if until == 1 else 4 + 6)
    assert (found.chosen is None) == (until == 1)


def test_reproduce_says_where_it_ran(device: Device) -> None:
    found = onebit.reproduce("hoeven2020", ["figure1"])
    assert found.cost == Cost(Device.where)
    assert "ran on" not in found.page().facts, "it needs no trials"
    assert found.to_dict()["effort"]["rounds"] == 0


def test_an_executor_is_closed_when_something_breaks(device: Device, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("something else\n")
    with pytest.raises(OnebitError, match="not a file of onebit results"):
        onebit.compare("synsep9", ["bpa"], out=tmp_path, **SHORT)


def test_what_ran_on_threads_is_not_run_again_elsewhere(tmp_path: Path, device: Device) -> None:
    with closing(Records(tmp_path)) as rows:
        collect(trials("bpa"), rows, ThreadsExecutor(1), None)
    found = onebit.compare("synsep9", ["bpa"], out=tmp_path, **SHORT)
    assert device.groups == []
    assert found.cost.text == "no new runs; 2 runs existed already"
    assert found.page().facts["ran on"] == found.cost.text


@pytest.mark.parametrize(
    "call",
    [
        lambda on: onebit.compare("synsep9", ["bpa"], on=on, **SHORT),
        lambda on: onebit.sweep("bpa", "synsep9", grid={"exploration": [0.1]}, on=on, **SHORT),
        lambda on: onebit.reproduce("hoeven2020", ["figure1"], on=on),
    ],
)
def test_a_wrong_place_is_refused_by_all(call: Callable[[str], Any]) -> None:
    with pytest.raises(OnebitError, match="did you mean 'gpu'"):
        call("gup")
