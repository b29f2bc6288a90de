"""The former home of `frame`, which is in `onebit.trials.records` now."""

from __future__ import annotations

from typing import Any

from onebit.deprecation import warn_renamed
from onebit.trials import records


def __getattr__(name: str) -> Any:
    if name != "frame":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_renamed(f"{__name__}.frame", "onebit.trials.records.frame")
    return records.frame
