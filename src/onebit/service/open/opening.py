"""`onebit.open`: a task of a folder or of a shared database in this process, without HTTP."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from onebit.contract.installation import install_command
from onebit.errors import InputError, MissingExtraError, brief, nearest

try:
    import orjson as _orjson  # noqa: F401 - needed by all modules imported below
    import pydantic as _pydantic  # noqa: F401
except ImportError as _error:
    raise MissingExtraError(
        f"onebit.open needs {_error.name}, as the service does: {install_command('serve')}"
    ) from None

from onebit.contract.validation import ClassName, checked_classes, is_encodable
from onebit.service.core.task_changes import check_new, make_task_info
from onebit.service.errors import ConflictError
from onebit.service.open.arguments import validate
from onebit.service.open.folder import OpenFolder
from onebit.service.open.task import OpenTask
from onebit.service.replies import Mode, Silence
from onebit.service.requests import TASK_NAME, NewTask
from onebit.service.settings import Settings
from onebit.service.store.base import is_address, store_at
from onebit.service.store.errors import LogError
from onebit.service.store.reader import Reader
from onebit.service.task import TaskInfo

if TYPE_CHECKING:
    from onebit.service.open.node import OpenNode

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
Features = int | Literal["dict", "text"] | Mapping[str, Any]


def open(  # noqa: A001 -- a public name; the parameters are the settings of a task
    path: str | Path,
    task: str | None = None,
    *,
    classes: int | Iterable[ClassName] | None = None,
    features: Features | None = None,
    learner: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    exploration_floor: float | None = None,
    seed: int | None = None,
    mode: Mode | None = None,
    deadline_s: float | None = None,
    silence: Silence | None = None,
    revise_within: float | None = None,
    sure: float | None = None,
    risk: float | None = None,
    durable: Literal["always", "soon"] = "always",
) -> OpenTask:
    """Open a task of a folder in this process, or create it: the service without HTTP, on the same folder.

    The path may also be the address of a database, `postgresql://...`: then this process is one of its nodes.

    An existing task continues: give only the path, plus its name if there are several tasks; an option that contradicts it is
    refused. A new one needs `classes` and the form of x: `features` is the number of numbers in x, "dict" for names and numbers, "text", or a
    full description such as {"kind": "text", "hash_bits": 20}. It is named after its folder unless `task` is given.

    Side effects: the folder is created if missing, and locked until the last of its open tasks is closed, since it has one owner at a time,
    this process or `onebit serve`; a few threads are started; the learner may be compiled into the user's cache. With `durable="always"` a
    decision or a feedback is on disk before the call returns; threads that wait together share the work of the disk. With `"soon"` it is there
    within a tenth of a second, and a crash may lose the calls of that time. A database has any number of nodes, of which this process is one;
    there `"soon"` does not wait for its disk, and a crash of the database may lose the last second.

    >>> import onebit, tempfile
    >>> with onebit.open(tempfile.mkdtemp(), "tickets", classes=["mail", "web"], features="text", seed=1) as task:
    ...     decision = task.decide("the page is blank")
    ...     task.feedback(decision, right=True).status
    'accepted'
    """
    _refuse_unusable(path, parameters, durable)
    requested = {
        "classes": classes if classes is None or isinstance(classes, int) else list(checked_classes(classes)),
        "features": _describe_features(features),
        "learner": learner,
        "parameters": None if parameters is None else dict(parameters),
        "exploration_floor": exploration_floor,
        "seed": seed,
        "mode": mode,
        "deadline_s": deadline_s,
        "silence": silence,
        "revise_within": revise_within,
        "sure": sure,
        "risk": risk,
    }
    given = {name: value for name, value in requested.items() if value is not None}
    name = store_at(path).name
    is_soon = durable == "soon"
    try:
        with ExitStack() as undo:
            if is_address(str(path)):
                from onebit.service.open.node import OpenNode

                log: OpenFolder | OpenNode = OpenNode(Settings(data=Path(), log=str(path)), is_soon)
            else:
                settings = Settings(data=Path(path))
                if settings.data.is_file():
                    raise InputError(f"{name} is a file, but must be a folder, or the name of a new one")
                if not settings.data.exists():  # check the task before its folder is created
                    _refuse_incomplete(name, task, [], given)
                    new = make_task_info(_build_new_task(name, settings.data, task, given), 1, 0.0)
                    check_new(new, settings.max_task_memory)
                log = OpenFolder.acquire(settings, is_soon)
            undo.callback(log.leave)
            opened = _open_task(log, task, given)
            undo.pop_all()
    except LogError as error:
        raise InputError(f"{name} cannot be used: {error}") from None
    return opened


def _refuse_unusable(path: object, parameters: object, durable: object) -> None:
    """Raise InputError for a path or an option that is never valid."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or not name or not is_encodable(name) or "\0" in name:
        raise InputError(f"the path is {brief(name)}, but must be the path of a folder, or an address postgresql://...")
    if ADDRESS.match(name) and not is_address(name):
        raise InputError(f"the path is {brief(name)}, but PostgreSQL is the only supported database: postgresql://...")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InputError(f"parameters is {brief(parameters)}, but must be a dict of names and values")
    if durable not in ("always", "soon"):
        raise InputError(f"durable is {brief(durable)}, but must be 'always' or 'soon'")


