"""Tables whose columns have types, as Arrow has them: Parquet files and frames."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from onebit.data.columns import BATCH, TEXTS, Columns
from onebit.data.kinds import Kind, inner_type, is_number_type, is_text_type
from onebit.data.reading import Reading
from onebit.errors import InputError, brief
from onebit.validation import ClassName


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
        """Where a row is, counted from 0, for a sentence."""
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
