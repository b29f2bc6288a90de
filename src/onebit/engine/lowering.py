"""How the functions of a loop are lowered: as Numba does, without what serves only debuggers and the counting of references.

Nothing in a loop counts references, so no variable is deleted (`engine.passes`), and none is read for the sake of its old value before it is
assigned. Nothing has debugging information, for which Numba asks LLVM how many bytes each variable takes.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, ir
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering


class PlainLowering(Lower):  # type: ignore[misc]
    """Numba's lowering, for a function without `try` or debugging information, in which nothing counts references."""

    def pre_block(self, block: Any) -> None:
        """Note which block it is."""
        self._cur_ir_block = block

    def lower_inst(self, inst: Any) -> Any:
        """Lower a statement."""
        if not isinstance(inst, ir.Assign):
            return super().lower_inst(inst)
        self.storevar(self.lower_assign(self.typeof(inst.target.name), inst), inst.target.name)
        return None

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Assign to a variable."""
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Memory for a variable."""
        return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)


@register_pass(mutates_CFG=True, analysis_only=False)
class NativePlainLowering(NativeLowering):  # type: ignore[misc]
    """The pass that lowers a part."""

    @property
    def lowering_class(self) -> type[Lower]:
        """What lowers it."""
        return PlainLowering
