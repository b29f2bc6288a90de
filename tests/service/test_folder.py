"""Folders of which something is missing, strange or elsewhere: a start says what to do, and nothing is destroyed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from onebit.cli import main
from onebit.errors import OnebitError
from onebit.service.store.sqlite.folder import refuse_network
from onebit.service.store.sqlite.schema import FILE
from tests.golden.write import HERE as GOLDEN
from tests.service.driving import (
    crash_image,
    decided,
    followed,
    heard,
    new_task,
    outcome,
    restarted,
    run,
    service_in,
)
from tests.service.survival.test_snapshots import contents_of

WAL, JOURNAL = f"{FILE}-wal", f"{FILE}-journal"
HOT = bytes.fromhex("d9d505f920a163d7") + b"\0\0\0\0" + b"abcd" + (7).to_bytes(4, "big") + b"\0\0\x02\0" + b"\0\0\x10\0"


async def _crashed(folder: Path) -> Path:
    """What a kill leaves: a database, rows in its journal, and snapshots."""
    async with service_in(folder) as service:
        await service.create(new_task())
        for number in range(40):
            await decided(service, str(number))
    async with service_in(folder) as service:
        for number in range(40):
            await heard(service, str(number))
        await followed(service)
        return crash_image(folder)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(run(_crashed(tmp_path_factory.mktemp("kept") / "data")))


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "data"))


def missing(folder: Path) -> None:
    (folder / FILE).unlink()


def emptied(folder: Path) -> None:
    (folder / FILE).write_bytes(b"")


def a_folder(folder: Path) -> None:
    (folder / FILE).unlink()
    (folder / FILE).mkdir()


def no_database(folder: Path) -> None:
    (folder / FILE).write_bytes(b"something else\n" * 1000)


def cut(folder: Path) -> None:
    """Behind its first page; the journal has a part of the rest only."""
    (folder / FILE).write_bytes((folder / FILE).read_bytes()[: 4096 * 3])


def cut_alone(folder: Path) -> None:
    (folder / WAL).unlink()
    (folder / FILE).write_bytes((folder / FILE).read_bytes()[: 4096 * 3])


def journal_of_a_larger_database(folder: Path) -> None:
    """An older copy was put back, and the journal left where it was."""
    (folder / FILE).write_bytes((GOLDEN / "1.0.0rc1" / "service" / "data" / FILE).read_bytes()[: 4096 * 4])


def journal_of_a_smaller_database(folder: Path) -> None:
    with closing(sqlite3.connect(folder.parent / "large")) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (zeroblob(1000000))")
        connection.commit()
    shutil.move(folder.parent / "large", folder / FILE)


def journal_of_other_pages(folder: Path) -> None:
    content = bytearray((folder / WAL).read_bytes())
    content[8:12] = (8192).to_bytes(4, "big")
    (folder / WAL).write_bytes(content)


def hot_journal(folder: Path) -> None:
    (folder / JOURNAL).write_bytes(HOT + bytes(1000))


def another_program(folder: Path) -> None:
    (folder / WAL).unlink()
    content = bytearray((folder / FILE).read_bytes())
    content[68:72] = b"GPKG"
    (folder / FILE).write_bytes(content)


DAMAGE: dict[Callable[[Path], None], str] = {
    missing: "is missing, but other parts of its log remain: ",
    emptied: "is empty, but other parts of its log remain: ",
    a_folder: "is not a file",
    no_database: "is not a database",
    cut: "cut short",
    cut_alone: "cut short",
    journal_of_a_larger_database: "does not belong to this onebit.db",
    journal_of_a_smaller_database: "does not belong to this onebit.db",
    journal_of_other_pages: "belongs to another database",
    hot_journal: "belongs to another database",
    another_program: "of another program",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_folder_of_which_something_is_missing_is_refused_and_left_as_it_is(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    damage(folder)
    before = contents_of(folder)
    error = run(outcome(restarted(folder)))
    assert isinstance(error, OnebitError), repr(error)
    assert DAMAGE[damage] in str(error)
    assert "\n" not in str(error)
    assert contents_of(folder) == before


@pytest.mark.parametrize("left", ["snapshots", WAL, JOURNAL])
@pytest.mark.parametrize("empty", [False, True])
def test_an_empty_log_does_not_begin_in_what_is_left_of_another(folder: Path, left: str, empty: bool) -> None:
    (folder / JOURNAL).write_bytes(HOT)
    for path in folder.iterdir():
        if path.name != left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if empty:
        (folder / FILE).touch()
    error = run(outcome(restarted(folder)))
    assert isinstance(error, OnebitError)
    assert f"but other parts of its log remain: {folder / left}; restore" in str(error)
    assert "restore" in str(error)
    (folder / left).rename(folder.with_name("aside"))
    run(restarted(folder))  # as the sentence said


def test_a_crash_leaves_what_can_be_started(folder: Path) -> None:
    """The journal of a kill, whole, cut or gone on, is its database's own."""
    assert (folder / WAL).stat().st_size > 4096
    assert run(restarted(folder))["fruit"]


