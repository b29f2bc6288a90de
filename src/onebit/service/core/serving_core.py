"""The core of a process that serves a log: what its plans share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from onebit.errors import OnebitError
from onebit.service.core.commit import GroupCommit
from onebit.service.core.ids import NewIds
from onebit.service.errors import UnavailableError
from onebit.service.store.cache import DecisionCache
from onebit.service.store.clock import Clock
from onebit.service.store.submission import Submission


class ServingCore:
    """What deciding and hearing need of one log, for all of its tasks. Used in one context: an event loop, or under a lock."""

    def __init__(
        self,
        commits: GroupCommit,
        cache: DecisionCache,
        clock: Clock,
        shared: bool,
        max_values: int,
        refuse_closed: Callable[[int], None] = lambda task: None,
    ) -> None:
        self._refuse_closed = refuse_closed  # called with the task to which rows are to be added
        self.commits = commits
        self.cache = cache
        self.clock = clock
        self.shared = shared  # the log: others may decide on the same ids, and say something of the same decisions
        self.max_values = max_values  # of one x
        self.deciding: dict[tuple[int, str], Submission] = {}  # ids that somebody is deciding on in pieces
        self.new_id = NewIds().new

    def submit(self, submission: Submission) -> None:
        """Hand over rows, unless nothing is added to their task any more."""
        try:
            self._refuse_closed(submission.task)
        except OnebitError as error:
            submission.finish(error)
            raise
        self.commits.submit(submission)

    def is_known(self, task: int, identity: str) -> bool:
        """Return True if an id was decided lately, or is being decided."""
        return (task, identity) in self.deciding or self.cache.get(task, identity) is not None

    @contextmanager
    def reserved(self, task: int, ids: Sequence[str], submission: Submission) -> Iterator[None]:
        """Let nobody else decide on these ids meanwhile; whoever wants one of them waits for the submission."""
        keys = [(task, identity) for identity in ids]
        self.deciding.update(dict.fromkeys(keys, submission))
        try:
            yield
        except BaseException as error:
            submission.finish(error if isinstance(error, Exception) else UnavailableError("it was stopped"))
            raise
        finally:
            for key in keys:
                del self.deciding[key]
