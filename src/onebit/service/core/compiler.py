"""Compilation of learners in a separate process, since Numba would block this one for seconds.

The other process builds the described learner, which leaves its machine code in the cache; this process then loads it from there. Several loops are
compiled in parallel, by further processes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from typing import Any

from onebit.contract.validation import ClassName
from onebit.engine.compile import helped_by, loop_for
from onebit.engine.processes import CompilingProcesses, cores
from onebit.engine.stream import lessons, stream
from onebit.learner.learner import Learner
from onebit.rules import add_rule
from onebit.service.errors import UnavailableError
from onebit.service.inputs import Inputs
from onebit.service.task import build_learner, check_learner, warm

LOG = logging.getLogger("onebit.service")


class Compiler:
    """Builds learners that are ready to decide and learn. Call it off the event loop."""

    def __init__(self, apart: bool, rules: Sequence[str] = ()) -> None:
        self._apart, self._rules = apart, list(rules)
        self._known: set[str] = set()
        self._processes = CompilingProcesses()

    def learner(self, detail: dict[str, Any], classes: list[ClassName], inputs: Inputs) -> Learner:
        """Return a new learner with everything it needs compiled, in another process if it may not be cached."""
        features = asdict(inputs)
        kind = json.dumps([detail["learner"], detail["parameters"], len(classes), features])
        if self._apart and kind not in self._known:
            said = {"event": "compiling", "learner": detail["learner"]}
            LOG.info(f"compiling {detail['learner']}, if it is new to this machine", extra=said)
            told = self._rules, detail, classes, features
            # If the other process fails, this one compiles.
            if not self._processes.call(compile_task, *told, what=detail["learner"]) and self._processes.is_closed:
                raise UnavailableError("the service is ending")
            self._known.add(kind)
        learner = build_learner(detail, classes, inputs)
        warm(learner, inputs)
        return learner

    def stop(self) -> None:
        """End all compiling processes and start no more. Callers that wait for one get UnavailableError."""
        self._processes.close()


def compile_task(rules: list[str], detail: dict[str, Any], classes: list[ClassName], features: dict[str, Any]) -> None:
    """Compile everything a task needs; runs in the compiling process. `rules` are users' rule files."""
    for rule in rules:
        add_rule(rule)
    inputs = Inputs(**features)
    _compile_side_by_side(check_learner(detail, classes, inputs), inputs)
    Compiler(apart=False).learner(detail, classes, inputs)


def _compile_side_by_side(learner: Learner, inputs: Inputs) -> None:
    """Compile in parallel the loops a task may need, for dense and sparse rows.

    These are the loops for deciding and learning, and for corrections.
    """
    runtime = learner.runtime
    loops = [stream, lessons] if runtime.learns_truths else [stream]
    blueprints = runtime.model.blueprints(len(learner.classes), inputs.columns, inputs.kind == "numbers")
    wanted = [(one.make(), loop) for one in blueprints for loop in loops]
    count = min(cores(), len(wanted))

    def compile_one(one: tuple[Any, Any]) -> None:
        with helped_by(others):
            loop_for(runtime.rule, *one)

    # The helper processes share this one's session, so they are ended together with it.
    with (
        closing(CompilingProcesses(own_session=False)) as others,
        ThreadPoolExecutor(count) as pool,
    ):
        list(pool.map(compile_one, wanted))
