"""The parts of the statistics of a task, as they are sent; `schemas` has the whole."""

from __future__ import annotations

from pydantic import BaseModel


class Window(BaseModel):
    """The error of the last feedbacks, with the ends of its 95 % interval."""

    size: int
    feedback: int
    wrong: int
    error: float | None
    low: float | None
    high: float | None
    mean_reward: float | None


class Rates(BaseModel):
    """How much comes in: a second, over the last minute; and each of the last 120 seconds, oldest first."""

    decisions_per_s: float
    feedback_per_s: float
    decisions: list[int]
    feedback: list[int]


class Delays(BaseModel):
    """How many feedbacks came within each bound; the last count is beyond the last bound."""

    bounds_s: list[float]
    counts: list[int]


class ClassStats(BaseModel):
    """How often a class was played, heard of, and right, with the ends of the 95 % interval of its right rate."""

    name: str | int
    played: int
    heard: int
    right: int
    right_rate: float | None
    low: float | None
    high: float | None


class Exploration(BaseModel):
    """The share of the last decisions whose label was not the one thought best."""

    window: int
    rate: float | None


class Curve(BaseModel):
    """The error after so many feedbacks, over all and since the point before; and the mean reward over all."""

    feedback: list[int]
    error: list[float]
    recent: list[float]
    reward: list[float]


class ShadowStats(BaseModel):
    """How wrong the learner's own decisions would have been in the last rounds in which something else was shown, with a 95 % interval.

    It is estimated from the probabilities in the log (SNIPS); null where none of what was shown could have been played. `effective` is the number of
    rounds of its own that would say as much, and `missing` the share of its probability on classes that could not be shown, as far as known, by which the
    interval is widened.
    """

    rounds: int
    error: float | None
    low: float
    high: float
    effective: float
    missing: float


class SureStats(BaseModel):
    """Of the decisions of which somebody asked whether they are sure: how many were, and how wrong those were.

    `answered` is the share that was sure, and `error` that of the sure ones that were heard of. `overshoot` is by how much the error is above the
    `risk` of the task at least, at all times at once but for a probability of 0.05; null where the task has no risk. The lists have a number
    for each point of the curve, null where there is none yet: of all feedbacks so far, which were of sure ones, and the error of those.
    """

    asked: int
    sure: int
    answered: float | None
    heard: int
    wrong: float
    error: float | None
    risk: float | None
    overshoot: float | None
    answered_curve: list[float | None]
    error_curve: list[float | None]


class DriftAlarm(BaseModel):
    """More mistakes than before, and too many for chance: after `feedback` feedbacks, at the row `seq` of the log.

    `usual` is the error that the task was used to, at the most, and `error` that of the last `since` feedbacks, in which it has risen.
    """

    seq: int
    time: float
    raised_at: str | None
    feedback: int
    since: int
    usual: float
    error: float


class DriftStats(BaseModel):
    """How often a task began to err more than it used to, and the last of these alarms, oldest first."""

    count: int
    alarms: list[DriftAlarm]
