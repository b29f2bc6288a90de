"""A Dask cluster of two processes on this machine: one is killed in the midst, data reach each once, and nothing goes on when it is stopped."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.contract.installation import install_command
from onebit.data.streams import stream
from onebit.errors import NetworkError, OnebitError
from onebit.experiments.executors import cluster, make_executor
from onebit.experiments.executors.cluster import ClusterExecutor, dask, worker
from onebit.experiments.executors.cluster.dask import dask_executor
from onebit.experiments.trials import Trial, make_entry
from tests.experiments.executors.cluster.test_executor import nudge
from tests.experiments.executors.helpers import (
    Deadly,
    Traced,
    X,
    Y,
    come,
    drawn,
    free_port,
    mixed,
    on_threads,
    ran_among_hostile_files,
    trials_on,
)
from tests.slow import slow

pytestmark = pytest.mark.long

__all__ = ["nudge"]  # a fixture

distributed = pytest.importorskip("distributed", reason="Dask is not installed")
psutil = pytest.importorskip("psutil", reason="it comes with Dask")


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    """Two processes with a thread each, and who may talk to them."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def address(two: Any) -> str:
    """Where two workers are; one that was killed is there again."""

    def both() -> bool:
        two.cluster.scale(2)  # on a busy machine Dask may give up one that was killed
        return len(two.nthreads()) == 2

    assert until(both, 60)
    return str(two.scheduler.address).removeprefix("tcp://")


@pytest.fixture
def executor(address: str) -> Iterator[ClusterExecutor]:
    with closing(dask_executor(address)) as made:
        yield made


def until(true: Callable[[], bool], deadline_s: float = 20.0) -> bool:
    """Whether something comes true within some time."""
    end = time.monotonic() + deadline_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_rows_are_those_of_threads(executor: ClusterExecutor, address: str) -> None:
    trials, seen = mixed(), list[int]()
    assert executor.where == f"Dask, 2 workers with 2 threads at tcp://{address}"
    found = come(executor, trials, seen.append)
    assert found == on_threads(trials)
    assert sum(1 for row in found.values() if row["why"]) == 12, "failures are rows"
    assert sum(seen) == sum(trial.stream.rounds for trial in trials)


def test_a_worker_that_is_killed_in_the_midst_costs_no_row(two: Any, executor: ClusterExecutor, tmp_path: Path) -> None:
    deadly = Deadly(tmp_path, seed=5)
    pids = {str(pid) for pid in two.run(os.getpid).values()}
    trials = trials_on(drawn(deadly), 12)
    found = come(executor, trials)
    assert len(deadly.killed) == 1
    assert set(deadly.killed) < pids, "one of the two"
    assert found == on_threads(trials)


@slow
def test_a_trial_that_kills_every_worker_is_named(tmp_path: Path) -> None:
    """The worker has three threads, and all that they are at goes with it each time."""
    deadly = Deadly(tmp_path, seed=5, always=True)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=3, processes=True, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as made,
        closing(dask_executor(made.scheduler_address.removeprefix("tcp://"))) as executor,
        pytest.raises(
            OnebitError, match=r"banditron, exploration=0\.1 on drawn, seed 5: every worker that had it was lost"
        ),
    ):
        come(executor, trials_on(drawn(deadly), 12, 1))
    assert len(deadly.killed) > 1, "among others, and then alone"


def test_data_reach_each_worker_once(two: Any, executor: ClusterExecutor, tmp_path: Path) -> None:
    traced = Traced(tmp_path / "trace")
    trials = trials_on(drawn(traced, fixed=True), 40)
    come(executor, trials)
    assert sorted(traced.opened) == sorted(str(pid) for pid in two.run(os.getpid).values())
    assert until(lambda: not two.has_what() or not any(two.has_what().values())), "they keep no data"


def test_data_that_are_lost_with_all_workers_are_sent_again(
    two: Any, executor: ClusterExecutor, tmp_path: Path
) -> None:
    """Both are killed, each by its first trial, so that nobody has the data any more."""

    class Brief(Traced):
        def __call__(self, rounds: int, seed: int) -> Any:
            first = self._trace.with_name("first")
            if not first.exists() and os.getpid() != here:
                first.write_text(str(os.getpid()))
                two_pids = [int(pid) for pid in pids if pid != os.getpid()]
                for pid in [*two_pids, os.getpid()]:
                    os.kill(pid, 9)
            return super().__call__(rounds, seed)

    here, pids = os.getpid(), list(two.run(os.getpid).values())
    trials = trials_on(drawn(Brief(tmp_path / "trace"), fixed=True), 5)
    assert come(executor, trials) == on_threads(trials)
    assert (tmp_path / "first").exists()


