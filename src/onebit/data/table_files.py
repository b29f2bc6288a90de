"""Parquet, JSON lines, Excel sheets and frames as Arrow record batches; CSV is in `delimited`."""

from __future__ import annotations

import json
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from onebit.data.file_blocks import numbered_lines, unreadable
from onebit.errors import InputError, brief

SAMPLE = 1 << 12  # rows from which the kinds of columns are guessed


class TableFile(ABC):
    """A table with named columns, which is read from the start as often as needed.

    `mixed` are the columns in which a text may stand for a number.
    """

    typed = True  # False if labels and categories have no type of their own: 3 is the same as "3"
    decimal = "."

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path, self.names = path, list(names)
        self.mixed: set[str] = set()

    @abstractmethod
    def batches(self, rows: int, names: list[str] | None = None) -> Iterator[tuple[Any, int]]:
        """Yield record batches of about `rows` rows, each with the number of bytes read so far.

        They have the columns `names`, or all.
        """

    def sample(self) -> Any:
        """Return the first rows as a record batch; None if there are none."""
        return next((batch.slice(0, SAMPLE) for batch, _ in self.batches(SAMPLE) if batch.num_rows), None)

    def place(self, row: int) -> str:
        """Return the location of a row, given from 0, as users count it, for messages."""
        line = next(islice(self.lines(), row, None), None)
        return f"row {row + 1}" if line is None else f"row {row + 1} (line {line} of the file)"

    def lines(self) -> Iterator[int]:
        """Yield the number of the line on which each row ends, if the file has lines."""
        return iter(())


def plain_batch(batch: Any) -> Any:
    """Return a record batch whose categories are values and whose texts have one Arrow type."""
    import pyarrow as arrow
    from pyarrow import types

    columns = []
    for column in batch.columns:
        values = column.dictionary_decode() if types.is_dictionary(column.type) else column
        is_long = types.is_large_string(values.type) or types.is_string_view(values.type)
        columns.append(values.cast(arrow.string()) if is_long else values)
    return arrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


class ParquetTable(TableFile):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        import pyarrow as arrow
        from pyarrow import parquet

        try:
            with parquet.ParquetFile(path) as file:
                self.schema, rows = file.schema_arrow, file.metadata.num_rows
        except (arrow.ArrowException, OSError) as error:
            raise unreadable(path, error, " as Parquet") from None
        self._row_bytes = path.stat().st_size / max(1, rows)
        super().__init__(path, self.schema.names)

    def batches(self, rows: int, names: list[str] | None = None) -> Iterator[tuple[Any, int]]:
        import pyarrow as arrow
        from pyarrow import parquet

        done = 0
        try:
            # By default, Arrow keeps all it has read of the file, and reads whole columns of a row group.
            with parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 16) as file:
                for batch in map(plain_batch, file.iter_batches(rows, columns=names)):
                    done += batch.num_rows
                    yield batch, int(done * self._row_bytes)
        except (arrow.ArrowException, OSError) as error:
            raise unreadable(self.path, error, " as Parquet") from None


class FrameTable(TableFile):
    """A frame in memory, as an Arrow table."""

    def __init__(self, table: Any) -> None:
        super().__init__(Path("the frame"), table.column_names)
        self._table = table

    def batches(self, rows: int, names: list[str] | None = None) -> Iterator[tuple[Any, int]]:
        return ((plain_batch(batch), 0) for batch in self._table.to_batches(max_chunksize=rows))


Record = tuple[int, Sequence[Any], int]  # its line number, its cells in the order of the names, the bytes read so far


