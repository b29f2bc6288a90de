"""Write the log of a task as JSON lines, as Parquet, or as lines for Vowpal Wabbit.

JSON lines and Parquet have every decision with all its fields, oldest first. Vowpal Wabbit's contextual-bandit lines have the
decisions that were answered in time, as action:cost:probability 'id | features: action 1 is the first class, and cost 1 is
wrong. Of these, decisions with one candidate alone are left out, and counted: to Vowpal Wabbit they would have had all. Examples:

    onebit export data news --format ndjson | head
    onebit export data news --format parquet --out news.parquet
    onebit export data news --format vw --out news.vw --json > news.json
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing, nullcontext
from pathlib import Path

from onebit.cli.logs import add_log_options, counted, log_of
from onebit.cli.options import progress_bar
from onebit.errors import InputError

FORMATS = ("ndjson", "parquet", "vw")
STDOUT = "-"


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit export`."""
    command.add_argument("--format", required=True, choices=FORMATS, help="the form of the rows")
    command.add_argument(
        "--out",
        metavar="FILE",
        default=STDOUT,
        help="the file to write, over any file of that name (default, and -: stdout, but not for parquet)",
    )
    add_log_options(command)


def execute(chosen: argparse.Namespace) -> None:
    """Write the rows, and say what was written."""
    to_stdout = chosen.out == STDOUT
    if to_stdout and chosen.format == "parquet":
        raise InputError("a Parquet file is not written to stdout: name it with --out FILE")
    with log_of(chosen) as (log, task):
        from onebit.files import whole_file
        from onebit.serve.export import write

        hidden = chosen.quiet or (to_stdout and sys.stdout.isatty())
        title = f"{chosen.task} as {chosen.format}"
        with (
            progress_bar(title, log.count(task), hidden) as progress,
            closing(counted(log.logged(task), progress)) as rows,
            nullcontext(sys.stdout.buffer) if to_stdout else whole_file(Path(chosen.out)) as file,
        ):
            written = write(file, chosen.format, rows, task)
    about = {
        "task": task.name,
        "format": chosen.format,
        "file": None if to_stdout else chosen.out,
        "decisions": written.rows,
        "left_out": written.left_out,
        "classes": task.classes,
    }
    shown = sys.stderr if to_stdout else sys.stdout  # where the rows are not
    if chosen.json:
        print(json.dumps(about, ensure_ascii=False), file=shown)
        return
    print(f"{title}{'' if to_stdout else f' in {chosen.out}'}, decisions: {written.rows:,}", file=shown)
    if chosen.format == "vw":
        print(f"actions from 1 up are the classes {json.dumps(task.classes, ensure_ascii=False)}", file=shown)
    if written.left_out:
        print(
            f"left out, decisions with one candidate alone: {written.left_out:,}; {chosen.format} has no line for them",
            file=sys.stderr,
        )
