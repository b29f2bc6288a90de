"""Every rule compiles for a GPU, which needs none: to PTX, the code that a device's driver takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba.core.errors import NumbaError

from onebit.contract.rule import Rule
from onebit.engine.gpu import build, device
from onebit.engine.gpu.layout import Layout, Shape
from onebit.rules import rule_named
from tests.engine.gpu.walks import RULES, named

pytestmark = [pytest.mark.long, pytest.mark.skipif(not device.is_installed(), reason=device.missing_message())]

HOPPER = (9, 0)
CASES = [
    *((rule, rule.examples[0]) for rule in RULES),
    (rule_named("conservative-ova"), {"coding": "all-pairs"}),
    (rule_named("epsilon-greedy"), {"model": "logistic"}),
    (rule_named("confidit"), {"form": "published", "coin": True}),
]
SMALL = [Layout(1, "registers", 64), Layout(4, "registers", 64), Layout(32, "shared", 32), Layout(32, "memory", 32)]


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked which device there is: numba-cuda does ask, even where it is told what to compile for."""
    device.cuda()
    import numba.cuda.dispatcher

    asked = SimpleNamespace(compute_capability=HOPPER)
    monkeypatch.setattr(numba.cuda.dispatcher, "get_current_device", lambda: asked)


def shape_of(rule: Rule, options: Mapping[str, Any], classes: int, features: int, late: bool = False) -> Shape:
    params, memory = rule.settle(classes, options)
    return Shape.of(rule, params, len(memory), features, late)


def ptx(shape: Shape, layout: Layout) -> str:
    module = device.cuda()
    written = build.bind_names(shape, layout, module, build._device_function).plain(build.loop_for(shape))
    code, _ = module.compile_ptx(written, build.signature(shape), cc=HOPPER)
    return str(code)


@pytest.mark.parametrize("place", range(len(CASES)), ids=[named(case) for case in CASES])
def test_every_rule_compiles(place: int) -> None:
    code = ptx(shape_of(*CASES[place], 3, 5, late=place % 2 == 1), SMALL[place % len(SMALL)])
    assert ".target sm_90" in code
    assert ".visible .entry" in code
    assert ".extern .func" not in code, "all that it calls is in it"


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", ["banditron", "linucb"])
def test_weights_in_registers_are_registers(name: str, late: bool) -> None:
    """Nothing of a lane's is in the memory that a compiler takes for arrays it cannot keep in registers."""
    shape = shape_of(rule_named(name), {}, 10, 100, late)
    layout = Layout.of(shape)
    assert layout is not None
    assert layout.where == "registers"
    code = ptx(shape, layout)
    assert ".local" not in code
    assert code.count("fma.rn.f32") >= 2 * shape.lines * layout.width(shape), (
        "twice a round for each weight, in no loop"
    )


@pytest.mark.parametrize(("classes", "late"), [(20, False), (3, True), (40, False)])
def test_the_loop_for_sparse_rows_compiles(classes: int, late: bool) -> None:
    params, memory = rule_named("gaptron").settle(classes, {"rate": 0.1, "exploration": 0.1})
    shape = Shape.of(rule_named("gaptron"), params, len(memory), 70_000, late, sparse=True)
    layout = Layout.of(shape)
    assert layout is not None
    code = ptx(shape, layout)
    assert ".extern .func" not in code
    assert ".local" not in code


def test_weights_that_do_not_fit_are_seen() -> None:
    """What the test above looks for is there where an array cannot be registers."""
    assert ".local" in ptx(shape_of(rule_named("banditron"), {}, 10, 1000), Layout(1, "registers", 64))


def closed(size: float, moved: Any) -> Rule:
    """A rule whose functions close over a number and a function."""
    base = rule_named("banditron")

    def learn(params: Any, given: Any, choice: Any, revealed: Any, step: Any, at_least: float = 0.5) -> float:
        factor = base_learn(params, given, choice, revealed, step)
        step[choice.label] += moved(size, at_least)
        return factor

    base_learn = base.learn
    return replace(base, learn=learn)


def larger(one: float, other: float) -> float:
    return max(one, other)


def summed(one: float, other: float) -> float:
    pair = np.array([one, other])
    return float(np.dot(pair, pair))


@pytest.mark.usefixtures("rules_as_before")
def test_a_closure_compiles() -> None:
    code = ptx(shape_of(closed(0.25, larger), {}, 3, 5), SMALL[1])
    assert ".extern .func" not in code


@pytest.mark.usefixtures("rules_as_before")
def test_what_a_gpu_has_no_word_for_does_not_compile() -> None:
    """And the compiler's first words say what."""
    with pytest.raises(NumbaError) as error:
        ptx(shape_of(closed(0.25, summed), {}, 3, 5), SMALL[1])
    assert build._gist(error.value).startswith("No implementation of function")
