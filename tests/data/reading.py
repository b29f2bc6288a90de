"""Files as tests read them, by keywords."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from onebit.data.dataset import Dataset
from onebit.data.reading import Reading
from onebit.data.user_files import read_file


def read(
    path: Path | str,
    *,
    classes: Iterable[Any] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    **said: Any,
) -> Dataset:
    """A file of labelled rows; `said` is what is said of its columns."""
    return read_file(Path(path), Reading(**said), classes, progress)
