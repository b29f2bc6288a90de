"""Replies that only the OpenAPI document names: `onebit.service.replies` has those that the Python client reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from onebit.contract.validation import ClassName
from onebit.service import replies
from onebit.service.requests import Features, Image


@dataclass(frozen=True)
class Task(replies.Task):
    """The current state of a task. The classes in `retired` are never played again."""

    features: Features  # type: ignore[assignment] # dicts in the reply itself
    display: Image | None  # type: ignore[assignment]


@dataclass(frozen=True)
class Tasks:
    """All tasks that the token may see."""

    tasks: list[Task]
    quarantined: list[replies.QuarantinedTask]


@dataclass(frozen=True)
class LoggedDecisions:
    """Decisions, the newest first."""

    decisions: list[replies.LoggedDecision]


@dataclass(frozen=True)
class Item:
    """An item of the data of a task, to play with."""

    number: int
    of: int
    x: list[float] | dict[str, float] | str
    truth: ClassName


@dataclass(frozen=True)
class Health:
    """The process answers."""

    status: Literal["ok"]


@dataclass(frozen=True)
class Session:
    """What a token may do; tasks of null means all of them. `open`: the service has no tokens."""

    scopes: list[Literal["decide", "feedback", "read", "admin"]]
    tasks: list[str] | None
    open: bool


@dataclass(frozen=True)
class LearnerParameter:
    """A parameter of a learner."""

    name: str
    default: Any
    range: str
    meaning: str


@dataclass(frozen=True)
class LearnerKind:
    """A learner that a task can have."""

    name: str
    summary: str
    parameters: list[LearnerParameter]


@dataclass(frozen=True)
class Learners:
    """All learners with bandit feedback."""

    learners: list[LearnerKind]
