"""How far a reader walks: the functions and files of onebit that one `onebit compare digits` with one learner goes through.

    python benchmarks/walk.py                          # a few seconds, more where the rule is not compiled yet
    python benchmarks/walk.py --list                   # the switches between files too, most travelled first

Every call of a function of onebit's own source is seen by `sys.setprofile`, in all threads, from the command line to the page on disk;
comprehensions and lambdas are functions too. A switch is a call after a call of a function in another file. The command runs twice, and
the second run is counted: what is imported or compiled once is out of the way. What the compiled loop does is not seen: it is one call.
To count another version: PYTHONPATH=its/src python benchmarks/walk.py.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import onebit
from onebit.cli import main

SOURCE = str(Path(onebit.__file__).parent)
COMMAND = ["compare", "digits", "--learners", "banditron", "--runs", "1", "--rounds", "1000"]


class Walk(NamedTuple):
    """What was seen: the functions that were called, and how often a call followed one in another file."""

    functions: set[CodeType]
    switches: Counter[tuple[CodeType, CodeType]]

    @property
    def files(self) -> set[str]:
        """The files that the functions are in."""
        return {function.co_filename for function in self.functions}


def walked(command: list[str]) -> Walk:
    """Run a command in this process, and see where it goes."""
    walk = Walk(set(), Counter())
    before: CodeType | None = None

    def see(frame: FrameType, event: str, _: Any) -> None:
        nonlocal before
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE) or code.co_name == "<module>":
            return
        walk.functions.add(code)
        if before is not None and before.co_filename != code.co_filename:
            walk.switches[before, code] += 1
        before = code

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            ended = main(command)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if ended:
        raise SystemExit(f"onebit {' '.join(command)} ended with {ended}")
    return walk


def shown(code: CodeType) -> str:
    """A function with its file."""
    return f"{Path(code.co_filename).relative_to(SOURCE)}:{code.co_qualname}"


def run() -> None:
    """Walk twice, and print the numbers of the second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print every switch, most travelled first")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        walked([*COMMAND, "--out", str(Path(folder) / "first")])
        walk = walked([*COMMAND, "--out", str(Path(folder) / "second")])
    print(f"{len(walk.functions)} functions, {len(walk.files)} files, {walk.switches.total()} switches between files")
    if chosen.list:
        for (first, second), times in walk.switches.most_common():
            print(f"{times:8}  {shown(first)} -> {shown(second)}")


if __name__ == "__main__":
    run()
