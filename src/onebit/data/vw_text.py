"""Reading of Vowpal Wabbit's text format: per line a label, an optional tag and features by namespace.

    3 'id-7 |user age:0.3 city:Berlin |:2.0 12 :0.5

Features have the names that VW's audit shows: `user^age`, `user^city^Berlin`, and the bare name in the unnamed
namespace. As in VW, a name of digits is a number (`01` is `1`), features without a name are counted within their
namespace, the value of a namespace multiplies those of its features, and features with the value 0 are left out. A
feature that occurs twice counts twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from onebit.contract.validation import ClassName
from onebit.data.file_blocks import ArrayBlock, ArrayStore, LineReader
from onebit.data.labels import NUMBER, WHOLE, parse_labels
from onebit.errors import InputError, brief

LARGEST = float(np.finfo(np.float32).max)  # VW's own numbers have 32 bits as well
DIGITS = re.compile(r"\d+", re.ASCII)
NO_NUMBERS = ("nan", "inf", "infinity")
ACTION_FEATURES = (
    "actions with features of their own (cb_adf) are not read: onebit's actions are known by their ids alone"
)


class VwExample(NamedTuple):
    """A parsed line: the words before the first bar, the tag, and the features."""

    label: list[str]
    tag: str
    features: dict[str, float]


def parse_line(line: str) -> VwExample:
    """Parse a line of a .vw file.

    >>> parse_line("2 'me |user:2 age:0.5 new | 07")
    VwExample(label=['2'], tag='me', features={'user^age': 1.0, 'user^new': 2.0, '7': 1.0})
    """
    head, bar, body = line.rstrip("\r\n").partition("|")
    if not bar:
        raise InputError("expected a | before the features")
    if "\t" in head:
        raise InputError("found a tab before the first |, where Vowpal Wabbit takes only spaces")
    words, tag = [word for word in head.split(" ") if word], ""
    if words and (head[-1] != " " or words[-1].startswith("'")):  # a word right before the bar is a tag
        tag = words.pop().removeprefix("'")
    features: dict[str, float] = {}
    for part in body.split("|"):
        for name, value in _parse_namespace(part):
            features[name] = features.get(name, 0.0) + value
    for name, value in features.items():
        if not abs(value) <= LARGEST:
            raise InputError(f"the value of {brief(name)} is {value:g}, which is too large for 32 bits")
    return VwExample(words, tag, features)


def _parse_namespace(part: str) -> Iterator[tuple[str, float]]:
    words = [word for word in re.split("[ \t]", part) if word]
    space, scale = "", 1.0
    if part and part[0] not in " \t":
        space, colon, number = words.pop(0).partition(":")
        if colon:
            if not NUMBER.fullmatch(number):
                raise InputError(f"the value of the namespace {brief(space)} is {brief(number)}, but must be a number")
            scale = float(number)
    unnamed = 0
    for word in words:
        name, colon, content = word.partition(":")
        value, chained = scale, ""
        if colon and _is_number(word, content):
            value *= float(content)
        elif colon:
            chained = f"^{content}"
        if not name:
            name, unnamed = str(unnamed), unnamed + 1
        elif DIGITS.fullmatch(name) and not chained:
            name = name.lstrip("0") or "0"
        if value != 0.0:
            yield feature_name(space, name + chained), value


def _is_number(word: str, content: str) -> bool:
    """Return True if a value is a number, False if it is a word, which becomes part of the feature's name.

    Raise InputError if it is neither.
    """
    if not content or ":" in content or content.lower().lstrip("+-") in NO_NUMBERS:
        raise InputError(f"{brief(word)} is not a feature: expected name, name:number or name:word")
    if NUMBER.fullmatch(content):
        return True
    if content[0] in "+-.0123456789":
        raise InputError(f"the value of {brief(word)} is {brief(content)}, but must be a number or a word")
    return False


def feature_name(space: str, name: str) -> str:
    """Return the full name of a feature in a namespace.

    A name without namespace that could be mistaken for one in a namespace begins with ^.

    >>> feature_name("user", "age"), feature_name("", "age"), feature_name("", "a^b")
    ('user^age', 'age', '^a^b')
    """
    return f"{space}^{name}" if space or "^" in name else name


class VwText(LineReader):
    """A reader of .vw files with a class on every line.

    Rows are sparse, with one column per feature name, in order of appearance. All names are held in memory.
    """

    def __init__(self, path: Path, classes: Iterable[ClassName] | None) -> None:
        super().__init__(path, classes)
        self._columns: dict[str, int] = {}

    def parse_lines(self, lines: Sequence[str]) -> ArrayBlock:
        columns: list[int] = []
        values: list[float] = []
        starts, labels = [0], []
        for line in lines:
            example = parse_line(line)
            labels.append(_parse_class(example.label))
            number = self._columns.setdefault
            row = sorted((number(name, len(self._columns)), value) for name, value in example.features.items())
            columns += [column for column, _ in row]
            values += [value for _, value in row]
            starts.append(len(columns))
        return {
            "data": np.array(values, dtype=np.float32),
            "indices": np.array(columns, dtype=np.int32),
            "indptr": np.array(starts, dtype=np.int64),
            "y": np.array(labels, dtype=object),
        }

    def finish(self, store: ArrayStore) -> tuple[tuple[ClassName, ...], int]:
        names = parse_labels(self.labels.values, self.classes)
        classes = self.finish_labels(store, names, f"the label of {self.path}")
        if not self._columns:
            raise InputError(f"{self.path} has no features, only labels")
        return classes, len(self._columns)


def _parse_class(words: list[str]) -> str:
    if not words:
        raise InputError("expected a label, the first word before the |, with a space after it")
    if words[0] == "shared":
        raise InputError(ACTION_FEATURES)
    if ":" in words[0]:
        if words[0].count(":") == 2:
            raise InputError(
                "found action:cost:probability, as in contextual-bandit logs, which do not contain the right class: "
                "use `onebit evaluate` or `onebit replay` for such a file"
            )
        raise InputError("expected one class, the right one, but found costs of classes")
    if len(words) > 2:
        raise InputError(f"expected a class before the features, got {brief(' '.join(words))}")
    if len(words) == 2 and not (NUMBER.fullmatch(words[1]) and float(words[1]) == 1.0):
        raise InputError(f"the example has the weight {brief(words[1])}, but all rounds of onebit have the same weight")
    if NUMBER.fullmatch(words[0]) and not WHOLE.fullmatch(words[0]):
        raise InputError(f"the label is {words[0]}, but classes are whole numbers or words")
    return words[0]
