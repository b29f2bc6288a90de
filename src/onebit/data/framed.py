"""Frames that are not all numbers are read as files are: the label among the columns or beside them, categories and text."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from onebit.data.arrow_table import ArrowTable
from onebit.data.blocks import Memory, assembled, fill
from onebit.data.reading import Reading
from onebit.data.tables import Dataset, coded
from onebit.errors import InputError, OnebitWarning, brief
from onebit.frames import narwhals_frame
from onebit.validation import ClassName


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
    store, table = Memory(), FrameTable(frame, y, reading, classes)
    known, width = fill(store, table, "reading the frame", None)
    if table.note:
        warnings.warn(table.note, OnebitWarning, stacklevel=2)
    return assembled(store.array, store.has, known, width, table.columns)
