"""Combine the functions of a loop into one piece of machine code.

By default Numba optimises a function once it is lowered, makes machine code of it, and copies its code into every
function that calls it, where all of it is optimised again: once for each caller on the way up to the loop. Here each
function is kept as a part, in the form in which it was lowered. The loop, the only function called from outside,
links in all parts that it reaches, each once, and is optimised together with them.

Most parts are inlined into their callers. Those of a package that sets CALLED are called instead, since they are too
large to optimise as one function.

Sums of a part that may be taken in any order (`fastmath`) would differ in their last bits if they were optimised
inside the loop. So such a part is first optimised by itself, as Numba does, unless it is called. So is a part whose
sums must be taken in order: there, LLVM can only compute several sums at a time, not several terms of one sum, and it
has a pass for that which Numba leaves out.
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

_OF_PYTHON = ("Py", "_Py", "NRT_")  # prefixes of functions that need Python


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that others call, optimised by itself but not made into machine code."""

    @property
    def codegen(self) -> Any:
        """The object that Numba tells about a function's environment: this library itself."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Ignore an environment: code needs it only to create Python objects, which a part never does."""

    def add_ir_module(self, ir_module: ir.Module) -> None:
        """Add a lowered module, to be inlined into its callers."""
        super().add_ir_module(_mark_inlined(ir_module))

    def _finalize_final_module(self) -> None:
        """Mark the library as finished; nothing else is left to do for code that is not executed."""
        self._finalized = True


class InOrderPartLibrary(PartLibrary):
    """The code of a part whose sums are taken in the order in which they are written."""

    def _optimize_final_module(self) -> None:
        """Optimise once, computing similar sums side by side."""
        passes, builder = self._codegen._module_pass_manager(slp_vectorize=True)
        passes.run(self._final_module, builder)


class RawPartLibrary(PartLibrary):
    """The code of a function that others call, kept as text as it was lowered until a loop links it in."""

    def __init__(self, codegen: Any, name: str, *, called: bool) -> None:
        super().__init__(codegen, name)
        self.called = called
        self.text = ""

    def add_ir_module(self, ir_module: ir.Module) -> None:
        """Keep a lowered module as text."""
        self.text = normalize_ir_text(str(ir_module if self.called else _mark_inlined(ir_module)))

    def finalize(self) -> None:
        """Mark the library as finished; work starts only when a loop links it in."""
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Return the part and all that it reaches, for parts that are optimised by themselves."""
        if self._shared_module is None:
            self._final_module = llvm.parse_assembly(self.text)
            _link_libraries(self._final_module, self._linking_libraries)
        return super()._get_module_for_linking()


class LoopLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a loop and all that it reaches; its machine code is kept, not executed by Numba."""

    machine_code = b""

    @property
    def codegen(self) -> Any:
        """The object that Numba tells about a function's environment: this library itself."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Ignore an environment, as parts do."""

    def finalize(self) -> None:
        """Link in every part and optimise the whole."""
        _link_libraries(self._final_module, self._linking_libraries)
        self._linking_libraries.clear()
        super().finalize()

    def add_llvm_module(self, module: Any) -> None:
        """Add a lowered module without optimising it; it is optimised together with the parts."""
        self._final_module.link_in(module)

    def _optimize_final_module(self) -> None:
        """Optimise once; Numba does it twice to remove reference counts, of which there are none."""
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        """Generate machine code; raise LoweringError if it would call Python."""
        declared = [function.name for function in self._final_module.functions if function.is_declaration]
        needed = [name for name in declared if name.startswith(_OF_PYTHON)]
        if needed:
            raise LoweringError(f"Unsupported: a compiled loop cannot call Python, but this one needs {needed[0]}")
        self.machine_code = self._codegen._tm.emit_object(self._final_module)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, as Numba never calls the code."""
        self._ensure_finalized()
        return 0


def _mark_inlined(module: ir.Module) -> ir.Module:
    """Mark the functions of a module as always inlined, and return it."""
    for function in module.functions:
        if not function.is_declaration:
            function.attributes.add("alwaysinline")
    return module


def _link_libraries(module: Any, libraries: Iterable[Any]) -> None:
    """Link into a module everything that the libraries depend on, callers first.

    Callers come first so that functions nobody calls are left out.
    """
    linked: dict[Any, None] = {}
    waiting = list(libraries)
    while waiting:
        library = waiting.pop()
        if library not in linked:
            linked[library] = None
            if isinstance(library, RawPartLibrary):
                part = llvm.parse_assembly(library.text)
                for function in part.functions:
                    if not function.is_declaration and function.linkage == llvm.Linkage.external:
                        function.linkage = "linkonce_odr"  # several modules may define it, identically
                module.link_in(part)
                waiting.extend(library._linking_libraries)
            else:
                module.link_in(library._get_module_for_linking(), preserve=True)


class PartCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, for a part."""

    def define_pipelines(self) -> Any:
        """Return the compiler passes, and choose the kind of library that the part goes into."""
        _drop_unused_options()
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
        """Return few passes, with the native entry in place of Numba's wrapper, into a loop library."""
        _drop_unused_options()
        self.state.library = LoopLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return [few_passes(NativeLoweringWithEntry)]


def _drop_unused_options() -> None:
    """Drop caller options that do not affect callees, so that Numba compiles a callee only once."""
    handed_down = ConfigStack().top()
    for option in ("release_gil", "no_cfunc_wrapper", "no_cpython_wrapper"):  # these options do not affect callees
        handed_down.discard(option)


def is_called(thing: Callable[..., Any]) -> bool:
    """Return True if a function, or a space's functions, are called rather than inlined."""
    package = sys.modules.get(thing.__module__.rpartition(".")[0])
    return bool(getattr(package, "CALLED", False))
