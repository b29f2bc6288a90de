"""Reading of svmlight (libsvm) files: a line is a label and pairs column:value.

They are read with scikit-learn, block by block. Columns may be counted from 0 or from 1, and a file does not say which:
from 1 is assumed if no column 0 occurs.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from onebit.contract.validation import ClassName
from onebit.data.file_blocks import ArrayBlock, ArrayStore, FileReader, open_unpacked
from onebit.data.labels import MOST_CLASSES
from onebit.errors import InputError, brief

BLOCK = 1 << 22  # bytes; whole lines are read
_CHUNK = 1 << 20


class Svmlight(FileReader):
    """A reader of svmlight files, plain or compressed."""

    def __init__(self, path: Path, classes: Iterable[ClassName] | None) -> None:
        super().__init__(path, classes, f"{path} has more than {MOST_CLASSES:,} labels: are they classes?")
        self._lowest, self._highest = np.iinfo(np.int64).max, -1

    def blocks(self) -> Iterator[tuple[ArrayBlock, int]]:
        rows = stored = 0
        for lines, text, done in self._texts():
            X, labels = self._parsed(text, lines)
            if not np.isfinite(X.data).all():
                entry = int(np.flatnonzero(~np.isfinite(X.data))[0])
                row = rows + int(np.searchsorted(X.indptr, entry, side="right")) - 1
                raise InputError(
                    f"column {X.indices[entry]} of {self.path} is missing, infinite or too large for 32 bits "
                    f"in {self.place(row)}"
                )
            if len(X.indices):
                self._lowest = min(self._lowest, int(X.indices.min()))
                self._highest = max(self._highest, int(X.indices.max()))
            yield self.sparse_block(X.data, X.indices, X.indptr, labels, rows, stored), done
            rows, stored = rows + len(labels), stored + len(X.data)

    def finish(self, store: ArrayStore) -> tuple[tuple[ClassName, ...], int]:
        classes = self.finish_labels(store, self.labels.values, f"the label of {self.path}")
        if self._highest < 0:
            raise InputError(f"{self.path} has no values, only labels")
        if self._lowest == 0:
            return classes, self._highest + 1
        indices = store.array("indices")
        for start in range(0, len(indices), _CHUNK):
            indices[start : start + _CHUNK] -= 1
        return classes, self._highest

    def place(self, row: int) -> str:
        with open_unpacked(self.path) as (file, _):
            for number, line in enumerate(file, 1):
                row -= bool(line.split(b"#")[0].strip())
                if row < 0:
                    return f"line {number}"
        return "a line after the last"

    def _texts(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield the number of preceding lines, a block of whole lines, and the bytes read from disk so far."""
        lines = 0
        try:
            with open_unpacked(self.path) as (file, raw):
                while text := file.read(BLOCK):
                    text += file.readline()
                    if text.strip():
                        yield lines, text, raw.tell()
                    lines += text.count(b"\n")
        except (EOFError, gzip.BadGzipFile, OSError) as error:
            raise InputError(f"{self.path} cannot be read: {error}") from None

    def _parsed(self, text: bytes, lines: int) -> tuple[Any, Any]:
        try:
            return _parsed(text)
        except (ValueError, OverflowError):
            for number, line in enumerate(text.splitlines(), lines + 1):
                try:
                    _parsed(line)
                except (ValueError, OverflowError) as error:
                    shown = line.decode(errors="replace")
                    shown = shown if len(shown) <= 60 else shown[:60] + "..."
                    raise InputError(
                        f"line {number} of {self.path} is {brief(shown)}, but must be a label and pairs column:value, "
                        f"columns in order ({error})"
                    ) from None
            raise


def _parsed(text: bytes) -> tuple[Any, Any]:
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(io.BytesIO(text), dtype=np.float32, zero_based=True)  # type: ignore[no-any-return]
