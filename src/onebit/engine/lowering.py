"""How the functions of a loop are lowered: as Numba does, without what serves only debuggers and the counting of references.

Nothing in a loop counts references, so no variable is deleted (`engine.passes`), and none is read for the sake of its old value before it is
assigned. Nothing has debugging information, for which Numba asks LLVM how many bytes each variable takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import cgutils, ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.ir_utils import get_definition, guard
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

from onebit.engine.short_forms import SHAPE, Indexed, advanced, begun, can_index, range_of


class PlainLowering(Lower):  # type: ignore[misc]
    """Numba's lowering, for a function without `try` or debugging information, in which nothing counts references."""

    def pre_block(self, block: Any) -> None:
        """Note which block it is."""
        self._cur_ir_block = block

    def lower_inst(self, inst: Any) -> Any:
        """Lower a statement."""
        if isinstance(inst, ir.StaticSetItem) and isinstance(self.typeof(inst.target.name), types.Array):
            return self.lower_setitem(inst.target, inst.index_var, inst.value, self.fndesc.calltypes[inst])
        if not isinstance(inst, ir.Assign):
            return super().lower_inst(inst)
        self.storevar(self.lower_assign(self.typeof(inst.target.name), inst), inst.target.name)
        return None

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """The value of an expression: of arrays and ranges in a form of our own."""
        short = _SHORT.get(expr.op)
        found = None if short is None else short(self, resty, expr)
        return super().lower_expr(resty, expr) if found is None else found

    def _call(self, kind: Any, expr: Any) -> Any:
        if not self._is_plain_range(expr):
            return None
        return range_of(self.builder, [self._cast_var(one, types.int64) for one in expr.args])

    def _getiter(self, kind: Any, expr: Any) -> Any:
        if not self._is_plain_range(guard(get_definition, self.func_ir, expr.value)):
            return None
        return begun(self.context, self.builder, kind, self.loadvar(expr.value.name))

    def _is_plain_range(self, expr: Any) -> bool:
        """Whether an expression is a `range` in steps of 1."""
        if not (isinstance(expr, ir.Expr) and expr.op == "call" and 1 <= len(expr.args) <= 2):
            return False
        made = getattr(self.fndesc.calltypes[expr], "return_type", None)
        return made == types.range_state64_type and getattr(self.typeof(expr.func.name), "typing_key", None) is range

    def _iternext(self, kind: Any, expr: Any) -> Any:
        if self.typeof(expr.value.name) != types.range_iter64_type:
            return None
        return advanced(self.context, self.builder, kind, self.loadvar(expr.value.name))

    def _pair(self, kind: Any, expr: Any) -> Any:
        return self.builder.extract_value(self.loadvar(expr.value.name), int(expr.op == "pair_second"))

    def _getattr(self, kind: Any, expr: Any) -> Any:
        if expr.attr != "shape" or not isinstance(self.typeof(expr.value.name), types.Array):
            return None
        return self.builder.extract_value(self.loadvar(expr.value.name), SHAPE)

    def _getitem(self, kind: Any, expr: Any) -> Any:
        index = expr.index if expr.op == "getitem" else expr.index_var
        place = None if index is None else self._indexed(expr.value, index)
        if place is None:
            return None
        if isinstance(kind, types.Array):
            return place.view(kind)
        return self.context.cast(self.builder, place.load(), self.typeof(expr.value.name).dtype, kind)

    def _indexed(self, value: Any, index: Any) -> Indexed | None:
        """What an array is indexed with."""
        array, kind = self.typeof(value.name), self.typeof(index.name)
        if not can_index(array, kind):
            return None
        return Indexed(self.context, self.builder, array, self.loadvar(value.name), kind, self.loadvar(index.name))

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Write into an array."""
        place = self._indexed(target_var, index_var)
        if place is None or place.lengths:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        return place.store(self.typeof(value_var.name), self.loadvar(value_var.name))

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Assign to a variable."""
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Memory for a variable."""
        return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)


_SHORT: dict[str, Callable[[PlainLowering, Any, Any], Any]] = {
    "call": PlainLowering._call,
    "getiter": PlainLowering._getiter,
    "iternext": PlainLowering._iternext,
    "pair_first": PlainLowering._pair,
    "pair_second": PlainLowering._pair,
    "getattr": PlainLowering._getattr,
    "getitem": PlainLowering._getitem,
    "static_getitem": PlainLowering._getitem,
}


@register_pass(mutates_CFG=True, analysis_only=False)
class NativePlainLowering(NativeLowering):  # type: ignore[misc]
    """The pass that lowers a part."""

    @property
    def lowering_class(self) -> type[Lower]:
        """What lowers it."""
        return PlainLowering
