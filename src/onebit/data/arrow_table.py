"""Tables whose columns have types, as Arrow has them: Parquet files, and frames that are not all numbers."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from onebit.contract.validation import ClassName
from onebit.data.array_stores import MemoryStore
from onebit.data.columns import BATCH, TEXTS, Columns
from onebit.data.dataset import Dataset, coded
from onebit.data.file_blocks import assemble_dataset, fill
from onebit.data.kinds import Kind, inner_type, is_number_type, is_text_type
from onebit.data.reading import Reading
from onebit.errors import InputError, OnebitError, OnebitWarning, brief
from onebit.features.frames import narwhals_frame


class ArrowTable(Columns):
    """A table whose columns have types."""

    def __init__(self, path: Path, schema: Any, reading: Reading, classes: Iterable[ClassName] | None) -> None:
        import pyarrow as arrow

        super().__init__(path, schema.names, reading, classes)
        kind = None if self.label is None else inner_type(schema.field(self.label).type)
        named = kind is None or is_number_type(kind) or is_text_type(kind)
        if not named or (kind is not None and arrow.types.is_boolean(kind)):
            raise InputError(
                f"the label column {brief(self.label)} of {path} is of the type {kind}, "
                "but labels must be whole numbers or strings"
            )
        self._kinds = [inner_type(kind) for kind in schema.types]
        for name, kind in zip(self.names, self._kinds, strict=True):
            if self._said.get(name) in (Kind.CATEGORY, Kind.TEXT) and arrow.types.is_nested(kind):
                raise InputError(
                    f"the column {brief(name)} of {path} is of the type {kind}, but categories and texts are single values"
                )

    @abstractmethod
    def _parts(self, rows: int) -> Iterator[tuple[Any, int]]:
        """Record batches of at most so many rows, as they are, each with the bytes read so far."""

    def sample(self) -> Any:
        """The first rows."""
        return next(
            (batch for batch, _ in self._parts(max(1, min(TEXTS, BATCH // len(self.names)))) if batch.num_rows), None
        )

    def batches(self) -> Iterator[tuple[Any, int]]:
        """Record batches, features as numbers."""
        first = True
        for batch, done in self._parts(max(1, min(1 << 16, BATCH // len(self.names)))):
            if first and batch.num_rows:
                self._refuse_text(batch)
                first = False
            yield self._as_numbers(batch), done

    def place(self, row: int) -> str:
        return f"row {row + 1}"

    def label_names(self) -> list[Any]:
        """The labels as they are."""
        return self.labels.values

    def _refuse_text(self, batch: Any) -> None:
        for name, kind, column in zip(self.names, self._kinds, batch.columns, strict=True):
            if not self.is_text(name) and not is_number_type(kind) and not self._is_asked_date(name, kind):
                if not column[0].is_valid:
                    self._missing(name, 0)
                raise self._no_number(name, self.place(0), column[0].as_py())

    def _as_numbers(self, batch: Any) -> Any:
        """Features as float64, and dictionaries undone."""
        import pyarrow as arrow

        columns = [
            column.cast(kind if self.is_text(name) or self._is_asked_date(name, kind) else arrow.float64(), safe=False)
            for name, kind, column in zip(self.names, self._kinds, batch.columns, strict=True)
        ]
        return arrow.RecordBatch.from_arrays(columns, names=self.names)

    def _is_asked_date(self, name: str, kind: Any) -> bool:
        from pyarrow import types

        return self._said.get(name) is Kind.NUMBER and bool(types.is_temporal(kind))


class Parquet(ArrowTable):
    """A Parquet file."""

    def __init__(self, path: Path, reading: Reading, classes: Iterable[ClassName] | None) -> None:
        import pyarrow as arrow

        self.path = path
        try:
            with self._open() as file:
                schema = file.schema_arrow
                self._row_bytes = path.stat().st_size / max(1, file.metadata.num_rows)
        except (arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None
        super().__init__(path, schema, reading, classes)

    def _parts(self, rows: int) -> Iterator[tuple[Any, int]]:
        """Record batches, each with the share of the file that its rows are."""
        import pyarrow as arrow

        done = 0
        try:
            with self._open() as file:
                for batch in file.iter_batches(batch_size=rows):
                    done += batch.num_rows
                    yield batch, int(done * self._row_bytes)
        except (arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def _open(self) -> Any:
        from pyarrow import parquet

        # As it comes, Arrow keeps all it has read of the file, and reads whole columns of a row group.
        return parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 16)

    def _damaged(self, error: Exception) -> OnebitError:
        return InputError(f"{self.path} cannot be read as Parquet: {' '.join(str(error).split())}")


class FrameTable(ArrowTable):
    """A frame of pandas, polars or Arrow."""

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
            raise InputError(f"the frame cannot be read: {' '.join(str(error).split())}") from None
        self._beside: tuple[ClassName, ...] | None = None
        if y is not None:
            codes, self._beside = coded(y, classes)
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
        """Record batches; there is nothing to wait for."""
        for batch in self._table.to_batches(max_chunksize=rows):
            yield batch, 0

    def label_names(self) -> list[Any]:
        """The labels as they are, or as they were beside the frame."""
        values = self.labels.values
        return values if self._beside is None else [self._beside[code] for code in values]


def read_frame(frame: Any, y: Any, reading: Reading, classes: Iterable[ClassName] | None) -> Dataset:
    """The data of a frame; its labels are one of its columns, or `y`."""
    if y is not None and reading.label is not None:
        raise InputError(f"the labels are given twice: as y, and as the column {brief(reading.label)} of the frame")
    store, table = MemoryStore(), FrameTable(frame, y, reading, classes)
    known, width = fill(store, table, "reading the frame", None)
    if table.note:
        warnings.warn(table.note, OnebitWarning, stacklevel=2)
    return assemble_dataset(store.finish(), known, width, table.columns)
