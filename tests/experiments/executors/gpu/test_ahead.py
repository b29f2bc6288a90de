"""Kernels built by other processes: in order, each once, and nothing is left running; what cannot be built so is left alone."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from onebit.engine.gpu.layout import Layout, Shape
from onebit.experiments.executors.gpu import ahead
from onebit.experiments.executors.gpu.ahead import Kernel, KernelBuilder
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
    """Stands for `CompilingProcesses`: what was built, by processes that take until they are let go or stopped."""

    def __init__(self) -> None:
        self.built: list[Kernel] = []
        self.asked, self.going, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self.going.set()

    def __call__(self) -> Processes:
        return self

    def call(self, function: Callable[..., None], *arguments: Any, what: str) -> bool:
        assert function is ahead.build_kernel
        self.asked.set()
        while not self.going.wait(0.01):
            if self.stopped.is_set():
                return False
        name, shape, layout = pickle.loads(pickle.dumps(arguments))
        self.built.append((Shape(rule_named(name), *shape), layout))
        return True

    def close(self) -> None:
        self.stopped.set()


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    made = Processes()
    monkeypatch.setattr(ahead, "CompilingProcesses", made)
    monkeypatch.setattr(ahead, "find_cached_kernel", lambda shape, layout: SimpleNamespace(is_there=False))
    return made


@pytest.mark.parametrize("kernel", [*KERNELS, kernel_of("banditron", 4, 5000, sparse=True)])
def test_another_process_reads_the_same_kernel(kernel: Kernel, processes: Processes) -> None:
    builder = KernelBuilder(1)
    builder.build([kernel])
    builder.wait(kernel)
    builder.close()
    assert processes.built == [kernel]


def test_each_is_built_once_and_in_order(processes: Processes) -> None:
    builder = KernelBuilder(1)
    builder.build([*KERNELS, KERNELS[0]])
    builder.build(KERNELS)
    for kernel in KERNELS:
        builder.wait(kernel)
    builder.close()
    assert processes.built == KERNELS


def test_what_goes_on_is_ended(processes: Processes) -> None:
    processes.going.clear()
    builder = KernelBuilder(1)
    builder.build(KERNELS)
    assert processes.asked.wait(60)
    builder.close()
    assert processes.built == []
    assert processes.stopped.is_set()
    builder.wait(KERNELS[-1])  # waits for nobody
    assert processes.built == []


@pytest.mark.parametrize("kept", [None, SimpleNamespace(is_there=True)])
def test_nothing_is_built_that_is_there_or_cannot_be_kept(
    kept: Any, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "find_cached_kernel", lambda shape, layout: kept)
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


@pytest.mark.parametrize("refusal", ["start", "device", "death"])
def test_a_kernel_that_no_other_process_builds_is_built_when_it_is_used_and_that_is_said(
    refusal: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No process can be started, or the one that is has no GPU, or dies."""

    def refuse(*command: Any, **options: Any) -> None:
        raise OSError(11, "too many processes")

    monkeypatch.setattr(ahead, "find_cached_kernel", lambda shape, layout: SimpleNamespace(is_there=False))
    if refusal == "start":
        monkeypatch.setattr(subprocess, "Popen", refuse)
    elif refusal == "death":
        monkeypatch.setattr(sys, "executable", "false")
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    builder = KernelBuilder(1)
    builder.build(KERNELS[:1])
    builder.wait(KERNELS[0])
    builder.close()
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith("a kernel of Banditron for the GPU could not be compiled in another process")
    assert not said.endswith(": ")
