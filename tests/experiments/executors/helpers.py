"""Trials for a cluster, sources that leave traces or end their worker, and what threads make of the same."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onebit.checks.examples import rows
from onebit.data.dataset import Dataset
from onebit.data.sources import Source
from onebit.data.streams import Stream, stream
from onebit.experiments.executors import Executor
from onebit.experiments.executors.threads import ThreadsExecutor
from onebit.experiments.runner import TrialCollector
from onebit.experiments.trials import Progress, Trial, make_entry
from onebit.experiments.trials.records import Record, Records

X, Y = rows(60)
OWN = {"seconds", "written"}  # of each run, whatever it gave


def trials_on(streamed: Stream, seeds: int, learners: int = 3) -> list[Trial]:
    """Some trials of Banditron."""
    entries = [make_entry("banditron", {"exploration": 0.1 + 0.01 * index}) for index in range(learners)]
    return [Trial(entry, streamed, seed) for seed in range(seeds) for entry in entries]


def mixed() -> list[Trial]:
    """Rows that are drawn, rows that are given, late answers, candidates, rewards, and one stream on which every trial fails."""
    bad = X.copy()
    bad[41] *= 1e25
    streams = [
        stream("synsep9", rounds=300, noise=0.1, delay="geometric:5"),
        stream(X, Y, rounds=200, order="shuffle"),
        stream("synsep9", rounds=150, order="resample"),
        stream(bad, Y),
        stream("synsep9", rounds=150, candidates=4, corrected=0.5, delay=3),
        stream(X, rewards=np.eye(5)[Y] / 2, rounds=100),
    ]
    entries = [make_entry("bpa"), *(make_entry("banditron", {"exploration": share}) for share in (0.1, 0.3))]
    return [Trial(entry, one, seed) for one in streams for seed in range(4) for entry in entries]


def collect(
    trials: Iterable[Trial], records: Records, executor: Executor, progress: Progress | None = None
) -> TrialCollector:
    """A collector that has collected these trials."""
    collector = TrialCollector(records, executor, progress)
    collector.collect(trials)
    return collector


def come(
    executor: Executor, trials: Sequence[Trial], progress: Progress = lambda count: None
) -> dict[str, dict[str, Any]]:
    """What came of all trials, each once, by their ids."""
    found = list(executor.run(trials, progress))
    assert len(found) == len(trials)
    assert {record.id for record in found} == {trial.identity for trial in trials}
    return {record.id: plain(record) for record in found}


def plain(record: Record) -> dict[str, Any]:
    """A record without what differs from run to run, and with lists for arrays."""
    fields = {name: value for name, value in record.to_dict().items() if name not in OWN}
    if fields["curve"] is not None:
        fields["curve"] = {name: np.asarray(points).tolist() for name, points in fields["curve"].items()}
    return fields


def on_threads(trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """The same on threads."""
    return come(ThreadsExecutor(2), trials)


def drawn(make: Callable[[int, int], Dataset], fixed: bool = False, rounds: int = 50) -> Stream:
    """A stream from a source of the test's own."""
    plan = stream("synsep9", rounds=rounds)
    source = Source("drawn", fixed, rounds, make, dict)
    return Stream(source, rounds, "file", plan.noise, plan.drift, plan.delay, plan.missing, 0)


class Deadly:
    """Rows that end the worker that draws those of one seed, the first time."""

    def __init__(self, folder: Path, seed: int, always: bool = False) -> None:
        self._done, self._seed, self._always = folder / "killed", seed, always

    @property
    def killed(self) -> list[str]:
        return self._done.read_text().split() if self._done.exists() else []

    def __call__(self, rounds: int, seed: int) -> Dataset:
        if seed == self._seed and (self._always or not self._done.exists()):
            with self._done.open("a") as file:
                file.write(f"{os.getpid()}\n")
            os.kill(os.getpid(), signal.SIGKILL)
        table, labels = rows(rounds, seed=seed)
        return Dataset(table, labels, tuple(range(5)))


class Traced:
    """Rows that are given, and write down which process opens them."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace
        self._data = Dataset(np.array(X), np.array(Y), tuple(range(5)))

    def __call__(self, rounds: int, seed: int) -> Dataset:
        return self._data

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        with self._trace.open("a") as file:
            file.write(f"{os.getpid()}\n")

    @property
    def opened(self) -> list[str]:
        return self._trace.read_text().split()


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


SCRIPT = """
import sys
from onebit.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""


def ran_among_hostile_files(folder: Path, on: str) -> tuple[int, str, set[str]]:
    """The exit code of a sweep that is started by a script in another folder, what it said, and which files of its folder were run."""
    hostile = folder / "hostile"
    hostile.mkdir()
    (folder / "script").mkdir()
    script = folder / "script" / "onebit-command.py"
    script.write_text(SCRIPT)
    for name in ("multiprocessing", "json", "numpy", "numba", "onebit", "distributed", "ray", "cloudpickle"):
        (hostile / f"{name}.py").write_text(f"open({str(folder / name)!r}, 'w').close()\nraise SystemExit('hostile')\n")
    arguments = ["sweep", "banditron", "synsep9", "--grid", "exploration=0.1,0.2", "--rounds", "200", "--runs", "1"]
    command = [sys.executable, str(script), *arguments, "--on", on, "--out", str(folder / "out"), "--quiet"]
    ended = subprocess.run(command, cwd=hostile, capture_output=True, text=True, timeout=240, check=False)
    run = {path.name for path in folder.iterdir()} - {"hostile", "script", "out"}
    return ended.returncode, ended.stderr, run
