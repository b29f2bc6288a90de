"""How the functions of a loop become one piece of machine code: each is lowered as a part, and machine code is made of the whole alone.

Numba optimises a function when it has lowered it, makes machine code of it, and copies its code into every function that calls it,
where all of it is optimised again: once for each caller on the way up to the loop. Here a part waits as it was lowered. The loop, which
alone is ever called from outside, takes in all parts that it reaches, each once, and is optimised with them.

Most parts are put into their callers. Those of a package that says CALLED are called, being too much to optimise as one function.

Sums of a part that may be summed in any order (`fastmath`) would come out otherwise, in their last bits, if they were optimised in
the midst of the loop. So such a part is optimised by itself first, as Numba does, unless it is called. One whose sums are to be taken in order is
too, since there only several sums can be taken at a time, in place of several terms of one: for that LLVM has a pass that Numba leaves out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core.cgutils import normalize_ir_text
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.errors import LoweringError
from numba.core.targetconfig import ConfigStack

from onebit.engine.native_entry import NativeLoweringWithEntry
from onebit.engine.shortcuts import few_passes

_OF_PYTHON = ("Py", "_Py", "NRT_")  # what functions that make objects are called


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that others call, optimised by itself: no machine code is made of it."""

    @property
    def codegen(self) -> Any:
        """Whom Numba tells a function's environment."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Forget an environment, which code needs to make Python's objects: a part makes none."""

    def add_ir_module(self, ir_module: ir.Module) -> None:
        """Take what was lowered."""
        super().add_ir_module(_inlined(ir_module))

    def _finalize_final_module(self) -> None:
        """What is left to be done where a function is not to be executed."""
        self._finalized = True


class InOrderPartLibrary(PartLibrary):
    """The code of a part whose sums are taken in the order in which they are written."""

    def _optimize_final_module(self) -> None:
        """Optimise once, and take sums that are alike side by side."""
        passes, builder = self._codegen._module_pass_manager(slp_vectorize=True)
        passes.run(self._final_module, builder)


class RawPartLibrary(PartLibrary):
    """The code of a function that others call, as it was lowered: text, until a loop takes it in."""

    def __init__(self, codegen: Any, name: str, *, called: bool) -> None:
        super().__init__(codegen, name)
        self.called = called
        self.text = ""

    def add_ir_module(self, ir_module: ir.Module) -> None:
        """Take what was lowered."""
        self.text = normalize_ir_text(str(ir_module if self.called else _inlined(ir_module)))

    def finalize(self) -> None:
        """There is nothing to do before a loop takes it in."""
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """The part and all that it reaches, for what is optimised by itself."""
        if self._shared_module is None:
            self._final_module = llvm.parse_assembly(self.text)
            _take_in(self._final_module, self._linking_libraries)
        return super()._get_module_for_linking()


class LoopLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a loop and of all that it reaches: machine code is made of it and kept, and not executed by Numba."""

    machine_code = b""

    @property
    def codegen(self) -> Any:
        """Whom Numba tells a function's environment."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Forget an environment, as a part does."""

    def finalize(self) -> None:
        """Take in every part, and optimise."""
        _take_in(self._final_module, self._linking_libraries)
        self._linking_libraries.clear()
        super().finalize()

    def add_llvm_module(self, module: Any) -> None:
        """Take what was lowered: it is optimised with the parts, and need not be before."""
        self._final_module.link_in(module)

    def _optimize_final_module(self) -> None:
        """Optimise once. Numba does it twice, for the counts of references, of which there are none."""
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        """Make machine code."""
        asked = [
            one.name for one in self._final_module.functions if one.is_declaration and one.name.startswith(_OF_PYTHON)
        ]
        if asked:
            raise LoweringError(f"Unsupported: a loop runs without Python, and {asked[0]} would be asked of it")
        self.machine_code = self._codegen._tm.emit_object(self._final_module)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Nowhere: Numba calls nothing of it."""
        self._ensure_finalized()
        return 0


def _inlined(module: ir.Module) -> ir.Module:
    """A module whose functions are put into whatever calls them."""
    for function in module.functions:
        if not function.is_declaration:
            function.attributes.add("alwaysinline")
    return module


def _take_in(module: Any, libraries: Iterable[Any]) -> None:
    """Link what libraries reach into a module, callers before what they call: of what is not called nothing is taken."""
    found: dict[Any, None] = {}
    waiting = list(libraries)
    while waiting:
        library = waiting.pop()
        if library not in found:
            found[library] = None
            if isinstance(library, RawPartLibrary):
                taken = llvm.parse_assembly(library.text)
                for function in taken.functions:
                    if not function.is_declaration and function.linkage == llvm.Linkage.external:
                        function.linkage = "linkonce_odr"  # where several modules have it, it is the same
                module.link_in(taken)
                waiting.extend(library._linking_libraries)
            else:
                module.link_in(library._get_module_for_linking(), preserve=True)


class PartCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, for a part."""

    def define_pipelines(self) -> Any:
        """The usual passes, into a library of its own kind."""
        _hand_down_alike()
        codegen, function = self.state.targetctx.codegen(), self.state.func_id.func
        sums = self.state.flags.fastmath
        if sums and not is_called(function):
            kind = PartLibrary if "reassoc" in sums.flags else InOrderPartLibrary
            self.state.library = kind(codegen, function.__qualname__)
        else:
            self.state.library = RawPartLibrary(codegen, function.__qualname__, called=is_called(function))
        is_own = function.__module__.startswith("onebit.")
        return [few_passes()] if is_own else super().define_pipelines()


class LoopCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, for a loop."""

    def define_pipelines(self) -> Any:
        """Few passes, with an entry in the place of Numba's wrapper, into a library of its own kind."""
        _hand_down_alike()
        self.state.library = LoopLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return [few_passes(NativeLoweringWithEntry)]


def _hand_down_alike() -> None:
    """Let what is compiled for one caller do for the next: Numba compiles it again where the caller's options are others."""
    handed_down = ConfigStack().top()
    for option in ("release_gil", "no_cfunc_wrapper", "no_cpython_wrapper"):  # which say nothing of what is called
        handed_down.discard(option)


def is_called(thing: Callable[..., Any]) -> bool:
    """Whether a part is called where others are put into their callers; of a space, whether its parts are."""
    package = sys.modules.get(thing.__module__.rpartition(".")[0])
    return bool(getattr(package, "CALLED", False))
