"""Tables that are read row by row in Python: JSON lines, and the first sheet of an Excel file."""

from __future__ import annotations

import json
import math
import zipfile
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

from onebit.contract.validation import ClassName
from onebit.data.columns import TEXTS, Columns
from onebit.data.file_blocks import numbered_lines
from onebit.data.kinds import Kind
from onebit.data.reading import Reading
from onebit.errors import InputError, brief

Record = tuple[int, Sequence[Any], int]  # the line it is on, its cells in the order of the names, the bytes read so far


class RowTable(Columns):
    """A table whose rows are Python values."""

    def __init__(self, path: Path, reading: Reading, classes: Iterable[ClassName] | None) -> None:
        self.path = path
        super().__init__(path, self._header(), reading, classes)

    @abstractmethod
    def _header(self) -> list[str]:
        """The names of the columns."""

    @abstractmethod
    def _rows(self) -> Iterator[Record]:
        """The rows, in their order."""

    def sample(self) -> Any:
        """The first rows."""
        import pyarrow as arrow

        first = [cells for _, cells, _ in islice(self._rows(), TEXTS)]
        if not first:
            return None
        columns = []
        for column in zip(*first, strict=True):
            try:
                columns.append(arrow.array(column))
            except (arrow.ArrowException, OverflowError):  # mixed: numbers, one of them written wrong, or texts
                numbers = [cell if isinstance(cell, bool | int | float) else None for cell in column]
                mostly = 2 * numbers.count(None) <= len(numbers)
                texts = arrow.array([_text(cell) for cell in column])
                columns.append(arrow.array([0.0] * len(column)) if mostly else texts)
        return arrow.RecordBatch.from_arrays(columns, names=self.names)

    def batches(self) -> Iterator[tuple[Any, int]]:
        """Record batches of Arrow, each with the bytes read so far."""
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
                return math.inf  # refused with its place
        if isinstance(cell, date) and self._said.get(name) is Kind.NUMBER:
            since = cell if isinstance(cell, datetime) else datetime.combine(cell, time())
            return (since.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() / 86_400
        if cell == "":
            return None
        raise self._no_number(name, self.place(row), cell)


class JsonLines(RowTable):
    """A file with a JSON object on each line. Keys that a line lacks have no value there."""

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
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"line {number} of {self.path} is not JSON: {error}") from None
            if not isinstance(found, dict):
                raise InputError(f"line {number} of {self.path} is {brief(found)}, but must be a JSON object")
            yield number, found, done


class Sheet(RowTable):
    """The first sheet of an Excel file; its first row has the names of the columns."""

    def _header(self) -> list[str]:
        cells = next((cells for _, cells in self._lines()), None)
        if cells is None:
            raise InputError(f"{self.path} is empty, but must have a header with the names of the columns")
        return [_text(cell) or "" for cell in cells]

    def _rows(self) -> Iterator[Record]:
        size = self.path.stat().st_size
        for line, cells in islice(self._lines(), 1, None):
            if len(cells) > len(self.names) and any(cell is not None for cell in cells[len(self.names) :]):
                raise InputError(
                    f"line {line} of {self.path} has {len(cells)} cells, but the header has {len(self.names)}"
                )
            row = [*cells[: len(self.names)], *[None] * (len(self.names) - len(cells))]
            yield line, row, size

    def _lines(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Rows that are not empty, with their numbers in the sheet; empty cells at the end of the header are none."""
        import openpyxl

        try:
            book = openpyxl.load_workbook(self.path, read_only=True, data_only=True)
        except (
            zipfile.BadZipFile,
            KeyError,
            ValueError,
            OSError,
            openpyxl.utils.exceptions.InvalidFileException,
        ) as error:
            raise InputError(f"{self.path} cannot be read as an Excel file: {' '.join(str(error).split())}") from None
        try:
            first = True
            for number, cells in enumerate(book.worksheets[0].iter_rows(values_only=True), 1):
                if any(cell is not None for cell in cells):
                    last = max(at for at, cell in enumerate(cells) if cell is not None) + 1
                    yield number, cells[:last] if first else cells
                    first = False
        finally:
            book.close()


def _text(cell: Any) -> str | None:
    """A cell as a CSV file would have it."""
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, list):  # of candidates, which are read as JSON again
        return json.dumps(cell)
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)
