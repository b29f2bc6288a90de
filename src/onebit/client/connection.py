"""Transport of requests: address, blocking and asynchronous connections, and the operations on them."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import ssl
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cache, wraps
from types import MethodType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import httpx

from onebit.client.plan import Lost, Reply, Send, Steps
from onebit.errors import InputError, brief
from onebit.version import VERSION

CONNECTIONS = 100  # open at the same time; further requests wait without a timeout

P = ParamSpec("P")
T = TypeVar("T")

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


@dataclass(frozen=True)
class Address:
    """The address of the service, and how long to wait for it."""

    url: str
    timeout_s: float

    @classmethod
    def checked(cls, url: str, timeout_s: float) -> Self:
        """Return the validated address; raise InputError if it is not valid."""
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, TypeError):
            parsed = httpx.URL("")
        if parsed.userinfo:  # do not show the address: it may contain a password
            raise InputError("url has a user name or a password in it; a token is given as token=...")
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
            raise InputError(
                f"url is {brief(url)}, but must be like 'http://127.0.0.1:8000' or 'https://onebit.example.org'"
            )
        if not timeout_s > 0:
            raise InputError(f"timeout_s is {brief(timeout_s)}, but must be above 0")
        return cls(str(parsed).rstrip("/"), timeout_s)

    def options(self, token: str | None) -> dict[str, Any]:
        """Return the arguments for a client of HTTPX. Nothing else stores the token."""
        headers = {"User-Agent": f"onebit/{VERSION}", "Content-Type": "application/json"}
        if token is not None:
            if not isinstance(token, str) or not re.fullmatch(
                r"[!-~]+", token
            ):  # otherwise HTTPX would show the token in its error
                raise InputError("the token has characters that no token has: is there a space or a line's end in it?")
            headers["Authorization"] = f"Bearer {token}"
        return {
            "base_url": self.url,
            "headers": headers,
            "verify": _certificates(),
            "limits": httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        }

    def timeout(self, send: Send) -> httpx.Timeout:
        """Return the timeouts for connecting and for each part of the reply."""
        return httpx.Timeout(self.timeout_s, read=max(self.timeout_s, send.patience_s), pool=None)

    def lost(self, send: Send, error: httpx.RequestError) -> Lost:
        """Return why there is no reply, and whether the service may have carried out the request."""
        if isinstance(error, httpx.TimeoutException):
            waited = self.timeout(send).read if isinstance(error, httpx.ReadTimeout) else self.timeout_s
            reason = f"no reply from {self.url} within {waited:g} s"
        elif isinstance(error, NOT_SENT):
            reason = f"{self.url} cannot be reached: {str(error) or type(error).__name__}"
        else:
            reason = f"the connection to {self.url} broke: {str(error) or type(error).__name__}"
        return Lost(reason, doubtful=not isinstance(error, NOT_SENT))


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates, shared by all clients.

    Loading them takes as long as hundreds of requests.
    """
    return httpx.create_ssl_context()


class BlockingConnection:
    """A connection that blocks until the reply arrives."""

    def __init__(self, address: Address, token: str | None, transport: httpx.BaseTransport | None) -> None:
        self.address = address
        self.http = httpx.Client(transport=transport, **address.options(token))

    def run(self, steps: Steps[T]) -> T:
        """Run steps, sending what they yield, and return their result."""
        try:
            send = next(steps)
            while True:
                time.sleep(send.wait_s)
                send = steps.send(self._exchange(send))
        except StopIteration as end:
            result: T = end.value
            return result

    def _exchange(self, send: Send) -> Reply | Lost:
        try:
            timeout = self.address.timeout(send)
            return _reply(self.http.request(send.method, send.path, content=send.body, timeout=timeout))
        except httpx.RequestError as error:
            return self.address.lost(send, error)


class AsyncConnection:
    """A connection on an event loop."""

    def __init__(self, address: Address, token: str | None, transport: httpx.AsyncBaseTransport | None) -> None:
        self.address = address
        self.http = httpx.AsyncClient(transport=transport, **address.options(token))

    async def run(self, steps: Steps[T]) -> T:
        """Run steps, sending what they yield, and return their result."""
        try:
            send = next(steps)
            while True:
                await asyncio.sleep(send.wait_s)
                send = steps.send(await self._exchange(send))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _exchange(self, send: Send) -> Reply | Lost:
        try:
            timeout = self.address.timeout(send)
            return _reply(await self.http.request(send.method, send.path, content=send.body, timeout=timeout))
        except httpx.RequestError as error:
            return self.address.lost(send, error)


def _reply(response: httpx.Response) -> Reply:
    headers = response.headers
    return Reply(response.status_code, response.content, headers.get("Retry-After"), headers.get("Location"))


ConnectionT = TypeVar("ConnectionT", BlockingConnection, AsyncConnection)


class Caller(Generic[ConnectionT]):
    """A base class of objects with operations, which run on its connection."""

    _is_asynchronous: ClassVar[bool] = False
    _connection: ConnectionT


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


def read_environment() -> tuple[str, str | None]:
    """Return the address and the token from the environment."""
    url = os.environ.get("ONEBIT_URL")
    if not url:
        raise InputError("ONEBIT_URL is not set; it is the address of the service, like 'http://127.0.0.1:8000'")
    return url, os.environ.get("ONEBIT_TOKEN") or None
