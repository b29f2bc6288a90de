"""Names of the version before, which work for one version more and say what they are called now."""

from __future__ import annotations

import warnings
from typing import Any


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn whoever called the caller that a name will go."""
    warnings.warn(f"{old} is now {new}; the old name goes with the next version", DeprecationWarning, stacklevel)


class Renamed:
    """An attribute under the name it had before.

    >>> class Sweep:
    ...     summaries = [1, 2]
    ...     standings = Renamed("summaries")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Sweep().standings, str(caught[0].message)
    ([1, 2], 'Sweep.standings is now Sweep.summaries; the old name goes with the next version')
    """

    def __init__(self, new: str) -> None:
        self._new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self._old = name

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        warn_renamed(f"{owner.__name__}.{self._old}", f"{owner.__name__}.{self._new}")
        return getattr(instance, self._new)
