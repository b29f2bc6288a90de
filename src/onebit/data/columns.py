"""Tables as labelled rows: the label column, the kinds of the others, and the features they become."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName
from onebit.data.candidate_sets import ListedCandidates
from onebit.data.dataset import REWARD, Answers, most_rewarded, refuse_out_of_range
from onebit.data.file_blocks import CHUNK, ArrayBlock, ArrayStore, FileReader, RestartReading, replace_values
from onebit.data.labels import MOST_CLASSES, NUMBER, Codes, parse_labels
from onebit.data.reading import (
    ANSWERS,
    FEATURES,
    Kind,
    Reading,
    describe_kinds,
    guess_kind,
    is_number_type,
    known_column,
    label_column,
    refuse_bad_header,
    reward_columns,
    usual_label_columns,
)
from onebit.data.table_files import TableFile, cast_texts, format_cell, number_type, trim_numbers
from onebit.data.texts import Encoder, Entries, join_entries
from onebit.errors import InputError, brief
from onebit.features.rows import find_not_finite

MOST_CATEGORIES = 1000  # values of a column that get one 0/1 column each; with more, they are hashed
BATCH = 1 << 20  # approximate number of cells in a batch
ROWS = 1 << 16  # most rows in a batch
TEXTS = 1 << 12  # rows with texts that are encoded at a time


class TableReader(FileReader):
    """A reader of a table: finds the label, and turns all other columns into features.

    Without text X is dense: the features in order, with one 0/1 column per value of a categorical feature. With text,
    or with categories of very many values, X is sparse: first the numbers, then all hashed features. With `answers` no
    column holds the label.
    """

    def __init__(
        self,
        table: TableFile,
        reading: Reading,
        classes: Iterable[ClassName] | None,
        answers: Answers | None = None,
    ) -> None:
        self.table, self.names, self._given = table, table.names, answers
        path, names = table.path, table.names
        refuse_bad_header(path, names)
        self.rewards = reward_columns(path, names, reading, classes) if reading.rewards else {}
        self.label = None if self.rewards or answers else label_column(path, names, reading.label)
        too_many = f"the column {self.label!r} of {path} has more than {MOST_CLASSES:,} values: is it the label?"
        super().__init__(path, classes, too_many)
        self.candidates = reading.candidates
        self._listed = ListedCandidates(f"the column {brief(self.candidates)} of {path}", table.place)
        self._declared: dict[str, Kind] = {}  # by the user
        self._declare(self.rewards, Kind.REWARD)
        self._declare([self.label] if self.label is not None else [], Kind.LABEL)
        self._declare([self.candidates] if self.candidates is not None else [], Kind.CANDIDATES, "candidates")
        self._declare(reading.text, Kind.TEXT, "text")
        self._declare(reading.categorical, Kind.CATEGORY, "categorical")
        self._declare(reading.numeric, Kind.NUMBER, "numeric")
        self._declare(reading.drop, Kind.DROPPED, "dropped")
        if self.rewards:
            self._refuse_leak()
        if all(self._declared.get(name) in (*ANSWERS, Kind.DROPPED) for name in names):
            raise InputError(f"{path} has no features, only {self._other_columns}")
        self.kinds: dict[str, Kind] = {}  # of all columns, once determined
        self._text_types: dict[str, Any] = {}  # of columns of texts that stand for numbers
        self._hashed: list[str] = []  # categorical columns with very many values
        self.features: list[str] = []
        self.categories: dict[str, Codes] = {}
        self._encoder: Encoder | None = None

    def blocks(self) -> Iterator[tuple[ArrayBlock, int]]:
        if not self.kinds:
            self._determine_kinds()
        self._plan_reading()
        columns = [*self.features, *(name for name, kind in self.kinds.items() if kind in ANSWERS)]
        row = 0
        positions = {name: index for index, name in enumerate(self.names)}  # a dict, as Arrow searches all names
        batch_rows = max(1, min(ROWS, BATCH // len(self.names)))
        size = batch_rows if self._encoder is None else TEXTS
        for batch, done in self.table.batches(batch_rows):
            for part in (batch.slice(start, size) for start in range(0, batch.num_rows, size)):
                cells = {name: part.column(positions[name]) for name in columns}
                answers = self._read_answers(cells, part.num_rows, row)
                if self._encoder is None:
                    yield {"X": self._read_dense(self.features, cells, part.num_rows, row), **answers}, done
                else:
                    yield {**self._read_sparse(self._encoder, cells, part.num_rows, row), **answers}, done
                row += part.num_rows

    # --- kinds of columns ---------------------------------------------------------------------------------------------

    def _declare(self, names: Iterable[str], kind: Kind, purpose: str = "") -> None:
        """Note what columns are; raise InputError for one that does not exist, or was declared before."""
        for name in names:
            known = self._declared.get(known_column(self.path, self.names, name, purpose))
            if known is not None:
                duplicate = f"is listed twice, the second time as {purpose}"
                problem = f"holds {known.value}, so it cannot be listed as {purpose}" if known in ANSWERS else duplicate
                raise InputError(f"the column {brief(name)} of {self.path} {problem}")
            self._declared[name] = kind

    def _determine_kinds(self) -> None:
        """Determine the kind of each column from its declaration or else from its first values."""
        sample = self.table.sample()
        for index, name in enumerate(self.names):
            self.kinds[name] = self._declared.get(name, Kind.NUMBER)
            if sample is not None:
                self._refuse_type(name, sample.column(index).type)
                if name not in self._declared:
                    mixed = name in self.table.mixed
                    self.kinds[name] = guess_kind(name, sample.column(index), mixed, self.table.decimal)

    def _plan_reading(self) -> None:
        """Prepare to read the file from the start with the current kinds of columns."""
        self.features = [name for name, kind in self.kinds.items() if kind in FEATURES]
        guessed = {
            name: kind for name, kind in self.kinds.items() if name not in self._declared and kind is not Kind.NUMBER
        }
        self.note = describe_kinds(self.path.name, guessed, self._hashed)
        if not self.features:
            left = ", ".join(f"{brief(name)} ({kind.value})" for name, kind in guessed.items())
            raise InputError(
                f"{self.path} has no features, only {self._other_columns} and columns that are left out: {left}; "
                "to read one of them, list it as text, categorical or numeric"
            )
        self.labels.counts[:] = 0
        self.categories, self._encoder = {}, None
        if self._hashed or self._columns_of(Kind.TEXT):
            self._encoder = Encoder(len(self._columns_of(Kind.NUMBER)))
            return
        self.categories = {name: Codes() for name in self._columns_of(Kind.CATEGORY)}
        self.columns = None if self.categories else tuple(self.features)

    def _refuse_type(self, name: str, kind: Any) -> None:
        """Raise InputError for a label, category or text column with cells of an unsuitable Arrow type."""
        from pyarrow import types

        if name == self.label and self.table.typed:
            if types.is_boolean(kind) or not (is_number_type(kind) or types.is_string(kind)):
                raise InputError(
                    f"the label column {brief(name)} of {self.path} has the type {kind}, "
                    "but labels must be whole numbers or strings"
                )
        elif self._declared.get(name) in (Kind.CATEGORY, Kind.TEXT) and types.is_nested(kind):
            raise InputError(
                f"the column {brief(name)} of {self.path} has the type {kind}, "
                "but categories and texts are single values"
            )

    @property
    def _other_columns(self) -> str:
        """A description of the columns that are no features, for messages."""
        return "rewards" if self.rewards else "dropped columns" if self._given else f"the label {brief(self.label)}"

    def _refuse_leak(self) -> None:
        """Raise InputError if a feature has the name of a label while labels follow from rewards.

        Such a feature would probably leak the label.
        """
        usual = [name for name in usual_label_columns(self.names) if name not in self._declared]
        if usual:
            raise InputError(
                f"{self.path} has the column {brief(usual[0])} beside rewards, from which the labels follow: drop it, "
                "or name it as numeric, categorical or text if it is a feature"
            )

    def _columns_of(self, kind: Kind) -> list[str]:
        return [name for name, its_kind in self.kinds.items() if its_kind is kind]

    # --- blocks -------------------------------------------------------------------------------------------------------

    def _read_answers(self, cells: dict[str, Any], rows: int, row: int) -> ArrayBlock:
        """Return the labels of a block as codes, or its rewards, and its candidates as codes of names."""
        answers: ArrayBlock = {}
        if self._given is not None:
            answers["y"] = self._given.y[row : row + rows]
        elif self.label is not None:
            answers["y"] = self.labels.number(*self._distinct_values(cells[self.label], self.label, row), row)
        else:
            names = list(self.rewards)
            rewards = np.stack([self._read_numbers(name, cells[name], row) for name in names], axis=1)
            refuse_out_of_range(
                rewards, lambda at, index: f"the column {brief(names[index])} of {self.path} in {self.place(row + at)}"
            )
            answers["y"] = np.zeros(rows, dtype=np.int64)  # filled in once the candidates are known
            answers["rewards"] = rewards
        if self.candidates is not None:
            self._refuse_missing(cells[self.candidates], self.candidates, row)
            answers["members"], answers["sizes"] = self._listed.read(cells[self.candidates].to_pylist(), row)
        return answers

    def _read_numbers(self, name: str, column: Any, row: int) -> NDArray[np.float64]:
        """Return a column of a block as numbers; dates that are declared numeric become days since 1970."""
        import pyarrow as arrow

        if arrow.types.is_string(column.type):
            column = self._parse_texts(name, column, row)
        self._refuse_missing(column, name, row)
        if arrow.types.is_temporal(column.type) and self._declared.get(name) is Kind.NUMBER:
            microseconds = column.cast(arrow.timestamp("us")).cast(arrow.int64())
            return np.asarray(microseconds.to_numpy(zero_copy_only=False) / 86_400e6)
        if not is_number_type(column.type):
            raise self._number_error(name, self.place(row), column[0].as_py())
        return np.asarray(column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False))

    def _parse_texts(self, name: str, column: Any, row: int) -> Any:
        """Return a column of texts as numbers, booleans or dates; the first block of a column decides which."""
        import pyarrow as arrow

        numbers, kind = None, self._text_types.get(name)
        if self.table.decimal == ".":  # usually there is nothing to trim
            numbers = cast_texts(column, kind or arrow.float64())
        if numbers is None:
            texts = trim_numbers(column, self.table.decimal)
            self._refuse_missing(texts, name, row)
            kind = kind or number_type(texts, self._declared.get(name) is Kind.NUMBER) or arrow.float64()
            numbers = cast_texts(texts, kind)
            if numbers is None:
                at = next(at for at in range(len(texts)) if cast_texts(texts.slice(at, 1), kind) is None)
                raise self._number_error(name, self.place(row + at), column[at].as_py())
        self._text_types[name] = numbers.type
        return numbers

    @np.errstate(over="ignore")  # values that are too large are rejected below, with their location
    def _read_dense(self, names: Sequence[str], cells: dict[str, Any], rows: int, row: int) -> NDArray[np.float32]:
        """Return columns of a block as a matrix of numbers, categories as codes."""
        X = np.empty((rows, len(names)), dtype=np.float32)
        for index, name in enumerate(names):
            if name in self.categories:
                codes = self.categories[name]
                X[:, index] = codes.number(*self._distinct_values(cells[name], name, row), row)
                if len(codes.first) > MOST_CATEGORIES:
                    self._hashed.append(name)
                    raise RestartReading
            else:
                X[:, index] = self._read_numbers(name, cells[name], row)
        invalid = find_not_finite(X)
        if invalid is not None:
            offset, index = invalid
            if np.isnan(X[offset, index]):
                self._refuse_missing_cell(names[index], row + offset)
            raise InputError(
                f"the column {brief(names[index])} of {self.path} is infinite, or too large for 32 bits, "
                f"in {self.place(row + offset)}"
            )
        return X

    def _read_sparse(self, encoder: Encoder, cells: dict[str, Any], rows: int, row: int) -> ArrayBlock:
        """Return a block as the parts of a CSR matrix: the numbers, then encoded categories and texts."""
        X = self._read_dense(self._columns_of(Kind.NUMBER), cells, rows, row)
        at, column = np.nonzero(X)
        entries: list[Entries] = [(at, column, X[at, column].astype(np.float64))]
        for name in self._columns_of(Kind.CATEGORY):
            entries.append(encoder.categories(name, *self._distinct_values(cells[name], name, row)))
        for name in self._columns_of(Kind.TEXT):
            entries.append(encoder.texts(name, [format_cell(cell) or "" for cell in cells[name].to_pylist()]))
        return join_entries(entries, rows)

    def place(self, row: int) -> str:
        return self.table.place(row)

    def finish(self, store: ArrayStore) -> tuple[tuple[ClassName, ...], int]:
        classes = self._finish_answers(store)
        if self._encoder is not None:
            numbers = self._encoder.numbers()
            replace_values(store.array("indices"), lambda columns: numbers[columns])
            if self._encoder.width == 0:
                raise InputError(f"the texts of {self.path} are all empty, and there is no other feature")
            return classes, self._encoder.width
        widths = [len(self.categories[name].values) if name in self.categories else 1 for name in self.features]
        if self.categories:
            self._expand_categories(store, widths)
        return classes, sum(widths)

    def _finish_answers(self, store: ArrayStore) -> tuple[ClassName, ...]:
        """Convert labels and candidates to class indices and return the classes."""
        if self._given is not None:
            classes = self._given.classes
        elif self.rewards:
            classes = tuple(self.rewards.values())
        else:
            labels = self.labels.values if self.table.typed else parse_labels(self.labels.values, self.classes)
            classes = self.finish_labels(store, labels, f"the label column {self.label!r} of {self.path}")
        sets = None
        if self.candidates is not None:
            members = store.array("members")
            y = None if self.rewards else store.array("y")
            sets = self._listed.sets(members, store.array("sizes"), classes, y)
            members[:] = sets.members
        if self.rewards:
            store.array("y")[:] = most_rewarded(store.array("rewards"), sets)
        return classes

    def _expand_categories(self, store: ArrayStore, widths: list[int]) -> None:
        """Expand codes of categories into one 0/1 column per value, in the order of the values."""
        narrow = store.take("X")
        for start in range(0, len(narrow), CHUNK):
            block = narrow[start : start + CHUNK]
            wide = np.empty((len(block), sum(widths)), dtype=np.float32)
            position = 0
            for index, (name, width) in enumerate(zip(self.features, widths, strict=True)):
                part = block[:, index, None]
                if name in self.categories:
                    values = self.categories[name].values
                    order = sorted(range(width), key=lambda code: _category_sort_key(values[code]))
                    part = part == np.array(order, dtype=np.float32)
                wide[:, position : position + width] = part
                position += width
            store.append({"X": wide})

    def _distinct_values(self, column: Any, name: str, row: int) -> tuple[list[Any], NDArray[Any]]:
        """Return the distinct values of a column and, for each row, the index of its value."""
        self._refuse_missing(column, name, row)
        encoded = column.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        if not self.table.typed:
            values = [format_cell(value) for value in values]
        which = encoded.indices.to_numpy(zero_copy_only=False)
        if "" in values:
            self._refuse_missing_cell(name, row + int(np.flatnonzero(which == values.index(""))[0]))
        return values, which

    def _refuse_missing(self, column: Any, name: str, row: int) -> None:
        if column.null_count:
            self._refuse_missing_cell(
                name, row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            )

    def _refuse_missing_cell(self, name: str, row: int) -> None:
        raise InputError(
            f"the column {brief(name)} of {self.path} has no value in {self.place(row)}: fill it in, or leave the row out"
        )

    def _number_error(self, name: str, place: str, value: object) -> InputError:
        """Return the error for a reward or feature that is not a number."""
        subject = f"the column {brief(name)} of {self.path} is {brief(value)} in {place}, but"
        if name in self.rewards:
            return InputError(f"{subject} the reward of {brief(self.rewards[name])} must be {REWARD}")
        return InputError(
            f"{subject} features must be numbers, or true and false: name the column as text or categorical, or drop it"
        )


def _category_sort_key(value: object) -> tuple[bool, float, str]:
    """Return the sort key of a category: numbers first, then texts.

    The order is the same for a CSV file and a Parquet file of one table.
    """
    text = str(value).strip()
    return (False, float(text), text) if NUMBER.fullmatch(text) else (True, 0.0, str(value))
