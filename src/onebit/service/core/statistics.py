"""The statistics of a task: counts, rates and intervals, as a function of the log.

They are updated while the log is followed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from onebit.contract.description import wilson_interval
from onebit.contract.validation import ClassName
from onebit.errors import InputError
from onebit.service.core.drift import DriftDetector
from onebit.service.core.history import REWARD, SURE, SURE_WRONG, WINDOW, FeedbackCurve, Ring, require_counts
from onebit.service.core.shadow import ShadowRounds
from onebit.service.store.queries import Event
from onebit.service.store.rows import DecisionHead
from onebit.service.task import is_unsure

SECONDS = 120
MOST_DISORDER_S = 600  # feedback is counted after later decisions, but is seldom that much older
BOUNDS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 300, 1800, 7200, 43_200, 86_400, 604_800)
COUNTS = (
    *("decisions", "feedback", "right", "late", "silences", "revised", "withdrawn", "refused"),
    *("rewards", "truths"),  # feedbacks with a reward, and with the right class
    *("asked", "sure"),  # decisions with a required confidence, and those that were sure
)
SHOWN = COUNTS[: COUNTS.index("asked")]


Shares = tuple[float, float, float] | tuple[None, None, None]


def _estimate_share(count: float, total: int) -> Shares:
    """Return a proportion with the bounds of its 95 % interval; None for each without rounds."""
    return wilson_interval(count, total) if total else (None, None, None)


class Statistics:
    """The counts of one task. One thread adds to them; any thread may read them."""

    def __init__(self, classes: int) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(COUNTS, 0)
        self._classes = np.zeros((3, classes), dtype=np.int64)  # played, heard, right
        self._wrong = Ring()
        self._explored = Ring()
        self._delays = np.zeros(len(BOUNDS_S) + 1, dtype=np.int64)
        self._seconds: dict[int, list[int]] = {}  # numbers of decisions and feedbacks, by second
        self._rewards: Ring | None = None  # None if there were no rewards
        self._curve = FeedbackCurve()
        self.drift = DriftDetector()
        self._shadow: ShadowRounds | None = None  # None if nothing else was ever shown

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self._classes.shape[1])

    def add_class(self) -> None:
        """Add a class with zero counts."""
        with self._lock:
            self._classes = np.concatenate([self._classes, np.zeros((3, 1), dtype=np.int64)], axis=1)

    def count_decisions(self, decisions: Sequence[DecisionHead]) -> None:
        """Add decisions to the counts of labels, exploration, confidence and time."""
        played = np.array([decision.label for decision in decisions], dtype=np.int64)
        greedy = np.array([decision.greedy for decision in decisions], dtype=np.int64)
        limited = [decision for decision in decisions if decision.sure is not None]
        with self._lock:
            self._counts["decisions"] += len(played)
            self._counts["asked"] += len(limited)
            self._counts["sure"] += sum(not is_unsure(decision.confidence, decision.sure) for decision in limited)
            np.add.at(self._classes[0], played, 1)
            self._explored.add(played != greedy)
            self._count_seconds([decision.time for decision in decisions], 0)

    def count_feedback(self, events: Sequence[Event]) -> None:
        """Add feedback to all counts, windows and curves.

        Withdrawn feedback is counted only as such; delays are those of the first feedback.
        """
        answers = [event for event in events if event.right is not None]
        delays = [event.time - event.decision.time for event in answers if event.source == "caller"]
        counted = [event for event in answers if not event.late]
        right = np.array([event.right for event in counted], dtype=bool)
        labels = np.array([event.played[0] for event in counted], dtype=np.int64)
        with self._lock:
            np.add.at(self._delays, np.searchsorted(BOUNDS_S, delays), 1)
            self._counts["late"] += len(answers) - len(counted)
            self._counts["withdrawn"] += len(events) - len(answers)
            self._counts["revised"] += sum(event.revision is not None for event in counted)
            self._counts["silences"] += sum(event.source == "silence" and event.revision is None for event in counted)
            self._counts["feedback"] += len(counted)
            self._counts["right"] += int(right.sum())
            self._counts["rewards"] += sum(event.reward is not None for event in counted)
            self._counts["truths"] += sum(event.truth is not None for event in counted)
            self._add_rewards(counted)
            self._add_shadow_rounds([event for event in counted if event.shown is not None])
            np.add.at(self._classes[1], labels, 1)
            np.add.at(self._classes[2], labels[right], 1)
            self._wrong.add(~right)
            self._count_seconds([event.time for event in counted], 1)
            before = self._counts["feedback"] - len(counted)
            for number, event in enumerate(counted, start=before + 1):
                self.drift.add(event.seq, event.time, event.worth, self.classes, number)
            # The confidence is that in the learner's own label.
            limited = [
                event.decision.sure is not None and event.shown in (None, event.decision.label) for event in counted
            ]
            sure = [
                is_limited and not is_unsure(event.decision.confidence, event.decision.sure)
                for is_limited, event in zip(limited, counted, strict=True)
            ]
            self._curve.add([not event.right for event in counted], [event.worth for event in counted], limited, sure)

    def _add_rewards(self, events: Sequence[Event]) -> None:
        if self._rewards is None and self._counts["rewards"]:  # this is the first reward
            self._rewards = Ring(float)
            before = self._wrong.last(WINDOW)
            self._rewards.count = self._wrong.count - len(before)
            self._rewards.add((~before).astype(float))
        if self._rewards is not None:
            self._rewards.add(np.array([event.worth for event in events], dtype=float))

    def _add_shadow_rounds(self, events: Sequence[Event]) -> None:
        if events:
            self._shadow = self._shadow or ShadowRounds()
            self._shadow.add(events, self.classes)

    def count_refusals(self, count: int) -> None:
        """Count feedbacks that the learner rejected."""
        with self._lock:
            self._counts["refused"] += count

    def _count_seconds(self, times: Sequence[float], index: int) -> None:
        if times and max(self._seconds, default=0) - int(times[-1]) > MOST_DISORDER_S:
            # The clock was ahead before: drop later seconds, which would displace the current ones.
            self._seconds = {second: counts for second, counts in self._seconds.items() if second <= times[-1]}
        for second, count in Counter(map(int, times)).items():
            self._seconds.setdefault(second, [0, 0])[index] += count
        if len(self._seconds) > 2 * SECONDS:
            self._seconds = dict(self._last_seconds())

    def _last_seconds(self) -> list[tuple[int, list[int]]]:
        newest = max(self._seconds, default=0)
        return [(second, counts) for second, counts in sorted(self._seconds.items()) if second > newest - SECONDS]

    @property
    def received(self) -> int:
        """Number of feedbacks, late ones included."""
        return self._counts["feedback"] + self._counts["late"]

    def by_class(self, classes: Sequence[ClassName], first: int, count: int) -> list[dict[str, Any]]:
        """Return `count` classes from `first` on, in the form of `replies.ClassStats`."""
        with self._lock:
            counts = self._classes[:, first : first + count].T.tolist()
        return [_describe_class(name, *of_class) for name, of_class in zip(classes[first:], counts, strict=False)]

    def summarize(self, window: int, now: float) -> dict[str, Any]:
        """Return everything but the classes, which may be many, in the form of `replies.Stats`."""
        with self._lock:
            last = self._wrong.last(window)
            wrong = int(last.sum())
            error, low, high = _estimate_share(wrong, len(last))
            explored = self._explored.last(window)
            seconds = [self._seconds.get(second, (0, 0)) for second in range(int(now) - SECONDS, int(now))]
            minute = seconds[-60:]
            curve = self._curve.summarize()
            answered, sure_error = curve.pop("answered"), curve.pop("sure_error")
            rewards = ~last if self._rewards is None else self._rewards.last(window)
            return {
                **{name: self._counts[name] for name in SHOWN},
                "mean_reward": _divide(self._curve.total(REWARD), self._counts["feedback"]),
                "window": {
                    "size": window,
                    "feedback": len(last),
                    "wrong": wrong,
                    "error": error,
                    "low": low,
                    "high": high,
                    "mean_reward": float(rewards.mean()) if len(rewards) else None,
                },
                "rates": {
                    "decisions_per_s": sum(counts[0] for counts in minute) / 60,
                    "feedback_per_s": sum(counts[1] for counts in minute) / 60,
                    "decisions": [counts[0] for counts in seconds],
                    "feedback": [counts[1] for counts in seconds],
                },
                "delays": {"bounds_s": list(BOUNDS_S), "counts": self._delays.tolist()},
                "classes": [],
                "exploration": {
                    "window": len(explored),
                    "rate": float(explored.mean()) if len(explored) else None,
                },
                "curve": curve,
                "shadow": None if self._shadow is None else self._shadow.summarize(window),
                "drift": self.drift.summarize(),
                "certainty": {**self._certainty(), "answered_curve": answered, "error_curve": sure_error},
            }

    def _certainty(self) -> dict[str, Any]:
        """Return the fields of `replies.SureStats`, except the curves and the risk, which the task knows."""
        heard, wrong = int(self._curve.total(SURE)), self._curve.total(SURE_WRONG)
        asked, sure = self._counts["asked"], self._counts["sure"]
        return {
            "asked": asked,
            "sure": sure,
            "answered": _divide(sure, asked),
            "heard": heard,
            "wrong": wrong,
            "error": _divide(wrong, heard),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the state for a snapshot."""
        with self._lock:
            return {
                "counts": self._counts.copy(),
                "classes": self._classes.tolist(),
                "wrong": self._wrong.to_dict(),
                "explored": self._explored.to_dict(),
                "delays": self._delays.tolist(),
                "seconds": [[second, *counts] for second, counts in self._last_seconds()],
                "rewards": None if self._rewards is None else self._rewards.to_dict(),
                "shadow": None if self._shadow is None else self._shadow.to_dict(),
                "drift": self.drift.to_dict(),
                **self._curve.to_dict(),
            }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Statistics:
        """Restore from a snapshot, which is untrusted: raise InputError for impossible counts."""
        for name in ("counts", "classes", "delays", "seconds"):
            require_counts(name, state[name])
        if not _is_consistent(state) or state["counts"].get("right", 0) > state["counts"].get("feedback", 0):
            raise InputError(
                "the statistics contradict themselves: more right answers than answers, or lists of different lengths"
            )
        statistics = cls(0)
        statistics._counts = {name: state["counts"].get(name, 0) for name in COUNTS}
        statistics._classes = np.array(state["classes"], dtype=np.int64).reshape(3, -1)
        statistics._wrong = Ring.from_dict(state["wrong"])
        statistics._explored = Ring.from_dict(state["explored"])
        statistics._delays = np.array(state["delays"], dtype=np.int64)
        statistics._seconds = {second: [decisions, feedbacks] for second, decisions, feedbacks in state["seconds"]}
        statistics._curve = FeedbackCurve.from_dict(state)
        if state.get("rewards") is not None:
            statistics._rewards = Ring.from_dict(state["rewards"], float)
        if state.get("shadow") is not None:
            statistics._shadow = ShadowRounds.from_dict(state["shadow"])
        statistics.drift = DriftDetector.from_dict(state["drift"])
        return statistics


def _is_consistent(state: dict[str, Any]) -> bool:
    """Return True if the parts have the right lengths and are consistent with each other."""
    if len(state["classes"]) != 3 or any(len(counts) != 3 for counts in state["seconds"]):
        return False
    played, heard, right = state["classes"]
    is_aligned = len(played) == len(heard) == len(right) and len(state["delays"]) == len(BOUNDS_S) + 1
    return is_aligned and all(hits <= total for hits, total in zip(right, heard, strict=True))


def _divide(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _describe_class(name: ClassName, played: int, heard: int, right: int) -> dict[str, Any]:
    rate, low, high = _estimate_share(right, heard)
    return {
        "name": name,
        "played": played,
        "heard": heard,
        "right": right,
        "right_rate": rate,
        "low": low,
        "high": high,
    }
