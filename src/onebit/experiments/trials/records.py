"""The records of a result folder: an append-only file of JSON lines, one per trial.

A record has all that is needed to repeat its trial. A trial with a record is not run again, so a stopped experiment continues where it
was. A line cut by a crash is left alone and its trial is run again. Records are found by identity, never by position.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.installation import require
from onebit.engine.compile import code_mark
from onebit.errors import InputError
from onebit.experiments.trials import Outcome, Trial
from onebit.experiments.trials.cost import describe_platform

if TYPE_CHECKING:
    import pandas

FILE = "rows.jsonl"
REWARDS = ("reward", "greedy_reward")  # fields of records and curves of streams with rewards
HEADER = {"onebit": "rows", "format": 1}


@dataclass(frozen=True, kw_only=True)
class Record:
    """A finished trial with all that is needed to repeat it: one line of a result folder."""

    id: str  # identity of the trial
    learner: str
    options: dict[str, Any]
    params: dict[str, Any]
    stream: dict[str, Any]
    seed: int
    feedback: str | None
    why: str | None  # cause of the failure, None if the run succeeded
    error: float  # share of rounds in which the label played was wrong; NaN if the run failed
    greedy_error: float  # share of rounds in which the greedy label was wrong
    curve: dict[str, NDArray[Any]] | None  # `rounds`, and the mistakes up to each: `played`, `greedy`
    seconds: float
    on: str  # `CPU` or the name of the GPU
    platform: str  # versions and machine
    code: str
    written: str
    reward: float | None = None  # mean reward of the labels played, if there are rewards
    greedy_reward: float | None = None
    measured: dict[str, Any] = field(default_factory=dict)  # by the trial's measurement, on the final learner

    @property
    def rounds(self) -> int:
        return int(self.stream["rounds"])

    @property
    def marks(self) -> NDArray[np.int64]:
        """The rounds at which the curve has points."""
        assert self.curve is not None
        return self.curve["rounds"]

    def curve_of(self, measure: str) -> NDArray[np.float64]:
        """Return the error up to each mark, of the labels `played` or of the `greedy` ones.

        The measures `reward` and `greedy_reward` give mean rewards instead.
        """
        assert self.curve is not None
        return self.curve[measure] / self.marks

    def to_dict(self) -> dict[str, Any]:
        """Return the record as it is written to the file.

        Values that a failed run lacks are null; fields that only some trials have are left out in others.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.why is not None:
            values["error"] = values["greedy_error"] = None
        values["measured"] = encode_numbers(self.measured)
        return {name: value for name, value in values.items() if name not in OPTIONAL or value not in (None, {})}

    def failure_to_dict(self) -> dict[str, Any]:
        """Return which run failed and why, as plain values."""
        return {"learner": self.learner, "options": self.options, "seed": self.seed, "why": self.why}


OPTIONAL = (*REWARDS, "measured")


def encode_numbers(value: Any) -> Any:
    """Replace non-finite numbers, which JSON lacks, by {"float": "nan"} and the like."""
    if isinstance(value, dict):
        return {name: encode_numbers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_numbers(item) for item in value]
    return {"float": str(float(value))} if isinstance(value, float) and not math.isfinite(value) else value


def decode_numbers(value: Any) -> Any:
    """Undo `encode_numbers`."""
    if isinstance(value, dict):
        is_number = value.keys() == {"float"}
        return float(value["float"]) if is_number else {name: decode_numbers(item) for name, item in value.items()}
    return [decode_numbers(item) for item in value] if isinstance(value, list) else value


