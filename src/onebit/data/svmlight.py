"""Reading of svmlight (libsvm) files: a line is a label and pairs column:value.

They are read with scikit-learn, some lines at a time. Columns may be counted from 0 or from 1, and a file does not say
which: from 1 is assumed if no column 0 occurs.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onebit.contract.validation import ClassName
from onebit.data.file_blocks import ArrayBlock, ArrayStore, LineReader, TextLine, numbered_lines, replace_values
from onebit.errors import InputError, brief


class Svmlight(LineReader):
    """A reader of svmlight files."""

    def row_lines(self) -> Iterator[TextLine]:
        return (line for line in numbered_lines(self.path) if not line.text.lstrip().startswith("#"))

    def parse_lines(self, lines: Sequence[TextLine]) -> ArrayBlock:
        try:
            X, labels = _parse_text("".join(line.text for line in lines))
        except (ValueError, OverflowError):
            self._refuse_bad_line(lines)
            raise
        if not np.isfinite(X.data).all():
            entry = int(np.flatnonzero(~np.isfinite(X.data))[0])
            line = lines[int(np.searchsorted(X.indptr, entry, side="right")) - 1]
            raise InputError(
                f"column {X.indices[entry]} of {self.path} is missing, infinite or too large for 32 bits "
                f"in line {line.number}"
            )
        indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int64)
        return {"data": X.data, "indices": indices, "indptr": indptr, "y": labels}

    def _refuse_bad_line(self, lines: Sequence[TextLine]) -> None:
        for line in lines:
            try:
                _parse_text(line.text)
            except (ValueError, OverflowError) as error:
                text = line.text.strip()
                shown = text if len(text) <= 60 else text[:60] + "..."
                raise InputError(
                    f"line {line.number} of {self.path} is {brief(shown)}, but must be a label and pairs column:value, "
                    f"columns in order ({error})"
                ) from None

    def finish(self, store: ArrayStore) -> tuple[tuple[ClassName, ...], int]:
        classes = self.finish_labels(store, self.labels.values, f"the label of {self.path}")
        indices = store.array("indices")
        if not len(indices):
            raise InputError(f"{self.path} has no values, only labels")
        if indices.min() > 0:
            replace_values(indices, lambda columns: columns - 1)
        return classes, int(indices.max()) + 1


def _parse_text(text: str) -> tuple[Any, Any]:
    """Return the rows of a text as a CSR matrix, and their labels."""
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(io.BytesIO(text.encode()), dtype=np.float32, zero_based=True)  # type: ignore[no-any-return]
