"""Connections whose other side does not take what it is sent: they are left, and the application hears of it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import runpy
import socket
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from onebit.errors import OnebitError
from onebit.serve.settings import Settings
from onebit.serve.web import protocol
from onebit.serve.web.connections import Connections
from onebit.serve.web.protocol import HOOKS, BoundedProtocol, protocol_of

LARGE = 64 * 2**20  # more than the system keeps for a connection
PATIENCE_S = 0.2


@pytest.mark.parametrize("pieces", [1, 64], ids=["at once", "in pieces"])
@pytest.mark.parametrize("closing", [True, False])
def test_whoever_does_not_take_the_answer_is_left(tmp_path: Path, pieces: int, closing: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"%d" % LARGE)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for left in reversed(range(pieces)):
            await send({"type": "http.response.body", "body": b" " * (LARGE // pieces), "more_body": left > 0})

    async def scenario() -> None:
        state = ServerState()
        made = protocol_of(Settings(data=tmp_path, request_timeout_s=PATIENCE_S), Connections(10))
        config = uvicorn.Config(app, http=made, ws="none", lifespan="off", log_config=None)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: made(config, state, {}, loop), "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as connection:
            close = b"Connection: close\r\n" if closing else b""
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + close + b"\r\n")
            while not state.connections:
                await asyncio.sleep(0.01)
            while state.connections or state.tasks:
                await asyncio.sleep(0.01)
            assert not state.connections
            assert not state.tasks
        server.close()
        await server.wait_closed()

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize("hook", HOOKS)
def test_a_uvicorn_without_the_hooks_is_refused(monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    monkeypatch.delattr(HttpToolsProtocol, hook)
    with pytest.raises(OnebitError, match=f"uvicorn 0.45 or a later one that has {hook}, and this is"):
        runpy.run_path(protocol.__file__)


def test_every_hook_that_is_overridden_is_asked_for() -> None:
    overridden = set(vars(BoundedProtocol)) & set(vars(HttpToolsProtocol))
    assert set(HOOKS) == overridden - set(dir(asyncio.Protocol))


# What is used of uvicorn that its documentation does not promise, beside the hooks. For the sake of these, pyproject.toml names the newest
# uvicorn that was tested; with a newer one, this is where to look first.
OWN: dict[type, set[str]] = {
    HttpToolsProtocol: {
        "cycle",
        "flow",
        "headers",
        "loop",
        "parser",
        "pipeline",
        "timeout_keep_alive",
        "timeout_keep_alive_handler",
        "timeout_keep_alive_task",
        "transport",
        "url",
    },
    RequestResponseCycle: {
        "disconnected",
        "keep_alive",
        "message_event",
        "more_body",
        "response_complete",
        "response_started",
    },
    uvicorn.Server: {"capture_signals", "handle_exit", "startup"},
}


@pytest.mark.parametrize("kind", OWN)
def test_this_uvicorn_has_what_is_used_of_it(kind: type) -> None:
    source = inspect.getsource(kind)
    gone = [name for name in OWN[kind] if not hasattr(kind, name) and not re.search(rf"\bself\.{name}\b", source)]
    assert not gone, f"uvicorn {uvicorn.__version__} has no {kind.__name__}.{gone[0]}, which onebit.serve needs"


def test_nothing_else_of_uvicorns_protocol_is_used() -> None:
    tree = ast.parse(inspect.getsource(BoundedProtocol))
    found = [one for one in ast.walk(tree) if isinstance(one, ast.Attribute)]
    of_self = {one.attr for one in found if isinstance(one.value, ast.Name) and one.value.id == "self"}
    own = {*vars(BoundedProtocol), *inspect.get_annotations(BoundedProtocol)}
    own |= {name for name in of_self if name.startswith("_")} - set(dir(HttpToolsProtocol))
    assert of_self - own == OWN[HttpToolsProtocol]
    of_cycle = {
        one.attr
        for one in found
        if ast.unparse(one.value) in ("under_way", "self.cycle", "self._started", "self._under_way")
    }
    assert of_cycle == OWN[RequestResponseCycle]
