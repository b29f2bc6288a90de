"""CSV and TSV files, read with Arrow's streaming reader.

Arrow is quick, but does not say on which line a file is wrong. Where it fails, the rows not yet read are gone through again with
Python's own reader, which does.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onebit.data.blocks import opened
from onebit.data.columns import NUMBER, Columns, text_refused
from onebit.errors import InputError
from onebit.validation import ClassName

BLOCK = 1 << 20  # bytes that Arrow reads at a time; a line must fit in
_TRUTHS = {"true", "false"}
_INFINITE = {"inf", "infinity"}


class Delimited(Columns):
    """A text file with a header, one row a line, cells parted by commas or tabs."""

    def __init__(
        self,
        path: Path,
        label: str | None,
        categorical: Sequence[str],
        drop: Sequence[str],
        classes: Iterable[ClassName] | None,
    ) -> None:
        self._tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
        self._truths: set[str] = set()  # columns of true and false
        self.path = path
        _, header = next(self._records(), (0, []))
        if not header:
            raise InputError(f"{path} is empty, but must have a header with the names of the columns")
        super().__init__(path, header, label, categorical, drop, classes)

    def batches(self) -> Iterator[tuple[Any, int]]:
        """Arrow's record batches, each with the bytes read so far."""
        import pyarrow as arrow
        from pyarrow import csv as arrow_csv

        read = arrow_csv.ReadOptions(block_size=self._block())
        parse = arrow_csv.ParseOptions(delimiter="\t" if self._tabs else ",", newlines_in_values=True)
        rows = 0
        try:
            # What Arrow takes the first block for tells numbers from true and false.
            with opened(self.path) as (file, _):
                guessed = arrow_csv.open_csv(file, read_options=read, parse_options=parse).schema
            types = {
                name: arrow.string() if self.is_text(name) else kind if kind == arrow.bool_() else arrow.float64()
                for name, kind in zip(self.names, guessed.types, strict=True)
            }
            self._truths = {name for name, kind in types.items() if kind == arrow.bool_()}
            convert = arrow_csv.ConvertOptions(column_types=types)
            with opened(self.path) as (file, raw), arrow_csv.open_csv(file, read, parse, convert) as batches:
                for batch in batches:
                    yield batch, raw.tell()
                    rows += batch.num_rows
        except (arrow.ArrowInvalid, UnicodeDecodeError, EOFError, OSError) as error:
            self._explain(rows)
            raise InputError(f"{self.path} cannot be read: {' '.join(str(error).split())}") from None

    def place(self, row: int) -> str:
        """Where a row is, counted from 0, for a sentence."""
        for number, (line, _) in enumerate(self._records()):
            if number == row + 1:
                return _place(row, line)
        return f"row {row + 1}"

    def label_names(self) -> list[Any]:
        """Whole numbers where all labels are numbers, strings otherwise; where classes are given, what they have."""
        texts: list[str] = self.labels.values
        if self.classes is not None:
            known = set(self.classes)
            return [_number(text) if text not in known and NUMBER.fullmatch(text.strip()) else text for text in texts]
        if all(NUMBER.fullmatch(text.strip()) for text in texts):
            return [_number(text) for text in texts]
        return texts

    def _block(self) -> int:
        """A size that several lines fit into."""
        with opened(self.path) as (file, _):
            return max(BLOCK, 4 * sum(len(file.readline()) for _ in range(2)))

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """The line on which each record ends, and its cells; the header is the first."""
        reader = csv.reader(self._lines(), delimiter="\t" if self._tabs else ",", strict=True)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except csv.Error as error:
            raise InputError(f"line {reader.line_num} of {self.path} cannot be read: {error}") from None
        except (EOFError, gzip.BadGzipFile) as error:
            raise InputError(f"{self.path} is damaged: {error}") from None

    def _lines(self) -> Iterator[str]:
        with opened(self.path) as (file, _):
            for number, line in enumerate(file, 1):
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise InputError(f"line {number} of {self.path} is not UTF-8 text: save it as that") from None

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
                    raise text_refused(self.path, name, _place(row, line), cell)
        if number == 0:  # a header without even the end of its line
            raise InputError(f"{self.path} has no rows")

    def _is_number(self, name: str, text: str) -> bool:
        if name in self._truths:
            return text.lower() in _TRUTHS
        return bool(NUMBER.fullmatch(text)) or text.lstrip("+-").lower() in _INFINITE


def _place(row: int, line: int) -> str:
    return f"row {row + 1} (line {line} of the file)"


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
