"""How to read a table: the columns of the label, rewards and candidates, and the kinds of all others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

from onebit.contract.validation import ClassName, checked_classes, join_names
from onebit.data.labels import NUMBER, WHOLE, parse_number
from onebit.data.table_files import missing_texts
from onebit.errors import InputError, brief, nearest


@dataclass(frozen=True)
class Reading:
    """The user's options for the columns of a table; raise InputError for invalid ones."""

    label: str | None = None
    text: Sequence[str] = ()
    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    drop: Sequence[str] = ()
    rewards: str | Sequence[str] = ()
    candidates: str | None = None

    def __post_init__(self) -> None:
        for option in ("text", "categorical", "numeric", "drop"):
            columns = getattr(self, option)
            if isinstance(columns, str):
                raise InputError(f"{option} is {brief(columns)}, but must be a list of columns: [{brief(columns)}]")
            if not isinstance(columns, Iterable):
                raise InputError(f"{option} is {brief(columns)}, but must be a list of columns")
            object.__setattr__(self, option, tuple(columns))
        rewards = (self.rewards,) if isinstance(self.rewards, str) else tuple(self.rewards)
        object.__setattr__(self, "rewards", rewards)

    @property
    def given(self) -> str | None:
        """The name of the first option that was given; None if none was."""
        return next((option.name for option in fields(self) if getattr(self, option.name) not in (None, ())), None)

    def described(self) -> dict[str, Any]:
        """Return the options that were given as plain values."""
        options = {option.name: getattr(self, option.name) for option in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in options.items() if value}


LABELS = ("label", "y", "class", "target")  # usual names of the label column


def refuse_bad_header(path: Path, names: Sequence[str]) -> None:
    """Raise InputError for columns without a name and for duplicate names."""
    known_names: set[str] = set()
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise InputError(
                f"column {number} of {path} has no name: give it one, or leave it out if it only counts the rows"
            )
        if name in known_names:
            raise InputError(f"two columns of {path} are called {brief(name)}")
        known_names.add(name)


def usual_label_columns(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.lower() in LABELS]


def label_column(path: Path, names: Sequence[str], label: str | None) -> str:
    """Return the name of the label column: `label` if given, else the only column with a usual name.

    Raise InputError if there is no such column.
    """
    if label is not None:
        return known_column(path, names, label, "the label")
    usual = usual_label_columns(names)
    if len(usual) == 1:
        return usual[0]
    which = f"it may be {' or '.join(map(repr, usual))}" if usual else f"its columns are {join_names(names)}"
    raise InputError(f"which column of {path} is the label? Name it; {which}")


def known_column(path: Path, names: Sequence[str], name: str, purpose: str) -> str:
    """Return `name` if such a column exists, else raise InputError; `purpose` says what it was to be."""
    if name not in names:
        known = nearest(str(name), names)
        more = f" The columns are {join_names(names)}" if known.endswith("?") else ""
        raise InputError(f"there is no column {brief(name)} in {path}, given as {purpose}; {known}{more}")
    return name


def reward_columns(
    path: Path, names: Sequence[str], reading: Reading, classes: Iterable[ClassName] | None
) -> dict[str, ClassName]:
    """Return the reward columns named by `reading` with their classes, in the order of the classes.

    Classes have the names of their columns; for a pattern such as `worth_*`, the part that the star matches. Raise
    InputError if columns are missing or named twice, or do not match the given classes.
    """
    if reading.label is not None:
        raise InputError(
            f"the label of {path} is given twice: as the column {brief(reading.label)}, and by rewards, which determine it"
        )
    class_names: dict[str, str] = {}  # from column to class
    for pattern in reading.rewards:
        if pattern.endswith("*") and pattern not in names:
            matching = {name: name.removeprefix(pattern[:-1]) for name in names if name.startswith(pattern[:-1])}
            if not matching:
                raise InputError(f"no column of {path} matches {brief(pattern)} (columns: {join_names(names)})")
        else:
            matching = {known_column(path, names, pattern, "a reward"): pattern}
        for column, name in matching.items():
            if column in class_names:
                raise InputError(f"rewards name the column {brief(column)} of {path} twice")
            class_names[column] = name
    numbers = all(NUMBER.fullmatch(name) for name in class_names.values())
    known = checked_classes([parse_number(name) if numbers else name for name in class_names.values()])
    columns = dict(zip(known, class_names, strict=True))
    if classes is not None:
        given = checked_classes(classes)
        if set(given) != set(known):
            raise InputError(
                f"the rewards of {path} are for the classes {join_names(known)}, but the given classes are {join_names(given)}"
            )
        known = given
    return {columns[name]: name for name in known}


