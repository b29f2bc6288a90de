"""Build the GPU kernel for a rule, its codes and a number of classes and features.

Everything that can be a constant becomes one. Plain functions become device functions: the same code, with its names
bound to constants and to other functions. Kernels are cached on disk, one file each, in a folder named by a hash of
everything that goes into them.
"""

from __future__ import annotations

import logging
import pickle
import threading
import types
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from onebit.contract.choices import highest, sort_descending
from onebit.engine import code_cache, generic
from onebit.engine.fingerprint import fingerprint
from onebit.engine.gpu import kernel, lines, sparse_kernel
from onebit.engine.gpu import round as round_module
from onebit.engine.gpu.device import (
    compute_capability,
    cuda,
    explain_errors,
    first_cause,
    shared_memory,
    suppress_warnings,
)
from onebit.engine.gpu.layout import USUAL_SHARED_BYTES, WARP, Layout, Shape
from onebit.errors import InputError, OnebitError

LOG = logging.getLogger("onebit.engine")

COMPILERS = ("numba", "numba-cuda", "llvmlite", "cuda-bindings", "cuda-core", "cuda-toolkit")
FOLDER, FILE = "gpu", "kernel.bin"

_STEP_FUNCTIONS = {"residual": lines.residual_step, "sums": lines.sums_step, "root": lines.root_step}
_MODULES = (kernel, sparse_kernel, round_module, lines)  # the modules whose names are bound when a kernel is built
OWN_MODULES = tuple(module.__name__ for module in _MODULES)

_lock = threading.Lock()
_kernels: dict[tuple[Shape, Layout], Any] = {}  # or the reason why there is none


