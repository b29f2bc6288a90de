"""What onebit raises: kinds of `OnebitError`, each also of the kind that Python has for it. And what it warns with."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class OnebitError(Exception):
    """The base class of all errors of onebit; the message says what is wrong, where, and what would be right."""


class InputError(OnebitError, ValueError):
    """Something given to onebit cannot be used: an argument, a file, a row, a field."""


class MissingExtraError(OnebitError, ImportError):
    """A package is needed that is not installed; the message says with which extra it comes."""


class NetworkError(OnebitError, ConnectionError):
    """Another machine cannot be reached or does not answer; the message says which."""


class OutOfMemoryError(OnebitError, MemoryError):
    """There is not enough memory for what was asked; the message says for what."""


MOST_SHOWN = 200  # characters of what was given, in a sentence about it
MOST_NAMED = 50  # names in a sentence: all learners and options, but not the columns of a wide table


def truncate(text: str, most: int = MOST_SHOWN) -> str:
    """A text, cut where it is long.

    >>> truncate("abcdef", 3), truncate("abc", 3)
    ('abc...', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]}..."


class OnebitWarning(UserWarning):
    """Something works, but perhaps not as you expect."""


_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = _SHORT.maxarray = 6
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def brief(value: object) -> str:
    """A value for a sentence: never more than a line of it, however large it is.

    >>> brief("yes"), brief(list(range(1000)))
    ("'yes'", '[0, 1, 2, 3, 4, 5, ...]')
    """
    return _SHORT.repr(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or all of them.

    >>> nearest("bandtron", ["banditron", "bpa"])
    "did you mean 'banditron'?"
    """
    names = sorted(known)
    close = closest(name, names)
    if close is not None:
        return f"did you mean {close!r}?"
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"known are: {', '.join(names[:MOST_NAMED])}{more}" if names else "there are none"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is nearest to one that is unknown, if there is one near it."""
    folded = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name[:MOST_SHOWN].lower(), folded, n=1)
    return folded[close[0]] if close else None


def clean_lines(said: object) -> list[str]:
    """What another program said, line by line, without the colours of a terminal: Numba has them where Ray is imported.

    >>> clean_lines("\\x1b[1mno such function\\x1b[0m\\n\\n  File x.py:")
    ['no such function', 'File x.py:']
    """
    lines = (line.strip() for line in _COLOURS.sub("", str(said)).splitlines())
    return [line for line in lines if line]
