"""Processes that compile: one for each order, at most so many at a time, and ended; what they fail at is said."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from onebit.engine import processes
from onebit.engine.processes import CompilingProcesses

PATIENCE_S = 60.0

# What such a process does: it notes which process it is, and does what it is told.
MODULE = """
import os, sys, time
from onebit.engine.processes import carry_out_order

def carry_out(order):
    what, _, path = order.decode().partition(" ")
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

carry_out_order(carry_out)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "carries_out.py").write_text(MODULE)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    return "carries_out"


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


def order(what: str, mark: Path) -> bytes:
    return f"{what} {mark}".encode()


def test_what_the_start_of_a_python_prints_does_no_harm(
    module: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As an import hook or a `sitecustomize` may."""
    (tmp_path / "sitecustomize.py").write_text('print("welcome")\n')
    mark = tmp_path / "mark"
    with closing(CompilingProcesses(module, 1)) as some:
        assert some.ask(order("do", mark), "a loop")
        assert not some.ask(order("fail", mark), "another loop")
    assert caplog.messages == [
        "another loop could not be compiled in another process, and is in this one: it cannot be done"
    ]


def test_a_process_ends_with_its_order(module: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mark = tmp_path / "mark"
    with closing(CompilingProcesses(module)) as some:
        for _ in range(2):
            assert some.ask(order("do", mark), "it")
            assert gone(pids(mark)[-1])
    assert len(set(pids(mark))) == 2
    assert caplog.records == []


def test_several_work_at_a_time_but_no_more_than_asked_for(module: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with closing(CompilingProcesses(module, 2)) as some, ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: some.ask(order("meet", mark), "it"), range(4)))
        assert some._free._value == 2  # type: ignore[union-attr]
    assert len(pids(mark)) == 4


@pytest.mark.parametrize(
    ("what", "why"), [("fail", "it cannot be done"), ("die", "out of memory"), ("leave", "exit code 7")]
)
def test_what_fails_is_said_and_the_next_order_is_carried_out(
    what: str, why: str, module: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(CompilingProcesses(module, 1)) as some:
        assert not some.ask(order(what, tmp_path / "mark"), "Banditron")
        assert some.ask(order("do", tmp_path / "mark"), "Banditron")
    (said,) = caplog.messages
    assert said == f"Banditron could not be compiled in another process, and is in this one: {why}"


def test_one_that_takes_too_long_is_given_up(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "LONGEST_S", 0.5)
    with closing(CompilingProcesses(module, 1)) as some:
        assert not some.ask(order("hang", tmp_path / "mark"), "Banditron")
    assert "Banditron could not be compiled in another process, and is in this one: it took longer than" in caplog.text
    assert all(gone(pid) for pid in pids(tmp_path / "mark"))


@pytest.mark.parametrize("own_session", [True, False])
def test_whoever_waits_hears_that_all_ends(
    own_session: bool, module: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark, answers = tmp_path / "mark", list[bool]()
    some = CompilingProcesses(module, 1, own_session=own_session)

    def asks() -> None:
        answers.append(some.ask(order("hang", mark), "it"))

    asking = [threading.Thread(target=asks) for _ in range(2)]  # one of which waits for the other's process
    for one in asking:
        one.start()
    until(lambda: pids(mark))
    assert (os.getsid(pids(mark)[0]) == os.getsid(0)) is not own_session
    some.close()
    for one in asking:
        one.join(PATIENCE_S)
    assert answers == [False, False]
    assert all(gone(pid) for pid in pids(mark))
    assert not some.ask(order("do", mark), "it")
    assert caplog.records == []


def test_the_folder_in_which_it_is_started_is_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) not in sys.path
    with closing(CompilingProcesses("planted", 1)) as some:
        assert not some.ask(order("do", tmp_path / "mark"), "it")
    assert pids(tmp_path / "mark") == []
