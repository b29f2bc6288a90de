"""Reading of CSV and TSV files with Arrow's streaming reader, with the separator detected.

Arrow is fast but does not say on which line a file is wrong. When it fails, the remaining rows are read again with
Python's own reader, which does.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from onebit.contract.validation import ClassName
from onebit.data.columns import Columns
from onebit.data.file_blocks import open_unpacked, text_lines, unreadable
from onebit.data.labels import NUMBER
from onebit.data.reading import Kind, Reading
from onebit.errors import InputError

READ_ERRORS = (ValueError, EOFError, OSError)  # of Arrow, of text that is not UTF-8 and of damaged archives
BLOCK = 1 << 20  # bytes that Arrow reads at a time; a line must fit
SEPARATORS = ",;\t|"
_LOOKED_AT = 20  # lines from which the separator is detected
_TRUTHS = {"true", "false"}
_INFINITE = {"inf", "infinity"}
_COMMA_NUMBER = re.compile(r"[+-]?\d+(,\d+)?", re.ASCII)


class CsvFile:
    """A CSV or TSV file as Arrow reads it, with its separator and decimal point detected.

    The separator is detected from the first lines, the decimal point from the first block.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.separator, self.decimal = path, separator_of(path), "."

    def first_batch(self) -> Any:
        """Return the first rows with the types that Arrow infers; None if there are none."""
        import pyarrow as arrow

        def first() -> Any:
            return next((batch for batch, _ in self.batches({}) if batch.num_rows), None)

        batch = first()
        texts = [] if batch is None else [column for column in batch.columns if column.type == arrow.string()]
        if self.separator == ";" and any(_has_decimal_commas(column.to_pylist()) for column in texts):
            self.decimal = ","
            batch = first()
        return batch

    def batches(self, types: dict[str, Any], **options: Any) -> Iterator[tuple[Any, int]]:
        """Yield record batches with the given column types, each with the number of bytes read so far.

        `options` are passed to Arrow's `ConvertOptions`.
        """
        from pyarrow import csv as arrow_csv

        with open_unpacked(self.path) as (file, _):
            block_size = max(BLOCK, 4 * sum(len(file.readline()) for _ in range(2)))  # room for several lines
        read = arrow_csv.ReadOptions(block_size=block_size)
        parse = arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        convert = arrow_csv.ConvertOptions(column_types=types, decimal_point=self.decimal, **options)
        with open_unpacked(self.path) as (file, raw), arrow_csv.open_csv(file, read, parse, convert) as batches:
            for batch in batches:
                yield batch, raw.tell()


class Delimited(Columns):
    """A text table with a header, one row per line and cells divided by a separator."""

    texts_are_cells = True

    def __init__(self, path: Path, reading: Reading, classes: Iterable[ClassName] | None) -> None:
        self._types: dict[str, Any] = {}  # of boolean columns and of dates that are declared numeric
        self._file = CsvFile(path)
        _, header = next(self._records(), (0, []))
        if not header:
            raise InputError(f"{path} is empty, but must have a header with the names of the columns")
        super().__init__(path, header, reading, classes)

    def sample(self) -> Any:
        import pyarrow as arrow

        try:
            batch = self._file.first_batch()
        except READ_ERRORS as error:
            raise self._located(error, 0) from None
        for name, kind in zip(self.names, batch.schema.types, strict=True) if batch is not None else ():
            is_date = arrow.types.is_temporal(kind) and self._declared.get(name) is Kind.NUMBER
            if is_date or arrow.types.is_boolean(kind):
                self._types[name] = kind
        return batch

    def batches(self) -> Iterator[tuple[Any, int]]:
        import pyarrow as arrow

        types = {
            name: arrow.string() if self.is_text(name) else self._types.get(name, arrow.float64())
            for name in self.names
        }
        rows = 0
        try:
            for batch, done in self._file.batches(types):
                yield batch, done
                rows += batch.num_rows
        except READ_ERRORS as error:
            raise self._located(error, rows) from None

    def place(self, row: int) -> str:
        for number, (line, _) in enumerate(self._records()):
            if number == row + 1:
                return _place(row, line)
        return f"row {row + 1}"

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the cells of each record with the number of its last line, starting with the header."""
        path = self._file.path
        reader = csv.reader(_lines(path), delimiter=self._file.separator, strict=True)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except csv.Error as error:
            raise unreadable(Path(f"line {reader.line_num} of {path}"), error) from None

    def _located(self, error: Exception, rows: int) -> InputError:
        """Raise InputError for the first fault after the rows already read; return `error` as one if there is none."""
        from pyarrow.csv import ConvertOptions

        missing = set(ConvertOptions().null_values)
        for number, (line, cells) in enumerate(self._records()):
            row = number - 1
            if row < rows:
                continue
            if len(cells) != len(self.names):
                raise InputError(
                    f"{_place(row, line)} of {self.path} has {len(cells)} cells, but the header has {len(self.names)}"
                )
            for name, cell in zip(self.names, cells, strict=True):
                if self.is_text(name):
                    continue
                if cell in missing:
                    self._missing(name, row)
                if not self._is_number(name, cell.strip()):
                    raise self._no_number(name, _place(row, line), cell)
        if number == 0:  # a header without a line end
            raise InputError(f"{self.path} has no rows")
        return unreadable(self.path, error)

    def _is_number(self, name: str, text: str) -> bool:
        if name in self._types:  # Arrow explains what is wrong with a date
            return text.lower() in _TRUTHS or str(self._types[name]) != "bool"
        text = text.replace(self._file.decimal, ".")
        return bool(NUMBER.fullmatch(text)) or text.lstrip("+-").lower() in _INFINITE


def separator_of(path: Path) -> str:
    """Return the separator of a table.

    This is a tab for .tsv, else the one that splits the first lines most evenly, or a comma if none does.
    """
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return "\t"
    lines = [line for line in itertools.islice(_lines(path), _LOOKED_AT) if line.strip()]
    shares: dict[str, tuple[float, int]] = {}  # share of lines with as many cells as the header, and that number
    for separator in SEPARATORS:
        try:
            widths = [len(cells) for cells in csv.reader(lines, delimiter=separator) if cells]
        except csv.Error:
            continue
        if widths and widths[0] > 1:
            shares[separator] = (widths.count(widths[0]) / len(widths), widths[0])
    return max(shares, key=lambda separator: shares[separator], default=",")


def _lines(path: Path) -> Iterator[str]:
    return (line for _, line, _ in text_lines(path))


def _place(row: int, line: int) -> str:
    return f"row {row + 1} (line {line} of the file)"


def _has_decimal_commas(texts: list[str | None]) -> bool:
    """Return True if a column consists of numbers with decimal commas, such as 1,5."""
    given = [text.strip() for text in texts if text]
    return any("," in text for text in given) and all(_COMMA_NUMBER.fullmatch(text) for text in given)
