"""Compilation of learners in other processes, since Numba would block this one for seconds.

Each of them compiles one loop and leaves its machine code in the cache, from which this process loads it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from onebit.contract.rule import Rule
from onebit.contract.validation import ClassName
from onebit.engine.compile import is_compiled, loop_for
from onebit.engine.processes import CompilingProcesses, cores
from onebit.engine.stream import lessons, stream
from onebit.learner.learner import Learner
from onebit.rules import add_rule
from onebit.service.errors import UnavailableError
from onebit.service.inputs import Inputs
from onebit.service.task import build_learner, check_learner, warm

LOG = logging.getLogger("onebit.service")


class Compiler:
    """Builder of compiled learners, ready to decide and learn. Call it off the event loop."""

    def __init__(self, apart: bool, rules: Sequence[str] = ()) -> None:
        self._apart, self._rules = apart, list(rules)
        self._processes = CompilingProcesses()

    def learner(self, detail: dict[str, Any], classes: list[ClassName], inputs: Inputs) -> Learner:
        """Return a new learner with everything it needs compiled."""
        if self._apart:
            self._compile_apart(detail, classes, inputs)
        learner = build_learner(detail, classes, inputs)
        warm(learner, inputs)
        return learner

    def _compile_apart(self, detail: dict[str, Any], classes: list[ClassName], inputs: Inputs) -> None:
        """Compile the loops that are new to this machine, each in its own process; `warm` compiles what failed."""
        loops = needed_loops(check_learner(detail, classes, inputs), inputs)
        missing = [index for index, loop in enumerate(loops) if not is_compiled(*loop)]
        if not missing:
            return
        name = detail["learner"]
        LOG.info(f"compiling {name}, which is new to this machine", extra={"event": "compiling", "learner": name})
        task = self._rules, detail, classes, asdict(inputs)
        with ThreadPoolExecutor(min(cores(), len(missing))) as pool:
            succeeded = pool.map(lambda index: self._processes.call(compile_loop, *task, index, what=name), missing)
        if not all(succeeded) and self._processes.is_closed:
            raise UnavailableError("the service is ending")

    def stop(self) -> None:
        """End all compiling processes and start no more. Callers that wait for one get UnavailableError."""
        self._processes.close()


def compile_loop(
    rules: list[str], detail: dict[str, Any], classes: list[ClassName], features: dict[str, Any], index: int
) -> None:
    """Compile one of the loops a task needs; runs in a compiling process. `rules` are users' rule files."""
    for rule in rules:
        add_rule(rule)
    inputs = Inputs(**features)
    loop_for(*needed_loops(check_learner(detail, classes, inputs), inputs)[index])


def needed_loops(learner: Learner, inputs: Inputs) -> list[tuple[Rule, Any, Any]]:
    """Return what `loop_for` takes for each loop a task may need, for dense and sparse rows.

    These are the loops for deciding and learning, and for corrections.
    """
    runtime = learner.runtime
    loops = [stream, lessons] if runtime.learns_truths else [stream]
    blueprints = runtime.model.blueprints(len(learner.classes), inputs.columns, inputs.kind == "numbers")
    return [(runtime.rule, blueprint.make(), loop) for blueprint in blueprints for loop in loops]
