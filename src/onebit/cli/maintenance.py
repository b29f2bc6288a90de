"""The commands `check`, `copy`, `forget` and `archive` for the log of a service, one class each."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from onebit.cli.options import add_rule_option, parse_past_time
from onebit.cli.serve import add_setting, read_setting, require_service_extra
from onebit.cli.terminal import print_json

FAULTS = 1  # exit code of `onebit check` if there are faults


class Check:
    """Check whether the log of a service is intact; the service may be running.

    The log is in a folder or in PostgreSQL. This reads the database, its tables, every row of the log, the snapshots and the tokens, and
    changes nothing. Exit code 0 means that all is well, 1 that there are faults, which are listed, and 2 that the folder could not be
    read. Examples:

        onebit check service
        onebit check service --json
        onebit check postgresql://onebit@db.example.org/onebit
    """

    @staticmethod
    def add_arguments(command: argparse.ArgumentParser) -> None:
        command.add_argument(
            "folder", metavar="DIR", help="the data folder of `onebit serve`, which may be running, or postgresql://..."
        )
        add_setting(command, "token_file")
        add_rule_option(command)

    @staticmethod
    def execute(args: argparse.Namespace) -> int:
        with require_service_extra():
            from onebit.service.maintenance.check import check
        report = check(args.folder, read_setting(args, "token_file"))
        if args.json:
            print_json(report.to_dict())
        elif report.fine:
            print(
                f"{report.folder} is intact: {', '.join(f'{name}: {count}' for name, count in report.counts.items())}"
            )
        else:
            for fault in report.faults:
                print(f"{fault.where}: {fault.what}")
            if report.more:
                print(f"and {report.more} more faults")
        return 0 if report.fine else FAULTS


class Copy:
    """Copy the log of a service from a folder to a PostgreSQL database, or back.

    Many nodes can share a database. Every row keeps its number and its time, and is read back and compared. Tokens are copied too;
    snapshots are not, and are recreated by the next start. The rows of FROM do not change; a folder is locked meanwhile. Stop the service
    first. Examples:

        onebit copy service postgresql://db.example.org/onebit
        onebit copy postgresql://db.example.org/onebit folder
    """

    @staticmethod
    def add_arguments(command: argparse.ArgumentParser) -> None:
        where = "the data folder of `onebit serve`, or the address of a database"
        command.add_argument("source", metavar="FROM", help=where)
        command.add_argument("target", metavar="TO", help=f"{where}, where there is no log yet")

    @staticmethod
    def execute(args: argparse.Namespace) -> None:
        with require_service_extra():
            from onebit.service.maintenance.copy import copy
        counts = copy(args.source, args.target)
        if args.json:
            print_json(counts)
        else:
            print(f"copied and compared, row by row: {', '.join(f'{name}: {count}' for name, count in counts.items())}")


class Forget:
    """Delete decisions from the log of a stopped service, or from PostgreSQL, whose nodes may run.

    If a service runs on a folder, use its route `forget` instead. The rows of the decisions are deleted with their feedback and its
    revisions, from the database, its free pages and its journal, and so are all older snapshots of the task. Learners whose state contains
    rows (kernels, and auto on numbers) unlearn them: the log is replayed without them at the next start. All others keep what they learnt,
    unless --unlearn is given. Ids are not used again. Exports, backups and copies of the folder are your responsibility. Examples:

        onebit forget service news --id mail-17 --id mail-18
        onebit forget service news --before 2026-01-01
        onebit forget service news --id mail-17 --unlearn
        onebit forget postgresql://onebit@db.example.org/onebit news --before 90d
    """

    @staticmethod
    def add_arguments(command: argparse.ArgumentParser) -> None:
        _add_stopped_log(command)
        which = command.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "--id", metavar="ID", action="append", help="the id of a decision; may be given several times"
        )
        which.add_argument(
            "--before",
            metavar="DATE",
            type=parse_past_time,
            help="all decisions made before a time, 2026-01-01 (UTC) or 2026-01-01T12:00+02:00, or longer ago than 90d, 8w or 12h",
        )
        command.add_argument(
            "--unlearn", action="store_true", help="unlearn them even if the learner could keep what it learnt"
        )

    @staticmethod
    def execute(args: argparse.Namespace) -> None:
        with require_service_extra():
            from onebit.service.maintenance.forget import ForgetOrder, forget
        reply = forget(args.folder, args.task, ForgetOrder(args.id, args.before, args.unlearn))
        if args.json:
            print_json(reply)
            return
        learner = f"; what was learnt from them: {reply['learner']}" if reply["forgotten"] else ""
        print(f"{args.task}: decisions forgotten: {reply['forgotten']:,}{learner}")
        _warn_if_unerased(reply["erased"])


class Archive:
    """Move completed months of a task from the log of a service into Parquet files.

    The service must be stopped; with PostgreSQL its nodes may run. One file is written for each month (UTC), TO/TASK/2026-01.parquet and so
    on, and compared with the log row by row. Then the decisions are deleted from the log, as by `onebit forget`, except that the learner
    keeps everything it learnt. Months not completed at --before stay in the log. If the command is interrupted, run it again to finish.
    `onebit evaluate TO/TASK` reads the files. Examples:

        onebit archive service news --to archive
        onebit archive service news --before 2026-01-01 --to archive
        onebit archive postgresql://onebit@db.example.org/onebit news --to archive
        onebit evaluate archive/news --learner linucb
    """

    @staticmethod
    def add_arguments(command: argparse.ArgumentParser) -> None:
        _add_stopped_log(command)
        command.add_argument(
            "--to",
            metavar="DIR",
            type=_parse_folder,
            required=True,
            help="the folder of the archive, created if missing",
        )
        command.add_argument(
            "--before",
            metavar="DATE",
            type=parse_past_time,
            help="months that ended before a time, 2026-01-01 (UTC), or longer ago than 90d, 8w or 12h (default: now)",
        )

    @staticmethod
    def execute(args: argparse.Namespace) -> None:
        with require_service_extra():
            from onebit.service.maintenance.archive import archive
        before = time.time() if args.before is None else args.before
        reply = archive(args.folder, args.task, before, args.to)
        if args.json:
            print_json(reply)
            return
        for file in reply["files"]:
            print(f"{file['file']}: decisions: {file['decisions']:,}")
        print(f"{args.task}: decisions archived, and no longer in the log: {reply['archived']:,}")
        _warn_if_unerased(reply["erased"])


def _add_stopped_log(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "folder",
        metavar="DIR",
        help="the data folder of `onebit serve`, which must not be running, or postgresql://...",
    )
    command.add_argument("task", metavar="TASK", help="the name of a task")
    add_rule_option(command)


def _parse_folder(text: str) -> Path:
    if not text:  # probably an unset shell variable
        raise argparse.ArgumentTypeError("the name is empty, but must be that of a folder")
    return Path(text)


def _warn_if_unerased(is_erased: bool) -> None:
    if not is_erased:
        print(
            "the database file could not be rewritten and may still contain them: the next start of the service rewrites it"
        )
