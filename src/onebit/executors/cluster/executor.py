"""What the clusters of Dask and of Ray share: who gets which trials, what is lost and done again, and who is refused.

A worker gets trials in batches. It works on a batch for about a second and gives back the records that it has by then; the trials
that are left go to whoever is free next. So nobody need know beforehand how long a trial takes, and a worker that is lost takes
little with it.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from onebit.data.sources import Source
from onebit.errors import InputError, MissingExtraError, NetworkError, OnebitError
from onebit.executors.cluster.work_queue import MOST_LOSSES, Slot, WorkQueue
from onebit.executors.cluster.worker import TASK_S, TrialBatch, WorkerVersion, batch_of, named, worker_version
from onebit.executors.threads import Fallback, threads_executor
from onebit.installation import install_command
from onebit.trials.cost import Resource, number_of
from onebit.trials.records import Record
from onebit.trials.trial import Progress, Trial

LOG = logging.getLogger("onebit.executors")

AHEAD = 2  # batches that a thread of a worker has: one that it works on, one that it begins with at once
LEAST_S = 0.1  # a batch is worth sending if it takes so long
TRIAL_S = 0.001  # so long takes the shortest trial, with what is done before and after it
MOST_TRIALS = 1000  # of a batch
BREATH_S = 0.2  # Ctrl-C and lost workers are noticed about this often
CONNECT_S = 8.0  # so long a cluster is called
GREETING = 8  # bytes of what a server says first
LOOK_S = 1.0  # so often the cluster is asked who is there
SAFE_PATH = "PYTHONSAFEPATH"
NO_WORKERS_S = 60.0  # a cluster may be without workers that take something for so long: they start, or start again


@contextmanager
def safe_path() -> Iterator[None]:
    """Python processes that are started meanwhile do not look for code in the folder where they are: anybody may have put some there."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def missing(package: str, extra: str) -> OnebitError:
    """What is said where a package is not installed."""
    return MissingExtraError(f"{package} is not installed here: {install_command(extra)}")


