"""Archives by month: what is in the files is what was in the log, what was learnt stays, and a kill leaves what the same command finishes."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import onebit
from onebit.cli import main
from onebit.errors import InputError
from onebit.offpolicy.log_files import read_log
from onebit.service.errors import GoneError
from onebit.service.maintenance.archive import archive, next_month, start_of_month
from onebit.service.maintenance.check import check
from onebit.service.maintenance.copy import copy
from onebit.service.maintenance.export import is_in_parquet
from onebit.service.maintenance.log_reader import LogReader
from onebit.service.store import clock
from tests.service.driving import Where, restarted, run, without_snapshots
from tests.service.postgres import Server, needs_postgres
from tests.service.test_open import known_by

pytest.importorskip("pyarrow")
WORD = "xylophone"


def at(month: int, day: int = 15) -> float:
    return datetime(2026, month, day, tzinfo=UTC).timestamp()


def live(folder: Path, month: int, monkeypatch: pytest.MonkeyPatch, count: int = 12, **options: Any) -> None:
    """A program that decides in some month of 2026."""
    named = {name: getattr(time, name) for name in ("monotonic", "strftime", "gmtime")}
    monkeypatch.setattr(clock, "time", SimpleNamespace(time=lambda: at(month), **named))
    words = {"kind": "text", "hash_bits": 8}
    about = options or {"classes": ["a", "b", "c"], "features": words, "learner": "banditron", "seed": 1}
    with onebit.open(folder, "fruit", **({} if folder.exists() else about)) as task:
        for number in range(count):
            x: Any = [float(number % 5), 1.0] if options else f"{WORD} {number % 3} in {month}"
            decision = task.decide(x, id=f"{month}-{number}-{task.stats()['decisions']}")
            if number % 4:
                task.feedback(decision, right=number % 3 == 0)
            if number == 7:
                task.feedback(decision, reward=0.5, revise=True)
    monkeypatch.undo()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with decisions of three months."""
    for month in (1, 2, 4):
        live(tmp_path / "data", month, monkeypatch)
    return tmp_path / "data"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[needs_postgres, pytest.mark.long])])
def log(request: pytest.FixtureRequest, folder: Path) -> Where:
    """The same in each store."""
    if request.param == "sqlite":
        return folder
    address: str = request.getfixturevalue("postgres").log()
    copy(str(folder), address)
    return address


def logged(folder: Where) -> list[Any]:
    with LogReader(folder) as log:
        return list(log.logged(log.task("fruit")))


def test_months_go_into_files_and_what_was_learnt_stays(log: Where, tmp_path: Path) -> None:
    before, rows, to = run(restarted(log))["fruit"], logged(log), tmp_path / "archive"
    with LogReader(log) as opened:
        info = opened.task("fruit")
    found = archive(log, "fruit", at(4, 20), to)
    assert (found["archived"], found["erased"]) == (24, True)
    assert [(one["month"], one["decisions"]) for one in found["files"]] == [("2026-01", 12), ("2026-02", 12)]
    for month, part in (("2026-01", rows[:12]), ("2026-02", rows[12:24])):
        assert is_in_parquet(to / "fruit" / f"{month}.parquet", part, info)
        assert not is_in_parquet(to / "fruit" / f"{month}.parquet", part[1:], info)
    assert logged(log) == rows[24:]
    assert run(restarted(log))["fruit"] == before
    assert run(restarted(without_snapshots(log)))["fruit"] == before
    assert check(log).fine
    with onebit.open(log, "fruit") as task, pytest.raises(GoneError, match="was forgotten"):
        task.feedback(rows[0].id, right=True)
    assert archive(log, "fruit", at(4, 20), to)["files"] == []


