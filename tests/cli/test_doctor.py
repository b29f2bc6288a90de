"""`onebit doctor`, and the bounds of the dependencies."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tools.lowest import DEVELOPERS, constraints_of

from onebit.cli import main
from onebit.contract import installation
from onebit.contract.installation import install_command, list_extras
from onebit.version import VERSION

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_doctor_says_what_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "code").write_bytes(bytes(3_000_000))
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["onebit"] == VERSION
    assert found["cache"] == {"folder": str(tmp_path / "cache"), "bytes": 3_000_000, "writable": True}
    assert set(found["extras"]) == set(PROJECT["optional-dependencies"]) - set(installation.DEVELOPER_EXTRAS)
    assert found["packages"]["numba"]
    assert found["gpu"]["usable"] == (found["gpu"]["why_not"] is None)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"{tmp_path / 'cache'}: 3 MB" in out


def test_the_doctor_says_how_loops_are_compiled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["doctor"]) == 0
    assert "compiler  a known Numba" in capsys.readouterr().out
    monkeypatch.setattr("onebit.engine.fingerprint.numba_version", lambda: "0.99.0")
    assert main(["doctor"]) == 0
    assert "compiler  plain Numba: this version is not known" in capsys.readouterr().out


def test_the_doctor_names_a_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onebit.engine.gpu.device.find_problem", lambda: None)
    monkeypatch.setattr("onebit.engine.gpu.device.device_name", lambda: "Imagined 9000")
    assert main(["doctor"]) == 0
    assert "Imagined 9000" in capsys.readouterr().out


def test_the_doctor_says_what_an_extra_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onebit.cli.doctor.list_extras", lambda: {"imagined": ["no-such-package"]})
    assert main(["doctor"]) == 0
    assert f"imagined: no-such-package missing: {install_command('imagined')}" in capsys.readouterr().out


def test_extras_of_a_wheel_are_those_of_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "source_folder", lambda: None)
    wanted = ["numpy>=1", 'ray[client]>=2; python_version < "3.14" and extra == "ray"', "pytest; extra == 'test'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: wanted)
    assert list_extras() == {"ray": ["ray"]}


# --- the lowest versions -----------------------------------------------------------------------------------------------


def test_everything_that_users_install_has_a_lowest_version() -> None:
    found = constraints_of(PROJECT)
    assert all("==" in line for line in found)
    assert {line.split("==")[0] for line in found} >= {"numpy", "numba", "starlette", "ray"}
    assert "pytest" not in "".join(found)
    assert DEVELOPERS == installation.DEVELOPER_EXTRAS


@pytest.mark.parametrize("bad", [["numpy"], ["numpy<2"], ["numpy>=1", "numpy>=2"], ["numpy @ file:///x"]])
def test_bounds_that_are_missing_or_differ_are_refused(bad: list[str]) -> None:
    with pytest.raises(SystemExit, match="numpy"):
        constraints_of({"name": "onebit", "dependencies": bad})


def test_what_is_used_of_numbas_internals_is_said_and_no_reason_for_an_upper_bound() -> None:
    (bound,) = [one for one in PROJECT["dependencies"] if one.startswith("numba")]
    assert bound == "numba>=0.63"
    used = "".join(path.read_text() for path in (ROOT / "src" / "onebit" / "engine").glob("*.py"))
    reasons = (ROOT / "docs" / "reference" / "dependencies.md").read_text()
    for internal in (
        "_nrt",
        "create_cpython_wrapper",
        "no_cfunc_wrapper",
        "JITCodeLibrary",
        "_final_module",
        "call_conv",
    ):
        assert internal in used
        assert f"`{internal}`" in reasons
