"""One entry runs every benchmark by its name, and writes its tables where results are kept."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import NAMES, main, replace_section
from benchmarks.measuring import Table, markdown


def test_without_a_name_the_benchmarks_are_listed_with_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert all(line.endswith(".") for line in lines)


def test_a_name_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trouhgput"]) == 2
    assert "there is no benchmark 'trouhgput'" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_has_options_and_measures(name: str) -> None:
    module = import_module(f"benchmarks.{name}")
    module.add_options(argparse.ArgumentParser())
    assert callable(module.measure)
    assert f"python -m benchmarks {name}" in (module.__doc__ or "")


def test_a_benchmark_runs_and_its_tables_are_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("benchmarks.__main__.RESULTS", tmp_path / "RESULTS.md")
    arguments = ["auto", "--only", "synsep10", "--rounds", "200", "--seeds", "1"]
    assert main([*arguments, "--write", "--json", str(tmp_path / "auto.json")]) == 0
    shown, kept = capsys.readouterr().out, (tmp_path / "RESULTS.md").read_text()
    assert "| synsep10 |" in shown
    assert shown.strip() in kept
    assert "`python -m benchmarks auto --only synsep10" in kept
    assert '"stream": "synsep10"' in (tmp_path / "auto.json").read_text()


def test_numbers_are_for_people_and_on_the_right() -> None:
    rows: list[dict[str, Any]] = [
        {"what": "a", "value": 0.071234, "many": 20_000},
        {"what": "b", "value": None, "many": 3},
    ]
    assert markdown(Table("t", rows)) == [
        "| what | value | many |",
        "|---|---:|---:|",
        "| a | 0.0712 | 20,000 |",
        "| b |  | 3 |",
    ]


def test_a_section_takes_the_place_of_its_last_one(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    replace_section(path, "steps", ["one"])
    replace_section(path, "open", ["two", "", "three"])
    replace_section(path, "steps", ["four"])
    assert path.read_text() == "# Results\n\n## open\n\ntwo\n\nthree\n\n## steps\n\nfour\n"