def test_a_worker_that_is_lost_while_data_are_sent_to_it_costs_nothing(
    executor: ClusterExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sends, scatter = list[int](), distributed.Client.scatter

    def lose_one(client: Any, *given: Any, **options: Any) -> Any:
        sends.append(1)
        if len(sends) == 1:
            raise ConnectionError("Stream is closed")  # as Dask raises it, an OSError
        return scatter(client, *given, **options)

    monkeypatch.setattr(distributed.Client, "scatter", lose_one)
    trials = trials_on(stream(X, Y), 2)
    assert come(executor, trials) == on_threads(trials)
    assert len(sends) == 2

    def lose_all(*given: Any, **options: Any) -> Any:
        raise ConnectionError("Stream is closed")

    monkeypatch.setattr(distributed.Client, "scatter", lose_all)
    with pytest.raises(NetworkError, match="does not answer, or has no workers: Stream is closed"):
        come(executor, trials)


def test_closing_stops_a_long_trial_and_keeps_what_came(two: Any, executor: ClusterExecutor) -> None:
    table = np.ones((4, 4000), dtype=np.float32)
    long = stream(table, [0, 1, 2, 3], rounds=5_000_000)  # about a minute
    trials = [*trials_on(stream(X, Y), 2, 1), Trial(make_entry("banditron"), long, 0)]
    with closing(executor.run(trials, lambda count: None)) as found:
        came = [next(found), next(found)]
        running = "lambda dask_worker: len(dask_worker.state.executing)"
        assert until(lambda: sum(two.run(eval(running)).values()) == 1)
    assert {row.id for row in came} == {trial.identity for trial in trials[:2]}
    assert until(lambda: sum(two.run(eval(running)).values()) == 0)


def test_a_rule_of_ones_own_file_runs_where_the_file_is_not(executor: ClusterExecutor, nudge: Any) -> None:
    trials = [Trial(make_entry(nudge, {"step": 0.5}), stream(X, Y), 0)]  # one, since each worker that has one compiles
    assert come(executor, trials) == on_threads(trials)


def test_a_worker_with_another_version_is_refused(two: Any, executor: ClusterExecutor) -> None:
    def pretend(version: str | None) -> None:
        vars(worker)["worker_version"] = (lambda: version) if version else vars(worker)["_true"]

    def remember() -> None:
        vars(worker).setdefault("_true", worker.worker_version)

    two.run(remember)
    two.run(pretend, "onebit 0.0.1")
    try:
        with pytest.raises(
            OnebitError,
            match=r"a worker on \S+ has onebit 0\.0\.1, but the command runs with onebit .* install the same",
        ):
            come(executor, trials_on(stream(X, Y), 5))
    finally:
        two.run(pretend, None)


@pytest.mark.parametrize("error", [ZeroDivisionError, ConnectionError])
def test_an_error_of_ours_comes_out_with_its_text_and_the_trial(
    executor: ClusterExecutor, error: type[Exception]
) -> None:
    def broken(rounds: int, seed: int) -> Any:
        raise error("a mistake of ours")

    with pytest.raises(OnebitError, match=rf"on drawn, seed \d failed on \S+: {error.__name__}: a mistake of ours"):
        come(executor, trials_on(drawn(broken), 3))


def test_a_sweep_on_it_is_that_on_threads(address: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"grid": {"exploration": [0.05, 0.2]}, "rounds": 200, "runs": 2, "fresh_runs": 2}
    there = onebit.sweep("banditron", "synsep9", on=f"dask://{address}", out=tmp_path, **settings)
    here = onebit.sweep("banditron", "synsep9", on="threads", **settings)
    assert there.to_dict()["settings"] == here.to_dict()["settings"]
    assert f"Dask, 2 workers with 2 threads at tcp://{address}" in there.page().facts["ran on"]


def test_without_an_address_the_cores_of_this_machine_are_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "cores", lambda: 2)
    with closing(make_executor("dask")) as executor:
        assert executor.where == "Dask, 1 worker with 2 threads on this machine"
        assert len(come(executor, trials_on(stream(X, Y), 2))) == 6


def assert_stops_when(true: Callable[[subprocess.Popen[str]], bool], folder: Path, *settings: str) -> None:
    """Ctrl-C at a terminal goes to all processes of a command; the workers do not answer it with pages of their own."""
    command = ["sweep", "banditron", "synsep9", *settings, "--on", "dask", "--out", str(folder), "--quiet"]
    program = [sys.executable, "-m", "onebit", *command]
    with subprocess.Popen(program, start_new_session=True, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert until(lambda: true(process), 60)
            os.killpg(process.pid, signal.SIGINT)
            said = process.communicate(timeout=120)[1]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert "finished runs are kept" in said
    assert "Traceback" not in said


@slow
def test_ctrl_c_at_a_terminal_is_for_the_command_alone(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"

    def some_are_done(process: subprocess.Popen[str]) -> bool:
        return rows.exists() and len(rows.read_text().splitlines()) > 5

    assert_stops_when(some_are_done, tmp_path, "--grid", "exploration=0.01..0.3:log:400", "--rounds", "100000")


def test_an_address_where_nobody_is_is_a_sentence() -> None:
    with pytest.raises(NetworkError, match=r"there is no Dask scheduler at 127\.0\.0\.1:\d+: .*refused"):
        make_executor(f"dask://127.0.0.1:{free_port()}")


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH_9.6\r\n", b""])
def test_another_server_is_no_scheduler(greeting: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "CONNECT_S", 1.0)
    monkeypatch.setattr(cluster, "CONNECT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak() -> None:
            with suppress(OSError):  # when it is closed
                while True:
                    lines.append(other.accept()[0])
                    lines[-1].sendall(greeting)

        lines: list[socket.socket] = []
        Thread(target=speak, daemon=True).start()
        with pytest.raises(NetworkError, match=r"no Dask scheduler at 127\.0\.0\.1:\d+: "):
            make_executor(f"dask://127.0.0.1:{other.getsockname()[1]}")
        for line in lines:
            line.close()


def test_whatever_dask_fails_with_there_is_no_scheduler(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **named: Any) -> None:
        raise MemoryError("Unable to allocate 2.82 EiB")

    monkeypatch.setattr(distributed, "Client", broken)
    with pytest.raises(NetworkError, match=rf"there is no Dask scheduler at {address}: Unable to allocate 2\.82 EiB"):
        make_executor(f"dask://{address}")


def test_without_dask_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(OnebitError, match=re.escape(f"running on Dask needs distributed: {install_command('dask')}")):
        make_executor("dask")


def test_workers_run_no_code_of_the_working_directory(tmp_path: Path) -> None:
    code, said, run = ran_among_hostile_files(tmp_path, "dask")
    assert run == set()
    assert code == 0, said
