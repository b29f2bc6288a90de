"""Exporting the log of a task: JSON lines, Parquet, or contextual-bandit lines of Vowpal Wabbit.

Rows come from an iterator and are never all held in memory. JSON lines and Parquet have every decision and every field; Vowpal Wabbit has
no place for most of them: its lines are the decisions answered in time, as `action:cost:probability 'id | features`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, get_type_hints

import orjson

from onebit.contract.installation import require
from onebit.contract.validation import ClassName
from onebit.errors import InputError
from onebit.features.named import list_words
from onebit.service.inputs import X
from onebit.service.store.queries import DecisionRecord
from onebit.service.task import TaskInfo
from onebit.version import VERSION

FIELDS = tuple(DecisionRecord.__dataclass_fields__)
GROUP_ROWS = 1 << 14  # per Parquet row group, or fewer if rows are long
GROUP_NUMBERS = 1 << 20
SPECIAL = frozenset(":|%")  # special in Vowpal Wabbit or in the escape, as are spaces and unprintable characters


class Written(NamedTuple):
    """How many decisions were written, and how many were left out because the format cannot express them."""

    rows: int
    left_out: int


def write(file: BinaryIO, form: str, rows: Iterable[DecisionRecord], task: TaskInfo) -> Written:
    """Write the decisions of a task in a format: ndjson, vw or parquet."""
    if form == "parquet":
        return Written(write_parquet(file, rows, task), 0)
    count = left_out = 0
    names = list(map(str, task.classes))
    lines = (format_json_line(row, names) for row in rows) if form == "ndjson" else format_vw_lines(rows, task.classes)
    for line in lines:
        if line is None:
            left_out += 1
            continue
        file.write(line)
        count += 1
    return Written(count, left_out)


# --- JSON lines --------------------------------------------------------------------------------------------------------


def format_json_line(row: DecisionRecord, names: Sequence[str], position: int | None = None) -> bytes:
    """Return a decision as a line of JSON, with its position in the log as the first field if given."""
    prefix = {} if position is None else {"position": position}
    return orjson.dumps({**prefix, **as_object(row, names)}, option=orjson.OPT_APPEND_NEWLINE)


def as_object(row: DecisionRecord, names: Sequence[str]) -> dict[str, Any]:
    """Return a decision as a JSON object of the service; classes added later have no probability."""
    fields = {name: getattr(row, name) for name in FIELDS}
    return {**fields, "unsure": row.unsure, "probabilities": dict(zip(names, row.probabilities, strict=False))}


# --- Vowpal Wabbit -----------------------------------------------------------------------------------------------------


def format_vw_lines(rows: Iterable[DecisionRecord], classes: Sequence[ClassName]) -> Iterator[bytes | None]:
    """Yield the decisions answered in time as lines of Vowpal Wabbit.

    Action 1 is the first class. The cost is 1 - reward, or 1 if wrong and 0 if right. Other candidates follow the action, without a
    cost. An action alone means that all could be shown: a decision with a single candidate cannot be expressed, and None is yielded for it.
    """
    actions = {name: number for number, name in enumerate(classes, start=1)}
    for row in rows:
        if row.right is None or row.late:
            continue
        label, propensity = played_class(row)
        if row.among is not None and list(row.among) == [label]:
            yield None
            continue
        features = " ".join(f"{escape_name(name)}:{value!r}" for name, value in list_features(row.x) if value)
        cost = int(not row.right) if row.reward is None else 1.0 - row.reward
        unplayed = [] if row.among is None or label not in row.among else [name for name in row.among if name != label]
        choices = " ".join(
            [f"{actions[label]}:{cost!r}:{min(propensity, 1.0)!r}", *(str(actions[name]) for name in unplayed)]
        )
        line = f"{choices} '{escape_name(row.id)} | {features}\n"
        yield line.encode()


def played_class(row: DecisionRecord) -> tuple[ClassName, float]:
    """Return the played class and its probability: the label, or what the caller showed instead."""
    if row.shown is None:
        return row.label, row.propensity
    return row.shown, 1.0 if row.shown_propensity is None else row.shown_propensity


def list_features(x: Any) -> Iterator[tuple[str, float]]:
    """Return the features of an x by name; those of a list are numbered, those of a text are its words."""
    if isinstance(x, str):
        words = list_words(x)
        return ((word, len(words) ** -0.5) for word in words)
    return iter(x.items()) if isinstance(x, dict) else ((str(index), value) for index, value in enumerate(x))


def escape_name(name: str) -> str:
    """Percent-encode the characters of a name that Vowpal Wabbit would interpret; % is the empty name.

    >>> escape_name("a b:c"), escape_name("café"), escape_name("")
    ('a%20b%3Ac', 'café', '%')
    """
    if not name:
        return "%"
    if name.isprintable() and " " not in name and SPECIAL.isdisjoint(name):
        return name
    return "".join(
        character
        if character.isprintable() and character != " " and character not in SPECIAL
        else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in name
    )


# --- Parquet -----------------------------------------------------------------------------------------------------------


def write_parquet(file: BinaryIO, rows: Iterable[DecisionRecord], task: TaskInfo) -> int:
    """Write every decision as a row of typed columns, in row groups; return how many.

    The metadata describe the task.
    """
    parquet, count = _parquet(), 0
    with parquet.ParquetWriter(file, _schema(task), compression="zstd") as writer:
        for batch in _batches(rows, task):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def is_in_parquet(path: Path, rows: Iterable[DecisionRecord], task: TaskInfo) -> bool:
    """Return True if a file of `write_parquet` has exactly these rows."""
    with _parquet().ParquetFile(path) as file:
        groups = 0
        for groups, batch in enumerate(_batches(rows, task), start=1):
            if groups > file.num_row_groups or file.read_row_group(groups - 1).to_batches() != [batch]:
                return False
        return bool(groups == file.num_row_groups)


def rows_in_parquet(path: Path) -> set[int]:
    """Return the seq of all rows in a file."""
    parquet = _parquet()
    try:
        return set(parquet.read_table(path, columns=["seq"]).column("seq").to_pylist())
    except (ValueError, OSError, KeyError, NotImplementedError) as error:  # includes the errors of pyarrow
        raise InputError(f"{path} is not a file of an archive: {' '.join(str(error).split())}") from None


def _parquet() -> Any:
    require("pyarrow", "Parquet")
    from pyarrow import parquet

    return parquet


def _batches(rows: Iterable[DecisionRecord], task: TaskInfo) -> Iterator[Any]:
    from pyarrow import RecordBatch

    schema = _schema(task)
    for group in _groups(rows):
        columns = {name: [getattr(row, name) for row in group] for name in schema.names}
        columns["x"] = [list(x.items()) if isinstance(x, dict) else x for x in columns["x"]]
        if schema.field("label").type != "int64":
            for name in ("label", "greedy", "shown", "truth"):
                columns[name] = [None if label is None else str(label) for label in columns[name]]
            columns["among"] = [None if among is None else list(map(str, among)) for among in columns["among"]]
        yield RecordBatch.from_pydict(columns, schema=schema)


def _schema(task: TaskInfo) -> Any:
    import pyarrow as arrow

    text, number, numbers = arrow.string(), arrow.float64(), arrow.list_(arrow.float64())
    name = arrow.int64() if all(isinstance(label, int) for label in task.classes) else text
    kinds: dict[Any, Any] = {
        int: arrow.int64(),
        float: number,
        bool: arrow.bool_(),
        str: text,
        ClassName: name,
        list[ClassName]: arrow.list_(name),
        tuple[float, float]: numbers,
        tuple[float, ...]: numbers,
        X: {"numbers": numbers, "dict": arrow.map_(text, number), "text": text}[task.inputs.kind],
    }
    nullable = {kind | None: stored for kind, stored in kinds.items()}
    columns = {**get_type_hints(DecisionRecord), "unsure": bool}
    metadata = {"version": VERSION, "task": task.name, "classes": task.classes, "features": task.features}
    return arrow.schema(
        [arrow.field(column, (kinds | nullable)[kind], nullable=kind in nullable) for column, kind in columns.items()],
        metadata={"onebit": json.dumps(metadata)},
    )


def _groups(rows: Iterable[DecisionRecord]) -> Iterator[list[DecisionRecord]]:
    """Yield rows in lists that fit in memory, however long a row is."""
    group: list[DecisionRecord] = []
    numbers = 0
    for row in rows:
        group.append(row)
        numbers += len(row.x) + len(row.probabilities)
        if len(group) == GROUP_ROWS or numbers >= GROUP_NUMBERS:
            yield group
            group, numbers = [], 0
    if group:
        yield group
