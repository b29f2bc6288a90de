"""What Numba asks again and again while it compiles, asked once.

Numba works out anew at every `a + b` which of some dozens of definitions is meant, by trying them one after the other: a fifth of the time
that it takes to compile a loop. An operator that is built in means the same every time. One that is defined by a function in Python does not:
that function is compiled with the options of its caller, so it is asked for as ever.

It also looks some ten times for each function whether somebody has brought new operators and types, by going through a list of imports and
of all definitions. One of these imports is that of SciPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from numba.core.types.functions import BaseFunction
from numba.np import linalg


@contextmanager
def registries_loaded_once(context: Any) -> Iterator[None]:
    """While a loop is compiled, import nothing of Numba's twice, and look for new definitions only where some have been added."""
    typing = context.typing_context
    _import_without_scipy()
    context.refresh()
    context.load_additional_registries = lambda: [context.install_registry(one) for one in list(context._registries)]
    seen = 0

    def refresh() -> None:
        nonlocal seen
        there = _definitions(context) + _definitions(typing)
        if there != seen:
            seen = there
            type(context).refresh(context)  # for which both are refreshed now
            type(typing).refresh(typing)

    context.refresh = typing.refresh = refresh
    try:
        yield
    finally:
        del context.load_additional_registries, context.refresh, typing.refresh


def _import_without_scipy() -> None:
    """Let Numba be told that SciPy's BLAS is there if SciPy is: it imports all of it to find out, for a quarter of a second.

    Whoever multiplies matrices makes it look again.
    """
    ensure = linalg.ensure_blas

    def installed() -> None:
        if find_spec("scipy") is None:
            raise ImportError

    linalg.ensure_blas = installed
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = ensure
    arraymath.ensure_blas = ensure


def _definitions(context: Any) -> int:
    """How many definitions have been brought: none is ever taken back."""
    loaders = context._registries.items()
    return sum(len(getattr(registry, name)) for registry, loader in loaders for name in loader.registry_items)


@contextmanager
def operators_resolved_once() -> Iterator[None]:
    """While a loop is compiled, remember what operators and other built-in functions mean."""
    resolve = BaseFunction.get_call_type
    known: dict[tuple[Any, tuple[Any, ...]], Any] = {}

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        asked = self, tuple(args)
        if not kws and asked in known:
            return known[asked]
        signature = resolve(self, context, args, kws)
        if not kws and signature is not None and self._impl_keys.get(signature.args) is self.typing_key:
            known[asked] = signature
        return signature

    BaseFunction.get_call_type = get_call_type  # type: ignore[method-assign]
    try:
        yield
    finally:
        BaseFunction.get_call_type = resolve  # type: ignore[method-assign]
