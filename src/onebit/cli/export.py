"""Write the log of a task as JSON lines, as Parquet, or as lines for Vowpal Wabbit.

JSON lines and Parquet have every decision with all its fields, oldest first. Vowpal Wabbit's contextual-bandit lines have the
decisions that were answered in time, as action:cost:probability 'id | features: action 1 is the first class, and cost 1 is
wrong. Decisions with a single candidate are left out, and counted: Vowpal Wabbit would take them for decisions among
all classes. Examples:

    onebit export data news --format ndjson | head
    onebit export data news --format parquet --out news.parquet
    onebit export data news --format vw --out news.vw --json > news.json
    onebit export data news --format ndjson --follow --after 12345

With --follow the command continues with new rows until Ctrl-C, even if the service stops or restarts meanwhile: a line for each decision,
and the same decision again for each feedback and revision of it. `position` in a line is its row in the log, and --after resumes after it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TypeVar

from onebit.cli.logs import add_log_options, open_task_log
from onebit.cli.options import parse_count
from onebit.cli.terminal import print_json, progress_bar
from onebit.errors import InputError
from onebit.experiments.trials import Progress

FORMATS = ("ndjson", "parquet", "vw")
STDOUT = "-"
ROWS_AT_ONCE = 1000  # rows between two progress reports
POLLING_S = 0.5  # between two checks for new rows
Row = TypeVar("Row")


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--format", required=True, choices=FORMATS, help="the format of the rows")
    command.add_argument(
        "--out",
        metavar="FILE",
        default=STDOUT,
        help="the file to write, replacing any file of that name (default, and -: stdout, but not for parquet)",
    )
    command.add_argument(
        "--follow", action="store_true", help="continue with new rows, as ndjson to stdout, until Ctrl-C"
    )
    command.add_argument(
        "--after",
        metavar="POSITION",
        type=parse_count,
        help="with --follow: start after this position (default: the beginning)",
    )
    add_log_options(command)


def execute(args: argparse.Namespace) -> None:
    """Write the rows, and print how many there are."""
    to_stdout = args.out == STDOUT
    if args.follow:
        if args.format != "ndjson" or not to_stdout:
            raise InputError("--follow writes ndjson to stdout: give --format ndjson, and no --out")
        follow_log(args)
        return
    if args.after is not None:
        raise InputError("--after needs --follow: without it, all decisions are written")
    if to_stdout and args.format == "parquet":
        raise InputError("a Parquet file cannot be written to stdout: give --out FILE")
    with open_task_log(args) as (log, task):
        from onebit.contract.files import open_atomically
        from onebit.service.maintenance.export import write

        is_hidden = args.quiet or (to_stdout and sys.stdout.isatty())
        title = f"{args.task} as {args.format}"
        with (
            progress_bar(title, log.count(task), is_hidden) as progress,
            closing(report_rows(log.logged(task), progress)) as rows,
            nullcontext(sys.stdout.buffer) if to_stdout else open_atomically(Path(args.out)) as file,
        ):
            written = write(file, args.format, rows, task)
    messages = sys.stderr if to_stdout else sys.stdout  # the stream without rows
    if args.json:
        about = {
            "task": task.name,
            "format": args.format,
            "file": None if to_stdout else args.out,
            "decisions": written.rows,
            "left_out": written.left_out,
            "classes": task.classes,
        }
        print_json(about, file=messages)
        return
    print(f"{title}{'' if to_stdout else f' in {args.out}'}, decisions: {written.rows:,}", file=messages)
    if args.format == "vw":
        print(f"actions from 1 up are the classes {json.dumps(task.classes, ensure_ascii=False)}", file=messages)
    if written.left_out:
        print(
            f"left out, decisions with a single candidate: {written.left_out:,}; {args.format} has no line for them",
            file=sys.stderr,
        )


def follow_log(args: argparse.Namespace) -> None:
    """Write the rows of a log to stdout, and then new ones as they come, until Ctrl-C."""
    position, out, stopped = args.after or 0, sys.stdout.buffer, threading.Event()
    # Ctrl-C stops between two lines, so that the position printed below is that of the last line.
    before = signal.signal(signal.SIGINT, lambda number, frame: stopped.set())
    try:
        while not stopped.is_set():
            # Open the log anew each time, since the folder may have been replaced.
            with open_task_log(args) as (log, task):
                from onebit.service.maintenance.export import format_json_line

                names = list(map(str, task.classes))
                for row, decision in log.rows_after(task, position):
                    out.write(format_json_line(decision, names, row))
                    position = row
                    if stopped.is_set():
                        break
            out.flush()
            stopped.wait(POLLING_S)
    finally:
        signal.signal(signal.SIGINT, before)
    if not args.quiet:
        print(f"followed up to position {position}", file=sys.stderr)


def report_rows(rows: Iterable[Row], progress: Progress) -> Generator[Row, None, None]:
    """Yield the rows, reporting progress every `ROWS_AT_ONCE` rows."""
    for number, row in enumerate(rows, start=1):
        yield row
        if number % ROWS_AT_ONCE == 0:
            progress(ROWS_AT_ONCE)
