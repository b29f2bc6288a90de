"""Turns plain functions into device functions: the same code, with its names bound to constants and to other functions."""

from __future__ import annotations

import types
from collections.abc import Callable, Container, Mapping
from typing import Any

Wrap = Callable[[Callable[..., Any]], Any]


class Binding:
    """Binds functions and all that they call, by global names or out of a closure, each once.

    `names` has by the name of a module the names that are bound in its functions; those of other modules stay as they are. `instead`
    has functions that take the place of others, except where these are bound by name. Functions of other modules than `own` are kept in `lasting`, for other bindings too:
    nothing in them differs from kernel to kernel, and they need not be compiled again.
    """

    def __init__(
        self,
        names: Mapping[str, Mapping[str, Any]],
        instead: Mapping[Callable[..., Any], Callable[..., Any]],
        wrap: Wrap,
        lasting: dict[Callable[..., Any], Any] | None = None,
        own: Container[str] = (),
    ) -> None:
        self.names, self.instead, self.wrap = names, instead, wrap
        self._lasting = {} if lasting is None else lasting
        self._own = own
        self._bound: dict[Callable[..., Any], Any] = {}

    def called(self, function: Callable[..., Any]) -> Any:
        """What stands for a function where another calls it."""
        return self._wrapped(self.instead.get(function, function))

    def _wrapped(self, function: Callable[..., Any]) -> Any:
        kept = self._bound if function.__module__ in self._own else self._lasting
        if function not in kept:
            kept[function] = self.wrap(self.plain(function))
        return kept[function]

    def plain(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with its names bound, not wrapped."""
        assert isinstance(function, types.FunctionType)
        given = self.names.get(function.__module__, {})
        bound = dict(function.__globals__)
        for name in function.__code__.co_names:
            if name in bound:
                bound[name] = self._standing_for(bound[name]) if name not in given else self._named(given[name])
        cells = tuple(types.CellType(self._standing_for(cell.cell_contents)) for cell in function.__closure__ or ())
        made = types.FunctionType(function.__code__, bound, function.__name__, function.__defaults__, cells)
        made.__kwdefaults__ = function.__kwdefaults__
        made.__annotations__ = {}
        return made

    def _standing_for(self, used: Any) -> Any:
        return self.called(used) if isinstance(used, types.FunctionType) else used

    def _named(self, given: Any) -> Any:
        return self._wrapped(given) if isinstance(given, types.FunctionType) else given
