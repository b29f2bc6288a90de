"""Ways in which Numba compiles the functions of a loop sooner, with the same machine code in the end.

Numba looks in every function for closures, `with`, `raise` and literal arguments, ends the life of every variable by a statement of its own,
writes the record of an array to memory wherever it is indexed, and works out anew at every `a + b` which of some dozens of definitions is meant.
The functions of onebit have none of the former and count no references; array elements are read and written in place, and built-in operators
mean the same every time. A rule in a user's own file goes through all of Numba's passes.

All of this, and all that `docs/reference/dependencies.md` names beside it, is used only with versions that are known (`engine.fingerprint`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering, NoPythonBackend, NopythonTypeInference, PreLowerStripPhis
from numba.core.types import Array, BaseTuple, Integer  # type: ignore[attr-defined]
from numba.core.types.functions import BaseFunction
from numba.core.untyped_passes import FixupArgs, GenericRewrites, IRProcessing, ReconstructSSA, TranslateByteCode
from numba.np.arrayobj import load_item, store_item

_PACKAGE = f"{__package__.partition('.')[0]}."
_BEFORE_LOWERING = (
    *(TranslateByteCode, FixupArgs, IRProcessing, GenericRewrites),
    *(ReconstructSSA, NopythonTypeInference, PreLowerStripPhis),
)


class ShortLowering(Lower):  # type: ignore[misc]
    """Numba's lowering, for functions that count no references and have no debugging information."""

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Assign to a variable, whose old value nobody needs."""
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Allocate a variable. Numba asks LLVM how many bytes it takes, for debuggers."""
        return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Read from an array."""
        place = self._element(value, index)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        array = self.typeof(value.name)
        element = load_item(self.context, self.builder, array, place)
        return self.context.cast(self.builder, element, array.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Write to an array."""
        place = self._element(target_var, index_var)
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array, kind = self.typeof(target_var.name), self.typeof(value_var.name)
        value = self.context.cast(self.builder, self.loadvar(value_var.name), kind, array.dtype)
        return store_item(self.context, self.builder, array, value, place)

    def _element(self, value: Any, index: Any) -> Any:
        """Return the address of a single element, or None if it is not one of a contiguous array; a negative index counts from the end."""
        builder, array, kind = self.builder, self.typeof(value.name), self.typeof(index.name)
        kinds = tuple(kind) if isinstance(kind, BaseTuple) else (kind,)
        if not isinstance(array, Array) or array.layout != "C" or len(kinds) != array.ndim:
            return None
        if not all(isinstance(axis, Integer) for axis in kinds):
            return None
        model, record, given = (
            self.context.data_model_manager[array],
            self.loadvar(value.name),
            self.loadvar(index.name),
        )
        lengths = cgutils.unpack_tuple(builder, model.get(builder, record, "shape"))
        numbers = cgutils.unpack_tuple(builder, given) if isinstance(kind, BaseTuple) else [given]
        offset = None
        for axis, number, length in zip(kinds, numbers, lengths, strict=True):
            place = self.context.cast(builder, number, axis, types.intp if axis.signed else types.uintp)
            if axis.signed and not (isinstance(place, ir.Constant) and place.constant >= 0):
                is_negative = builder.icmp_signed("<", place, place.type(0))
                place = builder.select(is_negative, builder.add(place, length), place)
            offset = place if offset is None else builder.add(builder.mul(offset, length), place)
        return builder.gep(model.get(builder, record, "data"), [offset])


@register_pass(mutates_CFG=True, analysis_only=False)
class NativeShortLowering(NativeLowering):  # type: ignore[misc]
    """The pass that lowers a part."""

    @property
    def lowering_class(self) -> type[Lower]:
        """Return the class that lowers it."""
        return ShortLowering


def few_passes(lowering: type[Any] = NativeShortLowering) -> PassManager:
    """Return the passes for a function of onebit's."""
    passes = PassManager("few")
    for step in (*_BEFORE_LOWERING, lowering, NoPythonBackend):
        passes.add_pass(step, step.__name__)
    passes.finalize()
    return passes


def is_own(module: str) -> bool:
    """Return True if a function of this module is onebit's."""
    return module.startswith(_PACKAGE)


@contextmanager
def operators_resolved_once() -> Iterator[None]:
    """While a loop is compiled, remember what operators and other built-in functions mean.

    A function in Python is resolved anew: it is compiled with the options of its caller.
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
