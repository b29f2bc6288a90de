"""The calls to the service: how a reply is read, and whether a request may be sent twice.

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

from onebit.client.bodies import batches, encode
from onebit.client.connection import AsyncConnection, BlockingConnection, Connection
from onebit.client.errors import ServiceError
from onebit.client.plan import COMPILING_S, LONGEST_WAIT_S, Reply, Send, Steps, attempted, refusal
from onebit.contract.validation import checked_count
from onebit.errors import InputError, brief
from onebit.service.replies import LoggedDecision, QuarantinedTask, Readiness, Task

TASK = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")

P = ParamSpec("P")
T = TypeVar("T")


class operation(Generic[P, T]):  # noqa: N801 - a decorator
    """A decorator: a method written as steps becomes one that returns their result.

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
    """A base class of objects with operations, which are made of these calls and run on its connection."""

    _is_asynchronous: ClassVar[bool] = False

    def __init__(self, connection: ConnectionT, attempts: int) -> None:
        self._connection = connection
        self._attempts = checked_count("attempts", attempts)

    def _look(self, path: str, read: Callable[[Any], T]) -> Steps[T]:
        """Send a query, which changes nothing."""
        reply, _ = yield from attempted(Send("GET", path), self._attempts)
        return _value(reply, read)

    def _post(self, path: str, body: dict[str, Any], read: Callable[[Any], T]) -> Steps[T]:
        """Send a decision request or feedback, which is safe to repeat because it has an id."""
        reply, _ = yield from attempted(Send("POST", path, encode(body)), self._attempts)
        return _value(reply, read)

    def _post_many(
        self, path: str, items: Iterable[dict[str, Any]], read: Callable[[Any], T], *, rows_of: str
    ) -> Steps[list[T]]:
        """Send decision requests or feedback, in several requests if there are many.

        `rows_of` names the rows in error messages.
        """
        done: list[T] = []
        for batch in batches(map(encode, items)):
            done += yield from self._batch(path, batch, read, rows_of, len(done))
        return done

    def _order(self, method: str, path: str, body: dict[str, Any] | None, read: Callable[[Any], T]) -> Steps[T]:
        """Send what must not be done twice.

        It may take as long as compiling a learner or rewriting the log.
        """
        content, patience_s = (None, 0.0) if body is None else (encode(body), COMPILING_S)
        send = Send(method, path, content, patience_s=patience_s)
        reply, _ = yield from attempted(send, self._attempts, repeatable=False)
        return _value(reply, read)

    def _ready(self) -> Steps[Readiness]:
        """Ask once whether the service accepts requests; "not ready" is a valid answer."""
        outcome = yield Send("GET", "/readyz")
        if isinstance(outcome, Reply) and outcome.status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):
            try:
                return Readiness.read(outcome.json)
            except (ValueError, TypeError, KeyError):
                pass  # for instance the 503 of a proxy
        raise refusal(outcome)

    def _create(self, wanted: dict[str, Any], *, exist_ok: bool) -> Steps[Task]:
        """Create a task.

        An existing task with the wanted settings is accepted with `exist_ok`, or if an earlier attempt may have created it.
        """
        path = task_path(wanted["name"])
        send, doubt = Send("POST", "/v1/tasks", encode(wanted), patience_s=COMPILING_S), exist_ok
        for _ in range(self._attempts):
            reply, repeated = yield from attempted(send, self._attempts)
            doubt = doubt or repeated
            if reply.status != HTTPStatus.CONFLICT or not doubt:
                break
            look, _ = yield from attempted(Send("GET", path), self._attempts)
            if look.status != HTTPStatus.NOT_FOUND:
                there = _value(look, Task.read)
                if is_as_wanted(there, wanted):
                    return there
                break
            send = replace(send, wait_s=LONGEST_WAIT_S)  # the task is being compiled
        return _value(reply, Task.read)

    def _change(self, path: str, wanted: dict[str, Any]) -> Steps[Task]:
        """Change a task.

        A refusal is accepted if an earlier attempt may have succeeded and the task is as wanted.
        """
        reply, doubt = yield from attempted(Send("PATCH", path, encode(wanted), patience_s=COMPILING_S), self._attempts)
        if doubt and not reply.good:
            there = yield from self._look(path, Task.read)
            named = {name: value for name, value in wanted.items() if name not in ("add_classes", "remove_classes")}
            added, gone = (set(wanted.get(name, ())) for name in ("add_classes", "remove_classes"))
            if added <= set(there.classes) and gone <= set(there.retired) and is_as_wanted(there, named):
                return there
        return _value(reply, Task.read)

    def _batch(
        self, path: str, batch: list[bytes], read: Callable[[Any], T], rows_of: str, before: int
    ) -> Steps[list[T]]:
        """Send one request, or two halves if the service or a proxy finds it too large."""
        reply, _ = yield from attempted(Send("POST", path, b"[" + b",".join(batch) + b"]"), self._attempts)
        if reply.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and len(batch) > 1:
            half = len(batch) // 2
            first = yield from self._batch(path, batch[:half], read, rows_of, before)
            return first + (yield from self._batch(path, batch[half:], read, rows_of, before + half))
        try:
            return _value(reply, lambda body: [read(item) for _, item in zip(batch, body, strict=True)])
        except ServiceError as error:
            if not before:
                raise
            message = f"of {rows_of}, counted from {before} on: {error}"  # the service counts within the batch
            raise ServiceError(message, status=error.status, code=error.code, field=error.field) from None


def task_path(task: str) -> str:
    """Return the path of a task; raise InputError if the name cannot be that of a task."""
    if not isinstance(task, str) or not TASK.fullmatch(task):
        raise InputError(
            f"{brief(task)} cannot be the name of a task: these are 1 to 100 letters, digits, '.', '_' and '-'"
        )
    return f"/v1/tasks/{task}"


def is_as_wanted(there: Task, wanted: Mapping[str, Any]) -> bool:
    """Return True if a task has the wanted settings, apart from its seed, which is never shown."""
    for name, setting in wanted.items():
        if name == "seed":
            continue
        actual = getattr(there, name)
        expected = list(range(setting)) if name == "classes" and isinstance(setting, int) else setting
        if isinstance(expected, dict):  # missing entries have their defaults
            actual = {key: value for key, value in (actual or {}).items() if key in expected}
        if actual != expected:
            return False
    return True


def read_tasks(body: Any) -> list[Task]:
    """Read a list of tasks."""
    return [Task.read(task) for task in body["tasks"]]


def read_deleted(body: Any) -> Task | QuarantinedTask:
    """Read the reply for a deleted task; of a quarantined task only the name and the reason are known."""
    return QuarantinedTask.read(body) if "classes" not in body else Task.read(body)


def read_decisions(body: Any) -> list[LoggedDecision]:
    """Read a page of the log."""
    return [LoggedDecision.read(row) for row in body["decisions"]]


def _value(reply: Reply, read: Callable[[Any], T]) -> T:
    if not reply.good:
        raise refusal(reply)
    try:
        return read(reply.json)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ServiceError(
            "the reply is not what this client knows: is the service of another version, or is this another service?",
            status=reply.status,
            code="unexpected",
        ) from None
