"""What there is to see of a task: counts, rates, intervals. A function of the log, kept while it is followed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from onebit.contract.description import share
from onebit.errors import InputError, brief
from onebit.manifest import is_whole
from onebit.serve.log.records import Event
from onebit.validation import ClassName

WINDOW = 10_000  # the last feedbacks and decisions that are remembered one by one
SECONDS = 120
WENT_BACK_S = 600  # feedback is counted after the decisions beside it, but is seldom older by so much
MOST_POINTS = 400  # of the curve
MOST_FEEDBACK = 2**53
BOUNDS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 300, 1800, 7200, 43_200, 86_400, 604_800)
MOST_COUNTED = 2**53  # by anything that counts
COUNTS = ("decisions", "feedback", "right", "late", "silences", "revised", "withdrawn", "refused")


def wilson(successes: int, trials: int) -> tuple[float, float] | tuple[None, None]:
    """Wilson's 95 % interval of a share; nobody knows that of nothing.

    >>> [round(end, 3) for end in wilson(3, 10)]
    [0.108, 0.603]
    >>> wilson(0, 0)
    (None, None)
    """
    if trials == 0:
        return None, None
    return share(successes, trials)[1:]


class Ring:
    """The last yes and no of many."""

    def __init__(self, size: int = WINDOW) -> None:
        self._flags = np.zeros(size, dtype=bool)
        self.count = 0  # of all that came

    def add(self, flags: np.ndarray[Any, Any]) -> None:
        """Remember these too."""
        size = len(self._flags)
        last = flags[-size:]
        start = self.count + len(flags) - len(last)
        self._flags[(start + np.arange(len(last))) % size] = last
        self.count += len(flags)

    def last(self, count: int) -> np.ndarray[Any, Any]:
        """The last so many, or as many as are remembered, oldest first."""
        count = min(count, self.count, len(self._flags))
        return self._flags[(self.count - count + np.arange(count)) % len(self._flags)]

    def to_dict(self) -> dict[str, Any]:
        """For a snapshot."""
        return {"count": self.count, "last": np.packbits(self.last(len(self._flags))).tobytes().hex()}

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Ring:
        """From a snapshot."""
        ring = cls()
        _refuse_uncountable("count", kept["count"])
        known = min(kept["count"], len(ring._flags))
        last = bytes.fromhex(kept["last"])
        if len(last) != -(-known // 8):
            raise InputError(f"{8 * len(last)} of the last {known} are remembered, but all must be")
        flags = np.unpackbits(np.frombuffer(last, dtype=np.uint8), count=known).astype(bool)
        ring.count = kept["count"] - known
        ring.add(flags)
        return ring


class Statistics:
    """The counts of one task. One thread adds; any may look."""

    def __init__(self, classes: int) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(COUNTS, 0)
        self._classes = np.zeros((3, classes), dtype=np.int64)  # played, heard, right
        self._wrong = Ring()
        self._explored = Ring()
        self._delays = np.zeros(len(BOUNDS_S) + 1, dtype=np.int64)
        self._seconds: dict[int, list[int]] = {}  # decisions and feedbacks of the last seconds
        self._block = 1  # feedbacks in a point of the curve
        self._curve: list[int] = []  # wrong ones in each whole block
        self._open = [0, 0]  # feedbacks and wrong ones in the block that is not whole yet

    @property
    def classes(self) -> int:
        """Of how many classes these are."""
        return int(self._classes.shape[1])

    def add_class(self) -> None:
        """One class more."""
        with self._lock:
            self._classes = np.concatenate([self._classes, np.zeros((3, 1), dtype=np.int64)], axis=1)

    def decided(self, times: Sequence[float], labels: Sequence[int], greedy: Sequence[int]) -> None:
        """Decisions were made."""
        played = np.array(labels, dtype=np.int64)
        with self._lock:
            self._counts["decisions"] += len(played)
            np.add.at(self._classes[0], played, 1)
            self._explored.add(played != np.array(greedy, dtype=np.int64))
            self._count_seconds(times, 0)

    def heard(self, events: Sequence[Event]) -> None:
        """Feedback came. What was withdrawn is only counted as such; the delay is that of the first word."""
        heard = [event for event in events if event.right is not None]
        delays = [event.time - event.decided for event in heard if event.source == "caller"]
        counted = [event for event in heard if not event.late]
        right = np.array([event.right for event in counted], dtype=bool)
        labels = np.array([event.label if event.shown is None else event.shown for event in counted], dtype=np.int64)
        with self._lock:
            np.add.at(self._delays, np.searchsorted(BOUNDS_S, delays), 1)
            self._counts["late"] += len(heard) - len(counted)
            self._counts["withdrawn"] += len(events) - len(heard)
            self._counts["revised"] += sum(event.revision is not None for event in counted)
            self._counts["silences"] += sum(event.source == "silence" and event.revision is None for event in counted)
            self._counts["feedback"] += len(counted)
            self._counts["right"] += int(right.sum())
            np.add.at(self._classes[1], labels, 1)
            np.add.at(self._classes[2], labels[right], 1)
            self._wrong.add(~right)
            self._count_seconds([event.time for event in counted], 1)
            for one in right.tolist():
                self._extend(not one)

    def refused(self, count: int) -> None:
        """A learner could not learn from so many."""
        with self._lock:
            self._counts["refused"] += count

    def _count_seconds(self, times: Sequence[float], index: int) -> None:
        if times and max(self._seconds, default=0) - int(times[-1]) > WENT_BACK_S:
            # The clock was wrong before: what lies ahead would take the place of what comes now.
            self._seconds = {second: counts for second, counts in self._seconds.items() if second <= times[-1]}
        for when in times:
            self._seconds.setdefault(int(when), [0, 0])[index] += 1
        if len(self._seconds) > 2 * SECONDS:
            self._seconds = dict(self._last_seconds())

    def _last_seconds(self) -> list[tuple[int, list[int]]]:
        newest = max(self._seconds, default=0)
        return [(second, counts) for second, counts in sorted(self._seconds.items()) if second > newest - SECONDS]

    def _extend(self, wrong: bool) -> None:
        self._open[0] += 1
        self._open[1] += wrong
        if self._open[0] == self._block:
            self._curve.append(self._open[1])
            self._open = [0, 0]
            if len(self._curve) == MOST_POINTS:
                self._curve = [
                    first + second for first, second in zip(self._curve[::2], self._curve[1::2], strict=True)
                ]
                self._block *= 2

    def count(self, name: str) -> int:
        """One of the counts."""
        return self._counts[name]

    def by_class(self, classes: Sequence[ClassName], first: int, count: int) -> list[dict[str, Any]]:
        """So many classes from one on, as `schemas.ClassStats` has them."""
        with self._lock:
            counts = self._classes[:, first : first + count].T.tolist()
        return [_of_class(name, *of_class) for name, of_class in zip(classes[first:], counts, strict=False)]

    def shown(self, window: int, now: float) -> dict[str, Any]:
        """Everything but the classes, which may be many, as `schemas.Stats` has it."""
        with self._lock:
            last = self._wrong.last(window)
            wrong = int(last.sum())
            low, high = wilson(wrong, len(last))
            explored = self._explored.last(window)
            seconds = [self._seconds.get(second, (0, 0)) for second in range(int(now) - SECONDS, int(now))]
            minute = seconds[-60:]
            points = len(self._curve)
            feedback = [self._block * (point + 1) for point in range(points)]
            total = np.cumsum(self._curve).tolist()
            blocks = [self._block] * points
            wrongs = list(self._curve)
            if self._open[0]:
                feedback.append(self._block * points + self._open[0])
                total.append((total[-1] if total else 0) + self._open[1])
                blocks.append(self._open[0])
                wrongs.append(self._open[1])
            return {
                **self._counts,
                "window": {
                    "size": window,
                    "feedback": len(last),
                    "wrong": wrong,
                    "error": wrong / len(last) if len(last) else None,
                    "low": low,
                    "high": high,
                },
                "rates": {
                    "decisions_per_s": sum(one[0] for one in minute) / 60,
                    "feedback_per_s": sum(one[1] for one in minute) / 60,
                    "decisions": [one[0] for one in seconds],
                    "feedback": [one[1] for one in seconds],
                },
                "delays": {"bounds_s": list(BOUNDS_S), "counts": self._delays.tolist()},
                "classes": [],
                "exploration": {
                    "window": len(explored),
                    "rate": float(explored.mean()) if len(explored) else None,
                },
                "curve": {
                    "feedback": feedback,
                    "error": [one / count for one, count in zip(total, feedback, strict=True)],
                    "recent": [one / size for one, size in zip(wrongs, blocks, strict=True)],
                },
            }

    def to_dict(self) -> dict[str, Any]:
        """For a snapshot."""
        with self._lock:
            return {
                "counts": self._counts.copy(),
                "classes": self._classes.tolist(),
                "wrong": self._wrong.to_dict(),
                "explored": self._explored.to_dict(),
                "delays": self._delays.tolist(),
                "seconds": [[second, *counts] for second, counts in self._last_seconds()],
                "block": self._block,
                "curve": list(self._curve),
                "open": list(self._open),
            }

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Statistics:
        """From a snapshot, which may be anybody's: what could not have been counted is refused."""
        for name in ("counts", "classes", "delays", "seconds", "block", "curve", "open"):
            _refuse_uncountable(name, kept[name])
        if not _fits(kept) or kept["counts"].get("right", 0) > kept["counts"].get("feedback", 0):
            raise InputError(
                "the statistics contradict themselves: more right or wrong answers than answers, or other lengths"
            )
        made = cls(0)
        made._counts = {name: kept["counts"].get(name, 0) for name in COUNTS}
        made._classes = np.array(kept["classes"], dtype=np.int64).reshape(3, -1)
        made._wrong = Ring.from_dict(kept["wrong"])
        made._explored = Ring.from_dict(kept["explored"])
        made._delays = np.array(kept["delays"], dtype=np.int64)
        made._seconds = {second: [decisions, feedbacks] for second, decisions, feedbacks in kept["seconds"]}
        made._block, made._curve, made._open = kept["block"], kept["curve"], kept["open"]
        return made


