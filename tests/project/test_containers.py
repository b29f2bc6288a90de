"""The Containerfile and compose.yaml: they name what is there, and the service in them is not root and cannot write to its own files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from onebit.rules import rule_named

ROOT = Path(__file__).parents[2]
FILE = (ROOT / "Containerfile").read_text()
LAST = FILE[FILE.rindex("\nFROM ") :]  # the stage that is run


def test_it_does_not_run_as_root() -> None:
    assert re.findall(r"^USER (.+)$", LAST, re.MULTILINE) == ["onebit"]
    assert "--uid 10001" in FILE
    assert LAST.index("USER onebit") < LAST.index("ENTRYPOINT")


def test_what_it_names_is_there() -> None:
    kept = [line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")]
    for name in kept:
        assert (ROOT / name).exists(), name
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"README.md", *project["license-files"]} <= set(kept)  # what the package cannot be built without
    (extras,) = re.findall(r"^ARG EXTRAS=(.+)$", FILE, re.MULTILINE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (warm,) = re.findall(r"^ARG WARM=(.+)$", FILE, re.MULTILINE)
    assert rule_named(warm).name == "auto"


def test_all_that_is_written_is_in_volumes() -> None:
    assert 'VOLUME ["/data", "/var/cache/onebit"]' in LAST
    assert "ONEBIT_CACHE=/var/cache/onebit" in LAST


def test_compose_keeps_to_it() -> None:
    yaml = pytest.importorskip("yaml", reason="a reader of YAML is not here")
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    onebit = services["onebit"]
    assert onebit["build"]["dockerfile"] == "Containerfile"
    assert (onebit["read_only"], onebit["cap_drop"]) == (True, ["ALL"])
    assert onebit["ports"] == ["127.0.0.1:8000:8000"]
    assert "ports" not in services["postgres"]
    assert onebit["command"][:2] == ["serve", "--log"]
