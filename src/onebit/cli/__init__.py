"""The command line. Bad input gives one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import argparse
import inspect
import io
import logging
import os
import shlex
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pkgutil import resolve_name
from typing import NoReturn

from onebit.errors import InputError, OnebitError, OnebitWarning, brief, nearest
from onebit.version import VERSION

# Commands in the order of --help, with the module or class that has `add_arguments`, `execute` and the help text as its docstring.
COMMANDS = {
    "run": "run",
    "compare": "compare",
    "sweep": "sweep",
    "reproduce": "reproduce",
    "learners": "learners",
    "data": "data",
    "warmup": "warmup",
    "bounds": "bounds",
    "serve": "serve",
    "token": "token",
    "export": "export",
    "check": "maintenance:Check",
    "copy": "maintenance:Copy",
    "forget": "maintenance:Forget",
    "archive": "maintenance:Archive",
    "replay": "replay",
    "evaluate": "evaluate",
    "doctor": "doctor",
}
# Packages whose information is shown, not only their warnings: they report what takes long or runs elsewhere.
VERBOSE = ("onebit.engine", "onebit.experiments")
STOPPED = 130  # the exit code that shells expect after Ctrl-C


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {_join_lines(message)} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def build_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command, importing only its module."""
    command = resolve_name(f"{__name__}.{COMMANDS[name]}")
    parser = _Parser(
        prog=f"onebit {name}",
        description=inspect.getdoc(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # otherwise a new option could change the meaning of an existing command line
    )
    command.add_arguments(parser)
    if name != "serve":
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(command=name, execute=command.execute)
    return parser


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line without importing the modules of other commands."""
    name, *arguments = words
    if name.startswith("-"):
        _answer_without_command(words)
    if name not in COMMANDS:
        raise InputError(f"there is no command {brief(name)}; {nearest(name, COMMANDS)}")
    return build_parser(name).parse_intermixed_args(arguments)  # options before, between and after arguments


def _answer_without_command(words: Sequence[str]) -> NoReturn:
    """Print the version, or the help with all commands, and exit."""
    listed = () if words[0] in ("-V", "--version") else COMMANDS
    summaries = {name: (build_parser(name).description or "").split("\n")[0] for name in listed}
    top = _Parser(
        prog="onebit",
        usage="onebit [-h] [-V] COMMAND ...",
        description="Online multiclass classification with bandit feedback.",
        epilog="\n".join(["commands:", *(f"  {name:<11}{text}" for name, text in summaries.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("-V", "--version", action="version", version=f"onebit {VERSION}")
    top.parse_args(words)
    top.error("COMMAND is missing")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for terminals that cannot show all characters
    try:
        try:
            words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
            args = _parse(words)
            args.command_line = shlex.join(["onebit", *words])
            with nullcontext() if args.command == "serve" else _log_to_stderr():  # the service formats its own log
                code = int(args.execute(args) or 0)
        except SystemExit as exit_request:  # argparse exits after --help, --version and invalid arguments
            code = int(exit_request.code or 0)
        sys.stdout.flush()
        return code
    except OnebitError as error:
        return _print_error(str(error), 2)
    except MemoryError as error:
        return _print_error(f"there is not enough memory: {error}", 2)
    except KeyboardInterrupt as interrupt:
        return _print_error(str(interrupt) or "stopped", STOPPED)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has closed it
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        return _print_error(f"the output cannot be written: {error.strerror or error}", 2)


def console() -> NoReturn:
    """Run the command given on the command line, and exit.

    After Ctrl-C a thread may be in code that cannot be interrupted, such as the solver of a convex program. Python would wait for it
    for seconds; finished work is on disk by then.
    """
    code = main()
    if code == STOPPED and any(thread.name.startswith("onebit-") for thread in threading.enumerate()):
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    """Log warnings of all packages, and information of those in `VERBOSE`, to stderr, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("onebit: %(message)s"))
    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # our own messages say the same
    package_logger, verbose = logging.getLogger("onebit"), [logging.getLogger(name) for name in VERBOSE]
    levels = [logger.level for logger in verbose]
    package_logger.addHandler(handler)
    for logger in verbose:
        logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", OnebitWarning)
            show = warnings.showwarning
            warnings.showwarning = lambda message, category, *where: (
                package_logger.warning("%s", message)
                if issubclass(category, OnebitWarning)
                else show(message, category, *where)
            )
            yield
    finally:
        package_logger.removeHandler(handler)
        for logger, level in zip(verbose, levels, strict=True):
            logger.setLevel(level)


def _print_error(message: str, code: int) -> int:
    print(f"onebit: {_join_lines(message)}", file=sys.stderr)
    return code


def _join_lines(message: str) -> str:
    return " ".join(message.split())


def _discard_output() -> None:
    """Discard buffered output, which Python would fail to write at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
