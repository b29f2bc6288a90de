"""The two kinds of client: `Client` waits for each answer, and `AsyncClient` has the same operations to be awaited."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx

from onebit.client.calls import Calls
from onebit.client.connection import Address, AsyncConnection, BlockingConnection, read_environment
from onebit.client.operations import ClientOperations, TaskOperations


class TaskHandle(TaskOperations[BlockingConnection]):
    """One task of the service."""


class AsyncTaskHandle(TaskOperations[AsyncConnection]):
    """One task of the service, as `TaskHandle` with an `await` before each call."""

    _is_asynchronous = True


class Client(ClientOperations[BlockingConnection, TaskHandle]):
    """A connection to `onebit serve`; safe to use from several threads.

    An attempt waits `timeout_s` for a connection, and for each next part of the reply; at least two minutes for that
    where the service may have to compile a learner first. Temporary failures are retried, `attempts` times in all, with
    random pauses that grow. `transport` is HTTPX's, for a Unix socket or for tests.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 10.0,
        attempts: int = 4,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._calls = Calls(attempts)
        self._connection = BlockingConnection(Address.checked(url, timeout_s), token, transport)

    @classmethod
    def from_env(cls, *, timeout_s: float = 10.0, attempts: int = 4) -> Self:
        """A client for the address in ONEBIT_URL, with the token in ONEBIT_TOKEN if that is set."""
        url, token = read_environment()
        return cls(url, token, timeout_s=timeout_s, attempts=attempts)

    def task(self, name: str) -> TaskHandle:
        """A task by name; nothing is sent yet."""
        return TaskHandle(name, self._calls, self._connection)

    def close(self) -> None:
        """Close the connections."""
        self._connection.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(ClientOperations[AsyncConnection, AsyncTaskHandle]):
    """A connection to `onebit serve`, as `Client` with an `await` before each call; safe to use from many tasks of one event loop."""

    _is_asynchronous = True

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 10.0,
        attempts: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._calls = Calls(attempts)
        self._connection = AsyncConnection(Address.checked(url, timeout_s), token, transport)

    @classmethod
    def from_env(cls, *, timeout_s: float = 10.0, attempts: int = 4) -> Self:
        """A client for the address in ONEBIT_URL, with the token in ONEBIT_TOKEN if that is set."""
        url, token = read_environment()
        return cls(url, token, timeout_s=timeout_s, attempts=attempts)

    def task(self, name: str) -> AsyncTaskHandle:
        """A task by name; nothing is sent yet."""
        return AsyncTaskHandle(name, self._calls, self._connection)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
