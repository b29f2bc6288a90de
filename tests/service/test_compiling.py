"""What a task of the service needs compiled: all of it is asked for at once, before it is used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from onebit.contract.rule import Rule
from onebit.engine.compile import form_of, loop_for
from onebit.engine.processes import CompilingProcesses
from onebit.learner import loop_calls, model
from onebit.service.core import compiler
from onebit.service.inputs import Inputs
from onebit.service.task import build_learner, check_learner, warm
from onebit.spaces.choose import LEAST_SPARSE

CLASSES: list[Any] = ["a", "b", "c"]
Loops = set[tuple[str, str]]


def detail(learner: str) -> dict[str, Any]:
    return {"learner": learner, "parameters": {}, "exploration_floor": 0.01, "seed": 1}


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Inputs], Loops]:
    """Which loops are asked for ahead, in which threads; nothing is compiled."""

    def asked(learner: str, inputs: Inputs) -> Loops:
        found: Loops = set()
        both = threading.Barrier(2)

        def note(rule: Rule, space: Any, loop: Any) -> None:
            both.wait(60)  # two at a time
            assert rule.name == learner
            found.add((form_of(space), loop.__name__))

        monkeypatch.setattr(compiler, "cores", lambda: 2)
        monkeypatch.setattr(compiler, "loop_for", note)
        compiler._compile_side_by_side(check_learner(detail(learner), CLASSES, inputs), inputs)
        return found

    return asked


@pytest.mark.parametrize("inputs", [Inputs("numbers", 4), Inputs("text", hash_bits=8)], ids=["numbers", "text"])
def test_all_that_a_task_needs_is_asked_for_side_by_side(
    inputs: Inputs, asked_for: Callable[[str, Inputs], Loops], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed: Loops = set()

    def note(rule: Rule, space: Any, *loop: Any) -> Any:
        needed.add((form_of(space), loop[0].__name__ if loop else "stream"))
        return loop_for(rule, space, *loop)

    for module in (model, loop_calls):
        monkeypatch.setattr(module, "loop_for", note)
    warm(build_learner(detail("banditron"), CLASSES, inputs), inputs)
    assert needed
    assert asked_for("banditron", inputs) == needed


def test_the_forms_of_auto_that_rows_may_move_to(asked_for: Callable[[str, Inputs], Loops]) -> None:
    loops = ("stream", "lessons")
    narrow = asked_for("auto", Inputs("numbers", 4))
    assert narrow == {("auto dense", loop) for loop in loops}
    wide = asked_for("auto", Inputs("numbers", LEAST_SPARSE))
    assert {form.split()[1] for form, _ in wide} == {"dense", "sparse"}
    assert len(wide) == 4


def test_a_process_compiles_with_others_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within its session: whoever ends it ends them."""
    made = list[bool]()

    class Others(CompilingProcesses):
        def __init__(self, *, own_session: bool) -> None:
            super().__init__(own_session=own_session)
            made.append(own_session)

    monkeypatch.setattr(compiler, "CompilingProcesses", Others)
    monkeypatch.setattr(compiler, "cores", lambda: 16)
    monkeypatch.setattr(compiler, "loop_for", lambda *given: None)
    inputs = Inputs("numbers", 4)
    compiler._compile_side_by_side(check_learner(detail("banditron"), CLASSES, inputs), inputs)
    assert made == [False]
