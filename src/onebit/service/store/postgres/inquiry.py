"""Asking a log that is on another machine: on threads, so that nobody else waits for the answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from onebit.service.store.postgres.database import PostgresDatabase
from onebit.service.store.postgres.watch import Watch
from onebit.service.store.reader import Reader

THREADS = 4
T = TypeVar("T")


class ThreadedInquiry:
    """A few threads, each with a reader of its own."""

    def __init__(self, address: str, watch: Watch) -> None:
        self._address = address
        self._watch = watch
        self._own = threading.local()
        self._readers: list[Reader] = []
        self._threads = ThreadPoolExecutor(THREADS, "onebit-inquiry")

    async def of(self, query: Callable[[Reader], T]) -> T:
        """What a reader is asked for."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._asked, query)

    def close(self) -> None:
        """Ask no more."""
        self._threads.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.close()

    def _asked(self, query: Callable[[Reader], T]) -> T:
        reader: Reader | None = getattr(self._own, "reader", None)
        if reader is None:
            reader = self._own.reader = Reader(PostgresDatabase(self._address, self._watch))
            self._readers.append(reader)
        return query(reader)
