"""Learners on disk, each with the position of the log up to which it has learnt: what a start begins with."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import OnebitError
from onebit.learner import Learner, learner_on
from onebit.serve.log.reading import Mark, Reader
from onebit.serve.statistics import Statistics
from onebit.state import from_state, state_of
from onebit.storage import read, write

FOLDER = "snapshots"
LOG = logging.getLogger("onebit.serve")
_NAME = re.compile(r"(\d+)-(\d+)\.onebit")


class Snapshot(NamedTuple):
    """A learner as it was at a position of the log, and the statistics of its task.

    The mark is what the log had there: with another mark, or none, it is another log, or other rows have taken their place.
    """

    learner: Learner
    generation: int
    position: int
    mark: Mark
    statistics: Statistics
    age_s: float = 0.0


class Packed(NamedTuple):
    """A snapshot, ready to be written."""

    generation: int
    position: int
    manifest: dict[str, Any]
    arrays: Any


def packed(snapshot: Snapshot) -> Packed:
    """A copy of everything, which goes on being true while the learner learns."""
    manifest, arrays = state_of(snapshot.learner.runtime)
    beside = {
        "position": snapshot.position,
        "generation": snapshot.generation,
        "mark": snapshot.mark,
        "statistics": snapshot.statistics.to_dict(),
    }
    return Packed(snapshot.generation, snapshot.position, {**manifest, "service": beside}, arrays)


class Snapshots:
    """The snapshots of one task."""

    def __init__(self, data: Path, task: int, keep: int) -> None:
        self.folder = data / FOLDER / str(task)
        self._task = task
        self._keep = keep

    def write(self, one: Packed) -> Path:
        """Write a snapshot atomically, and remove all but the last few."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OnebitError(f"{self.folder} cannot be made: {error.strerror or error}") from None
        path = self.folder / f"{one.generation:04d}-{one.position:015d}.onebit"
        write(one.manifest, one.arrays, path)
        old = [*self._paths()[self._keep :], *self.folder.glob(".*.part")]  # parts are of a process that was killed
        for left in old:
            with contextlib.suppress(OSError):  # the next time, then
                left.unlink(missing_ok=True)
        return path

    def good(self, reader: Reader) -> Iterator[Snapshot]:
        """The snapshots that can be read and are of this log, newest first."""
        for path in self._paths():
            try:
                with warnings.catch_warnings(record=True) as heard:
                    warnings.simplefilter("always")
                    manifest, arrays = read(path)
                    beside = manifest.pop("service")
                    found = Snapshot(
                        learner=learner_on(from_state(manifest, arrays)),
                        generation=int(beside["generation"]),
                        position=int(beside["position"]),
                        mark=beside["mark"],
                        statistics=Statistics.from_dict(beside["statistics"]),
                        age_s=max(0.0, time.time() - path.stat().st_mtime),
                    )
                    if found.mark != reader.mark(self._task, found.position):
                        raise OnebitError(f"{path} is of another log, or of rows that this one has lost")
            except (OnebitError, LookupError, AttributeError, TypeError, ValueError) as error:
                LOG.warning(f"a snapshot is not used: {error}", extra={"event": "snapshot-damaged", "path": str(path)})
                with contextlib.suppress(OSError):  # out of the way of those to come, for whoever wants to look into it
                    path.rename(path.with_suffix(".unused"))
                continue
            for warning in heard:
                LOG.warning(str(warning.message), extra={"event": "snapshot-of-another-machine", "path": str(path)})
            found.learner.runtime.disable_ledger()
            yield found

    def remove(self) -> None:
        """Remove all, since there is no task any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _paths(self) -> list[Path]:
        """Newest first."""
        found = [(path, _NAME.fullmatch(path.name)) for path in self.folder.glob("*.onebit")]
        named = [(int(match[1]), int(match[2]), path) for path, match in found if match]
        return [path for _, _, path in sorted(named, reverse=True)]
