"""Errors and the warning of onebit; each error subclasses `OnebitError` and a built-in exception."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class OnebitError(Exception):
    """The base class of all errors of onebit."""


class InputError(OnebitError, ValueError):
    """An argument, file, row or field given to onebit cannot be used."""


class MissingExtraError(OnebitError, ImportError):
    """A required package is not installed; the message names the extra that contains it."""


class NetworkError(OnebitError, ConnectionError):
    """Another machine cannot be reached or does not answer; the message says which."""


class OutOfMemoryError(OnebitError, MemoryError):
    """There is not enough memory for an operation; the message says which."""


MOST_SHOWN = 200  # characters of a quoted value in a message
MOST_NAMED = 50  # names in a message: enough for all learners and options, not for the columns of a wide table


def truncate(text: str, most: int = MOST_SHOWN) -> str:
    """Return a text, cut if it is longer than `most` characters.

    >>> truncate("abcdef", 3), truncate("abc", 3)
    ('abc...', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]}..."


class OnebitWarning(UserWarning):
    """A warning that something works, but perhaps not as you expect."""


_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = _SHORT.maxarray = 6
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def brief(value: object) -> str:
    """Return the representation of a value for a message, shortened to at most a line.

    >>> brief("yes"), brief(list(range(1000)))
    ("'yes'", '[0, 1, 2, 3, 4, 5, ...]')
    """
    return _SHORT.repr(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known name, or all of them.

    >>> nearest("bandtron", ["banditron", "bpa"])
    "did you mean 'banditron'?"
    """
    names = sorted(known)
    match = closest(name, names)
    if match is not None:
        return f"did you mean {match!r}?"
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"known are: {', '.join(names[:MOST_NAMED])}{more}" if names else "there are none"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to an unknown one; None if none is similar."""
    by_lowercase = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(name[:MOST_SHOWN].lower(), by_lowercase, n=1)
    return by_lowercase[matches[0]] if matches else None


def clean_lines(output: object) -> list[str]:
    r"""Return the lines of another program's output, without terminal colours and blank lines.

    Numba's errors have colours if Ray is imported.

    >>> clean_lines("\x1b[1mno such function\x1b[0m\n\n  File x.py:")
    ['no such function', 'File x.py:']
    """
    lines = (line.strip() for line in _COLOURS.sub("", str(output)).splitlines())
    return [line for line in lines if line]
