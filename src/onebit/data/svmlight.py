"""Reading of svmlight (libsvm) files: a line is a label and pairs column:value.

They are read with scikit-learn, some lines at a time. Columns may be counted from 0 or from 1, and a file does not say
which: from 1 is assumed if no column 0 occurs.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import numpy as np

from onebit.contract.validation import ClassName
from onebit.data.file_blocks import ArrayBlock, ArrayStore, LineReader, TextLine, numbered_lines, replace_values
from onebit.errors import InputError, brief, truncate


class Svmlight(LineReader):
    """A reader of svmlight files."""

    def row_lines(self) -> Iterator[TextLine]:
        return (line for line in numbered_lines(self.path) if not line.text.lstrip().startswith("#"))

    def parse_lines(self, lines: Sequence[str]) -> ArrayBlock:
        from sklearn.datasets import load_svmlight_file

        file = io.BytesIO("".join(lines).encode())
        try:
            X, labels = load_svmlight_file(file, dtype=np.float32, zero_based=True)
        except (ValueError, OverflowError) as error:
            expected = "must be a label and pairs column:value, columns in order"
            raise InputError(f"{brief(truncate(lines[0].strip(), 60))} {expected} ({error})") from None
        invalid = np.flatnonzero(~np.isfinite(X.data))
        if len(invalid):
            raise InputError(f"column {X.indices[invalid[0]]} is missing, infinite or too large for 32 bits")
        indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int64)
        return {"data": X.data, "indices": indices, "indptr": indptr, "y": labels}

    def finish(self, store: ArrayStore) -> tuple[tuple[ClassName, ...], int]:
        classes = self.finish_labels(store, self.labels.values, f"the label of {self.path}")
        indices = store.array("indices")
        if not len(indices):
            raise InputError(f"{self.path} has no values, only labels")
        if indices.min() > 0:
            replace_values(indices, lambda columns: columns - 1)
        return classes, int(indices.max()) + 1
