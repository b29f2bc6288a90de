"""Run trials on threads of this process, one per core by default.

A thread keeps taking trials of its current data until they run out, so that few data sets are in memory at a time, however many trials
there are.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from onebit.data.sources import Source
from onebit.engine.compile import helped_by
from onebit.engine.processes import CompilingProcesses, cores
from onebit.experiments.trials import Outcome, Progress, Trial
from onebit.experiments.trials.cost import format_count, processor
from onebit.experiments.trials.execution import run_trials
from onebit.experiments.trials.records import Record, make_record
from onebit.experiments.trials.shared_data import SharedData, Tables, group_by_data, require_room

PATIENCE_S = 1.5  # longest wait for a stopped thread
# Most trials that walk the pieces of a stream together, so that each piece is drawn once for all of them.
SIDE_BY_SIDE = 8


@dataclass(frozen=True)
class ThreadsExecutor:
    """Runs trials on threads of this process, one per core by default."""

    threads: int = field(default_factory=cores)

    @property
    def where(self) -> str:
        """The number of threads and the processor's name."""
        return f"{format_count(self.threads, 'thread')}, {processor()}"

    def run(self, trials: Sequence[Trial], progress: Progress) -> Generator[Record, None, None]:
        """Run the trials and yield their records as they finish."""
        groups = group_by_data(trials)
        require_room((group[0].stream for group in groups), self.threads)
        with closing(execute(groups, self.threads, progress)) as outcomes:
            for outcome in outcomes:
                yield make_record(outcome)

    def close(self) -> None:
        """Do nothing: no thread or process outlives a run."""


class _TrialGroup(NamedTuple):
    """The trials that share data and have not been started yet."""

    data: SharedData
    trials: deque[Trial]
    together: int  # number of trials run side by side


class _TrialQueue:
    """A queue of trials grouped by shared data; a thread stays with its group while trials are left."""

    def __init__(self, groups: Iterable[Sequence[Trial]], threads: int) -> None:
        self._lock = threading.Lock()
        self._threads = threads
        self._groups = (group for group in groups if group)
        self._ahead: Sequence[Trial] | None = None  # the next group, if it has been peeked at
        self._fixed: dict[tuple[Source, int], Tables] = {}  # rows that all seeds share
        self._begun: list[_TrialGroup] = []
        self._groups_begun = 0

    def take_trials(self, current: _TrialGroup | None) -> tuple[_TrialGroup, list[Trial]] | None:
        """Return trials to run now, from `current` while it has any; None if all trials have been started."""
        with self._lock:
            if current is None or not current.trials:
                self._begun = [begun for begun in self._begun if begun.trials]
                group, self._ahead = self._ahead or next(self._groups, None), None
                if group is not None:
                    data = SharedData(group[0], self._fixed)
                    together = self._count_together(len(group)) if data.in_pieces else 1
                    current = _TrialGroup(data, self._rotate(group), together)
                    self._begun.append(current)
                elif self._begun:  # help with the group that has most trials left
                    current = max(self._begun, key=lambda begun: len(begun.trials))
                else:
                    return None
            return current, [current.trials.popleft() for _ in range(min(current.together, len(current.trials)))]

    def _rotate(self, group: Sequence[Trial]) -> deque[Trial]:
        """Return the trials of a group, rotated so that each group starts at a different learner.

        All groups have the same learners; without this, two threads would wait for the same loop to be compiled.
        """
        trials = deque(group)
        trials.rotate(-(self._groups_begun % self._threads * len(group) // self._threads))
        self._groups_begun += 1
        return trials

    def _count_together(self, trials: int) -> int:
        """Return how many trials should walk the pieces of their stream together without idling a thread."""
        self._ahead = self._ahead or next(self._groups, None)
        shares = max(1 if self._ahead is not None else self._threads, -(-trials // SIDE_BY_SIDE))
        return -(-trials // shares)


def execute(groups: Iterable[Sequence[Trial]], threads: int, progress: Progress) -> Generator[Outcome, None, None]:
    """Run groups of trials that share stream and seed on threads; yield outcomes as they finish.

    A group is taken when a thread is free. If several loops need compiling, one is compiled in this process and the others in helper
    processes. Closing the iterator stops all running trials.
    """
    trial_queue, stop, lock = _TrialQueue(groups, threads), threading.Event(), threading.Lock()
    helpers = CompilingProcesses() if threads > 1 else None
    outcomes: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()

    def report(count: int) -> None:
        with lock:
            progress(count)

    def run_worker() -> None:
        group: _TrialGroup | None = None
        try:
            with helped_by(helpers):
                while not stop.is_set():
                    task = trial_queue.take_trials(group)
                    if task is None:
                        break
                    group, trials = task
                    for outcome in run_trials(trials, group.data, stop, report) or ():
                        outcomes.put(outcome)
        except BaseException as error:
            outcomes.put(error)
        finally:
            outcomes.put(None)

    workers = [threading.Thread(target=run_worker, name="onebit-trial", daemon=True) for _ in range(threads)]
    working = len(workers)
    try:
        for worker in workers:
            worker.start()
        while working:
            try:
                outcome = outcomes.get(timeout=0.2)  # short waits, so that Ctrl-C is noticed
            except queue.Empty:
                continue
            if outcome is None:
                working -= 1
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                yield outcome
    finally:
        stop.set()
        if helpers is not None:
            helpers.close()
        # A thread that draws rows cannot be interrupted: it ends later by itself and is not waited for.
        deadline = time.monotonic() + PATIENCE_S
        for worker in workers:
            if worker.ident is not None:
                worker.join(max(0.0, deadline - time.monotonic()) if working else None)
