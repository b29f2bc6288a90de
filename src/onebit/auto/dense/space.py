"""The space of `auto` for dense rows (being written)."""

from __future__ import annotations

from typing import Any


class AutoDense:
    """Being written by the lead."""

    @classmethod
    def planned(cls, *given: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def layout(cls, *given: Any) -> Any:
        raise NotImplementedError