class RowTable(TableFile):
    """A table whose cells are Python values; each call of `records` yields its rows from the start."""

    typed = False

    def __init__(self, path: Path, names: Sequence[str], records: Callable[[], Iterator[Record]]) -> None:
        super().__init__(path, names)
        self._records = records

    def batches(self, rows: int, names: list[str] | None = None) -> Iterator[tuple[Any, int]]:
        import pyarrow as arrow

        records = self._records()
        while block := list(islice(records, rows)):
            cells = zip(*(cells for _, cells, _ in block), strict=True)
            columns = [self._column(name, values) for name, values in zip(self.names, cells, strict=True)]
            yield arrow.RecordBatch.from_arrays(columns, names=self.names), block[-1][2]

    def lines(self) -> Iterator[int]:
        return (line for line, _, _ in self._records())

    def _column(self, name: str, values: Sequence[Any]) -> Any:
        import pyarrow as arrow

        try:
            return arrow.array(values)
        except (arrow.ArrowException, OverflowError):
            self.mixed.add(name)
            return arrow.array([format_cell(value) for value in values], arrow.string())


def json_table(path: Path, candidates: str | None) -> RowTable:
    """Return the table of a file with a JSON object on each line; missing keys are missing values.

    Values are single ones, except that the column `candidates` may hold lists.
    """
    names: dict[str, None] = {}
    for _, record, _ in islice(_json_objects(path), SAMPLE):
        names.update(dict.fromkeys(record))
    if not names:
        raise InputError(f"{path} is empty, but must have a JSON object on each line")

    def records() -> Iterator[Record]:
        for line, record, done in _json_objects(path):
            for name, value in record.items():
                if name not in names:
                    raise InputError(
                        f"line {line} of {path} has {brief(name)}, which none of the first {SAMPLE:,} lines has"
                    )
                if isinstance(value, list | dict) and not (isinstance(value, list) and name == candidates):
                    raise InputError(
                        f"{brief(name)} in line {line} of {path} is {brief(value)}, but must be a single value"
                    )
            yield line, [record.get(name) for name in names], done

    return RowTable(path, list(names), records)


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


def excel_table(path: Path) -> RowTable:
    """Return the first sheet of an Excel file as a table, with the column names in its first row.

    Empty rows and columns are left out.
    """
    import pandas as pd

    try:
        sheet = pd.read_excel(path, header=None, dtype=object, keep_default_na=False)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise unreadable(path, error, " as an Excel file") from None
    filled = sheet.mask(sheet == "").dropna(how="all").dropna(axis="columns", how="all")
    if filled.empty:
        raise InputError(f"{path} is empty, but must have a header with the names of the columns")
    header, *rows = [
        (line + 1, [None if pd.isna(cell) else cell for cell in cells], path.stat().st_size)
        for line, *cells in filled.itertuples()
    ]
    return RowTable(path, [format_cell(cell) or "" for cell in header[1]], lambda: iter(rows))


def trim_numbers(texts: Any, decimal: str) -> Any:
    """Return texts that stand for numbers in the form that Arrow parses; null where there is no value."""
    import pyarrow as arrow
    from pyarrow import compute

    texts = compute.utf8_trim_whitespace(texts)
    if decimal == ",":  # a point is then no part of a number
        texts = compute.replace_substring(compute.replace_substring(texts, ".", "_"), ",", ".")
    missing = compute.is_in(texts, value_set=arrow.array(missing_texts()))
    return compute.if_else(missing, arrow.scalar(None, arrow.string()), texts)


@cache
def missing_texts() -> tuple[str, ...]:
    """Return the texts that stand for no value: the empty one, NA, NaN and the like."""
    from pyarrow.csv import ConvertOptions

    return tuple(ConvertOptions().null_values)


def number_type(texts: Any, dates: bool) -> Any:
    """Return the Arrow type that all texts fit, numbers, booleans or, if allowed, dates; None if none does."""
    import pyarrow as arrow

    kinds = [arrow.float64(), arrow.bool_()]
    kinds += [arrow.timestamp("us"), arrow.timestamp("us", "UTC")] if dates else []
    return next((kind for kind in kinds if cast_texts(texts, kind) is not None), None)


def cast_texts(texts: Any, kind: Any) -> Any:
    """Return a column of texts as an Arrow type; None if they do not fit."""
    import pyarrow as arrow

    try:
        return texts.cast(kind)
    except arrow.ArrowInvalid:
        return None


def format_cell(cell: Any) -> str | None:
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
