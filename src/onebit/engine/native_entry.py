"""The entry point of machine code: it unpacks arguments from words, in place of Numba's wrapper.

Numba's own wrapper asks Python for every part of every argument; for the space of `auto`, which has a hundred arrays,
that was a tenth of all the code to compile. A space passed by reference is unpacked into the entry's own memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, reduce
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.core.types import Array, BaseTuple  # type: ignore[attr-defined]

from onebit.engine.arguments import AXIS_COUNT, DATA, LENGTHS, STRIDES
from onebit.engine.machine_code import ENTRY, FAILED, MISFIT
from onebit.engine.references import Reference

_WORD, _BYTE, _INT = ir.IntType(64), ir.IntType(8), ir.IntType(32)


class LoweringWithEntry(Lower):  # type: ignore[misc]
    """The lowering of a loop, which writes the native entry instead of Numba's wrapper."""

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        module = self.library.create_ir_module(ENTRY)
        entry = ir.Function(module, ir.FunctionType(_WORD, [_WORD.as_pointer()]), ENTRY)
        builder = ir.IRBuilder(entry.append_basic_block())
        reader = _ArgumentReader(self.context, builder, entry.args[0])
        with builder.if_then(builder.not_(reader.fit(self.fndesc.argtypes)), likely=False):
            builder.ret(_WORD(MISFIT))
        arguments = [reader.value(kind) for kind in self.fndesc.argtypes]
        function = self.context.declare_function(module, self.fndesc)
        status, answer = self.context.call_conv.call_function(
            builder, function, self.fndesc.restype, self.fndesc.argtypes, arguments
        )
        builder.ret(builder.select(status.is_error, _WORD(FAILED), answer))
        self.library.add_ir_module(module)


@register_pass(mutates_CFG=True, analysis_only=False)
class NativeLoweringWithEntry(NativeLowering):  # type: ignore[misc]
    """The compiler pass that lowers a loop."""

    @property
    def lowering_class(self) -> type[Lower]:
        return LoweringWithEntry


class _ArgumentReader:
    """A reader of argument words, which consumes them one after the other."""

    def __init__(self, context: Any, builder: Any, words: Any) -> None:
        self._context, self._builder, self._words = context, builder, words
        self._words_read = 0

    def fit(self, kinds: Iterable[Any]) -> Any:
        """Return a flag in generated code: whether all arrays have the expected number of axes."""
        fits = ir.IntType(1)(1)
        for index, kind in enumerate(_leaves(kinds)):
            if isinstance(kind, Array):
                axes = self._builder.load(_field(self._builder, self._record(index), AXIS_COUNT, _INT))
                fits = self._builder.and_(fits, self._builder.icmp_signed("==", axes, _INT(kind.ndim)))
        return fits

    def value(self, kind: Any) -> Any:
        """Return the next argument in the form in which compiled code passes it."""
        if isinstance(kind, Reference):
            place = cgutils.alloca_once(self._builder, self._context.get_value_type(kind.value))
            self._write(kind.value, place)
            return place
        if isinstance(kind, BaseTuple):
            return self._context.make_tuple(self._builder, kind, [self.value(part) for part in kind])
        if isinstance(kind, Array):
            return self._array(kind)._getvalue()
        form = self._context.get_value_type(kind)
        if isinstance(form, ir.IntType):
            return self._builder.trunc(self._next(), form) if form.width < _WORD.width else self._next()
        return self._builder.bitcast(self._next(), form)

    def _write(self, kind: Any, place: Any) -> None:
        """Write a tuple field by field; as a single value it would be far more work for LLVM."""
        for index, part in enumerate(kind):
            where = cgutils.gep_inbounds(self._builder, place, 0, index)
            if isinstance(part, BaseTuple):
                self._write(part, where)
            elif isinstance(part, Array):
                self._write_array(part, where)
            else:
                self._builder.store(self.value(part), where)

    def _array(self, kind: Any) -> Any:
        self._words_read += 1
        return _array_in(self._context, self._builder, kind, self._record(self._words_read - 1))

    def _write_array(self, kind: Any, place: Any) -> None:
        """Write an array by calling a function that is shared by all arrays of its kind.

        If all arrays of `auto` were written inline, LLVM would take a second longer.
        """
        module, name = self._builder.module, f"{ENTRY}_array_{kind.ndim}_{_itemsize(self._context, kind)}"
        writer = module.globals.get(name)
        if writer is None:
            writer = ir.Function(module, ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer()] * 2), name)
            writer.linkage = "internal"
            writer.attributes.add("noinline")
            builder = ir.IRBuilder(writer.append_basic_block())
            form = self._context.get_value_type(kind).as_pointer()
            record, memory = writer.args
            _array_in(self._context, builder, kind, record, builder.bitcast(memory, form))
            builder.ret_void()
        self._builder.call(writer, [self._record(self._words_read), self._builder.bitcast(place, _BYTE.as_pointer())])
        self._words_read += 1

    def _record(self, index: int) -> Any:
        return self._builder.inttoptr(self._word(index), _BYTE.as_pointer())

    def _next(self) -> Any:
        self._words_read += 1
        return self._word(self._words_read - 1)

    def _word(self, index: int) -> Any:
        return self._builder.load(self._builder.gep(self._words, [_WORD(index)]))


def _array_in(context: Any, builder: Any, kind: Any, record: Any, place: Any = None) -> Any:
    """Return an array built from NumPy's record of it, without reference counting."""
    array = context.make_array(kind)(context, builder, ref=place)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    array.data = builder.load(_field(builder, record, DATA, array.data.type))
    array.itemsize = _WORD(_itemsize(context, kind))
    lengths = _numbers(builder, record, LENGTHS, kind.ndim)
    array.nitems = reduce(builder.mul, lengths)
    array.shape = cgutils.pack_array(builder, lengths)
    array.strides = cgutils.pack_array(builder, _numbers(builder, record, STRIDES, kind.ndim))
    return array


@cache
def _itemsize(context: Any, kind: Any) -> int:
    """Return the size of an element in bytes; cached, since LLVM creates a module to find out."""
    return int(context.get_abi_sizeof(context.get_data_type(kind.dtype)))


def _numbers(builder: Any, record: Any, offset: int, count: int) -> list[Any]:
    """Load the numbers that a field of an array's record points to, one for each axis."""
    first = builder.load(_field(builder, record, offset, _WORD.as_pointer()))
    return [builder.load(builder.gep(first, [_WORD(axis)])) for axis in range(count)]


def _leaves(kinds: Iterable[Any]) -> Iterator[Any]:
    for kind in kinds:
        whole = kind.value if isinstance(kind, Reference) else kind
        if isinstance(whole, BaseTuple):
            yield from _leaves(whole)
        else:
            yield whole


def _field(builder: Any, record: Any, offset: int, form: Any) -> Any:
    """Return the address of a field of a record."""
    return builder.bitcast(builder.gep(record, [_WORD(offset)]), form.as_pointer())
