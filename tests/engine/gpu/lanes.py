"""Lanes of a warp on the CPU: what takes the place of `numba.cuda` under the kernel's own functions.

A lane is a generator that stops wherever lanes meet (a barrier, an exchange); between two meetings the lanes of a block run one after
the other, in an order of chance. Every lane must come to every meeting that it is named for, at the same line. Shared memory knows
who wrote and read what since which barrier: two lanes that touch a number, one of them writing, with no barrier between are a race,
in whatever order they happened to run. An exchange orders no memory, as on the device. Memory that nobody wrote has garbage in it.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import operator
import random
import textwrap
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.engine.gpu import build
from onebit.engine.gpu.layout import Layout, Shape

WARP = 32
ALL = 0xFFFFFFFF
MEETINGS = ("syncwarp", "shfl_sync", "shfl_xor_sync", "any_sync", "ballot_sync")
NOBODY, MANY = -1, -2


class Race(AssertionError):
    """Two lanes touched a number of shared memory, one of them writing, and no barrier was between."""


class Stuck(AssertionError):
    """Lanes wait for others that are elsewhere."""


class Meeting(NamedTuple):
    """Where a lane waits: what for, at which line, with whom, and with what in its hand."""

    what: str
    line: int
    mask: int
    value: Any = None
    offset: int = 0


class Cell:
    """A number of shared memory, with who wrote and read it last, and after how many barriers."""

    __slots__ = ("read", "reader", "value", "writer", "written")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.writer, self.written, self.reader, self.read = NOBODY, 0, NOBODY, 0


class Shared:
    """An array of shared memory."""

    __slots__ = ("_cells", "_kind", "_lanes")

    def __init__(self, cells: list[Any], kind: Any, lanes: Lanes) -> None:
        self._cells, self._kind, self._lanes = cells, kind, lanes

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, tuple):
            return self[place[0]][place[1]]
        found = self._cells[place]
        if isinstance(found, list):
            return Shared(found, self._kind, self._lanes)
        assert place >= 0, "a place before the beginning"
        me, now = self._lanes.lane, self._lanes.barriers[self._lanes.lane]
        if found.writer not in (me, NOBODY) and found.written == now:
            raise Race(f"lane {me} reads what lane {found.writer} wrote, with no barrier between")
        if found.read == now and found.reader not in (me, NOBODY):
            found.reader = MANY
        else:
            found.reader, found.read = me, now
        return found.value

    def __setitem__(self, place: Any, value: Any) -> None:
        if isinstance(place, tuple):
            self[place[0]][place[1]] = value
            return
        assert place >= 0, "a place before the beginning"
        cell = self._cells[place]
        me, now = self._lanes.lane, self._lanes.barriers[self._lanes.lane]
        if cell.value == value:  # which changes nothing, whoever looks
            return
        if cell.writer not in (me, NOBODY) and cell.written == now:
            raise Race(f"lane {me} writes over what lane {cell.writer} wrote, with no barrier between")
        if cell.reader not in (me, NOBODY) and cell.read == now:
            raise Race(f"lane {me} writes what another lane reads, with no barrier between")
        cell.value, cell.writer, cell.written = self._kind(value), me, now


class Lanes:
    """The lanes of a block, and the names under which the kernel finds them."""

    def __init__(self, seed: int = 0) -> None:
        self.threadIdx, self.blockIdx = SimpleNamespace(x=0), SimpleNamespace(x=0)
        self.shared = SimpleNamespace(array=self._shared_array)
        self.local = SimpleNamespace(array=garbage)
        self.libdevice = SimpleNamespace(fast_fdividef=operator.truediv)
        self.lane = 0
        self.barriers: list[int] = []  # that each lane has passed
        self._chance = random.Random(seed)
        self.arrays: list[tuple[Any, Any, Shared]] = []  # of this block, in the order in which lanes ask for them
        self._asked: list[int] = []
        self._room = 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as it runs here: a generator if there is a meeting in it, or in what it calls."""
        assert isinstance(function, FunctionType)
        names = function.__code__.co_names
        if not any(name in MEETINGS or inspect.isgeneratorfunction(function.__globals__.get(name)) for name in names):
            return function
        lines, first = inspect.getsourcelines(function)
        parsed = ast.increment_lineno(ast.parse(textwrap.dedent("".join(lines))), first - 1)
        tree = ast.fix_missing_locations(_Waiting(function.__globals__).visit(parsed))
        code = compile(tree, inspect.getfile(function), "exec", __future__.annotations.compiler_flag, True)
        bound = {**function.__globals__, "Meeting": Meeting}
        exec(code, bound)
        return bound[function.__name__]  # type: ignore[no-any-return]

    def launch(
        self, written: Callable[..., Any], blocks: int, threads: int, size: int, arguments: Iterable[Any]
    ) -> None:
        """Run a kernel with so many bytes of shared memory beside what it asks for by itself."""
        given = tuple(arguments)
        with np.errstate(all="ignore"):
            for block in range(blocks):
                self.blockIdx.x, self._room, self.arrays = block, size // 4, []
                self.barriers, self._asked = [0] * threads, [0] * threads
                self._run([_lane(written, given) for _ in range(threads)])

    def _run(self, lanes: list[Generator[Meeting, Any, None]]) -> None:
        going: dict[int, Any] = dict.fromkeys(range(len(lanes)))
        waiting: dict[int, Meeting] = {}
        while going:
            order = list(going)
            self._chance.shuffle(order)
            for lane in order:
                self.lane = self.threadIdx.x = lane
                try:
                    waiting[lane] = lanes[lane].send(going[lane])
                except StopIteration:
                    continue
            going = self._met(waiting, len(lanes))

    def _met(self, waiting: dict[int, Meeting], threads: int) -> dict[int, Any]:
        """The lanes that go on, with what they were given: those of a meeting to which all have come that are named for it."""
        going: dict[int, Any] = {}
        for lane, here in waiting.items():
            if lane in going:
                continue
            begin = lane - lane % WARP
            named = [one for one in range(begin, min(begin + WARP, threads)) if here.mask >> (one - begin) & 1]
            assert lane in named, f"lane {lane} comes to a meeting that it is not named for"
            if any(one not in waiting or waiting[one][:3] != here[:3] for one in named):
                continue
            for one in named:
                going[one] = None
                if here.what == "syncwarp":
                    self.barriers[one] += 1
                elif here.what == "any_sync":
                    going[one] = any(waiting[other].value for other in named)
                elif here.what == "ballot_sync":
                    going[one] = sum(1 << other - begin for other in named if waiting[other].value)
                elif here.what == "shfl_sync":
                    going[one] = waiting[begin + waiting[one].offset].value
                else:
                    partner = waiting[one ^ waiting[one].offset]
                    assert partner.offset == waiting[one].offset
                    assert type(partner.value) is type(waiting[one].value)
                    going[one] = partner.value
        if waiting and not going:
            said = sorted({(one.what, one.line) for one in waiting.values()})
            raise Stuck(f"{len(waiting)} of {threads} lanes wait, at {said}, and not all come that are named")
        for lane in going:
            del waiting[lane]
        return going

    def _shared_array(self, shape: Any, kind: Any) -> Shared:
        """The array that all lanes of the block get when they ask for it; one without a size is the room beside them."""
        number = self._asked[self.lane]
        self._asked[self.lane] += 1
        if number == len(self.arrays):
            cells = _cells(garbage(self._room if shape == 0 else shape, kind))
            self.arrays.append((shape, kind, Shared(cells, kind, self)))
        asked, of, found = self.arrays[number]
        assert (asked, of) == (shape, kind), "lanes ask for different arrays"
        return found


