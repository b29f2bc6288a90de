"""Processes that compile: one for each call, and ended; what they fail at is said."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from onebit.engine import processes
from onebit.engine.processes import CompilingProcesses

PATIENCE_S = 60.0

# What such a process does: it notes which process it is, and does what it is told.
MODULE = """
import os, sys, time

def carry_out(what, path):
    open(path, "a").write(f"{os.getpid()}\\n")
    if what == "do":
        print("this is no error", flush=True)
    if what == "fail":
        raise ValueError("first line\\n it cannot be done")
    if what == "die":
        print("out of memory", file=sys.stderr)
        os._exit(7)
    if what == "leave":
        os._exit(7)
    while what == "hang":
        time.sleep(0.01)
    while what == "meet" and len(open(path).read().split()) < 2:
        time.sleep(0.01)
"""


Call = Callable[..., None]


def planted(monkeypatch: pytest.MonkeyPatch, name: str) -> Call:
    """Return `carry_out` of a module with this name, as this process would have imported it."""
    made = ModuleType(name)
    exec(MODULE, vars(made))
    monkeypatch.setitem(sys.modules, name, made)
    call: Call = made.carry_out
    return call


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    (tmp_path / "carries_out.py").write_text(MODULE)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    return planted(monkeypatch, "carries_out")


def pids(path: Path) -> list[int]:
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_what_the_start_of_a_python_prints_does_no_harm(
    call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As an import hook or a `sitecustomize` may."""
    (tmp_path / "sitecustomize.py").write_text('print("welcome")\n')
    mark = tmp_path / "mark"
    with closing(CompilingProcesses()) as some:
        assert some.call(call, "do", mark, what="a loop")
        assert not some.call(call, "fail", mark, what="another loop")
    assert caplog.messages == [
        "another loop could not be compiled in another process, so it is compiled in this one: it cannot be done"
    ]


def test_a_process_ends_with_its_call(call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mark = tmp_path / "mark"
    with closing(CompilingProcesses()) as some:
        for _ in range(2):
            assert some.call(call, "do", mark, what="it")
            assert gone(pids(mark)[-1])
    assert len(set(pids(mark))) == 2
    assert caplog.records == []


def test_several_work_at_a_time(call: Call, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with closing(CompilingProcesses()) as some, ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: some.call(call, "meet", mark, what="it"), range(4)))
    assert len(pids(mark)) == 4


@pytest.mark.parametrize(
    ("what", "why"), [("fail", "it cannot be done"), ("die", "out of memory"), ("leave", "exit code 7")]
)
def test_what_fails_is_said_and_the_next_call_is_made(
    what: str, why: str, call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(CompilingProcesses()) as some:
        assert not some.call(call, what, tmp_path / "mark", what="Banditron")
        assert some.call(call, "do", tmp_path / "mark", what="Banditron")
    (said,) = caplog.messages
    assert said == f"Banditron could not be compiled in another process, so it is compiled in this one: {why}"


def test_one_that_takes_too_long_is_given_up(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "TIME_LIMIT_S", 0.5)
    with closing(CompilingProcesses()) as some:
        assert not some.call(call, "hang", tmp_path / "mark", what="Banditron")
    assert (
        "Banditron could not be compiled in another process, so it is compiled in this one: it took longer than"
        in caplog.text
    )
    assert all(gone(pid) for pid in pids(tmp_path / "mark"))


def test_whoever_waits_hears_that_all_ends(call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mark, answers = tmp_path / "mark", list[bool]()
    some = CompilingProcesses()

    def asks() -> None:
        answers.append(some.call(call, "hang", mark, what="it"))

    asking = [threading.Thread(target=asks) for _ in range(2)]
    for one in asking:
        one.start()
    until(lambda: len(pids(mark)) == 2)
    assert os.getsid(pids(mark)[0]) != os.getsid(0)
    some.close()
    for one in asking:
        one.join(PATIENCE_S)
    assert answers == [False, False]
    assert all(gone(pid) for pid in pids(mark))
    assert not some.call(call, "do", mark, what="it")
    assert caplog.records == []


def test_the_folder_in_which_it_is_started_is_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) not in sys.path
    with closing(CompilingProcesses()) as some:
        assert not some.call(planted(monkeypatch, "planted"), "do", tmp_path / "mark", what="it")
    assert pids(tmp_path / "mark") == []
