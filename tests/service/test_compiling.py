"""What a task of the service needs compiled: all of it is asked for at once, before it is used."""

from __future__ import annotations

import pickle
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


def needed(learner: str, inputs: Inputs) -> Loops:
    """The loops that are asked for ahead; nothing is compiled."""
    found = compiler.needed_loops(check_learner(detail(learner), CLASSES, inputs), inputs)
    assert {rule.name for rule, _, _ in found} == {learner}
    return {(form_of(space), loop.__name__) for _, space, loop in found}


@pytest.mark.parametrize("inputs", [Inputs("numbers", 4), Inputs("text", hash_bits=8)], ids=["numbers", "text"])
def test_all_that_a_task_needs_is_asked_for(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    used: Loops = set()

    def note(rule: Rule, space: Any, *loop: Any) -> Any:
        used.add((form_of(space), loop[0].__name__ if loop else "stream"))
        return loop_for(rule, space, *loop)

    for module in (model, loop_calls):
        monkeypatch.setattr(module, "loop_for", note)
    warm(build_learner(detail("banditron"), CLASSES, inputs), inputs)
    assert used
    assert needed("banditron", inputs) == used


def test_the_forms_of_auto_that_rows_may_move_to() -> None:
    loops = ("stream", "lessons")
    narrow = needed("auto", Inputs("numbers", 4))
    assert narrow == {("auto dense", loop) for loop in loops}
    wide = needed("auto", Inputs("numbers", LEAST_SPARSE))
    assert {form.split()[1] for form, _ in wide} == {"dense", "sparse"}
    assert len(wide) == 4


def test_each_loop_that_is_new_has_a_process_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, compiled = Inputs("numbers", LEAST_SPARSE), Loops()
    both = threading.Barrier(2)

    class Processes(CompilingProcesses):
        def call(self, function: Callable[..., Any], *arguments: Any, what: str) -> bool:
            both.wait(60)  # two at a time
            call, given = pickle.loads(pickle.dumps((function, arguments)))
            call(*given)
            return True

    def note(rule: Rule, space: Any, loop: Any) -> None:
        compiled.add((form_of(space), loop.__name__))

    monkeypatch.setattr(compiler, "CompilingProcesses", Processes)
    monkeypatch.setattr(compiler, "cores", lambda: 2)
    monkeypatch.setattr(compiler, "loop_for", note)
    monkeypatch.setattr(compiler, "is_compiled", lambda rule, space, loop: False)
    compiler.Compiler(apart=True).learner(detail("auto"), CLASSES, inputs)
    assert compiled == needed("auto", inputs)
    assert len(compiled) == 4


def test_no_process_is_started_for_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = Inputs("numbers", 4)
    compiler.Compiler(apart=False).learner(detail("banditron"), CLASSES, inputs)
    calls: list[object] = []
    monkeypatch.setattr(CompilingProcesses, "call", lambda *arguments, **_: calls.append(arguments))
    compiler.Compiler(apart=True).learner(detail("banditron"), CLASSES, inputs)
    assert calls == []
