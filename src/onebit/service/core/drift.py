"""Drift detection: whether a task makes more mistakes than it used to.

This is the change detector of `auto`, run beside any learner over all feedback that counts. Its state is part of the task's statistics, and so a function
of the log: a restarted service raises the same alarms at the same rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from onebit.auto.change_detector import STATE_SIZE, SUM, USUAL, detect_change, initial_state
from onebit.errors import InputError

KEPT = 20  # last alarms
LARGEST = 2**53
Count = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]
Real = Annotated[float, Field(strict=True, ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]


class Alarm(NamedTuple):
    """An alarm: the error has risen by more than chance explains."""

    seq: Count  # of the feedback that triggered it
    time: Real
    feedback: Count  # number of feedbacks so far
    since: Count  # estimated number of those since the error rose
    usual: Real  # upper bound on the usual error of the task
    error: Real  # error since it rose


@dataclass
class DriftDetector:
    """A change detector that is fed every feedback of a task that counts, in log order."""

    memory: list[Real] = field(default_factory=list)  # state of the detector, from the first feedback on
    since: Count = 0  # feedbacks since Page's sum was 0
    wrong: Count = 0  # mistakes since then
    count: Count = 0  # number of all alarms
    alarms: list[Alarm] = field(default_factory=list)

    def add(self, seq: int, time: float, worth: float, classes: int, feedback: int) -> None:
        """Update the detector with one feedback; record an alarm if drift is detected.

        A reward becomes a bit that is right with that probability, drawn from the number of the row.
        """
        wrong = worth <= _draw_for_row(seq)
        memory = self.memory = self.memory or list(initial_state(classes))
        usual = memory[USUAL]
        if memory[SUM] == 0.0:
            self.since = self.wrong = 0
        self.since += 1
        self.wrong += wrong
        if detect_change(memory, 0, classes, wrong):  # type: ignore[arg-type]  # it is compiled for arrays, and runs on lists
            self.count += 1
            alarm = Alarm(seq, time, feedback, self.since, usual, self.wrong / self.since)
            self.alarms = [*self.alarms[1 - KEPT :], alarm]

    def summarize(self) -> dict[str, Any]:
        """Return the alarms in the form of `replies.DriftStats`."""
        return {"count": self.count, "alarms": [alarm._asdict() for alarm in self.alarms]}

    def to_dict(self) -> dict[str, Any]:
        """Return the state for a snapshot."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> DriftDetector:
        """Restore from a snapshot, which is untrusted: raise InputError for an impossible state."""
        try:
            detector = _DETECTOR.validate_python(state)
        except ValidationError as error:
            raise InputError(f"invalid drift statistics: {error}") from None
        memory, alarms = detector.memory, detector.alarms
        if len(memory) not in (0, STATE_SIZE) or (memory and not (min(memory) >= 0.0 < memory[USUAL] < 1.0)):
            raise InputError("invalid drift statistics: wrong number or range of the detector's values")
        if len(alarms) != min(detector.count, KEPT):
            raise InputError("invalid drift statistics: the number of alarms differs from the count")
        return detector


def _draw_for_row(seq: int) -> float:
    """Return a quasi-random number in [0, 1) for a row, a multiple of the golden ratio modulo 1."""
    return (seq * 0x9E3779B97F4A7C15 % 2**64 >> 11) / 2**53


_DETECTOR = TypeAdapter(DriftDetector)
