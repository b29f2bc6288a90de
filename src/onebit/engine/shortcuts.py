"""A shortcut through Numba that compiles the functions of a loop sooner into the same machine code.

Numba looks in every function for closures, `with`, `raise` and literal arguments, and ends the life of every variable
by a statement of its own. The functions of onebit use none of the former and count no references. A rule in a user's
own file goes through all of Numba's passes.

This is used only with known versions of Numba (`engine.fingerprint`).
"""

from __future__ import annotations

from typing import Any

from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import NativeLowering, NoPythonBackend, NopythonTypeInference, PreLowerStripPhis
from numba.core.untyped_passes import FixupArgs, GenericRewrites, IRProcessing, ReconstructSSA, TranslateByteCode

_BEFORE_LOWERING = (
    *(TranslateByteCode, FixupArgs, IRProcessing, GenericRewrites),
    *(ReconstructSSA, NopythonTypeInference, PreLowerStripPhis),
)


def few_passes(lowering: type[Any] = NativeLowering) -> PassManager:
    """Return the compiler passes for a function of onebit."""
    passes = PassManager("few")
    for step in (*_BEFORE_LOWERING, lowering, NoPythonBackend):
        passes.add_pass(step, step.__name__)
    passes.finalize()
    return passes
