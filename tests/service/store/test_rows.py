"""The types of rows are those of the tables of both stores, column for column."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest
from pydantic import ValidationError

from onebit.service.store.postgres.schema import SCHEMA as POSTGRES
from onebit.service.store.rows import NAMES, ROW_TYPES, DecisionRow, build_column_tests
from onebit.service.store.sqlite.schema import PACKED_COLUMNS
from onebit.service.store.sqlite.schema import SCHEMA as SQLITE


@pytest.mark.parametrize("table", NAMES)
def test_columns_are_those_of_the_tables(table: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SQLITE)
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
    added = list(PACKED_COLUMNS.values()) if table == "decisions" else []
    assert columns == [*ROW_TYPES[table]._fields, *added]
    found = re.search(rf"CREATE TABLE onebit\.{table} \((.*?)\n\);", POSTGRES, re.DOTALL)
    assert found is not None
    names = [line.split()[0].strip('"') for line in found[1].strip().splitlines()]
    assert names == list(ROW_TYPES[table]._fields)


def test_every_column_of_a_decision_but_its_place_is_checked() -> None:
    checked = {*build_column_tests(DecisionRow), *build_column_tests(DecisionRow, 3)}
    assert set(DecisionRow._fields) - checked == {"seq", "task", "x"}  # x is read by the inputs of its task
    assert build_column_tests(DecisionRow)["confidence"].validate_python([None, 0.5]) == [None, 0.5]
    with pytest.raises(ValidationError):
        build_column_tests(DecisionRow, 3)["label"].validate_python([3])