def test_nothing_of_what_was_archived_is_left_in_the_folder(folder: Path, tmp_path: Path) -> None:
    archive(folder, "fruit", at(4, 20), tmp_path / "archive")
    assert not any(f"{WORD} 0 in 1".encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@needs_postgres
@pytest.mark.long
def test_nodes_go_on_while_months_are_archived(
    folder: Path, tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a node is told of a decision when its file is written already is in the file all the same, and is learnt."""
    address, to = postgres.log(), tmp_path / "archive"
    copy(str(folder), address)
    unheard = [one.id for one in logged(address) if one.right is None]
    with onebit.open(address, "fruit") as task:
        compared = is_in_parquet

        def meanwhile(*given: Any) -> bool:
            if unheard:
                task.feedback(unheard.pop(), right=True)
            return compared(*given)

        monkeypatch.setattr("onebit.service.maintenance.archive.is_in_parquet", meanwhile)
        told = set(unheard)
        archive(address, "fruit", at(5), to)
        assert task.stats()["feedback"] == 27 + len(told)
        with pytest.raises(GoneError, match="was forgotten"):
            task.feedback(next(iter(told)), right=True)
        known = known_by(task)
    assert {one.id for one in read_log(to / "fruit") if one.right} >= told
    assert run(restarted(without_snapshots(address)))["fruit"] == known
    assert check(address).fine


def test_a_learner_with_rows_in_its_state_keeps_what_it_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, kernel = tmp_path / "data", {"kernel": "rbf", "max_support": 50}
    for month in (1, 2):
        live(folder, month, monkeypatch, classes=3, features=2, learner="banditron", parameters=kernel, seed=1)
    before = run(restarted(folder))["fruit"]
    assert archive(folder, "fruit", at(2), tmp_path / "archive")["archived"] == 12
    assert run(restarted(without_snapshots(folder)))["fruit"] == before


@pytest.mark.parametrize("when", ["a file is written", "all files are written", "rows are taken out"])
def test_who_is_killed_does_it_again(folder: Path, tmp_path: Path, when: str) -> None:
    rows, to, before = logged(folder), tmp_path / "archive", run(restarted(folder))["fruit"]
    child = os.fork()
    if not child:
        try:
            _die_when(when)
            archive(folder, "fruit", at(4), to)
        finally:  # whatever is raised, the child must not go on as a test run
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    there = len(logged(folder))
    assert there == (12 if when == "rows are taken out" else 36)
    found = archive(folder, "fruit", at(4), to)
    assert found["archived"] == there - 12
    assert sorted(path.name for path in (to / "fruit").glob("*.parquet")) == ["2026-01.parquet", "2026-02.parquet"]
    assert [one.id for one in read_log(to / "fruit")] == [one.id for one in rows[:24] if one.right is not None]
    assert run(restarted(without_snapshots(folder)))["fruit"] == before
    assert check(folder).fine


def _die_when(when: str) -> None:
    """Have this process killed at a moment of the archiving."""
    from onebit.service.store.sqlite.appender import SqliteAppender

    def die(*_: object) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    if when == "a file is written":
        mock.patch("onebit.service.maintenance.archive.is_in_parquet", die).start()
    elif when == "all files are written":
        mock.patch.object(SqliteAppender, "forget", die).start()
    else:
        mock.patch.object(SqliteAppender, "erase", return_value=True).start()
        mock.patch("onebit.service.maintenance.forget.build_reply", die).start()


def test_a_month_that_goes_on_gets_another_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a clock that was wrong: what is in a file already is not touched."""
    to = tmp_path / "archive"
    rows = logged(folder)
    archive(folder, "fruit", at(4), to)
    content = (to / "fruit" / "2026-02.parquet").read_bytes()
    monkeypatch.setattr(clock, "MOST_AHEAD_S", 0.0)
    monkeypatch.setattr(clock, "EARLIEST_TIME", 0.0)
    live(folder, 2, monkeypatch, 5)
    capsys.readouterr()
    assert main(["archive", str(folder), "fruit", "--to", str(to), "--before", "2026-04-01"]) == 0
    assert capsys.readouterr().out == (
        f"{to}/fruit/2026-02_2.parquet: decisions: 5\nfruit: decisions archived, and no longer in the log: 5\n"
    )
    assert (to / "fruit" / "2026-02.parquet").read_bytes() == content
    assert len(list(read_log(to / "fruit"))) == 3 + sum(one.right is not None for one in rows[:24])
    assert main(["evaluate", str(to / "fruit"), "--learner", "banditron", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds"] == 3 + sum(one.right is not None for one in rows[:24])


def test_what_cannot_be_written_takes_nothing_out(folder: Path, tmp_path: Path) -> None:
    rows, to = logged(folder), tmp_path / "archive"
    (to / "fruit").mkdir(parents=True)
    (to / "fruit" / "2026-01.parquet").write_bytes(b"something else")
    with pytest.raises(InputError, match=r"2026-01.parquet is not a file of an archive"):
        archive(folder, "fruit", at(4), to)
    (to / "nuts").write_bytes(b"something else")
    with pytest.raises(InputError, match="nuts is not a folder"):
        archive(folder, "fruit", at(4), to / "nuts")
    with pytest.raises(InputError, match="cannot be created"):
        archive(folder, "fruit", at(4), to / "nuts" / "more")
    with onebit.open(folder), pytest.raises(onebit.OnebitError, match="one folder, one owner"):
        archive(folder, "fruit", at(4), to)
    assert logged(folder) == rows
    assert archive(folder, "fruit", at(1), to)["archived"] == 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["{folder}", "nuts", "--to", "{to}"], "there is no task 'nuts'; known are: fruit"),
        (["{folder}", "fruit"], "the following arguments are required: --to"),
        (["{folder}", "fruit", "--to", ""], "argument --to: the name is empty, but must be that of a folder"),
        (["{folder}", "fruit", "--to", "{folder}/onebit.db"], "onebit.db is not a folder: give one for the archive"),
        (["{folder}", "fruit", "--to", "a\0b"], "cannot be created: embedded null byte"),
        (["{folder}", "fruit", "--to", "{to}", "--before", "soon"], "'soon' is not a time"),
        (["{folder}", "fruit", "--to", "{to}", "--before", "2999-01-01"], "'2999-01-01' is in the future"),
        (["{to}", "fruit", "--to", "{to}"], "is not a folder of `onebit serve`: it does not exist"),
        (["postgresql://127.0.0.1:1/x", "fruit", "--to", "{to}"], "the log in .* cannot be used: connection failed"),
        (["postgresql://[half", "fruit", "--to", "{to}"], "address of the log cannot be read"),
    ],
)
def test_what_is_refused_takes_nothing_out(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], sentence: str
) -> None:
    """In one sentence, with exit code 2."""
    rows, to = logged(folder), tmp_path / "archive"
    capsys.readouterr()
    assert main(["archive", *(one.format(folder=folder, to=to) for one in given)]) == 2
    said = capsys.readouterr().err
    assert re.search(sentence, said)
    assert said.count("\n") == 1
    assert logged(folder) == rows
    assert not to.exists()


def test_months() -> None:
    december = start_of_month(datetime.fromtimestamp(at(12), UTC))
    assert f"{december:%Y-%m}" == "2026-12"
    assert next_month(december) == datetime(2027, 1, 1, tzinfo=UTC)
    assert next_month(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 2, 1, tzinfo=UTC)
    before = datetime.fromtimestamp(datetime(2026, 3, 1, tzinfo=UTC).timestamp() - 1e-3, UTC)
    assert start_of_month(before) == datetime(2026, 2, 1, tzinfo=UTC)
