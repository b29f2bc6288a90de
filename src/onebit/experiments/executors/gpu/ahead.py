"""Kernels that are built before they are needed, in several processes: Numba builds one at a time in each.

Another process builds the kernel that is described to it, and so leaves it where kernels are kept between processes, from which this one loads it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from onebit.engine.compile import is_known
from onebit.engine.gpu.build import kept_for, kernel_for
from onebit.engine.gpu.device import spoken
from onebit.engine.gpu.layout import Layout, Shape
from onebit.engine.processes import CompilingProcesses, cores
from onebit.rules import rule_named

LOG = logging.getLogger("onebit.experiments")

Kernel = tuple[Shape, Layout]


def can_build(kernel: Kernel) -> bool:
    """Whether another process can build it for this one: it knows the rule by its name, and kernels can be kept."""
    shape, layout = kernel
    kept = kept_for(shape, layout) if is_known(shape.rule) else None
    return kept is not None and not kept.is_there


class KernelBuilder:
    """Has kernels built in other processes, in the order in which they are asked for."""

    def __init__(self, processes: int | None = None) -> None:
        count = processes or max(1, cores() - 1)
        self._pool, self._processes = ThreadPoolExecutor(count), CompilingProcesses(count)
        self._coming: dict[Kernel, Future[None]] = {}

    def build(self, kernels: Iterable[Kernel]) -> None:
        """Have those built that are not there yet."""
        new = [one for one in dict.fromkeys(kernels) if one not in self._coming and can_build(one)]
        self._coming |= {one: self._pool.submit(self._build_elsewhere, one) for one in new}
        if new:
            LOG.info("building %d kernels for the GPU", len(new), extra={"event": "compiling"})

    def wait(self, kernel: Kernel) -> None:
        """Until a kernel is there. Where nobody builds it, or somebody has failed, it is built when it is used."""
        if kernel in self._coming:
            with contextlib.suppress(CancelledError, Exception):
                self._coming[kernel].result()

    def close(self) -> None:
        """End what is being built."""
        self._processes.close()
        self._pool.shutdown(cancel_futures=True)

    def _build_elsewhere(self, kernel: Kernel) -> None:
        shape, layout = kernel
        what = f"a kernel of {shape.rule.title} for the GPU"
        self._processes.call(build_known, shape.rule.name, shape[1:], layout, what=what)


def build_known(name: str, shape: tuple[Any, ...], layout: Layout) -> None:
    """Build a kernel of the rule with this name, and so keep it; `shape` is all of a `Shape` but the rule."""
    with spoken():
        kernel_for(Shape(rule_named(name), *shape), layout)
