"""`onebit check`: a folder that is whole is said to be, beside a running service too, and every kind of damage is found."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from onebit.cli import main
from onebit.service.maintenance.check import MOST_FAULTS, check
from onebit.service.service import Service
from onebit.service.store.sqlite.schema import FILE
from onebit.service.tokens import Tokens
from tests.service.driving import change, decided, followed, heard, new_task, run, service_in, snapshots_in
from tests.service.logs import fill, served


async def _grown(folder: Path) -> None:
    """Three tasks: numbers with a class that came later, dicts, and texts in shadow mode."""
    async with service_in(folder) as service:
        await service.create(new_task())
        for number in range(10):
            await decided(service, str(number))
            await heard(service, str(number))
        await service.change("fruit", change(add_classes=["d"]))
        await decided(service, "later")
        await service.create(new_task("shops", features={"kind": "dict", "hash_bits": 6}))
        await decided(service, "s", {"a": 1.5, "b": 2}, "shops")
        await service.create(new_task("words", features={"kind": "text", "hash_bits": 6}, mode="shadow"))
        await decided(service, "w", "some words", "words")
        await heard(service, "w", True, "words", shown="b")
        await heard(service, "0", False, revise=True)
        await followed(service)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "data"
    run(_grown(folder))
    Tokens(folder / "tokens.json").create(["admin"])
    return folder


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "data"))


def sql(statement: str, *values: object) -> Callable[[Path], None]:
    """Do to the log what its triggers refuse; they are there again afterwards."""

    def damage(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE)) as connection:
            triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            connection.execute("PRAGMA ignore_check_constraints = ON")
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(statement, values)
            for _, text in triggers:
                connection.execute(text)
            connection.commit()

    return damage


def on_file(name: str, alter: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = snapshots_in(folder)[0] if name == "snapshot" else folder / name
        path.write_bytes(alter(path.read_bytes()))

    return damage


def snapshot_beyond(folder: Path) -> None:
    sql("DELETE FROM feedback WHERE seq = (SELECT max(seq) FROM feedback)")(folder)


def index_without_table(folder: Path) -> None:
    """A row is taken out of an index alone."""
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        text = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'feedback_by_task'").fetchone()[0]
        connection.execute("UPDATE sqlite_master SET sql = sql || ' WHERE seq <> 3' WHERE name = 'feedback_by_task'")
        connection.commit()
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute("REINDEX feedback_by_task")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'feedback_by_task'", (text,))
        connection.commit()


def gone(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / "closed").touch()
        (folder / name).unlink()

    return damage


FRUIT = "WHERE seq = 2"  # the first decision of the task with numbers
DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "no database": (on_file(FILE, lambda content: b"x" * len(content)), "onebit.db"),
    "pages": (on_file(FILE, lambda content: content[:8192] + bytes(len(content) - 8192)), "onebit.db"),
    "an index": (index_without_table, "missing from index feedback_by_task"),
    "a schema": (sql("CREATE TABLE more (x)"), "more is unexpected"),
    "a number is missing": (sql("DELETE FROM decisions WHERE id = 'later'"), "row 23: is missing"),
    "a number twice": (
        sql("UPDATE feedback SET seq = 2 WHERE seq = 3"),
        "row 2: occurs more than once: two services",
    ),
    "no decision": (sql("UPDATE feedback SET decision = 999 WHERE seq = 3"), "its decision, row 999, does not exist"),
    "another task's decision": (sql("UPDATE feedback SET task = 2 WHERE seq = 3"), "belongs to another task"),
    "no such task": (sql(f"UPDATE decisions SET task = 77 {FRUIT}"), "task 77 was not created before this row"),
    "no such class": (
        sql(f"UPDATE decisions SET label = 4611686018427387904 {FRUIT}"),
        "label is 4611686018427387904, but must be",
    ),
    "a class that came later": (
        sql(f"UPDATE decisions SET label = 3 {FRUIT}"),
        "label is 3, but must be less than 3",
    ),
    "a class before the first": (sql(f"UPDATE decisions SET greedy = -1 {FRUIT}"), "greedy is -1, but must be"),
    "no such learner": (sql(f"UPDATE decisions SET generation = 9 {FRUIT}"), "had no learner 9.0 yet"),
    "no such mode": (
        sql(f"UPDATE decisions SET mode = 'x' {FRUIT}"),
        "mode is 'x', but must match pattern '^(learn|shadow|log-only)$'",
    ),
    "no chance": (sql(f"UPDATE decisions SET propensity = 0 {FRUIT}"), "propensity is 0.0"),
    "no finite weight": (
        sql(f"UPDATE decisions SET weight = 9e999 {FRUIT}"),
        "weight is inf, but must be a finite number",
    ),
    "no finite time": (sql(f"UPDATE decisions SET time = 9e999 {FRUIT}"), "time is inf, but must be"),
    "few probabilities": (
        sql(f"UPDATE decisions SET probabilities = x'00' {FRUIT}"),
        "probabilities is b'\\x00', but must be",
    ),
    "nan in x": (
        sql(f"UPDATE decisions SET x = ? {FRUIT}", struct.pack("<2d", 1.0, float("nan"))),
        "x has a number that is not finite",
    ),
    "a short x": (
        sql(f"UPDATE decisions SET x = ? {FRUIT}", bytes(8)),
        "x does not have the 16 bytes of 2 numbers",
    ),
    "no JSON": (sql("UPDATE decisions SET x = ? WHERE id = 's'", b'{"a": NaN}'), "x is not JSON"),
    "no object": (
        sql("UPDATE decisions SET x = ? WHERE id = 's'", b'{"a": "b"}'),
        "x is not an object of feature name and number",
    ),
    "no flag": (sql("UPDATE feedback SET right = 7 WHERE seq = 3"), "right is 7, but must be less than or equal to 1"),
    "no source": (
        sql("UPDATE feedback SET source = 'x' WHERE seq = 3"),
        "source is 'x', but must match pattern '^(caller|silence)$'",
    ),
    "an id that is no text": (
        sql(f"UPDATE decisions SET id = CAST(x'ff' AS TEXT) {FRUIT}"),
        "id is b'\\xff', but must be a valid string",
    ),
    "half of what was shown": (
        sql("UPDATE feedback SET shown_propensity = NULL WHERE shown = 1"),
        "shown and shown_propensity must be present together",
    ),
    "no feedback": (sql("UPDATE revisions SET feedback = 999"), "its feedback, row 999, does not exist"),
    "another task's feedback": (sql("UPDATE revisions SET task = 2"), "belongs to another task"),
    "a flag of a revision": (sql("UPDATE revisions SET right = 7"), "right is 7, but must be less than or equal to 1"),
    "a reward": (
        sql("UPDATE feedback SET reward = 2 WHERE seq = 3"),
        "reward is 2.0, but must be less than or equal to 1",
    ),
    "a truth": (sql("UPDATE feedback SET truth = 3 WHERE seq = 3"), "truth is 3, but must be"),
    "candidates": (sql(f"UPDATE decisions SET among = x'09000000' {FRUIT}"), "among is b'\\t"),
    "no candidate": (
        sql("UPDATE decisions SET among = CASE label WHEN 0 THEN x'01000000' ELSE x'00000000' END WHERE seq = 2"),
        "label or greedy is not one of the classes in among",
    ),
    "how sure": (sql(f"UPDATE decisions SET confidence = 1.5 {FRUIT}"), "confidence is 1.5, but must be"),
    "no such kind": (sql("UPDATE changes SET kind = 'x' WHERE seq = 1"), "kind is 'x', but must be created"),
    "no text": (sql("UPDATE decisions SET x = ? WHERE id = 'w'", b"\xff"), "x is not a text in UTF-8"),
    "shown class": (sql("UPDATE feedback SET shown = 3 WHERE shown IS NOT NULL"), "shown is 3, but must be"),
    "shown propensity": (
        sql("UPDATE feedback SET shown_propensity = 2 WHERE shown IS NOT NULL"),
        "shown_propensity is 2.0, but must be less than or equal to 1.000001",
    ),
    "no detail": (sql("UPDATE changes SET detail = '{' WHERE seq = 1"), "detail is '{', but must be JSON"),
    "a detail of something else": (
        sql("UPDATE changes SET detail = '[]' WHERE seq = 1"),
        "detail is [], but must be an object",
    ),
    "a damaged snapshot": (on_file("snapshot", lambda content: content[:-1] + b"?"), "snapshots/1/"),
    "a snapshot of another log": (sql("UPDATE decisions SET time = 5 WHERE id = 'later'"), "belongs to another log"),
    "a snapshot beyond the log": (snapshot_beyond, "belongs to another log, or to rows that this log has lost"),
    "tokens": (on_file("tokens.json", lambda content: content[:-9]), "tokens.json"),
    "tokens gone": (gone("tokens.json"), "is missing, although the service had tokens"),
    "the database gone": (gone(FILE), "is missing, but other parts of its log remain"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_every_kind_of_damage_is_found(folder: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    damage, word = DAMAGE[how]
    damage(folder)
    assert main(["check", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert word in out
    assert err == ""
    assert all(": " in line for line in out.splitlines())


def test_a_whole_folder_is_said_to_be_whole(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(kept)]) == 0
    counts = "tasks: 3, changes: 4, decisions: 13, feedback: 11, revisions: 1, snapshots: 3, tokens: 1"
    assert capsys.readouterr().out == f"{kept} is intact: {counts}\n"
    assert main(["check", str(kept), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["fine"], found["version"], found["decisions"], found["faults"]) == (True, 1, 13, [])


def test_a_fault_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DAMAGE["a short x"][0](folder)
    assert main(["check", str(folder), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["fine"] is False
    assert found["faults"] == [
        {"where": "row 2 of decisions", "what": "x does not have the 16 bytes of 2 numbers"},
    ]


def test_faults_are_listed_up_to_a_number(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onebit.service.maintenance.check.MOST_FAULTS", 3)
    sql("UPDATE decisions SET propensity = 7")(folder)
    report = check(folder)
    assert (len(report.faults), report.more) == (3, 10)
    assert MOST_FAULTS >= 100


def test_it_works_beside_a_running_service(tmp_path: Path) -> None:
    async def both(service: Service) -> None:
        await fill(service)
        report = check(tmp_path)
        assert report.faults == []
        assert report.counts["decisions"] > 300

    served(tmp_path, both)
    assert check(tmp_path).faults == []


@pytest.mark.parametrize("content", [None, "nothing", "empty", "other"])
def test_what_cannot_be_checked_is_one_line(
    tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    if content is not None:
        folder.mkdir()
    if content == "empty":
        (folder / FILE).touch()
    if content == "other":
        with closing(sqlite3.connect(folder / FILE)) as connection:
            connection.execute("CREATE TABLE x (y)")
    assert main(["check", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert str(folder) in err
