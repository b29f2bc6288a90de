"""Ray, started on this machine: one of its workers is killed in the midst, data reach each once, and nothing is left running."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onebit.contract.installation import install_command
from onebit.data.streams import stream
from onebit.errors import NetworkError, OnebitError
from onebit.experiments.executors import make_executor
from onebit.experiments.executors.cluster import ClusterExecutor
from onebit.experiments.executors.cluster import ray as ray_cluster
from onebit.experiments.executors.cluster.ray import ray_executor
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

ray = pytest.importorskip("ray", reason="Ray is not installed")
psutil = pytest.importorskip("psutil", reason="psutil, which comes with Ray and Dask, is not installed")


@pytest.fixture(scope="module")
def executor() -> Iterator[ClusterExecutor]:
    """Two workers; starting Ray takes seconds, so that all tests share it."""
    before = set(psutil.Process().children(recursive=True))
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("RAY_ADDRESS", raising=False)
        with closing(ray_executor(None)) as made:
            yield made
    assert not ray.is_initialized()
    left = set(psutil.Process().children(recursive=True)) - before
    assert not psutil.wait_procs(left, timeout=20)[1], "no process goes on in the dark"


def test_rows_are_those_of_threads(executor: ClusterExecutor) -> None:
    trials, seen = mixed(), list[int]()
    cores = int(ray.cluster_resources()["CPU"])
    assert executor.where.startswith(f"Ray, {cores} cores at 1")
    found = come(executor, trials, seen.append)
    assert found == on_threads(trials)
    assert sum(1 for row in found.values() if row["why"]) == 12, "failures are rows"
    assert sum(seen) == sum(trial.stream.rounds for trial in trials)


def test_data_reach_each_worker_once(executor: ClusterExecutor, tmp_path: Path) -> None:
    traced = Traced(tmp_path / "trace")
    come(executor, trials_on(drawn(traced, fixed=True), 40))
    assert len(traced.opened) == len(set(traced.opened)) <= 2


def test_a_worker_that_is_killed_in_the_midst_costs_no_row(executor: ClusterExecutor, tmp_path: Path) -> None:
    deadly = Deadly(tmp_path, seed=5)
    trials = trials_on(drawn(deadly), 12)
    found = come(executor, trials)
    assert len(deadly.killed) == 1
    assert deadly.killed != [str(os.getpid())]
    assert found == on_threads(trials)


@pytest.mark.parametrize("error", [ZeroDivisionError, ConnectionError])
def test_an_error_of_ours_comes_out_with_its_text_and_the_trial(
    executor: ClusterExecutor, error: type[Exception]
) -> None:
    def broken(rounds: int, seed: int) -> Any:
        raise error("a mistake of ours")

    with pytest.raises(OnebitError, match=rf"on drawn, seed \d failed on \S+: {error.__name__}: a mistake of ours"):
        come(executor, trials_on(drawn(broken), 3))


def test_closing_keeps_what_came_and_the_next_run_finds_workers(executor: ClusterExecutor) -> None:
    trials = trials_on(stream(X, Y), 30)
    with closing(executor.run(trials, lambda count: None)) as found:
        assert next(found).id in {trial.identity for trial in trials}
    assert come(executor, trials[:9]) == on_threads(trials[:9])


@slow
def test_a_trial_that_kills_every_worker_is_named(executor: ClusterExecutor, tmp_path: Path) -> None:
    deadly = Deadly(tmp_path, seed=5, always=True)
    said = r"banditron, exploration=0\.1 on drawn, seed 5: every worker that had it was lost"
    with pytest.raises(OnebitError, match=said):
        come(executor, trials_on(drawn(deadly), 12, 1))
    assert len(deadly.killed) == 6, "three times among others, and three times alone"


def test_a_ray_that_the_user_has_joined_is_left_to_them(executor: ClusterExecutor) -> None:
    with closing(make_executor("ray")) as other:
        assert other.where.endswith("that this process has joined")
    assert ray.is_initialized()
    with pytest.raises(OnebitError, match="this process has joined a Ray cluster already"):
        make_executor("ray://127.0.0.1:10001")


def test_an_address_where_nobody_is_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(NetworkError, match=r"there is no Ray cluster at 127\.0\.0\.1:\d+: .*refused"):
        make_executor(f"ray://127.0.0.1:{free_port()}")


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        ("127.0.0.1:{port}", None, r"there is no Ray cluster at 127\.0\.0\.1:\d+: .*refused"),
        ("rubbish", None, "the address of Ray's cluster is 'rubbish', but must be host:port"),
        ("auto", RuntimeError("Traceback (most recent call last):\n  File\nOSError: late"), "at auto: OSError: late"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_address_in_the_environment_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, address: str, error: Exception | None, said: str
) -> None:
    def init(**options: Any) -> None:
        assert error is not None, "Ray would wait for minutes"
        raise error

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setenv("RAY_ADDRESS", address.format(port=free_port()))
    with pytest.raises(OnebitError, match=said):
        make_executor("ray")


def test_one_that_answers_and_takes_nobody_may_ask_for_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**options: Any) -> None:
        raise ConnectionError("Failed to connect")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray_cluster, "require_server", lambda address: None)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.7:6379")
    with pytest.raises(
        OnebitError, match=r"Ray cluster at 10\.0\.0\.7:6379: Failed to connect; where it asks for a token, set"
    ):
        make_executor("ray")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    with pytest.raises(OnebitError, match=r"Ray cluster at 10\.0\.0\.7:6379: Failed to connect$"):
        make_executor("ray")


def test_where_ray_does_not_start_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**options: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", broken)
    with pytest.raises(OnebitError, match="Ray cannot be started on this machine: no room"):
        make_executor("ray")


def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OnebitError, match=re.escape(f"running on Ray needs ray: {install_command('ray')}")):
        make_executor("ray")


class Joined:
    """What Ray would tell its workers: the folder in which it is joined, and whether Python is kept from that of a process."""

    def __init__(self) -> None:
        self.joined: list[tuple[str, str | None]] = []

    def init(self, **_: Any) -> None:
        self.joined.append((str(Path.cwd()), os.environ.get("PYTHONSAFEPATH")))

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="10.0.0.7:6379")


def test_workers_look_for_code_where_this_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    for path, folder in (([str(tmp_path / "other")], os.sep), ([""], str(tmp_path)), ([str(tmp_path)], str(tmp_path))):
        monkeypatch.setattr(sys, "path", path)
        joined = Joined()
        assert ray_cluster._join(joined, None) == "at 10.0.0.7:6379"
        assert joined.joined == [(folder, "1")]
        assert Path.cwd() == tmp_path
        assert "PYTHONSAFEPATH" not in os.environ


@slow
def test_workers_run_no_code_of_the_working_directory(tmp_path: Path) -> None:
    code, said, run = ran_among_hostile_files(tmp_path, "ray")
    assert run == set()
    assert code == 0, said
