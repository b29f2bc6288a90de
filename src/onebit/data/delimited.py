"""CSV and TSV files, read as texts with Arrow's streaming reader; the separator is detected.

Arrow is fast but does not say on which line a file is wrong. When it fails, the file is read again with Python's own
reader, which does.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onebit.data.file_blocks import open_unpacked, text_lines, unreadable
from onebit.data.table_files import TableFile
from onebit.errors import InputError

BLOCK = 1 << 20  # bytes that Arrow reads at a time; a line must fit
SEPARATORS = ",;\t|"
_SAMPLE_LINES = 20  # lines from which the separator is detected
_COMMA_NUMBER = re.compile(r"[+-]?\d+(,\d+)?", re.ASCII)


class CsvTable(TableFile):
    """A text table with a header, one row per line and cells divided by a separator; all cells are texts.

    The separator is detected from the first lines, the decimal point from the first block.
    """

    typed = False

    def __init__(self, path: Path) -> None:
        self.separator = detect_separator(path)
        _, header = next(_read_records(path, self.separator), (0, []))
        if not header:
            raise InputError(f"{path} is empty, but must have a header with the names of the columns")
        super().__init__(path, header)
        self.mixed = set(header)
        batch = self.sample() if self.separator == ";" else None
        if batch is not None and any(_has_decimal_commas(column.to_pylist()) for column in batch.columns):
            self.decimal = ","

    def batches(self, rows: int, names: list[str] | None = None) -> Iterator[tuple[Any, int]]:
        import pyarrow as arrow
        from pyarrow import csv as arrow_csv

        try:
            with open_unpacked(self.path) as (file, _):
                block_size = max(BLOCK, 4 * sum(len(file.readline()) for _ in range(2)))  # room for several lines
            read = arrow_csv.ReadOptions(block_size=block_size)
            parse = arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
            convert = arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, arrow.string()), include_columns=names
            )
            with open_unpacked(self.path) as (file, raw), arrow_csv.open_csv(file, read, parse, convert) as batches:
                for batch in batches:
                    yield batch, raw.tell()
        except (ValueError, EOFError, OSError) as error:  # of Arrow, of text that is not UTF-8 and of damaged archives
            raise self._width_error(error) from None

    def lines(self) -> Iterator[int]:
        return (line for line, _ in itertools.islice(_read_records(self.path, self.separator), 1, None))

    def _width_error(self, error: Exception) -> InputError:
        """Return the error for the first row that is not as wide as the header, else for `error`."""
        for number, (line, cells) in enumerate(_read_records(self.path, self.separator)):
            if len(cells) != len(self.names):
                return InputError(
                    f"row {number} (line {line} of the file) of {self.path} has {len(cells)} cells, "
                    f"but the header has {len(self.names)}"
                )
        if number == 0:  # a header without a line end
            return InputError(f"{self.path} has no rows")
        return unreadable(self.path, error)


def detect_separator(path: Path) -> str:
    """Return the separator of a table.

    This is a tab for .tsv, else the one that splits the first lines most evenly, or a comma if none does.
    """
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return "\t"
    lines = [line for _, line, _ in itertools.islice(text_lines(path), _SAMPLE_LINES) if line.strip()]
    shares: dict[str, tuple[float, int]] = {}  # share of lines with as many cells as the header, and that number
    for separator in SEPARATORS:
        try:
            widths = [len(cells) for cells in csv.reader(lines, delimiter=separator) if cells]
        except csv.Error:
            continue
        if widths and widths[0] > 1:
            shares[separator] = (widths.count(widths[0]) / len(widths), widths[0])
    return max(shares, key=lambda separator: shares[separator], default=",")


def _read_records(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each record with the number of its last line, starting with the header."""
    reader = csv.reader((line for _, line, _ in text_lines(path)), delimiter=separator, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise unreadable(Path(f"line {reader.line_num} of {path}"), error) from None


def _has_decimal_commas(texts: list[str]) -> bool:
    """Return True if a column consists of numbers with decimal commas, such as 1,5."""
    cells = [text.strip() for text in texts if text]
    return any("," in text for text in cells) and all(_COMMA_NUMBER.fullmatch(text) for text in cells)
