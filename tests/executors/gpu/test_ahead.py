"""Kernels built by other processes: in order, each once, and nothing is left running; what cannot be built so is left alone."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from onebit.engine.gpu.layout import Layout, Shape
from onebit.executors.gpu import ahead
from onebit.executors.gpu.ahead import Kernel, KernelBuilder
from onebit.rules import rule_named


def kernel_of(name: str, classes: int = 3, features: int = 7, **form: bool) -> Kernel:
    rule = rule_named(name)
    params, memory = rule.settle(classes, {})
    shape = Shape.of(rule, params, len(memory), features, **form)
    layout = Layout.of(shape)
    assert layout is not None
    return shape, layout


KERNELS = [kernel_of("banditron"), kernel_of("bpa"), kernel_of("linucb", late=True), kernel_of("newtron", 5)]


class Processes:
    """Stands for `subprocess.Popen`: what was built, and processes that take until they are let go or killed."""

    def __init__(self) -> None:
        self.built: list[Kernel] = []
        self.going = threading.Event()
        self.going.set()
        self.killed = 0

    def __call__(self, command: list[str], **options: Any) -> Process:
        assert command[1:] == ["-P", "-m", ahead.__name__]
        return Process(self)


class Process:
    """One of them."""

    def __init__(self, of: Processes) -> None:
        self._of, self._ended = of, threading.Event()

    def communicate(self, text: bytes) -> None:
        while not self._of.going.wait(0.01) and not self._ended.is_set():
            pass
        if not self._ended.is_set():
            self._of.built.append(ahead.read(text.decode()))

    def kill(self) -> None:
        self._of.killed += 1
        self._ended.set()


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    made = Processes()
    monkeypatch.setattr(subprocess, "Popen", made)
    monkeypatch.setattr(ahead, "kept_for", lambda shape, layout: SimpleNamespace(is_there=False))
    return made


@pytest.mark.parametrize("kernel", [*KERNELS, kernel_of("banditron", 4, 5000, sparse=True)])
def test_another_process_reads_the_same_kernel(kernel: Kernel) -> None:
    assert ahead.read(ahead.written(kernel)) == kernel


def test_each_is_built_once_and_in_order(processes: Processes) -> None:
    builder = KernelBuilder(1)
    builder.build([*KERNELS, KERNELS[0]])
    builder.build(KERNELS)
    for kernel in KERNELS:
        builder.wait(kernel)
    builder.close()
    assert processes.built == KERNELS


def test_those_of_later_streams_are_built_while_others_run(processes: Processes) -> None:
    builder = KernelBuilder(2)
    builder.build(KERNELS[:1])
    found = threading.Event()

    def last() -> list[Kernel]:
        found.set()
        return KERNELS[2:]

    def fails() -> list[Kernel]:
        raise RuntimeError

    builder.look_ahead([lambda: KERNELS[1:2], fails, last])
    assert found.wait(60)
    while KERNELS[-1] not in builder._coming:
        pass
    for kernel in KERNELS:
        builder.wait(kernel)
    builder.close()
    assert set(processes.built) == set(KERNELS)


def test_what_goes_on_is_ended(processes: Processes) -> None:
    processes.going.clear()
    builder = KernelBuilder(1)
    builder.build(KERNELS)
    while not builder._running:
        pass
    builder.close()
    assert processes.built == []
    assert processes.killed == 1
    builder.build([kernel_of("bpa", 9)])
    builder.wait(KERNELS[-1])  # waits for nobody
    assert processes.built == []


@pytest.mark.parametrize("kept", [None, SimpleNamespace(is_there=True)])
def test_nothing_is_built_that_is_there_or_cannot_be_kept(
    kept: Any, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "kept_for", lambda shape, layout: kept)
    builder = KernelBuilder(1)
    builder.build(KERNELS)
    builder.wait(KERNELS[0])
    builder.close()
    assert processes.built == []


def test_rules_of_others_are_built_in_this_process(processes: Processes) -> None:
    shape, layout = KERNELS[0]
    builder = KernelBuilder(1)
    builder.build([(shape._replace(rule=replace(shape.rule)), layout)])
    builder.close()
    assert processes.built == []


def test_where_no_process_can_be_started_the_kernel_is_built_when_it_is_used(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*command: Any, **options: Any) -> None:
        raise OSError("too many processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    builder = KernelBuilder(1)
    builder.build(KERNELS)
    for kernel in KERNELS:
        builder.wait(kernel)
    builder.close()
    assert processes.built == []


def test_a_kernel_that_cannot_be_written_down_is_built_when_it_is_used(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(kernel: Kernel) -> str:
        raise TypeError("not JSON")

    monkeypatch.setattr(ahead, "written", refuse)
    builder = KernelBuilder(1)
    builder.build(KERNELS[:1])
    builder.wait(KERNELS[0])
    builder.close()
    assert processes.built == []
