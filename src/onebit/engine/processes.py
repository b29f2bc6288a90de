"""Processes that compile, since Numba compiles one thing at a time per process and blocks the rest.

    python -P -m onebit.engine.processes

reads a pickled call from standard input and makes it; the compiled code is left in the cache, from which the caller
loads it. With -P Python does not import code from the folder in which it is started, where anybody may have put some.
A pool of `multiprocessing` would import the main module of the user's program again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from onebit.errors import clean_lines

LOG = logging.getLogger("onebit.engine")

TIME_LIMIT_S = 600.0


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class CompilingProcesses:
    """A starter of one process per call, which its caller waits for.

    In sessions of their own, the processes do not receive Ctrl-C, and end with everything they have started.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.is_closed = False

    def call(self, function: Callable[..., Any], *arguments: Any, what: str) -> bool:
        """Call a function in another process and wait; return False if it failed or was stopped.

        A failure is logged: the caller then compiles `what` in this process, and sees the error if it fails there
        too.
        """
        try:
            reason = self._run(pickle.dumps((function, arguments)))
        except subprocess.TimeoutExpired:
            reason = f"it took longer than {TIME_LIMIT_S:.0f} s"
        except OSError as error:  # too many processes or open files
            reason = error.strerror or str(error)
        if reason and not self.is_closed:
            text = "%s could not be compiled in another process, so it is compiled in this one: %s"
            LOG.warning(text, what, reason, extra={"event": "compiling-failed"})
        return not reason

    def close(self) -> None:
        """Kill all processes, and start no others."""
        with self._lock:
            self.is_closed = True
            for process in self._running:
                self._kill(process)

    def _run(self, call: bytes) -> str:
        """Return why a call failed, or an empty string if it succeeded."""
        with self._lock:
            if self.is_closed:
                return "it was stopped"
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process)
        with process:  # waits for the process and closes its pipes
            try:
                _, errors = process.communicate(call, TIME_LIMIT_S)
            finally:
                with self._lock:
                    self._kill(process)
                    self._running.discard(process)
        lines = clean_lines(errors.decode(errors="replace"))
        return (lines[-1] if lines else f"exit code {process.returncode}") if process.returncode else ""

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the process or its session has ended already
            os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    try:
        function, arguments = pickle.load(sys.stdin.buffer)
        function(*arguments)
    except Exception as error:
        sys.exit((clean_lines(str(error)) or [type(error).__name__])[-1])
