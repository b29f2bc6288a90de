"""The passes that the functions of a loop need of Numba's.

Numba has many more: for closures, `with`, `raise`, `print`, literal arguments, expressions of whole arrays. It looks for each of these in every
function, and works out anew after every pass which variables live where, to delete them where they end. The functions of onebit have none of
them, which the tests show by compiling all; and a variable is deleted only for the sake of its count of references, of which there are none.
A rule in a file of its author's goes through all passes.
"""

from __future__ import annotations

from typing import Any

from numba.core import event
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.interpreter import Interpreter, peep_hole_delete_with_exit, peep_hole_fuse_dict_add_updates
from numba.core.ir_utils import build_definitions
from numba.core.rewrites import rewrite_registry
from numba.core.ssa import reconstruct_ssa
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import NoPythonBackend, NopythonTypeInference, PreLowerStripPhis
from numba.core.untyped_passes import FixupArgs, GenericRewrites, ReconstructSSA, TranslateByteCode

from onebit.engine.lowering import NativePlainLowering

_OWN = f"{__package__.partition('.')[0]}."


class _Interpreter(Interpreter):  # type: ignore[misc]
    """Numba's, which looks for neither `with` nor dicts."""

    def post_process(self, peepholes: Any, func_ir: Any) -> Any:
        """Mend what Python's bytecode says in a roundabout way."""
        absent = peep_hole_delete_with_exit, peep_hole_fuse_dict_add_updates
        return super().post_process([one for one in peepholes if one not in absent], func_ir)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Translation(TranslateByteCode):  # type: ignore[misc]
    """From bytecode to statements, each loop of which has one way back to its start."""

    def run_pass(self, state: Any) -> bool:
        """Translate."""
        state.func_ir = _Interpreter(state.func_id).interpret(state.bc)
        state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Rewrites(GenericRewrites):  # type: ignore[misc]
    """What is said of constants, such as `a[0]`, as such."""

    def run_pass(self, state: Any) -> bool:
        """Rewrite until there is nothing to be rewritten."""
        blocks = state.func_ir.blocks
        for kind in rewrite_registry.rewrites["before-inference"]:
            rewrite, waiting = kind(state), list(blocks.items())
            while waiting:
                label, block = waiting.pop()
                if rewrite.match(state.func_ir, block, state.typemap, state.calltypes):
                    blocks[label] = rewrite.apply()
                    waiting.append((label, blocks[label]))
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _SingleAssignment(ReconstructSSA):  # type: ignore[misc]
    """Every variable is assigned once."""

    def run_pass(self, state: Any) -> bool:
        """Rename."""
        state.func_ir = reconstruct_ssa(state.func_ir)
        self._patch_locals(state)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _Variables(PreLowerStripPhis):  # type: ignore[misc]
    """Variables in memory again, as code is lowered: LLVM finds out by itself which of them are registers."""

    def run_pass(self, state: Any) -> bool:
        """Assign in the place of choosing by where a block was entered from."""
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


_FEW = (
    *(_Translation, FixupArgs, _Rewrites, _SingleAssignment),
    *(NopythonTypeInference, _Variables, NativePlainLowering, NoPythonBackend),
)


def few_passes(lowering: type[Any] = NativePlainLowering) -> PassManager:
    """The passes for a function of onebit's."""
    passes = _FewPasses("few")
    for one in _FEW:
        passes.add_pass(lowering if one is NativePlainLowering else one, one.__name__)
    passes.finalize()
    return passes


def is_own(module: str) -> bool:
    """Whether a function of this module is onebit's."""
    return module.startswith(_OWN)


class _FewPasses(PassManager):  # type: ignore[misc]
    """Passes one after the other, with nothing worked out between them."""

    def _runPass(self, index: int, one: Any, state: Any) -> None:  # noqa: N802 -- Numba's name
        one.analysis = self._analysis
        with event.trigger_event("numba:run_pass", data={"name": f"{one.name()} [{state.func_id.func_qualname}]"}):
            one.run_initialization(state)
            one.run_pass(state)
            one.run_finalizer(state)
