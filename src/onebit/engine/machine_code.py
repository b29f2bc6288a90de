"""Load and call machine code: an object file whose one entry takes the words of its arguments.

Only LLVM is needed to load it, so a process that finds all its loops in the cache never imports the compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from onebit.engine.arguments import make_packer, word_of
from onebit.errors import OnebitError

ENTRY = "onebit_entry"
# Return values that no loop uses: an exception was raised; an array has an unexpected number of axes.
FAILED, MISFIT = -(2**63), 1 - 2**63

_Entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)  # ctypes releases the GIL, so that other threads can run


class CompiledLoop:
    """A loop in machine code, called like the original function."""

    __slots__ = ("_engine", "enter", "names", "pack", "prototype", "title")

    def __init__(self, code: bytes, title: str, names: Sequence[str], prototype: Sequence[Any]) -> None:
        self.title, self.names, self.prototype = title, names, prototype
        self._engine = _load_object(code)  # the code is freed with its engine
        self.enter = _Entry(self._engine.get_function_address(ENTRY))
        self.pack: Callable[..., bytes] = make_packer(names, prototype)

    def __call__(self, *arguments: Any) -> int:
        walked: int = self.enter(self.pack(*arguments))
        if walked <= MISFIT:
            raise OnebitError(_explain_failure(walked, self.title))
        return walked

    def word_of(self, name: str) -> int:
        return word_of(name, self.names, self.prototype)


def _explain_failure(answer: int, title: str) -> str:
    if answer == MISFIT:
        return f"the compiled loop of {title} received an array with a wrong number of axes: this is a bug in onebit"
    return f"the compiled loop of {title} raised an exception; set NUMBA_DISABLE_JIT=1 to run it uncompiled and see the traceback"


def _load_object(code: bytes) -> Any:
    """Return an LLVM execution engine that has loaded an object file."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def host() -> tuple[str, str, str]:
    """Return the processor that machine code is compiled for: target triple, name and features."""
    import llvmlite.binding as llvm

    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
