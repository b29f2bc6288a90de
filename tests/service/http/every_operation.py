"""Schemathesis over the OpenAPI document: every operation, with good and every kind of bad input, finds no 500, and no reply that the
document does not have. Examples are derandomised, so that a run is like the one before."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import ignored_auth, positive_data_acceptance
from starlette.types import Message, Receive, Scope, Send

from onebit.service.http.app import App
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.service.tokens import SCOPES, Tokens
from tests.service.driving import PATIENCE_S, ask, hint, new_task
from tests.slow import SLOW

EXAMPLES = 500 if SLOW else 15  # of each operation
TASKS: dict[str, dict[str, Any]] = {
    "numbers": {"features": {"kind": "numbers", "size": 2}},
    "words": {"features": {"kind": "text", "hash_bits": 4}, "mode": "shadow"},
    "names": {"features": {"kind": "dict", "hash_bits": 4}, "deadline_s": 0.01, "silence": "wrong"},
}


class Backstage:
    """The service on an event loop of its own, and an application that hands every request over to it."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        chosen = Settings(data=folder, max_body=8_000_000, max_batch=20)
        self.token = Tokens(chosen.tokens).create(list(SCOPES))
        self.replies: Counter[tuple[str, int]] = Counter()
        self.service: Service
        self._app: App
        self.do(self._start(chosen))

    async def _start(self, chosen: Settings) -> None:
        self.service = Service(chosen)
        self._app = App(self.service)
        await self.service.start()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    async def populate(self) -> None:
        """The tasks are there, each with decisions that were heard of and that were not."""
        for name, given in TASKS.items():
            if name in self.service.task_names():
                continue
            await self.service.create(new_task(name, **given))
            x: Any = {"numbers": [1.0, 2.0], "words": "a b", "names": {"a": 1.0}}[name]
            await self.service.decide(name, [ask("0", x), ask("00", x)], single=False)
            await self.service.feedback(name, [hint("0", shown="a" if name == "words" else None)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while scope["type"] == "http":
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        sent: list[Message] = []

        async def received() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message: Message) -> None:
            sent.append(message)

        await asyncio.to_thread(self.do, self._app(scope, received, keep))
        if sent:
            self.replies[scope["method"], sent[0]["status"]] += 1
        for message in sent:
            await send(message)

    def close(self) -> None:
        self.do(self.service.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Stage:
    """What Schemathesis talks to. It wants the document while tests are collected, when there is no service yet."""

    backstage: Backstage | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.backstage is not None:
            await self.backstage(scope, receive, send)
        elif scope["type"] == "http":
            unused = Settings(data=Path("unused"))
            body = orjson.dumps(App(Service(unused)).openapi())
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})


STAGE = Stage()
schema = schemathesis.openapi.from_asgi("/openapi.json", STAGE)
schema.config.update(request_timeout=2 * PATIENCE_S)
schema.config.generation.update(deterministic=True, with_security_parameters=False)


@pytest.fixture(scope="module")
def backstage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backstage]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("onebit.service.task.MAX_WEIGHTS", 2**16)  # a gigabyte of weights is allowed, and slow
        STAGE.backstage = made = Backstage(tmp_path_factory.mktemp("service"))
        yield made
        STAGE.backstage = None
        made.close()


@schema.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Two of three requests with a good name are for tasks and decisions that are there."""
    for name, known in (("task", list(TASKS)), ("id", ["0", "00"])):
        value = (path_parameters or {}).get(name)
        if path_parameters and isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", value):
            number = sum(map(ord, value))
            if number % 3:
                path_parameters[name] = known[number % len(known)]
    return path_parameters


@schema.hook
def map_body(context: Any, body: Any) -> Any:
    """Many ids and learners that are made up become such as there are; what is bad by the document stays so."""
    for one in body if isinstance(body, list) else [body]:
        if not isinstance(one, dict):
            continue
        identity, learner = one.get("id"), one.get("learner")
        if isinstance(identity, str) and 0 < len(identity) <= 200 and len(identity) % 2:
            one["id"] = "0" * (1 + len(identity) % 3)
        if isinstance(learner, str) and len(learner) <= 100 and isinstance(one.get("parameters", {}), dict):
            one |= {"learner": "banditron", "parameters": {}}
        if context.operation.method.upper() == "PATCH" and one.get("mode") in ("learn", "shadow", "log-only"):
            return {"mode": one["mode"]}  # beside it classes are removed that no task has
    return body


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_operation(case: Any, backstage: Backstage) -> None:
    backstage.do(backstage.populate())
    case.call_and_validate(
        headers={"authorization": f"Bearer {backstage.token}", "host": "localhost"},
        # Good by the document may be bad for the task: x of another kind, a learner that there is not. And Schemathesis takes the token
        # away only from where it has put one itself; test_web_access does so on every route.
        excluded_checks=[positive_data_acceptance, ignored_auth],
    )
    assert backstage.service.failing is None


def test_good_and_bad_were_tried(backstage: Backstage) -> None:
    """Else what is above would say little; it goes before."""
    tried = set(backstage.replies)
    assert {("GET", 200), ("POST", 200), ("POST", 201), ("POST", 202), ("PATCH", 200), ("DELETE", 200)} <= tried
    assert {("POST", 400), ("POST", 404), ("POST", 409), ("POST", 422), ("GET", 404), ("GET", 422)} <= tried
    assert not [reply for reply in tried if reply[1] >= 500]
