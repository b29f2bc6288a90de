"""A source gives the data of each run: fresh draws from a generator, or always the same rows of a file or of arrays."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from onebit.data import files, plane, real, synthetic
from onebit.data.blocks import FileProgress
from onebit.data.mapped import prepared_rows
from onebit.data.preparation import prepared, steps_of
from onebit.data.tables import Dataset, labelled
from onebit.errors import InputError, brief, nearest
from onebit.validation import ClassName

ROUNDS = 100_000  # of a generator, where nothing is said

_NO_MARGIN = (
    "SynSep10 has no margin: rules that insist on one in every step (C = 1, plain EPABF) undo what they learnt, and Banditron's "
    "steps of K/exploration never settle. Small steps (aggressiveness = 0.001) work."
)


@dataclass(frozen=True)
class Generator:
    """A synthetic stream: rows and labels for a number of rounds and a seed."""

    make: Callable[[int, int], synthetic.Labelled]
    classes: int
    features: int
    note: str = ""

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return inspect.getdoc(self.make).split("\n")[0]  # type: ignore[union-attr]


GENERATORS = {
    "synsep10": Generator(synthetic.synsep10, 10, 100, _NO_MARGIN),
    "synnonsep10": Generator(synthetic.synnonsep10, 10, 100, _NO_MARGIN),
    "synsep10-released": Generator(synthetic.synsep10_released, 10, 100),
    "synnonsep10-released": Generator(synthetic.synnonsep10_released, 10, 100),
    "synsep9": Generator(synthetic.synsep9, 9, 400),
    "synnonsep9": Generator(synthetic.synnonsep9, 9, 400),
    "group2d": Generator(plane.group2d, 9, 2),
    "group2d-radial": Generator(plane.group2d_radial, 9, 2),
    "group2d-unequal": Generator(plane.group2d_unequal, 8, 2),
    "strong2d": Generator(plane.strong2d, 3, 3),
    "weak2d": Generator(plane.weak2d, 3, 2),
}


@dataclass(frozen=True)
class Source:
    """Data by name. `fixed` sources have the same rows in every run, others draw them from the run's seed."""

    name: str
    fixed: bool
    rounds: int
    make: Callable[[int, int], Dataset]
    describe: Callable[[], dict[str, Any]]
    prepare: tuple[str, ...] = ()
    note: str = ""

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What makes these data what they are, as plain values."""
        return {"data": self.name, **self.describe(), "prepare": list(self.prepare)}


def names() -> list[str]:
    """The names of the data that onebit makes or knows where to find."""
    return [*GENERATORS, *real.REAL]


def source_of(
    X: Any,
    y: Any = None,
    *,
    classes: Iterable[ClassName] | None = None,
    label: str | None = None,
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    prepare: str | Iterable[str] | None = None,
    same_rows: bool = False,
    progress: FileProgress | None = None,
) -> Source:
    """The source behind a name, the path of a file, or rows with labels; a source is its own.

    `label`, `categorical` and `drop` name columns of a table, `prepare` says what is done to the rows (`onebit.data.preparation`). With
    `same_rows` a generator draws its rows once, for all runs. `progress` hears of downloads and conversions.

    >>> source_of("synsep10").make(50, 0).X.shape
    (50, 100)
    """
    steps = steps_of(prepare)
    if isinstance(X, Source):
        if steps or y is not None or classes is not None or label is not None or len(categorical) or len(drop):
            raise InputError("a source brings its own labels and preparation: say them where the source is made")
        return X
    if not isinstance(X, str | Path):
        if y is None:
            raise InputError("rows were given without labels: give y as well, or the name of a data set")
        _refuse_columns("rows", label, categorical, drop)
        data = labelled(X, y, classes)
        return _fixed("arrays", data, lambda: {"content": _content(data)}, steps)
    if y is not None:
        raise InputError(f"labels were given with {brief(str(X))}, which brings its own")
    if str(X) in GENERATORS or str(X) in real.REAL:
        if classes is not None:
            raise InputError(f"classes were given with {brief(str(X))}, which brings its own")
        _refuse_columns(str(X), label, categorical, drop)
        if str(X) in real.REAL:
            found = real.load(str(X), progress)
            return _fixed(str(X), found, lambda: {"content": _content(found)}, steps)
        return _drawn(str(X), steps, same_rows)
    path = Path(X)
    if not files.is_data_file(path.name) and not path.exists():
        raise InputError(
            f"there is no data {brief(str(X))}, nor is it the path of a .csv, .parquet, .svmlight, .vw or .npz file; "
            f"{nearest(str(X), names())}"
        )
    data = files.read(path, label=label, categorical=categorical, drop=drop, classes=classes, progress=progress)
    about = path.stat()
    said = {
        "size": about.st_size,
        "modified": about.st_mtime_ns,
        "label": label,
        "categorical": list(categorical),
        "drop": list(drop),
        "classes": None if classes is None else list(data.classes),
    }
    return _fixed(str(X), data, lambda: said, steps)


def _drawn(name: str, steps: tuple[str, ...], same_rows: bool) -> Source:
    generator = GENERATORS[name]

    def draw(total: int, seed: int) -> Dataset:
        rows, labels = generator.make(total, seed)
        return Dataset(prepared(rows, steps), labels, tuple(range(generator.classes)))

    if not same_rows:
        return Source(name, False, ROUNDS, draw, dict, steps, generator.note)
    once: dict[int, Dataset] = {}

    def draw_once(total: int, seed: int) -> Dataset:
        if total not in once:
            once[total] = draw(total, 0)
        return once[total]

    return Source(name, True, ROUNDS, draw_once, lambda: {"same_rows": True}, steps, generator.note)


def _fixed(name: str, data: Dataset, describe: Callable[[], dict[str, Any]], steps: tuple[str, ...]) -> Source:
    if steps:
        data = replace(data, X=prepared_rows(data.X, steps))
    return Source(name, True, data.rows, lambda total, seed: data, describe, steps)


def _refuse_columns(what: str, label: str | None, categorical: Sequence[str], drop: Sequence[str]) -> None:
    for name, given in (("label", label), ("categorical", categorical), ("drop", drop)):
        if given:
            raise InputError(f"{name} names a column of a table, and {what} has none")


def _content(data: Dataset) -> str:
    """A hash of rows and labels that were given as they are."""
    digest = hashlib.blake2b(repr(data.classes).encode(), digest_size=12)
    X = data.X
    parts = [X.data, X.indices, X.indptr] if hasattr(X, "indptr") else [X]
    for part in (data.y, *parts):
        if hasattr(part, "dtype") and part.dtype != object:
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(repr(list(part)).encode())
    return digest.hexdigest()
