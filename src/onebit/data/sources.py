"""Sources of the data of a run: fresh draws from a generator, or fixed rows of a file or of arrays."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from onebit.contract.memory import require_memory
from onebit.contract.validation import ClassName
from onebit.data import plane, real, synthetic, user_files
from onebit.data.dataset import Answers, Dataset, make_dataset, reward_answers
from onebit.data.file_blocks import FileProgress
from onebit.data.labels import encode_labels
from onebit.data.large import prepare_cached_rows
from onebit.data.preparation import columns_after, parse_steps, prepare_rows
from onebit.data.reading import Reading
from onebit.data.texts import require_texts
from onebit.errors import InputError, brief, nearest
from onebit.features.frames import is_frame, is_numeric_frame

ROUNDS = 100_000  # of a generator, by default
LABEL_BYTES = 8  # per row


@dataclass(frozen=True)
class Generator:
    """A synthetic data generator with its numbers of classes and features."""

    make: synthetic.Drawn[...]
    classes: int
    features: int

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return inspect.getdoc(self.make).split("\n")[0]  # type: ignore[union-attr]


GENERATORS = {
    "synsep10": Generator(synthetic.synsep10, 10, 100),
    "synnonsep10": Generator(synthetic.synnonsep10, 10, 100),
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
    """Named data: `fixed` sources have the same rows in every run, others draw them from the run's seed.

    `make` returns all rows; `pieces`, if rows can be drawn in pieces, yields the same rows some at a time. `columns` is
    the number of columns of drawn rows.
    """

    name: str
    fixed: bool
    rounds: int
    make: Callable[[int, int], Dataset]
    describe: Callable[[], dict[str, Any]]
    prepare: tuple[str, ...] = ()
    pieces: Callable[[int, int], Iterator[Dataset]] | None = None
    columns: int = 0
    text: bool = False  # True if the rows are texts, for learners made with text=True
    candidates: str = ""  # the name of what lists them for each row; empty if nothing does
    rewards: bool = False  # True if classes have rewards, and are not just right or wrong

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Plain values that distinguish these data from others."""
        form = {"text": True} if self.text else {}
        return {"data": self.name, **self.describe(), **form, "prepare": list(self.prepare)}


def names() -> list[str]:
    """Return the names of all generators and known real data sets."""
    return [*GENERATORS, *real.REAL]


def source_of(
    X: Any,
    y: Any = None,
    *,
    classes: Iterable[ClassName] | None = None,
    label: str | None = None,
    text: bool | Sequence[str] = (),
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    drop: Sequence[str] = (),
    prepare: str | Iterable[str] | None = None,
    candidates: Any = None,
    rewards: Any = None,
    progress: FileProgress | None = None,
) -> Source:
    """Return the source for a name, a file's path, or rows with labels; a source is returned unchanged.

    `label`, `text`, `categorical`, `numeric` and `drop` name columns of a file or a frame; the kinds of other columns
    are guessed from their first values. `text=True` says that the rows themselves are texts.
    `candidates` names the column that lists the classes that may be chosen, or is a list of them for each row.
    `rewards` names the columns with the reward of each class (`["walk", "drive"]`, or `"worth_*"`), or is a matrix.
    `prepare` lists preprocessing steps (`onebit.data.preparation`). `progress` is called during downloads and
    conversions, which write to the user's cache.

    >>> source_of("synsep10").make(50, 0).X.shape
    (50, 100)
    """
    steps = parse_steps(prepare)
    are_texts = text is True
    texts = () if isinstance(text, bool) else text
    columns, values = split_columns_and_values(candidates=candidates, rewards=rewards)
    reading = Reading(label, texts, categorical, numeric, drop, **columns)
    if isinstance(X, Source):
        if steps or y is not None or classes is not None or are_texts or reading.given is not None or values:
            raise InputError("a source brings its own labels and preparation: give them where the source is made")
        return X
    if not isinstance(X, str | Path):
        return _make_row_source(X, y, classes, values, are_texts, reading, steps)
    if y is not None:
        raise InputError(f"labels were given with {brief(str(X))}, which brings its own")
    if values:
        option = next(iter(values))
        raise InputError(f"{option} of {brief(str(X))} must be given as column names: values go with rows in memory")
    if str(X) in GENERATORS or str(X) in real.REAL:
        if classes is not None:
            raise InputError(f"classes were given with {brief(str(X))}, which brings its own")
        if are_texts or reading.given is not None:
            raise InputError(f"{reading.given or 'text'} is for columns of a table, but {X} has none")
        if str(X) in real.REAL:
            dataset = real.load(str(X), progress)
            return _make_fixed_source(str(X), dataset, lambda: {"content": _hash_content(dataset)}, steps)
        return _make_generator_source(str(X), steps)
    if not str(X):
        raise InputError("the name of the data is empty: give that of a data set, or the path of a file")
    if "://" in str(X):
        raise InputError(f"{brief(str(X))} is an address: download the file, and give its path")
    path = Path(X)
    if not user_files.is_data_file(path.name) and not path.exists():
        raise InputError(
            f"there is no data {brief(str(X))}, nor is it the path of a {', '.join(user_files.USUAL)} or .npz file; "
            f"{nearest(str(X), names())}"
        )
    if are_texts:
        raise InputError(
            f"text=True is for rows that are texts themselves; of {path} it names columns: text=['subject', 'body']"
        )
    data = user_files.read_file(path, reading, classes, progress)
    status = path.stat()
    identity = {
        "size": status.st_size,
        "modified": status.st_mtime_ns,
        **reading.described(),
        "classes": None if classes is None else list(data.classes),
    }
    return _make_fixed_source(str(X), data, lambda: identity, steps, reading.candidates or "")


