"""Run the trials of an experiment that have no row yet, and what goes onto every page: command, versions, machine."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Hashable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.streams import Stream
from onebit.experiments.effort import NOTHING, Effort, kind_of
from onebit.experiments.ground import by_ground
from onebit.experiments.places import Place
from onebit.experiments.places.threads import processor
from onebit.experiments.rows import Row, Rows
from onebit.experiments.statistics import Estimate, estimate
from onebit.experiments.trial import CPU, Entry, Progress, Trial, cores
from onebit.version import VERSION


class Gathered:
    """The rows of some trials, and what they took."""

    def __init__(self, rows: dict[str, Row] | None = None, effort: Effort = NOTHING) -> None:
        self._rows = rows or {}
        self.effort = effort

    def of(self, trials: Iterable[Trial]) -> list[Row]:
        """Those of these trials that were run, failed or not, in their order."""
        return [self._rows[trial.identity] for trial in trials if trial.identity in self._rows]

    def failures(self, trials: Iterable[Trial]) -> list[Row]:
        """Those of these trials that failed."""
        return [row for row in self.of(trials) if row.failed]

    def standing(self, entry: Entry, stream: Stream, seeds: range) -> Standing | None:
        """How a learner did with all of these seeds; None where a run failed or was not done."""
        rows = self.of(Trial(entry, stream, seed) for seed in seeds)
        whole = len(rows) == len(seeds) and not any(row.failed for row in rows)
        return Standing(entry, rows) if whole else None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; `gathered` has what was done by then."""

    def __init__(self, gathered: Gathered) -> None:
        super().__init__("stopped")
        self.gathered = gathered


def gather(trials: Iterable[Trial], rows: Rows, place: Place, progress: Progress | None) -> Gathered:
    """The rows of these trials; those that are not there yet are run, and kept as soon as they are done."""
    report = progress or (lambda count: None)
    found: dict[str, Row] = {}
    waiting: dict[str, Trial] = {}
    for trial in trials:
        row = rows.get(trial)
        if row is not None:
            found[trial.identity] = row
            report(trial.stream.rounds)
        elif trial.identity not in waiting or trial.curve:  # where two ask for the same, the one that wants more
            waiting[trial.identity] = trial
    new: dict[str, Row] = {}
    already, started = len(found), time.perf_counter()

    def effort(measured: bool) -> Effort:
        done = [(waiting[identity], row) for identity, row in new.items() if not row.failed]
        seconds = time.perf_counter() - started if new else 0.0
        rounds = sum(trial.stream.rounds for trial, _ in done)
        return Effort(place.where, rounds, seconds, _core_seconds(done, place if measured else None), already)

    try:
        with closing(place.run(by_ground(waiting.values()), report)) as come:
            for row in come:
                if row.fields["id"] not in new:  # what a lost worker had done may come twice
                    new[row.fields["id"]] = rows.add(row)
        return Gathered({**found, **new}, effort(measured=True))
    except KeyboardInterrupt:
        raise Interrupted(Gathered({**found, **new}, effort(measured=False))) from None


def _core_seconds(done: Sequence[tuple[Trial, Row]], place: Place | None) -> float | None:
    """How long one core would have been at these runs: those of a CPU say so, of others the place measures one of a kind."""
    total = float(sum(row.fields["seconds"] for _, row in done if row.on == CPU))
    rounds: dict[Hashable, int] = {}
    samples: dict[Hashable, Trial] = {}
    for trial, row in done:
        if row.on != CPU:
            kind = kind_of(trial)
            samples.setdefault(kind, trial)
            rounds[kind] = rounds.get(kind, 0) + trial.stream.rounds
    for kind, trial in samples.items():
        rate = place.core_rate(trial) if place is not None else None
        if rate is None:
            return None
        total += rounds[kind] / rate
    return total


@dataclass(frozen=True)
class Standing:
    """How one learner did in the runs that were done: errors are fractions, one for each run."""

    entry: Entry
    rows: list[Row]

    @property
    def runs(self) -> int:
        """How many runs were done."""
        return len(self.rows)

    @property
    def errors(self) -> NDArray[np.float64]:
        """The error of the labels played in each run."""
        return np.array([row.error for row in self.rows])

    @property
    def error(self) -> Estimate:
        """The mean error of the labels played, with its interval."""
        return estimate(self.errors)

    @property
    def greedy_error(self) -> Estimate:
        """The mean error of the labels that the learner thought best, with its interval."""
        return estimate(np.array([row.greedy_error for row in self.rows]))

    @property
    def hears_labels(self) -> bool:
        """Whether it was told the class in every round."""
        return self.rows[0].hears == "the label"

    @property
    def rounds_per_second(self) -> float:
        """In the loop alone: on one core, or with a GPU's share of the time that it took for all its runs."""
        rounds = sum(row.rounds for row in self.rows)
        return rounds / max(1e-9, float(sum(row.fields["seconds"] for row in self.rows)))

    @property
    def on(self) -> list[str]:
        """What it ran on: `CPU`, the names of GPUs."""
        return list(dict.fromkeys(row.on for row in self.rows))

    def difference(self, other: Standing, measure: str = "played") -> Estimate:
        """How much more it errs than another on the same streams, run by run, with the interval of that."""
        name = "error" if measure == "played" else "greedy_error"
        others = {row.fields["seed"]: row.fields[name] for row in other.rows}
        pairs = [(row.fields[name], others[row.fields["seed"]]) for row in self.rows if row.fields["seed"] in others]
        return estimate(np.array([mine - its for mine, its in pairs]))

    def curve(self, measure: str) -> NDArray[np.float64]:
        """The errors so far, one row for each run."""
        return np.stack([row.curve(measure) for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "learner": self.entry.rule.name,
            "options": self.entry.options,
            "hears": self.rows[0].hears,
            "runs": self.runs,
            "error": self.error.to_dict(),
            "greedy_error": self.greedy_error.to_dict(),
            "errors": self.errors.tolist(),
            "rounds_per_second": self.rounds_per_second,
        }


def whose_speed(standings: Iterable[Standing]) -> str:
    """Of what the rounds a second of these are, for the head of their column."""
    devices = dict.fromkeys(device for one in standings for device in one.on)
    return " or ".join("one core" if one == CPU else f"{one}, its share of the time" for one in devices)


def facts(folder: Path | None, effort: Effort | None = None) -> dict[str, str]:
    """What a reader needs to know to repeat it: versions, machine, what it took, where the rows are."""
    versions = [f"onebit {VERSION}", f"Python {platform.python_version()}"]
    for package in ("numpy", "numba"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # installed in a way that leaves no record
            continue
    found = {"versions": ", ".join(versions), "machine": f"{processor()}, {cores()} cores, {sys.platform}"}
    if effort is not None and effort.said:
        found["ran on"] = effort.said
    if folder is not None:
        found["rows"] = "rows.jsonl, beside this page: one line a run"
    return found
