"""The evaluation of a learner on a log in a file, as it is sent to a worker of a cluster; all machines must see the file."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import InputError
from onebit.executors.cluster.worker import received_rule
from onebit.offpolicy import Evaluation, evaluate, read_log
from onebit.offpolicy.logs import learner_for


class EvaluationSpec(NamedTuple):
    """A learner, the rule by name or as code, and the log: its whole path, and how it is read."""

    rule: str | bytes
    code: str
    options: dict[str, Any]
    seed: int
    path: str
    reading: dict[str, Any]


class StoppedError(Exception):
    """Nobody waits for the rest."""


def evaluated(spec: EvaluationSpec, stopped: Callable[[], bool]) -> Evaluation:
    """What a worker finds."""
    rule = received_rule(spec.rule, spec.code)
    if not Path(spec.path).is_file():
        raise InputError(
            f"there is no file {spec.path} on {platform.node()}: logs are not sent, so put it into a folder that all machines share"
        )

    def progress(count: int) -> None:
        if stopped():
            raise StoppedError

    log = read_log(spec.path, **spec.reading)
    learner = learner_for(log, rule, spec.options, spec.seed)
    return evaluate(learner, log, seed=spec.seed, unanswered=log.unanswered, progress=progress)
