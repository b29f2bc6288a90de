"""What takes so long that it is run on demand, within the longer tier; every such test has a shorter one beside it that always runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])

SLOW = bool(os.environ.get("ONEBIT_SLOW"))

ON_DEMAND = (pytest.mark.long, pytest.mark.skipif(not SLOW, reason="takes long; ONEBIT_SLOW=1 runs it"))


def slow(test: Test) -> Test:
    """Mark a test as one that takes long even among those that do."""
    for mark in ON_DEMAND:
        test = mark(test)
    return test
