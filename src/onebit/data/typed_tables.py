"""Tables with typed cells: Parquet and frames, read with Arrow; JSON lines and Excel, read by row."""

from __future__ import annotations

import json
import math
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

from onebit.contract.validation import ClassName
from onebit.data.columns import BATCH, TEXTS, Columns
from onebit.data.dataset import Dataset
from onebit.data.file_blocks import numbered_lines, read_into_memory, unreadable
from onebit.data.labels import encode_labels
from onebit.data.reading import Kind, Reading, inner_type, is_number_type, is_text_type
from onebit.errors import InputError, OnebitWarning, brief
from onebit.features.frames import narwhals_frame


class ArrowTable(Columns):
    """A table whose columns have Arrow types.

    `parts` yields record batches of at most so many rows, each with the number of bytes read so far. `names` are the
    labels by code if the label column holds codes.
    """

    def __init__(
        self,
        path: Path,
        schema: Any,
        parts: Callable[[int], Iterator[tuple[Any, int]]],
        reading: Reading,
        classes: Iterable[ClassName] | None,
        names: Sequence[ClassName] | None = None,
    ) -> None:
        from pyarrow import types

        self._parts, self._label_names = parts, names
        super().__init__(path, schema.names, reading, classes)
        for name, kind in zip(schema.names, map(inner_type, schema.types), strict=True):
            if name == self.label and (types.is_boolean(kind) or not (is_number_type(kind) or is_text_type(kind))):
                raise InputError(
                    f"the label column {brief(name)} of {path} is of the type {kind}, but labels must be whole numbers or strings"
                )
            if self._declared.get(name) in (Kind.CATEGORY, Kind.TEXT) and types.is_nested(kind):
                raise InputError(
                    f"the column {brief(name)} of {path} is of the type {kind}, but categories and texts are single values"
                )

    def sample(self) -> Any:
        rows = max(1, min(TEXTS, BATCH // len(self.names)))
        return next((batch for batch, _ in self._parts(rows) if batch.num_rows), None)

    def batches(self) -> Iterator[tuple[Any, int]]:
        return self._parts(max(1, min(1 << 16, BATCH // len(self.names))))

    def place(self, row: int) -> str:
        return f"row {row + 1}"

    def label_names(self) -> list[Any]:
        values = self.labels.values
        return values if self._label_names is None else [self._label_names[code] for code in values]


def parquet_table(path: Path, reading: Reading, classes: Iterable[ClassName] | None) -> ArrowTable:
    """Return a reader of a Parquet file."""
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            row_bytes = path.stat().st_size / max(1, file.metadata.num_rows)
    except (arrow.ArrowException, OSError) as error:
        raise unreadable(path, error, " as Parquet") from None

    def parts(rows: int) -> Iterator[tuple[Any, int]]:
        done = 0
        for batch in parquet_batches(path, rows):
            done += batch.num_rows
            yield batch, int(done * row_bytes)

    return ArrowTable(path, schema, parts, reading, classes)


def parquet_batches(path: Path, rows: int, names: list[str] | None = None) -> Iterator[Any]:
    """Yield record batches of at most `rows` rows of a Parquet file, with the named columns or all."""
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        # By default, Arrow keeps all it has read of the file, and reads whole columns of a row group.
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
            yield from file.iter_batches(rows, columns=names)
    except (arrow.ArrowException, OSError) as error:
        raise unreadable(path, error, " as Parquet") from None


def read_frame(frame: Any, y: Any, reading: Reading, classes: Iterable[ClassName] | None) -> Dataset:
    """Return the data set of a frame of pandas, polars or Arrow; its labels are one of its columns, or `y`."""
    import pyarrow as arrow

    if y is not None and reading.label is not None:
        raise InputError(f"the labels are given twice: as y, and as the column {brief(reading.label)} of the frame")
    path, wrapped, known = Path("the frame"), narwhals_frame(frame), None
    names = list(wrapped.columns)
    for name in names:
        if not isinstance(name, str):
            raise InputError(
                f"a column of the frame is called {brief(name)}, but to be read by name all must be strings"
            )
    try:
        table = wrapped.to_arrow().select(names)
    except (arrow.ArrowException, OverflowError) as error:
        raise unreadable(path, error) from None
    if y is not None:
        codes, known = encode_labels(y, classes)
        if len(codes) != table.num_rows:
            raise InputError(f"there are {table.num_rows} rows and {len(codes)} labels")
        label = "y"
        while label in names:
            label += "_"
        table, classes, reading = table.append_column(label, arrow.array(codes)), known, replace(reading, label=label)

    def parts(rows: int) -> Iterator[tuple[Any, int]]:
        return ((batch, 0) for batch in table.to_batches(max_chunksize=rows))

    reader = ArrowTable(path, table.schema, parts, reading, classes, known)
    data = read_into_memory(reader, "reading the frame")
    if reader.note:
        warnings.warn(reader.note, OnebitWarning, stacklevel=2)
    return data


Record = tuple[int, Sequence[Any], int]  # its line number, its cells in the order of the names, the bytes read so far


class RowTable(Columns):
    """A table whose cells are Python values; `rows` goes through its rows in order, from the start at each call."""

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        rows: Callable[[], Iterator[Record]],
        reading: Reading,
        classes: Iterable[ClassName] | None,
    ) -> None:
        self._rows = rows
        super().__init__(path, names, reading, classes)

    def sample(self) -> Any:
        import pyarrow as arrow

        first = [cells for _, cells, _ in islice(self._rows(), TEXTS)]
        if not first:
            return None
        columns = []
        for column in zip(*first, strict=True):
            try:
                columns.append(arrow.array(column))
            except (arrow.ArrowException, OverflowError):  # mixed types: numbers with some malformed, or texts
                numbers = [cell if isinstance(cell, bool | int | float) else None for cell in column]
                mostly = 2 * numbers.count(None) <= len(numbers)
                texts = arrow.array([_text(cell) for cell in column])
                columns.append(arrow.array([0.0] * len(column)) if mostly else texts)
        return arrow.RecordBatch.from_arrays(columns, names=self.names)

    def batches(self) -> Iterator[tuple[Any, int]]:
        import pyarrow as arrow

        rows, row = self._rows(), 0
        while block := list(islice(rows, TEXTS)):
            columns = []
            for name, column in zip(self.names, zip(*(cells for _, cells, _ in block), strict=True), strict=True):
                if self.is_text(name):
                    columns.append(arrow.array([_text(cell) for cell in column], arrow.string()))
                else:
                    numbers = [self._number(name, cell, row + at) for at, cell in enumerate(column)]
                    columns.append(arrow.array(numbers, arrow.float64()))
            yield arrow.RecordBatch.from_arrays(columns, names=self.names), block[-1][2]
            row += len(block)

    def place(self, row: int) -> str:
        line = next((line for line, _, _ in islice(self._rows(), row, None)), None)
        return f"row {row + 1}" if line is None else f"row {row + 1} (line {line} of the file)"

    def _number(self, name: str, cell: Any, row: int) -> float | None:
        if cell is None or isinstance(cell, bool | int | float):
            try:
                return None if cell is None else float(cell)
            except OverflowError:
                return math.inf  # rejected later, with its location
        if isinstance(cell, date) and self._declared.get(name) is Kind.NUMBER:
            since = cell if isinstance(cell, datetime) else datetime.combine(cell, time())
            return (since.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() / 86_400
        if cell == "":
            return None
        raise self._no_number(name, self.place(row), cell)


def json_table(path: Path, reading: Reading, classes: Iterable[ClassName] | None) -> RowTable:
    """Return a reader of a file with a JSON object on each line; keys that a line lacks are missing values."""
    names: dict[str, None] = {}
    for _, record, _ in islice(_json_objects(path), TEXTS):
        names.update(dict.fromkeys(record))
    if not names:
        raise InputError(f"{path} is empty, but must have a JSON object on each line")

    def rows() -> Iterator[Record]:
        for line, record, done in _json_objects(path):
            for name, value in record.items():
                if name not in names:
                    raise InputError(
                        f"line {line} of {path} has {brief(name)}, which none of the first {TEXTS:,} lines has"
                    )
                if isinstance(value, list | dict) and not (isinstance(value, list) and name == reading.candidates):
                    raise InputError(
                        f"{brief(name)} in line {line} of {path} is {brief(value)}, but must be a single value"
                    )
            yield line, [record.get(name) for name in names], done

    return RowTable(path, list(names), rows, reading, classes)


def _json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any], int]]:
    """Yield the object on each line with the line's number and the bytes read so far."""
    for number, line, done in numbered_lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"line {number} of {path} is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise InputError(f"line {number} of {path} is {brief(record)}, but must be a JSON object")
        yield number, record, done


def excel_table(path: Path, reading: Reading, classes: Iterable[ClassName] | None) -> RowTable:
    """Return a reader of the first sheet of an Excel file, with the column names in its first row."""
    header = next((cells for _, cells, _ in _sheet_rows(path)), None)
    if header is None:
        raise InputError(f"{path} is empty, but must have a header with the names of the columns")
    names = [_text(cell) or "" for cell in header]
    return RowTable(path, names, lambda: islice(_sheet_rows(path), 1, None), reading, classes)


def _sheet_rows(path: Path) -> Iterator[Record]:
    """Yield the non-empty rows with their numbers in the sheet, cut or padded to the width of the header."""
    import openpyxl

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise unreadable(path, error, " as an Excel file") from None
    try:
        width, size = 0, path.stat().st_size
        for number, cells in enumerate(book.worksheets[0].iter_rows(values_only=True), 1):
            if any(cell is not None for cell in cells):
                width = width or max(at for at, cell in enumerate(cells, 1) if cell is not None)
                if any(cell is not None for cell in cells[width:]):
                    raise InputError(f"line {number} of {path} has {len(cells)} cells, but the header has {width}")
                yield number, [*cells[:width], *[None] * (width - len(cells))], size
    finally:
        book.close()


def _text(cell: Any) -> str | None:
    """Return a cell as the text that a CSV file would hold."""
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, list):  # candidates, which are parsed as JSON later
        return json.dumps(cell)
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)