class Binding:
    """Binds the global names and closure variables of functions and of all that they call, each once.

    `names` maps the name of a module to the names that are bound in its functions; functions of other modules keep
    theirs. `instead` maps functions to their replacements, except where these are bound by name.
    """

    def __init__(
        self,
        names: Mapping[str, Mapping[str, Any]],
        instead: Mapping[Callable[..., Any], Callable[..., Any]],
        wrap: Callable[[Callable[..., Any]], Any],
    ) -> None:
        self.names, self.instead, self.wrap = names, instead, wrap
        self._bound: dict[Callable[..., Any], Any] = {}

    def called(self, function: Callable[..., Any]) -> Any:
        """Return the replacement of a function for its callers."""
        return self._wrapped(self.instead.get(function, function))

    def _wrapped(self, function: Callable[..., Any]) -> Any:
        if function not in self._bound:
            self._bound[function] = self.wrap(self.plain(function))
        return self._bound[function]

    def plain(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a copy of the function with its names bound, not wrapped."""
        assert isinstance(function, types.FunctionType)
        given = self.names.get(function.__module__, {})
        namespace = dict(function.__globals__)
        for name in function.__code__.co_names:
            if name in namespace:
                namespace[name] = self._standing_for(namespace[name]) if name not in given else self._named(given[name])
        cells = tuple(types.CellType(self._standing_for(cell.cell_contents)) for cell in function.__closure__ or ())
        copy = types.FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, cells)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__annotations__ = {}
        return copy

    def _standing_for(self, used: Any) -> Any:
        return self.called(used) if isinstance(used, types.FunctionType) else used

    def _named(self, given: Any) -> Any:
        return self._wrapped(given) if isinstance(given, types.FunctionType) else given


class KernelError(OnebitError):
    """Raised when a rule does not compile for a GPU."""


def layout_for(shape: Shape) -> Layout | None:
    """Return the layout of replicates on the present device; None if it has no room for them."""
    with explain_errors():
        return Layout.of(shape, shared_memory() - USUAL_SHARED_BYTES)


def kernel_for(shape: Shape, layout: Layout) -> Any:
    """Return the compiled kernel, built on first use or loaded from the cache.

    Raise KernelError if it cannot be built; that is tried and logged only once.
    """
    with _lock:
        if (shape, layout) not in _kernels:
            try:
                _kernels[shape, layout] = _build_kernel(shape, layout)
            except Exception as error:  # rules and compiler errors can be of any kind
                _kernels[shape, layout] = f"{shape.rule.title} does not compile for a GPU: {_gist(error)}"
                LOG.warning("%s", _kernels[shape, layout])
        kernel_or_reason = _kernels[shape, layout]
        if isinstance(kernel_or_reason, str):
            raise KernelError(kernel_or_reason)
        return kernel_or_reason


def _build_kernel(shape: Shape, layout: Layout) -> Any:
    module = cuda()
    written = bind_names(shape, layout, module, _device_function).plain(loop_for(shape))
    cached = find_cached_kernel(shape, layout)
    if cached is None or not cached.is_there:
        size = f"{shape.classes} classes, {shape.features} features"
        LOG.info("building %s for the GPU, %s", shape.rule.title, size, extra={"event": "compiling"})
    with suppress_warnings():
        compiled = module.jit(written, **layout.limits)
        if cached is not None:
            compiled._cache = cached
        compiled.compile(signature(shape))
    allow_shared(compiled, layout.shared_bytes(shape))
    return compiled


def find_cached_kernel(shape: Shape, layout: Layout) -> CachedKernel | None:
    """Return the cached kernel for this shape and layout; None if nothing can be cached."""
    plain = bind_names(shape, layout, None, lambda function: function).plain(loop_for(shape))
    facts = compiler_versions(), shape.rule.name, shape[1:], layout, layout.limits, compute_capability()
    folder = code_cache.folder_for(fingerprint([plain], (), *facts), FOLDER)
    return None if folder is None else CachedKernel(folder / FILE)


def loop_for(shape: Shape) -> Callable[..., None]:
    return sparse_kernel.replicate if shape.sparse else kernel.replicate


def _gist(error: Exception) -> str:
    """Return the first line of a compiler error that names a cause."""
    return first_cause(error, "mode pipeline", "Resolution failure") or type(error).__name__


def count_resident(shape: Shape, layout: Layout) -> int:
    """Return how many replicates the device runs at the same time."""
    (compiled,) = kernel_for(shape, layout).overloads.values()
    with explain_errors():
        blocks = compiled.max_cooperative_grid_blocks(layout.threads, layout.shared_bytes(shape))
    return int(blocks) * layout.groups


def allow_shared(dispatcher: Any, size: int) -> None:
    """Raise a kernel's limit of shared memory above the default, for which numba-cuda has no interface."""
    if size > USUAL_SHARED_BYTES:
        from cuda.bindings import driver

        (compiled,) = dispatcher.overloads.values()
        function = compiled._codelibrary.get_cufunc()
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        (error,) = driver.cuKernelSetAttribute(attribute, size, function.handle, function.device.id)
        if error != driver.CUresult.CUDA_SUCCESS:
            raise InputError(f"the GPU has no room for {size} bytes of weights in its shared memory")


def _device_function(function: Callable[..., Any]) -> Any:
    return cuda().jit(device=True, forceinline=True)(function)


def bind_names(shape: Shape, layout: Layout, module: Any, wrap: Callable[[Callable[..., Any]], Any]) -> Binding:
    """Bind the kernel's functions for this shape and layout; `module` is numba.cuda or a stand-in for it."""
    variances = shape.variances
    names = {
        "cuda": module,
        "record_of": make_record_builder(shape),
        "LANES": layout.lanes,
        "GROUPS": layout.groups,
        "HEADS": shape.heads,
        "SCORES": shape.scores,
        "MEMORY": shape.memory,
        "SCORE_STRIDE": shape.scores | 1,
        "WORK_STRIDE": max(shape.heads, shape.classes) | 1,
        "MEMORY_STRIDE": shape.memory | 1,
        "REVEALED": shape.full_information,
        "KEEPS_NORM": shape.rule.keeps_norm,
        "SCALED": variances is None,
        "BALL": variances is not None and variances.ball,
        "LATE": shape.late,
        "WEIGHS": shape.rule.weigh is not None,
        "weigh": shape.rule.weigh or round_module.skip_weighing,
        **(_sparse_names(shape) if shape.sparse else _dense_names(shape, layout)),
    }
    instead: dict[Callable[..., Any], Callable[..., Any]] = {
        generic.decide: shape.rule.decide,
        generic.learn: shape.rule.learn,
    }
    if shape.rule.weigh is not None:
        instead[shape.rule.weigh] = round_module.skip_weighing
    if shape.classes <= round_module.MOST_RANKED:
        instead[sort_descending] = round_module.sort_by_rank
        instead[highest] = round_module.highest_of_few
    return Binding(dict.fromkeys(OWN_MODULES, names), instead, wrap)


def _sparse_names(shape: Shape) -> dict[str, Any]:
    """Return the constants for how the lanes of a warp share the heads and the values of a sparse row."""
    span = min(WARP, 1 << (shape.heads - 1).bit_length())
    return {
        "LINE": shape.features,
        "SPAN": span,
        "PARTS": WARP // span,
        "SLOTS": -(-shape.heads // span),
        "STEP_SLOTS": -(-shape.heads // WARP),
    }


def _dense_names(shape: Shape, layout: Layout) -> dict[str, Any]:
    """Return the constants for how lanes share the features of a replicate, and where its lines are."""
    width, held, variances = layout.width(shape), layout.held_lines(shape), shape.variances
    own_row, in_shared = layout.where == "registers", layout.where == "shared"
    slots, lanes = shape.sums, layout.lanes
    while lanes > 1:
        slots, lanes = (slots + 1) // 2, lanes // 2
    return {
        "ROW_HELD": own_row,
        "WORDS_SHARED": in_shared,
        "moved_by": _STEP_FUNCTIONS["residual" if variances is None else variances.form],
        "WIDTH": width,
        "BLOCKS": width // layout.unrolled(shape),
        "UNROLLED": layout.unrolled(shape),
        "LINES": shape.lines,
        "SUMS": shape.sums,
        "SLOTS": slots,
        "OWN": int(variances is None or variances.own),
        "HELD_LINES": held,
        "HELD_SUMS": min(held, shape.sums),
        "HELD": max(1, held * width),
        "HELD_FEATURES": width if own_row else 1,
        "SHARED_FEATURES": 0 if own_row else layout.padded(shape),
        "GROUP_WORDS": layout.group_words(shape),
        "FIRST_WORD": held * layout.padded(shape) if in_shared else 0,
        "COPIED_LINES": shape.lines - held if in_shared else 0,
    }


def make_record_builder(shape: Shape) -> Callable[..., Any]:
    """Return a function that builds a rule's record from the numbers of a replicate.

    Its source is generated, since Numba cannot loop over fields.
    """
    codes, floats = iter(shape.codes), iter(range(len(shape.floats)))
    fields = [str(next(codes)) if kind is int else f"values[{next(floats)}]" for kind in shape.rule.kinds.values()]
    names: dict[str, Any] = {"Record": shape.rule.record, "__name__": kernel.__name__}
    exec(f"def record_of(values):\n    return Record({', '.join(fields)})\n", names)
    return names["record_of"]  # type: ignore[no-any-return]


def signature(shape: Shape) -> tuple[Any, ...]:
    from numba import types

    single, double, word, whole, short = types.float32, types.float64, types.uint64, types.int64, types.int32
    dense, sparse = (single[::1], single[::1], whole), (single[::1], short[::1], whole[::1], double[::1])
    schedules = (whole[:, ::1], whole[:, ::1])
    replicates = (short[::1], double[:, ::1], word[::1], double[:, ::1])
    state = (single[:, ::1], double[:, ::1], double[:, ::1], double[:, :, ::1], short[:, ::1])
    rows = sparse if shape.sparse else dense
    return (*rows, *schedules, *replicates, *state, short[::1], short[:, :, ::1], whole, whole)


@cache
def compiler_versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of all packages that take part in compiling a kernel."""
    versions = {version.metadata["Name"] or "": version.version for version in metadata.distributions()}
    return tuple(
        sorted((name, version) for name, version in versions.items() if name in COMPILERS or name.startswith("nvidia-"))
    )


class CachedKernel:
    """A kernel in the on-disk cache, with the interface that numba-cuda expects of a cache."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def is_there(self) -> bool:
        return self._path.exists()

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the cached kernel, or None if there is none or it cannot be read."""
        from numba.cuda.dispatcher import _Kernel

        try:
            content = code_cache.read_code(self._path.parent, self._path.name)
            return None if content is None else _Kernel._rebuild(**pickle.loads(content))
        except Exception:
            return None

    def save_overload(self, signature: Any, kernel: Any) -> None:
        """Write a kernel to the cache; if that fails, the next process builds it again."""
        code_cache.write_code(self._path.parent, pickle.dumps(kernel._reduce_states()), self._path.name)
