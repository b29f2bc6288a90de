"""What is not in `make test`: loops of most rules that take long to compile, and what takes so long that it is run on demand.

Every such test has a shorter one beside it that always runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])

SLOW = bool(os.environ.get("ONEBIT_SLOW"))

ON_DEMAND = (pytest.mark.long, pytest.mark.skipif(not SLOW, reason="takes long; ONEBIT_SLOW=1 runs it"))


# Rules that `make test` has whole: one of each family, and one of each that scales or bounds its weights, which every space does in a way of its own. Of the
# others it has dense rows, with steps for known labels in plain Python: half of the loops to compile. The longer tier has all of them whole.
WHOLE = ("banditron", "gaptron", "linucb", "newtron")


def tier_of(rule: str) -> Sequence[pytest.MarkDecorator]:
    """The marks of what compiles sparse rows of a rule, or its steps for known labels."""
    return () if rule in WHOLE else (pytest.mark.long,)


def slow(test: Test) -> Test:
    """Mark a test as one that takes long even among those that do."""
    for mark in ON_DEMAND:
        test = mark(test)
    return test
