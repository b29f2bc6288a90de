"""Tables with typed cells: Parquet and frames, read with Arrow; JSON lines and Excel, read by row."""

from __future__ import annotations

import json
import math
import warnings
import zipfile
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

from onebit.contract.validation import ClassName
from onebit.data.columns import BATCH, TEXTS, Columns
from onebit.data.dataset import Dataset
from onebit.data.file_blocks import MemoryStore, assemble_dataset, fill_store, numbered_lines, unreadable
from onebit.data.labels import encode_labels
from onebit.data.reading import Kind, Reading, inner_type, is_number_type, is_text_type
from onebit.errors import InputError, OnebitWarning, brief
from onebit.features.frames import narwhals_frame


class ArrowTable(Columns):
    """A table whose columns have Arrow types."""

    def __init__(self, path: Path, schema: Any, reading: Reading, classes: Iterable[ClassName] | None) -> None:
        from pyarrow import types

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

    @abstractmethod
    def _parts(self, rows: int) -> Iterator[tuple[Any, int]]:
        """Yield record batches of at most `rows` rows, each with the number of bytes read so far."""

    def sample(self) -> Any:
        rows = max(1, min(TEXTS, BATCH // len(self.names)))
        return next((batch for batch, _ in self._parts(rows) if batch.num_rows), None)

    def batches(self) -> Iterator[tuple[Any, int]]:
        return self._parts(max(1, min(1 << 16, BATCH // len(self.names))))

    def place(self, row: int) -> str:
        return f"row {row + 1}"

    def label_names(self) -> list[Any]:
        return self.labels.values


class Parquet(ArrowTable):
    """A reader of Parquet files."""

    def __init__(self, path: Path, reading: Reading, classes: Iterable[ClassName] | None) -> None:
        import pyarrow as arrow
        from pyarrow import parquet

        try:
            with parquet.ParquetFile(path) as file:
                schema = file.schema_arrow
                self._row_bytes = path.stat().st_size / max(1, file.metadata.num_rows)
        except (arrow.ArrowException, OSError) as error:
            raise unreadable(path, error, " as Parquet") from None
        super().__init__(path, schema, reading, classes)

    def _parts(self, rows: int) -> Iterator[tuple[Any, int]]:
        done = 0
        for batch in parquet_batches(self.path, rows):
            done += batch.num_rows
            yield batch, int(done * self._row_bytes)


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


class FrameTable(ArrowTable):
    """A reader of frames of pandas, polars or Arrow."""

    def __init__(self, frame: Any, y: Any, reading: Reading, classes: Iterable[ClassName] | None) -> None:
        import pyarrow as arrow

        self.path = Path("the frame")
        names = list(narwhals_frame(frame).columns)
        for name in names:
            if not isinstance(name, str):
                raise InputError(
                    f"a column of the frame is called {brief(name)}, but to be read by name all must be strings"
                )
        try:
            table = narwhals_frame(frame).to_arrow().select(names)
        except (arrow.ArrowException, OverflowError) as error:
            raise unreadable(self.path, error) from None
        self._beside: tuple[ClassName, ...] | None = None
        if y is not None:
            codes, self._beside = encode_labels(y, classes)
            if len(codes) != table.num_rows:
                raise InputError(f"there are {table.num_rows} rows and {len(codes)} labels")
            label = "y"
            while label in names:
                label += "_"
            table, classes = table.append_column(label, arrow.array(codes)), self._beside
            reading = replace(reading, label=label)
        self._table = table
        super().__init__(self.path, table.schema, reading, classes)

    def _parts(self, rows: int) -> Iterator[tuple[Any, int]]:
        for batch in self._table.to_batches(max_chunksize=rows):
            yield batch, 0

    def label_names(self) -> list[Any]:
        values = self.labels.values
        return values if self._beside is None else [self._beside[code] for code in values]


def read_frame(frame: Any, y: Any, reading: Reading, classes: Iterable[ClassName] | None) -> Dataset:
    """Return the data set of a frame; its labels are one of its columns, or `y`."""
    if y is not None and reading.label is not None:
        raise InputError(f"the labels are given twice: as y, and as the column {brief(reading.label)} of the frame")
    store, table = MemoryStore(), FrameTable(frame, y, reading, classes)
    known, width = fill_store(store, table, "reading the frame", None)
    if table.note:
        warnings.warn(table.note, OnebitWarning, stacklevel=2)
    return assemble_dataset(store.finish(), known, width, table.columns)


Record = tuple[int, Sequence[Any], int]  # its line number, its cells in the order of the names, the bytes read so far


class RowTable(Columns):
    """A table whose cells are Python values."""

    def __init__(self, path: Path, reading: Reading, classes: Iterable[ClassName] | None) -> None:
        self.path = path
        super().__init__(path, self._header(), reading, classes)

    @abstractmethod
    def _header(self) -> list[str]:
        """Return the names of the columns."""

    @abstractmethod
    def _rows(self) -> Iterator[Record]:
        """Yield the rows in order."""

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


class JsonLines(RowTable):
    """A file with a JSON object on each line; keys that a line lacks are missing values."""

    def _header(self) -> list[str]:
        names: dict[str, None] = {}
        for _, record, _ in islice(self._objects(), TEXTS):
            names.update(dict.fromkeys(record))
        if not names:
            raise InputError(f"{self.path} is empty, but must have a JSON object on each line")
        return list(names)

    def _rows(self) -> Iterator[Record]:
        known = set(self.names)
        for line, record, done in self._objects():
            for name, value in record.items():
                if name not in known:
                    raise InputError(
                        f"line {line} of {self.path} has {brief(name)}, which none of the first {TEXTS:,} lines has"
                    )
                if isinstance(value, list | dict) and not (isinstance(value, list) and name == self.candidates):
                    raise InputError(
                        f"{brief(name)} in line {line} of {self.path} is {brief(value)}, but must be a single value"
                    )
            yield line, [record.get(name) for name in self.names], done

    def _objects(self) -> Iterator[tuple[int, dict[str, Any], int]]:
        for number, line, done in numbered_lines(self.path):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"line {number} of {self.path} is not JSON: {error}") from None
            if not isinstance(record, dict):
                raise InputError(f"line {number} of {self.path} is {brief(record)}, but must be a JSON object")
            yield number, record, done


class Sheet(RowTable):
    """The first sheet of an Excel file, with the column names in its first row."""

    def _header(self) -> list[str]:
        cells = next((cells for _, cells in self._lines()), None)
        if cells is None:
            raise InputError(f"{self.path} is empty, but must have a header with the names of the columns")
        return [_text(cell) or "" for cell in cells]

    def _rows(self) -> Iterator[Record]:
        size = self.path.stat().st_size
        for line, cells in islice(self._lines(), 1, None):
            yield line, cells, size

    def _lines(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield the non-empty rows with their numbers in the sheet, cut or padded to the width of the header."""
        import openpyxl

        try:
            book = openpyxl.load_workbook(self.path, read_only=True, data_only=True)
        except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
            raise unreadable(self.path, error, " as an Excel file") from None
        try:
            width: int | None = None
            for number, cells in enumerate(book.worksheets[0].iter_rows(values_only=True), 1):
                if any(cell is not None for cell in cells):
                    width = width or max(at for at, cell in enumerate(cells, 1) if cell is not None)
                    if any(cell is not None for cell in cells[width:]):
                        raise InputError(
                            f"line {number} of {self.path} has {len(cells)} cells, but the header has {width}"
                        )
                    yield number, [*cells[:width], *[None] * (width - len(cells))]
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
