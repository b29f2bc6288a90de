"""Move completed months of a task from the log of a service that is stopped, or from PostgreSQL, whose nodes may run, into Parquet files.

One file is written for each month (UTC), TO/TASK/2026-01.parquet and so on, and compared with the log row by row. Then the decisions are
deleted from the log, as by `onebit forget`, except that the learner keeps everything it learnt. Months not completed at --before stay in
the log. If the command is interrupted, run it again to finish. `onebit evaluate TO/TASK` reads the files. Examples:

    onebit archive service news --to archive
    onebit archive service news --before 2026-01-01 --to archive
    onebit archive postgresql://onebit@db.example.org/onebit news --to archive
    onebit evaluate archive/news --learner linucb
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from onebit.cli.options import add_rule_option, earlier_time
from onebit.cli.serve import needing_extra


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit archive`."""
    command.add_argument(
        "folder",
        metavar="DIR",
        help="the data folder of `onebit serve`, which must not be running, or postgresql://...",
    )
    command.add_argument("task", metavar="TASK", help="the name of a task")
    command.add_argument(
        "--to",
        metavar="DIR",
        type=folder_name,
        required=True,
        help="the folder of the archive, made where there is none",
    )
    command.add_argument(
        "--before",
        metavar="DATE",
        type=earlier_time,
        help="months that had ended then: 2026-01-01 (UTC), or so long ago: 90d (default: now)",
    )
    add_rule_option(command)
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def folder_name(text: str) -> Path:
    """A folder, which must have a name: nothing at all is a variable of the shell that was not set."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty: give the name of a folder")
    return Path(text)


def execute(chosen: argparse.Namespace) -> None:
    """Archive, and say what was done."""
    with needing_extra():
        from onebit.service.maintenance.archive import archive
    before = time.time() if chosen.before is None else chosen.before
    found = archive(chosen.folder, chosen.task, before, chosen.to)
    if chosen.json:
        print(json.dumps(found))
        return
    for one in found["files"]:
        print(f"{one['file']}: decisions: {one['decisions']:,}")
    print(f"{chosen.task}: decisions archived, and no longer in the log: {found['archived']:,}")
    if not found["erased"]:
        print("the file could not be written anew now, and may still have them: the next start of the service does it")
