"""Arrays and ranges in compiled loops mean what they mean in Python: indices from the end, slices beyond the ends, empty ranges."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from onebit.engine.linking import LoopCompiler
from onebit.engine.machine_code import CompiledLoop
from onebit.engine.overloads import OPTIONS


class Arrays(NamedTuple):
    """What is indexed; sums of what is found go to `out`."""

    line: Any
    table: Any
    cube: Any
    flags: Any
    unsigned: Any
    out: Any


def arrays() -> Arrays:
    """Of several dtypes and axes, with numbers that tell their places apart."""
    flags = np.array([True, False, True])
    cube = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    table = np.arange(12.0).reshape(3, 4) ** 2
    return Arrays(np.arange(5, dtype=np.float32), table, cube, flags, np.array([2, 1], dtype=np.uint64), np.zeros(200))


def elements(given: Arrays) -> int:
    """Single places, counted from both ends, by constants, variables and unsigned numbers."""
    at = 0
    for index in range(-5, 5):
        given.out[at] = given.line[index]
        at += 1
    for row in range(-3, 3):
        for column in range(-4, 4):
            given.out[at] = given.table[row, column] + given.table[row][column]
            at += 1
    given.out[at] = given.line[-1] + given.line[0] + given.table[-1, 2] + given.cube[1, -2, 3] + given.cube[-1][0][-4]
    given.out[at + 1] = given.line[given.unsigned[0]] + given.table[given.unsigned[-1], given.unsigned[0]]
    given.out[at + 2] = 1.0 if given.flags[0] and not given.flags[1] else 0.0
    return at


def writes(given: Arrays) -> int:
    """The same places, written to; numbers are converted to the dtype of the array."""
    given.line[-1] = 7
    given.line[1] += 0.5
    given.table[-1, -1] = given.line[4]
    given.table[0][1] -= 3
    given.cube[1, 2, -1] = 2.9
    given.cube[0][-1][0] = given.unsigned[0]
    given.flags[-2] = True
    given.flags[0] = given.line[0] > 3.0
    row = given.table[1]
    row[:] = 4.0
    given.table[2, 1:3] = 5.0
    return 0


def slices(given: Arrays) -> int:
    """Parts with bounds inside and outside, with and without them, and what their shapes are."""
    at = 0
    for begin in range(-7, 8):
        for end in range(-7, 8):
            part = given.line[begin:end]
            given.out[at % 190] += part.shape[0] * 10.0 + part.size
            for number in part:
                given.out[at % 190] += number
            at += 1
    rows, whole, first, last = given.table[1:], given.line[:], given.line[:2], given.table[-1:, 1:-1]
    given.out[190] = rows.shape[0] * 100 + rows.shape[1] * 10 + rows[-1, 0] + rows[1][3]
    given.out[191] = whole[4] + len(whole) + first[1] + first.shape[0]
    given.out[192] = last.shape[0] * 10 + last.shape[1] + last[0, 1] + last[-1][0]
    given.out[193] = given.cube[1:, 2].shape[1] + given.cube[1:, 2][0, 3] + given.cube[0, 1:][1][2]
    given.out[194] = given.table[:, 1][2] + given.table[1:, 2][-1]
    inner = given.table[1:][1:]
    inner[0, 0] = 99.0
    return at


def counts(bound: int) -> range:
    """A range with a step, from a function."""
    return range(bound, 0, -2)


def ranges(given: Arrays) -> int:
    """Loops that are empty, begin below zero, go down, are left early and gone through again."""
    at = 0
    for bound in range(-2, 4):
        for number in range(bound):
            given.out[at] += number + 1
        for number in range(bound, 2):
            given.out[at + 1] += number * 10
        for number in range(3, bound, -2):
            given.out[at + 2] += number * 100
        again = range(bound, bound + 2)
        for _ in range(2):
            for number in again:
                if number == 2:
                    break
                given.out[at + 3] += number * 1000
        end = bound
        for number in range(end):
            end = 0
            given.out[at + 4] += number + end
        for number in counts(bound + 3):
            given.out[at + 5] += number
        given.out[at + 6] = len(range(bound)) + number
        at += 7
    for index in range(given.unsigned[0]):
        given.out[at] += index
    return at


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of this file, called by another, as Numba compiles it."""
    monkeypatch.setattr(sys.modules[__name__], "counts", numba.njit(counts))


def compiled(function: Callable[[Arrays], int], given: Arrays) -> CompiledLoop:
    dispatcher: Any = numba.njit(pipeline_class=LoopCompiler, **OPTIONS)(function)
    kinds = (numba.typeof(given),)
    dispatcher.compile(kinds)
    return CompiledLoop(dispatcher.overloads[kinds].library.machine_code, "it", ["given"], [given])


@pytest.mark.parametrize("function", [elements, writes, slices, ranges])
def test_compiled_is_what_python_does(function: Callable[[Arrays], int], counted: None) -> None:
    here, there = arrays(), arrays()
    plain = {**function.__globals__, "counts": getattr(counts, "py_func", counts)}
    in_python = FunctionType(function.__code__, plain)
    assert compiled(function, there)(there) == in_python(here)
    for name, one, other in zip(Arrays._fields, here, there, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert any(np.any(one != two) for one, two in zip(arrays(), here, strict=True)), "something was written"
