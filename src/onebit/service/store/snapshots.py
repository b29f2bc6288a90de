"""Learners on disk, each with the position of the log up to which it has learnt: what a start begins with."""

from __future__ import annotations

import contextlib
import logging
import re
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from onebit.contract.files import match_folder_owner
from onebit.contract.validation import ClassName, is_whole_number
from onebit.errors import InputError, OnebitError, brief
from onebit.learner.learner import Learner, wrap_runtime
from onebit.learner.model_file import Arrays, decode, name_file_in_errors, read, write
from onebit.learner.state import dump_state, load_state
from onebit.rules import rule_named
from onebit.service.core.statistics import Statistics
from onebit.service.store.reader import Mark, Reader

FOLDER = "snapshots"
LOG = logging.getLogger("onebit.service")
UNREADABLE = (OnebitError, LookupError, AttributeError, TypeError, ValueError)  # what a snapshot that is damaged raises
_NAME = re.compile(
    r"(\d+)-(\d+)(?:-(\d+))?\.onebit"
)  # generation, position, and up to where revisions are known if beyond
_TRAINED = re.compile(r"(\d+)-(\d+)\.trained")  # generation and position


class Snapshot(NamedTuple):
    """A learner as it was at a position of the log, with the revisions up to another, and the statistics of its task.

    The mark is what the log had there: with another mark, or none, it is another log, or other rows have taken their place. It names
    the last revision that the learner knows of; where a later one is of a feedback that it has learnt, it is of no use any more.
    """

    learner: Learner
    generation: int
    position: int
    revised: int
    mark: Mark
    statistics: Statistics
    retired: tuple[ClassName, ...] = ()  # which the service has from its log, and whoever loads the file from here
    age_s: float = 0.0


class Packed(NamedTuple):
    """A snapshot, ready to be written."""

    generation: int
    position: int
    revised: int
    manifest: dict[str, Any]
    arrays: Any


def packed(snapshot: Snapshot) -> Packed:
    """A copy of everything, which goes on being true while the learner learns."""
    manifest, arrays = dump_state(snapshot.learner.runtime)
    if snapshot.retired:
        manifest["retired"] = sorted(map(snapshot.learner.runtime.names.index, snapshot.retired))
    beside = {
        "position": snapshot.position,
        "revised": snapshot.revised,
        "generation": snapshot.generation,
        "mark": snapshot.mark,
        "statistics": snapshot.statistics.to_dict(),
    }
    return Packed(snapshot.generation, snapshot.position, snapshot.revised, {**manifest, "service": beside}, arrays)


