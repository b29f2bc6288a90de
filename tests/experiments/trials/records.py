"""Records of runs that never were."""

from __future__ import annotations

import math
from typing import Any

from onebit.experiments.trials.records import Record

PLAIN: dict[str, Any] = {
    "id": "", "learner": "bpa", "options": {}, "params": {}, "stream": {"data": "arrays", "rounds": 1}, "seed": 0, "feedback": "bandit",
    "why": None, "error": math.nan, "greedy_error": math.nan, "curve": None, "seconds": 1.0, "on": "CPU", "platform": "", "code": "",
    "written": "",
}  # fmt: skip


def record(**said: Any) -> Record:
    """A record with these fields; the others are plain."""
    return Record(**{**PLAIN, **said})