def _open_task(log: OpenFolder | OpenNode, name: str | None, given: dict[str, Any]) -> OpenTask:
    """Open a task of a log that this process has opened; create it if it does not exist."""
    with log.opening, closing(log.store.reader()) as reader:
        info = _find_task(reader, log.where, name, given)
        while info is None:
            with suppress(ConflictError):  # another node has just created it
                log.create(_build_new_task(log.where, log.folder, name, given))
            info = _find_task(reader, log.where, name, given)
        _refuse_contradictions(info, given)
        return OpenTask(log, log.restore_task(info, reader))


def _describe_features(features: Features | None) -> dict[str, Any] | None:
    """Return the features of a task in the form of a request, or None if they are not given."""
    if features is None or isinstance(features, Mapping):
        return None if features is None else dict(features)
    return {"kind": features} if isinstance(features, str) else {"kind": "numbers", "size": features}


def _find_task(reader: Reader, where: str, name: str | None, given: dict[str, Any]) -> TaskInfo | None:
    """Return the requested task, or None if it does not exist and can be created.

    Raises InputError if the name is ambiguous, the task is quarantined, or options to create it are missing.
    """
    all_tasks, damaged = reader.tasks()
    tasks = [task for task in all_tasks if task.deleted is None]
    quarantined = [task for task in damaged if not task.deleted]
    if name is None and len(tasks) + len(quarantined) > 1:
        names = ", ".join(map(repr, [*(task.name for task in tasks), *(task.name for task in quarantined)]))
        raise InputError(f"{where} has several tasks, {names}: choose one with task=...")
    for damage in quarantined:
        if name in (None, damage.name):
            raise InputError(f"the task is quarantined: {damage.reason}")
    for task in tasks:
        if name in (None, task.name):
            return task
    _refuse_incomplete(where, name, tasks, given)
    return None


def _refuse_incomplete(where: str, name: str | None, tasks: Sequence[TaskInfo], given: Mapping[str, Any]) -> None:
    """Raise InputError if `classes` or `features` are missing to create a task."""
    if "classes" in given and "features" in given:
        return
    missing = "features (the number of them, 'text' or 'dict')" if "classes" in given else "classes"
    if name is None or not tasks:
        raise InputError(f"there is no task in {where} yet: give {missing} to create one")
    known = nearest(name, [task.name for task in tasks])
    raise InputError(f"there is no task {name!r} in {where}; {known}; or give {missing} to create it")


def _build_new_task(where: str, folder: Path | None, name: str | None, given: dict[str, Any]) -> NewTask:
    """Return the task to create, by default named after its folder."""
    if name is None:
        if folder is None:
            raise InputError(f"there is no task in {where} yet: give task=..., its name, to create one")
        name = folder.resolve().name
        if not re.fullmatch(TASK_NAME, name):
            raise InputError(
                f"the folder is called {name!r}, which cannot be the name of a task: give another name with task=..."
            )
    return validate(NewTask, {"name": name, **given})


def _refuse_contradictions(info: TaskInfo, given: dict[str, Any]) -> None:
    """Raise InputError if an option differs from the existing task."""
    known = {"name": info.name, "classes": info.classes, "features": info.features, "learner": info.learner}
    requested = make_task_info(validate(NewTask, {**known, **given}), info.number, info.created_at)
    for option, value in given.items():
        if getattr(requested, option) != getattr(info, option):
            raise InputError(
                f"task {info.name!r} has {option} {getattr(info, option)!r}, but {option} {value!r} was given: leave it out to "
                "open the task as it is; task.change changes the settings that can be changed"
            )
