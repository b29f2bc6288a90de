"""What a test has that calls the command line in its own process: the fixture `call` of conftest.py."""

from __future__ import annotations

from collections.abc import Callable

Call = Callable[..., tuple[int, str, str]]  # of the arguments of `onebit`: its exit code, stdout, stderr
