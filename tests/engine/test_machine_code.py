"""Machine code is handed its arguments as words, takes them apart as Python has them, and says what it cannot do."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.errors import LoweringError

from onebit.engine.arguments import describe_type, make_packer, word_of
from onebit.engine.linking import LoopCompiler
from onebit.engine.machine_code import CompiledLoop
from onebit.engine.overloads import OPTIONS
from onebit.engine.references import Reference
from onebit.errors import OnebitError

MOST = np.uint64(2**64 - 1)


class Part(NamedTuple):
    """A tuple within a tuple."""

    flags: Any
    share: float


class Space(NamedTuple):
    """Arrays and numbers of several kinds."""

    weights: Any
    number: Any
    part: Any
    steep: bool


def space() -> Space:
    """One of them."""
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    return Space(weights, -7, Part(np.array([2, 3], dtype=np.uint8), 0.25), True)


def listen(given: Any, space: Any, vector: Any, key: Any, number: int, share: float, out: Any) -> int:
    """Write down all that was heard."""
    out[0] = given[0] + given[1]
    out[1] = space.weights[2, 1] + 10 * space.weights.shape[0] + 100 * space.weights.shape[1]
    out[2] = space.number + space.part.share + space.part.flags[1] + space.steep
    out[3] = vector.shape[0] + (vector[1] if vector.shape[0] > 1 else 0.0)
    out[4] = key >> np.uint64(1)
    out[5] = share
    if number == 13:
        raise ValueError("thirteen")
    return number


def loop_of(*prototype: Any) -> CompiledLoop:
    """`listen` in machine code, which is handed the space by reference."""
    kinds = tuple(numba.typeof(one) for one in prototype)
    kinds = tuple(
        Reference(kind) if isinstance(one, Space) else kind for one, kind in zip(prototype, kinds, strict=True)
    )
    dispatcher: Any = numba.njit(pipeline_class=LoopCompiler, **OPTIONS)(listen)
    dispatcher.compile(kinds)
    names = listen.__code__.co_varnames[: listen.__code__.co_argcount]
    return CompiledLoop(dispatcher.overloads[kinds].library.machine_code, "listen", names, prototype)


@pytest.fixture(scope="module")
def loop() -> CompiledLoop:
    """The loop for these types."""
    return loop_of((0, 0.0), space(), np.zeros(1)[::1], np.uint64(0), 0, 0.0, np.zeros(6))


@pytest.mark.parametrize("vector", [np.zeros(0), np.arange(3.0), np.arange(8.0)[4:]], ids=["empty", "whole", "a view"])
def test_every_argument_arrives_as_python_has_it(loop: CompiledLoop, vector: Any) -> None:
    by_machine, by_python = np.zeros(6), np.zeros(6)
    vector = vector.view()
    vector.flags.writeable = False
    given = (-3, 0.5), space(), vector, MOST, -(2**60), math.inf
    assert loop(*given, by_machine) == listen(*given, by_python) == -(2**60)
    assert by_machine.tolist() == by_python.tolist()


def test_an_exception_is_said_and_not_swallowed(loop: CompiledLoop) -> None:
    with pytest.raises(OnebitError, match="listen raised an exception; set NUMBA_DISABLE_JIT=1"):
        loop((1, 1.0), space(), np.zeros(2), MOST, 13, 0.0, np.zeros(6))


@pytest.mark.parametrize("wrong", [np.zeros((2, 2)), np.zeros(())], ids=["more", "none"])
def test_an_array_with_another_number_of_axes_is_refused_before_anything_is_read(
    loop: CompiledLoop, wrong: Any
) -> None:
    out = np.zeros(6)
    with pytest.raises(OnebitError, match="a wrong number of axes"):
        loop((1, 1.0), space(), wrong, MOST, 1, 0.0, out)
    assert not out.any()


def test_words_stand_in_the_order_of_the_arguments() -> None:
    names, prototype = ("a", "b", "c"), ((1, np.zeros(2)), 2.0, np.uint64(3))
    given = ((-1, prototype[0][1]), 0.5, MOST)
    words = np.frombuffer(make_packer(names, prototype)(*given), dtype=np.uint64)
    assert words.tolist() == [2**64 - 1, id(prototype[0][1]), np.float64(0.5).view(np.uint64), 2**64 - 1]
    assert [word_of(name, names, prototype) for name in names] == [0, 2, 3]


def test_what_needs_other_machine_code_is_described_otherwise() -> None:
    one = space()
    others = [
        one._replace(weights=one.weights.astype(np.float64)),
        one._replace(weights=one.weights[0]),
        one._replace(weights=one.weights.T),
        one._replace(weights=one.weights[:, ::2]),
        one._replace(number=1.0),
        one._replace(part=(one.part.flags, 0.25)),
        tuple(one),
    ]
    marks = [repr(describe_type(thing)) for thing in (one, *others)]
    assert len(set(marks)) == len(marks)
    assert describe_type(one) == describe_type(space()._replace(weights=np.ones((7, 1), dtype=np.float32)))


def test_what_asks_something_of_python_is_refused() -> None:
    def chatty(number: int) -> int:
        print(number)
        return number

    with pytest.raises(LoweringError, match="a compiled loop cannot call Python"):
        numba.njit(pipeline_class=LoopCompiler, **OPTIONS)(chatty).compile((numba.int64,))
