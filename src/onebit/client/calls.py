"""What can be asked of the service: which request it is, how its reply is read, and whether it may be sent twice.

- Looking changes nothing. A decision and a feedback carry an id, and the service does each id once. So these are sent
  again whatever happened to the first.
- Creating and changing a task may have been done although no reply came. The second attempt is then refused; that is
  fine where the task is by then as it was asked to be. A name that is taken by a task that is not there yet is that
  of one being compiled: it is waited for.
- Deleting a task and switching its learner are sent again only where they have certainly not been done: by the time of
  a second one, the name could be another task's. So is forgetting, whose second reply would not say how many there were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from onebit.client.failures import ServiceError
from onebit.client.items import Said, among_of, answer_of, asks_of, hint_of, hints_of, identity, terms_of
from onebit.client.plan import COMPILING_S, LONGEST_WAIT_S, Reply, Send, Steps, attempted, refusal
from onebit.client.rows import batches, each, encoded, new_id, plain, truth
from onebit.client.values import (
    Decided,
    Explained,
    Forgot,
    Heard,
    LoggedDecision,
    Readiness,
    Stats,
    Task,
    TaskAside,
    Version,
)
from onebit.errors import InputError, brief
from onebit.validation import ClassName, checked_count

TASK = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")

KEEP: Literal["keep"] = "keep"  # where None has a meaning of its own

T = TypeVar("T")


class Calls:
    """The calls of one client."""

    def __init__(self, attempts: int) -> None:
        if not isinstance(attempts, int) or attempts < 1:
            raise InputError(f"attempts is {brief(attempts)}, but must be a whole number of at least 1")
        self.attempts = attempts

    def version(self) -> Steps[Version]:
        """Ask what the service runs on."""
        return (yield from self._read("/version", Version.read))

    def ready(self) -> Steps[Readiness]:
        """Ask once whether the service takes requests: that it does not is an answer."""
        outcome = yield Send("GET", "/readyz")
        if isinstance(outcome, Reply) and outcome.status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):
            try:
                return Readiness.read(outcome.json)
            except (ValueError, TypeError, KeyError):
                pass  # a proxy's 503, say
        raise refusal(outcome)

    def tasks(self) -> Steps[list[Task]]:
        """Ask for all tasks that the token may see."""
        return (yield from self._read("/v1/tasks", lambda body: [Task.read(one) for one in body["tasks"]]))

    def create(self, wanted: dict[str, Any], *, exist_ok: bool) -> Steps[Task]:
        """Create a task; it is fine if it is there already, and as wanted, where the first attempt may have made it."""
        path = path_of(wanted["name"])
        send, doubt = Send("POST", "/v1/tasks", encoded(wanted), patience_s=COMPILING_S), exist_ok
        for _ in range(self.attempts):
            reply, repeated = yield from attempted(send, self.attempts)
            doubt = doubt or repeated
            if reply.status != HTTPStatus.CONFLICT or not doubt:
                break
            look, _ = yield from attempted(Send("GET", path), self.attempts)
            if look.status != HTTPStatus.NOT_FOUND:
                there = _value(look, Task.read)
                if is_as_wanted(there, wanted):
                    return there
                break
            send = replace(send, wait_s=LONGEST_WAIT_S)  # it is being compiled
        return _value(reply, Task.read)

    def info(self, task: str) -> Steps[Task]:
        """Ask how a task is now."""
        return (yield from self._read(path_of(task), Task.read))

    def change(self, task: str, wanted: dict[str, Any]) -> Steps[Task]:
        """Change a task; a refusal is fine where the attempt before may have done it, and the task is as wanted."""
        path = path_of(task)
        reply, doubt = yield from attempted(Send("PATCH", path, encoded(wanted), patience_s=COMPILING_S), self.attempts)
        if doubt and not reply.good:
            there = yield from self._read(path, Task.read)
            named = {name: value for name, value in wanted.items() if name not in ("add_classes", "remove_classes")}
            added, gone = (set(wanted.get(name, ())) for name in ("add_classes", "remove_classes"))
            if added <= set(there.classes) and gone <= set(there.retired) and is_as_wanted(there, named):
                return there
        return _value(reply, Task.read)

    def delete(self, task: str) -> Steps[Task | TaskAside]:
        """Delete a task. Of one that is set aside no more is known than why."""
        reply, _ = yield from attempted(Send("DELETE", path_of(task)), self.attempts, repeatable=False)
        return _value(reply, lambda body: (Task if "classes" in body else TaskAside).read(body))

    def switch(self, task: str, wanted: dict[str, Any]) -> Steps[Task]:
        """Have another learner trained from the log, to take over."""
        send = Send("POST", f"{path_of(task)}/learner", encoded(wanted), patience_s=COMPILING_S)
        reply, _ = yield from attempted(send, self.attempts, repeatable=False)
        return _value(reply, Task.read)

    def forget(self, task: str, wanted: dict[str, Any]) -> Steps[Forgot]:
        """Have decisions forgotten, which may take as long as writing the log anew."""
        send = Send("POST", f"{path_of(task)}/forget", encoded(wanted), patience_s=COMPILING_S)
        reply, _ = yield from attempted(send, self.attempts, repeatable=False)
        return _value(reply, Forgot.read)

    def decide(
        self,
        task: str,
        x: Any,
        id: str | None,  # noqa: A002 - what it is called everywhere
        among: Iterable[ClassName] | None,
        complete: bool,
        sure: float | None,
        risk: float | None,
    ) -> Steps[Decided]:
        """Decide on one x."""
        terms = {**terms_of(complete, sure, risk), **among_of(among, "among")}
        body = encoded({"id": new_id() if id is None else identity(id), "x": plain(x), **terms})
        reply, _ = yield from attempted(Send("POST", f"{path_of(task)}/decide", body), self.attempts)
        return _value(reply, Decided.read)

    def decide_many(
        self,
        task: str,
        X: Any,
        ids: Iterable[str] | None,
        among: Iterable[Any] | None,
        complete: bool,
        sure: float | None,
        risk: float | None,
    ) -> Steps[list[Decided]]:
        """Decide on each row, in as many requests as it takes."""
        path = f"{path_of(task)}/decide"
        asks = asks_of(X, ids, among, terms_of(complete, sure, risk))
        return (yield from self._in_batches(path, asks, Decided.read, rows_of="X"))

    def feedback(
        self,
        task: str,
        id: str | Decided,  # noqa: A002
        said: Said,
        shown: ClassName | None,
        shown_propensity: float | None,
        revise: bool,
    ) -> Steps[Heard]:
        """Say whether one decision was right, what it was worth, or what would have been right."""
        body = encoded(hint_of(id, answer_of(said, ""), shown, shown_propensity, truth(revise, "revise")))
        reply, _ = yield from attempted(Send("POST", f"{path_of(task)}/feedback", body), self.attempts)
        return _value(reply, Heard.read)

    def feedback_many(
        self,
        task: str,
        ids: Iterable[str | Decided],
        said: tuple[Iterable[Any] | None, ...],
        shown: Iterable[ClassName | None] | None,
        shown_propensity: Iterable[float | None] | None,
        revise: bool,
    ) -> Steps[list[Heard]]:
        """Say the same of each decision, in as many requests as it takes."""
        path = f"{path_of(task)}/feedback"
        hints = hints_of(ids, said, shown, shown_propensity, truth(revise, "revise"))
        return (yield from self._in_batches(path, hints, Heard.read, rows_of="ids"))

    def withdraw(self, task: str, id: str | Decided) -> Steps[Heard]:  # noqa: A002
        """Take back what was said of one decision."""
        body = encoded({"id": identity(id), "withdraw": True})
        reply, _ = yield from attempted(Send("POST", f"{path_of(task)}/feedback", body), self.attempts)
        return _value(reply, Heard.read)

    def withdraw_many(self, task: str, ids: Iterable[str | Decided]) -> Steps[list[Heard]]:
        """Take back what was said of each decision, in as many requests as it takes."""
        items = (encoded({"id": identity(one), "withdraw": True}) for one in each(ids, "ids"))
        return (yield from self._in_batches(f"{path_of(task)}/feedback", items, Heard.read, rows_of="ids"))

    def stats(self, task: str, window: int) -> Steps[Stats]:
        """Ask for what there is to see of a task."""
        return (yield from self._read(f"{path_of(task)}/stats?window={window:d}", Stats.read))

    def decisions(self, task: str, limit: int, before: int | None) -> Steps[list[LoggedDecision]]:
        """Ask for decisions of the log, newest first."""
        older = "" if before is None else f"&before={before:d}"
        path = f"{path_of(task)}/decisions?limit={limit:d}{older}"
        return (yield from self._read(path, lambda body: [LoggedDecision.read(one) for one in body["decisions"]]))

    def decision(self, task: str, id: str | Decided) -> Steps[LoggedDecision]:  # noqa: A002
        """Ask for one decision of the log."""
        name = quote(identity(id), safe="").replace(".", "%2E")  # an id of two dots is no way out of this folder
        return (yield from self._read(f"{path_of(task)}/decisions/{name}", LoggedDecision.read))

    def explain(self, task: str, id: str | Decided, top: int) -> Steps[Explained]:  # noqa: A002
        """Ask what speaks for the label of a decision."""
        path = f"{path_of(task)}/explanation?id={quote(identity(id), safe='')}&top={checked_count('top', top)}"
        return (yield from self._read(path, Explained.read))

    def _read(self, path: str, read: Callable[[Any], T]) -> Steps[T]:
        reply, _ = yield from attempted(Send("GET", path), self.attempts)
        return _value(reply, read)

    def _in_batches(
        self, path: str, items: Iterable[bytes], read: Callable[[Any], T], *, rows_of: str
    ) -> Steps[list[T]]:
        done: list[T] = []
        for batch in batches(items):
            done += yield from self._batch(path, batch, read, rows_of, len(done))
        return done

    def _batch(
        self, path: str, batch: list[bytes], read: Callable[[Any], T], rows_of: str, before: int
    ) -> Steps[list[T]]:
        """One request, or two halves where the service, or a proxy before it, finds it too large."""
        reply, _ = yield from attempted(Send("POST", path, b"[" + b",".join(batch) + b"]"), self.attempts)
        if reply.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and len(batch) > 1:
            half = len(batch) // 2
            first = yield from self._batch(path, batch[:half], read, rows_of, before)
            return first + (yield from self._batch(path, batch[half:], read, rows_of, before + half))
        try:
            return _value(reply, lambda body: [read(one) for _, one in zip(batch, body, strict=True)])
        except ServiceError as error:
            if not before:
                raise
            message = f"of {rows_of}, counted from {before} on: {error}"  # the service counts from the batch's first
            raise ServiceError(message, status=error.status, code=error.code, field=error.field) from None


def path_of(task: str) -> str:
    """The path of a task, whose name must be one."""
    if not isinstance(task, str) or not TASK.fullmatch(task):
        raise InputError(
            f"{brief(task)} cannot be the name of a task: these are 1 to 100 letters, digits, '.', '_' and '-'"
        )
    return f"/v1/tasks/{task}"


def task_of(
    name: str, classes: Iterable[ClassName] | int, features: int | str | Mapping[str, Any], **rest: Any
) -> dict[str, Any]:
    """A new task, as the service takes it; what is None is left to the service."""
    path_of(name)
    named = classes if isinstance(classes, int) else list(each(classes, "classes"))
    return {"name": name, "classes": named, "features": features_of(features), **_given(rest)}


def changes_of(
    add_classes: Iterable[ClassName],
    mode: str | None,
    silence: str | None,
    remove_classes: Iterable[ClassName],
    bounds: Mapping[str, float | Literal["keep"] | None],
) -> dict[str, Any]:
    """What is to change in a task; a bound of None takes it away, such as the deadline."""
    added, gone = list(each(add_classes, "add_classes")), list(each(remove_classes, "remove_classes"))
    changes = _given({"add_classes": added or None, "remove_classes": gone or None, "mode": mode, "silence": silence})
    return {**changes, **{name: value for name, value in bounds.items() if value != KEEP}}


def forgotten_of(ids: Iterable[Any] | None, before: float | None, unlearn: bool) -> dict[str, Any]:
    """What is to be forgotten, as the service takes it."""
    if (ids is None) is (before is None):
        raise InputError("give ids, or before, and one of them")
    if isinstance(ids, str):
        raise InputError(f"ids is {brief(ids)}, but must be a list of ids")
    which = {"before": before} if ids is None else {"ids": [identity(one) for one in ids]}
    return {**which, "unlearn": unlearn}


def learner_of(learner: str, **rest: Any) -> dict[str, Any]:
    """Which learner takes over."""
    return {"learner": learner, **_given(rest)}


def features_of(features: int | str | Mapping[str, Any]) -> dict[str, Any]:
    """What x is: a number of numbers, "dict", "text", or all of it as the service takes it."""
    if isinstance(features, int):
        return {"kind": "numbers", "size": features}
    return {"kind": features} if isinstance(features, str) else dict(features)


def is_as_wanted(there: Task, wanted: Mapping[str, Any]) -> bool:
    """Whether a task is as it was asked to be. The seed is never shown, and so cannot be compared."""
    for name, value in wanted.items():
        if name == "seed":
            continue
        found = getattr(there, name)
        asked = list(range(value)) if name == "classes" and isinstance(value, int) else value
        if isinstance(asked, dict):  # what was not said is there with its usual value
            found = {key: one for key, one in (found or {}).items() if key in asked}
        if found != asked:
            return False
    return True


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


def _value(reply: Reply, read: Callable[[Any], T]) -> T:
    if not reply.good:
        raise refusal(reply)
    try:
        return read(reply.json)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ServiceError(
            "the reply is not what this client knows: is the service of another version, or is it something else?",
            status=reply.status,
            code="unexpected",
        ) from None
