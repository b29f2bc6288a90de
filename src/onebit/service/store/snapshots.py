"""Snapshots: saved learners with the log position they have learnt up to; a service starts from them."""

from __future__ import annotations

import contextlib
import logging
import re
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict

from onebit.contract.files import match_folder_owner, write_atomically
from onebit.contract.validation import ClassName
from onebit.errors import InputError, OnebitError, brief
from onebit.learner.learner import Learner, wrap_runtime
from onebit.learner.model_file import decode_file, encode_file, name_file_in_errors
from onebit.learner.state import dump_state, load_state
from onebit.rules import rule_named
from onebit.service.core.statistics import Statistics
from onebit.service.store.reader import Mark, Reader

if TYPE_CHECKING:
    from onebit.service.store.postgres.store import PostgresSnapshots

FOLDER = "snapshots"
LOG = logging.getLogger("onebit.service")
UNREADABLE = (OnebitError, LookupError, AttributeError, TypeError, ValueError)  # what a damaged snapshot may raise
_PATTERN = re.compile(r"(\d+)-(\d+)(?:-(\d+))?\.onebit")  # generation, position, and position of revisions if later
ENDING = ".onebit"
TRAINED = ".trained"  # ending of the name of a learner that is to take over


class _Name(NamedTuple):
    """The parsed name of a snapshot's file; newer snapshots compare as greater."""

    generation: int
    position: int
    revised: int
    name: str

    @classmethod
    def parse(cls, name: str) -> _Name | None:
        """Parse the name of a file; None if it is not that of a snapshot."""
        match = _PATTERN.fullmatch(name)
        if match is None:
            return None
        generation, position, revised = match.groups()
        return cls(int(generation), int(position), int(revised or position), name)


class Snapshot(NamedTuple):
    """A learner at a position of the log, with revisions up to `revised`, and its task's statistics.

    The mark holds the last rows of the log at that position: if they differ, it is another log, or rows were replaced. A later revision of
    feedback that the learner has learnt makes the snapshot useless.
    """

    learner: Learner
    generation: int
    position: int
    revised: int
    mark: Mark
    statistics: Statistics
    retired: tuple[ClassName, ...] = ()  # written for other readers of the file; the service takes these from its log
    age_s: float = 0.0
    warnings: tuple[str, ...] = ()  # such as about another machine


class _ServiceFields(BaseModel):
    """The fields of a snapshot's manifest beside those of the learner."""

    model_config = ConfigDict(strict=True)

    generation: int
    position: int
    revised: int
    mark: list[Any]
    statistics: dict[str, Any]


class Packed(NamedTuple):
    """A snapshot ready to be written, with the name of its file without ending."""

    name: str
    position: int
    manifest: dict[str, Any]
    arrays: Any

    def encode(self) -> bytes:
        """Return the content of the file."""
        return encode_file(self.manifest, self.arrays)


def pack_snapshot(snapshot: Snapshot) -> Packed:
    """Copy a snapshot into a form to write, unaffected by further learning."""
    manifest, arrays = dump_state(snapshot.learner.runtime)
    if snapshot.retired:
        manifest["retired"] = sorted(map(snapshot.learner.runtime.names.index, snapshot.retired))
    fields = {
        "position": snapshot.position,
        "revised": snapshot.revised,
        "generation": snapshot.generation,
        "mark": snapshot.mark,
        "statistics": snapshot.statistics.to_dict(),
    }
    revised = f"-{snapshot.revised:015d}" if snapshot.revised > snapshot.position else ""
    name = f"{snapshot.generation:04d}-{snapshot.position:015d}{revised}"
    return Packed(name, snapshot.position, {**manifest, "service": fields}, arrays)


