"""The trials that nobody of a cluster is at: who gets which, and which of them are suspected of ending their workers.

A worker takes all that it has with it, so that those lost with it are innocent but for one at most. What was lost twice is a suspect: it is
tried on a worker that has nothing else, and only what is lost there is blamed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from onebit.errors import InputError
from onebit.executors.cluster.worker import named
from onebit.trials.trial import Trial

MOST_LOSSES = 3  # a trial that so many workers were lost with is not tried again, and the last of them had nothing else

Slot = tuple[str, int]  # a thread of a worker


class WorkQueue:
    """Trials by their groups. A thread that asks gets those of the group it stands on, if there are any left."""

    def __init__(self, groups: Iterable[Sequence[Trial]]) -> None:
        self._groups = [deque(group) for group in groups if group]
        self._of = {trial.identity: number for number, group in enumerate(self._groups) for trial in group}
        self._fresh = deque(range(len(self._groups)))  # those that nobody stands on yet
        self._stands: dict[Slot, int] = {}
        self._losses: Counter[str] = Counter()
        self.suspects: deque[Trial] = deque()  # each is for a worker that has nothing else
        self.count = len(self._of)  # of all others

    def __bool__(self) -> bool:
        return self.count > 0 or bool(self.suspects)

    def suspected(self, trial: Trial) -> bool:
        """Whether a trial is to be tried alone."""
        return self._losses[trial.identity] >= MOST_LOSSES - 1

    def take(self, slot: Slot, most: int) -> list[Trial]:
        """Up to so many trials of one stream."""
        taken: list[Trial] = []
        while len(taken) < most and (group := self._group(slot, taken)):
            taken.append(group.popleft())
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

    def put_back(self, trials: Sequence[Trial], slot: Slot | None = None) -> None:
        """Trials that were not done; a thread that had them stays with them."""
        for trial in reversed(trials):
            if self.suspected(trial):
                self.suspects.appendleft(trial)
                continue
            number = self._of[trial.identity]
            self._groups[number].appendleft(trial)
            self.count += 1
            if slot is not None:
                self._stands[slot] = number

    def put_back_lost(self, trials: Sequence[Trial]) -> None:
        """Trials that a worker had when it was lost, perhaps by one of them."""
        for trial in trials:
            self._losses[trial.identity] += 1
            if self._losses[trial.identity] >= MOST_LOSSES:
                raise InputError(
                    f"{named(trial)}: {MOST_LOSSES} workers were lost while they had it; perhaps it needs more memory than they have"
                )
        self.put_back(trials)
