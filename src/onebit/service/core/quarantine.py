"""Tasks that are quarantined, since their records are damaged or they cannot be brought up, while all others go on."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from onebit.errors import OnebitError
from onebit.service.store.row_checks import BadRecordError

LOG = logging.getLogger("onebit.service")


def quarantine(task: str, error: Exception, position: int) -> str:
    """Log that a task is quarantined; the reason, for people."""
    if isinstance(error, BadRecordError):
        reason = str(error)
    elif isinstance(error, MemoryError):
        reason = f"task {task!r}, after row {position}: there is not enough memory"
    else:
        reason = f"task {task!r}, after row {position}: {error or type(error).__name__}"
    about = {"event": "task-quarantined", "task": task}
    # What is no refusal of ours is a fault of the program, which must be found.
    LOG.error(f"quarantined: {reason}", extra=about, exc_info=None if isinstance(error, OnebitError) else error)
    return reason


def free_name(number: int, taken: Iterable[str]) -> str:
    """A name for a task whose own cannot be read, or is another's too."""
    name, others = f"damaged-{number}", set(taken)
    while name in others:
        name += "-"
    return name
