"""A service that answers by a script, and clients of both kinds for it that do not sleep."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from onebit.client import AsyncClient, Client, connection

URL = "http://service.test"
TOKEN = "secret-token-of-this-test"

Answer = httpx.Response | Exception
KINDS = ("blocking", "async")

DECIDED = {
    "id": "a",
    "label": "sport",
    "greedy": "sport",
    "propensity": 0.9,
    "probabilities": {"sport": 0.9, "tech": 0.1},
    "version": "1.0",
    "among": None,
    "confidence": None,
    "unsure": False,
}
TASK = {
    "name": "news",
    "classes": ["sport", "tech"],
    "learner": "auto",
    "parameters": {},
    "exploration_floor": 0.05,
    "features": {"kind": "text", "hash_bits": 18},
    "mode": "learn",
    "deadline_s": None,
    "silence": "nothing",
    "display": None,
    "items": None,
    "created": 1.0,
    "deleted": None,
    "generation": 1,
    "learnt": 0,
    "position": 0,
    "training": None,
    "revise_within": None,
    "retired": [],
    "sure": None,
    "risk": None,
}


def answer(status: int, body: Any, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, content=json.dumps(body), headers=named)


def refused(status: int, code: str, message: str, field: str | None = None, **headers: str) -> httpx.Response:
    return answer(status, {"error": {"code": code, "message": message, "field": field}}, **headers)


class Scripted:
    """Answers one after the other, and what was asked for each."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        assert self.answers, f"nothing in the script for {request.method} {request.url.path}"
        next_one = self.answers.pop(0)
        if isinstance(next_one, Exception):
            raise next_one
        headers = {name: value for name, value in next_one.headers.items() if name in ("retry-after", "location")}
        return httpx.Response(next_one.status_code, content=next_one.content, headers=headers)  # each is used once

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.url.path}" for request in self.requests]


def follow(
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    answers: Iterable[Answer],
    call: Callable[[Any], Any],
    **options: Any,
) -> tuple[Any, Scripted]:
    """What a call comes to when the service answers so; in the end the script must be used up."""
    script = Scripted(answers)
    transport = httpx.MockTransport(script)

    async def nap(seconds: float) -> None:
        script.slept.append(seconds)

    monkeypatch.setattr(connection, "time", SimpleNamespace(sleep=script.slept.append))
    monkeypatch.setattr(connection, "asyncio", SimpleNamespace(sleep=nap))

    async def without_blocking() -> Any:
        async with AsyncClient(URL, TOKEN, transport=transport, **options) as client:
            return await call(client)

    try:
        if kind == "async":
            found = asyncio.run(without_blocking())
        else:
            with Client(URL, TOKEN, transport=transport, **options) as client:
                found = call(client)
    except Exception as error:  # the test looks at it
        found = error
    assert not script.answers, "the script was not used up"
    return found, script
