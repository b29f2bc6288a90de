"""Logs in CSV or Parquet tables with named columns, read in batches.

`onebit export --format parquet` writes such a table too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.validation import ClassName, checked_classes
from onebit.data.candidate_sets import parse_names
from onebit.data.delimited import READ_ERRORS, CsvFile
from onebit.data.file_blocks import unreadable
from onebit.data.labels import to_whole
from onebit.data.reading import inner_type, is_number_type, is_text_type
from onebit.data.typed_tables import parquet_batches
from onebit.data.user_files import require
from onebit.errors import InputError, brief, nearest
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
BITS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


class LogRow(NamedTuple):
    """The cells of a row other than x, or the names of their columns; None if empty or absent.

    `reward` is used only if a table has both default columns of answers; it takes precedence in the rows that have one.
    """

    action: Any
    right: Any
    reward: Any
    truth: Any
    among: Any
    propensity: Any
    id: Any


NUMBERS = ("right", "reward", "propensity")  # the numeric fields of a row


class LogColumns(NamedTuple):
    """The roles of a table's columns; `is_text` says that x is the text of one column.

    `costs` is the scale of the answers, None if these are rewards; `complete` says that the right class was always a
    candidate.
    """

    x: list[str]
    is_text: bool
    names: LogRow
    costs: Costs | None
    complete: bool

    @property
    def beside_x(self) -> list[str]:
        return [name for name in self.names if name is not None]


def table_log(
    path: Path, given: Mapping[str, Any], classes: Iterable[ClassName] | None, costs: Costs | None, complete: bool
) -> Log:
    """Return the log in a table; `given` maps roles to column names, None for the default."""
    require("pyarrow", str(path))
    import pyarrow as arrow

    table = _ParquetLog(path) if path.is_dir() or path.suffix.lower() == ".parquet" else _CsvLog(path)
    about = (table.schema.metadata or {}).get(b"onebit")
    if about is not None and not any(given.values()) and costs is None:
        try:
            exported = json.loads(about)
            own, is_text = checked_classes(exported["classes"]), exported["features"]["kind"] == "text"
        except (ValueError, KeyError, TypeError):
            own, is_text = (), False
        if not own or not set(EXPORTED) <= set(table.schema.names):
            raise InputError(f"{path} says that `onebit export` wrote it, and is none of its tables: name the columns")
        return Log(str(path), lambda with_x: _exported(table, len(own), with_x), own, is_text)
    columns = _columns(path, table.schema.names, given, costs, complete)
    kinds = {name: table.schema.field(name).type for name in columns.x}
    for name, kind in kinds.items():
        if not (is_number_type(kind) or arrow.types.is_nested(kind) or _is_string(kind)):
            raise InputError(f"the column {brief(name)} of {path} holds {kind}, but x is made of numbers and texts")
    if len(columns.x) > 1 and any(arrow.types.is_nested(kind) for kind in kinds.values()):
        raise InputError(f"a column of {path} that holds a whole x must be the only one of x")
    if columns.is_text and not _is_string(kinds[columns.x[0]]):
        raise InputError(f"the column {brief(columns.x[0])} of {path} holds no text")
    return Log(str(path), lambda with_x: _rounds(table, columns, with_x), classes, columns.is_text)


def _columns(
    path: Path, names: Sequence[str], given: Mapping[str, Any], costs: Costs | None, complete: bool
) -> LogColumns:
    chosen = {what: name for what, name in given.items() if name is not None}
    if "x" in chosen and "text" in chosen:
        raise InputError("x and text were both given: x is numbers and categories, or a text")
    if isinstance(chosen.get("x"), str):
        raise InputError(f"x is {brief(chosen['x'])}, but must be a list of columns: [{brief(chosen['x'])}]")

    def column(what: str, needed: bool = False) -> str | None:
        if what in chosen:
            return existing(str(chosen[what]), f"to be {what}")
        usual = next((name for name in USUAL[what] if name in names), None)
        if usual is None and needed:
            either = " or ".join(map(repr, USUAL[what]))
            raise InputError(f"{path} has no column {either}: name the one that says {MEANINGS[what]} with {what}")
        return usual

    def existing(name: str, purpose: str) -> str:
        if name not in names:
            raise InputError(f"there is no column {brief(name)} in {path} {purpose}; {nearest(name, names)}")
        return name

    x_names = [chosen["text"]] if "text" in chosen else chosen["x"] if "x" in chosen else [column("x", needed=True)]
    x = [existing(str(name), "to be of x") for name in x_names]
    has_both = "right" not in chosen and set(USUAL["right"]) <= set(names)
    if has_both and costs is not None:
        raise InputError(
            f"{path} has a column right and a column reward: name the one that the costs are of with right"
        )
    action, truth = column("action", needed=True), column("truth")
    right, reward = column("right", needed=truth is None), "reward" if has_both else None
    row = LogRow(action, right, reward, truth, column("among"), column("propensity"), column("id"))
    columns = LogColumns(x, "text" in chosen, row, costs, complete)
    for name in columns.beside_x:
        if name in x:
            raise InputError(
                f"the column {brief(name)} of {path} cannot be of x: it is what a learner must not see before it decides"
            )
    return columns


MEANINGS = {
    "action": "what was shown",
    "right": "whether it was right, or what it was worth",
    "x": "what it was shown for (or all columns of the features)",
}


class _ParquetLog:
    """A Parquet file, or the files of a folder sorted by name, the last of which knows all classes."""

    def __init__(self, path: Path) -> None:
        import pyarrow as arrow
        from pyarrow import parquet

        self.path, self.decimal = path, "."
        self._files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        for file in self._files:
            try:
                self.schema = parquet.read_schema(file)
            except (arrow.ArrowException, OSError) as error:
                raise unreadable(file, error) from None

    def batches(self, names: list[str], texts: Iterable[str] = ()) -> Iterator[Any]:
        """Yield record batches of these columns."""
        for path in self._files:
            yield from parquet_batches(path, BATCH, names)


class _CsvLog:
    """A CSV or TSV file whose column types are inferred from its first block."""

    def __init__(self, path: Path) -> None:
        self.path, self._file = path, CsvFile(path)
        try:
            first = self._file.first_batch()
        except READ_ERRORS as error:
            raise unreadable(path, error) from None
        if first is None:
            raise InputError(f"{path} has no rows")
        self.schema, self.decimal = first.schema, self._file.decimal

    def batches(self, names: list[str], texts: Iterable[str] = ()) -> Iterator[Any]:
        """Yield record batches of the columns `names`; those in `texts` are always read as text."""
        import pyarrow as arrow

        types = {}
        for name in names:
            kind = self.schema.field(name).type
            is_text = name in texts or _is_string(kind)
            types[name] = arrow.string() if is_text else kind if arrow.types.is_boolean(kind) else arrow.float64()
        try:
            for batch, _ in self._file.batches(types, include_columns=names, strings_can_be_null=True):
                yield batch
        except READ_ERRORS as error:
            raise unreadable(self.path, error) from None


def _rounds(table: _ParquetLog | _CsvLog, columns: LogColumns, with_x: bool) -> Iterator[Round | None]:
    number, x_names = 0, columns.x if with_x else []
    # Read all but x as text: an answer that is not a number would make its whole column text, without its row.
    for batch in table.batches([*columns.beside_x, *x_names], texts=columns.beside_x):
        cells = [_cells(batch, field, name, table.decimal) for field, name in columns.names._asdict().items()]
        xs = _xs(batch, columns) if with_x else repeat(None, batch.num_rows)
        for row, x in zip(map(LogRow, *cells), xs, strict=True):
            number += 1
            try:
                yield _round(number, row, x, columns)
            except InputError as error:
                raise InputError(f"row {number} of {table.path}: {error}") from None


def _cells(batch: Any, field: str, name: str | None, decimal: str) -> list[Any]:
    if name is None:
        return [None] * batch.num_rows
    column = batch.column(name)
    if field in NUMBERS and _is_string(column.type):
        return [_number(cell, decimal) for cell in column.to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]


def _round(number: int, row: LogRow, x: Any, columns: LogColumns) -> Round | None:
    names = columns.names
    if row.right is None and row.reward is None and row.truth is None:
        return None
    name, answer = (names.right, row.right) if row.reward is None else (names.reward, row.reward)
    right, reward = (None, None) if answer is None else _parse_answer(name, answer, columns.costs)
    if row.action is None:
        raise InputError(f"{names.action} is missing")
    if names.propensity is not None and row.propensity is None:
        raise InputError(f"{names.propensity} is missing")
    if isinstance(row.propensity, str):
        raise InputError(f"{names.propensity} is {brief(row.propensity)}, but must be a number above 0 and at most 1")
    if isinstance(x, InputError):
        raise x
    identity = number if row.id is None else row.id
    among = None  # all classes are candidates
    if row.among is not None:
        among = parse_names(row.among, f"the column {brief(names.among)}", lambda: "it")
    return Round(
        identity if isinstance(identity, str | int) else str(identity),
        x,
        _action(names.action, row.action),
        right,
        row.propensity,
        among=among,
        complete=columns.complete,
        reward=reward,
        truth=None if row.truth is None else _action(names.truth, row.truth),
    )


def _number(cell: str | None, decimal: str) -> bool | float | str | None:
    """Return the number or boolean that a text represents; the text itself if it is neither."""
    text = "" if cell is None else cell.strip()
    if text in BITS:
        return BITS[text]
    foreign = "_" if decimal == "." else "_."
    try:
        return cell if any(character in text for character in foreign) else float(text.replace(decimal, "."))
    except ValueError:
        return cell


def _parse_answer(name: str, answer: Any, costs: Costs | None) -> tuple[bool | None, float | None]:
    """Return an answer as (right, None) or (None, reward); `name` is its column."""
    if not isinstance(answer, bool | int | float | Decimal):
        raise InputError(f"{name} is {brief(answer)}, but must be true or false, 1 or 0, or a number between")
    if costs is not None:
        return costs.parse(float(answer))
    if answer in (0, 1):
        return bool(answer), None
    if not 0 <= answer <= 1:
        raise InputError(
            f"{name} is {brief(answer)}, but must be from 0 to 1: of rewards from a to b say --costs=b,a or costs=(b, a), and of costs "
            "what the best and the worst are"
        )
    return None, float(answer)


def _action(name: str, cell: Any) -> ClassName:
    action: ClassName = to_whole(cell)
    if isinstance(action, bool) or not isinstance(action, str | int):
        raise InputError(f"{name} is {brief(action)}, but actions are whole numbers or texts")
    return action


def _xs(batch: Any, columns: LogColumns) -> list[Any]:
    """Return the x of each row: an array if all columns are numeric, else a dict of named features.

    The name of a categorical feature includes its value, as in `city=Berlin`. In place of a missing x there is the
    InputError to raise.
    """
    import pyarrow as arrow

    first = batch.column(columns.x[0])
    if columns.is_text or arrow.types.is_nested(first.type):
        missing = InputError(f"{columns.x[0]} is missing")
        return [missing if x is None else _whole_x(x) for x in first.to_pylist()]
    parts = [batch.column(name) for name in columns.x]
    has_names = any(_is_string(part.type) for part in parts)
    xs: list[Any] = []
    for cells in zip(*(part.to_pylist() for part in parts), strict=True):
        if None in cells:
            xs.append(InputError(f"{columns.x[cells.index(None)]} is missing"))
        elif has_names:
            named = zip(columns.x, cells, strict=True)
            xs.append(dict((f"{name}={x}", 1.0) if isinstance(x, str) else (name, float(x)) for name, x in named))
        else:
            xs.append(np.array(cells, dtype=np.float64))
    return xs


def _is_string(kind: Any) -> bool:
    import pyarrow as arrow

    values = inner_type(kind)
    return is_text_type(values) or bool(arrow.types.is_null(values))


def _whole_x(cell: Any) -> Any:
    """Return the cell of a whole x: a list, a text, or a dict if it is a map."""
    return dict(cell) if cell and isinstance(cell[0], tuple) else cell


def _exported(table: _ParquetLog | _CsvLog, classes: int, with_x: bool) -> Iterator[Round | None]:
    """Yield the rounds of a table written by `onebit export`, None for one without a timely answer.

    In shadow mode, the label is the one that the caller showed.
    """
    for batch in table.batches([name for name in EXPORTED if with_x or name != "x"]):
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
