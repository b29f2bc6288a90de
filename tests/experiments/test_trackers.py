"""What the page of the experiments shows for Optuna and MLflow is run, where these are installed."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.client.pages import Example, examples

pytestmark = pytest.mark.long

PAGE = "docs/how-to/tune.md"


def shown(library: str) -> Example:
    return next(one for one in examples(PAGE) if one.language == "python" and f"import {library}\n" in one.text)


def ran(library: str) -> dict[str, Any]:
    example = shown(library)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(example.text, f"{PAGE}:{example.line}", "exec"), names)
    return names


@pytest.mark.parametrize("library", ["optuna", "mlflow"])
def test_ten_lines_are_enough(library: str) -> None:
    lines = [line for line in shown(library).text.splitlines() if line.strip() and not line.startswith("import ")]
    assert len(lines) <= 10


@pytest.mark.filterwarnings("default")  # of another library
def test_optuna_searches_settings() -> None:
    optuna = pytest.importorskip("optuna", reason="Optuna is not installed: pip install optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names = ran("optuna")
    assert len(names["study"].trials) == 20
    assert set(names["study"].best_params) == {"aggressiveness", "exploration"}
    assert names["best"].error < 0.3


@pytest.mark.filterwarnings("default")
def test_mlflow_is_told_of_every_run(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    names = ran("mlflow")
    assert len(mlflow.search_runs()) == len(names["found"].frame()) == 6 + 4


def test_a_stand_in_for_mlflow_is_told_of_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines are right as far as onebit goes, also where MLflow is not installed."""
    mlflow = MagicMock()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    found = ran("mlflow")["found"]
    frame = found.frame()
    told = [call.args[0] for call in mlflow.log_metrics.call_args_list]
    assert sorted(one["error"] for one in told) == sorted(frame["error"])
    assert {call.args[0]["aggressiveness"] for call in mlflow.log_params.call_args_list} == {0.01, 1.0}
    assert not mlflow.set_tag.called
