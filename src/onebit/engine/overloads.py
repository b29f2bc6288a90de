"""Tell Numba which function each generic name stands for, and how each function is compiled.

The generic names are in `engine.generic`. Numba is imported only where something must be compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from onebit.contract.rule import Rule, rules_by_record
from onebit.engine import generic
from onebit.engine.fingerprint import find_reachable, knows_numba
from onebit.engine.lanes import OPERATIONS
from onebit.engine.stream import stream
from onebit.spaces import kernel

# Sums may be taken in any order and use fused multiply-add; more would remove the checks for NaN.
ANY_ORDER_FLAGS = {"reassoc", "contract"}
IN_ORDER_FLAGS = {"contract"}  # for functions that the space's module lists in IN_ORDER
# Nothing in a loop allocates, so reference counting, which takes a seventh of a round, is switched off.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
# Options of a part, which Python never calls.
PART_OPTIONS: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True, "no_cpython_wrapper": True}

_GENERIC_RULE = tuple(getattr(generic, name) for name in generic.RULE_FUNCTIONS)
_GENERIC_SPACE = (
    *(generic.score, generic.write_hopes, generic.absorb),
    *(generic.needs_room, generic.extra_norm_change, generic.refresh_norm),
    *(kernel.squared_length, kernel.write_dots, kernel.write_stored_dots, kernel.is_stored_row, kernel.store_row),
)
GENERIC = (*_GENERIC_RULE, *_GENERIC_SPACE)  # dispatched on a type, so not followed when looking for what is used

_announced: set[Callable[..., Any]] = set()


def rule_functions(rule: Rule, loop: Callable[..., int]) -> list[Callable[..., Any]]:
    """Return the functions of a rule that a loop calls."""
    unused = ("teach",) if loop is stream else ("probabilities", "surety")
    return [meaning(rule) for name, meaning in generic.RULE_FUNCTIONS.items() if name not in unused]


def space_functions(space: type[Any]) -> list[Callable[..., Any]]:
    """Return the functions of a space that a loop calls."""
    functions = (generic.space_function(space, function.__name__) for function in _GENERIC_SPACE)
    return [function for function in functions if function is not None]


def announce(rule: Rule, space: type[Any], loop: Callable[..., int]) -> None:
    """Register every plain function that this pair reaches with Numba, and once the generic names."""
    from numba.extending import overload, register_jitable

    parts: dict[str, Any] = {"error_model": OPTIONS["error_model"]}
    beyond: tuple[Any, ...] = GENERIC
    if knows_numba():
        from onebit.engine import lane_code  # noqa: F401 -- registers lanes with Numba
        from onebit.engine.linking import PartCompiler

        parts, beyond = {**PART_OPTIONS, "pipeline_class": PartCompiler}, (*GENERIC, *OPERATIONS)
    if not _announced:
        for of_rule in _GENERIC_RULE:
            overload(of_rule, strict=False, jit_options=parts)(_rule_resolver(of_rule))
        for of_space in _GENERIC_SPACE:
            for sums in (ANY_ORDER_FLAGS, IN_ORDER_FLAGS):
                resolver = _space_resolver(of_space, in_order=sums is IN_ORDER_FLAGS)
                overload(of_space, strict=False, jit_options={**parts, "fastmath": sums})(resolver)
    for function in find_reachable([loop, *rule_functions(rule, loop), *space_functions(space)], beyond):
        if function not in _announced and function is not loop:
            _announced.add(function)
            register_jitable(**parts)(function)


def _space_resolver(function: Callable[..., Any], in_order: bool) -> Callable[..., Any]:
    """Return a resolver that maps a generic name to the space's function, if its sum order matches."""

    def resolve(*arguments: Any) -> Callable[..., Any] | None:
        space = getattr(arguments[0], "instance_class", None)
        if space is None or (function.__name__ in summed_in_order(space)) is not in_order:
            return None
        return generic.space_function(space, function.__name__)  # type: ignore[no-any-return]

    return resolve


def describe_sum_orders(space: type[Any]) -> tuple[object, ...]:
    """Return the order in which the sums of a space are taken, for a fingerprint."""
    return sorted(ANY_ORDER_FLAGS), sorted(IN_ORDER_FLAGS), summed_in_order(space)


def summed_in_order(space: type[Any]) -> tuple[str, ...]:
    """Return the names of a space's functions whose sums the compiler must not reorder."""
    return getattr(sys.modules[space.__module__], "IN_ORDER", ())


def _rule_resolver(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a resolver that maps a generic name to the rule's function."""

    def resolve(*arguments: Any) -> Callable[..., Any] | None:
        record = getattr(arguments[0], "instance_class", None)
        return None if record is None else generic.RULE_FUNCTIONS[function.__name__](rules_by_record[record])

    return resolve
