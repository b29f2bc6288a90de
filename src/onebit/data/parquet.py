"""Parquet files, read in batches that do not depend on the size of their row groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from onebit.data.arrow_table import ArrowTable
from onebit.data.reading import Reading
from onebit.errors import InputError, OnebitError
from onebit.validation import ClassName


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
