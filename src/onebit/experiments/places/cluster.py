"""What the clusters of Dask and of Ray share: who gets which trials, what is lost and done again, and who is refused.

A worker gets trials in batches. It works on a batch for about a second and gives back the rows that it has by then; the trials
that are left go to whoever is free next. So nobody need know beforehand how long a trial takes, and a worker that is lost takes
little with it.
"""

from __future__ import annotations

import math
import socket
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Hashable, Iterable, Sequence

from onebit.data.sources import Source
from onebit.engine.compile import ANNOUNCED
from onebit.errors import OnebitError
from onebit.experiments.places.travel import TASK_S, Batch, Introduction, batch_of, introduction
from onebit.experiments.rows import Row
from onebit.experiments.trial import Progress, Trial

AHEAD = 2  # batches that a thread of a worker has: one that it works on, one that it begins with at once
LEAST_S = 0.1  # a batch is worth sending if it takes so long
TRIAL_S = 0.001  # so long takes the shortest trial, with what is done before and after it
MOST_TRIALS = 1000  # of a batch
MOST_LOSSES = 3  # a trial that so many workers were lost with is not tried again
BREATH_S = 0.2  # Ctrl-C and lost workers are noticed about this often
CONNECT_S = 8.0  # so long a cluster is called
LOOK_S = 1.0  # so often the cluster is asked who is there
NO_WORKERS_S = 60.0  # a cluster may be without workers for so long: they start, or start again


def missing(package: str, extra: str) -> OnebitError:
    """What is said where a package is not installed."""
    return OnebitError(f'{package} is not installed here: pip install "onebit[{extra}]"')


