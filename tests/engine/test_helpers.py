"""Loops that are compiled in other processes: the same ones, while this one is at it; where that fails, in this one."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onebit.cli.warmup import build_spaces
from onebit.contract.options import Options
from onebit.contract.rule import Rule
from onebit.engine import compile as compiling
from onebit.engine.code_cache import write_code
from onebit.engine.compile import cache_folder, helped_by, helpers_for, is_known
from onebit.engine.processes import CompilingProcesses
from onebit.engine.stream import lessons, stream
from onebit.rules import rule_named
from onebit.spaces.choose import Form, choose
from onebit.spaces.dense import Dense
from tests.slow import slow

PATIENCE_S = 60.0
RULE = rule_named("perceptron")


def loop_for(*given: Any) -> Any:
    """Its machine code, which stands for the loop."""
    return compiling.loop_for(*given)


def space() -> Dense:
    return Dense.empty(3, 4, False, np.dtype(np.float64))


class Processes(CompilingProcesses):
    """Other processes, by what they are asked for; nothing is started."""

    def __init__(self, compile_loop: Callable[..., bool]) -> None:
        super().__init__()
        self._compile_loop = compile_loop

    def call(self, function: Callable[..., Any], *arguments: Any, what: str) -> bool:
        assert function is compiling.compile_known
        name, space, loop = pickle.loads(pickle.dumps(arguments))
        return self._compile_loop(rule_named(name), space, loop, what)


@pytest.fixture
def busy() -> Iterator[threading.Event]:
    """This process is compiling something, until the event is set."""
    begun, done = threading.Event(), threading.Event()

    def compiles() -> None:
        with compiling._lock:
            begun.set()
            done.wait(PATIENCE_S)

    other = threading.Thread(target=compiles)
    other.start()
    assert begun.wait(PATIENCE_S)
    yield done
    done.set()
    other.join()


@pytest.fixture(autouse=True)
def compiled_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What this process compiles; nothing really is."""
    made = list[str]()

    def machine_code(rule: Rule, space: Any, loop: Callable[..., int]) -> bytes:
        made.append(loop.__name__)
        return b"machine code"

    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path))
    monkeypatch.setattr(compiling, "_loops", {})
    monkeypatch.setattr(compiling, "_machine_code", machine_code)
    monkeypatch.setattr(compiling, "CompiledLoop", lambda code, *_: code)
    return made


def kernel_space() -> Any:
    rule = rule_named("banditron")
    choice = choose(rule, Options(bias=True, kernel="rbf", max_support=5))
    params, _ = rule.settle(3, {})
    return choice.blueprint(params, Form(True, 4, False, np.dtype(np.float64)), 3, 3).make()


@pytest.mark.parametrize("loop", [stream, lessons])
@pytest.mark.parametrize("name", ["banditron", "linucb", "auto"])
def test_another_process_reads_the_same_loop(
    name: str, loop: Callable[..., int], busy: threading.Event, compiled_here: list[str]
) -> None:
    rule = rule_named(name)
    for given in [*build_spaces(rule, "float32"), *([kernel_space()] if name == "banditron" else [])]:
        sent = list[tuple[Any, ...]]()

        def send(*call: Any, to: list[tuple[Any, ...]] = sent) -> bool:
            to.append(call)
            write_code(cache_folder(*call[:3]), b"from elsewhere")
            return True

        with helped_by(Processes(send)):
            compiling._compile_or_call(rule, given, loop, cache_folder(rule, given, loop), "it")
        ((same, tiny, its_loop, _),) = sent
        assert same is rule
        assert type(tiny) is type(given)
        assert cache_folder(same, tiny, its_loop) == cache_folder(rule, given, loop)
    assert compiled_here == []


def test_without_helpers_this_process_compiles(compiled_here: list[str]) -> None:
    assert loop_for(RULE, space()) == b"machine code"
    assert compiled_here == ["stream"]


def test_one_loop_is_compiled_here_though_there_are_helpers(compiled_here: list[str]) -> None:
    with helped_by(Processes(lambda *_: pytest.fail("nobody is busy"))):
        loop_for(RULE, space())
    assert compiled_here == ["stream"]


def test_while_this_process_compiles_another_one_does(busy: threading.Event, compiled_here: list[str]) -> None:
    asked = list[Any]()

    def compile_loop(rule: Rule, space: Any, loop: Callable[..., int], what: str) -> bool:
        asked.append(what)
        write_code(cache_folder(rule, space, loop), b"from elsewhere")
        return True

    with helped_by(Processes(compile_loop)):
        assert loop_for(RULE, space(), lessons) == b"from elsewhere"
        assert loop_for(RULE, space(), lessons) == b"from elsewhere"
    assert (asked, compiled_here) == (["Perceptron, dense float64, for teaching"], [])


def test_what_another_process_does_not_leave_is_compiled_here(busy: threading.Event, compiled_here: list[str]) -> None:
    def fail(*call: Any) -> bool:
        busy.set()  # it fails, and so this process has to
        return False

    with helped_by(Processes(fail)):
        assert loop_for(RULE, space()) == b"machine code"
    assert compiled_here == ["stream"]


def test_a_rule_of_ones_own_is_compiled_here(compiled_here: list[str]) -> None:
    own = replace(RULE)
    assert is_known(RULE)
    assert not is_known(own)
    with helped_by(Processes(lambda *_: pytest.fail("another process does not know it"))):
        assert helpers_for(own) is None
        assert helpers_for(RULE) is not None
    assert helpers_for(RULE) is None


def test_threads_that_need_the_same_loop_wait_for_one(
    compiled_here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, got = threading.Barrier(3), list[Any]()
    plain = compiling._machine_code

    def slow_code(*given: Any) -> bytes:
        threading.Event().wait(0.2)  # long enough for the others to ask
        return plain(*given)

    def asks() -> None:
        waiting.wait()
        with helped_by(Processes(lambda *_: pytest.fail("this one is coming"))):
            got.append(loop_for(RULE, space()))

    monkeypatch.setattr(compiling, "_machine_code", slow_code)
    threads = [threading.Thread(target=asks) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert got == [b"machine code"] * 3
    assert compiled_here == ["stream"]


@slow
def test_another_process_compiles_it_really(busy: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(CompilingProcesses()) as processes, helped_by(processes):
        code = loop_for(RULE, space())
    assert len(code) > 1000
