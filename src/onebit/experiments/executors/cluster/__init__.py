"""Run trials on Dask and Ray clusters: cut them into batches and keep all workers busy.

The cluster moves data, finds free workers, and repeats tasks that were lost with a worker. A batch that is lost repeatedly is tried once
more while nothing else runs; only if it is lost then is it considered the cause.
"""

from __future__ import annotations

import socket
import uuid
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from onebit.errors import InputError, NetworkError, OnebitError
from onebit.experiments.executors.cluster.worker import PackedValue, pack, worker_version
from onebit.experiments.trials import Progress, Trial
from onebit.experiments.trials.records import Record
from onebit.experiments.trials.shared_data import group_by_data

AHEAD = 2  # submitted tasks per thread: one running, one queued
BATCH_S = 1.0  # target duration of a batch, which has at least one trial
TRIAL_S = 0.001  # duration of the shortest trial with its overhead
WAIT_S = 0.2  # longest wait before Ctrl-C is noticed
CONNECT_S = 8.0


class WorkerLostError(Exception):
    """A task was lost because its worker, or the data held by that worker, was lost."""


class ClusterExecutor(ABC):
    """Runs trials on the workers of a cluster; subclasses for Dask and Ray implement the task calls."""

    kind: str
    at: str  # e.g. "at tcp://host:8786" or "on this machine"
    _largest_size = (0, "")  # the largest size during any run

    @abstractmethod
    def _count_slots(self) -> tuple[int, str]:
        """Wait for workers; return how many tasks run at once (at least 1) and a text on the workers."""

    @abstractmethod
    def _send_source(self, source: PackedValue) -> Any:
        """Store data in the cluster; return a reference that tasks take as an argument."""

    @abstractmethod
    def _submit_batch(self, *arguments: Any) -> Any:
        """Submit `run_batch` with these arguments and return its future."""

    @abstractmethod
    def _take_finished(self, futures: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield finished futures with their results, or a `WorkerLostError`; wait at most `WAIT_S`."""

    @abstractmethod
    def _end_run(self, run: str, futures: Sequence[Any]) -> None:
        """Stop these tasks of a run and release its data."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect from the cluster; shut it down if it was started here."""

    @property
    def where(self) -> str:
        """The workers of the cluster: the largest number seen during any run."""
        return f"{self.kind}, {(self._largest_size if self._largest_size[0] else self._count_slots())[1]} {self.at}"

    def run(self, trials: Sequence[Trial], progress: Progress) -> Generator[Record, None, None]:
        """Run the trials in batches and yield their records; closing the generator stops all tasks."""
        with closing(self._run_batches(group_by_data(trials))) as batches:
            for batch, records in batches:
                for trial, record in zip(batch, records, strict=True):
                    progress(trial.stream.rounds)
                    yield record

    def _run_batches(
        self, groups: Sequence[Sequence[Trial]]
    ) -> Generator[tuple[list[Trial], list[Record]], None, None]:
        self._seconds = BATCH_S  # duration of a trial, as measured in the last batch
        run, futures, waiting = uuid.uuid4().hex, dict[Any, list[Trial]](), self._cut_batches(groups)
        lost_trials, is_retry = list[Trial](), False
        source, reference = None, None  # the data sent last; submitted batches keep their own reference
        try:
            while True:
                size = self._count_slots()
                self._largest_size = max(self._largest_size, size)
                for batch in islice(waiting, max(0, (1 if is_retry else AHEAD * size[0]) - len(futures))):
                    if batch[0].stream.source is not source:
                        source = batch[0].stream.source
                        reference = self._send_source(pack(source, with_source=True))
                    futures[self._submit_batch(run, worker_version(), pack(batch), reference)] = batch
                if not futures:
                    if not lost_trials:
                        return
                    waiting, lost_trials, is_retry = iter([[trial] for trial in lost_trials]), [], True
                    continue
                for future, result in self._take_finished(list(futures)):
                    batch = futures.pop(future)
                    if isinstance(result, WorkerLostError):
                        if is_retry:
                            reason = "every worker that had it was lost; perhaps it needs more memory than they have"
                            raise InputError(f"{batch[0].title}: {reason}")
                        lost_trials += batch
                        source = None  # data held by a lost worker may be lost too
                    else:
                        records, self._seconds = result
                        yield batch, records
        except OnebitError:
            raise
        except OSError as error:
            cluster = f"{self.kind} {self.at} does not answer, or has no workers"
            raise NetworkError(f"{cluster}: {error}; finished runs are kept") from error
        except Exception as error:
            raise InputError(f"a worker of {self.kind} {self.at} failed: {type(error).__name__}: {error}") from error
        finally:
            self._end_run(run, list(futures))

    def _cut_batches(self, groups: Iterable[Sequence[Trial]]) -> Iterator[list[Trial]]:
        """Yield batches that take about a second each.

        The identities of the trials are computed here rather than on each worker.
        """
        for group in map(iter, groups):
            while batch := list(islice(group, max(1, int(BATCH_S / max(self._seconds, TRIAL_S))))):
                _ = [trial.identity for trial in batch]
                yield batch


def require_server(address: str) -> None:
    """Raise OSError unless a server at `host:port` sends data first, as Dask and Ray servers do.

    Without this check Dask and Ray would wait a long time for a server that is not there.
    """
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S) as connection:
        if not connection.recv(1):
            raise ConnectionError("the server closed the connection")
