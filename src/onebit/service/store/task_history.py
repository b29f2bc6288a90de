"""Tasks reconstructed from the changes in the log, and those whose changes are damaged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import TypeAdapter

from onebit.errors import OnebitError
from onebit.service.requests import TaskName
from onebit.service.store.rows import BadRecordError, ChangeRow, find_faults, parse_detail
from onebit.service.task import TaskInfo, class_texts, read_detail

_NAME: TypeAdapter[str] = TypeAdapter(TaskName)


class DamagedTask(NamedTuple):
    """A task whose changes cannot be read."""

    number: int
    name: str | None
    reason: str
    deleted: bool


def fold_changes(changes: Iterable[ChangeRow]) -> tuple[list[TaskInfo], list[DamagedTask]]:
    """Return all tasks with their changes applied, in order of creation, and the damaged tasks separately.

    Deleted tasks are included.
    """
    tasks: dict[int, TaskInfo] = {}
    damaged: dict[int, DamagedTask] = {}
    for change in changes:
        task, is_deletion = change.task, change.kind == "deleted"
        if task in damaged:
            damaged[task] = damaged[task]._replace(deleted=damaged[task].deleted or is_deletion)
            continue
        try:
            apply_change(tasks, change)
        except (ValueError, OnebitError) as error:
            known = tasks.pop(task, None)
            name = _read_name(change.detail) if known is None else known.name
            reason = str(BadRecordError(name or f"number {task}", "changes", change.seq, str(error)))
            deleted = is_deletion or (known is not None and known.deleted is not None)
            damaged[task] = DamagedTask(task, name, reason, deleted)
    return list(tasks.values()), list(damaged.values())


def _read_name(stored: str) -> str | None:
    """Return the task name from the damaged detail of its creation, or None."""
    try:
        name = parse_detail(stored).get("name")
        return _NAME.validate_python(name, strict=True)
    except ValueError:
        return None


def apply_change(tasks: dict[int, TaskInfo], change: ChangeRow) -> None:
    """Apply the next change of a task to `tasks`; raise ValueError or OnebitError if it is invalid."""
    kind, task = change.kind, change.task
    for _, fault in find_faults([change]):
        raise ValueError(fault)
    detail = read_detail(kind, change.detail)
    known = tasks.get(task)
    if (known is None) != (kind == "created"):
        raise ValueError(f"kind is {kind}, but the task {'was not created' if known is None else 'already exists'}")
    if known is None:
        class_texts(detail["classes"])
        tasks[task] = TaskInfo.created(change.seq, task, change.time, detail)
        return
    if kind == "learner" and detail["generation"] != known.generation + 1:
        raise ValueError(f"detail.generation is {detail['generation']}, but must be {known.generation + 1}")
    if detail.get("add_classes"):
        class_texts([*known.classes, *detail["add_classes"]])
    if detail.get("remove_classes"):
        known.refuse_retiring(detail.get("add_classes", []), detail["remove_classes"])
    known.apply(change.seq, change.time, kind, detail)
