"""Work that may take long, in threads that the end of the process does not wait for.

A thread that compiles cannot be stopped, and what it makes can be made again: nothing is lost with it that the log does not have.
"""

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
    """What some work gives that is done beside the event loop. Where nobody waits for it any more, it ends in its own time."""
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
