"""Copying a log: every row with its number and time, and the tokens; then compares both.

Snapshots are not copied: the first start in the new place rebuilds them from the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from onebit.errors import InputError, brief
from onebit.service.store.base import is_address, settings_of, store_at
from onebit.service.store.errors import as_input_errors
from onebit.service.store.queries import select_list
from onebit.service.store.reader import Reader
from onebit.service.store.rows import NAMES, ROW_TYPES, Row


def copy(source: str, target: str) -> dict[str, int]:
    """Copy a log to a place without one; return the number of rows by table, and of tokens.

    Nobody may write to either meanwhile; folders are locked.
    """
    old, new = store_at(source), store_at(target)
    if source == target or (not is_address(source) and Path(source).resolve() == Path(target).resolve()):
        raise InputError(f"{target} is the log to be copied: give another place for the copy")
    with as_input_errors(f"{old.name} or {new.name}"), ExitStack() as cleanup:
        reader = cleanup.enter_context(closing(old.reader()))  # raises before a folder is created if there is no log
        cleanup.callback(old.release)
        if not is_address(source):
            old.take()
        end = reader.last()
        _refuse_forgotten_rows(reader)
        cleanup.callback(new.release)
        new.take()
        new.fill((table, _pages(reader, table, end)) for table in NAMES)
        with closing(new.reader()) as new_reader:
            counts = _compare(reader, new_reader, end)
        tokens = old.tokens(settings_of(source)).listed()
        if tokens:
            new.tokens(settings_of(target)).replace(tokens)
    return {**counts, "tokens": len(tokens)}


def _refuse_forgotten_rows(reader: Reader) -> None:
    """Raise InputError if rows were forgotten: what remains of them is not in rows and would be lost."""
    tasks, _ = reader.tasks()
    for task in tasks:
        if task.forgotten_at:
            raise InputError(
                f"task {task.name!r} has forgotten decisions; the learner state and the hashes of ids that remain of them cannot be copied: "
                "copy the folder itself, while no service runs in it"
            )


def _pages(reader: Reader, table: str, end: int) -> Iterator[list[Row]]:
    """Yield the rows of a table up to a position, one page at a time."""
    return reader.pages(f"SELECT {select_list(ROW_TYPES[table], table)} FROM {table} WHERE seq", end)


def _compare(log: Reader, copy_of_log: Reader, end: int) -> dict[str, int]:
    """Read both logs and raise InputError where they differ; return the number of rows by table."""
    counts = dict.fromkeys(NAMES, 0)
    for table in NAMES:
        pairs = itertools.zip_longest(
            *(itertools.chain.from_iterable(_pages(reader, table, end)) for reader in (log, copy_of_log))
        )
        for row, copy_of_row in pairs:
            if row != copy_of_row:
                raise InputError(
                    f"a row of {table} was not copied exactly: expected {brief(row)}, got {brief(copy_of_row)}"
                )
            counts[table] += 1
    return counts
