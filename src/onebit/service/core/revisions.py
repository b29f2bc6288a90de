"""Second thoughts: a learner that has learnt what was revised since is computed again, beside the one that goes on deciding.

What is known is that of a log in which the last word on each decision stands in the place of the first. So the log is followed again,
from the last snapshot before the first place that has another word now, and the learner thread puts what comes out in the place of
what it has. Revisions that come close together, or while that goes on, wait for the next time: they are one replay.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import closing

from onebit.service.core.follower import LogFollower
from onebit.service.core.trainee import NEAR
from onebit.service.store.base import Store
from onebit.service.store.errors import LogError
from onebit.service.store.reader import Reader
from onebit.service.store.snapshots import Packed

TOGETHER_S = 0.1  # for which others are waited for
RETRY_S = 1.0
LOG = logging.getLogger("onebit.service")


class Reviser:
    """The thread that follows the log again where that is needed, for one task at a time."""

    def __init__(
        self,
        store: Store,
        snapshot_every: int,
        keep: Callable[[LogFollower, Packed], None],
        rebuilt: Callable[[LogFollower], None],
    ) -> None:
        self._store = store
        self._snapshot_every = snapshot_every
        self._keep = keep  # called on this thread with snapshots of a task that are to be written
        self._rebuilt = rebuilt  # called on this thread when another follower waits to take over
        self._asked: queue.SimpleQueue[LogFollower | None] = queue.SimpleQueue()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onebit-reviser", daemon=True)

    @property
    def thread(self) -> threading.Thread:
        """Which must be alive."""
        return self._thread

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def ask(self, follower: LogFollower) -> None:
        """Have the log followed again for a task, or to its end by the follower that does so; once at a time."""
        if not follower.revising:
            follower.revising = True
            self._asked.put(follower)

    def stop(self) -> None:
        """Give up what is under way: the next start comes to the same."""
        self._ending.set()
        self._asked.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (follower := self._asked.get()) is not None:
            self._ending.wait(TOGETHER_S)
            while not self._gives_up(follower) and follower.failing is None and not self._revised(follower):
                self._ending.wait(RETRY_S)

    def _gives_up(self, follower: LogFollower) -> bool:
        """Whether nobody needs what is under way any more."""
        return self._ending.is_set() or follower.left

    def _revised(self, follower: LogFollower) -> bool:
        """Whether there is no need to try again."""
        began = time.perf_counter()
        try:
            with closing(self._store.reader()) as reader:
                self._follow_again(follower, reader)
        except (LogError, MemoryError) as error:  # which pass
            follower.successor = None  # of which half may have been taught
            follower.revising_error = str(error) or type(error).__name__
            about = {"event": "revision-failed", "task": follower.expected.name}
            LOG.warning(f"revisions could not be learnt now: {follower.revising_error}", extra=about)
            return False
        except Exception as error:  # the log has everything, and the next start tries again
            follower.quarantine(error)
            return True
        follower.revising_error = None
        if not self._gives_up(follower):
            seconds = round(time.perf_counter() - began, 3)
            about = {"event": "revised", "task": follower.expected.name, "seconds": str(seconds)}
            LOG.info(f"task {follower.expected.name}: the log was followed again", extra=about)
            follower.revising = False
            self._rebuilt(follower)
        return True

    def _follow_again(self, follower: LogFollower, reader: Reader) -> None:
        """Follow the log with another follower until it is near the end; what came meanwhile is a matter of a moment.

        Half-way from where it is to the end, again and again, it leaves a snapshot: in the place of those that are of no use any more, for what
        is revised next.
        """
        if follower.successor is None:
            follower.successor = LogFollower.begun(
                follower.expected, follower.snapshots, reader, reader.last(), follower.replicas.copies
            )
        new = follower.successor
        near = False

        def gives_up() -> bool:
            return self._gives_up(follower)

        while not near and not gives_up():
            end = reader.last()
            while new.position < end and not gives_up():
                upto = new.position + max(self._snapshot_every, (end - new.position) // 2)
                new.follow(reader, min(upto, end), revised=end, gives_up=gives_up)
                if new.position < end and new.revised_from is None and not gives_up():
                    self._keep(follower, new.snapshot(reader))
            near = reader.last() - end <= NEAR
