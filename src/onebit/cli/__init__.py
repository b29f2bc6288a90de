"""The command line: one file a command. Bad input is one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import argparse
import importlib
import io
import logging
import os
import shlex
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NoReturn

from onebit.errors import InputError, OnebitError, OnebitWarning, brief, nearest
from onebit.version import VERSION

COMMANDS = (
    "run",
    "compare",
    "sweep",
    "reproduce",
    "learners",
    "data",
    "warmup",
    "bounds",
    "serve",
    "token",
    "export",
    "check",
    "copy",
    "forget",
    "archive",
    "replay",
    "evaluate",
    "doctor",
)  # one file each, in the order in which --help has them
SAID = ("engine", "experiments")  # the parts whose progress is shown
STOPPED = 130  # what shells expect of a program that was stopped with Ctrl-C


class _Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line, and to which options may be given before, between and after what they are for."""

    _mixing = False

    def __init__(self, **options: Any) -> None:
        super().__init__(
            allow_abbrev=False, **options
        )  # an option that is added later would change what a short form means

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read the arguments, those of a command in any order."""
        if self._mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._mixing = True  # the way that takes any order comes back here for its two halves
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {_one_line(message)} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def parser(commands: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of these commands; their files are imported for it."""
    top = _Parser(prog="onebit", description="Online multiclass classification with bandit feedback.")
    top.add_argument("-V", "--version", action="version", version=f"onebit {VERSION}")
    parsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name in commands:
        module = importlib.import_module(f"{__name__}.{name}")
        text = module.__doc__ or ""
        command = parsers.add_parser(
            name,
            help=text.split("\n")[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.declare(command)
        command.set_defaults(execute=module.execute, complain=command.error)
    return top


def _parser_for(words: Sequence[str]) -> argparse.ArgumentParser:
    """A parser of the command that is meant, so that nothing is imported for the others."""
    named = next((word for word in words if not word.startswith("-")), None)
    if named is None:
        return parser(() if words[0] in ("-V", "--version") else COMMANDS)
    if named not in COMMANDS:
        raise InputError(f"there is no command {brief(named)}; {nearest(named, COMMANDS)}")
    return parser([named])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without the letters of a name shows it as well as it can
    try:
        try:
            words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
            chosen, unknown = _parser_for(words).parse_known_args(words)
            if unknown:
                chosen.complain(f"there is no {' '.join(unknown)} here")
            chosen.said = shlex.join(["onebit", *words])
            with nullcontext() if chosen.command == "serve" else _log_shown():  # a service has a log of its own form
                code = int(chosen.execute(chosen) or 0)
        except SystemExit as leaving:  # argparse's way to end after --help, --version and what it cannot read
            code = int(leaving.code or 0)
        sys.stdout.flush()
        return code
    except OnebitError as error:
        return _complain(str(error), 2)
    except MemoryError as error:
        return _complain(f"there is not enough memory: {error}", 2)
    except KeyboardInterrupt as stopped:
        return _complain(str(stopped) or "stopped", STOPPED)
    except BrokenPipeError:  # the reader of a pipe, `head` say, has seen enough
        _abandon_output()
        return 0
    except OSError as error:
        _abandon_output()
        return _complain(f"the output cannot be written: {error.strerror or error}", 2)


def console() -> NoReturn:
    """The program `onebit`: run the command of its arguments, and end.

    After Ctrl-C a thread may be at something that does not hear of it, solving a convex program say. Python would wait for that, for
    seconds; what is done is on disk by now.
    """
    code = main()
    if code == STOPPED and any(thread.name.startswith("onebit-") for thread in threading.enumerate()):
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@contextmanager
def _log_shown() -> Iterator[None]:
    """What takes long or runs elsewhere is said on stderr, a line each; of everything else only what is wrong, and warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("onebit: %(message)s"))
    # What a driver says of a database that has died comes with our own sentence of it.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    ours, said = logging.getLogger("onebit"), [logging.getLogger(f"onebit.{part}") for part in SAID]
    levels = [logger.level for logger in said]
    ours.addHandler(handler)
    for logger in said:
        logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", OnebitWarning)
            shown = warnings.showwarning
            warnings.showwarning = lambda message, category, *where: (
                ours.warning("%s", message) if issubclass(category, OnebitWarning) else shown(message, category, *where)
            )
            yield
    finally:
        ours.removeHandler(handler)
        for logger, level in zip(said, levels, strict=True):
            logger.setLevel(level)


def _complain(message: str, code: int) -> int:
    print(f"onebit: {_one_line(message)}", file=sys.stderr)
    return code


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _abandon_output() -> None:
    """Let what is still buffered go nowhere, or Python complains of it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
