"""What the tests of every rule share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onebit import model
from onebit.engine.compile import loop_for
from onebit.engine.stream import lessons, stream


@pytest.fixture
def uncompiled_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps for known labels as plain Python: one compilation less for each rule."""

    def found(rule: Any, space: Any, loop: Any = stream) -> Any:
        return plain if loop is lessons else loop_for(rule, space, loop)

    def plain(*given: Any) -> int:
        with np.errstate(over="ignore"):  # words of 64 bits, modulo 2^64
            return lessons(*given)

    monkeypatch.setattr(model, "loop_for", found)
