"""Damaged snapshots, a cut journal, a file that is no log: what is left is used, and what cannot be is said in one sentence."""

from __future__ import annotations

import json
import logging
import math
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onebit.errors import OnebitError
from onebit.learner.model_file import read_file, write_file
from onebit.service.requests import NewLearner
from onebit.service.service import Service
from onebit.service.store.sqlite.schema import FILE
from onebit.service.store.sqlite.store import SqliteStore
from tests.service.driving import (
    State,
    Where,
    ask,
    crash_image,
    decided,
    everything_in,
    followed,
    heard,
    hint,
    new_task,
    outcome,
    remove_snapshots,
    replayed,
    restarted,
    run,
    service_in,
    snapshots_in,
    states,
    until,
    without_snapshots,
)

pytestmark = pytest.mark.long


async def traffic(service: Service, first: int, count: int, task: str = "fruit") -> None:
    for number in range(first, first + count):
        answer = await decided(service, str(number), (float(number % 7), 1.0), task)
        await heard(service, str(number), answer["label"] == "abc"[number % 3], task)


async def grown(folder: Path) -> dict[str, State]:
    """A folder with three snapshots, the last of them old, and its state."""
    for part in range(3):
        async with service_in(folder) as service:
            if not part:
                await service.create(new_task())
            await traffic(service, 50 * part, 50)
            found = await states(service)
    async with service_in(folder) as service:
        await traffic(service, 150, 50)
        found = await states(service)
        crashed = crash_image(folder)
    shutil.rmtree(folder)
    crashed.rename(folder)
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, State]]:
    folder = tmp_path_factory.mktemp("kept") / "data"
    return folder, run(grown(folder))


