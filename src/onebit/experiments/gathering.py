"""Run the trials of an experiment that have no row yet, and what goes onto every page: command, versions, machine."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.streams import Stream
from onebit.experiments.rows import Row, Rows
from onebit.experiments.statistics import Estimate, estimate
from onebit.experiments.trial import Entry, Progress, Trial, cores, counted, execute
from onebit.version import VERSION


class Gathered:
    """The rows of some trials."""

    def __init__(self, rows: dict[str, Row]) -> None:
        self._rows = rows

    def of(self, trials: Iterable[Trial]) -> list[Row]:
        """Those of these trials that were run, failed or not, in their order."""
        return [self._rows[trial.identity] for trial in trials if trial.identity in self._rows]

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


def gather(trials: Iterable[Trial], rows: Rows, threads: int | None, progress: Progress | None) -> Gathered:
    """The rows of these trials; those that are not there yet are run, and kept as soon as they are done."""
    report = progress or (lambda count: None)
    found: dict[str, Row] = {}
    waiting: dict[tuple[str, int], dict[str, Trial]] = {}  # by stream and seed, which share their rows
    for trial in trials:
        row = rows.get(trial)
        if row is not None:
            found[trial.identity] = row
            report(trial.stream.rounds)
        else:
            waiting.setdefault((trial.stream.key, trial.seed), {})[trial.identity] = trial
    groups = [list(group.values()) for group in waiting.values()]
    try:
        count = cores() if threads is None else counted("threads", threads)
        with closing(execute(groups, count, report)) as outcomes:
            for outcome in outcomes:
                found[outcome.trial.identity] = rows.add(outcome)
    except KeyboardInterrupt:
        raise Interrupted(Gathered(found)) from None
    return Gathered(found)


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
        """On one core, in the loop alone."""
        rounds = sum(int(row.marks[-1]) for row in self.rows)
        return rounds / max(1e-9, float(sum(row.fields["seconds"] for row in self.rows)))

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


def facts(folder: Path | None) -> dict[str, str]:
    """What a reader needs to know to repeat it: versions, machine, where the rows are."""
    versions = [f"onebit {VERSION}", f"Python {platform.python_version()}"]
    for package in ("numpy", "numba"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # installed in a way that leaves no record
            continue
    found = {"versions": ", ".join(versions), "machine": f"{_processor()}, {cores()} cores, {sys.platform}"}
    if folder is not None:
        found["rows"] = "rows.jsonl, beside this page: one line a run"
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
