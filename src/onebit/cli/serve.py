"""Serve learners over HTTP: decide, take feedback, and learn, without losing anything.

The log, snapshots and tokens are kept in the folder --data, or in the database --log. Every option can also be set in the environment,
as ONEBIT_SERVE_ and its name; the option takes precedence. Examples:

    onebit serve --data service
    onebit serve --data service --port 9000 --log-format text
    ONEBIT_SERVE_DATA=service onebit serve --host 0.0.0.0       # needs a token: onebit token create
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from onebit.cli.options import positive, whole
from onebit.contract.installation import install_command
from onebit.errors import InputError, MissingExtraError
from onebit.service.settings import Settings

DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Option(NamedTuple):
    """The command-line option for a setting of the service."""

    read: Callable[[str], Any]
    metavar: str
    help: str
    is_list: bool = False  # may be repeated; comma-separated in the environment


def seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def port(text: str) -> int:
    """Parse a port number; 0 means any free port."""
    number = whole(text)
    if number > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: the largest is 65535")
    return number


def log_format(text: str) -> str:
    """Parse a log format: json or text."""
    if text not in ("json", "text"):
        raise argparse.ArgumentTypeError(f"{text!r} must be json or text")
    return text


def origin(text: str) -> str:
    """Parse the origin of a page and return it as browsers send it, without a default port."""
    parts = re.fullmatch(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:\d{1,5})?/?", text.lower())
    if parts is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the origin of a page: give a scheme, a host and perhaps a port, as in https://app.example.org"
        )
    scheme, host, port = parts.groups()
    return f"{scheme}://{host}{'' if port in (None, DEFAULT_PORTS[scheme]) else port}"


def database(text: str) -> str:
    """Parse the address of a PostgreSQL database."""
    if not text.startswith(("postgresql://", "postgres://")):
        raise argparse.ArgumentTypeError(f"{text!r} is not the address of a database, such as postgresql://HOST/NAME")
    return text


def absolute_rule(text: str) -> str:
    """Parse a rule, and make the path of its file absolute so that other processes find it."""
    path, colon, name = text.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if colon else text


OPTIONS = {
    "data": Option(Path, "DIR", "folder for the log, the snapshots and the tokens; created if it does not exist"),
    "log": Option(
        database,
        "ADDRESS",
        "PostgreSQL database for the log, the snapshots and the tokens, which nodes may share, instead of DIR: postgresql://...",
    ),
    "host": Option(str, "NAME", "name or address to listen on"),
    "port": Option(port, "PORT", "port to listen on; 0 picks a free one"),
    "token_file": Option(Path, "FILE", "token file; by default tokens.json in DIR"),
    "max_body": Option(positive, "BYTES", "largest body of a request"),
    "max_batch": Option(positive, "N", "largest number of decisions or feedbacks in one request"),
    "max_values": Option(positive, "N", "largest number of names in a dict x, or of words in a text x"),
    "max_connections": Option(positive, "N", "largest number of connections at once"),
    "cors_origin": Option(
        origin,
        "ORIGIN",
        "a site whose pages may use the service, such as https://app.example.org; may be repeated; none by default",
        is_list=True,
    ),
    "snapshot_every": Option(positive, "N", "events of a task between snapshots"),
    "keep_snapshots": Option(positive, "N", "newest snapshots to keep of each task, besides a few older ones"),
    "request_timeout_s": Option(seconds, "S", "seconds within which a request must arrive"),
    "max_tasks": Option(positive, "N", "largest number of tasks at a time"),
    "max_tasks_per_token": Option(positive, "N", "largest number of tasks at a time created with one token"),
    "max_task_memory": Option(positive, "BYTES", "largest memory of a new learner, for its two copies together"),
    "drain_s": Option(seconds, "S", "seconds to finish requests at shutdown"),
    "log_format": Option(
        log_format,
        "FORM",
        "format of the log on stderr: json, or text for people; by default text in a terminal, json elsewhere",
    ),
    "rule": Option(
        absolute_rule,
        "FILE.py:NAME",
        "a rule of your own that tasks may use; may be repeated",
        is_list=True,
    ),
}


def declare(command: argparse.ArgumentParser) -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
    for name in OPTIONS:
        default = defaults[name]
        add_setting(command, name, "" if default in (None, (), dataclasses.MISSING) else f"; default {default}")


def add_setting(command: argparse.ArgumentParser, name: str, note: str = "") -> None:
    """Add the option for a setting of the service to a command."""
    option = OPTIONS[name]
    command.add_argument(
        f"--{name.replace('_', '-')}",
        type=option.read,
        action="append" if option.is_list else "store",
        metavar=option.metavar,
        help=f"{option.help} (or {variable(name)}{note})",
    )


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"ONEBIT_SERVE_{name.upper()}"


def setting(chosen: argparse.Namespace, name: str) -> Any:
    """Return a setting from its option or the environment; None if it is in neither."""
    value = getattr(chosen, name)
    option = OPTIONS[name]
    text = os.environ.get(variable(name))
    if value is not None or not text:
        return value
    try:
        return [option.read(item.strip()) for item in text.split(",")] if option.is_list else option.read(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"{variable(name)}: {error}") from None


@contextmanager
def needing_extra() -> Iterator[None]:
    """Turn a missing dependency of the service into an error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name == "fcntl":  # this module exists only on systems with such file locks
            raise InputError("the service runs on Linux and macOS only: it needs their file locks") from None
        raise MissingExtraError(
            f"the service needs {error.name}, which is not installed: {install_command('serve')}"
        ) from None


def execute(chosen: argparse.Namespace) -> int:
    """Run the service until a signal ends the process."""
    values = {name: setting(chosen, name) for name in OPTIONS}
    if values["log"] is not None:
        if values["data"] is not None:
            raise InputError("give either --data or --log, not both")
        values["data"] = Path()
    if values["data"] is None:
        raise InputError("--data DIR is missing: the folder of the service (or set ONEBIT_SERVE_DATA)")
    values |= {name: tuple(values[name] or ()) for name, option in OPTIONS.items() if option.is_list}
    settings = Settings(**{name: value for name, value in values.items() if value is not None})
    with needing_extra():
        from onebit.service.http.process import serve
    return serve(settings)