# --- guessing the kinds of columns ------------------------------------------------------------------------------------

_ID_NAME = re.compile(r"(?:^|[\W_])(?i:id|uuid|guid)$|[a-z](?:Id|ID)$")
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ]+\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(?::\d{2})?", re.ASCII)
ENOUGH_VALUES = 20  # number of values from which it means something that all differ
TEXT_WORDS = 4.0  # average number of words that makes a column text
FEW_WORDS = 2.0  # the same, if values rarely repeat
MANY_DISTINCT = 0.2  # share of distinct values above which they rarely repeat


class Kind(Enum):
    """What a column holds."""

    NUMBER = "numbers"
    CATEGORY = "categories"
    TEXT = "text"
    DATE = "dates"
    ID = "ids"
    LABEL = "the label"
    REWARD = "a reward"
    CANDIDATES = "candidates"
    DROPPED = "dropped"


FEATURES = (Kind.NUMBER, Kind.CATEGORY, Kind.TEXT)
LEFT_OUT = (Kind.DATE, Kind.ID)  # unless they are declared as something else
ANSWERS = (Kind.LABEL, Kind.REWARD, Kind.CANDIDATES)


def is_number_type(kind: Any) -> bool:
    """Return True if values of this Arrow type are numbers or booleans."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind))


def guess_kind(name: str, column: Any, mixed: bool, decimal: str) -> Kind:
    """Guess the kind of an Arrow column; if it is mixed, a text may stand for a number."""
    from pyarrow import types

    kind = column.type
    if types.is_temporal(kind):
        return Kind.DATE
    if types.is_integer(kind) and _is_id(name):
        return Kind.ID
    if not types.is_string(kind):
        return Kind.NUMBER  # other values are rejected later, with their location
    texts = [text.strip() for text in column.to_pylist() if text]
    if mixed:
        texts = [text.replace(decimal, ".") for text in texts if text not in missing_texts()]
    return guess_kind_of_texts(name, texts, mixed)


def guess_kind_of_texts(name: str, texts: Sequence[str], mixed: bool) -> Kind:
    """Guess the kind of a column of texts; if it is mixed, they may be numbers, some of them malformed.

    >>> guess_kind_of_texts("colour", ["red", "blue", "red"], True).value
    'categories'
    >>> guess_kind_of_texts("subject", ["my bill is too high again", "cannot log in since today"], True).value
    'text'
    """
    count = len(texts)
    if not count:
        return Kind.NUMBER
    if mixed and sum(bool(NUMBER.fullmatch(text)) for text in texts) >= count / 2:
        return Kind.ID if _is_id(name) and all(map(WHOLE.fullmatch, texts)) else Kind.NUMBER
    if mixed and all(text.lower() in ("true", "false") for text in texts):
        return Kind.NUMBER
    if all(map(_DATE.fullmatch, texts)):
        return Kind.DATE
    words = sum(len(text.split()) for text in texts) / count
    distinct = len(set(texts)) / count
    if words >= TEXT_WORDS or (words >= FEW_WORDS and count >= ENOUGH_VALUES and distinct > MANY_DISTINCT):
        return Kind.TEXT
    if words < FEW_WORDS and (_is_id(name) or all(map(_UUID.fullmatch, texts))):
        return Kind.ID
    if count >= ENOUGH_VALUES and distinct == 1.0 and words < FEW_WORDS:
        return Kind.ID
    return Kind.CATEGORY


def _is_id(name: str) -> bool:
    return bool(_ID_NAME.search(name))


def describe_kinds(table: str, guessed: Mapping[str, Kind], hashed: Iterable[str]) -> str:
    """Return a sentence about the kinds that were guessed and the columns that are hashed, or ""."""
    parts = [
        f"{_list_columns(guessed, kind)} read as {kind.value}"
        for kind in (Kind.TEXT, Kind.CATEGORY)
        if kind in guessed.values()
    ]
    parts += [
        f"{_list_columns(guessed, kind)} left out ({kind.value})" for kind in LEFT_OUT if kind in guessed.values()
    ]
    parts += [f"the many values of {brief(name)} are hashed" for name in hashed]
    if not parts:
        return ""
    otherwise = "; use text, categorical, numeric or drop to change this" if guessed else ""
    return f"in {table} {', '.join(parts)}{otherwise}"


def _list_columns(guessed: Mapping[str, Kind], kind: Kind) -> str:
    names = [brief(name) for name, guess in guessed.items() if guess is kind]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{', '.join(names[:8])}{more} {'is' if len(names) == 1 else 'are'}"
