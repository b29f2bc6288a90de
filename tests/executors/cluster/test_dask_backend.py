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
from contextlib import closing
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.data.streams import stream
from onebit.errors import NetworkError, OnebitError
from onebit.executors import executor_of
from onebit.executors.cluster import dask_backend, worker
from onebit.executors.cluster.dask_backend import dask_executor
from onebit.executors.cluster.executor import ClusterExecutor
from onebit.installation import install_command
from onebit.trials.cost import in_words
from onebit.trials.trial import Trial, entry_of
from tests.executors.cluster.test_executor import nudge
from tests.executors.helpers import (
    Deadly,
    Traced,
    X,
    Y,
    come,
    drawn,
    free_port,
    grouped,
    mixed,
    on_threads,
    ran_among_hostile_files,
    trials_on,
)
from tests.logged import heard
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
    assert in_words(executor.resources) == f"Dask, 2 workers with 2 threads at tcp://{address}"
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
        pytest.raises(OnebitError, match=r"banditron, exploration=0\.1 on drawn, seed 5: 3 workers were lost"),
    ):
        come(executor, trials_on(drawn(deadly), 12, 1))
    assert len(deadly.killed) == 3


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


def test_closing_stops_a_long_trial_and_keeps_what_came(two: Any, executor: ClusterExecutor) -> None:
    table = np.ones((4, 4000), dtype=np.float32)
    long = stream(table, [0, 1, 2, 3], rounds=5_000_000)  # about a minute
    trials = [*trials_on(stream(X, Y), 2, 1), Trial(entry_of("banditron"), long, 0)]
    with closing(executor.run(grouped(trials), lambda count: None)) as found:
        came = [next(found), next(found)]
        running = "lambda dask_worker: len(dask_worker.state.executing)"
        assert until(lambda: sum(two.run(eval(running)).values()) == 1)
    assert {row.fields["id"] for row in came} == {trial.identity for trial in trials[:2]}
    assert until(lambda: sum(two.run(eval(running)).values()) == 0)


def test_a_rule_of_ones_own_file_runs_where_the_file_is_not(executor: ClusterExecutor, nudge: Any) -> None:
    trials = [Trial(entry_of(nudge, {"step": 0.5}), stream(X, Y), 0)]  # one, since each worker that has one compiles
    assert come(executor, trials) == on_threads(trials)


def test_a_worker_with_another_version_is_left_out(two: Any, address: str) -> None:
    old, other = list(two.scheduler_info()["workers"])

    def call_it(version: str) -> None:
        vars(worker)["VERSION"] = version

    two.run(call_it, "0.0.1", workers=[old])
    try:
        with heard("onebit.executors") as said, closing(dask_executor(address)) as executor:
            assert in_words(executor.resources).startswith("Dask, 1 worker with 1 thread")
            assert said[0].startswith(f"the worker {old} is left out: it runs onebit 0.0.1")
            assert len(come(executor, trials_on(stream(X, Y), 5))) == 15
            two.run(call_it, "0.0.1", workers=[other])
        with closing(dask_executor(address)) as executor, pytest.raises(OnebitError, match="no workers but those"):
            come(executor, trials_on(stream(X, Y), 5))
    finally:
        two.run(call_it, onebit.version.VERSION)


@pytest.mark.parametrize("error", [ZeroDivisionError, ConnectionError])
def test_an_error_of_ours_comes_out_with_its_text_and_the_trial(
    executor: ClusterExecutor, error: type[Exception]
) -> None:
    def broken(rounds: int, seed: int) -> Any:
        raise error("a mistake of ours")

    with pytest.raises(OnebitError, match=rf"on drawn, seed \d, fails on \S+: {error.__name__}: a mistake of ours"):
        come(executor, trials_on(drawn(broken), 3))


def test_a_sweep_on_it_is_that_on_threads(address: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"grid": {"exploration": [0.05, 0.2]}, "rounds": 200, "runs": 2, "fresh_runs": 2}
    there = onebit.sweep("banditron", "synsep9", on=f"dask://{address}", out=tmp_path, **settings)
    here = onebit.sweep("banditron", "synsep9", on="threads", **settings)
    assert there.to_dict()["settings"] == here.to_dict()["settings"]
    assert f"Dask, 2 workers with 2 threads at tcp://{address}" in there.page().facts["ran on"]


