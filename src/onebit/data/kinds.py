"""What the columns of a table look like: numbers, categories, text, dates or ids, judged by their first values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from onebit.errors import brief

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_ID_NAME = re.compile(r"(?:^|[\W_])(?i:id|uuid|guid)$|[a-z](?:Id|ID)$")
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ]+\d{1,2}:\d{2}.*)?", re.ASCII)
ENOUGH = 20  # values from which on it means something that all differ
WORDY = 4.0  # words of a value, on average, that make a text of it
SEVERAL = 2.0  # the same where values seldom come twice
SELDOM = 0.2  # different values among all, from which on they seldom do


class Kind(Enum):
    """What a column is taken for."""

    NUMBER = "numbers"
    CATEGORY = "categories"
    TEXT = "text"
    DATE = "dates"
    ID = "ids"


LEFT_OUT = (Kind.DATE, Kind.ID)


def inner_type(kind: Any) -> Any:
    """The type of the values of a column of Arrow, which may be kept as a dictionary."""
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def is_text_type(kind: Any) -> bool:
    """Whether values of this type of Arrow are texts."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_number_type(kind: Any) -> bool:
    """Whether values of this type of Arrow are numbers, or true and false."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind))


def kind_of(name: str, column: Any, texts_are_cells: bool) -> Kind:
    """What a column of Arrow looks like; with `texts_are_cells` a text may be a number that was written down wrong."""
    from pyarrow import types

    kind = inner_type(column.type)
    if types.is_temporal(kind):
        return Kind.DATE
    if types.is_integer(kind) and _is_id(name):
        return Kind.ID
    if not is_text_type(kind):
        return Kind.NUMBER  # what is none is refused with its place
    return kind_of_texts(name, [text for text in column.to_pylist() if text], texts_are_cells)


def kind_of_texts(name: str, texts: Sequence[str], cells: bool) -> Kind:
    """What a column of texts looks like.

    >>> kind_of_texts("colour", ["red", "blue", "red"], True).value
    'categories'
    >>> kind_of_texts("subject", ["my bill is too high again", "cannot log in since today"], True).value
    'text'
    """
    count = len(texts)
    if not count:
        return Kind.NUMBER
    if cells and sum(bool(NUMBER.fullmatch(text.strip())) for text in texts) >= count / 2:
        return Kind.NUMBER
    if all(_DATE.fullmatch(text.strip()) for text in texts):
        return Kind.DATE
    words = sum(len(text.split()) for text in texts) / count
    different = len(set(texts)) / count
    if words >= WORDY or (words >= SEVERAL and count >= ENOUGH and different > SELDOM):
        return Kind.TEXT
    if words < SEVERAL and (_is_id(name) or all(_UUID.fullmatch(text.strip()) for text in texts)):
        return Kind.ID
    if count >= ENOUGH and different == 1.0 and words < SEVERAL:
        return Kind.ID
    return Kind.CATEGORY


def _is_id(name: str) -> bool:
    return bool(_ID_NAME.search(name))


def sentence(what: str, guessed: Mapping[str, Kind], hashed: Iterable[str]) -> str:
    """What was taken for what, where nobody had said it; nothing where that is nothing."""
    said = [
        f"{_names(guessed, kind)} read as {kind.value}"
        for kind in (Kind.TEXT, Kind.CATEGORY)
        if kind in guessed.values()
    ]
    said += [f"{_names(guessed, kind)} left out ({kind.value})" for kind in LEFT_OUT if kind in guessed.values()]
    said += [f"the many values of {brief(name)} are hashed" for name in hashed]
    if not said:
        return ""
    otherwise = "; text, categorical, numeric and drop say otherwise" if guessed else ""
    return f"in {what} {', '.join(said)}{otherwise}"


def _names(guessed: Mapping[str, Kind], kind: Kind) -> str:
    names = [brief(name) for name, one in guessed.items() if one is kind]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{', '.join(names[:8])}{more} {'is' if len(names) == 1 else 'are'}"
