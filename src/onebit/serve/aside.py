"""What does not stop the service, but must be known: tasks that are set aside while all others go on, and warnings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from onebit.errors import OnebitError
from onebit.serve.log.checks import BadRow

LOG = logging.getLogger("onebit.serve")


class Caution(NamedTuple):
    """A sentence for whoever runs the service; where it is of a task, for those who may see that task."""

    sentence: str
    task: str | None = None


Cautions = Callable[[], Iterable[Caution]]  # what a part of the service has to warn of now


def set_aside(task: str, error: Exception, position: int) -> str:
    """Log that a task is set aside; the reason, for people."""
    if isinstance(error, BadRow):
        reason = str(error)
    elif isinstance(error, MemoryError):
        reason = f"task {task!r}, after row {position}: there is not enough memory"
    else:
        reason = f"task {task!r}, after row {position}: {error or type(error).__name__}"
    about = {"event": "task-set-aside", "task": task}
    # What is no refusal of ours is a fault of the program, whose place must be found.
    LOG.error(f"set aside: {reason}", extra=about, exc_info=None if isinstance(error, OnebitError) else error)
    return reason


def free_name(number: int, taken: Iterable[str]) -> str:
    """A name for a task whose own cannot be read, or is another's too."""
    name, others = f"damaged-{number}", set(taken)
    while name in others:
        name += "-"
    return name
