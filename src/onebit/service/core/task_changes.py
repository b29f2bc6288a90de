"""Validation of requested tasks, changes and learners before they are logged. Nothing here waits."""

from __future__ import annotations

import secrets
from typing import Any

from onebit.contract.validation import ClassName
from onebit.errors import OnebitError
from onebit.learner.learner import Learner
from onebit.service.core.served_task import ServedTask
from onebit.service.errors import InvalidError
from onebit.service.requests import Change, NewLearner, NewTask
from onebit.service.task import (
    TaskInfo,
    blame_field,
    build_learner,
    check_learner,
    check_memory,
    check_sure_or_risk,
    class_texts,
    require_candidate_support,
    resolve_floor,
)
from onebit.version import VERSION


def make_task_info(new: NewTask, number: int, now: float) -> TaskInfo:
    """Return the requested task with its number. It does not check that a learner can be built."""
    check_sure_or_risk(new.sure, new.risk)
    if new.display is not None:
        pixels = new.display.width * new.display.height
        if new.features.kind != "numbers" or new.features.size != pixels:
            raise InvalidError(f"display needs features of {pixels} numbers, one per pixel", "display")
    detail = {
        **new.model_dump(),
        "classes": list(range(new.classes)) if isinstance(new.classes, int) else list(new.classes),
        "exploration_floor": resolve_floor(new.learner, new.exploration_floor),
        "seed": secrets.randbelow(2**53) if new.seed is None else new.seed,
    }
    return TaskInfo.created(0, number, now, detail)


def check_new(info: TaskInfo, most_memory: int) -> None:
    """Raise if no learner can be built for a new task, or if it needs too much memory."""
    with blame_field("parameters"):
        class_texts(info.classes)
        plain = check_learner(info.detail, info.classes, info.inputs)
        check_memory(plain, len(info.classes), info.inputs, most_memory, "features")


def check_switch(info: TaskInfo, new: NewLearner, most_memory: int) -> dict[str, Any]:
    """Return the detail of the change by which another learner takes over a task.

    Raise if no such learner can be built, or if it needs too much memory.
    """
    detail = {
        "generation": info.generation + 1,
        "learner": new.learner,
        "parameters": new.parameters,
        "seed": secrets.randbelow(2**53) if new.seed is None else new.seed,
        "version": VERSION,
    }
    with blame_field("learner"):
        detail["exploration_floor"] = resolve_floor(new.learner, new.exploration_floor)
        plain = check_learner(detail, info.classes, info.inputs)
        check_memory(plain, len(info.classes), info.inputs, most_memory, "learner")
        require_candidate_support(plain, info.retired, "learner")
    return detail


def requested_changes(change: Change) -> dict[str, Any]:
    """Return the fields that a change sets.

    Null and empty lists change nothing, except that a null deadline or bound removes it.
    """
    check_sure_or_risk(change.sure, change.risk)
    given = change.model_dump(exclude_unset=True)
    return {
        part: value
        for part, value in given.items()
        if value or part not in ("add_classes", "remove_classes", "mode", "silence")
    }


def check_change(served: ServedTask, change: Change, most_memory: int) -> None:
    """Raise if the task in its current state cannot take a change."""
    info, played = served.info, served.follower.replicas.resting
    if change.add_classes:
        wanted: list[ClassName] = [*info.classes, *change.add_classes]
        try:
            class_texts(wanted)
            check_memory(played, len(wanted), info.inputs, most_memory, "add_classes")
            build_learner(info.detail, wanted, info.inputs)
        except OnebitError as error:
            raise error if isinstance(error, MemoryError) else InvalidError(str(error), "add_classes") from None
    if change.remove_classes:
        info.refuse_retiring(change.add_classes, change.remove_classes)
        require_candidate_support(played, change.remove_classes, "remove_classes")


def require_fit(learner: Learner, detail: dict[str, Any], info: TaskInfo) -> None:
    """Raise if a trained learner cannot take over: classes may have been added or retired meanwhile."""
    build_learner(detail, info.classes, info.inputs)
    require_candidate_support(learner, info.retired, "learner")
