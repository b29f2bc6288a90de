"""The folders of machine code: what nobody uses is removed, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from onebit.engine.code_cache import UNUSED_S, folder_for, holds_code, prune, read_code, write_code

OLD, NEW = "0123456789abcdef01234567", "fedcba987654321001234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path))
    return tmp_path


def age(folder: Path, seconds: float) -> None:
    """Let a folder and all in it have been used so long ago."""
    then = time.time() - seconds
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (then, then))


def made(name: str) -> Path:
    """A folder with machine code in it."""
    folder = folder_for(name, "banditron-dense-float32-stream")
    assert folder is not None
    write_code(folder, b"code")
    assert holds_code(folder)
    return folder


def test_what_nobody_has_used_for_long_is_removed(cache: Path) -> None:
    age(made(OLD).parent, UNUSED_S + 3600.0)
    recent = made(NEW)
    age(recent.parent, UNUSED_S - 3600.0)
    prune(cache)
    assert [path.name for path in cache.iterdir()] == [NEW]
    assert holds_code(recent)


def test_asking_for_a_folder_counts_as_using_it(cache: Path) -> None:
    age(made(OLD).parent, UNUSED_S + 3600.0)
    made(OLD)
    prune(cache)
    assert [path.name for path in cache.iterdir()] == [OLD]


def test_what_is_no_folder_of_machine_code_stays(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (cache / "data").mkdir()
    (cache / NEW).write_text("a file")
    (cache / OLD).symlink_to(elsewhere)
    age(cache / "data", 2 * UNUSED_S)
    prune(cache)
    assert {path.name for path in cache.iterdir()} == {"data", NEW, OLD}
    assert elsewhere.is_dir()


def test_a_cache_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    prune(tmp_path / "missing")
    assert not holds_code(None)
    assert read_code(None) is None
    write_code(None, b"code")


def test_what_is_kept_is_read_whole_or_not_at_all(cache: Path) -> None:
    folder = made(NEW)
    assert read_code(folder) == b"code"
    (file,) = folder.iterdir()  # nothing is left beside it
    content = file.read_bytes()
    for damaged in (content[:-1], content + b"?", content[:3] + b"?" + content[4:], b""):
        file.write_bytes(damaged)
        assert read_code(folder) is None
    write_code(folder, b"other code")
    assert read_code(folder) == b"other code"
    file.unlink()
    assert read_code(folder) is None
