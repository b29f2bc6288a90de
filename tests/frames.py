"""The kinds of frames that tests are given."""

from __future__ import annotations

from typing import Any

import pytest


def pandas(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas", reason="pandas is in the extra `experiments`").DataFrame(columns)


def polars(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("polars", reason="polars is in the extra `test-all`").DataFrame(columns)


def arrow(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pyarrow", reason="pyarrow is in the extra `experiments`").table(columns)


every_frame = pytest.mark.parametrize(
    "frame",
    [
        pytest.param(pandas, id="pandas"),
        pytest.param(polars, id="polars", marks=pytest.mark.long),
        pytest.param(arrow, id="arrow"),
    ],
)
