"""Messages about missing extras say what works where onebit was installed from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.contract import installation
from onebit.contract.installation import install_command, source_folder

ROOT = Path(onebit.__file__).parent


class Installed:
    def __init__(self, note: str | None) -> None:
        self._note = note

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._note


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The package lies among others, far from any clone, with this note of where it came from."""
    monkeypatch.setattr(
        installation, "__file__", str(tmp_path / "lib" / "site-packages" / "onebit" / "contract" / "installation.py")
    )
    return lambda note: monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed(note))


def test_in_a_clone_the_clone_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert source_folder() == ROOT.parents[1]
    monkeypatch.chdir(ROOT.parents[1])
    assert install_command("serve") == 'pip install ".[serve]"'
    monkeypatch.chdir(tmp_path)
    assert install_command("serve") == f'pip install "{ROOT.parents[1]}[serve]"'


@pytest.mark.parametrize(
    "note", [None, "", "no json", "[]", '{"url": "https://example.org/x.whl", "archive_info": {}}']
)
def test_from_an_index_it_is_installed_by_name(elsewhere: Any, note: str | None) -> None:
    elsewhere(note)
    assert source_folder() is None
    assert install_command("gpu") == 'pip install "onebit[gpu]"'


def test_installed_from_a_folder_it_is_that_folder_while_it_is_there(elsewhere: Any, tmp_path: Path) -> None:
    folder = tmp_path / "a clone"
    elsewhere(json.dumps({"url": folder.as_uri(), "dir_info": {}}))
    assert install_command("gpu") == 'pip install "onebit[gpu]"'
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    assert install_command("gpu") == f'pip install "{folder}[gpu]"'


def test_no_message_names_an_index_by_itself() -> None:
    for path in ROOT.rglob("*.py"):
        if path.name != "installation.py":
            assert not re.search(r'pip install[^\n]*"?onebit\[', path.read_text()), f"{path}: use install_command"