def split_columns_and_values(**given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split candidates and rewards into column names and values; None counts as neither."""
    columns, values = {}, {}
    for option, value in given.items():
        are_names = isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value)
        if isinstance(value, str) or (option == "rewards" and are_names):
            columns[option] = value
        elif value is not None:
            values[option] = value
    return columns, values


def _make_row_source(
    X: Any,
    y: Any,
    classes: Iterable[ClassName] | None,
    values: dict[str, Any],
    are_texts: bool,
    reading: Reading,
    steps: tuple[str, ...],
) -> Source:
    """Return the source of in-memory rows: a frame, texts, or anything else that a learner takes."""
    candidates, rewards, answers = values.get("candidates"), values.get("rewards"), None
    if rewards is not None:
        if y is not None:
            raise InputError("y and rewards were both given, but labels follow from rewards: leave y out")
        if reading.label is not None:
            raise InputError(f"label is {brief(reading.label)}, but labels follow from the rewards: leave it out")
        answers, candidates = reward_answers(rewards, classes, candidates), None
    elif y is not None:
        answers = Answers(*encode_labels(y, classes))
    if is_frame(X) and not are_texts and (answers is None or reading.given is not None or not is_numeric_frame(X)):
        name, data = "frame", user_files.read_frame(X, answers, reading, classes)
    elif answers is None:
        raise _missing_labels_error(reading)
    elif reading.given is not None:
        raise InputError(f"{reading.given} is for columns of a table, but the rows have no named columns")
    else:
        name, data = "arrays", make_dataset(require_texts(X) if are_texts else X, answers)
    if candidates is not None:
        data = data.with_candidates(candidates)
    listed = "" if data.candidates is None else "listed"
    return _make_fixed_source(name, data, lambda: {"content": _hash_content(data)}, steps, listed, are_texts)


def _missing_labels_error(reading: Reading) -> InputError:
    """Return the error for rows without labels."""
    option, column, instead = "label", reading.label, "y"
    if reading.rewards:
        option, column, instead = "rewards", reading.rewards[0], "a matrix with a column for each class"
    if column is None:
        return InputError("rows were given without labels: give y as well, or the name of a data set")
    return InputError(
        f"{option} names the column {brief(column)}, but the columns of X have no names: "
        f"give {instead}, or the rows as a frame or a file"
    )


def _make_generator_source(name: str, steps: tuple[str, ...]) -> Source:
    generator = GENERATORS[name]
    classes = tuple(range(generator.classes))
    columns = columns_after(steps, generator.features)

    def draw(total: int, seed: int) -> Dataset:
        require_memory(
            total * (4 * (generator.features + (columns if steps else 0)) + LABEL_BYTES),
            f"{name}, all of its {total:,} rows at once,",
            "take fewer rounds, or a method that reads the rows once, in the order in which they are drawn",
        )
        rows, labels = generator.make(total, seed)
        return Dataset(prepare_rows(rows, steps), labels, classes)

    def pieces(total: int, seed: int) -> Iterator[Dataset]:
        for rows, labels in generator.make.pieces(total, seed):
            yield Dataset(rows, labels, classes)

    # With steps there are no pieces: a step may have to see all rows first.
    return Source(name, False, ROUNDS, draw, dict, steps, None if steps else pieces, columns)


def _make_fixed_source(
    name: str,
    data: Dataset,
    describe: Callable[[], dict[str, Any]],
    steps: tuple[str, ...],
    candidates: str = "",
    text: bool = False,
) -> Source:
    if steps:
        X = prepare_cached_rows(data.X, steps)
        names = data.names if data.names is not None and X.shape[1] == len(data.names) else None
        data = replace(data, X=X, names=names)
    return Source(
        name,
        True,
        data.rows,
        lambda total, seed: data,
        describe,
        steps,
        text=text,
        candidates=candidates,
        rewards=data.rewards is not None,
    )


def _hash_content(data: Dataset) -> str:
    """Return a hash of the content of an in-memory data set."""
    digest = hashlib.blake2b(repr(data.classes).encode(), digest_size=12)
    X = data.X
    parts = [X.data, X.indices, X.indptr] if hasattr(X, "indptr") else [X]
    parts += [] if data.candidates is None else [data.candidates.members, data.candidates.starts]
    parts += [] if data.rewards is None else [data.rewards]
    for part in (data.y, *parts):
        if hasattr(part, "dtype") and part.dtype != object:
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(repr(list(part)).encode())
    return digest.hexdigest()
