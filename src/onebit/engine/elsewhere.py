"""Loops that are compiled in another process while this one is compiling another loop, for threads that are `helped_by` such processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from onebit.contract.rule import Rule
from onebit.engine.processes import CompilingProcesses, carry_out_order
from onebit.engine.stream import lessons, stream
from onebit.rules import registry, rule_named

_LOOPS = {loop.__name__: loop for loop in (stream, lessons)}

_helpers: ContextVar[CompilingProcesses | None] = ContextVar("helpers", default=None)


@contextmanager
def helped_by(processes: CompilingProcesses | None) -> Iterator[None]:
    """Let these processes compile what this thread needs, where this process is busy compiling."""
    before = _helpers.set(processes)
    try:
        yield
    finally:
        _helpers.reset(before)


def helpers_for(rule: Rule) -> CompilingProcesses | None:
    """Who may compile a loop of this rule for this thread: another process knows the rules of onebit alone."""
    return _helpers.get() if is_known(rule) else None


def is_known(rule: Rule) -> bool:
    """Whether another process finds the same rule by its name."""
    return registry().get(rule.name) is rule


def pack_loop(rule: Rule, space: Any, loop: Callable[..., int] = stream) -> bytes:
    """Pack a loop for another process; of the space only its kind."""
    return pickle.dumps((rule.name, _hollow(space), loop.__name__))


def unpack_loop(order: bytes) -> tuple[Rule, Any, Callable[..., int]]:
    """Return the loop that was packed."""
    name, space, loop = pickle.loads(order)
    return rule_named(name), space, _LOOPS[loop]


def _hollow(value: Any) -> Any:
    """A space with arrays of one element."""
    if isinstance(value, np.ndarray):
        return np.zeros((1,) * value.ndim, dtype=value.dtype)
    return value._make(map(_hollow, value)) if hasattr(value, "_make") else value


if __name__ == "__main__":
    from onebit.engine.compile import loop_for

    carry_out_order(lambda order: loop_for(*unpack_loop(order)))
