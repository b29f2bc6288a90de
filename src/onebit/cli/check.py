"""Check whether the log of a service, in a folder or in PostgreSQL, is intact; the service may be running.

This reads the database, its tables, every row of the log, the snapshots and the tokens, and changes nothing. Exit code 0 means that all
is well, 1 that there are faults, which are listed, and 2 that the folder could not be read. Examples:

    onebit check service
    onebit check service --json
    onebit check postgresql://onebit@db.example.org/onebit
"""

from __future__ import annotations

import argparse
import json

from onebit.cli.options import add_rule_option
from onebit.cli.serve import add_setting, needing_extra, setting

FAULTS = 1  # the exit code


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit check`."""
    command.add_argument(
        "folder", metavar="DIR", help="the data folder of `onebit serve`, which may be running, or postgresql://..."
    )
    add_setting(command, "token_file")
    add_rule_option(command)
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(chosen: argparse.Namespace) -> int:
    """Look through a log, and print what was found."""
    with needing_extra():
        from onebit.service.maintenance.check import check
    report = check(chosen.folder, setting(chosen, "token_file"))
    if chosen.json:
        print(json.dumps(report.to_dict(), ensure_ascii=False))
    elif report.fine:
        print(f"{report.folder} is whole: {report.counted()}")
    else:
        for fault in report.faults:
            print(f"{fault.where}: {fault.what}")
        if report.more:
            print(f"and {report.more} more")
    return 0 if report.fine else FAULTS
