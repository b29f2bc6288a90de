"""Logs of older versions of the schema: read as they are, and brought to the present one when the service starts."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from onebit.serve.checking import check
from onebit.serve.log.log_reader import LogReader
from onebit.serve.log.sqlite.schema import FILE, TABLES, VERSION, opened, version_of
from onebit.serve.replay import rounds_of
from tests.serve.driving import restarted, run
from tests.serve.log.test_bad_records import as_an_attacker
from tests.serve.logs import fill, served

OLD_COLUMNS = {"changes": 6, "decisions": 15, "feedback": 10}
THIRD_COLUMNS = {"changes": 6, "decisions": 20, "feedback": 12, "revisions": 9}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which no decision says how sure it was, as in all older ones."""
    folder = tmp_path_factory.mktemp("log") / "data"
    served(folder, fill)
    with as_an_attacker(folder) as connection:
        connection.execute("UPDATE decisions SET raw = NULL, confidence = NULL, sure = NULL")
    return folder


def of_version(log: Path, folder: Path, version: int) -> Path:
    """The same rows in a log of an older version."""
    folder.mkdir()
    columns = OLD_COLUMNS if version < 3 else THIRD_COLUMNS
    with closing(sqlite3.connect(folder / FILE)) as old, closing(opened(log / FILE)) as new:
        old.executescript("".join(TABLES[:version]))
        rows = sorted((row[0], table, row) for table in columns for row in new.execute(f"SELECT * FROM {table}"))
        for _, table, row in rows:
            count = columns[table] - (version == 1 and table == "changes")
            # What was written so at the start of these versions.
            packed = (None, None) if version >= 4 and table == "decisions" else ()
            old.execute(
                f"INSERT INTO {table} VALUES ({', '.join('?' * (count + len(packed)))})", (*row[:count], *packed)
            )
        old.execute(f"PRAGMA user_version = {version}")
        old.commit()
    return folder


def everything_read(folder: Path) -> list[Any]:
    """All that commands see of a log."""
    found: list[Any] = []
    with LogReader(folder) as log:
        for task in log.tasks():
            found.append([log.count(task), log.count_heard(task), log.generations(task)])
            found += [asdict(one) for one in log.logged(task)]
            found += [(one.id, one.label, one.right, one.propensity) for one in rounds_of(log, task)]
    return found


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_read_as_it_is_and_brought_up(log: Path, tmp_path: Path, version: int) -> None:
    folder = of_version(log, tmp_path / "old", version)
    content = (folder / FILE).read_bytes()
    assert everything_read(folder) == everything_read(log)
    report = check(folder)
    assert (report.fine, report.version) == (True, version)
    assert (folder / FILE).read_bytes() == content
    new = Path(shutil.copytree(log, tmp_path / "new"))
    shutil.rmtree(new / "snapshots")
    assert run(restarted(folder)) == run(restarted(new))
    with closing(sqlite3.connect(folder / FILE)) as brought:
        assert version_of(brought) == VERSION == 6
    assert everything_read(folder) == everything_read(log)
    assert check(folder).fine


def test_what_an_older_log_is_read_with_uses_its_indices(log: Path, tmp_path: Path) -> None:
    """Else a page of the dashboard of a large log would read all of it."""
    from onebit.serve.log.records import DECISIONS, EVENTS

    folder = of_version(log, tmp_path / "old", 2)
    queries = (f"{DECISIONS} WHERE d.task = :task AND d.seq < :before ORDER BY d.seq DESC LIMIT :most", EVENTS)
    for path in (folder / FILE, log / FILE):
        with closing(opened(path)) as connection:
            for query in queries:
                values = dict.fromkeys(("task", "before", "most", "upto", "revised", "after"), 1)
                plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
                assert not [step for step in plan if step.startswith("SCAN") or "TEMP B-TREE" in step], plan
