"""Plans: operations of the core as generators that yield what they wait for, and return the answer.

Nothing blocks here. What happens between two waits is atomic: an event loop runs it on its one thread, and `onebit.open` runs it under the lock of its
folder. So decisions and feedback are implemented once, for callers that block and for those that do not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from onebit.service.store.base import Inquiry
from onebit.service.store.reader import Reader
from onebit.service.store.submission import Submission

T = TypeVar("T")


class LookUp(NamedTuple):
    """A query of the log; the plan receives the result."""

    query: Callable[[Reader], Any]


class Turn(NamedTuple):
    """A pause before a piece of heavy work, which lets others run."""


Wait = Submission | LookUp | Turn  # waiting for a submission ends when it is accepted, or raises its error
Plan = Generator[Wait, Any, T]


def settle(submissions: list[Submission | None]) -> Plan[None]:
    """Wait until rows submitted by others are certain to be written, or have failed."""
    for submission in submissions:
        if submission is not None and not submission.accepted and not submission.done:
            with contextlib.suppress(Exception):  # its submitter gets the error: here it only matters that it is done
                yield submission


class HeavyWork(asyncio.Lock):
    """A fair lock around pieces of heavy work: `async with heavy_work:`.

    Pieces run one at a time, in the order of arrival; between two of them the event loop serves small requests.
    """

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.sleep(0)
        finally:
            self.release()


async def run_plan(plan: Plan[T], inquiry: Inquiry, heavy_work: HeavyWork) -> T:
    """Run a plan on the event loop."""
    step: Callable[[Any], Wait] = plan.send
    value: Any = None
    try:
        while True:
            wait = step(value)
            while isinstance(wait, Turn):
                async with heavy_work:
                    wait = plan.send(None)
            step, value = plan.send, None
            try:
                if isinstance(wait, LookUp):
                    value = await inquiry.run(wait.query)
                else:
                    await wait_until_done(wait)
            except Exception as error:
                step, value = plan.throw, error
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        plan.close()


async def wait_until_done(submission: Submission) -> None:
    """Wait on the event loop until a submission is done; raise its error if it failed."""
    if not submission.done:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell() -> None:
            if not done.done():  # otherwise the waiting caller has left
                done.set_result(None)

        submission.add_done_callback(tell)
        await done
    submission.refuse()
