"""Copy the log of a service: from a folder to a PostgreSQL database, which many nodes can share, or back.

Every row keeps its number and its time, and is read back and compared. Tokens are copied too; snapshots are not, and are recreated by
the next start. The rows of FROM do not change; a folder is locked meanwhile. Stop the service first. Examples:

    onebit copy service postgresql://db.example.org/onebit
    onebit copy postgresql://db.example.org/onebit folder
"""

from __future__ import annotations

import argparse
import json

from onebit.cli.serve import needing_extra


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit copy`."""
    where = "the data folder of `onebit serve`, or the address of a database"
    command.add_argument("source", metavar="FROM", help=where)
    command.add_argument("target", metavar="TO", help=f"{where}, where there is no log yet")
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(chosen: argparse.Namespace) -> int:
    """Copy, and say what was copied."""
    with needing_extra():
        from onebit.service.maintenance.copy import copy
    copied = copy(chosen.source, chosen.target)
    if chosen.json:
        print(json.dumps({**copied.rows, "tokens": copied.tokens}))
    else:
        counted = ", ".join(f"{name}: {count}" for name, count in {**copied.rows, "tokens": copied.tokens}.items())
        print(f"copied and compared, row by row: {counted}")
    return 0
