"""What is asked of a decision beside x: the classes that can be played, and how sure it must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from onebit.contract.validation import ClassName, join_names
from onebit.service.errors import InvalidError
from onebit.service.task import TaskInfo, check_sure_or_risk


class DecisionRequest(Protocol):
    """What is asked: `schemas.DecideRequest`, or what a program has given."""

    @property
    def id(self) -> str | None:
        """The name of the decision; None where it gets one."""

    @property
    def x(self) -> Any:
        """What is decided on."""

    @property
    def among(self) -> Sequence[ClassName] | None:
        """The candidates; None for all classes."""

    @property
    def complete(self) -> bool:
        """Whether the right class is one of them."""

    @property
    def sure(self) -> float | None:
        """The confidence that is asked for."""

    @property
    def risk(self) -> float | None:
        """The share of sure decisions that may be wrong."""


Places = tuple[int, ...]  # of classes in a task's list, rising


class RequestTerms(NamedTuple):
    """What is asked of one decision."""

    among: Places | None = None  # None: every class that is not retired
    complete: bool = False
    sure: float | None = None
    risk: float | None = None


def parse_terms(request: DecisionRequest, info: TaskInfo, places: Mapping[ClassName, int], where: str) -> RequestTerms:
    """Return what a request asks, and where it says nothing, the task."""
    check_sure_or_risk(request.sure, request.risk, where)
    certainty = (request.sure, request.risk)
    if certainty == (None, None):
        certainty = (info.sure, info.risk)
    if request.among is None:
        return RequestTerms(None, request.complete, *certainty)
    retired, found = set(info.retired), set[int]()
    for name in request.among:
        place = places.get(name)
        if place is None:
            raise InvalidError(
                f"{where}among has {name!r}, but the classes are {join_names(info.classes)}", f"{where}among"
            )
        if name not in retired:
            found.add(place)
    if not found:
        raise InvalidError(f"{where}among has no class that can be played: all of them are retired", f"{where}among")
    return RequestTerms(tuple(sorted(found)), request.complete, *certainty)


def is_same_set(asked: Places | None, logged: Sequence[int] | None, classes: int, retired: set[int]) -> bool:
    """Whether a set that is asked for is the one that a decision was made from, when there were so many classes.

    Classes that have been retired meanwhile may be missing now, and those that were retired then are not in what was logged.
    """
    then = set(range(classes) if logged is None else logged)
    now = set(range(classes) if asked is None else asked)
    return then ^ now <= retired


def is_unsure(confidence: float | None, sure: float | None) -> bool:
    """Whether a decision has less confidence than was asked for."""
    return sure is not None and (confidence is None or confidence < sure)
