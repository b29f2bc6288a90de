"""A GPU that is imagined: its memory is this machine's, and its kernels run on lanes made of generators."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onebit.engine.gpu import build, device, launch
from onebit.engine.gpu import layout as layout_module
from onebit.engine.gpu.build import KernelError
from onebit.engine.gpu.layout import Layout, Shape
from onebit.experiments.executors.gpu import ahead
from tests.engine.gpu.lanes import Kernel, garbage

NAME = "Imagined 9000"


class Held(np.ndarray[Any, Any]):
    """An array in the memory of the device."""

    def copy_to_host(self) -> NDArray[Any]:
        return np.array(self)

    def copy_to_device(self, array: NDArray[Any]) -> None:
        assert array.flags.c_contiguous
        assert (self.shape, self.dtype) == (array.shape, array.dtype)
        self[...] = array


class Device:
    """What `numba.cuda` is to the engine, and what was built for it and launched on it."""

    def __init__(self) -> None:
        self.cudadrv = SimpleNamespace(driver=SimpleNamespace(device_memset=self._fill))
        self.kernels: dict[tuple[Shape, Layout], Kernel] = {}
        self.names: dict[str, Any] = {}  # bound in every kernel beside those of the build
        self.launching: Callable[[int, int], None] = lambda start, stop: None  # hears of the rounds of a launch
        self.launched = 0
        self.together = 8  # replicates that run at the same time
        self.refuses: set[str] = set()  # names of rules that do not compile for it
        self.memory = 2**30

    def to_device(self, array: NDArray[Any]) -> Held:
        assert array.flags.c_contiguous
        return array.copy().view(Held)

    def device_array(self, shape: int | tuple[int, ...], dtype: Any) -> Held:
        return garbage(shape, dtype).view(Held)

    def _fill(self, array: Held, value: int, size: int) -> None:
        assert size == array.nbytes
        array.view(np.uint8).fill(value)

    def synchronize(self) -> None:
        """All has been done when a launch returns."""

    def kernel_for(self, shape: Shape, layout: Layout) -> Any:
        if shape.rule.name in self.refuses:
            raise KernelError(f"{shape.rule.title} does not compile for a GPU: it is too clever")
        if (shape, layout) not in self.kernels:
            self.kernels[shape, layout] = Kernel(shape, layout, **self.names)
        return _Counted(self, self.kernels[shape, layout])

    def resident(self, shape: Shape, layout: Layout) -> int:
        assert self.kernel_for(shape, layout) is not None
        return self.together


class _Counted:
    """A kernel whose launches the device counts."""

    def __init__(self, of: Device, kernel: Kernel) -> None:
        self._of, self._kernel = of, kernel

    def __getitem__(self, grid: tuple[int, int, int, int]) -> Callable[..., None]:
        assert grid[3] == 0 or grid[3] % 4 == 0

        def launch(*arguments: Any) -> None:
            self._of.launched += 1
            self._of.launching(*arguments[-2:])
            plain = [one.view(np.ndarray) if isinstance(one, Held) else one for one in arguments]
            assert not any(isinstance(one, np.ndarray) for one in arguments if not isinstance(one, Held)), (
                "what is on no device cannot be read there"
            )
            self._kernel[grid](*plain)

        return launch


def imagine(patch: pytest.MonkeyPatch, block: int = 4) -> Device:
    """Let the engine find a GPU, whose blocks have so many threads where weights are in registers, here and not on the device."""
    made = Device()
    for module in (device, launch, build):
        patch.setattr(module, "cuda", lambda: made)
    patch.setattr(device, "find_problem", lambda: None)
    patch.setattr(device, "device_name", lambda: NAME)
    patch.setattr(device, "is_installed", lambda: True)
    for module in (device, build):
        patch.setattr(module, "shared_memory", lambda: 227 * 1024)
    for module in (device, launch):
        patch.setattr(module, "free_memory", lambda: made.memory)
    patch.setattr(launch, "kernel_for", made.kernel_for)
    patch.setattr(ahead, "find_cached_kernel", lambda shape, layout: None)  # no other process imagines it
    patch.setattr(launch, "count_resident", made.resident)
    patch.setattr(layout_module, "BLOCK_THREADS", block)
    return made