def _unpacked(manifest: dict[str, Any], arrays: Any, age_s: float) -> Snapshot:
    """The snapshot of a file, whatever is in it: a sentence where it is none."""
    beside = manifest.get("service")
    if not isinstance(beside, dict):
        raise InputError(
            "it is a learner, but no snapshot of a service: the field 'service' of its manifest is missing"
        )
    for name in ("generation", "position", "revised"):
        if not is_whole_number(beside.get(name)):
            raise InputError(
                f"the field 'service.{name}' of the manifest is {brief(beside.get(name))}, but must be a whole number"
            )
    try:
        statistics = Statistics.from_dict(beside["statistics"])
    except (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise InputError(
            f"the field 'service.statistics' of the manifest cannot be read: {brief(str(error))}"
        ) from None
    mark = beside.get("mark")
    if not isinstance(mark, list):
        raise InputError(f"the field 'service.mark' of the manifest is {brief(mark)}, but must be a list")
    learner = wrap_runtime(load_state(manifest, arrays))
    retired = tuple(learner.classes[place] for place in sorted(learner.runtime.names.retired))
    # Here the log says what is played, and the learner goes on hearing of what was played before it was retired.
    learner.runtime.names.retired = frozenset()
    if statistics.classes != len(learner.classes):
        raise InputError(
            f"its statistics are of {statistics.classes} classes, but its learner has {len(learner.classes)}"
        )
    where = (beside["generation"], beside["position"], beside["revised"])
    return Snapshot(learner, *where, mark, statistics, retired, age_s)


def _checked(
    manifest: dict[str, Any], arrays: Arrays, age_s: float, where: object, task: int, reader: Reader
) -> Snapshot:
    """A snapshot, whole and of this log."""
    with name_file_in_errors(where):
        found = _unpacked(manifest, arrays, age_s)
    if found.mark != reader.mark(task, found.position, found.revised):
        raise InputError(f"{where} is of another log, or of rows that this one has lost")
    then = reader.task(task, found.position)
    if then is None:
        raise InputError(f"{where} is of a task that the log does not know there")
    ours = (found.generation, found.learner.runtime.rule.name, tuple(found.learner.classes), found.statistics.classes)
    if ours != (then.generation, rule_named(then.learner).name, tuple(then.classes), len(then.classes)):
        raise InputError(f"{where} and the log disagree on which learner it is, or on its classes")
    return found


def row_in_name(name: str) -> int:
    """The row at which a snapshot of this name was made; 0 where it is no name of one."""
    match = _NAME.fullmatch(name)
    return int(match[3] or match[2]) if match else 0


def decode_snapshot(content: bytes) -> Snapshot:
    """A snapshot of the bytes of a file, which the log has kept."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the learner goes on where it was, on whichever machine
        found = _unpacked(*decode(content), 0.0)
    found.learner.runtime.disable_ledger()
    return found


def refuse_lost_rows(log: str, last: int, snapshots: Iterable[tuple[str, str]], advice: str) -> None:
    """Refuse a log that ends before one of its snapshots, of which there are the place and the name: rows that were acknowledged are lost."""
    for where, name in snapshots:
        if (row := row_in_name(name)) > last:
            raise InputError(
                f"the log in {log} ends at row {last}, and {where} was made at row {row}, so that rows were lost: {advice}"
            )


class SnapshotStore(Protocol):
    """Where the snapshots of one task are, by their names."""

    def names(self) -> list[str]:
        """Return the names of all that is there: snapshots, learners that were trained to take over, and what was put aside."""

    def read(self, name: str) -> tuple[dict[str, Any], Arrays, float]:
        """Return the manifest and the arrays of a snapshot, checked, and its age in seconds."""

    def write(self, name: str, manifest: dict[str, Any], arrays: Arrays) -> str:
        """Write a snapshot, all of it or nothing; return where it is, for people."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove some."""

    def put_aside(self, name: str) -> None:
        """Put one that cannot be read out of the way of those to come."""

    def where(self, name: str) -> str:
        """Return where a snapshot is, for people."""


class SnapshotFolder:
    """The snapshots of a task in a folder of the data folder."""

    def __init__(self, data: Path, task: int) -> None:
        self.folder = data / FOLDER / str(task)

    def names(self) -> list[str]:
        return [path.name for path in self.folder.glob("*")]

    def read(self, name: str) -> tuple[dict[str, Any], Arrays, float]:
        path = self.folder / name
        manifest, arrays = read(path)
        return manifest, arrays, max(0.0, time.time() - path.stat().st_mtime)

    def write(self, name: str, manifest: dict[str, Any], arrays: Arrays) -> str:
        try:
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(parents=True, exist_ok=True)
                match_folder_owner(folder, folder.parent)
        except OSError as error:
            raise InputError(f"{self.folder} cannot be made: {error.strerror or error}") from None
        write(manifest, arrays, self.folder / name)
        self.remove(path.name for path in self.folder.glob(".*.part"))  # of a process that was killed
        return self.where(name)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):  # the next time, then
                (self.folder / name).unlink(missing_ok=True)

    def put_aside(self, name: str) -> None:
        """Give it another name, for whoever wants to look into it."""
        path = self.folder / name
        with contextlib.suppress(OSError):
            path.rename(path.with_suffix(".unused"))

    def where(self, name: str) -> str:
        return str(self.folder / name)


