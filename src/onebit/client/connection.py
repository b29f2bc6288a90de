"""What a client needs of HTTPX, whether it blocks or not: the address, the token, and what its errors mean."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import httpx

from onebit.client.plan import Lost, Reply, Send
from onebit.errors import InputError, brief
from onebit.version import VERSION

CONNECTIONS = 100  # at once; more requests than that wait for their turn, as long as it takes

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


@dataclass(frozen=True)
class Address:
    """Where the service is, and how long to wait for it."""

    url: str
    timeout_s: float

    @classmethod
    def checked(cls, url: str, timeout_s: float) -> Self:
        """What the user gave, or a sentence on what is wrong with it."""
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, TypeError):
            parsed = httpx.URL("")
        if parsed.userinfo:  # not shown: it holds a password
            raise InputError("url has a user name or a password in it; a token is given as token=...")
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
            raise InputError(
                f"url is {brief(url)}, but must be like 'http://127.0.0.1:8000' or 'https://onebit.example.org'"
            )
        if not timeout_s > 0:
            raise InputError(f"timeout_s is {brief(timeout_s)}, but must be above 0")
        return cls(str(parsed).rstrip("/"), timeout_s)

    def options(self, token: str | None) -> dict[str, Any]:
        """How HTTPX is to be set up. The token is kept there alone."""
        headers = {"User-Agent": f"onebit/{VERSION}", "Content-Type": "application/json"}
        if token is not None:
            if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):  # or HTTPX would show it in its error
                raise InputError("the token has characters that no token has: is there a space or a line's end in it?")
            headers["Authorization"] = f"Bearer {token}"
        return {
            "base_url": self.url,
            "headers": headers,
            "verify": _certificates(),
            "limits": httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        }

    def timeout(self, send: Send) -> httpx.Timeout:
        """How long to wait for a connection, and for each next part of the reply to this."""
        return httpx.Timeout(self.timeout_s, read=max(self.timeout_s, send.patience_s), pool=None)

    def lost(self, send: Send, error: httpx.RequestError) -> Lost:
        """What it means that HTTPX could not send a request, or got no reply."""
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
    """Whom to believe. Reading it takes as long as hundreds of requests, so that all clients share one."""
    return httpx.create_ssl_context()


def reply_of(response: httpx.Response) -> Reply:
    """What came back, without HTTPX."""
    headers = response.headers
    return Reply(response.status_code, response.content, headers.get("Retry-After"), headers.get("Location"))


def from_environment() -> tuple[str, str | None]:
    """The address and the token that the environment has."""
    url = os.environ.get("ONEBIT_URL")
    if not url:
        raise InputError("ONEBIT_URL is not set; it is the address of the service, like 'http://127.0.0.1:8000'")
    return url, os.environ.get("ONEBIT_TOKEN") or None