@pytest.fixture
def folder(kept: tuple[Path, dict[str, State]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept[0], tmp_path / "data"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def flip_the_last_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(5000))


def huge_header(path: Path) -> None:
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def rewrite(path: Path, alter: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Alter what it says, and make the checksum fit."""
    manifest, arrays = read_file(path)
    alter(manifest, arrays)
    write_file(manifest, arrays, path)


def without_service(path: Path) -> None:
    rewrite(path, lambda manifest, arrays: manifest.pop("service"))


def with_service(**altered: Any) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        def alter(manifest: dict[str, Any], _: Any) -> None:
            for name, value in altered.items():
                if value is ...:
                    del manifest["service"][name]
                else:
                    manifest["service"][name] = value

        rewrite(path, alter)

    return damage


def service_is(value: Any) -> Callable[[Path], None]:
    return lambda path: rewrite(path, lambda manifest, arrays: manifest.__setitem__("service", value))


def without_memory(path: Path) -> None:
    rewrite(path, lambda manifest, arrays: arrays.pop("memory"))


def of_an_unknown_rule(path: Path) -> None:
    rewrite(path, lambda manifest, arrays: manifest.__setitem__("rule", "nonsense"))


def of_other_classes(path: Path) -> None:
    rewrite(path, lambda manifest, arrays: manifest.__setitem__("classes", ["x", "y"]))


DAMAGE: dict[str, Callable[[Path], None]] = {
    "bit": flip,
    "last bit": flip_the_last_bit,
    "cut": cut,
    "empty": empty,
    "garbage": garbage,
    "huge header": huge_header,
    "zeros": zeros,
    "a folder": a_folder,
    "dangling": dangling,
    "no service": without_service,
    "no position": with_service(position=...),
    "no statistics": with_service(statistics=...),
    "no generation": with_service(generation=...),
    "empty statistics": with_service(statistics={}),
    "statistics are null": with_service(statistics=None),
    "position in words": with_service(position="many"),
    "service is null": service_is(None),
    "service is a list": service_is([1, 2]),
    "no memory": without_memory,
    "unknown rule": of_an_unknown_rule,
    "other classes": of_other_classes,
}


@pytest.mark.parametrize("damaged", [1, 2, 3])
@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_snapshot_is_skipped(
    folder: Path, kept: tuple[Path, dict[str, State]], caplog: pytest.LogCaptureFixture, how: str, damaged: int
) -> None:
    """One, two or all of them: the next older one is used, or the log alone, and the state is the same."""
    paths = snapshots_in(folder)
    assert len(paths) == 3
    for path in paths[-damaged:]:
        DAMAGE[how](path)
    with caplog.at_level(logging.INFO, "onebit.service"):
        assert run(restarted(folder)) == kept[1]
    warned = [record for record in caplog.records if record.__dict__.get("event") == "snapshot-damaged"]
    assert len(warned) == damaged
    assert all(record.levelno == logging.WARNING and "\n" not in record.getMessage() for record in warned)
    ready = next(record for record in caplog.records if record.__dict__.get("event") == "task-ready")
    positions = [int(path.stem.split("-")[1]) for path in paths]
    assert ready.__dict__["snapshot"] == (positions[-damaged - 1] if damaged < 3 else 1)


@pytest.mark.parametrize(
    "name", ["x.onebit", "0001-.onebit", "1-2-3.onebit", "0001-000000000000301.onebit.bak", ".hidden.onebit"]
)
def test_files_of_other_names_are_left_alone(folder: Path, kept: tuple[Path, dict[str, State]], name: str) -> None:
    path = snapshots_in(folder)[-1]
    path.rename(path.with_name(name))
    assert run(restarted(folder)) == kept[1]
    assert path.with_name(name).exists()


@pytest.mark.parametrize("name", ["0001-000000000000400.onebit", "0009-000000000000001.onebit"])
def test_a_snapshot_with_the_name_of_another_is_what_it_says_inside(
    folder: Path, kept: tuple[Path, dict[str, State]], name: str
) -> None:
    path = snapshots_in(folder)[0]
    path.rename(path.with_name(name))
    assert run(restarted(folder)) == kept[1]


def test_a_snapshot_of_another_task(tmp_path: Path) -> None:
    """A folder that was put together from two backups, say."""

    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task("one"))
            await service.create(new_task("two", seed=2))
            await traffic(service, 0, 40, "one")
            await traffic(service, 0, 40, "two")
            found = await states(service)
        first, second = snapshots_in(tmp_path)
        assert (first.parent.name, second.parent.name) == ("1", "2")
        first.unlink()
        shutil.copy(second, first.with_name(second.name))
        assert await restarted(tmp_path) == found

    run(work())


def are_spaced(folder: Where, keep: int) -> bool:
    """Whether the last few snapshots are there, and of the others one at each distance, where each is twice the next."""
    positions = [int(path.stem.split("-")[1]) for path in snapshots_in(folder)]
    distances = [(positions[-1] - one).bit_length() for one in positions[: -keep or None]]
    return len(positions) >= keep and len(distances) == len(set(distances))


def test_what_a_killed_process_left_is_cleared_away(folder: Path) -> None:
    left = folder / "snapshots" / "1" / ".0001-000000000000999.onebit.0123.part"
    left.write_bytes(b"half of it")

    async def work() -> None:
        async with service_in(folder, keep_snapshots=2) as service:
            await traffic(service, 1000, 5)

    run(work())
    assert not left.exists()
    assert are_spaced(folder, 2)


def test_snapshots_are_written_every_so_many_rows_and_few_are_kept(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onebit.service.core.learner_thread.WRITING_SHARE", math.inf)  # however long a write takes

    async def work() -> None:
        async with service_in(where, snapshot_every=20, keep_snapshots=3) as service:
            await service.create(new_task())
            seen: set[str] = set()
            for start in range(0, 300, 20):
                await traffic(service, start, 20)
                await followed(service)
                await until(lambda: not service.served["fruit"].follower.writing)
                assert len(snapshots_in(where)) <= 2 or are_spaced(where, 3)
                seen |= {path.name for path in snapshots_in(where)}
            assert len(seen) >= 5
            found = await states(service)
        assert are_spaced(where, 3)
        assert int(snapshots_in(where)[-1].stem.split("-")[1]) == everything_in(where)[-1][0]
        assert await restarted(where) == found
        remove_snapshots(where, snapshots_in(where)[1:])
        assert await restarted(where) == found

    run(work())


@pytest.mark.parametrize("problem", ["a file where the folder should be", "cannot be written", "cannot be removed"])
def test_snapshots_that_cannot_be_written_stop_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    """They are tried again, and are there when it works."""

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    async def work() -> None:
        async with service_in(tmp_path, snapshot_every=10, keep_snapshots=1) as service:
            await service.create(new_task())
            if problem == "a file where the folder should be":
                (tmp_path / "snapshots").write_text("")
            else:
                with monkeypatch.context() as patched:
                    name = "pathlib.Path.unlink" if problem == "cannot be removed" else "os.fsync"
                    patched.setattr(name, fail)
                    await traffic(service, 0, 50)
                    await followed(service)
                    await until(lambda: not service.served["fruit"].follower.writing, 5.0)
            await traffic(service, 50, 50)
            if (tmp_path / "snapshots").is_file():
                (tmp_path / "snapshots").unlink()
            await traffic(service, 100, 50)
            found = await states(service)
        assert are_spaced(tmp_path, 1)
        assert await restarted(tmp_path) == found

    run(work())


# --- the log ---------------------------------------------------------------------------------------------------------


def take_away(folder: Path, last: int) -> None:
    """Cut the log off after a row, as a backup of an earlier time would have it."""
    with closing(sqlite3.connect(folder / FILE)) as connection:
        for table in ("feedback", "decisions", "changes"):
            connection.execute(f"DROP TRIGGER {table}_DELETE")
            connection.execute(f"DELETE FROM {table} WHERE seq > ?", (last,))
            connection.execute(
                f"CREATE TRIGGER {table}_DELETE BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, 'the log is only added to'); END"
            )
        connection.commit()


def contents_of(folder: Path) -> dict[str, bytes]:
    """The files of a folder; what SQLite shares between processes, an empty journal, and the lock are of no moment."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "lock")))
    return {str(path.relative_to(folder)): content for path in paths if (content := path.read_bytes())}


def test_a_log_that_ends_before_its_snapshots_is_refused(folder: Path) -> None:
    """Rows were lost, and nobody but the operator can say whether there is a better log; nothing is touched until then."""

    async def work() -> None:
        take_away(folder, 150)
        before = contents_of(folder)
        error = await outcome(restarted(folder))
        assert isinstance(error, OnebitError)
        assert "ends at row 150" in str(error)
        assert "at row 201" in str(error)
        assert "restore" in str(error)
        assert contents_of(folder) == before
        found = await restarted(without_snapshots(folder))
        assert found["fruit"] == replayed(folder, "fruit")

    run(work())


def test_a_snapshot_that_knew_more_than_the_log_is_not_used_later_either(folder: Path) -> None:
    """An older log was put in place, or the end of it lost; other rows have come since, and the old snapshots know nothing of them."""

    async def work() -> None:
        take_away(folder, 150)
        aside = (folder / "snapshots").rename(folder.with_name("aside"))
        async with service_in(folder) as service:
            await traffic(service, 5000, 90)
            found = await states(service)
            crashed = crash_image(folder)
        for one in (folder, crashed):
            shutil.copytree(aside, one / "snapshots", dirs_exist_ok=True)
            assert replayed(one, "fruit") == found["fruit"]
            assert await restarted(one) == found

    run(work())


def prefix(rows: list[tuple[Any, ...]], whole: list[tuple[Any, ...]]) -> bool:
    return rows == whole[: len(rows)]


@pytest.mark.parametrize("seed", range(12))
def test_a_cut_journal(tmp_path: Path, seed: int) -> None:
    """Whatever is left of it, the log is a beginning of what it was, and the service goes on from there, also with new rows."""
    chance = random.Random(seed)

    async def work() -> None:
        async with service_in(tmp_path / "data", snapshot_every=15) as service:
            await service.create(new_task())
            await service.create(new_task("words", learner="auto", features={"kind": "text", "hash_bits": 6}))
            await traffic(service, 0, 20)
            for number in range(10):
                await decided(service, str(number), f"a b {number}", "words")
                await heard(service, str(number), number % 2 == 0, "words")
            await followed(service)
            crashed = crash_image(tmp_path / "data")
        whole = everything_in(tmp_path / "data")
        journal = crashed / f"{FILE}-wal"
        size = journal.stat().st_size
        assert size > 4096
        place = chance.randrange(size + 1)
        content = bytearray(journal.read_bytes())
        if seed % 3 == 2:
            content[place:] = chance.randbytes(min(len(content) - place, 5000)) + content[place + 5000 :]
        journal.write_bytes(
            content[:place] if seed % 3 == 0 else content if seed % 3 == 2 else content[:place] + bytes(500)
        )
        refusal = await outcome(restarted(crashed))
        if isinstance(refusal, OnebitError):
            assert "restore the log from a backup, or move" in str(refusal)
            without_snapshots(crashed)
        async with service_in(crashed, snapshot_every=15) as service:
            assert prefix(everything_in(crashed), whole)
            found = await states(service)
            if "fruit" not in found:
                await service.create(new_task())
            await traffic(service, 9000, 30)
            found = await states(service)
            assert {name: replayed(crashed, name) for name in found} == found
            assert service.failing is None
        again = crash_image(crashed)
        assert await restarted(crashed) == found
        assert await restarted(without_snapshots(again)) == found

    run(work())


def test_without_its_journal(tmp_path: Path) -> None:
    async def work() -> None:
        async with service_in(tmp_path / "data") as service:
            await service.create(new_task())
            await traffic(service, 0, 20)
            crashed = crash_image(tmp_path / "data")
        (crashed / f"{FILE}-wal").unlink()
        async with service_in(crashed) as service:
            assert service.task_names() in ([], ["fruit"])
            if not service.task_names():
                await service.create(new_task())
            await traffic(service, 0, 5)

    run(work())


def header_only(content: bytes, chance: random.Random) -> bytes:
    return content[:100] + chance.randbytes(len(content) - 100)


def half(content: bytes, chance: random.Random) -> bytes:
    return content[: len(content) // 2]


def middle(content: bytes, chance: random.Random) -> bytes:
    return content[:4096] + chance.randbytes(len(content) - 8192) + content[-4096:]


def not_sqlite(content: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(len(content))


def text(content: bytes, chance: random.Random) -> bytes:
    return b"this is not a log\n"


def newer(content: bytes, chance: random.Random) -> bytes:
    return content[:60] + b"\0\0\0\x63" + content[64:]


@pytest.mark.parametrize("damage", [header_only, half, middle, not_sqlite, text, newer])
def test_a_database_that_is_none_is_told_of_in_one_sentence(
    folder: Path, damage: Callable[[bytes, random.Random], bytes]
) -> None:
    async def work() -> None:
        await restarted(folder)  # the journal goes into the file
        path = folder / FILE
        whole = path.read_bytes()
        path.write_bytes(damage(whole, random.Random(4)))
        kept = path.read_bytes()
        error = await outcome(restarted(folder))
        assert isinstance(error, OnebitError), repr(error)
        assert str(path) in str(error)
        assert "\n" not in str(error)
        path.write_bytes(kept)
        (folder / f"{FILE}-wal").unlink(missing_ok=True)
        # The folder is free again, and works with a good file.
        path.write_bytes(whole)
        await restarted(folder)

    run(work())


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("CREATE TABLE secrets (word TEXT)")
        connection.execute("INSERT INTO secrets VALUES ('sesame')")
        connection.commit()
    error = run(outcome(restarted(tmp_path)))
    assert isinstance(error, OnebitError)
    assert "that of another program" in str(error)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        assert connection.execute("SELECT * FROM secrets").fetchall() == [("sesame",)]


def test_the_log_is_only_added_to(folder: Path) -> None:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        for table in ("changes", "decisions", "feedback"):
            for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET seq = -seq"):
                with pytest.raises(sqlite3.IntegrityError, match="only added to"):
                    connection.execute(statement)


def test_a_snapshot_from_before_a_switch(where: Where) -> None:
    """What was trained then is trained again from the log."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task())
            await traffic(service, 0, 30)
        async with service_in(where, keep_snapshots=9) as service:
            await traffic(service, 30, 30)
            await service.switch("fruit", NewLearner(learner="auto", seed=3))
            await until(lambda: service.task("fruit").training is None)
            await traffic(service, 60, 30)
            found = await states(service)
        remove_snapshots(where, snapshots_in(where)[1:])
        assert json.loads(found["fruit"][0])["rule"] == "auto"
        assert await restarted(where) == found
        async with service_in(where) as service:
            assert service.task("fruit").generation == 2
            await service.decide("fruit", [ask("after")])
            assert (await service.feedback("fruit", [hint("after")]))[0]["status"] == "accepted"

    run(work())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_what_root_serves_in_the_folder_of_another_stays_that_users(tmp_path: Path) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
            await decided(service, "a")
            owners = {path.name: path.stat().st_uid for path in tmp_path.rglob("*")}
            assert {"onebit.db", "onebit.db-wal", "lock"} <= set(owners)
            assert set(owners.values()) == {1234}
        assert len(list(tmp_path.rglob("*.onebit"))) == 1
        assert {path.stat().st_uid for path in tmp_path.rglob("*")} == {1234}

    os.chown(tmp_path, 1234, 1234)
    run(work())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("position", float("inf")),
        ("position", 2**70),
        ("generation", "1"),
        ("statistics", None),
        ("statistics.block", 0),
        ("statistics.classes", [[0, 0, 0], [1, 1, 1], [2, 2, 2]]),
        ("statistics.classes", [[0], [0], [0]]),
        ("statistics.counts", {"right": 10**9}),
        ("statistics.wrong", {"count": 10**6, "last": "00"}),
        ("statistics.seconds", [[1, 2]]),
        ("statistics.delays", [1, 2]),
        ("statistics.open", [-1, -1]),
        ("statistics.curve", [1.5]),
    ],
)
def test_a_hostile_snapshot_is_skipped(folder: Path, field: str, value: Any) -> None:
    """With a right checksum: the service starts without it, and ends up where it was."""
    newest = sorted(snapshots_in(folder))[-1]
    manifest, arrays = read_file(newest)
    inside, *rest = manifest["service"], *field.split(".")
    for name in rest[:-1]:
        inside = inside[name]
    inside[rest[-1]] = value
    write_file(manifest, arrays, newest)
    reader = SqliteStore(folder).reader()
    try:
        names = {
            found.position
            for found in SqliteStore(folder).snapshots(int(newest.parent.name), 3).find_usable(reader, reader.last())
        }
    finally:
        reader.close()
    assert len(names) == len(snapshots_in(folder)) - 1