def call(address: str, greets: Callable[[bytes], bool] = lambda greeting: True) -> None:
    """Raise an OSError unless a server at `host:port` says within some seconds what those of Dask, or of Ray, begin with."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S) as line:
        greeting = b""
        while len(greeting) < GREETING:
            more = line.recv(GREETING - len(greeting))
            if not more:
                raise ConnectionError("it hangs up")
            greeting += more
    if not greets(greeting):
        raise ConnectionError(f"something else answers there: {greeting!r}")


Work = Callable[[Any, Callable[[], bool]], Any]  # what is done with an item; the other argument says whether to stop


class WorkerLostError(Exception):
    """A worker has gone, and what it was at with it."""


class Backend(ABC):
    """The workers of a cluster, as Dask and Ray each have them."""

    kind: str  # "Dask"
    at: str  # "at tcp://host:8786", "on this machine"
    more: str  # how another worker is started

    @abstractmethod
    def present(self) -> dict[str, int]:
        """The workers that are there now, each with its number of threads."""

    @abstractmethod
    def versions(self, workers: Iterable[str]) -> dict[str, WorkerVersion | Exception]:
        """What these workers run, or why they cannot say so."""

    @abstractmethod
    def send(self, worker: str, threads: int, batch: TrialBatch, source: Source) -> Hashable:
        """Have a worker do a batch; what is answered is its ticket. `WorkerLostError` where the worker cannot be reached."""

    @abstractmethod
    def ask(self, worker: str, work: Work, item: Any) -> Hashable:
        """Have a worker call a function with an item and whether it is to stop; what is answered is its ticket, as of `send`."""

    @abstractmethod
    def answers(self, timeout: float) -> list[tuple[Hashable, Any]]:
        """What has been done, by ticket; `WorkerLostError` in its place where the worker has gone. Waits so long for something."""

    @abstractmethod
    def forget(self, tickets: Iterable[Hashable]) -> None:
        """Stop these batches, and give no answer to them."""

    @abstractmethod
    def release(self, source: Source) -> None:
        """Let go of these data: nothing more is to be done with them for now."""

    @abstractmethod
    def close(self) -> None:
        """End what was started for this backend."""


Sent = dict[Hashable, tuple[Slot, list[Any]]]  # batches under way, by their tickets


class Waiting(Protocol):
    """What is to be done again where a worker is lost."""

    def put_back_lost(self, lost: list[Any]) -> None:
        """These were lost with their worker."""


class _Items:
    """Items that wait for a worker, by their numbers; one that too many workers were lost with is refused."""

    def __init__(self, count: int) -> None:
        self.waiting = deque(range(count))
        self._losses: Counter[int] = Counter()

    def put_back_lost(self, lost: list[int]) -> None:
        """These were lost with their worker."""
        for number in lost:
            self._losses[number] += 1
            if self._losses[number] == MOST_LOSSES:
                raise InputError(
                    f"{MOST_LOSSES} workers were lost with the same piece of work: perhaps they are short of memory"
                )
            self.waiting.appendleft(number)


class ClusterExecutor:
    """The workers of a cluster."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._fallback = backend, Fallback(threads_executor())
        self._workers: dict[str, int] = {}
        self._seen: dict[str, int] = {}  # all that were there during the last run
        self._accepted: dict[str, bool] = {}
        self._refusal = ""
        self._pace = math.inf
        self._looked = -math.inf
        self._trouble: Exception | None = None  # why the last thing that was tried could not be done
        self._stuck: float | None = None  # since when nothing is under way, and nothing can be
        self._look()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """How many workers there were during the last run, and where; threads where they were needed."""
        threads = self._fallback.resources
        if threads and not self._seen:
            return threads
        workers = f"{number_of(len(self._seen), 'worker')} with {number_of(sum(self._seen.values()), 'thread')}"
        return (Resource(f"{self._backend.kind}, {workers} {self._backend.at}"), *threads)

    def core_rate(self, trial: Trial) -> None:
        """Nothing: the records have it."""

    def close(self) -> None:
        """End what was started for this executor."""
        self._backend.close()

    def run(self, groups: Sequence[Sequence[Trial]], progress: Progress) -> Generator[Record, None, None]:
        """The records of these trials as batches of them are done, and then of those that only this process can run."""
        self._seen = {}
        self._fallback.begin()
        sent: list[list[Trial]] = []
        for group in groups:
            for trial in group:
                if trial.measurement is not None:
                    self._fallback.leave([trial], f"{trial.measurement.what} is measured")
            sent.append([trial for trial in group if trial.measurement is None])
        yield from self._run(sent, progress)
        yield from self._fallback.run(progress)

    def each(self, work: Work, items: Sequence[Any]) -> Generator[tuple[int, Any], None, None]:
        """What a function gives for each of these items, with its number, as it comes; closing this stops what is under way."""
        backend, queue = self._backend, _Items(len(items))
        sent: Sent = {}
        self._looked, self._trouble, self._stuck = -math.inf, None, None
        try:
            while queue.waiting or sent:
                self._watch_workers(queue, sent)
                busy = Counter(slot[0] for slot, _ in sent.values())
                for worker, threads in self._workers.items():
                    while queue.waiting and busy[worker] < threads:
                        try:
                            ticket = backend.ask(worker, work, items[queue.waiting[0]])
                        except WorkerLostError as lost:
                            self._looked, self._trouble = -math.inf, lost
                            break
                        sent[ticket] = (worker, 0), [queue.waiting.popleft()]
                        self._trouble = self._stuck = None
                        busy[worker] += 1
                for ticket, answer in backend.answers(BREATH_S) if sent else ():
                    if ticket not in sent:  # it went with its worker
                        continue
                    (worker, _), (number,) = sent[ticket]
                    if isinstance(answer, WorkerLostError):
                        self._looked = -math.inf
                        self._lose(worker, queue, sent)
                    elif isinstance(answer, OnebitError):
                        raise answer
                    elif isinstance(answer, BaseException):
                        raise InputError(f"the worker {worker} failed: {type(answer).__name__}: {answer}") from answer
                    else:
                        del sent[ticket]
                        yield number, answer
                if queue.waiting and not sent:
                    time.sleep(BREATH_S)
        finally:
            backend.forget(list(sent))

    def _run(self, groups: Sequence[Sequence[Trial]], progress: Progress) -> Generator[Record, None, None]:
        backend, queue = self._backend, WorkQueue(groups)
        sent: Sent = {}
        done: list[tuple[Trial, Record]] = []
        left = Counter(trial.stream.source for group in groups for trial in group)
        self._pace, self._looked, self._trouble, self._stuck = math.inf, -math.inf, None, None
        try:
            while queue or sent or done:
                self._watch_workers(queue, sent)
                self._assign(queue, sent)
                for trial, record in done:  # after the workers have got more to do
                    progress(trial.stream.rounds)
                    yield record
                    left[trial.stream.source] -= 1
                    if not left[trial.stream.source]:
                        backend.release(trial.stream.source)
                done = []
                for ticket, answer in backend.answers(BREATH_S) if sent else ():
                    if ticket not in sent:  # it went with its worker
                        continue
                    slot, trials = sent[ticket]
                    if isinstance(answer, WorkerLostError):
                        self._looked = -math.inf  # somebody has gone
                        self._lose(slot[0], queue, sent)
                    elif isinstance(answer, OnebitError):
                        raise answer
                    elif isinstance(answer, BaseException):
                        what = f"{type(answer).__name__}: {answer}"
                        raise InputError(f"the worker {slot[0]} failed at {named(trials[0])}: {what}") from answer
                    else:
                        del sent[ticket]
                        done += zip(trials, answer, strict=False)
                        self._pace = max((record.fields["seconds"] for record in answer), default=self._pace)
                        queue.put_back(trials[len(answer) :], slot)
                if queue and not sent and not done:  # for workers
                    time.sleep(BREATH_S)
        finally:
            backend.forget(sent)
            for source in +left:
                backend.release(source)

    def _assign(self, queue: WorkQueue, sent: Sent) -> None:
        apart = self._single_out(queue, sent)
        busy = Counter(slot for slot, _ in sent.values())
        present = {worker: threads for worker, threads in self._workers.items() if worker not in apart}
        slots = [(worker, number) for worker, threads in present.items() for number in range(threads)]
        least = int(LEAST_S / max(self._pace, TRIAL_S))
        # What waits behind a long trial would wait there when others have nothing left to do.
        for ahead in range(AHEAD if self._pace < TASK_S else 1):
            for slot in slots:
                if queue.count and busy[slot] == ahead:
                    # The fewer are left, the fewer go at once, so that all end at about the same time.
                    share = max(1 + queue.count // (2 * AHEAD * len(slots)), least)
                    if not self._send(slot, queue.take(slot, min(MOST_TRIALS, share)), queue, sent):
                        return
                    busy[slot] += 1

    def _single_out(self, queue: WorkQueue, sent: Sent) -> set[str]:
        """Send suspects to workers that have nothing else, fresh ones or any when all else is done; those get nothing meanwhile."""
        held = Counter(slot[0] for slot, _ in sent.values())
        apart = {slot[0] for slot, trials in sent.values() if queue.suspected(trials[0])}
        for worker in self._workers:
            if queue.suspects and not held[worker]:
                if not self._send((worker, 0), [queue.suspects.popleft()], queue, sent):
                    break
                apart.add(worker)
        return apart

    def _send(self, slot: Slot, trials: list[Trial], queue: WorkQueue, sent: Sent) -> bool:
        """Whether a batch is on its way; else it waits again."""
        worker, source = slot[0], trials[0].stream.source
        try:
            ticket = self._backend.send(worker, self._workers[worker], batch_of(trials), source)
        except WorkerLostError as lost:
            queue.put_back(trials, slot)
            self._looked, self._trouble = -math.inf, lost
            return False
        sent[ticket] = slot, trials
        self._trouble = self._stuck = None
        return True

    def _lose(self, worker: str, queue: Waiting, sent: Sent) -> None:
        """What a lost worker had is to be done again."""
        held = [ticket for ticket, (slot, _) in sent.items() if slot[0] == worker]
        self._backend.forget(held)
        for ticket in held:
            queue.put_back_lost(sent.pop(ticket)[1])

    def _watch_workers(self, queue: Waiting, sent: Sent) -> None:
        """Who has come and who has gone; what those had is to be done again."""
        now = time.monotonic()
        if now - self._looked < LOOK_S and self._workers:
            return
        before = self._workers
        self._look()
        for worker in before:
            if worker not in self._workers:
                self._lose(worker, queue, sent)
        if not self._workers and self._refusal and not any(self._accepted.values()):
            raise InputError(f"{self._backend.kind} {self._backend.at} has no workers but those that are left out")
        if sent or (self._workers and self._trouble is None):
            self._stuck = None
        elif self._stuck is None:
            self._stuck = now
            if not self._workers:
                at = f"{self._backend.kind} {self._backend.at}"
                LOG.info("waiting for workers of %s; %s", at, self._backend.more)
        elif now - self._stuck > NO_WORKERS_S:
            what = "taken nothing" if self._workers else "had no workers"
            why = f": {self._trouble}" if self._trouble else f"; {self._backend.more}"
            raise NetworkError(f"{self._backend.kind} {self._backend.at} has {what} for {NO_WORKERS_S:g} s{why}")

    def _look(self) -> None:
        present = self._backend.present()
        new = [worker for worker in present if worker not in self._accepted]
        for worker, said in self._backend.versions(new).items() if new else ():
            if isinstance(said, OSError):  # it cannot be reached: asked again while it is there
                self._trouble = said
                continue
            self._accepted[worker] = said == worker_version()
            if not self._accepted[worker]:
                what = f"runs {said}, and here it is {worker_version()}; install the same everywhere"
                what = f"cannot say what it runs: {said}" if isinstance(said, Exception) else what
                self._refusal = f"the worker {worker} is left out: it {what}"
                LOG.warning("%s", self._refusal)
        self._workers = {worker: threads for worker, threads in present.items() if self._accepted.get(worker)}
        self._seen |= self._workers
        self._looked = time.monotonic()
