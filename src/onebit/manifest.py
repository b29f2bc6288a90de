"""What the manifest of a file must be: every field, its type and its range.

A checksum finds accidents, not attacks, so nothing is taken on trust. Fields that nobody reads are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from onebit.errors import InputError, brief
from onebit.validation import MOST_NUMBERS, is_text

Check = Callable[[Any], bool]
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?(\.dev[0-9]+)?")


def is_whole(value: object, least: int = 0, most: int = MOST_NUMBERS) -> bool:
    """Whether this is a whole number from `least` to `most`; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_words(value: object) -> bool:
    return isinstance(value, str) and is_text(value)


def _is_whole_numbers(value: object) -> bool:
    return isinstance(value, list) and all(is_whole(one) for one in value)


def is_version(value: object) -> bool:
    """Return whether this is a version of onebit, such as 1.0.0."""
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


_OBJECT: tuple[Check, str] = (lambda value: isinstance(value, dict), "an object")
_WORDS: tuple[Check, str] = (_is_words, "a text")
_WHOLE: tuple[Check, str] = (is_whole, "a whole number from 0 to 2^63")
_FLAG: tuple[Check, str] = (_is_flag, "true or false")

# What every file has, and how it is said.
FIELDS: dict[str, tuple[Check, str]] = {
    "version": (is_version, "a version such as 1.0.0"),
    "machine": _OBJECT,
    "rule": _WORDS,
    "parameters": _OBJECT,
    "classes": (lambda value: isinstance(value, list), "a list of names"),
    "seed": _WHOLE,
    "bias": _FLAG,
    "exploration_floor": (_is_number, "a number"),
    "identity": _WORDS,
    "planned": _WHOLE,
    "next": _WHOLE,
    "taught": _WHOLE,
    "features": _OBJECT,
    "features.space": (lambda value: value in (None, "dense", "sparse"), "dense, sparse or null"),
    "features.size": (_or_none(is_whole), "a whole number or null"),
    "features.named": (_or_none(_is_flag), "true, false or null"),
    "features.dtype": (lambda value: value in ("float32", "float64"), "float32 or float64"),
    "features.text": _FLAG,
    "features.hash_bits": (_or_none(is_whole), "a whole number or null"),
    "ledger": _OBJECT,
    "ledger.moment": _WHOLE,
    "ledger.watermark": _WHOLE,
    "ledger.first_gap": _WHOLE,
    "ledger.forgotten": _WHOLE,
}
# What the files of some learners have.
OPTIONAL: dict[str, tuple[Check, str]] = {
    "retired": (_is_whole_numbers, "a list of whole numbers"),
    "rewarded": _FLAG,
    "routing": _OBJECT,
    "routing.came": (lambda value: value in ("dense", "sparse"), "dense or sparse"),
    "routing.rows": _WHOLE,
    "routing.filled": _WHOLE,
    "kernel": _OBJECT,
    "kernel.kernel": _WORDS,
    "kernel.max_support": (_or_none(is_whole), "a whole number or null"),
}


def refuse_manifest(manifest: dict[str, Any]) -> None:
    """A sentence for the first field that is missing, or is not what it must be."""
    for field, (check, wanted) in FIELDS.items():
        _refuse_field(manifest, field, check, wanted)
    for field, (check, wanted) in OPTIONAL.items():
        if field.partition(".")[0] in manifest:
            _refuse_field(manifest, field, check, wanted)
    for field in ("kernel", "routing"):
        for name in manifest.get(field, {}):
            if f"{field}.{name}" not in OPTIONAL:
                raise InputError(f"the field '{field}' of the manifest has {brief(name)}, which is unknown")
    _refuse_contradictions(manifest["features"])


def _refuse_field(manifest: dict[str, Any], field: str, check: Check, wanted: str) -> None:
    value: Any = manifest
    for part in field.split("."):
        if part not in value:
            raise InputError(f"the field {brief(field)} of the manifest is missing, but must be {wanted}")
        value = value[part]
    if not check(value):
        raise InputError(f"the field {brief(field)} of the manifest is {brief(value)}, but must be {wanted}")


def _refuse_contradictions(features: dict[str, Any]) -> None:
    """What is said of features must go together: names are sparse and count themselves, columns are counted."""
    named, size, bits = features["named"], features["size"], features["hash_bits"]
    if named:
        fits = features["space"] == "sparse" and (size is None if bits is None else size == 1 << min(bits, 64))
    else:
        fits = not features["text"] and bits is None and (size is None) == (named is None)
    if not fits:
        raise InputError(
            f"the field 'features' of the manifest is {brief(features)}, which no learner has: named features are sparse "
            "and have no size but that of hash_bits, others have a size and neither text nor hash_bits"
        )