def _lane(written: Callable[..., Any], given: tuple[Any, ...]) -> Generator[Meeting, Any, None]:
    if inspect.isgeneratorfunction(written):
        yield from written(*given)
    else:
        written(*given)


class _Waiting(ast.NodeTransformer):
    """Turns meetings into yields, and calls of functions with meetings into `yield from`."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in MEETINGS:
            what = ast.Constant(node.func.attr)
            call = ast.Call(ast.Name("Meeting", ast.Load()), [what, ast.Constant(node.lineno), *node.args], [])
            if not node.args:
                call.args.append(ast.Constant(ALL))
            return ast.Yield(call)
        if isinstance(node.func, ast.Name) and inspect.isgeneratorfunction(self._names.get(node.func.id)):
            return ast.YieldFrom(node)
        return node


def garbage(shape: Any, kind: Any) -> NDArray[Any]:
    """What is in memory that nobody wrote."""
    whole = np.issubdtype(kind, np.integer)
    return np.full(shape, np.iinfo(kind).max // 3 if whole else np.nan, dtype=kind)


def _cells(values: NDArray[Any]) -> list[Any]:
    return [Cell(one) if values.ndim == 1 else _cells(one) for one in values]


class Kernel:
    """A kernel for lanes made of generators, launched as one of numba-cuda is; `names` are bound beside those of the build."""

    def __init__(self, shape: Shape, layout: Layout, seed: int = 0, **names: Any) -> None:
        self.lanes = Lanes(seed)
        binding = build.bind_names(shape, layout, self.lanes, self.lanes.wrap)
        binding.names = {
            module: {**given, **(names if module in build.OWN_MODULES else {})}
            for module, given in binding.names.items()
        }
        self._loop = build.loop_for(shape)
        self._written = self.lanes.wrap(binding.plain(self._loop))
        self.given: dict[str, Any] = {}  # the arguments of the last launch, by name
        self.launches: list[tuple[int, int]] = []

    def __getitem__(self, grid: tuple[int, int, int, int]) -> Callable[..., None]:
        return partial(self._launch, grid)

    def _launch(self, grid: tuple[int, int, int, int], *arguments: Any) -> None:
        blocks, threads, _, size = grid
        self.given = dict(inspect.signature(self._loop).bind(*arguments).arguments)
        self.launches.append((self.given["start"], self.given["stop"]))
        self.lanes.launch(self._written, blocks, threads, size, arguments)
