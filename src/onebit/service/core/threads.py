"""Long-running work in threads beside the event loop, and notification of the loop about progress."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

NAME = "onebit-work"
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def in_thread(work: Callable[Arguments, Result], *given: Arguments.args, **named: Arguments.kwargs) -> Result:
    """Run work in a thread and return its result. If the caller stops waiting, the work still finishes.

    The process does not wait for the thread at exit: compilation cannot be interrupted, and its result can be built again.
    """
    done: Future[Result] = Future()
    done.set_running_or_notify_cancel()  # from now on it is not cancelled with the caller

    def run() -> None:
        try:
            done.set_result(work(*given, **named))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name=NAME, daemon=True).start()
    return await asyncio.wrap_future(done)


def is_work_running() -> bool:
    """Return True if a thread of `in_thread` is still running."""
    return any(thread.name == NAME for thread in threading.enumerate())


class Progress:
    """Notification of coroutines by another thread. Create it on the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._waiting = 0

    def tell(self) -> None:
        """Report progress from another thread; the loop is woken only if a coroutine waits."""
        if self._waiting:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and so have those who waited
                self._loop.call_soon_threadsafe(self.wake)

    def wake(self) -> None:
        """Let the waiting coroutines check their conditions again."""
        self._news.set()
        self._news = asyncio.Event()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until `reached()` returns True."""
        self._waiting += 1
        try:
            while not reached():
                await self._news.wait()
        finally:
            self._waiting -= 1
