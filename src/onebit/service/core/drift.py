"""Drift detection: whether a task makes more mistakes than it used to.

This is the change detector of `auto`, run beside any learner over all feedback that counts. Its state is part of the task's statistics, and so a function
of the log: a restarted service raises the same alarms at the same rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onebit.auto.change_detector import NUMBERS, SUM, USUAL, detects, initial
from onebit.contract.validation import is_whole_number
from onebit.errors import InputError
from onebit.service.store.clock import rfc3339

KEPT = 20  # last alarms
LARGEST = 2**53


class Alarm(NamedTuple):
    """An alarm: the error has risen by more than chance explains."""

    seq: int  # of the feedback that triggered it
    time: float
    feedback: int  # number of feedbacks so far
    since: int  # estimated number of those since the error rose
    usual: float  # upper bound on the usual error of the task
    error: float  # error since it rose


class DriftDetector:
    """A change detector that is fed every feedback of a task that counts, in log order."""

    def __init__(self) -> None:
        self._memory: list[float] = []  # state of the detector, from the first feedback on
        self._since = self._wrong = 0  # feedbacks and mistakes since Page's sum was 0
        self.count = 0  # number of all alarms
        self.alarms: list[Alarm] = []

    def hear(self, seq: int, time: float, worth: float, classes: int, feedback: int) -> None:
        """Update with the `feedback`-th feedback, and raise an alarm if it shows drift.

        A reward becomes a bit that is right with that probability, drawn from the number of the row.
        """
        wrong = worth <= _share_of(seq)
        memory = self._memory = self._memory or list(initial(classes))
        usual = memory[USUAL]
        if memory[SUM] == 0.0:
            self._since = self._wrong = 0
        self._since += 1
        self._wrong += wrong
        if detects(memory, 0, classes, wrong):  # type: ignore[arg-type]  # it is compiled for arrays, and runs on lists
            self.count += 1
            alarm = Alarm(seq, time, feedback, self._since, usual, self._wrong / self._since)
            self.alarms = [*self.alarms[1 - KEPT :], alarm]

    def shown(self) -> dict[str, Any]:
        """Return the alarms in the form of `replies.DriftStats`."""
        alarms = [{**one._asdict(), "raised_at": rfc3339(one.time)} for one in self.alarms]
        return {"count": self.count, "alarms": alarms}

    def to_dict(self) -> dict[str, Any]:
        """Return the state for a snapshot."""
        return {
            "memory": list(self._memory),
            "since": self._since,
            "wrong": self._wrong,
            "count": self.count,
            "alarms": [list(alarm) for alarm in self.alarms],
        }

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> DriftDetector:
        """Restore from a snapshot, which is untrusted: raise InputError for an impossible state."""
        memory, alarms = kept["memory"], kept["alarms"]
        good = len(memory) in (0, NUMBERS) and all(_is_number(one) for one in memory)
        good = good and (not memory or 0.0 < memory[USUAL] < 1.0)
        good = good and all(is_whole_number(kept[name], 0, LARGEST) for name in ("since", "wrong", "count"))
        good = good and len(alarms) == min(kept["count"], KEPT) and all(_is_alarm(one) for one in alarms)
        if not good:
            raise InputError("what the statistics know of drift cannot be: other lengths, or no numbers from 0 up")
        made = cls()
        made._memory = [float(one) for one in memory]
        made._since, made._wrong, made.count = kept["since"], kept["wrong"], kept["count"]
        made.alarms = [Alarm(*one) for one in alarms]
        return made


def _share_of(seq: int) -> float:
    """Return a quasi-random number in [0, 1) for a row, a multiple of the golden ratio modulo 1."""
    return (seq * 0x9E3779B97F4A7C15 % 2**64 >> 11) / 2**53


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 <= value <= LARGEST


def _is_alarm(one: Any) -> bool:
    return (
        isinstance(one, list)
        and len(one) == len(Alarm._fields)
        and all(is_whole_number(one[place], 0, LARGEST) for place in (0, 2, 3))
        and all(isinstance(one[place], float) and abs(one[place]) <= LARGEST for place in (1, 4, 5))
    )