class Snapshots:
    """The snapshots of one task."""

    def __init__(self, store: SnapshotStore, task: int, keep: int) -> None:
        self._store = store
        self._task = task
        self._keep = keep

    def write(self, one: Packed) -> str:
        """Write a snapshot atomically, and remove all but the last few, and few of those before them; where it is."""
        revised = f"-{one.revised:015d}" if one.revised > one.position else ""
        where = self._store.write(f"{one.generation:04d}-{one.position:015d}{revised}.onebit", one.manifest, one.arrays)
        self._store.remove(self._superfluous())
        return where

    def _superfluous(self) -> list[str]:
        """All but the last few, and but the oldest at each distance, where one is twice as far as the next.

        So what is revised needs a replay of some times the rows since, and not of all, while the number of snapshots stays small.
        """
        found = self._positions()
        oldest = {(found[0][0] - position).bit_length(): name for position, _, name in found}
        kept = {*oldest.values(), *(name for _, _, name in found[: self._keep])}
        return [name for _, _, name in found if name not in kept]

    def good(self, reader: Reader, last: int) -> Iterator[Snapshot]:
        """The snapshots that can be read, are of this log and know the last word on what they have learnt, newest first.

        `last` is where the log ends. Those that were overtaken by a revision are removed.
        """
        overtaken = [one for one in self._positions() if reader.is_revised(self._task, one[0], one[1], last)]
        self._store.remove([name for _, _, name in overtaken])
        for _, _, name in self._positions():
            where = self._store.where(name)
            try:
                with warnings.catch_warnings(record=True) as heard:
                    warnings.simplefilter("always")
                    found = _checked(*self._store.read(name), where, self._task, reader)
            except UNREADABLE as error:
                if name not in self._store.names():  # it has just been removed, in favour of a newer one
                    continue
                LOG.warning(f"a snapshot is not used: {error}", extra={"event": "snapshot-damaged", "path": where})
                self._store.put_aside(name)
                continue
            for warning in heard:
                LOG.warning(str(warning.message), extra={"event": "snapshot-of-another-machine", "path": where})
            # What counts is what it says inside.
            if not reader.is_revised(self._task, found.position, found.revised, last):
                found.learner.runtime.disable_ledger()
                yield found

    def write_trained(self, one: Packed) -> None:
        """Keep a learner that was trained to take over, for other nodes, in the place of the one before it."""
        before = [name for name in self._store.names() if _TRAINED.fullmatch(name)]
        self._store.write(f"{one.generation:04d}-{one.position:015d}.trained", one.manifest, one.arrays)
        self._store.remove(before)

    def trained(self, generation: int, reader: Reader) -> Snapshot | None:
        """The learner that was trained to take over as this generation, if somebody has kept it, and it is of this log."""
        for name in self._store.names():
            match = _TRAINED.fullmatch(name)
            if match is None or int(match[1]) != generation:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = _unpacked(*self._store.read(name))
            except UNREADABLE:
                return None
            found.learner.runtime.disable_ledger()
            return found if found.mark == reader.mark(self._task, found.position, found.revised) else None
        return None

    def find_faults(self, reader: Reader) -> Iterator[tuple[str, str | None]]:
        """Where each of them is, and what is wrong with it, if anything is."""
        for name in sorted(filter(_is_snapshot, self._store.names())):
            where = self._store.where(name)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of another machine it may be
                    _checked(*self._store.read(name), where, self._task, reader)
                yield where, None
            except UNREADABLE as error:
                if name in self._store.names():  # else it has just been removed, in favour of a newer one
                    yield where, " ".join(str(error).split()) or type(error).__name__

    def remove_before(self, position: int) -> None:
        """Remove those of before a position, where rows that they know were forgotten, and all that was put aside."""
        old = [name for found, _, name in self._positions() if found < position]
        self._store.remove([*old, *(name for name in self._store.names() if not _is_snapshot(name))])

    def remove(self) -> None:
        """Remove all, since there is no task any more."""
        self._store.remove(self._store.names())

    def _positions(self) -> list[tuple[int, int, str]]:
        """The snapshots with their positions and up to where they know of revisions, newest first."""
        found = [(name, _NAME.fullmatch(name)) for name in self._store.names()]
        named = [(int(match[1]), int(match[2]), int(match[3] or match[2]), name) for name, match in found if match]
        return [(position, revised, name) for _, position, revised, name in sorted(named, reverse=True)]


def _is_snapshot(name: str) -> bool:
    return name.endswith(".onebit")
