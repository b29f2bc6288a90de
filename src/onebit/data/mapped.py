"""Preparation of rows wherever they lie: in memory, or mapped from a large file, and then written beside it, once."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from onebit.data.large import alone
from onebit.data.preparation import prepared
from onebit.data.tables import Csr


def prepared_rows(X: Any, steps: tuple[str, ...]) -> Any:
    """The rows after all steps, in memory where X is, and mapped where X is mapped."""
    home = _home(X)
    if home is None or not steps:
        return prepared(X, steps)
    # Beside the conversion, under a name that goes with it: a file that has changed takes both away.
    mark = hashlib.sha256(repr(steps).encode()).hexdigest()[:16]
    folder = home.with_name(f"{home.name}-{mark}")
    facts = folder / "facts.json"
    with alone(folder):
        if not facts.exists():  # written last: what has it is whole
            shape = prepared(X, steps, folder).shape
            facts.write_text(json.dumps({"steps": steps, "shape": [int(size) for size in shape]}))
    if (folder / "X.npy").exists():
        return _load(folder, "X")
    return Csr(
        _load(folder, "data"),
        _load(folder, "indices"),
        _load(folder, "indptr"),
        tuple(json.loads(facts.read_text())["shape"]),
    )


def _home(X: Any) -> Path | None:
    """The folder of the file that rows are mapped from, if they are."""
    values = X.data if hasattr(X, "indptr") else X
    return Path(values.filename).parent if isinstance(values, np.memmap) and values.filename else None


def _load(folder: Path, name: str) -> Any:
    return np.load(folder / f"{name}.npy", mmap_mode="r")
