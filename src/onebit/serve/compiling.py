"""Compiling in a process of its own: Numba would hold up everything else in this one for seconds.

    python -P -m onebit.serve.compiling < learner.json

makes the learner that is described there, and so leaves its machine code in the cache, from which this process loads it. With -P
Python does not look for code in the folder in which it is started, where anybody may have put some.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from onebit.errors import lines_of
from onebit.learner import Learner
from onebit.rules import add_rule
from onebit.serve.errors import UnavailableError
from onebit.serve.inputs import Inputs
from onebit.serve.tasks import learner_of, warm
from onebit.validation import ClassName

LOG = logging.getLogger("onebit.serve")
LONGEST_S = 600.0
ENDING_S = 1.0  # for a process to end when it is told to, before it is killed


class Compiler:
    """Makes learners that are ready to decide and to learn. Called off the event loop."""

    def __init__(self, apart: bool, rules: Sequence[str] = ()) -> None:
        self._apart, self._rules = apart, list(rules)
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._stopping = False
        self._processes: set[subprocess.Popen[bytes]] = set()

    def learner(self, detail: dict[str, Any], classes: list[ClassName], inputs: Inputs) -> Learner:
        """A new learner, with all that it needs compiled: elsewhere, if it may be new to this machine."""
        told = {"detail": detail, "classes": classes, "inputs": inputs.said, "rules": self._rules}
        about = json.dumps(told)
        kind = json.dumps([detail["learner"], detail["parameters"], len(classes), inputs.said])
        if self._apart and kind not in self._known:
            said = {"event": "compiling", "learner": detail["learner"]}
            LOG.info(f"compiling {detail['learner']}, if it is new to this machine", extra=said)
            self._compile(detail["learner"], about)
            self._known.add(kind)
        learner = learner_of(detail, classes, inputs)
        warm(learner, inputs)
        return learner

    def _compile(self, name: str, about: str) -> None:
        """Have a process compile; where it fails, the same is done in this one, and says why."""
        try:
            code, said = self._ran(about)
        except OSError as error:  # too many processes or open files
            code, said = None, error.strerror or str(error)
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"compiling {name} took longer than {LONGEST_S:.0f} s, and was given up") from None
        if self._stopping:
            raise UnavailableError("the service is ending")
        if code != 0:
            why = (lines_of(said) or [f"exit code {code}"])[-1]
            LOG.warning(
                f"{name} could not be compiled in another process, and is in this one: {why}",
                extra={"event": "compiling-failed", "learner": name},
            )

    def _ran(self, about: str) -> tuple[int, str]:
        """The exit code of a process that compiles, and what it said."""
        with self._lock:
            if self._stopping:
                raise UnavailableError("the service is ending")
            # In a session of its own, it can be ended with all that it has started, and hears nothing of Ctrl-C.
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "onebit.serve.compiling"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._processes.add(process)
        try:
            _, said = process.communicate(about.encode(), timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            _end(process)
            raise
        finally:
            with self._lock:
                self._processes.discard(process)
        return process.returncode, said.decode(errors="replace")

    def stop(self) -> None:
        """End all processes that compile, and begin no others. Who waits for one hears that the service is ending."""
        with self._lock:
            self._stopping = True
            processes = list(self._processes)
        for process in processes:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started: it is told to, and killed where it does not."""
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ENDING_S)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left in its session
        os.killpg(process.pid, number)


if __name__ == "__main__":
    told = json.load(sys.stdin)
    for given in told["rules"]:
        add_rule(given)
    Compiler(apart=False).learner(told["detail"], told["classes"], Inputs(**told["inputs"]))
