"""What Numba is told of the functions of a loop: whose function a generic name means, and how each is compiled.

`engine.generic` has the names. Numba is imported where something is to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from onebit.contract import calibration
from onebit.contract.belief import surety_of
from onebit.contract.rule import Rule
from onebit.engine import generic
from onebit.engine.code_cache import folder_for
from onebit.engine.fingerprint import fingerprint, knows_numba, reach, toolchain
from onebit.engine.lanes import OPERATIONS
from onebit.engine.stream import stream
from onebit.spaces import kernel

# Reductions may be summed in any order and use fused multiply-add; anything more would delete the tests for NaN.
FAST = {"reassoc", "contract"}
IN_ORDER = {"contract"}  # for the functions of a space whose module names them in IN_ORDER
# Nothing in a loop allocates, so counting references, which takes a seventh of a round, is switched off.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
# What a part says of itself: Python never calls it.
PART_OPTIONS: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True, "no_cpython_wrapper": True}

_NARROWING = (generic.narrowed, generic.gather, generic.scatter)
_GENERIC_RULE = (
    *(generic.decide, generic.learn, generic.probabilities, generic.teach, generic.follow, generic.surety),
    *_NARROWING,
)
_GENERIC_SPACE = (
    *(generic.score, generic.hope, generic.absorb, generic.forget),
    *(generic.needs_room, generic.moved, generic.refreshed_norm),
    *(kernel.squared_length, kernel.dots, kernel.dots_among, kernel.same, kernel.store),
)
GENERIC = (*_GENERIC_RULE, *_GENERIC_SPACE)  # dispatched on a type, so never looked into

# Compiled once for all rules and called: they would be a third of what there is to compile for a rule.
_SHARED = (calibration.confidence, calibration.threshold, calibration.count_answer)

_announced: set[Callable[..., Any]] = set()


def rule_functions(rule: Rule, loop: Callable[..., int]) -> list[Callable[..., Any]]:
    """The functions of a rule that a loop calls."""
    own = [rule.probabilities, surety_of(rule)] if loop is stream else [generic.taught_by(rule)]
    return [rule.decide, rule.learn, generic.followed_by(rule), *own, *rule.narrowed_by]


def space_functions(space: type[Any]) -> list[Callable[..., Any]]:
    """The functions of a space, and of the spaces that it is made of."""
    module = generic.SPACES[space]
    names = [function.__name__ for function in _GENERIC_SPACE]
    found = [getattr(module, name) for name in names if hasattr(module, name)]
    found.append(generic.hoped_by(space))
    return found + [function for part in getattr(module, "PARTS", ()) for function in space_functions(part)]


def folder_of(function: Callable[..., Any]) -> Path | None:
    """The folder of a function that is the same for all rules and spaces."""
    return folder_for(fingerprint([function], (), *toolchain()), function.__name__)


def announce(rule: Rule, space: type[Any], loop: Callable[..., int]) -> None:
    """Tell Numba about every plain function that this pair reaches, and once about the generic names."""
    from numba.extending import overload, register_jitable

    parts: dict[str, Any] = {"error_model": OPTIONS["error_model"]}
    beyond: tuple[Any, ...] = GENERIC
    if knows_numba():
        from onebit.engine import lane_code  # noqa: F401 -- which tells Numba of lanes
        from onebit.engine.linking import PartCompiler

        parts, beyond = {**PART_OPTIONS, "pipeline_class": PartCompiler}, (*GENERIC, *_SHARED, *OPERATIONS)
    if not _announced:
        for of_rule in _GENERIC_RULE:
            overload(of_rule, strict=False, jit_options=parts)(_rule_resolver(of_rule))
        for of_space in _GENERIC_SPACE:
            for sums in (FAST, IN_ORDER):
                resolver = _space_resolver(of_space, in_order=sums is IN_ORDER)
                overload(of_space, strict=False, jit_options={**parts, "fastmath": sums})(resolver)
        if knows_numba():
            for shared in _SHARED:
                overload(shared, strict=False, jit_options=parts)(_caller(shared))
    for function in reach([loop, *rule_functions(rule, loop), *space_functions(space)], beyond):
        if function not in _announced and function is not loop:
            _announced.add(function)
            register_jitable(**parts)(function)


def _caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """What Numba asks when it meets a shared function: one that calls its machine code, which is kept in a folder of its own."""
    from numba.extending import register_jitable

    from onebit.engine import plain
    from onebit.engine.linking import PartCompiler, WholeCompiler

    for used in reach([function]):
        if used is not function and used not in _announced:
            _announced.add(used)
            register_jitable(pipeline_class=PartCompiler, **PART_OPTIONS)(used)
    compiled = plain.kept(
        function, folder_of(function), pipeline_class=WholeCompiler, no_cpython_wrapper=True, **OPTIONS
    )

    def of_two(state: Any, number: Any) -> Any:
        return compiled(state, number)

    def of_five(state: Any, raw: Any, confidence: Any, threshold: Any, reward: Any) -> Any:
        return compiled(state, raw, confidence, threshold, reward)

    return lambda *arguments: of_two if len(arguments) == 2 else of_five


def _space_resolver(function: Callable[..., Any], in_order: bool) -> Callable[..., Any]:
    """What Numba asks when it meets a generic name: the type of the space says whose function it is, if its sums are taken so."""

    def resolve(*arguments: Any) -> Callable[..., Any] | None:
        space = getattr(arguments[0], "instance_class", None)
        if space is None or _in_order(space, function.__name__) is not in_order:
            return None
        if function is generic.hope:
            return generic.hoped_by(space)
        return getattr(generic.SPACES[space], function.__name__)  # type: ignore[no-any-return]

    return resolve


def _in_order(space: type[Any], name: str) -> bool:
    """Whether the sums of a function of a space are taken in the order in which they are written, and not in any."""
    return name in getattr(generic.SPACES[space], "IN_ORDER", ())


def orders(space: type[Any]) -> tuple[object, ...]:
    """In which order the sums of a space are taken, for a fingerprint."""
    return sorted(FAST), sorted(IN_ORDER), getattr(generic.SPACES[space], "IN_ORDER", ())


def _rule_resolver(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a name whose function is the rule's."""

    def resolve(*arguments: Any) -> Callable[..., Any] | None:
        record = getattr(arguments[0], "instance_class", None)
        if record is None:
            return None
        rule = generic.rule_of(record)
        if function is generic.follow:
            return generic.followed_by(rule)
        if function is generic.surety:
            return surety_of(rule)
        if function in _NARROWING:
            return rule.narrowed_by[_NARROWING.index(function)]
        return generic.taught_by(rule) if function is generic.teach else getattr(rule, function.__name__)

    return resolve