def test_without_an_address_the_cores_of_this_machine_are_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_backend, "cores", lambda: 1)
    with closing(executor_of("dask")) as executor:
        assert in_words(executor.resources) == "Dask, 1 worker with 1 thread on this machine"
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
    assert "what is done is kept" in said
    assert "Traceback" not in said


@slow
def test_ctrl_c_at_a_terminal_is_for_the_command_alone(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"

    def some_are_done(process: subprocess.Popen[str]) -> bool:
        return rows.exists() and len(rows.read_text().splitlines()) > 5

    assert_stops_when(some_are_done, tmp_path, "--grid", "exploration=0.01..0.3:log:400", "--rounds", "100000")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
def test_ctrl_c_while_the_workers_start_is_heard_when_they_have(tmp_path: Path) -> None:
    def workers_begin(process: subprocess.Popen[str]) -> bool:
        return len(psutil.Process(process.pid).children(recursive=True)) > 1

    settings = ("--grid", "exploration=0.01,0.1", "--rounds", "1000000", "--runs", "200")
    assert_stops_when(workers_begin, tmp_path, *settings)


def test_a_worker_without_onebit_is_left_out_and_gets_nothing(tmp_path: Path) -> None:
    """Two workers of one scheduler; one finds something else under the name of onebit."""
    (tmp_path / "onebit.py").write_text("raise ImportError('no onebit here')")
    port = free_port()
    scheduler = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no-dashboard",
    ]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny", "--no-dashboard"]  # fmt: skip
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path.parent}
    processes = [subprocess.Popen(scheduler, **quiet)]
    try:
        for path in ("", str(tmp_path)):
            processes.append(subprocess.Popen(worker, env={**os.environ, "PYTHONPATH": path}, **quiet))
        with distributed.Client(f"tcp://127.0.0.1:{port}", timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        trials = trials_on(stream(X, Y), 8)
        with closing(dask_executor(f"127.0.0.1:{port}")) as executor:
            assert come(executor, trials) == on_threads(trials)
            assert in_words(executor.resources) == f"Dask, 1 worker with 1 thread at tcp://127.0.0.1:{port}"
    finally:
        for process in processes:
            process.terminate()
            process.wait(60)


def test_an_address_where_nobody_is_is_a_sentence() -> None:
    with pytest.raises(NetworkError, match=r"there is no Dask scheduler at 127\.0\.0\.1:\d+: .*refused"):
        executor_of(f"dask://127.0.0.1:{free_port()}")


def test_another_server_is_no_scheduler() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak() -> None:
            with other.accept()[0] as line:
                line.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

        Thread(target=speak).start()
        with pytest.raises(NetworkError, match=r"no Dask scheduler at 127\.0\.0\.1:\d+: something else answers there"):
            executor_of(f"dask://127.0.0.1:{other.getsockname()[1]}")


def test_whatever_dask_fails_with_there_is_no_scheduler(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **named: Any) -> None:
        raise MemoryError("Unable to allocate 2.82 EiB")

    monkeypatch.setattr(distributed, "Client", broken)
    with pytest.raises(NetworkError, match=rf"there is no Dask scheduler at {address}: Unable to allocate 2\.82 EiB"):
        executor_of(f"dask://{address}")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("no route"), r"no Dask scheduler on this machine, though one was started: no route"),
        (KeyboardInterrupt(), "^$"),
    ],
)
def test_a_cluster_that_was_started_ends_when_it_cannot_be_joined(
    error: BaseException, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []

    def broken(*arguments: Any, **named: Any) -> None:
        raise error

    monkeypatch.setattr(dask_backend, "_started", lambda package: SimpleNamespace(close=lambda: ended.append(True)))
    monkeypatch.setattr(distributed, "Client", broken)
    with pytest.raises(OnebitError if isinstance(error, OSError) else KeyboardInterrupt, match=said):
        executor_of("dask")
    assert ended == [True]


def test_without_dask_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(OnebitError, match=re.escape(f"Dask is not installed here: {install_command('dask')}")):
        executor_of("dask")


def test_workers_run_no_code_of_the_working_directory(tmp_path: Path) -> None:
    code, said, run = ran_among_hostile_files(tmp_path, "dask")
    assert run == set()
    assert code == 0, said
