"""Processes that compile: Numba compiles one thing at a time in each, and holds up everything else there for seconds.

    python -P -m MODULE

reads orders, a line each, and answers each with a line: nothing, or why it could not be carried out. Lines that are no answers, as what the
start of a Python may print, are passed over. What it makes it leaves in the cache, from which whoever has asked loads it. With -P Python does not look for code in the folder in which it is started, where anybody may have put
some.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import IO, Any

from onebit.errors import OnebitError, lines_of

LOG = logging.getLogger("onebit.engine")

LONGEST_S = 600.0
ANSWER = b"onebit answers "  # what a line begins with that is one
ENDING_S = 1.0  # for a process to end when it is told to, before it is killed


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class TookTooLongError(OnebitError):
    """A process was at it for `LONGEST_S`, and was ended."""


class CompilingStoppedError(Exception):
    """Nothing is compiled any more: whoever has asked is to end, too."""


class CompilingProcesses:
    """Processes that carry out orders, at most so many at a time (any number, where none is given), started as they are needed.

    Where they are `lasting`, one that is done waits for the next order, and need not import the compiler again. All end with `stop`. In sessions of
    their own they hear nothing of Ctrl-C; otherwise whoever ends this process and all that it has started ends them, too.
    """

    def __init__(self, module: str, most: int | None = None, *, lasting: bool = True, own_session: bool = True) -> None:
        self._module, self._lasting, self._own_session = module, lasting, own_session
        self._free = None if most is None else threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._stopping = False
        self._idle: list[_CompilingProcess] = []
        self._all: set[_CompilingProcess] = set()

    def __enter__(self) -> CompilingProcesses:
        """Nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def ask(self, order: str, what: str) -> bool:
        """Have an order carried out, and wait for that; whether it was.

        Where not, a warning says why: whoever has asked does the same in this process, and finds out more if it fails there.
        """
        with self._free or contextlib.nullcontext():
            try:
                why = self._asked(order, what)
            except OSError as error:  # too many processes or open files
                why = error.strerror or str(error)
        if self._stopping:
            raise CompilingStoppedError
        if why:
            said = "%s could not be compiled in another process, and is in this one: %s"
            LOG.warning(said, what, why, extra={"event": "compiling-failed"})
        return not why

    def _asked(self, order: str, what: str) -> str:
        process = self._taken()
        try:
            return process.asked(order, what)
        finally:
            self._given_back(process)

    def stop(self) -> None:
        """End all, and begin no others."""
        with self._lock:
            self._stopping = True
            processes, idle = list(self._all), list(self._idle)
            self._idle.clear()
        for process in processes:
            process.end()
        for process in idle:  # of the others, who has asked them sees to it
            self._forget(process)

    def _taken(self) -> _CompilingProcess:
        with self._lock:
            if self._stopping:
                raise CompilingStoppedError
            if self._idle:
                return self._idle.pop()
            process = _CompilingProcess(self._module, self._own_session)
            self._all.add(process)
            return process

    def _given_back(self, process: _CompilingProcess) -> None:
        with self._lock:
            if process.is_alive and self._lasting and not self._stopping:
                self._idle.append(process)
                return
        process.end()
        self._forget(process)

    def _forget(self, process: _CompilingProcess) -> None:
        process.close()
        with self._lock:
            self._all.discard(process)


class _CompilingProcess:
    """One of them."""

    def __init__(self, module: str, own_session: bool) -> None:
        self._own_session = own_session
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=own_session,
            )
        except OSError:
            self._errors.close()
            raise
        self.is_alive, self._gave_up = True, False

    def asked(self, order: str, what: str) -> str:
        """Why an order could not be carried out, or nothing."""
        given, answers = self._process.stdin, self._process.stdout
        assert given is not None
        assert answers is not None
        self.is_alive = (
            False  # until it has answered: an answer that nobody waited for would be taken for that to the next order
        )
        late = threading.Timer(LONGEST_S, self._give_up)
        late.daemon = True
        late.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                given.write(f"{order}\n".encode())
                given.flush()
            lines = iter(answers.readline, b"")
            answer = next((line for line in lines if line.startswith(ANSWER) and line.endswith(b"\n")), None)
        finally:
            late.cancel()
        if answer is not None:
            self.is_alive = True
            return str(json.loads(answer.removeprefix(ANSWER)))
        if self._gave_up:
            raise TookTooLongError(f"compiling {what} took longer than {LONGEST_S:.0f} s, and was given up")
        self._errors.seek(0)
        said = lines_of(self._errors.read().decode(errors="replace"))
        return said[-1] if said else f"exit code {self._process.wait()}"

    def _give_up(self) -> None:
        self._gave_up = True
        self.end()

    def end(self) -> None:
        """End it, and all that it has started if it has a session: it is told to, and killed where it does not."""
        self.is_alive = False
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDING_S)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Let go of its files."""
        for file in (self._process.stdin, self._process.stdout, self._errors):
            assert file is not None
            with contextlib.suppress(BrokenPipeError):
                file.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left in its session
            if self._own_session:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)


def carry_out_orders(carry_out: Callable[[str], Any]) -> None:
    """What such a process does until it is given no more orders."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed is no answer
    for order in sys.stdin:
        try:
            carry_out(order.rstrip("\n"))
            why = ""
        except Exception as error:
            why = (lines_of(str(error)) or [type(error).__name__])[-1]
        print(f"{ANSWER.decode()}{json.dumps(why)}", file=answers, flush=True)
