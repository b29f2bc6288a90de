"""The calls to the service: how replies are read, and which requests may be sent twice.

- Queries change nothing. Decisions and feedback carry an id, and the service handles each id once. So these are sent
  again whatever happened to the first attempt.
- Creating or changing a task may have succeeded although no reply came. The second attempt is then refused, which is
  fine if the task is as requested by then. If the name is taken but the task does not exist yet, it is being
  compiled, and the client waits for it.
- Deleting a task and switching its learner are sent again only if they have certainly not been done: by the time of
  the second attempt, the name could belong to another task. The same holds for forgetting decisions, since the second
  reply would not say how many there were.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from http import HTTPStatus
from types import MethodType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar, overload

from onebit.client.bodies import encode_json, split_batches
from onebit.client.connection import AsyncConnection, BlockingConnection, Connection
from onebit.client.errors import ServiceError
from onebit.client.plan import COMPILING_S, LONGEST_WAIT_S, Reply, Request, Steps, build_error, send_repeatedly
from onebit.contract.validation import checked_count
from onebit.errors import InputError, brief
from onebit.service.replies import Readiness, Task

TASK = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")

P = ParamSpec("P")
T = TypeVar("T")


class operation(Generic[P, T]):  # noqa: N801 - a decorator
    """A decorator that turns a method written as steps into one that returns their result.

    On an asynchronous client it returns a coroutine of the result.
    """

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        @wraps(steps)
        def blocking(self: Caller[BlockingConnection], *args: P.args, **kwargs: P.kwargs) -> T:
            return self._connection.run(steps(self, *args, **kwargs))

        @wraps(steps)
        async def asynchronous(self: Caller[AsyncConnection], *args: P.args, **kwargs: P.kwargs) -> T:
            return await self._connection.run(steps(self, *args, **kwargs))

        signature = inspect.signature(steps)
        result = str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
        for function in (blocking, asynchronous):  # users see the type of the result, not of the steps
            function.__annotations__ = {**steps.__annotations__, "return": result}
            function.__signature__ = signature.replace(return_annotation=result)  # type: ignore[union-attr]
        self._blocking, self._asynchronous = blocking, asynchronous

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Caller[BlockingConnection], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Caller[AsyncConnection], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: Any, owner: type[Caller[Any]]) -> Any:
        function = self._asynchronous if owner._is_asynchronous else self._blocking
        return function if instance is None else MethodType(function, instance)


ConnectionT = TypeVar("ConnectionT", bound=Connection)


class Caller(Generic[ConnectionT]):
    """Base class of clients and task handles: their operations consist of these calls."""

    _is_asynchronous: ClassVar[bool] = False

    def __init__(self, connection: ConnectionT, attempts: int) -> None:
        self._connection = connection
        self._attempts = checked_count("attempts", attempts)

    def _call(
        self,
        method: str,
        path: str,
        read: Callable[[Any], T],
        body: dict[str, Any] | None = None,
        *,
        repeatable: bool = True,
        patience_s: float = 0.0,
    ) -> Steps[T]:
        """Send a request and read the reply; `repeatable` means that it may be carried out twice."""
        request = Request(method, path, None if body is None else encode_json(body), patience_s=patience_s)
        reply, _ = yield from send_repeatedly(request, self._attempts, repeatable=repeatable)
        return _read_reply(reply, read)

    def _post_many(
        self, path: str, items: Iterable[dict[str, Any]], read: Callable[[Any], T], *, argument: str
    ) -> Steps[list[T]]:
        """Send decision requests or feedback, in several requests if there are many.

        `argument` is the name of the user's list, for error messages.
        """
        values: list[T] = []
        for batch in split_batches(map(encode_json, items)):
            values += yield from self._post_batch(path, batch, read, argument, len(values))
        return values

    def _ready(self) -> Steps[Readiness]:
        """Return whether the service accepts requests; send once, since "not ready" is a valid answer."""
        outcome = yield Request("GET", "/readyz")
        if isinstance(outcome, Reply) and outcome.status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):
            try:
                return Readiness.read(outcome.json)
            except (ValueError, TypeError, KeyError):
                pass  # for instance the 503 of a proxy
        raise build_error(outcome)

    def _create(self, settings: dict[str, Any], *, exist_ok: bool) -> Steps[Task]:
        """Create a task.

        A task with these settings that already exists is accepted with `exist_ok`, or if an earlier attempt may have created it.
        """
        path = task_path(settings["name"])
        request, doubt = Request("POST", "/v1/tasks", encode_json(settings), patience_s=COMPILING_S), exist_ok
        for _ in range(self._attempts):
            reply, repeated = yield from send_repeatedly(request, self._attempts)
            doubt = doubt or repeated
            if reply.status != HTTPStatus.CONFLICT or not doubt:
                break
            current, _ = yield from send_repeatedly(Request("GET", path), self._attempts)
            if current.status != HTTPStatus.NOT_FOUND:
                task = _read_reply(current, Task.read)
                if has_settings(task, settings):
                    return task
                break
            request = replace(request, wait_s=LONGEST_WAIT_S)  # the task is being compiled
        return _read_reply(reply, Task.read)

    def _change(self, path: str, changes: dict[str, Any]) -> Steps[Task]:
        """Change a task.

        A refusal is accepted if an earlier attempt may have succeeded and the task has these settings.
        """
        request = Request("PATCH", path, encode_json(changes), patience_s=COMPILING_S)
        reply, doubt = yield from send_repeatedly(request, self._attempts)
        if doubt and not reply.good:
            task = yield from self._call("GET", path, Task.read)
            settings = dict(changes)
            added, removed = settings.pop("add_classes", ()), settings.pop("remove_classes", ())
            if {*added} <= {*task.classes} and {*removed} <= {*task.retired} and has_settings(task, settings):
                return task
        return _read_reply(reply, Task.read)

    def _post_batch(
        self, path: str, batch: list[bytes], read: Callable[[Any], T], argument: str, start: int
    ) -> Steps[list[T]]:
        """Send one request, or two halves if the service or a proxy finds it too large."""
        reply, _ = yield from send_repeatedly(Request("POST", path, b"[" + b",".join(batch) + b"]"), self._attempts)
        if reply.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and len(batch) > 1:
            half = len(batch) // 2
            first = yield from self._post_batch(path, batch[:half], read, argument, start)
            return first + (yield from self._post_batch(path, batch[half:], read, argument, start + half))
        try:
            return _read_reply(reply, lambda body: [read(item) for _, item in zip(batch, body, strict=True)])
        except ServiceError as error:
            if not start:
                raise
            message = f"in {argument}, counting from item {start}: {error}"  # the service counts within the batch
            raise ServiceError(message, status=error.status, code=error.code, field=error.field) from None


def task_path(task: str) -> str:
    """Return the path of a task; raise InputError if the name cannot be that of a task."""
    if not isinstance(task, str) or not TASK.fullmatch(task):
        raise InputError(
            f"{brief(task)} cannot be the name of a task: use 1 to 100 letters, digits, '.', '_' and '-', without a '.' at the start"
        )
    return f"/v1/tasks/{task}"


def has_settings(task: Task, settings: Mapping[str, Any]) -> bool:
    """Return True if a task has these settings, apart from its seed, which is never shown."""
    for name, setting in settings.items():
        if name == "seed":
            continue
        actual = getattr(task, name)
        expected = list(range(setting)) if name == "classes" and isinstance(setting, int) else setting
        if isinstance(expected, dict):  # missing entries have their defaults
            actual = {key: value for key, value in (actual or {}).items() if key in expected}
        if actual != expected:
            return False
    return True


def _read_reply(reply: Reply, read: Callable[[Any], T]) -> T:
    if not reply.good:
        raise build_error(reply)
    try:
        return read(reply.json)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ServiceError(
            "this client cannot read the reply: the service has another version, or is not a onebit service",
            status=reply.status,
            code="unexpected",
        ) from None
