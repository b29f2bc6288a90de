"""Parquet files, read in batches that do not depend on the size of their row groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onebit.data.columns import BATCH, Columns, text_refused
from onebit.errors import InputError, OnebitError, brief
from onebit.validation import ClassName


class Parquet(Columns):
    """A Parquet file."""

    def __init__(
        self,
        path: Path,
        label: str | None,
        categorical: Sequence[str],
        drop: Sequence[str],
        classes: Iterable[ClassName] | None,
    ) -> None:
        import pyarrow as arrow

        self.path = path
        try:
            with self._open() as file:
                schema = file.schema_arrow
                self._row_bytes = path.stat().st_size / max(1, file.metadata.num_rows)
        except (arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None
        super().__init__(path, schema.names, label, categorical, drop, classes)
        kind = _inner(schema.field(self.label).type)
        if not (_is_number(kind) or _is_text(kind)) or arrow.types.is_boolean(kind):
            raise InputError(
                f"the label column {brief(self.label)} of {path} is of the type {kind}, "
                "but labels must be whole numbers or strings"
            )
        self._kinds = [_inner(kind) for kind in schema.types]
        for name, kind in zip(self.names, self._kinds, strict=True):
            if name in self.categories and arrow.types.is_nested(kind):
                raise InputError(
                    f"the column {brief(name)} of {path} is of the type {kind}, but categories must be single values"
                )

    def batches(self) -> Iterator[tuple[Any, int]]:
        """Arrow's record batches, each with the share of the file that its rows are."""
        import pyarrow as arrow

        rows = 0
        try:
            with self._open() as file:
                for batch in file.iter_batches(batch_size=max(1, min(1 << 16, BATCH // len(self.names)))):
                    if rows == 0 and batch.num_rows:
                        self._refuse_text(batch)
                    rows += batch.num_rows
                    yield self._as_numbers(batch), int(rows * self._row_bytes)
        except (arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def place(self, row: int) -> str:
        """Where a row is, counted from 0, for a sentence."""
        return f"row {row + 1}"

    def label_names(self) -> list[Any]:
        """The labels as they are."""
        return self.labels.values

    def _open(self) -> Any:
        from pyarrow import parquet

        # As it comes, Arrow keeps all it has read of the file, and reads whole columns of a row group.
        return parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 16)

    def _refuse_text(self, batch: Any) -> None:
        for name, kind, column in zip(self.names, self._kinds, batch.columns, strict=True):
            if not self.is_text(name) and not _is_number(kind):
                if not column[0].is_valid:
                    self._missing(name, 0)
                raise text_refused(self.path, name, self.place(0), column[0].as_py())

    def _as_numbers(self, batch: Any) -> Any:
        """Features as float64, and dictionaries undone."""
        import pyarrow as arrow

        columns = [
            column.cast(kind if self.is_text(name) else arrow.float64(), safe=False)
            for name, kind, column in zip(self.names, self._kinds, batch.columns, strict=True)
        ]
        return arrow.RecordBatch.from_arrays(columns, names=self.names)

    def _damaged(self, error: Exception) -> OnebitError:
        return InputError(f"{self.path} cannot be read as Parquet: {' '.join(str(error).split())}")


def _inner(kind: Any) -> Any:
    import pyarrow as arrow

    return kind.value_type if arrow.types.is_dictionary(kind) else kind


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
