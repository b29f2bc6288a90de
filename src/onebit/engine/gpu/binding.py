"""Turns plain functions into device functions: the same code, with its global names bound to constants and to other functions."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

Wrap = Callable[[Callable[..., Any]], Any]


class Binding:
    """Binds functions and all that they call, each once."""

    def __init__(self, names: Mapping[str, Any], instead: Mapping[Callable[..., Any], Any], wrap: Wrap) -> None:
        self.names, self.instead, self.wrap = names, instead, wrap
        self._bound: dict[Callable[..., Any], Any] = {}

    def called(self, function: Callable[..., Any]) -> Any:
        """What stands for a function where another calls it."""
        function = self.instead.get(function, function)
        if function not in self._bound:
            self._bound[function] = self.wrap(self.plain(function))
        return self._bound[function]

    def plain(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with its names bound, not wrapped."""
        assert isinstance(function, types.FunctionType)
        bound = dict(function.__globals__)
        for name in function.__code__.co_names:
            if name in self.names and name in bound:
                given = self.names[name]
                bound[name] = self.called(given) if isinstance(given, types.FunctionType) else given
            elif isinstance(bound.get(name), types.FunctionType):
                bound[name] = self.called(bound[name])
        made = types.FunctionType(function.__code__, bound, function.__name__, function.__defaults__)
        made.__annotations__ = {}
        return made
