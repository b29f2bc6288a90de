"""Delete decisions from the log of a service that is stopped, or from PostgreSQL, whose nodes may run; for a running service, use the route `forget`.

Their rows are deleted with their feedback and its revisions, from the database, its free pages and its journal, and so are all older
snapshots of the task. Learners whose state contains rows (kernels, and auto on numbers) unlearn them: the log is replayed without them at
the next start. All others keep what they learnt, unless --unlearn is given. Ids are not used again. Exports, backups and copies of the
folder are your responsibility. Examples:

    onebit forget service news --id mail-17 --id mail-18
    onebit forget service news --before 2026-01-01
    onebit forget service news --id mail-17 --unlearn
    onebit forget postgresql://onebit@db.example.org/onebit news --before 90d
"""

from __future__ import annotations

import argparse
import json

from onebit.cli.options import add_rule_option, earlier_time
from onebit.cli.serve import needing_extra


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit forget`."""
    command.add_argument(
        "folder",
        metavar="DIR",
        help="the data folder of `onebit serve`, which must not be running, or postgresql://...",
    )
    command.add_argument("task", metavar="TASK", help="the name of a task")
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("--id", metavar="ID", action="append", help="the id of a decision; may be given several times")
    which.add_argument(
        "--before",
        metavar="DATE",
        type=earlier_time,
        help="all decisions made before a time: 2026-01-01 (UTC), 2026-01-01T12:00+02:00, or so long ago: 90d, 8w",
    )
    command.add_argument(
        "--unlearn", action="store_true", help="unlearn them, also where the learner could keep what it learnt"
    )
    add_rule_option(command)
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(chosen: argparse.Namespace) -> None:
    """Forget, and say what was done."""
    with needing_extra():
        from onebit.service.maintenance.forget import ForgetOrder, forget
    order = ForgetOrder(chosen.id, chosen.before, chosen.unlearn)
    found = forget(chosen.folder, chosen.task, order)
    if chosen.json:
        print(json.dumps(found))
        return
    print(
        f"{chosen.task}: decisions forgotten: {found['forgotten']:,}"
        + (f", what was learnt is {found['learner']}" if found["forgotten"] else "")
    )
    if not found["erased"]:
        print("the file could not be written anew now, and may still have them: the next start of the service does it")
