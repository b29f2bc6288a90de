"""Copies a log: every row with its number and time, and the tokens; then compares both.

Snapshots are not copied: the first start in the new place rebuilds them from the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from onebit.errors import InputError, brief
from onebit.service.settings import Settings
from onebit.service.store.base import is_address, store_at
from onebit.service.store.errors import LogError
from onebit.service.store.queries import select_list
from onebit.service.store.reader import Reader
from onebit.service.store.rows import NAMES, ROW_TYPES, Row
from onebit.service.tokens import Tokens


def copy(source: str, target: str) -> dict[str, int]:
    """Copy a log to where there is none yet; return the numbers of rows by table, and of tokens. Nobody may write to either meanwhile; folders are locked."""
    old, new = store_at(source), store_at(target)
    if source == target or (not is_address(source) and Path(source).resolve() == Path(target).resolve()):
        raise InputError(f"{target} is what is to be copied: name another place for the copy")
    if not is_address(source):
        old.reader().close()  # raises before a folder is created if there is no log
        old.take()
    try:
        with closing(old.reader()) as reader:
            end = reader.last()
            _refuse_forgotten_rows(reader)
            new.take()
            try:
                new.fill((table, _pages(reader, table, end)) for table in NAMES)
                with closing(new.reader()) as other:
                    counts = _compare(reader, other, end)
                tokens = _tokens(source).listed()
                if tokens:
                    _tokens(target).replace(tokens)
            finally:
                new.release()
    except LogError as error:
        raise InputError(f"{old.name} could not be copied to {new.name}: {error}") from None
    finally:
        old.release()
    return {**counts, "tokens": len(tokens)}


def _refuse_forgotten_rows(reader: Reader) -> None:
    """Raise InputError if rows were forgotten: what remains of them is not in rows and would be lost."""
    for task in reader.tasks()[0]:
        if task.forgotten_at:
            raise InputError(
                f"decisions of task {task.name!r} were forgotten, and what stays of them, the state of its learner and the hashes of its ids, cannot be "
                "copied to another kind of log: copy the folder itself, while no service runs in it"
            )


def _pages(reader: Reader, table: str, end: int) -> Iterator[list[Row]]:
    """Yield the rows of a table up to a position, one page at a time."""
    return reader.pages(f"SELECT {select_list(ROW_TYPES[table], table)} FROM {table} WHERE seq", end)


def _compare(log: Reader, copied: Reader, end: int) -> dict[str, int]:
    """Read both logs and raise InputError where they differ; return the number of rows by table."""
    counts = dict.fromkeys(NAMES, 0)
    for table in NAMES:
        pairs = itertools.zip_longest(
            *(itertools.chain.from_iterable(_pages(reader, table, end)) for reader in (log, copied))
        )
        for row, copy_of_row in pairs:
            if row != copy_of_row:
                raise InputError(f"a row of {table} is {brief(row)}, and its copy is {brief(copy_of_row)}")
            counts[table] += 1
    return counts


def _tokens(where: str) -> Tokens:
    folder, log = (Path(), where) if is_address(where) else (Path(where), None)
    return store_at(where).tokens(Settings(data=folder, log=log))
