"""Warnings for whoever runs the service: what does not stop it, but must be known. `/readyz` lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple


class ReadinessWarning(NamedTuple):
    """A sentence for whoever runs the service; where it is of a task, for those who may see that task."""

    sentence: str
    task: str | None = None


WarningSource = Callable[[], Iterable[ReadinessWarning]]  # what a part of the service has to warn of now
