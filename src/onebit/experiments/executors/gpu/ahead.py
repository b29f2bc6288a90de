"""Build GPU kernels ahead of use in several processes, as Numba builds one at a time per process.

A helper process builds a kernel from its description and stores it in the kernel cache on disk, from which this process loads it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from onebit.engine.compile import is_known
from onebit.engine.gpu.build import find_cached_kernel, kernel_for
from onebit.engine.gpu.device import explain_errors
from onebit.engine.gpu.layout import Layout, Shape
from onebit.engine.processes import CompilingProcesses, cores
from onebit.rules import rule_named

LOG = logging.getLogger("onebit.experiments")

Kernel = tuple[Shape, Layout]


def can_build(kernel: Kernel) -> bool:
    """Return True if another process can build the kernel and it is not in the cache yet.

    That process must know the rule by its name, and the kernel must be cacheable.
    """
    shape, layout = kernel
    cache_entry = find_cached_kernel(shape, layout) if is_known(shape.rule) else None
    return cache_entry is not None and not cache_entry.is_there


class KernelBuilder:
    """Builds kernels in other processes, in the order in which they are requested."""

    def __init__(self, processes: int | None = None) -> None:
        count = processes or max(1, cores() - 1)
        self._pool, self._processes = ThreadPoolExecutor(count), CompilingProcesses()
        self._pending: dict[Kernel, Future[None]] = {}

    def build(self, kernels: Iterable[Kernel]) -> None:
        """Start building the kernels that do not exist yet."""
        new = [kernel for kernel in dict.fromkeys(kernels) if kernel not in self._pending and can_build(kernel)]
        self._pending |= {kernel: self._pool.submit(self._build_elsewhere, kernel) for kernel in new}
        if new:
            LOG.info("building %d kernels for the GPU", len(new), extra={"event": "compiling"})

    def wait(self, kernel: Kernel) -> None:
        """Wait until a kernel is built.

        Return at once if it was not requested; a kernel that was not requested, or failed to build, is built on first use.
        """
        if kernel in self._pending:
            with contextlib.suppress(CancelledError, Exception):
                self._pending[kernel].result()

    def close(self) -> None:
        """Cancel all builds and stop the processes."""
        self._processes.close()
        self._pool.shutdown(cancel_futures=True)

    def _build_elsewhere(self, kernel: Kernel) -> None:
        shape, layout = kernel
        title = f"a kernel of {shape.rule.title} for the GPU"
        self._processes.call(build_kernel, shape.rule.name, shape[1:], layout, what=title)


def build_kernel(name: str, shape: tuple[Any, ...], layout: Layout) -> None:
    """Build and cache a kernel of the named rule; `shape` is all of a `Shape` except the rule."""
    with explain_errors():
        kernel_for(Shape(rule_named(name), *shape), layout)
