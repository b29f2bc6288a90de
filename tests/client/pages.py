"""The examples of a page, run as a reader would: the lines of bash in one shell, the Python beside them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
END = "--- the end of this example ---"


class Example(NamedTuple):
    """A block of a page: its language, its text, and the line where it begins."""

    language: str
    text: str
    line: int


def examples(page: str) -> Iterator[Example]:
    """The examples of a page."""
    content = (ROOT / page).read_text()
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", content, re.MULTILINE | re.DOTALL):
        yield Example(found[1], found[2], content[: found.start()].count("\n") + 2)


class Shell:
    """One bash, in which variables live from example to example; `onebit` is the one that is tested."""

    def __init__(self, folder: Path, stand_ins: Mapping[str, str] | None = None) -> None:
        programs = folder / "bin"
        programs.mkdir(parents=True)
        for name, script in {"onebit": f'exec "{sys.executable}" -m onebit "$@"', **(stand_ins or {})}.items():
            (programs / name).write_text(f"#!/bin/bash\n{script}\n")
            (programs / name).chmod(0o755)
        (folder / ".curlrc").write_text("silent\nshow-error\n")  # no progress, as on a terminal
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env={**os.environ, "CURL_HOME": str(folder), "PATH": f"{programs}:{os.environ['PATH']}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, text: str) -> tuple[str, int]:
        """What an example prints, and the status of its last command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{text}\nstatus=$?; echo; echo '{END}' $status\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith(END):
                return "".join(lines), int(line.removeprefix(END))
            lines.append(line)
        raise AssertionError(f"bash ended: {''.join(lines)}")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
