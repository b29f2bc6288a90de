"""Logs as tables with named columns, CSV or Parquet, a batch at a time; `onebit export --format parquet` writes such a table too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.validation import ClassName, checked_classes
from onebit.data.candidate_sets import names_in
from onebit.data.delimited import READ_ERRORS, CsvFile
from onebit.data.file_blocks import unreadable
from onebit.data.labels import whole
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
    "truth": (),  # such a column may say what nobody had told
    "among": ("among",),
    "propensity": ("propensity", "pscore"),
    "id": ("id",),
    "x": ("x",),
}  # the columns that are taken where none is named
# The columns of `onebit export`.
EXPORTED = (
    *("id", "x", "label", "right", "propensity", "probabilities", "late", "shown", "shown_propensity"),
    *("among", "complete", "reward", "truth"),
)
BITS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


class LogColumns(NamedTuple):
    """Which columns of a table are what; `text` says that x is the text of one column.

    `reward` is there where a table has both usual columns of answers, and is what counts in the rows that have one. `costs` are the scale of
    the answers, None where these are rewards; `complete` says that the right class was always a candidate.
    """

    x: list[str]
    text: bool
    action: str
    right: str | None
    reward: str | None
    truth: str | None
    among: str | None
    propensity: str | None
    id: str | None
    costs: Costs | None
    complete: bool

    @property
    def beside_x(self) -> list[str]:
        """All but those of x."""
        found = (self.action, *self.numbers, self.truth, self.among, self.id)
        return [one for one in found if one is not None]

    @property
    def numbers(self) -> list[str]:
        """Those of answers and propensities."""
        return [one for one in (self.right, self.reward, self.propensity) if one is not None]

    @property
    def words(self) -> list[str]:
        """Those of names, whatever they look like."""
        return [one for one in (self.action, self.truth, self.among, self.id) if one is not None]


def table_log(
    path: Path, given: Mapping[str, Any], classes: Iterable[ClassName] | None, costs: Costs | None, complete: bool
) -> Log:
    """The log in a table; `given` are the names of its columns, None where nothing is said."""
    require("pyarrow", str(path))
    import pyarrow as arrow

    table = _ParquetLog(path) if path.is_dir() or path.suffix.lower() == ".parquet" else _CsvLog(path)
    about = (table.schema.metadata or {}).get(b"onebit")
    if about is not None and not any(given.values()) and costs is None:
        try:
            told = json.loads(about)
            own, is_text = checked_classes(told["classes"]), told["features"]["kind"] == "text"
        except (ValueError, KeyError, TypeError):
            own, is_text = (), False
        if not own or not set(EXPORTED) <= set(table.schema.names):
            raise InputError(f"{path} says that `onebit export` wrote it, and is none of its tables: name the columns")
        return Log(str(path), lambda with_x: _exported(table, own, with_x), own, is_text)
    columns = _columns(path, table.schema.names, given, costs, complete)
    kinds = {name: table.schema.field(name).type for name in columns.x}
    for name, kind in kinds.items():
        if not (is_number_type(kind) or arrow.types.is_nested(kind) or _is_string(kind)):
            raise InputError(f"the column {brief(name)} of {path} holds {kind}, but x is made of numbers and texts")
    several = len(columns.x) > 1 and any(arrow.types.is_nested(kind) for kind in kinds.values())
    if several:
        raise InputError(f"a column of {path} that holds a whole x must be the only one of x")
    if columns.text and not _is_string(kinds[columns.x[0]]):
        raise InputError(f"the column {brief(columns.x[0])} of {path} holds no text")
    return Log(str(path), lambda with_x: _rounds(table, columns, with_x), classes, columns.text)


def _columns(
    path: Path, names: Sequence[str], given: Mapping[str, Any], costs: Costs | None, complete: bool
) -> LogColumns:
    said = {name: one for name, one in given.items() if one is not None}
    if "x" in said and "text" in said:
        raise InputError("x and text were both given: x is numbers and categories, or a text")
    if isinstance(said.get("x"), str):
        raise InputError(f"x is {brief(said['x'])}, but must be a list of columns: [{brief(said['x'])}]")

    def column(what: str, needed: bool) -> str | None:
        if what in said:
            if said[what] not in names:
                raise InputError(
                    f"there is no column {brief(said[what])} in {path} to be {what}; {nearest(str(said[what]), names)}"
                )
            return str(said[what])
        found = next((one for one in USUAL[what] if one in names), None)
        if found is None and needed:
            usual = " or ".join(map(repr, USUAL[what]))
            raise InputError(f"{path} has no column {usual}: name the one that says {MEANINGS[what]} with {what}")
        return found

    if "text" in said:
        x = [str(said["text"])]
    else:
        x = [str(one) for one in said["x"]] if "x" in said else [str(column("x", needed=True))]
    for one in x:
        if one not in names:
            raise InputError(f"there is no column {brief(one)} in {path} to be of x; {nearest(one, names)}")
    action, truth = str(column("action", needed=True)), column("truth", needed=False)
    right = column("right", needed=truth is None)
    both = "right" not in said and set(USUAL["right"]) <= set(names)
    if both and costs is not None:
        raise InputError(
            f"{path} has a column right and a column reward: name the one that the costs are of with right"
        )
    columns = LogColumns(
        x,
        "text" in said,
        action,
        right,
        "reward" if both else None,
        truth,
        column("among", needed=False),
        column("propensity", needed=False),
        column("id", needed=False),
        costs,
        complete,
    )
    for one in columns.beside_x:
        if one in x:
            raise InputError(
                f"the column {brief(one)} of {path} cannot be of x: it is what a learner must not see before it decides"
            )
    return columns


MEANINGS = {
    "action": "what was shown",
    "right": "whether it was right, or what it was worth",
    "x": "what it was shown for (or all columns of the features)",
}


class _ParquetLog:
    """A Parquet file, or the files of a folder in the order of their names, of which the last knows all classes."""

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
    """A CSV or TSV file, of which the first block tells numbers from words."""

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
        """Yield record batches of these columns, of which some are read as texts whatever they look like."""
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
    row = 0
    # Answers and propensities too: one that is no number makes its whole column words, and is to be refused with its row.
    texts = {*columns.words, *columns.numbers}
    for batch in table.batches([*columns.beside_x, *(columns.x if with_x else [])], texts):
        beside = {name: batch.column(name).to_pylist() for name in columns.beside_x}
        for name in columns.numbers:
            if _is_string(batch.column(name).type):
                beside[name] = [_number(cell, table.decimal) for cell in beside[name]]
        rows = _xs(batch, columns) if with_x else [None] * batch.num_rows
        for place in range(batch.num_rows):
            row += 1
            try:
                yield _round(row, {name: values[place] for name, values in beside.items()}, rows[place], columns)
            except InputError as error:
                raise InputError(f"row {row} of {table.path}: {error}") from None


def _round(row: int, cells: dict[str, Any], x: Any, columns: LogColumns) -> Round | None:
    said = columns.right if columns.reward is None or cells[columns.reward] is None else columns.reward
    answer = None if said is None else cells[said]
    truth = None if columns.truth is None else cells[columns.truth]
    if answer is None and truth is None:
        return None
    right, reward = (None, None) if answer is None else _heard(str(said), answer, columns.costs)
    propensity = None if columns.propensity is None else cells[columns.propensity]
    for name in (columns.action, columns.propensity):
        if name is not None and cells[name] is None:
            raise InputError(f"{name} is missing")
    if isinstance(propensity, str):
        raise InputError(f"{columns.propensity} is {brief(propensity)}, but must be a number above 0 and at most 1")
    among = None if columns.among is None else cells[columns.among]  # and where it says nothing, all are candidates
    if isinstance(x, InputError):
        raise x
    identity = row if columns.id is None or cells[columns.id] is None else cells[columns.id]
    return Round(
        identity if isinstance(identity, str | int) else str(identity),
        x,
        _action(columns.action, cells[columns.action]),
        right,
        propensity,
        among=None if among is None else names_in(among, f"the column {brief(columns.among)}", lambda: "it"),
        complete=columns.complete,
        reward=reward,
        truth=None if columns.truth is None or truth is None else _action(columns.truth, truth),
    )


def _number(cell: str | None, decimal: str) -> bool | float | str | None:
    """The number, or the bit, that a text is; the text itself where it is neither."""
    text = "" if cell is None else cell.strip()
    if text in BITS:
        return BITS[text]
    foreign = "_" if decimal == "." else "_."
    try:
        return cell if any(one in text for one in foreign) else float(text.replace(decimal, "."))
    except ValueError:
        return cell


def _heard(name: str, answer: Any, costs: Costs | None) -> tuple[bool | None, float | None]:
    """Whether an answer, in a column of this name, says right or wrong, or else its reward."""
    if not isinstance(answer, bool | int | float | Decimal):
        raise InputError(f"{name} is {brief(answer)}, but must be true or false, 1 or 0, or a number between")
    if costs is not None:
        return costs.heard(float(answer))
    if answer in (0, 1):
        return bool(answer), None
    if not 0 <= answer <= 1:
        raise InputError(
            f"{name} is {brief(answer)}, but must be from 0 to 1: of rewards from a to b say --costs=b,a or costs=(b, a), and of costs "
            "what the best and the worst are"
        )
    return None, float(answer)


def _action(name: str, cell: Any) -> ClassName:
    action: ClassName = whole(cell)
    if isinstance(action, bool) or not isinstance(action, str | int):
        raise InputError(f"{name} is {brief(action)}, but actions are whole numbers or texts")
    return action


def _xs(batch: Any, columns: LogColumns) -> list[Any]:
    """The x of each row: an array where all columns are numbers, else a dict, in which a category is a name. What is missing is a refusal."""
    import pyarrow as arrow

    first = batch.column(columns.x[0])
    if columns.text or arrow.types.is_nested(first.type):
        rows = [dict(one) if one and isinstance(one[0], tuple) else one for one in first.to_pylist()]
        return [InputError(f"{columns.x[0]} is missing") if one is None else one for one in rows]
    parts = [batch.column(name) for name in columns.x]
    lists = [part.to_pylist() for part in parts]
    if any(_is_string(part.type) for part in parts):
        return [_named(columns.x, cells) for cells in zip(*lists, strict=True)]
    return [_numbers(columns.x, cells) for cells in zip(*lists, strict=True)]


def _named(names: list[str], cells: tuple[Any, ...]) -> Any:
    found = {}
    for name, cell in zip(names, cells, strict=True):
        if cell is None:
            return InputError(f"{name} is missing")
        found[f"{name}={cell}" if isinstance(cell, str) else name] = 1.0 if isinstance(cell, str) else float(cell)
    return found


def _numbers(names: list[str], cells: tuple[Any, ...]) -> Any:
    if None in cells:
        return InputError(f"{names[cells.index(None)]} is missing")
    return np.array(cells, dtype=np.float64)


def _is_string(kind: Any) -> bool:
    import pyarrow as arrow

    values = inner_type(kind)
    return is_text_type(values) or bool(arrow.types.is_null(values))


def _exported(table: _ParquetLog | _CsvLog, classes: Sequence[ClassName], with_x: bool) -> Iterator[Round | None]:
    """The rounds of a table that `onebit export` wrote: the answers that came in time, and in shadow mode what was shown instead."""
    names = {str(one): one for one in classes}
    for batch in table.batches([name for name in EXPORTED if with_x or name != "x"]):
        for row in batch.to_pylist():
            if row["right"] is None or row["late"]:
                yield None
                continue
            label, propensity = row["label"], row["propensity"]
            chances: list[float] | None = [*row["probabilities"], *[0.0] * (len(classes) - len(row["probabilities"]))]
            if row["shown"] is not None:
                label, chances = row["shown"], None
                propensity = 1.0 if row["shown_propensity"] is None else row["shown_propensity"]
            x = row.get("x")
            x = dict(x) if isinstance(x, list) and x and isinstance(x[0], tuple) else x
            among, truth, reward = row["among"], row["truth"], row["reward"]
            if among is not None and label not in among:  # the caller showed something else
                among = None
            for one in (label, *(among or ()), *(() if truth is None else (truth,))):
                if str(one) not in names:
                    raise InputError(f"{table.path} has the label {brief(one)}, which is none of its classes")
            yield Round(
                row["id"],
                x,
                names[str(label)],
                row["right"] if reward is None else None,
                propensity,
                chances,
                None if among is None else [names[str(one)] for one in among],
                bool(row["complete"]),
                reward,
                None if truth is None else names[str(truth)],
            )