def test_a_new_log_is_whole_from_its_first_moment(tmp_path: Path) -> None:
    run(restarted(tmp_path))
    assert (tmp_path / FILE).stat().st_size > 4096
    assert not list(tmp_path.glob("*.part"))


# --- what is in the schema ---------------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS seq FROM n"
HOSTILE = {
    "a view for a table": f"DROP TABLE feedback; CREATE VIEW feedback AS {ENDLESS}",
    "a view beside": f"CREATE VIEW more AS {ENDLESS}",
    "a trigger": "CREATE TRIGGER more AFTER INSERT ON decisions BEGIN DELETE FROM heartbeat; END",
    "another trigger": "DROP TRIGGER changes_DELETE; CREATE TRIGGER changes_DELETE BEFORE DELETE ON changes BEGIN SELECT 1; END",
    "no trigger": "DROP TRIGGER changes_DELETE",
    "a column": "ALTER TABLE decisions ADD COLUMN more TEXT",
    "no index": "DROP INDEX feedback_by_task",
    "a table": "CREATE TABLE more (x)",
    "another table": "DROP TABLE heartbeat; CREATE TABLE heartbeat (beats)",
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_schema_is_refused_before_anything_is_read(
    folder: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.executescript(HOSTILE[how])
    error = run(outcome(restarted(folder)))
    assert isinstance(error, OnebitError)
    assert "so it is not read" in str(error)
    for command in (
        ["export", str(folder), "fruit", "--format", "ndjson"],
        ["evaluate", str(folder), "fruit"],
        ["replay", str(folder), "fruit"],
    ):
        assert main(command) == 2
        assert "so it is not read" in capsys.readouterr().err
    assert main(["check", str(folder)]) == 1
    assert "so it is not read" in capsys.readouterr().out


def test_what_analyze_leaves_is_no_harm(folder: Path) -> None:
    before = run(restarted(folder))
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute("ANALYZE")
    assert run(restarted(folder)) == before


# --- network file systems ----------------------------------------------------------------------------------------------

MOUNTED = """\
22 1 8:1 / / rw,relatime - ext4 /dev/vda1 rw
30 22 0:40 / /srv rw shared:1 - nfs4 files:/srv rw,vers=4.2
31 30 8:2 / /srv/local\\040disk rw - xfs /dev/vdb rw
32 22 0:41 / /home rw master:1 - fuse.sshfs me@far:/home rw
33 22 0:42 / /mnt rw - cifs //far/mnt rw
34 22 8:3 / /mnt rw - btrfs /dev/vdc rw
half a line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/srv", "nfs4"), ("/srv/a/b", "nfs4"), ("/home/me/data", "fuse.sshfs"), ("/srv/local", "nfs4")],
)
def test_a_folder_on_another_machine_is_refused(
    folder: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTED)
    monkeypatch.setattr("onebit.service.store.sqlite.folder.MOUNTS", tmp_path / "mountinfo")
    with pytest.raises(OnebitError, match=rf"network file system \({kind}\).*a disk of this machine"):
        refuse_network(Path(folder))


def assert_taken(folder: Path) -> None:
    refuse_network(folder)  # which raises where it does refuse


@pytest.mark.parametrize("folder", ["/", "/var/lib/onebit", "/srv/local disk/data", "/srvs", "/mnt/data"])
def test_a_folder_of_this_machine_is_not(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTED)
    monkeypatch.setattr("onebit.service.store.sqlite.folder.MOUNTS", tmp_path / "mountinfo")
    assert_taken(Path(folder))


def test_where_nobody_says_what_is_mounted_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onebit.service.store.sqlite.folder.MOUNTS", tmp_path / "nothing")
    assert_taken(tmp_path)


def test_serve_refuses_it_before_it_makes_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mountinfo").write_text("22 1 8:1 / / rw,relatime - 9p share rw\n")
    monkeypatch.setattr("onebit.service.store.sqlite.folder.MOUNTS", tmp_path / "mountinfo")
    error = run(outcome(restarted(tmp_path / "data")))
    assert "network file system (9p)" in str(error)
    assert not (tmp_path / "data").exists()
