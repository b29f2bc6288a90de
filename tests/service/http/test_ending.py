"""How the process ends while something takes long that cannot be stopped, and which code it runs: a real process each time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.service.driving import PATIENCE_S
from tests.service.site import NEW, Process, process_in, site_in

SOON_S = 45.0  # on a busy machine; what is waited for here sleeps for ten minutes

# A process that compiles for ever, does not hear SIGTERM, and has started another.
COMPILES = """
import os, signal, subprocess, sys, time
if "onebit.engine.processes" in sys.orig_argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    other = subprocess.Popen(["sleep", "600"])
    part = f"{os.environ['MARK']}.{os.getpid()}"  # one of several processes
    open(part, "w").write(f"{os.getpid()} {other.pid}")
    os.rename(part, os.environ["MARK"])
    time.sleep(600)
"""
# What a thread of the service does takes for ever.
HANGS = """
import os, sys, time
if "serve" in sys.orig_argv:
    import {module} as module
    def hang(*given, **more):
        open(os.environ["MARK"], "w").close()
        time.sleep(600)
    module.{name} = hang
"""


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def patched(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """The environment in which Python begins with a program."""

    def make(program: str) -> dict[str, str]:
        folder = tmp_path / "patch"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(program)
        return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "MARK": str(tmp_path / "mark")}

    return make


def assert_lives(folder: Path) -> Path:
    """The folder of a service with a task and enough rows that training from them takes a while."""
    with site_in(folder) as site:
        assert site.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        asks = [{"id": str(number), "x": [1, 2, 3]} for number in range(1200)]
        assert site.ask("POST", "/v1/tasks/fruit/decide", json=asks).status_code == 200
    return folder


def gone(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def ended_soon(process: Process, how: signal.Signals = signal.SIGTERM) -> None:
    began = time.monotonic()
    assert process.end(how) == 0
    assert time.monotonic() - began < SOON_S
    assert process.events[-1]["event"] == "ended"


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_a_process_that_compiles_is_ended_with_all_that_it_started(
    tmp_path: Path, patched: Callable[[str], dict[str, str]]
) -> None:
    answers: list[httpx.Response] = []
    new = {"ONEBIT_CACHE": str(tmp_path / "cache")}  # where nothing is compiled yet
    with process_in(tmp_path / "data", "--drain-s", "1", **patched(COMPILES), **new) as process:
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{process.url}/v1/tasks", json=NEW, timeout=PATIENCE_S))
        )
        asking.start()
        until((tmp_path / "mark").exists)
        ended_soon(process)
        asking.join()
    pids = [int(pid) for pid in (tmp_path / "mark").read_text().split()]
    assert all(gone(pid) for pid in pids)
    assert [answer.status_code for answer in answers] == [504]
    assert not any("Traceback" in line or "never retrieved" in line for line in process.lines)


@pytest.mark.parametrize(
    ("module", "name", "path", "body"),
    [
        ("onebit.service.core.compiler", "warm", "/v1/tasks", {**NEW, "name": "other"}),
        ("onebit.service.core.follower", "LogFollower.approach", "/v1/tasks/fruit/learner", {"learner": "bpa"}),
    ],
    ids=["compiling in this process", "training from the log"],
)
def test_what_cannot_be_stopped_is_not_waited_for(
    tmp_path: Path, patched: Callable[[str], dict[str, str]], module: str, name: str, path: str, body: dict[str, object]
) -> None:
    data = assert_lives(tmp_path / "data")
    with process_in(data, "--drain-s", "1", **patched(HANGS.format(module=module, name=name))) as process:
        with contextlib.suppress(httpx.TimeoutException):
            httpx.post(f"{process.url}{path}", json=body, timeout=2.0)
        until((tmp_path / "mark").exists)
        ended_soon(process)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_takes_long_is_not_waited_for(
    tmp_path: Path, patched: Callable[[str], dict[str, str]], how: signal.Signals
) -> None:
    data = assert_lives(tmp_path / "data")
    environment = {**os.environ, **patched(HANGS.format(module="onebit.service.core.recovery", name="warm"))}
    command = [sys.executable, "-m", "onebit", "serve", "--data", str(data), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as starting:
        until((tmp_path / "mark").exists)
        began = time.monotonic()
        starting.send_signal(how)
        said = starting.communicate(timeout=PATIENCE_S)[1]
        assert time.monotonic() - began < SOON_S
    assert starting.returncode == 0
    assert "stopped before it was ready" in said
    assert "Traceback" not in said


def test_code_in_the_working_directory_is_not_run(tmp_path: Path) -> None:
    """Whoever can write where the service is started has not won: it is started by its script, as anybody does."""
    hostile, mark = tmp_path / "hostile", tmp_path / "mark"
    hostile.mkdir()
    program = f"open({str(mark)!r}, 'a').write(__name__)\nraise SystemExit('hostile')\n"
    for name in ("numba", "json", "onebit", "numpy", "subprocess", "multiprocessing"):
        (hostile / f"{name}.py").write_text(program)
    before = Path.cwd()
    os.chdir(hostile)
    try:
        command, new = [sys.executable, "-P", "-m", "onebit"], str(tmp_path / "cache")
        process = Process(tmp_path / "data", command=command, ONEBIT_CACHE=new)
    finally:
        os.chdir(before)
    try:
        assert httpx.post(f"{process.url}/v1/tasks", json=NEW, timeout=PATIENCE_S).status_code == 201
    finally:
        assert process.end() == 0
    assert not mark.exists()
    assert [event["event"] for event in process.events if event["event"].startswith("compiling")] == ["compiling"]
