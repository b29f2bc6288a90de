"""Kernels that are built before they are needed, several at a time, each in a process of its own: Numba builds one at a time in each.

    python -P -m onebit.executors.gpu.ahead < kernel.json

builds the kernel that is described there, and so leaves it where kernels are kept between processes, from which this one loads it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

from onebit.engine.gpu.build import kept_for, kernel_for
from onebit.engine.gpu.device import spoken
from onebit.engine.gpu.layout import Layout, Shape, Variances
from onebit.rules import registry, rule_named
from onebit.trials.trial import cores

LOG = logging.getLogger("onebit.executors")

Kernel = tuple[Shape, Layout]


def written(kernel: Kernel) -> str:
    """A kernel of a rule of onebit's, for another process."""
    shape, layout = kernel
    return json.dumps([shape.rule.name, shape[1:], layout])


def read(text: str) -> Kernel:
    """The kernel that was written."""
    name, shape, layout = json.loads(text)
    codes, heads, memory, features, full_information, variances, late, sparse = shape
    moved = None if variances is None else Variances(*variances)
    counts = (heads, memory, features, full_information)
    return Shape(rule_named(name), tuple(codes), *counts, moved, late, sparse), Layout(*layout)


def buildable(kernel: Kernel) -> bool:
    """Whether another process can build it for this one: it knows the rule by its name, and kernels can be kept."""
    shape, layout = kernel
    kept = kept_for(shape, layout) if registry().get(shape.rule.name) is shape.rule else None
    return kept is not None and not kept.is_there


class KernelBuilder:
    """Has kernels built in other processes, in the order in which they are asked for."""

    def __init__(self, processes: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(processes or max(1, cores() - 1))
        self._looking = ThreadPoolExecutor(1)
        self._coming: dict[Kernel, Future[None]] = {}
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopping = False

    def build(self, kernels: Iterable[Kernel]) -> None:
        """Have those built that are not there yet."""
        wanted = [one for one in dict.fromkeys(kernels) if one not in self._coming and buildable(one)]
        with self._lock:
            new = [] if self._stopping else [one for one in wanted if one not in self._coming]
            self._coming |= {one: self._pool.submit(self._built, one) for one in new}
        if new:
            LOG.info("building %d kernels for the GPU", len(new), extra={"event": "compiling"})

    def look_ahead(self, later: Sequence[Callable[[], Iterable[Kernel]]]) -> None:
        """Have those built that each of these finds, while others are run."""
        for find in later:
            self._looking.submit(self._look, find)

    def wait(self, kernel: Kernel) -> None:
        """Until a kernel is there. Where nobody builds it, or somebody has failed, it is built when it is used."""
        if kernel in self._coming:
            with contextlib.suppress(CancelledError, Exception):
                self._coming[kernel].result()

    def close(self) -> None:
        """End all that goes on."""
        with self._lock:
            self._stopping = True
            for process in self._running:
                process.kill()
        for pool in (self._looking, self._pool):
            pool.shutdown(cancel_futures=True)

    def _look(self, find: Callable[[], Iterable[Kernel]]) -> None:
        if not self._stopping:
            self.build(find())

    def _built(self, kernel: Kernel) -> None:
        text = written(kernel).encode()
        with self._lock:
            if self._stopping:
                return
            # In a session of its own it hears nothing of Ctrl-C, of which this process tells it.
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "onebit.executors.gpu.ahead"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._running.add(process)
        try:
            process.communicate(text)
        finally:
            with self._lock:
                self._running.discard(process)


if __name__ == "__main__":
    with spoken():
        kernel_for(*read(sys.stdin.read()))
