"""The outline of a large body, before any of it is parsed: where its items are, how deep it goes, and how much is in them.

Parsing makes an object of every value, and holds the interpreter while it does so. This only counts marks over the raw bytes, in
NumPy, a block at a time: it takes little memory, and a thread that does it lets others go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 2**17  # bytes that are looked at in one go
DEEPEST = 32  # lists and objects in each other
_QUOTE, _BACKSLASH, _COMMA, _COLON, _LIST = b'"\\,:['
_MARK = np.zeros(256, dtype=bool)
_MARK[list(b'"\\,:[]{}')] = True
_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(b"[{")], _STEP[list(b"]}")] = 1, -1


class Broken(ValueError):  # noqa: N818 - what it is
    """The marks do not fit together, so that this is no JSON."""


class TooMuch(ValueError):  # noqa: N818 - what it is
    """There is more in it than may be; the rest was not looked at."""


@dataclass(frozen=True)
class Outline:
    """The items at one depth: where they begin and end, and how many commas and colons are in each."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    commas: NDArray[np.int64]
    colons: NDArray[np.int64]

    @property
    def size(self) -> int:
        """How many items there are."""
        return len(self.starts)


def outline(content: bytes, most_items: int, most_values: int, depth: int = 1) -> Outline:
    """The items of the first list at a depth, which is 1 for the outermost; none where there is no list.

    What ends before its brackets are closed is Broken, and so is what is deeper than any body may be. What has more items, or more
    values and names in all, is TooMuch.

    >>> found = outline(b'[{"id": "a, b", "x": [1, 2]}, {"x": "]"}]', 10, 100)
    >>> found.starts.tolist(), found.ends.tolist(), found.commas.tolist(), found.colons.tolist()
    ([1, 29], [28, 40], [2, 0], [2, 1])
    """
    begins = ends = -1
    borders: list[NDArray[np.int64]] = []
    counts: list[NDArray[np.int64]] = []  # commas and colons up to each border
    before = np.zeros(2, dtype=np.int64)
    reached = items = 0
    for marks, codes, depths in _marks(content):
        up_to = np.stack([np.cumsum(codes == _COMMA), np.cumsum(codes == _COLON)]) + before[:, None]
        if begins < 0:
            opens = np.flatnonzero((codes == _LIST) & (depths == depth))
            if len(opens):
                begins = int(marks[opens[0]])
                counts.append(up_to[:, opens[:1]])
        if begins >= 0 and ends < 0:
            closes = np.flatnonzero((depths == depth - 1) & (marks > begins))
            if len(closes):
                ends = int(marks[closes[0]])
            between = (codes == _COMMA) & (depths == depth) & (marks > begins)
            at = np.flatnonzero(between if ends < 0 else between & (marks < ends))
            at = np.append(at, closes[:1])
            borders.append(marks[at])
            counts.append(up_to[:, at])
            items += len(at)
            if items > most_items:
                raise TooMuch(f"there are more than {most_items:,} items in it")
        if len(marks):
            before, reached = up_to[:, -1], int(depths[-1])
            if before.sum() > most_values:
                raise TooMuch(f"there are more than {most_values:,} values and names in it")
    if reached != 0:
        raise Broken("it ends before its brackets are closed")
    if begins < 0:
        return Outline(*np.zeros((4, 0), dtype=np.int64))
    found, so_far = np.concatenate(borders), np.concatenate(counts, axis=1)
    commas, colons = np.diff(so_far, axis=1)
    commas[:-1] -= 1  # the one behind an item is not in it; the last has a bracket there
    return Outline(np.concatenate([[begins], found[:-1]]) + 1, found, commas, colons)


def _marks(content: bytes) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
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
                raise Broken(f"it has more than {DEEPEST} lists and objects in each other")
            if depths.min() < 0:
                raise Broken("a bracket is closed that was not opened")
            depth = int(depths[-1])
        yield marks + first, codes, depths
    if inside:
        raise Broken("it ends in the middle of a text")


def _escaped(slashes: NDArray[Any]) -> NDArray[Any]:
    """The places behind an odd number of backslashes: what is there is part of a text, whatever it is."""
    count = len(slashes)
    begins = np.concatenate([[True], np.diff(slashes) != 1])
    lasts = np.append(np.flatnonzero(begins)[1:], count) - 1
    lengths = lasts - np.flatnonzero(begins) + 1
    behind: NDArray[Any] = slashes[lasts[lengths % 2 == 1]] + 1
    return behind
