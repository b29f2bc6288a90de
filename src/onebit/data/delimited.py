"""CSV and TSV files, read with Arrow's streaming reader. The separator of a CSV file is found by its first lines.

Arrow is quick, but does not say on which line a file is wrong. Where it fails, the rows not yet read are gone through again with
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
from onebit.data.file_blocks import opened, text_lines
from onebit.data.kinds import NUMBER, Kind
from onebit.data.reading import Reading
from onebit.errors import InputError

BLOCK = 1 << 20  # bytes that Arrow reads at a time; a line must fit in
SEPARATORS = ",;\t|"
_LOOKED_AT = 20  # lines by which the separator is found
_TRUTHS = {"true", "false"}
_INFINITE = {"inf", "infinity"}
_COMMA_NUMBER = re.compile(r"[+-]?\d+(,\d+)?", re.ASCII)


class Delimited(Columns):
    """A text file with a header, one row a line, cells parted by a separator."""

    texts_are_cells = True

    def __init__(self, path: Path, reading: Reading, classes: Iterable[ClassName] | None) -> None:
        self._truths: set[str] = set()  # columns of true and false
        self._dates: dict[str, Any] = {}  # columns of dates that are asked for as numbers, and their types
        self._decimal = "."
        self.path = path
        self._separator = separator_of(path)
        _, header = next(self._records(), (0, []))
        if not header:
            raise InputError(f"{path} is empty, but must have a header with the names of the columns")
        super().__init__(path, header, reading, classes)

    def sample(self) -> Any:
        """The first block of the file, with the types that Arrow takes it for."""
        import pyarrow as arrow

        try:
            found = self._first_block()
            self._decimal = decimal_point(self._separator, found)
            if self._decimal == ",":
                found = self._first_block()
        except (arrow.ArrowInvalid, UnicodeDecodeError, EOFError, OSError) as error:
            raise self._explained(error, 0) from None
        if found is not None:
            asked = {name for name, kind in self._said.items() if kind is Kind.NUMBER}
            types = dict(zip(self.names, found.schema.types, strict=True))
            self._truths = {name for name, kind in types.items() if kind == arrow.bool_()}
            self._dates = {name: types[name] for name in asked if arrow.types.is_temporal(types[name])}
        return found

    def _first_block(self) -> Any:
        from pyarrow import csv as arrow_csv

        read, parse = csv_options(self.path, self._separator)
        convert = arrow_csv.ConvertOptions(decimal_point=self._decimal)
        with opened(self.path) as (file, _), arrow_csv.open_csv(file, read, parse, convert) as batches:
            return next((batch for batch in batches if batch.num_rows), None)

    def batches(self) -> Iterator[tuple[Any, int]]:
        """Arrow's record batches, each with the bytes read so far."""
        import pyarrow as arrow
        from pyarrow import csv as arrow_csv

        read, parse = csv_options(self.path, self._separator)
        types = {
            name: arrow.string()
            if self.is_text(name)
            else self._dates.get(name, arrow.bool_() if name in self._truths else arrow.float64())
            for name in self.names
        }
        convert = arrow_csv.ConvertOptions(column_types=types, decimal_point=self._decimal)
        rows = 0
        try:
            with opened(self.path) as (file, raw), arrow_csv.open_csv(file, read, parse, convert) as batches:
                for batch in batches:
                    yield batch, raw.tell()
                    rows += batch.num_rows
        except (arrow.ArrowInvalid, UnicodeDecodeError, EOFError, OSError) as error:
            raise self._explained(error, rows) from None

    def _explained(self, error: Exception, rows: int) -> InputError:
        """What is wrong after these rows, as Python's own reader finds it, or as Arrow says it."""
        self._explain(rows)
        return InputError(f"{self.path} cannot be read: {' '.join(str(error).split())}")

    def place(self, row: int) -> str:
        for number, (line, _) in enumerate(self._records()):
            if number == row + 1:
                return _place(row, line)
        return f"row {row + 1}"

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """The line on which each record ends, and its cells; the header is the first."""
        reader = csv.reader(_lines(self.path), delimiter=self._separator, strict=True)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except csv.Error as error:
            raise InputError(f"line {reader.line_num} of {self.path} cannot be read: {error}") from None

    def _explain(self, rows: int) -> None:
        """Find what is wrong in the rows after those that were read, and say so."""
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
        if number == 0:  # a header without even the end of its line
            raise InputError(f"{self.path} has no rows")

    def _is_number(self, name: str, text: str) -> bool:
        if name in self._truths:
            return text.lower() in _TRUTHS
        if name in self._dates:
            return True  # Arrow says what is wrong with one
        text = text.replace(self._decimal, ".")
        return bool(NUMBER.fullmatch(text)) or text.lstrip("+-").lower() in _INFINITE


def separator_of(path: Path) -> str:
    """What parts the cells of a file: a tab in .tsv, else what parts the header, and the lines after it into as many cells; a comma where nothing does."""
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return "\t"
    lines = [line for line in itertools.islice(_lines(path), _LOOKED_AT) if line.strip()]
    best, found = (0.0, 0), ","
    for separator in SEPARATORS:
        try:
            widths = [len(cells) for cells in csv.reader(lines, delimiter=separator) if cells]
        except csv.Error:
            continue
        if widths and widths[0] > 1:
            best, found = max(
                (best, found), ((widths.count(widths[0]) / len(widths), widths[0]), separator), key=_first
            )
    return found


def decimal_point(separator: str, batch: Any) -> str:
    """The decimal point of a file, by the first block of it, None where that is empty: a comma where semicolons part the cells and numbers have such."""
    import pyarrow as arrow

    texts = [] if batch is None else [one for one in batch.columns if one.type == arrow.string()]
    return "," if separator == ";" and any(_has_decimal_commas(one.to_pylist()) for one in texts) else "."


def csv_options(path: Path, separator: str) -> tuple[Any, Any]:
    """How Arrow is to read a file and to part its cells: blocks that several lines fit into."""
    from pyarrow import csv as arrow_csv

    with opened(path) as (file, _):
        size = max(BLOCK, 4 * sum(len(file.readline()) for _ in range(2)))
    return (
        arrow_csv.ReadOptions(block_size=size),
        arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
    )


def _lines(path: Path) -> Iterator[str]:
    return (line for _, line, _ in text_lines(path))


def _place(row: int, line: int) -> str:
    return f"row {row + 1} (line {line} of the file)"


def _first(pair: tuple[tuple[float, int], str]) -> tuple[float, int]:
    return pair[0]


def _has_decimal_commas(texts: list[str | None]) -> bool:
    """Whether a column is of numbers that are written as in Europe: 1,5."""
    given = [text.strip() for text in texts if text]
    return any("," in text for text in given) and all(_COMMA_NUMBER.fullmatch(text) for text in given)
