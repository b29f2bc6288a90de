"""How much memory there is: what the machine says, or a control group with less."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from onebit.cli import main
from onebit.contract import memory
from onebit.errors import OutOfMemoryError

MACHINE = "MemTotal:       32000000 kB\nMemFree:         1000000 kB\nMemAvailable:   10000000 kB\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with ten million kibibytes, and no control groups yet."""
    for name, file in (("MEMINFO", "meminfo"), ("CGROUP_FILE", "cgroup"), ("CGROUP_ROOT", "fs")):
        monkeypatch.setattr(memory, name, tmp_path / file)
    (tmp_path / "meminfo").write_text(MACHINE)
    return tmp_path


def limited(folder: Path, files: Mapping[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(f"{content}\n")


def test_the_machine_says_what_is_free(machine: Path) -> None:
    assert memory.available_memory() == 10_240_000_000
    (machine / "meminfo").unlink()
    assert memory.available_memory() is None, "nobody says"
    memory.require_memory(10**15, "this", "that")  # and so nothing is refused


def test_a_control_group_has_less(machine: Path) -> None:
    (machine / "cgroup").write_text("0::/box/inner\n")
    limited(machine / "fs/box/inner", {"memory.max": "max", "memory.current": 5})
    assert memory.available_memory() == 10_240_000_000
    stat = "anon 1\nactive_file 200000000\ninactive_file 100000000\nfile_mapped 3"
    limited(machine / "fs/box", {"memory.max": 2 * 10**9, "memory.current": 10**9, "memory.stat": stat})
    assert memory.available_memory() == 1_300_000_000, "files are given back when they are in the way"


def test_what_needs_more_is_refused_with_numbers(machine: Path) -> None:
    memory.require_memory(10_240_000_000, "this", "that")
    with pytest.raises(OutOfMemoryError, match=r"^this needs 20.4 GB of memory, but only 10.2 GB is free: take that$"):
        memory.require_memory(20_400_000_000, "this", "take that")


def test_the_command_line_says_it_in_one_line(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "banditron", "synsep10", "--rounds", "50000000", "--order", "shuffle"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "needs 21.2 GB of memory, but only 10.2 GB is free" in err
