"""Shortcuts through Numba that compile the functions of a loop sooner into the same machine code.

Numba looks in every function for closures, `with`, `raise` and literal arguments, ends the life of every variable by
a statement of its own, and decides anew at every `a + b` which of some dozens of definitions is meant. The functions
of onebit use none of the former and count no references, and built-in operators always mean the same. A rule in a
user's own file goes through all of Numba's passes.

All of this is used only with known versions of Numba (`engine.fingerprint`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import cgutils
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering, NoPythonBackend, NopythonTypeInference, PreLowerStripPhis
from numba.core.types.functions import BaseFunction
from numba.core.untyped_passes import FixupArgs, GenericRewrites, IRProcessing, ReconstructSSA, TranslateByteCode

_BEFORE_LOWERING = (
    *(TranslateByteCode, FixupArgs, IRProcessing, GenericRewrites),
    *(ReconstructSSA, NopythonTypeInference, PreLowerStripPhis),
)


class ShortLowering(Lower):  # type: ignore[misc]
    """Numba's lowering, for functions without reference counts and debugging information."""

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Assign to a variable without releasing its old value."""
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Allocate a variable without asking LLVM for its size, which only debuggers need."""
        return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)


@register_pass(mutates_CFG=True, analysis_only=False)
class NativeShortLowering(NativeLowering):  # type: ignore[misc]
    """The compiler pass that lowers a part."""

    @property
    def lowering_class(self) -> type[Lower]:
        return ShortLowering


def few_passes(lowering: type[Any] = NativeShortLowering) -> PassManager:
    """Return the compiler passes for a function of onebit."""
    passes = PassManager("few")
    for step in (*_BEFORE_LOWERING, lowering, NoPythonBackend):
        passes.add_pass(step, step.__name__)
    passes.finalize()
    return passes


@contextmanager
def operators_resolved_once() -> Iterator[None]:
    """While a loop is compiled, cache how operators and other built-in functions are resolved.

    Python functions are still resolved each time: they are compiled with the options of their caller.
    """
    resolve = BaseFunction.get_call_type
    known: dict[tuple[Any, tuple[Any, ...]], Any] = {}

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        asked = self, tuple(args)
        if not kws and asked in known:
            return known[asked]
        signature = resolve(self, context, args, kws)
        if not kws and signature is not None and self._impl_keys.get(signature.args) is self.typing_key:
            known[asked] = signature
        return signature

    BaseFunction.get_call_type = get_call_type  # type: ignore[method-assign]
    try:
        yield
    finally:
        BaseFunction.get_call_type = resolve  # type: ignore[method-assign]
