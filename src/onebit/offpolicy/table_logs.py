"""Logs in CSV or Parquet tables with named columns, read in batches.

`onebit export --format parquet` writes such a table too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from onebit.contract.installation import require
from onebit.contract.validation import ClassName, checked_classes
from onebit.data.candidate_sets import parse_names
from onebit.data.delimited import CsvTable
from onebit.data.labels import to_whole
from onebit.data.reading import is_number_type, known_column
from onebit.data.table_files import ParquetTable, TableFile, missing_texts, number_type, trim_numbers
from onebit.errors import InputError, brief
from onebit.offpolicy.log_files import Costs, Log
from onebit.offpolicy.logged_rounds import Round

BATCH = 1 << 14  # rows
USUAL = {
    "action": ("action", "label"),
    "right": ("right", "reward"),
    "truth": (),  # a column of this name may hold truths that were not feedback
    "among": ("among",),
    "propensity": ("propensity", "pscore"),
    "id": ("id",),
    "x": ("x",),
}  # default names of the columns
# The columns that `onebit export` writes.
EXPORTED = (
    *("id", "x", "label", "right", "propensity", "probabilities", "late", "shown", "shown_propensity"),
    *("among", "complete", "reward", "truth"),
)


@dataclass(frozen=True)
class LogColumns:
    """The names of a table's columns by role, None where a role has none, and how their cells are read.

    `is_text` says that x is the text of one column. `reward` is used only if a table has both default columns of
    answers; it takes precedence in the rows that have one. `costs` is the scale of the answers, None if these are
    rewards; `complete` says that the right class was always a candidate.
    """

    x: list[str]
    is_text: bool
    action: str
    right: str | None
    reward: str | None
    truth: str | None
    among: str | None
    propensity: str | None
    id: str | None
    costs: Costs | None
    complete: bool
    numbers: frozenset[str] = frozenset()  # the columns that hold numbers

    @property
    def beside_x(self) -> list[str]:
        """The columns of what a learner must not see before it decides."""
        roles = (self.action, self.right, self.reward, self.truth, self.among, self.propensity, self.id)
        return [name for name in roles if name is not None]


def table_log(
    path: Path, given: Mapping[str, Any], classes: Iterable[ClassName] | None, costs: Costs | None, complete: bool
) -> Log:
    """Return the log in a table; `given` maps roles to column names, None for the default."""
    arrow = require("pyarrow", str(path))

    tables: list[TableFile]
    metadata = None
    if path.is_dir() or path.suffix.lower() == ".parquet":
        files = [ParquetTable(file) for file in (sorted(path.glob("*.parquet")) if path.is_dir() else [path])]
        tables = [*files]
        metadata = (files[-1].schema.metadata or {}).get(b"onebit")  # the last file knows all classes
    else:
        tables = [CsvTable(path)]
    names = tables[-1].names
    if metadata is not None and not any(given.values()) and costs is None:
        try:
            exported = json.loads(metadata)
            own, is_text = checked_classes(exported["classes"]), exported["features"]["kind"] == "text"
        except (ValueError, KeyError, TypeError):
            own, is_text = (), False
        if not own or not set(EXPORTED) <= set(names):
            raise InputError(
                f"{path} claims to be written by `onebit export`, but lacks some of its columns: name the columns"
            )
        return Log(str(path), lambda with_x: _read_exported(tables, len(own), with_x), own, is_text)
    columns = _find_columns(path, names, given, costs, complete)
    sample = tables[-1].sample()
    if sample is None:
        raise InputError(f"{path} has no rows")
    texts = (arrow.string(), arrow.null())
    kinds = [_type_of_x(sample.column(name), tables[-1]) for name in columns.x]
    for name, kind in zip(columns.x, kinds, strict=True):
        if not (is_number_type(kind) or arrow.types.is_nested(kind) or kind in texts):
            raise InputError(f"the column {brief(name)} of {path} holds {kind}, but x is made of numbers and texts")
    if len(kinds) > 1 and any(map(arrow.types.is_nested, kinds)):
        raise InputError(f"a column of {path} that holds a whole x must be the only column of x")
    if columns.is_text and kinds[0] not in texts:
        raise InputError(f"the column {brief(columns.x[0])} of {path} holds no text")
    numbers = {name for name, kind in zip(columns.x, kinds, strict=True) if is_number_type(kind)}
    answers = {name for name in (columns.right, columns.reward, columns.propensity) if name is not None}
    columns = replace(columns, numbers=frozenset(numbers | answers))
    return Log(str(path), lambda with_x: _read_rounds(path, tables, columns, with_x), classes, columns.is_text)


def _find_columns(
    path: Path, names: list[str], given: Mapping[str, Any], costs: Costs | None, complete: bool
) -> LogColumns:
    named = {role: name for role, name in given.items() if name is not None}
    if "x" in named and "text" in named:
        raise InputError("x and text were both given: x is either numbers and categories, or a text")
    if isinstance(named.get("x"), str):
        raise InputError(f"x is {brief(named['x'])}, but must be a list of columns: [{brief(named['x'])}]")

    def column(role: str, needed: bool = False) -> str | None:
        if role in named:
            return known_column(path, names, str(named[role]), role)
        usual = next((name for name in USUAL[role] if name in names), None)
        if usual is None and needed:
            usual_names = " or ".join(map(repr, USUAL[role]))
            raise InputError(
                f"{path} has no column {usual_names}: give the column that says {MEANINGS[role]} as {role}"
            )
        return usual

    x_names = [named["text"]] if "text" in named else named["x"] if "x" in named else [column("x", needed=True)]
    x = [known_column(path, names, str(name), "part of x") for name in x_names]
    has_both = "right" not in named and set(USUAL["right"]) <= set(names)
    if has_both and costs is not None:
        raise InputError(f"{path} has the columns right and reward: give the one that holds the costs as right")
    truth = column("truth")
    columns = LogColumns(
        x,
        "text" in named,
        action=str(column("action", needed=True)),
        right=column("right", needed=truth is None),
        reward="reward" if has_both else None,
        truth=truth,
        among=column("among"),
        propensity=column("propensity"),
        id=column("id"),
        costs=costs,
        complete=complete,
    )
    for name in columns.beside_x:
        if name in x:
            raise InputError(
                f"the column {brief(name)} of {path} cannot be part of x: a learner must not see it before it decides"
            )
    return columns


MEANINGS = {
    "action": "what was shown",
    "right": "whether it was right, or what it was worth",
    "x": "what it was shown for (or all columns of the features)",
}


def _read_rounds(path: Path, tables: list[TableFile], columns: LogColumns, with_x: bool) -> Iterator[Round | None]:
    names, number = list(dict.fromkeys([*columns.beside_x, *(columns.x if with_x else [])])), 0
    for table in tables:
        for batch, _ in table.batches(BATCH, names):
            for cells in batch.to_pylist():
                number += 1
                row = {name: _parse_cell(cell, name in columns.numbers, table) for name, cell in cells.items()}
                try:
                    yield _parse_round(number, row, columns, with_x)
                except InputError as error:
                    raise InputError(f"row {number} of {path}: {error}") from None


def _parse_cell(cell: Any, is_number: bool, table: TableFile) -> Any:
    """Return the value that a text stands for, None if there is none; other cells are their value.

    A number that is malformed stays a text.
    """
    if not isinstance(cell, str) or (table.typed and not is_number):
        return cell
    text = cell.strip() if is_number else cell
    if text in missing_texts():
        return None
    if not is_number:
        return cell
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if table.decimal == ",":
        text = text.replace(".", "_").replace(",", ".")
    try:
        return float(text) if text.isascii() and "_" not in text else cell
    except ValueError:
        return cell


def _parse_round(number: int, row: Mapping[str, Any], columns: LogColumns, with_x: bool) -> Round | None:
    def cell(name: str | None) -> Any:
        return None if name is None else row[name]

    name = columns.right if cell(columns.reward) is None else columns.reward
    answer, truth, action, propensity = map(cell, (name, columns.truth, columns.action, columns.propensity))
    if answer is None and truth is None:
        return None
    right, reward = (None, None) if answer is None else _parse_answer(str(name), answer, columns.costs)
    if action is None:
        raise InputError(f"{columns.action} is missing")
    if columns.propensity is not None and propensity is None:
        raise InputError(f"{columns.propensity} is missing")
    if isinstance(propensity, str):
        raise InputError(f"{columns.propensity} is {brief(propensity)}, but must be a number above 0 and at most 1")
    identity = number if cell(columns.id) is None else cell(columns.id)
    among = None  # all classes are candidates
    if cell(columns.among) is not None:
        try:
            among = parse_names(cell(columns.among))
        except InputError as error:
            raise InputError(f"the column {brief(columns.among)} {error}") from None
    return Round(
        identity if isinstance(identity, str | int) else str(identity),
        _read_x(row, columns) if with_x else None,
        _check_action(columns.action, action),
        right,
        propensity,
        among=among,
        complete=columns.complete,
        reward=reward,
        truth=None if truth is None else _check_action(str(columns.truth), truth),
    )


def _parse_answer(name: str, answer: Any, costs: Costs | None) -> tuple[bool | None, float | None]:
    """Return an answer as (right, None) or (None, reward); `name` is its column."""
    if not isinstance(answer, bool | int | float | Decimal):
        raise InputError(f"{name} is {brief(answer)}, but must be true or false, 1 or 0, or a number between them")
    if costs is not None:
        return costs.parse(float(answer))
    if answer in (0, 1):
        return bool(answer), None
    if not 0 <= answer <= 1:
        raise InputError(
            f"{name} is {brief(answer)}, but must be from 0 to 1: for rewards from a to b give --costs=b,a or costs=(b, a), for costs "
            "the best and the worst of them"
        )
    return None, float(answer)


def _check_action(name: str, cell: Any) -> ClassName:
    action: ClassName = to_whole(cell)
    if isinstance(action, bool) or not isinstance(action, str | int):
        raise InputError(f"{name} is {brief(action)}, but actions are whole numbers or texts")
    return action


def _type_of_x(column: Any, table: TableFile) -> Any:
    """Return the Arrow type of a column of x; texts that stand for numbers or dates are such."""
    if table.typed:
        return column.type
    return number_type(trim_numbers(column, table.decimal), True) or column.type


def _read_x(row: Mapping[str, Any], columns: LogColumns) -> Any:
    """Return the x of a row: an array if all columns are numeric, else a dict of named features.

    The name of a categorical feature includes its value, as in `city=Berlin`. A column of texts, lists or maps alone
    is x itself.
    """
    cells = {name: row[name] for name in columns.x}
    for name, cell in cells.items():
        if cell is None:
            raise InputError(f"{name} is missing")
        if name in columns.numbers and isinstance(cell, str):
            raise InputError(f"{name} is {brief(cell)}, but must be a number, as in the first rows")
    if columns.is_text or isinstance(cells[columns.x[0]], list | dict):
        return _whole_x(cells[columns.x[0]])
    if columns.numbers.issuperset(cells):
        return np.array([*cells.values()], dtype=np.float64)
    return dict((f"{name}={x}", 1.0) if isinstance(x, str) else (name, float(x)) for name, x in cells.items())


def _whole_x(cell: Any) -> Any:
    """Return the cell of a whole x: a list, a text, or a dict if it is a map."""
    return dict(cell) if cell and isinstance(cell[0], tuple) else cell


def _read_exported(tables: list[TableFile], classes: int, with_x: bool) -> Iterator[Round | None]:
    """Yield the rounds of a table written by `onebit export`, None for one without a timely answer.

    In shadow mode, the label is the one that the caller showed.
    """
    names = [name for name in EXPORTED if with_x or name != "x"]
    batches = (batch for table in tables for batch, _ in table.batches(BATCH, names))
    for batch in batches:
        for row in batch.to_pylist():
            if row["right"] is None or row["late"]:
                yield None
                continue
            label, propensity, among, reward = row["label"], row["propensity"], row["among"], row["reward"]
            chances: list[float] | None = [*row["probabilities"], *[0.0] * (classes - len(row["probabilities"]))]
            if row["shown"] is not None:
                label, chances = row["shown"], None
                propensity = 1.0 if row["shown_propensity"] is None else row["shown_propensity"]
            if among is not None and label not in among:  # the caller showed something else
                among = None
            right, complete = row["right"] if reward is None else None, bool(row["complete"])
            x = _whole_x(row.get("x"))
            yield Round(row["id"], x, label, right, propensity, chances, among, complete, reward, row["truth"])
