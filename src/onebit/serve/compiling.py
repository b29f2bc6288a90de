"""Compiling in a process of its own: Numba would hold up everything else in this one for seconds.

    python -m onebit.serve.compiling < learner.json

makes the learner that is described there, and so leaves its machine code in the cache, from which this process loads it.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

from onebit.learner import Learner
from onebit.names import ClassName
from onebit.serve.inputs import Inputs
from onebit.serve.tasks import learner_of, warm

LOG = logging.getLogger("onebit.serve")
LONGEST_S = 600.0


class Compiler:
    """Makes learners that are ready to decide and to learn. Called off the event loop."""

    def __init__(self, apart: bool) -> None:
        self._apart = apart
        self._known: set[str] = set()

    def learner(self, detail: dict[str, Any], classes: list[ClassName], inputs: Inputs) -> Learner:
        """A new learner, with all that it needs compiled: elsewhere, if it may be new to this machine."""
        about = json.dumps({"detail": detail, "classes": classes, "inputs": inputs.said})
        kind = json.dumps([detail["learner"], detail["parameters"], len(classes), inputs.said])
        if self._apart and kind not in self._known:
            said = {"event": "compiling", "learner": detail["learner"]}
            LOG.info(f"compiling {detail['learner']}, if it is new to this machine", extra=said)
            command = [sys.executable, "-m", __name__]
            # Where it fails, the same is done here, and says why.
            subprocess.run(command, input=about.encode(), capture_output=True, check=False, timeout=LONGEST_S)
            self._known.add(kind)
        learner = learner_of(detail, classes, inputs)
        warm(learner, inputs)
        return learner


if __name__ == "__main__":
    told = json.load(sys.stdin)
    Compiler(apart=False).learner(told["detail"], told["classes"], Inputs(**told["inputs"]))