def _fits(kept: dict[str, Any]) -> bool:
    """Whether the parts have the lengths that they must have, and agree with each other."""
    if len(kept["classes"]) != 3 or len(kept["open"]) != 2 or any(len(one) != 3 for one in kept["seconds"]):
        return False
    played, heard, right = kept["classes"]
    opened, wrong = kept["open"]
    fits = len(played) == len(heard) == len(right) and len(kept["delays"]) == len(BOUNDS_S) + 1
    fits = fits and all(one <= of for one, of in zip(right, heard, strict=True)) and len(kept["curve"]) < MOST_POINTS
    return fits and wrong <= opened < kept["block"] and all(one <= kept["block"] for one in kept["curve"])


def _refuse_uncountable(name: str, thing: Any) -> None:
    """A sentence for what is not made of whole numbers that counting can reach."""
    parts = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list) else None
    if parts is None and not is_whole(thing, 0, MOST_COUNTED):
        raise InputError(f"{name} of the statistics has {brief(thing)} in it, but must have whole numbers from 0 up")
    for part in parts or ():
        _refuse_uncountable(name, part)


def _of_class(name: ClassName, played: int, heard: int, right: int) -> dict[str, Any]:
    low, high = wilson(right, heard)
    rate = right / heard if heard else None
    return {
        "name": name,
        "played": played,
        "heard": heard,
        "right": right,
        "right_rate": rate,
        "low": low,
        "high": high,
    }
