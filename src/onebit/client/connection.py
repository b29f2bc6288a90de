"""Transport of requests: a blocking and an asynchronous connection to the service."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from functools import cache
from typing import Any, TypeVar

import httpx

from onebit.client.plan import NoReply, Reply, Request, Steps
from onebit.errors import InputError, brief
from onebit.version import VERSION

CONNECTIONS = 100  # open at the same time; further requests wait without a timeout

T = TypeVar("T")

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


class Connection:
    """Base class of connections: the address of the service, and how long to wait for it."""

    def __init__(self, url: str, timeout_s: float) -> None:
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, TypeError):
            parsed = httpx.URL("")
        if parsed.userinfo:  # do not show the address: it may contain a password
            raise InputError("url must not contain a user name or a password; give a token as token=...")
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
            raise InputError(
                f"url is {brief(url)}, but must be like 'http://127.0.0.1:8000' or 'https://onebit.example.org'"
            )
        if not timeout_s > 0:
            raise InputError(f"timeout_s is {brief(timeout_s)}, but must be above 0")
        self.url = str(parsed).rstrip("/")
        self.timeout_s = timeout_s

    def client_options(self, token: str | None) -> dict[str, Any]:
        """Return the arguments for an HTTPX client; no other attribute stores the token."""
        headers = {"User-Agent": f"onebit/{VERSION}", "Content-Type": "application/json"}
        if token is not None:
            if not isinstance(token, str) or not re.fullmatch(
                r"[!-~]+", token
            ):  # otherwise HTTPX would show the token in its error
                raise InputError("the token contains a character that is never in a token, such as a space")
            headers["Authorization"] = f"Bearer {token}"
        return {
            "base_url": self.url,
            "headers": headers,
            "verify": _load_certificates(),
            "limits": httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        }

    def request_options(self, request: Request) -> dict[str, Any]:
        """Return the arguments for an HTTPX request, with the timeouts for connecting and reading."""
        timeout = httpx.Timeout(self.timeout_s, read=max(self.timeout_s, request.patience_s), pool=None)
        return {"method": request.method, "url": request.path, "content": request.body, "timeout": timeout}

    def build_no_reply(self, request: Request, error: httpx.RequestError) -> NoReply:
        """Return the outcome of a request that failed with an error of HTTPX."""
        if isinstance(error, httpx.TimeoutException):
            waited_s = (
                max(self.timeout_s, request.patience_s) if isinstance(error, httpx.ReadTimeout) else self.timeout_s
            )
            reason = f"no reply from {self.url} within {waited_s:g} s"
        elif isinstance(error, NOT_SENT):
            reason = f"{self.url} cannot be reached: {str(error) or type(error).__name__}"
        else:
            reason = f"the connection to {self.url} broke: {str(error) or type(error).__name__}"
        return NoReply(reason, doubtful=not isinstance(error, NOT_SENT))


@cache
def _load_certificates() -> ssl.SSLContext:
    """Return the trusted certificates, shared by all clients.

    Loading them takes as long as hundreds of requests.
    """
    return httpx.create_ssl_context()


class BlockingConnection(Connection):
    """A connection that blocks until the reply arrives."""

    def __init__(self, url: str, token: str | None, timeout_s: float, transport: httpx.BaseTransport | None) -> None:
        super().__init__(url, timeout_s)
        self.http = httpx.Client(transport=transport, **self.client_options(token))

    def run(self, steps: Steps[T]) -> T:
        """Run steps, sending what they yield, and return their result."""
        outcome: Reply | NoReply | None = None
        while True:
            try:
                request = next(steps) if outcome is None else steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            time.sleep(request.wait_s)
            try:
                outcome = _convert_reply(self.http.request(**self.request_options(request)))
            except httpx.RequestError as error:
                outcome = self.build_no_reply(request, error)


class AsyncConnection(Connection):
    """A connection on an event loop."""

    def __init__(
        self, url: str, token: str | None, timeout_s: float, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        super().__init__(url, timeout_s)
        self.http = httpx.AsyncClient(transport=transport, **self.client_options(token))

    async def run(self, steps: Steps[T]) -> T:
        """Run steps, sending what they yield, and return their result."""
        outcome: Reply | NoReply | None = None
        while True:
            try:
                request = next(steps) if outcome is None else steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            await asyncio.sleep(request.wait_s)
            try:
                outcome = _convert_reply(await self.http.request(**self.request_options(request)))
            except httpx.RequestError as error:
                outcome = self.build_no_reply(request, error)


def _convert_reply(response: httpx.Response) -> Reply:
    headers = response.headers
    return Reply(response.status_code, response.content, headers.get("Retry-After"), headers.get("Location"))
