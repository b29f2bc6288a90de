"""`onebit data` lists what there is and where it is; `onebit data fetch` says what it found or downloads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest

from onebit.cli import main
from onebit.data.real import REAL
from onebit.data.sources import GENERATORS

sklearn_datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is in the extra `experiments`")

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run a command with an empty cache and no folder of data: exit code, stdout, stderr."""
    monkeypatch.delenv("ONEBIT_DATA", raising=False)
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["data", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def usps(**options: Any) -> SimpleNamespace:
    labels = np.array([str(label) for label in range(1, 11)], dtype=object)
    return SimpleNamespace(data=np.zeros((10, 256)), target=labels)


def test_all_data_are_listed_with_their_sizes(call: Call) -> None:
    code, out, err = call()
    assert (code, err) == (0, "")
    for name in [*GENERATORS, *REAL]:
        assert f" {name} " in out
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "any" in lines["synsep10"]
    for part in ("70,000", "784", "10", "to be downloaded"):
        assert part in lines["mnist"]
    assert "sparse" in lines["rcv1"]
    assert "scikit-learn" in lines["digits"]
    assert max(map(len, out.splitlines())) <= 100
    assert "\x1b" not in out, "no colours where there is no terminal"
    assert call("list") == (code, out, err)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_fits_the_terminal(call: Call, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    _, out, _ = call()
    plain = "".join(part.partition("m")[2] if index else part for index, part in enumerate(out.split("\x1b[")))
    assert max(map(len, plain.splitlines())) <= width
    assert ("handwritten" in plain) == (width >= 96)
    assert ("--json" in plain) == (width < 96)


def test_the_list_as_json_has_the_whole_place(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "usps.npz", X=np.zeros((2, 256)), y=[0, 1])
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path))
    code, out, _ = call("--json")
    assert code == 0
    entries = {entry["name"]: entry for entry in json.loads(out)}
    assert list(entries) == [*GENERATORS, *REAL]
    assert entries["usps"]["where"] == f"ONEBIT_DATA: {tmp_path / 'usps.npz'}"
    assert entries["usps"]["rows"] == 9298
    assert entries["synsep9"]["rows"] is None
    assert entries["synsep9"]["features"] == 400
    assert entries["20newsgroups"]["sparse"] is True
    assert entries["20newsgroups"]["hint"] == "binary"
    assert all(entry["summary"] for entry in entries.values())


def test_fetch_downloads_once_and_says_where(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sklearn_datasets, "fetch_openml", usps)
    path = tmp_path / "cache" / "data" / "usps.npz"
    code, out, err = call("fetch", "usps", "--quiet")
    assert (code, err) == (0, "")
    assert f"usps has been fetched: cache: {path}" in out
    assert path.is_file()
    _, out, _ = call("fetch", "usps", "digits", "--json")
    assert json.loads(out) == [
        {"name": "usps", "where": f"cache: {path}", "fetched": False},
        {"name": "digits", "where": "scikit-learn", "fetched": False},
    ]


def test_fetch_shows_its_progress_on_a_terminal(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sklearn_datasets, "fetch_openml", usps)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    code, out, err = call("fetch", "usps")
    assert code == 0
    assert "downloading usps" in err
    assert "downloading" not in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fetch"], ["mnist", "usps"]),
        (["fetch", "mnst"], ["did you mean 'mnist'?"]),
        (["fetch", "digits", "mnst"], ["did you mean 'mnist'?"]),
        (["fetch", "synsep10"], ["nothing to fetch"]),
        (["list", "mnist"], ["fetch", "'mnist'"]),
        (["fetsch"], ["fetsch", "--help"]),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line_and_exit_code_2(call: Call, arguments: list[str], words: list[str]) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_no_network_is_one_line_and_exit_code_2(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(**options: Any) -> None:
        raise URLError("unreachable")

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", unreachable)
    code, _, err = call("fetch", "mnist")
    assert code == 2
    assert err.count("\n") == 1
    assert "mnist.npz" in err
    assert str(tmp_path / "cache" / "data") in err
