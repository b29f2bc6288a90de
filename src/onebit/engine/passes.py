"""The passes that the functions of a loop need of Numba's.

Numba has many more: for closures, `with`, `raise`, `print`, literal arguments, expressions of whole arrays. It looks for each of these in every
function, and works out anew after every pass which variables live where. The functions of onebit have none of them, which the tests
show by compiling all. A rule in a file of its author's goes through all passes.
"""

from __future__ import annotations

from typing import Any

from numba.core import event
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import FixupArgs, GenericRewrites, IRProcessing, ReconstructSSA, TranslateByteCode

_OWN = f"{__package__.partition('.')[0]}."
_FEW = (
    *(TranslateByteCode, FixupArgs, IRProcessing, GenericRewrites, ReconstructSSA),
    *(NopythonTypeInference, PreLowerStripPhis, IRLegalization, NativeLowering, NoPythonBackend),
)


def few_passes(lowering: type[Any] = NativeLowering) -> PassManager:
    """The passes for a function of onebit's."""
    passes = _FewPasses("few")
    for one in _FEW:
        passes.add_pass(lowering if one is NativeLowering else one, one.__name__)
    passes.finalize()
    return passes


def is_own(module: str) -> bool:
    """Whether a function of this module is onebit's."""
    return module.startswith(_OWN)


class _FewPasses(PassManager):  # type: ignore[misc]
    """Passes one after the other. What Numba works out between them, the last ones work out for themselves."""

    def _runPass(self, index: int, one: Any, state: Any) -> None:  # noqa: N802 -- Numba's name
        one.analysis = self._analysis
        with event.trigger_event("numba:run_pass", data={"name": f"{one.name()} [{state.func_id.func_qualname}]"}):
            one.run_initialization(state)
            one.run_pass(state)
            one.run_finalizer(state)
