"""Create, list and revoke the tokens that let programs and people use `onebit serve`.

Changes are written to the token file, or to the database of --log, and take effect in a running service at once. A token is shown once,
when it is created; only a hash of it is stored. Examples:

    onebit token create --data service --scope decide,feedback --task digits
    onebit token create --data service --scope read --expires 90d
    onebit token create --data service --scope admin --name "for the dashboard"
    onebit token list --data service
    onebit token revoke 1f0c9a2b7d3e --data service
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from onebit.cli.options import parse_future_time, parse_names
from onebit.cli.serve import add_setting, read_setting, require_service_extra
from onebit.cli.terminal import print_json
from onebit.errors import InputError, brief
from onebit.service.settings import TOKENS, Settings

if TYPE_CHECKING:
    from onebit.service.tokens import Token, Tokens


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("action", choices=["create", "list", "revoke"], help="what to do")
    command.add_argument("id", metavar="ID", nargs="?", help="the token to revoke, by its id or its text")
    add_setting(command, "data")
    add_setting(command, "log")
    add_setting(command, "token_file")
    command.add_argument(
        "--scope", metavar="A,B,...", help="what a new token may do: decide, feedback, read, admin (all of it)"
    )
    command.add_argument(
        "--task", metavar="NAME", action="append", default=[], help="a task that a new token is for (default: all)"
    )
    command.add_argument("--name", help="a note about a new token, for the list")
    command.add_argument(
        "--expires",
        metavar="WHEN",
        type=parse_future_time,
        help="when a new token expires: after 12h, 90d or 8w, or at a local time, 2027-01-01 or 2027-01-01T12:00 "
        "(default: when it is revoked)",
    )


def execute(args: argparse.Namespace) -> None:
    """Create, list or revoke tokens."""
    tokens = _open_tokens(args)
    if args.action != "create":
        for option in ("scope", "task", "name", "expires"):
            if getattr(args, option):
                raise InputError(f"--{option} applies only to `onebit token create`")
    if args.action != "revoke" and args.id is not None:
        raise InputError(f"onebit token {args.action} takes no ID, but got {brief(args.id)}")
    if args.action == "list":
        if args.json:
            print_json([token.model_dump(exclude={"digest"}) for token in tokens.listed()])
        else:
            _print_tokens(tokens.listed())
    elif args.action == "revoke":
        if args.id is None:
            raise InputError("ID is missing: the id of the token to revoke; `onebit token list` shows them")
        print(f"token {tokens.revoke(args.id).id} is revoked", file=sys.stderr)
    else:
        print(tokens.create(parse_names(args.scope), args.task, args.name, args.expires))
        data = read_setting(args, "data")
        if data is not None and not (data / "onebit.db").exists():
            print(f"there is no service in {data} yet", file=sys.stderr)
        print(f"this is the only time that the token is shown; {tokens.name} keeps only a hash of it", file=sys.stderr)


def _open_tokens(args: argparse.Namespace) -> Tokens:
    data, log, file = (read_setting(args, name) for name in ("data", "log", "token_file"))
    if file is None and data is None and log is None:
        raise InputError(
            "--data DIR is missing: give the folder of the service (or set ONEBIT_SERVE_DATA), --token-file FILE, or --log ADDRESS"
        )
    with require_service_extra():
        from onebit.service.store.base import store_at
        from onebit.service.tokens import Tokens
    if log is not None and file is None:
        return store_at(log).tokens(Settings(data=Path(), log=log))
    if args.action != "create" and not (file or data).exists():
        raise InputError(f"there is no {file or data}, so there are no tokens")
    return Tokens(file or data / TOKENS)


def _print_tokens(tokens: list[Token]) -> None:
    for token in tokens:
        tasks = "all tasks" if token.tasks is None else ", ".join(token.tasks)
        revoked = "" if token.revoked is None else f"  revoked {_format_time(token.revoked)}"
        name = "" if token.name is None else f"  {token.name}"
        about = f"{','.join(token.scopes)}  {tasks}{name}{_format_expiry(token.expires)}{revoked}"
        print(f"{token.id}  {_format_time(token.created)}  {about}")


def _format_expiry(expires: float | None) -> str:
    if expires is None:
        return ""
    return f"  {'expired' if expires <= time.time() else 'expires'} {_format_time(expires)}"


def _format_time(timestamp: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(timestamp))
