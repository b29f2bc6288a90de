"""The executor on clusters of Dask and Ray: cuts trials into batches, and keeps the cluster supplied with them.

The cluster moves data, finds free workers, and repeats what was lost with a worker. What keeps getting lost is tried once more,
with nothing else under way, and only what is lost there is blamed.
"""

from __future__ import annotations

import socket
import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from onebit.data.sources import Source
from onebit.errors import InputError, NetworkError, OnebitError
from onebit.executors.cluster.worker import PackedValue, pack, run_batch, worker_version
from onebit.trials.cost import Resource
from onebit.trials.records import Record
from onebit.trials.trial import Progress, Trial

AHEAD = 2  # tasks under way per thread: one that runs, one that waits
BATCH_S = 1.0  # about how long a batch takes; it has at least one trial
LEAST_S = 0.1  # a batch is worth sending if it takes so long
TRIAL_S = 0.001  # how long the shortest trial takes, with what is done before and after it
WAIT_S = 0.2  # Ctrl-C is noticed about this often
LOOK_S = 1.0  # how often the cluster is asked for its size
CONNECT_S = 8.0
NO_WORKERS_S = 60.0  # how long a cluster may be without workers: they start, or start again


class WorkerLostError(Exception):
    """A task was lost with its workers, or with the data that they had."""


class ClusterTask(NamedTuple):
    """A function that a worker calls with `arguments`, its data and an event to stop; `title` is for errors."""

    title: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    source: Source | None = None
    trials: tuple[Trial, ...] = ()


class ClusterExecutor(ABC):
    """The workers of a cluster; Dask and Ray each say how theirs run tasks."""

    kind: str
    at: str  # "at tcp://host:8786", "on this machine"
    _seen = (0, "")  # the largest size during the last run
    _seconds = BATCH_S  # that a trial of the last batch took

    @abstractmethod
    def _size(self) -> tuple[int, str]:
        """Return how many tasks run at once, at least 1, and the workers in words; wait for workers where there are none."""

    @abstractmethod
    def _put(self, source: PackedValue) -> Any:
        """Store data in the cluster; return a reference, which tasks take as an argument."""

    @abstractmethod
    def _submit(self, *arguments: Any) -> Any:
        """Return the future of `run_task` with these arguments."""

    @abstractmethod
    def _finished(self, futures: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield futures that are done with their results or errors, a `WorkerLostError` too; wait for one at most `WAIT_S`."""

    @abstractmethod
    def _end_run(self, run: str, futures: Sequence[Any]) -> None:
        """Stop these tasks of a run, and let go of its data."""

    @abstractmethod
    def close(self) -> None:
        """Leave the cluster, or end it if it was started here."""

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The workers of the last run."""
        return (Resource(f"{self.kind}, {(self._seen if self._seen[0] else self._size())[1]} {self.at}"),)

    def core_rate(self, trial: Trial) -> None:
        """Return None: the records have it."""
        return

    def run(self, groups: Sequence[Sequence[Trial]], progress: Progress) -> Generator[Record, None, None]:
        """Yield the records of these trials, batch by batch."""
        self._seconds, self._seen = BATCH_S, (0, "")
        for task, (records, seconds) in self.map(self._cut_batches([deque(group) for group in groups])):
            self._seconds = seconds
            for trial, record in zip(task.trials, records, strict=True):
                progress(trial.stream.rounds)
                yield record

    def _cut_batches(self, groups: Sequence[deque[Trial]]) -> Iterator[ClusterTask]:
        """Yield batches of about a second; smaller ones towards the end, so that all workers end at about the same time."""
        left = sum(map(len, groups))
        for group in groups:
            while group:
                trial_s = max(self._seconds, TRIAL_S)
                share = max(left // (2 * AHEAD * self._seen[0]), int(LEAST_S / trial_s))
                most = max(1, min(int(BATCH_S / trial_s), share, len(group)))
                left -= most
                yield _batch([group.popleft() for _ in range(most)])

    def map(self, tasks: Iterable[ClusterTask]) -> Generator[tuple[ClusterTask, Any], None, None]:
        """Yield the results of tasks as they come; closing this stops what is under way."""
        lost: list[ClusterTask] = []
        for task, result in self._compute(tasks):
            if isinstance(result, WorkerLostError):
                lost += [_batch([trial]) for trial in task.trials] or [task]
            else:
                yield task, result
        for task, result in self._compute(lost, one_by_one=True):
            if isinstance(result, WorkerLostError):
                why = "every worker that had it was lost; perhaps it needs more memory than they have"
                raise InputError(f"{task.title}: {why}")
            yield task, result

    def _compute(
        self, tasks: Iterable[ClusterTask], one_by_one: bool = False
    ) -> Generator[tuple[ClusterTask, Any], None, None]:
        """Yield results as they come, a `WorkerLostError` for a task that is lost again and again."""
        run, waiting = uuid.uuid4().hex, iter(tasks)
        futures: dict[Any, ClusterTask] = {}
        sources: dict[Source | None, tuple[PackedValue | None, Any]] = {None: (None, None)}

        def submit(task: ClusterTask) -> None:
            if task.source not in sources:
                if len(sources) > 2:  # the oldest; tasks under way keep it
                    del sources[list(sources)[1]]
                packed = pack(task.source)
                sources[task.source] = packed, self._put(packed)
            source, reference = sources[task.source]
            call = pack((task.function, *task.arguments), source)
            futures[self._submit(run, worker_version(), call, reference)] = task

        last_look, threads = -LOOK_S, 0
        try:
            while True:
                if time.monotonic() - last_look > LOOK_S:
                    threads, words = self._size()
                    last_look, self._seen = time.monotonic(), max(self._seen, (threads, words))
                for task in islice(waiting, max(0, (1 if one_by_one else AHEAD * threads) - len(futures))):
                    submit(task)
                if not futures:
                    return
                for future, result in self._finished(list(futures)):
                    if isinstance(result, WorkerLostError):
                        sources = {None: (None, None)}  # what a worker had may be lost with it
                    elif isinstance(result, Exception):
                        raise result
                    yield futures.pop(future), result
        except OnebitError:
            raise
        except OSError as error:
            what = f"{self.kind} {self.at} does not answer, or has no workers"
            raise NetworkError(f"{what}: {error}; the records that came are kept") from error
        except Exception as error:
            raise InputError(f"a worker of {self.kind} {self.at} failed: {type(error).__name__}: {error}") from error
        finally:
            self._end_run(run, list(futures))


def _batch(trials: Sequence[Trial]) -> ClusterTask:
    """Return a task of trials of one stream, whose identities are found here and not on each worker."""
    _ = [trial.identity for trial in trials]
    return ClusterTask(trials[0].title, run_batch, (trials,), trials[0].stream.source, tuple(trials))


def require_server(address: str) -> None:
    """Raise an OSError unless a server at `host:port` speaks first, as those of Dask and Ray do; they would wait for long."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S) as connection:
        if not connection.recv(1):
            raise ConnectionError("it hangs up")
