"""Between the event loop and other threads: work that may take long is done there, and the loop hears when the learner has got on."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

NAME = "onebit-work"
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def in_thread(work: Callable[Arguments, Result], *given: Arguments.args, **named: Arguments.kwargs) -> Result:
    """Return what some work gives that is done beside the event loop. Where nobody waits for it any more, it ends in its own time.

    The end of the process does not wait for it: a thread that compiles cannot be stopped, and what it makes can be made again.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(how: Callable[[Any], None], what: Any) -> None:
        if not done.done():  # whoever waited may have left
            how(what)

    def run() -> None:
        how: Callable[[Any], None]
        what: Any
        try:
            how, what = done.set_result, work(*given, **named)
        except BaseException as error:
            how, what = done.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
            loop.call_soon_threadsafe(settle, how, what)

    threading.Thread(target=run, name=NAME, daemon=True).start()
    return await done


def some_work() -> bool:
    """Whether some of it is not done."""
    return any(thread.name == NAME for thread in threading.enumerate())


class Progress:
    """Made on the event loop; told by another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._waiting = 0
        self._stopped = False

    def tell(self) -> None:
        """Something has been learnt. Where nobody waits for it, the loop is not woken."""
        if self._waiting and not self._stopped:
            self._loop.call_soon_threadsafe(self.wake)

    def wake(self) -> None:
        """Let those who wait look again."""
        self._news.set()
        self._news = asyncio.Event()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is reached."""
        self._waiting += 1
        try:
            while not reached():
                await self._news.wait()
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        """Nobody is told any more: the loop is about to end."""
        self._stopped = True