def decode_snapshot(content: bytes, where: str = "the state in the log", age_s: float = 0.0) -> Snapshot:
    """Decode a snapshot from the bytes of its file; raise an error of `UNREADABLE` if it is invalid."""
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        manifest, arrays = decode_file(content, where)
        with name_file_in_errors(where):
            try:
                fields = _ServiceFields.model_validate(manifest.get("service"))
                statistics = Statistics.from_dict(fields.statistics)
            except (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
                raise InputError(f"the field 'service' of its manifest cannot be read: {brief(str(error))}") from None
            learner = wrap_runtime(load_state(manifest, arrays))
            # The log decides what is played here, and the learner still learns from classes played before they were retired.
            learner.runtime.names.retired = frozenset()
            learner.runtime.disable_ledger()
            if statistics.classes != len(learner.classes):
                raise InputError(
                    f"its statistics cover {statistics.classes} classes, but its learner has {len(learner.classes)}"
                )
    messages = tuple(str(warning.message) for warning in issued)
    return Snapshot(
        *(learner, fields.generation, fields.position, fields.revised, fields.mark, statistics),
        age_s=age_s,
        warnings=messages,
    )


def refuse_lost_rows(log: str, last: int, snapshots: Iterable[tuple[str, str]], advice: str) -> None:
    """Raise InputError if the log ends before one of its snapshots: acknowledged rows are lost.

    `snapshots` are pairs of place and name.
    """
    for where, name in snapshots:
        parsed = _Name.parse(name)
        if parsed is not None and parsed.revised > last:
            raise InputError(
                f"the log in {log} ends at row {last}, but {where} was taken at row {parsed.revised}, so rows were lost: {advice}"
            )


SnapshotStore: TypeAlias = "SnapshotFolder | PostgresSnapshots"  # the snapshots of one task, by name


class SnapshotFolder:
    """The snapshots of a task in a subfolder of the data folder."""

    def __init__(self, data: Path, task: int) -> None:
        self.folder = data / FOLDER / str(task)

    def names(self) -> list[str]:
        """Return the names of all files: snapshots and trained learners."""
        return [path.name for path in self.folder.glob("*")]

    def read(self, name: str) -> tuple[bytes, float]:
        """Return the content of a snapshot, and its age in seconds."""
        path = self.folder / name
        if not path.is_file():  # reading a pipe would block
            raise InputError(f"there is no file {path}")
        try:
            return path.read_bytes(), max(0.0, time.time() - path.stat().st_mtime)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}") from None

    def write(self, name: str, content: bytes) -> None:
        """Write a snapshot atomically."""
        try:
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(parents=True, exist_ok=True)
                match_folder_owner(folder, folder.parent)
        except OSError as error:
            raise InputError(f"{self.folder} cannot be created: {error.strerror or error}") from None
        write_atomically(self.folder / name, content)
        self.remove(path.name for path in self.folder.glob(".*.part"))  # left by a killed process

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):  # removed the next time
                (self.folder / name).unlink(missing_ok=True)

    def where(self, name: str) -> str:
        """Return the place of a snapshot, for messages."""
        return str(self.folder / name)