def call(address: str) -> None:
    """Raise an OSError unless a server at `host:port` says something within some seconds, as those of Dask and Ray do."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S) as line:
        if not line.recv(1):
            raise ConnectionError("it hangs up")


class Lost(Exception):  # noqa: N818
    """A worker has gone, and what it was at with it."""


Slot = tuple[str, int]  # a thread of a worker


class Crew(ABC):
    """The workers of a cluster, as Dask and Ray each have them."""

    kind: str  # "Dask"
    at: str  # "at tcp://host:8786", "on this machine"

    @abstractmethod
    def present(self) -> dict[str, int]:
        """The workers that are there now, each with its number of threads."""

    @abstractmethod
    def introductions(self, workers: Iterable[str]) -> dict[str, Introduction | Exception]:
        """What these workers run, or why they cannot say so."""

    @abstractmethod
    def send(self, worker: str, threads: int, batch: Batch, source: Source) -> Hashable:
        """Have a worker do a batch; what is answered is its ticket. `Lost` where the worker cannot be reached."""

    @abstractmethod
    def answers(self, timeout: float) -> list[tuple[Hashable, list[Row] | BaseException]]:
        """What has been done, by ticket; `Lost` in place of rows where the worker has gone. Waits so long for something."""

    @abstractmethod
    def forget(self, tickets: Iterable[Hashable]) -> None:
        """Stop these batches, and give no answer to them."""

    @abstractmethod
    def rest(self) -> None:
        """Let go of all data: nothing is to be done for now."""

    @abstractmethod
    def close(self) -> None:
        """End what was started for this crew."""


class _Waiting:
    """Trials that nobody is at, by their groups. A thread that asks gets those of the group it stands on, if there are any left."""

    def __init__(self, groups: Iterable[Sequence[Trial]]) -> None:
        self._groups = [deque(group) for group in groups if group]
        self._of = {trial.identity: number for number, group in enumerate(self._groups) for trial in group}
        self._fresh = deque(range(len(self._groups)))  # those that nobody stands on yet
        self._stands: dict[Slot, int] = {}
        self._losses: dict[str, int] = {}
        self.count = len(self._of)

    def take(self, slot: Slot, most: int) -> list[Trial]:
        """Up to so many trials of one stream."""
        taken: list[Trial] = []
        while len(taken) < most:
            group = self._group(slot, taken)
            if not group or (taken and group[0].identity in self._losses):
                break
            taken.append(group.popleft())
            if taken[0].identity in self._losses:  # alone, so that the one that ends workers is found
                break
        self.count -= len(taken)
        return taken

    def _group(self, slot: Slot, taken: Sequence[Trial]) -> deque[Trial]:
        number = self._stands.get(slot)
        if number is not None and self._groups[number]:
            return self._groups[number]
        if self._fresh:
            found = self._groups[self._fresh[0]]
            if taken and found[0].stream is not taken[0].stream:
                return deque()
            self._stands[slot] = self._fresh.popleft()
            return found
        if not taken:  # help where most is left
            self._stands[slot] = max(range(len(self._groups)), key=lambda number: len(self._groups[number]))
            return self._groups[self._stands[slot]]
        return deque()

    def put_back(self, slot: Slot, trials: Sequence[Trial]) -> None:
        """Trials that were not done."""
        for trial in reversed(trials):
            self._stands[slot] = self._of[trial.identity]
            self._groups[self._stands[slot]].appendleft(trial)
        self.count += len(trials)

    def put_back_lost(self, slot: Slot, trials: Sequence[Trial]) -> None:
        """Trials whose worker is lost, perhaps by one of them."""
        for trial in trials:
            lost = self._losses[trial.identity] = self._losses.get(trial.identity, 0) + 1
            if lost >= MOST_LOSSES:
                raise OnebitError(
                    f"{trial.entry.title} on {trial.stream.name}, seed {trial.seed}: {lost} workers were lost while they had it; "
                    "perhaps it needs more memory than they have"
                )
        self.put_back(slot, trials)
        del self._stands[slot]


class ClusterPlace:
    """The workers of a cluster."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._workers: dict[str, int] = {}
        self._introduced: dict[str, bool] = {}
        self._refusal = ""
        self._pace = math.inf
        self._looked = self._seen = time.monotonic()
        self._look()

    @property
    def where(self) -> str:
        """How many workers there are, and where."""
        threads = sum(self._workers.values())
        workers = f"{_counted(len(self._workers), 'worker')} with {_counted(threads, 'thread')}"
        return f"{self._crew.kind}, {workers} {self._crew.at}"

    def core_rate(self, trial: Trial) -> None:
        """Nothing: the rows have it."""

    def close(self) -> None:
        """End what was started for this place."""
        self._crew.close()

    def run(self, groups: Sequence[Sequence[Trial]], progress: Progress) -> Generator[Row, None, None]:
        """The rows of these trials as batches of them are done."""
        crew, waiting = self._crew, _Waiting(groups)
        sent: dict[Hashable, tuple[Slot, list[Trial]]] = {}
        done: list[tuple[Trial, Row]] = []
        self._seen, self._pace, self._looked = time.monotonic(), math.inf, -math.inf
        try:
            while waiting.count or sent or done:
                self._notice(waiting, sent)
                self._hand_out(waiting, sent)
                for trial, row in done:  # after the workers have got more to do
                    progress(trial.stream.rounds)
                    yield row
                done = []
                for ticket, answer in crew.answers(BREATH_S) if sent else ():
                    slot, trials = sent.pop(ticket)
                    if isinstance(answer, Lost):
                        self._looked = -math.inf  # somebody has gone
                        waiting.put_back_lost(slot, trials)
                    elif isinstance(answer, BaseException):
                        raise answer
                    else:
                        done += zip(trials, answer, strict=False)
                        self._pace = max((row.fields["seconds"] for row in answer), default=self._pace)
                        waiting.put_back(slot, trials[len(answer) :])
                if waiting.count and not sent and not done:  # for workers
                    time.sleep(BREATH_S)
        finally:
            crew.forget(sent)
            crew.rest()

    def _hand_out(self, waiting: _Waiting, sent: dict[Hashable, tuple[Slot, list[Trial]]]) -> None:
        busy: dict[Slot, int] = {}
        for slot, _ in sent.values():
            busy[slot] = busy.get(slot, 0) + 1
        slots = [(worker, number) for worker, threads in self._workers.items() for number in range(threads)]
        least = int(LEAST_S / max(self._pace, TRIAL_S))
        # What waits behind a long trial would wait there when others have nothing left to do.
        for ahead in range(AHEAD if self._pace < TASK_S else 1):
            for slot in slots:
                if waiting.count and busy.get(slot, 0) == ahead:
                    # The fewer are left, the fewer go at once, so that all end at about the same time.
                    share = max(1 + waiting.count // (2 * AHEAD * len(slots)), least)
                    trials = waiting.take(slot, min(MOST_TRIALS, share))
                    worker = slot[0]
                    try:
                        ticket = self._crew.send(
                            worker, self._workers[worker], batch_of(trials), trials[0].stream.source
                        )
                    except Lost:
                        waiting.put_back(slot, trials)
                        return
                    sent[ticket] = slot, trials
                    busy[slot] = ahead + 1

    def _notice(self, waiting: _Waiting, sent: dict[Hashable, tuple[Slot, list[Trial]]]) -> None:
        """Who has come and who has gone; what those had is to be done again."""
        now = time.monotonic()
        if now - self._looked < LOOK_S and self._workers:
            return
        self._look()
        gone = [ticket for ticket, (slot, _) in sent.items() if slot[0] not in self._workers]
        self._crew.forget(gone)
        for ticket in gone:
            waiting.put_back_lost(*sent.pop(ticket))
        if self._workers:
            self._seen = now
        elif self._refusal and not any(self._introduced.values()):
            raise OnebitError(self._refusal)
        elif now - self._seen > NO_WORKERS_S:
            raise OnebitError(f"{self._crew.kind} {self._crew.at} has had no workers for {NO_WORKERS_S:g} s")

    def _look(self) -> None:
        present = self._crew.present()
        new = [worker for worker in present if worker not in self._introduced]
        for worker, said in self._crew.introductions(new).items() if new else ():
            if isinstance(said, OSError):  # it cannot be reached: asked again while it is there
                continue
            self._introduced[worker] = said == introduction()
            if not self._introduced[worker]:
                what = f"cannot say what it runs ({said})" if isinstance(said, Exception) else f"runs {said}"
                self._refusal = f"the worker {worker} is left out: it {what}, and here it is {introduction()}; install the same everywhere"
                ANNOUNCED[-1](self._refusal)
        self._workers = {worker: threads for worker, threads in present.items() if self._introduced.get(worker)}
        self._looked = time.monotonic()


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
