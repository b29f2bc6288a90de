"""Serve learners over HTTP: make decisions, take feedback and learn, without losing anything.

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
from typing import Any, get_type_hints

from onebit.cli.options import parse_count, parse_positive
from onebit.contract.installation import install_command
from onebit.errors import InputError, MissingExtraError
from onebit.service.settings import Option, Settings

DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def parse_seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def parse_port(text: str) -> int:
    """Parse a port number; 0 means any free port."""
    number = parse_count(text)
    if number > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: the largest is 65535")
    return number


def parse_log_format(text: str) -> str:
    """Parse a log format: json or text."""
    if text not in ("json", "text"):
        raise argparse.ArgumentTypeError(f"{text!r} must be json or text")
    return text


def parse_origin(text: str) -> str:
    """Parse the origin of a page and return it as browsers send it, without a default port."""
    parts = re.fullmatch(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:\d{1,5})?/?", text.lower())
    if parts is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the origin of a page: give a scheme, a host and perhaps a port, as in https://app.example.org"
        )
    scheme, host, port = parts.groups()
    return f"{scheme}://{host}{'' if port in (None, DEFAULT_PORTS[scheme]) else port}"


def parse_address(text: str) -> str:
    """Parse the address of a PostgreSQL database."""
    if not text.startswith(("postgresql://", "postgres://")):
        raise argparse.ArgumentTypeError(f"{text!r} is not the address of a database, such as postgresql://HOST/NAME")
    return text


def parse_rule(text: str) -> str:
    """Parse a rule, and make the path of its file absolute so that other processes find it."""
    path, colon, name = text.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if colon else text


DEFAULTS = {field.name: field.default for field in dataclasses.fields(Settings)}
OPTIONS: dict[str, Option] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Settings, include_extras=True).items()
}
# The parsers of settings; all others are whole numbers of at least 1.
PARSERS: dict[str, Callable[[str], Any]] = {
    "data": Path,
    "log": parse_address,
    "host": str,
    "port": parse_port,
    "token_file": Path,
    "cors_origin": parse_origin,
    "request_timeout_s": parse_seconds,
    "drain_s": parse_seconds,
    "log_format": parse_log_format,
    "rule": parse_rule,
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    for name, default in DEFAULTS.items():
        add_setting(command, name, "" if default in (None, (), dataclasses.MISSING) else f"; default {default}")


def add_setting(command: argparse.ArgumentParser, name: str, note: str = "") -> None:
    """Add the option for a setting of the service to a command."""
    option = OPTIONS[name]
    command.add_argument(
        f"--{name.replace('_', '-')}",
        type=PARSERS.get(name, parse_positive),
        action="append" if _is_list(name) else "store",
        metavar=option.metavar,
        help=f"{option.help} (or {environment_variable(name)}{note})",
    )


def _is_list(name: str) -> bool:
    """Return True if a setting may be repeated; in the environment it is separated by commas."""
    return DEFAULTS[name] == ()


def environment_variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"ONEBIT_SERVE_{name.upper()}"


def read_setting(args: argparse.Namespace, name: str) -> Any:
    """Return a setting from its option or the environment; None if it is in neither."""
    value = getattr(args, name)
    parse = PARSERS.get(name, parse_positive)
    text = os.environ.get(environment_variable(name))
    if value is not None or not text:
        return value
    try:
        return [parse(item.strip()) for item in text.split(",")] if _is_list(name) else parse(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"{environment_variable(name)}: {error}") from None


@contextmanager
def require_service_extra() -> Iterator[None]:
    """Turn a missing dependency of the service into an error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name == "fcntl":  # this module exists only on systems with such file locks
            raise InputError("the service runs on Linux and macOS only: it needs their file locks") from None
        raise MissingExtraError(
            f"the service needs {error.name}, which is not installed: {install_command('serve')}"
        ) from None


def execute(args: argparse.Namespace) -> int:
    """Run the service until a signal ends the process."""
    values = {name: read_setting(args, name) for name in OPTIONS}
    if values["log"] is not None:
        if values["data"] is not None:
            raise InputError("give either --data or --log, not both")
        values["data"] = Path()
    if values["data"] is None:
        raise InputError("--data DIR is missing: the folder of the service (or set ONEBIT_SERVE_DATA)")
    values |= {name: tuple(values[name] or ()) for name in OPTIONS if _is_list(name)}
    settings = Settings(**{name: value for name, value in values.items() if value is not None})
    with require_service_extra():
        from onebit.service.http.process import serve
    return serve(settings)
