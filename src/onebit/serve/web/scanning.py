"""The outline of a large body, before any of it is parsed: where its items are, how deep it goes, and how much is in them.

Parsing makes an object of every value, and holds the interpreter while it does so. This only counts marks over the raw bytes, in
NumPy, a block at a time: it takes little memory, and a thread that does it lets others go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Content = bytes | bytearray
BLOCK = 2**17  # bytes that are looked at in one go
DEEPEST = 32  # lists and objects in each other
LONGEST_NAME = 64  # bytes of the name of a field, with the spaces behind it
_QUOTE, _BACKSLASH, _COMMA, _COLON, _LIST = b'"\\,:['
_MARK = np.zeros(256, dtype=bool)
_MARK[list(b'"\\,:[]{}')] = True
_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(b"[{")], _STEP[list(b"]}")] = 1, -1


class MalformedJsonError(ValueError):
    """The marks do not fit together, so that this is no JSON."""


class TooManyValuesError(ValueError):
    """There is more in it than may be; the rest was not looked at."""


@dataclass(frozen=True)
class Outline:
    """The items of a list: where they begin and end, and how many commas and colons are in each."""

    starts: list[int]
    ends: list[int]
    commas: list[int]
    colons: list[int]


def outline(content: Content, most_items: int, most_values: int) -> Outline:
    """The items of a body that is a list. What has more of them, or more values and names in all, is TooManyValuesError.

    >>> found = outline(b'[{"id": "a, b", "x": [1, 2]}, {"x": "]"}]', 10, 100)
    >>> found.starts, found.ends, found.commas, found.colons
    ([1, 29], [28, 40], [2, 0], [2, 1])
    """
    borders: list[NDArray[np.int64]] = []
    counts: list[NDArray[np.int64]] = []  # commas and colons up to each border
    items = last = 0
    for marks, codes, depths, so_far in _counted(content, most_values):
        if last:
            raise MalformedJsonError("trailing characters after its end")
        at = np.flatnonzero(((codes == _COMMA) & (depths == 1)) | (depths == 0))
        if not borders:  # the first mark opens the list
            at = np.concatenate([[0], at])
        ended = np.flatnonzero(depths == 0)
        if len(ended):
            last = int(marks[ended[0]])
            if ended[0] != len(marks) - 1:
                raise MalformedJsonError("trailing characters after its end")
        borders.append(marks[at])
        counts.append(so_far[:, at])
        items += len(at)
        if items - 1 > most_items:
            raise TooManyValuesError(f"there are more than {most_items:,} items in it")
    if content[last + 1 :].strip(b" \t\r\n"):
        raise MalformedJsonError("trailing characters after its end")
    found = np.concatenate(borders)
    commas, colons = np.diff(np.concatenate(counts, axis=1), axis=1)
    commas[:-1] -= 1  # the one behind an item is not in it; the last has a bracket there
    return Outline((found[:-1] + 1).tolist(), found[1:].tolist(), commas.tolist(), colons.tolist())


def counts_of(content: Content, most_values: int) -> tuple[int, int]:
    """How many commas and colons a body has. What has more values and names is TooManyValuesError.

    >>> counts_of(b'{"id": "a, b", "x": [1, 2]}', 100)
    (2, 2)
    """
    commas = colons = 0
    for _, _, _, so_far in _counted(content, most_values):
        commas, colons = (int(one) for one in so_far[:, -1])
    return commas, colons


def list_in(content: Content, name: str) -> tuple[int, int, int]:
    """The list of a name in an object: where what is in it begins and ends, and how many values that are; all 0 where there is none.

    >>> list_in(b'{"id": "[", "among": ["a"], "x": [1, 2]}', "x")
    (34, 38, 2)
    """
    called = re.compile(rb'(?<!\\)"%s"\s*:\s*$' % name.encode())
    start = count = 0
    for marks, codes, depths in _marks(content):
        if not start:
            opens = marks[np.flatnonzero((codes == _LIST) & (depths == 2))].tolist()
            named = (one for one in opens if called.search(content[max(0, one - LONGEST_NAME) : one]))
            found = next(named, None)
            if found is None:
                continue
            start = found + 1
        inside = marks >= start
        closes = np.flatnonzero(inside & (depths == 1))
        if len(closes):
            inside[closes[0] :] = False
        count += int(np.count_nonzero(inside & (codes == _COMMA) & (depths == 2)))
        if len(closes):
            return start, int(marks[closes[0]]), count + 1
    return 0, 0, 0


def _counted(
    content: Content, most_values: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """The marks, and how many commas and colons there have been up to each."""
    before = np.zeros((2, 1), dtype=np.int64)
    depth = 0
    for marks, codes, depths in _marks(content):
        if not len(marks):
            continue
        so_far = np.stack([np.cumsum(codes == _COMMA), np.cumsum(codes == _COLON)]) + before
        before, depth = so_far[:, -1:], int(depths[-1])
        if before.sum() > most_values:
            raise TooManyValuesError(f"there are more than {most_values:,} values and names in it")
        yield marks, codes, depths, so_far
    if depth != 0:
        raise MalformedJsonError("it ends before its brackets are closed")


def _marks(content: Content) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """The marks outside of texts, a block at a time: where they are, which, and how deep it is after them."""
    everything = np.frombuffer(content, dtype=np.uint8)
    inside = depth = 0
    escaped = False  # the first byte of the block is, by the last one before it
    for first in range(0, len(everything), BLOCK):
        block = everything[first : first + BLOCK]
        marks = np.flatnonzero(_MARK[block])
        if escaped and len(marks) and marks[0] == 0:
            marks = marks[1:]
        codes = block[marks]
        slashes = marks[codes == _BACKSLASH]
        escaped = False
        if len(slashes):
            after = _escaped(slashes)
            escaped = bool(after[-1] == len(block)) if len(after) else False
            plain = np.ones(len(block) + 1, dtype=bool)
            plain[after] = plain[slashes] = False
            marks = marks[plain[marks]]
            codes = block[marks]
        quotes = codes == _QUOTE
        within = (np.cumsum(quotes) + inside) & 1
        inside = int(within[-1]) if len(within) else inside
        outside = ~quotes & (within == 0)
        marks, codes = marks[outside], codes[outside]
        depths = np.cumsum(_STEP[codes], dtype=np.int64) + depth
        if len(depths):
            if depths.max() > DEEPEST:
                raise MalformedJsonError(f"it has more than {DEEPEST} lists and objects in each other")
            if depths.min() < 0:
                raise MalformedJsonError("a bracket is closed that was not opened")
            depth = int(depths[-1])
        yield marks + first, codes, depths
    if inside:
        raise MalformedJsonError("it ends in the middle of a text")


def _escaped(slashes: NDArray[Any]) -> NDArray[Any]:
    """The places behind an odd number of backslashes: what is there is part of a text, whatever it is."""
    count = len(slashes)
    begins = np.concatenate([[True], np.diff(slashes) != 1])
    lasts = np.append(np.flatnonzero(begins)[1:], count) - 1
    lengths = lasts - np.flatnonzero(begins) + 1
    behind: NDArray[Any] = slashes[lasts[lengths % 2 == 1]] + 1
    return behind
