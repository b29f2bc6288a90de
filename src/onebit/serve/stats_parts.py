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
    """The error after so many feedbacks: over all, and since the point before."""

    feedback: list[int]
    error: list[float]
    recent: list[float]
