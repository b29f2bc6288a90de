"""How loops are compiled: every function once, machine code of the loop alone, a large space by reference; and what of Numba that rests on."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core import codegen, event, ir, targetconfig, types
from numba.core.lowering import Lower
from numba.core.options import DefaultOptions
from numba.core.typed_passes import NativeLowering

from onebit.engine.compile import loop_for
from onebit.engine.fingerprint import FIRST_KNOWN, FIRST_UNKNOWN, knows_numba, numba_version
from onebit.engine.linking import LoopCompiler, PartCompiler
from onebit.engine.machine_code import CompiledLoop
from onebit.engine.overloads import OPTIONS, PART_OPTIONS
from onebit.engine.references import Reference
from onebit.engine.stream import is_bearable
from onebit.rules import rule_named
from onebit.spaces.dense import Dense


class Inner(NamedTuple):
    """Fields within fields."""

    numbers: Any
    size: int


class Outer(NamedTuple):
    """A named tuple as spaces are."""

    weights: Any
    inner: Inner
    alike: Any


class Pair(NamedTuple):
    """Fields of one type, which Numba keeps as an array."""

    first: Any
    second: Any


def outer() -> Outer:
    """One of them, with numbers in it."""
    numbers = np.arange(6.0).reshape(2, 3)
    return Outer(np.arange(4.0, dtype=np.float32), Inner(numbers, 7), Pair(np.ones(2), np.full(3, 5.0)))


def read_all(space: Outer) -> int:
    """A sum over every field."""
    inner = space.inner
    return int(space.weights[3] + inner.numbers[1, 2] + inner.size + space.alike.first[0] + space.alike.second[2])


def write(space: Outer) -> int:
    """Change arrays, not fields."""
    space.inner.numbers[0, 0] = 11.0
    space.weights[0] += space.inner.numbers[0, 0]
    return 0


@contextmanager
def lowered() -> Iterator[Counter[str]]:
    """How often each function is lowered."""
    counts: Counter[str] = Counter()

    class Counting(event.Listener):  # type: ignore[misc]
        def on_start(self, one: Any) -> None:
            kind, _, name = one.data["name"].partition(" ")
            counts[name] += kind == "native_lowering"

        def on_end(self, one: Any) -> None:
            pass

    with event.install_listener("numba:run_pass", Counting()):
        yield counts


def test_fields_of_a_reference_are_read_and_their_arrays_written() -> None:
    space = outer()
    assert compiled(read_all, space)(space) == read_all(space)
    compiled(write, space)(space)
    assert space.inner.numbers[0, 0] == space.weights[0] == 11.0


def compiled(function: Callable[[Outer], int], space: Outer) -> CompiledLoop:
    """A function that is given a space by reference, as the engine does."""
    dispatcher: Any = numba.njit(pipeline_class=LoopCompiler, **OPTIONS)(function)
    kinds = (Reference(numba.typeof(space)),)
    dispatcher.compile(kinds)
    return CompiledLoop(dispatcher.overloads[kinds].library.machine_code, "it", ["space"], [space])


def wind(space: Outer) -> int:
    """Loops with several ways back, variables that are assigned in branches only, and one that is never."""
    total, last = 0.0, -1
    for row in range(space.inner.numbers.shape[0]):
        for column, number in enumerate(space.inner.numbers[row]):
            if number == 1.0:
                continue
            if number > 4.0:
                break
            if column % 2 == 0:
                last = column
                found = number
            else:
                found = -number
            total += found
        while total > 2.0:
            total -= 1.5
            if last == 0:
                continue
            last -= 1
    return int(10.0 * total) + last


def test_few_passes_leave_the_meaning_of_a_function_as_it_was() -> None:
    space = outer()
    assert compiled(wind, space)(space) == numba.njit(wind)(space) == wind(space)


def test_no_variable_is_deleted_where_references_are_not_counted() -> None:
    lowered_instructions: list[Any] = []

    class Noting(Lower):  # type: ignore[misc]
        def lower_inst(self, inst: Any) -> Any:
            lowered_instructions.append(inst)
            return super().lower_inst(inst)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(NativeLowering, "lowering_class", Noting)
        part = numba.njit(pipeline_class=PartCompiler, **PART_OPTIONS)(is_bearable)
        part.compile((types.float64[::1], types.int64, types.float64, types.float64, types.float64))
    assert lowered_instructions
    assert not [one for one in lowered_instructions if isinstance(one, ir.Del)]


def test_references_are_told_apart_by_what_they_refer_to() -> None:
    one, other = outer(), outer()._replace(weights=np.arange(4.0))
    assert Reference(numba.typeof(one)) == Reference(numba.typeof(outer()))
    assert Reference(numba.typeof(one)) != Reference(numba.typeof(other))
    assert Reference(numba.typeof(one)).name != Reference(numba.typeof(other)).name


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(numba.TypingError, match="missing"):
        compiled(lambda space: space.missing, outer())  # type: ignore[attr-defined]


def test_every_function_of_a_loop_is_lowered_once_for_each_way_of_summing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path))
    monkeypatch.setattr("onebit.engine.compile._loops", {})  # another test may have had it compiled
    with lowered() as counts:
        loop_for(rule_named("perceptron"), Dense.empty(3, 4, False, np.dtype(np.float64)))
    own = {name: times for name, times in counts.items() if "<locals>" not in name}
    assert own["[stream]"] == 1
    assert max(own.values()) <= 2


def called(number: float) -> float:
    """Called by a part."""
    return number + 0.5


def test_a_part_may_be_called_by_functions_that_numba_compiles_itself() -> None:
    part = numba.njit(pipeline_class=PartCompiler, **PART_OPTIONS)(called)
    inner = numba.njit(pipeline_class=PartCompiler, **PART_OPTIONS)(lambda number: 2.0 * part(number))
    foreign = numba.njit(lambda number: inner(number) - 1.0)
    assert foreign(1.0) == 2.0


def test_the_installed_numba_is_known_and_read_without_importing_it() -> None:
    assert numba_version() == numba.__version__
    assert knows_numba(), "raise FIRST_UNKNOWN when the tests pass with this Numba"


@pytest.mark.parametrize(
    ("version", "known"),
    [("0.63.0", True), ("0.68.1", True), ("0.69.0rc1", False), ("0.62.9", False), ("1.0", False), ("0+unknown", False)],
)
def test_only_versions_that_were_tried_are_known(version: str, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (FIRST_KNOWN, FIRST_UNKNOWN) == ((0, 63), (0, 69))
    monkeypatch.setattr("onebit.engine.fingerprint.numba_version", lambda: version)
    assert knows_numba() is known


def test_the_parts_of_numba_that_are_its_own_are_where_they_were() -> None:
    library = codegen.JITCodeLibrary
    for method in ("finalize", "add_ir_module", "_get_module_for_linking", "_finalize_final_module"):
        assert callable(getattr(library, method)), (
            f"Numba has moved CodeLibrary.{method}, which engine.linking replaces"
        )
    source = inspect.getsource(codegen.CPUCodeLibrary)
    for name in ("_final_module", "_shared_module", "_linking_libraries"):
        assert name in source, f"Numba has moved CPUCodeLibrary.{name}, which engine.linking reads"
    assert callable(codegen.JITCPUCodegen.set_env), "Numba has moved set_env, by which parts are told their environment"
    generator = inspect.getsource(codegen)
    for name in ("self._tm = ", "def _module_pass_manager(self", "_tm.emit_object(", "def add_llvm_module(self"):
        assert name in generator, f"Numba has moved {name}, by which engine.linking makes machine code"
    assert callable(Lower.create_cpython_wrapper), "Numba has moved the wrapper that engine.native_entry replaces"
    assert isinstance(NativeLowering.lowering_class, property), "Numba has moved what engine.native_entry lowers with"
    stack = targetconfig.ConfigStack
    assert callable(stack.top), "Numba has moved ConfigStack.top, which engine.linking changes"
    for option in {*OPTIONS, *PART_OPTIONS}:
        assert hasattr(DefaultOptions, option), f"Numba has lost the option {option}, which engine.overloads sets"
    named = getattr(types, "BaseNamedTuple", None)
    assert named is not None, "Numba has moved BaseNamedTuple, by which engine.references knows named tuples"
    assert isinstance(numba.typeof(outer()), named)
