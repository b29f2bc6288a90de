"""The records of a result folder: one append-only file of JSON lines, one line a trial, each with all that is needed to repeat it.

A trial whose record is there is not run again, so a stopped experiment goes on where it was. A line that a crash has cut is left
alone and its trial is run anew. Records are found by what they are, never by their position.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, MissingExtraError
from onebit.installation import install_command
from onebit.trials.trial import Outcome, Trial
from onebit.version import VERSION

if TYPE_CHECKING:
    import pandas

FILE = "rows.jsonl"
REWARDS = ("reward", "greedy_reward")  # fields of a record whose stream has rewards, and of its curve
HEADER = {"onebit": "rows", "format": 1}


@dataclass(frozen=True)
class Record:
    """What is known of a trial that was run."""

    fields: dict[str, Any]

    @property
    def failed(self) -> str | None:
        """Why it failed, or None."""
        return self.fields["why"]  # type: ignore[no-any-return]

    @property
    def error(self) -> float:
        """The share of rounds in which the label played was wrong."""
        return float(self.fields["error"])

    @property
    def greedy_error(self) -> float:
        """The share of rounds in which the label thought best was wrong."""
        return float(self.fields["greedy_error"])

    @property
    def rewarded(self) -> bool:
        """Whether classes were worth something from 0 to 1, and not just right or wrong."""
        return self.fields.get("reward") is not None

    @property
    def reward(self) -> float:
        """The mean reward of the labels played; right is worth 1 where there are no others."""
        return float(self.fields["reward"]) if self.rewarded else 1.0 - self.error

    @property
    def greedy_reward(self) -> float:
        """The mean reward of the labels thought best."""
        return float(self.fields["greedy_reward"]) if self.rewarded else 1.0 - self.greedy_error

    @property
    def full_information(self) -> bool:
        """Whether the class was revealed to the learner in every round."""
        return bool(self.fields["feedback"] == "full information")

    @property
    def on(self) -> str:
        """What ran it: `CPU`, or the name of a GPU."""
        return str(self.fields["on"])

    @property
    def rounds(self) -> int:
        """How many there were."""
        return int(self.fields["stream"]["rounds"])

    @property
    def marks(self) -> NDArray[np.int64]:
        """The rounds at which the curve has its points."""
        return self.fields["curve"]["rounds"]  # type: ignore[no-any-return]

    @property
    def measured(self) -> dict[str, Any]:
        """What was measured on the learner in the end; its trial has a measurement."""
        return self.fields["measured"]  # type: ignore[no-any-return]

    def curve(self, measure: str) -> NDArray[np.float64]:
        """The error up to each mark, of the labels `played` or of the `greedy` ones; or their mean `reward`, and `greedy_reward`."""
        return self.fields["curve"][measure] / self.marks  # type: ignore[no-any-return]


def record_of(outcome: Outcome) -> Record:
    """The record of an outcome, as it is written."""
    trial, rounds = outcome.trial, outcome.trial.stream.rounds
    learner = outcome.learner
    settings = trial.entry.settings if learner is None else {**trial.entry.settings, **learner.settings}
    fields: dict[str, Any] = {
        "id": trial.identity,
        "learner": trial.entry.rule.name,
        "options": trial.entry.options,
        "params": settings,
        "stream": trial.stream.described(),
        "seed": trial.seed,
        "feedback": None if learner is None else "full information" if learner.runtime.needs_labels else "bandit",
        "why": None if outcome.why is None else str(outcome.why),
        "error": None,
        "greedy_error": None,
        "curve": None,
        "seconds": outcome.seconds,
        "on": outcome.on,
        "version": VERSION,
        "code": trial.entry.described["code"],
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if learner is not None:
        fields["error"], fields["greedy_error"] = (outcome.mistakes / rounds).tolist()
        if trial.curve:
            played, greedy = outcome.curve
            fields["curve"] = {"rounds": outcome.marks, "played": played, "greedy": greedy}
        if outcome.rewards is not None:
            fields["reward"], fields["greedy_reward"] = (outcome.rewards.total / rounds).tolist()
            if trial.curve:
                fields["curve"]["reward"], fields["curve"]["greedy_reward"] = outcome.rewards.curve
    if outcome.measured is not None:
        fields["measured"] = outcome.measured
    return Record(fields)


class Records:
    """The records of a folder, or of no folder: then they are kept in memory alone."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._known: dict[str, Record] = {}
        self._file: Any = None
        if self.folder is None:
            return
        path = self.folder / FILE
        if self.folder.is_file():
            raise InputError(f"the results cannot be written to {self.folder}: it is a file, and not a folder")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for record in read_records(path) if path.exists() else ():
                self._known[record.fields["id"]] = record
            self._file = path.open("ab")
            if path.stat().st_size == 0:
                self._write(HEADER)
            elif not _ends_a_line(path):
                self._file.write(b"\n")  # what a crash has cut stays a line of its own
        except OSError as error:
            raise InputError(f"the results cannot be written to {self.folder}: {error.strerror or error}") from None

    def get(self, trial: Trial) -> Record | None:
        """The record of a trial, where it was run; one that failed is run again, and one whose curve is wanted and was not kept."""
        record = self._known.get(trial.identity)
        lacking = record is None or record.failed or (trial.curve and record.fields["curve"] is None)
        return None if lacking else record

    def add(self, record: Record) -> Record:
        """Keep a record; it is on disk when this returns, or the sentence says why not."""
        self._known[record.fields["id"]] = record
        if self._file is not None:
            try:
                self._write(record.fields)
            except OSError as error:
                raise InputError(
                    f"the results cannot be written to {self.folder}: {error.strerror or error}; those before are kept"
                ) from None
        return record

    def _write(self, fields: dict[str, Any]) -> None:
        # One write of one line: two processes that write to the same folder do not cut each other's lines.
        text = _ENCODER.encode(fields)
        self._file.write(f"{text}\n".encode(errors="backslashreplace"))  # a file's name may be no Unicode
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # what could not be written was said when it was added
                self._file.close()
            self._file = None