class Snapshots:
    """The snapshots of one task."""

    def __init__(self, store: SnapshotStore, task: int, keep: int) -> None:
        self._store = store
        self._task = task
        self._keep = keep

    def write(self, packed: Packed) -> str:
        """Write a snapshot atomically, remove surplus ones, and return its place."""
        self._store.write(f"{packed.name}{ENDING}", packed.encode())
        self._store.remove(self._surplus_names())
        return self._store.where(f"{packed.name}{ENDING}")

    def _surplus_names(self) -> list[str]:
        """Return the snapshots to remove: all but the last few, and the oldest at each distance.

        Distances double. So replay after a revision takes a small multiple of the rows since, instead of all rows, with few snapshots.
        """
        newest, *_ = names = self._parse_names()
        oldest = {(newest.position - name.position).bit_length(): name for name in names}
        needed = {*oldest.values(), *names[: self._keep]}
        return [name.name for name in names if name not in needed]

    def find_usable(self, reader: Reader, last: int) -> Iterator[Snapshot]:
        """Yield the snapshots that are readable, match the log and are not outdated, newest first.

        `last` is the end of the log. Those outdated by a revision are removed.
        """
        self._store.remove(
            [
                name.name
                for name in self._parse_names()
                if reader.is_revised(self._task, name.position, name.revised, last)
            ]
        )
        for where, snapshot in self._load_all([name.name for name in self._parse_names()], reader):
            if not isinstance(snapshot, Snapshot):
                LOG.warning(f"a snapshot is not used: {snapshot}", extra={"event": "snapshot-damaged", "path": where})
                continue
            for message in snapshot.warnings:
                LOG.warning(message, extra={"event": "snapshot-of-another-machine", "path": where})
            # The content counts, not the name.
            if not reader.is_revised(self._task, snapshot.position, snapshot.revised, last):
                yield snapshot

    def find_faults(self, reader: Reader) -> Iterator[tuple[str, str | None]]:
        """Yield the place of each snapshot and what is wrong with it, or None."""
        for where, snapshot in self._load_all(
            sorted(name for name in self._store.names() if name.endswith(ENDING)), reader
        ):
            yield where, None if isinstance(snapshot, Snapshot) else " ".join(snapshot.split())

    def _load_all(self, names: Iterable[str], reader: Reader) -> Iterator[tuple[str, Snapshot | str]]:
        """Yield the place of each snapshot with its content, or with the reason why it cannot be used."""
        for name in names:
            try:
                yield self._store.where(name), self._load(name, reader)
            except UNREADABLE as error:
                if name in self._store.names():  # otherwise just removed in favour of a newer one
                    yield self._store.where(name), str(error) or type(error).__name__

    def _load(self, name: str, reader: Reader) -> Snapshot:
        """Return a snapshot; raise an error of `UNREADABLE` unless it is complete and matches the log."""
        where, (content, age_s) = self._store.where(name), self._store.read(name)
        snapshot = decode_snapshot(content, where, age_s)
        if snapshot.mark != reader.mark(self._task, snapshot.position, snapshot.revised):
            raise InputError(f"{where} belongs to another log, or to rows that this log has lost")
        task, learner = reader.task(self._task, snapshot.position), snapshot.learner
        if task is None:
            raise InputError(f"{where} belongs to a task that does not exist at its position of the log")
        actual = (snapshot.generation, learner.runtime.rule.name, tuple(learner.classes))
        if actual != (task.generation, rule_named(task.learner).name, tuple(task.classes)):
            raise InputError(f"{where} and the log disagree on the learner, or on its classes")
        return snapshot

    def write_trained(self, packed: Packed) -> None:
        """Save a learner trained to take over, for other nodes, in place of the previous one."""
        self._store.remove([name for name in self._store.names() if name.endswith(TRAINED)])
        self._store.write(f"{packed.name}{TRAINED}", packed.encode())

    def find_trained(self, generation: int, reader: Reader) -> Snapshot | None:
        """Return the learner trained to take over as `generation`, if it was saved and matches the log."""
        for name in self._store.names():
            if name.startswith(f"{generation:04d}-") and name.endswith(TRAINED):
                with contextlib.suppress(*UNREADABLE):
                    content, _ = self._store.read(name)
                    snapshot = decode_snapshot(content, name)
                    if snapshot.mark == reader.mark(self._task, snapshot.position, snapshot.revised):
                        return snapshot
        return None

    def remove_before(self, position: int) -> None:
        """Remove the snapshots before a position, and trained learners: they have learnt forgotten rows."""
        old = [name.name for name in self._parse_names() if name.position < position]
        self._store.remove([*old, *(name for name in self._store.names() if not name.endswith(ENDING))])

    def remove(self) -> None:
        """Remove all snapshots, as of a deleted task."""
        self._store.remove(self._store.names())

    def _parse_names(self) -> list[_Name]:
        """Return the parsed names of all snapshots, newest first."""
        return sorted(filter(None, map(_Name.parse, self._store.names())), reverse=True)
