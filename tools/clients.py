"""Writes `src/onebit/client/blocking.py`: the client that waits for each answer, from the one that does not.

    python tools/clients.py

Only `asynchronous.py` is written by hand. The blocking client is the same text with the changes below; a test fails where the
file is not what this writes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import onebit

ASYNCHRONOUS = Path(onebit.__file__).parent / "client" / "asynchronous.py"
BLOCKING = ASYNCHRONOUS.with_name("blocking.py")
HEAD = "# Written by tools/clients.py from asynchronous.py. Do not edit: change that file, and run it again.\n"

# What the asynchronous client says, and what the blocking one says instead; in this order, and each everywhere.
CHANGES = {
    "The client that does not block: as the other one, with an `await` before each call.": "The client that waits for each answer.",
    ", as `TaskHandle` with an `await`.": ".",
    ", as `Client` with an `await`; safe to use from many tasks of one event loop.": "; safe to use from several threads.",
    "import Awaitable, ": "import ",
    "Awaitable[T]": "T",
    "asyncio": "time",
    "httpx.AsyncBaseTransport": "httpx.BaseTransport",
    "AsyncClient": "Client",
    "AsyncTaskHandle": "TaskHandle",
    "async def": "def",
    "await ": "",
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}


def blocking(source: str) -> str:
    """The blocking client, from the text of the asynchronous one; ValueError where CHANGES do not fit that."""
    text = source
    for old, new in CHANGES.items():
        if old not in source:
            raise ValueError(f"the asynchronous client does not say {old!r} any more: change CHANGES")
        text = text.replace(old, new)
    if left := re.search(r"async|await", text, re.IGNORECASE):
        raise ValueError(f"the blocking client would still say {left[0]!r}: add what it should say to CHANGES")
    return _formatted(HEAD + text)


def _formatted(text: str) -> str:
    """As the formatter has it: shorter words may fit on one line."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(BLOCKING), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    BLOCKING.write_text(blocking(ASYNCHRONOUS.read_text()))