def _plain(array: NDArray[Any]) -> list[float]:
    return array.tolist()  # type: ignore[no-any-return]


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file. Lines that a crash has cut are skipped; a file that is something else is refused."""
    with path.open("rb") as file:
        first = file.readline()
        try:
            header = json.loads(first) if first.strip() else HEADER
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.get("onebit") != "rows":
            raise InputError(f"{path} is not a file of results of onebit; give another folder")
        if header.get("format") != HEADER["format"]:
            raise InputError(f"{path} was written by another version of onebit (format {header.get('format')})")
        for line in file:
            try:
                fields = json.loads(line)
                if not isinstance(fields["id"], str) or "why" not in fields:
                    continue
                if fields["curve"] is not None:
                    fields["curve"] = {
                        name: np.array(points, dtype=np.float64 if name in REWARDS else np.int64)
                        for name, points in fields["curve"].items()
                    }
            except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
                continue
            yield Record(fields)


def frame(source: str | Path | list[Record]) -> pandas.DataFrame:
    """Records as a pandas frame, one line a trial: those given, or those of a result folder.

    Parameters have columns `params.NAME`, what the stream was `stream.NAME`; the curve stays a dict.
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise MissingExtraError(f"a frame needs pandas: {install_command('experiments')}") from None
    if not isinstance(source, list):
        path = Path(source) / FILE
        if not path.is_file():
            raise InputError(f"there are no results in {source}: it has no {FILE}")
        source = list(
            {record.fields["id"]: record for record in read_records(path)}.values()
        )  # of a trial run again, the last
    flat = []
    for record in source:
        fields = dict(record.fields)
        for group in ("params", "stream"):
            fields.update({f"{group}.{name}": value for name, value in fields.pop(group).items()})
        flat.append(fields)
    return pandas.DataFrame(flat)