def make_record(outcome: Outcome) -> Record:
    """Return the record of a finished trial."""
    trial, learner, tally = outcome.trial, outcome.learner, outcome.tally
    rewards: dict[str, float] = {}
    error = greedy_error = math.nan
    curve = None
    if learner is not None:
        error, greedy_error = (tally.mistakes[:2] / trial.stream.rounds).tolist()
        if trial.curve:
            curve = {"rounds": tally.marks, "played": tally.curve[0], "greedy": tally.curve[1]}
        if trial.stream.source.rewards:
            rewards = dict(zip(REWARDS, (tally.rewards / trial.stream.rounds).tolist(), strict=True))
            if curve is not None:
                curve |= dict(zip(REWARDS, tally.reward_curve, strict=True))
    return Record(
        id=trial.identity,
        learner=trial.entry.rule.name,
        options=trial.entry.options,
        params=trial.entry.settings if learner is None else {**trial.entry.settings, **learner.settings},
        stream=trial.stream.described(),
        seed=trial.seed,
        feedback=None if learner is None else "full information" if learner.runtime.needs_labels else "bandit",
        why=None if outcome.why is None else str(outcome.why),
        error=error,
        greedy_error=greedy_error,
        curve=curve,
        seconds=outcome.seconds,
        on=outcome.on,
        platform=describe_platform(),
        code=code_mark(trial.entry.rule),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        measured=outcome.measured or {},
        **rewards,
    )


class Records:
    """The records of a folder, or in memory only if there is no folder."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._records: dict[str, Record] = {}
        self._file: Any = None
        if self.folder is None:
            return
        path = self.folder / FILE
        if self.folder.is_file():
            raise InputError(f"the results cannot be written to {self.folder}: it is a file, not a folder")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for record in read_records(path) if path.exists() else ():
                self._records[record.id] = record
            self._file = path.open("ab")
            if path.stat().st_size == 0:
                self._write(HEADER)
            elif not _ends_a_line(path):
                self._file.write(b"\n")  # end a line that was cut by a crash
        except OSError as error:
            raise InputError(f"the results cannot be written to {self.folder}: {error.strerror or error}") from None

    def get(self, trial: Trial) -> Record | None:
        """Return a trial's record, or None if the trial must be run.

        A failed trial is run again, and so is one whose curve is wanted and was not stored.
        """
        record = self._records.get(trial.identity)
        is_missing = record is None or record.why or (trial.curve and record.curve is None)
        return None if is_missing else record

    def add(self, record: Record) -> None:
        """Store a record; it is on disk on return, or an InputError says why it could not be written."""
        self._records[record.id] = record
        if self._file is not None:
            try:
                self._write(record.to_dict())
            except OSError as error:
                raise InputError(
                    f"the results cannot be written to {self.folder}: {error.strerror or error}; earlier results are kept"
                ) from None

    def _write(self, fields: dict[str, Any]) -> None:
        # A line is written at once, so that two processes writing to one folder do not mix their lines.
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), default=lambda value: value.tolist())
        self._file.write(f"{text}\n".encode(errors="backslashreplace"))  # a file name may not be valid Unicode
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # failures to write were reported by `add`
                self._file.close()
            self._file = None


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file, skipping lines cut by a crash.

    Raise InputError if it is not a file of records, or one of another format.
    """
    with path.open("rb") as file:
        first = file.readline()
        try:
            header = json.loads(first) if first.strip() else HEADER
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.get("onebit") != "rows":
            raise InputError(f"{path} is not a file of onebit results; give another folder")
        if header.get("format") != HEADER["format"]:
            raise InputError(f"{path} was written by another version of onebit (format {header.get('format')})")
        for line in file:
            try:
                values = json.loads(line)
                if values["curve"] is not None:
                    values["curve"] = {
                        name: np.array(points, dtype=np.float64 if name in REWARDS else np.int64)
                        for name, points in values["curve"].items()
                    }
                if values["why"] is not None:
                    values["error"] = values["greedy_error"] = math.nan
                values["measured"] = decode_numbers(values.get("measured", {}))
                yield Record(**values)
            except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
                continue


def frame(source: str | Path | list[Record]) -> pandas.DataFrame:
    """Return records, or those of a result folder, as a pandas data frame with one row per trial.

    Parameters have columns `params.NAME`, stream properties `stream.NAME`; the curve stays a dict.
    """
    require("pandas", "a frame")
    import pandas

    if not isinstance(source, list):
        path = Path(source) / FILE
        if not path.is_file():
            raise InputError(f"there are no results in {source}: it has no {FILE}")
        # Of a repeated trial only the last record counts.
        source = list({record.id: record for record in read_records(path)}.values())
    rows = []
    for record in source:
        values = record.to_dict()
        for group in ("params", "stream"):
            values.update({f"{group}.{name}": value for name, value in values.pop(group).items()})
        rows.append(values)
    return pandas.DataFrame(rows)
