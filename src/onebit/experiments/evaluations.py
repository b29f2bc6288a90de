"""Many learners on one log in a file: in one walk through it here, or one learner a task on a cluster."""

from __future__ import annotations

import platform
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from onebit.contract.rule import Rule
from onebit.errors import InputError
from onebit.executors import CLUSTERS, checked_on, executor_of
from onebit.offpolicy import Evaluation, Log, evaluate, evaluate_many, read_log
from onebit.offpolicy.logs import learner_for
from onebit.offpolicy.training import Progress
from onebit.rules import rule_named


def evaluate_log(
    path: str | Path,
    learners: Sequence[tuple[str | Rule, dict[str, Any]]],
    *,
    on: str = "auto",
    seed: int = 0,
    began: Progress | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> list[Evaluation]:
    """What each of these learners, a name or a rule with its options, would have scored on the log in a file.

    `reading` are the keywords of `read_log`. `on` names a cluster of Dask or Ray; all of its machines must see the file. Without one, all
    learners go through the log at once in this thread. `began` is told how many rounds there are to do, and `progress` of those that are done.
    """
    kind, _ = checked_on(on)
    if kind == "gpu":
        raise InputError("evaluations do not run on a GPU: leave --on out, or name a cluster of Dask or Ray")
    log = read_log(path, **reading)
    rules = [(rule_named(rule) if isinstance(rule, str) else rule, options) for rule, options in learners]
    made = [learner_for(log, rule, options, seed) for rule, options in rules]  # what is bad is found here
    if kind in CLUSTERS:
        if began is not None:
            began(len(log) * len(made))
        return _on_cluster(Path(path).resolve(), log, rules, on, seed, progress, reading)
    if began is not None:
        began(len(log))
    return evaluate_many(made, log, seed=seed, unanswered=log.unanswered, progress=progress)


def _on_cluster(
    path: Path,
    log: Log,
    rules: list[tuple[Rule, dict[str, Any]]],
    on: str,
    seed: int,
    progress: Progress | None,
    reading: dict[str, Any],
) -> list[Evaluation]:
    with closing(executor_of(on)) as executor:  # which says what to install where it cannot be had
        from onebit.executors.cluster.executor import ClusterExecutor, ClusterTask

        assert isinstance(executor, ClusterExecutor)
        found: dict[int, Evaluation] = {}
        tasks = [
            ClusterTask(f"{rule.name} on {path}", evaluate_on_worker, (number, rule, options, seed, str(path), reading))
            for number, (rule, options) in enumerate(rules)
        ]
        with closing(executor.map(tasks)) as results:
            for _, (number, evaluation) in results:
                found[number] = evaluation
                if progress is not None:
                    progress(len(log))
        return [found[number] for number in range(len(tasks))]


def evaluate_on_worker(
    number: int,
    rule: Rule,
    options: dict[str, Any],
    seed: int,
    path: str,
    reading: dict[str, Any],
    opened: None,
    stop: threading.Event,
) -> tuple[int, Evaluation]:
    """Evaluate a learner on a worker of a cluster, which must see the file; return the result with its number."""
    if not Path(path).is_file():
        where = "logs are not sent, so put it into a folder that all machines share"
        raise InputError(f"there is no file {path} on {platform.node()}: {where}")

    def stop_early(count: int) -> None:
        if stop.is_set():
            raise InputError("the evaluation was stopped")

    log = read_log(path, **reading)
    learner = learner_for(log, rule, options, seed)
    return number, evaluate(learner, log, seed=seed, unanswered=log.unanswered, progress=stop_early)
