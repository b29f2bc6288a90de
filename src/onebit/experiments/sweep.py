"""`onebit.sweep`: choose among a grid of settings on tuning streams, and test the choice on fresh streams.

The lowest of many noisy means is too low, so the error at which a setting was chosen says little about it. The chosen setting is
therefore run again, with seeds that were not used for the choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.contract.parameters import named_parameters, require_known
from onebit.contract.validation import MAX_RUNS, checked_count, checked_seed
from onebit.data.streams import Stream, stream, stream_parameters
from onebit.experiments.drawing import describe_score, draw_sweep
from onebit.experiments.grid import Grid, is_numeric
from onebit.experiments.pages import sweep_page
from onebit.experiments.report import Page
from onebit.experiments.report.figures import draw_figure
from onebit.experiments.report.html import save_page
from onebit.experiments.runner import TrialCollector, check_failures, describe_failures, run_experiment
from onebit.experiments.statistics import Summary
from onebit.experiments.trials import Progress, Trial
from onebit.experiments.trials.cost import Cost, format_count
from onebit.experiments.trials.records import Record, frame

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

TUNING_RUNS, FRESH_RUNS = 3, 10
FRESH_SEED_OFFSET = 1_000_000  # distance of the fresh seeds from the tuning seeds


@dataclass(frozen=True)
class Sweep:
    """The result of `onebit.sweep`.

    `summaries` has one entry per setting of the grid, None if a run of it failed or was not finished.
    """

    grid: Grid
    stream: Stream
    summaries: list[Summary | None]
    chosen: int | None
    fresh: Summary | None
    failures: list[Record]
    runs: int
    fresh_runs: int
    seed: int
    command: str
    folder: Path | None = field(repr=False)
    cost: Cost = field(default_factory=Cost)

    @property
    def best(self) -> dict[str, Any] | None:
        """The setting with the lowest mean error (or highest mean reward) in tuning; None without one."""
        if self.chosen is None:
            return None
        return dict(zip(self.grid.axes, self.grid.points[self.chosen], strict=True))

    @property
    def fresh_seed(self) -> int:
        """The first seed of the fresh streams."""
        return self.seed + FRESH_SEED_OFFSET

    def __repr__(self) -> str:
        confirmation = "" if self.fresh is None else f", {describe_score(self.fresh)} on fresh streams"
        failures = f"; {describe_failures(self.failures)}" if self.failures else ""
        settings = f"{format_count(len(self.grid.entries), 'setting')}; best {self.best}{confirmation}{failures}"
        return f"Sweep({self.grid.rule.name} on {self.stream.name}, {settings})"

    def save(self, folder: str | Path | None = None) -> Path:
        """Write the page and its figures and return the path of the page.

        `folder` defaults to the folder that holds the records of the runs.
        """
        return save_page(self.page(), folder or self.folder)

    def frame(self) -> pandas.DataFrame:
        """Return all runs as a pandas data frame, one row per run.

        Runs whose seeds are at least 1,000,000 above the first seed are those on fresh streams.
        """
        summaries = [*self.summaries, self.fresh]
        records = [record for summary in summaries if summary is not None for record in summary.records]
        return frame(records + self.failures)

    def to_dict(self) -> dict[str, Any]:
        """Return the sweep as plain values, as printed by `onebit sweep --json`."""
        return {
            "learner": self.grid.rule.name,
            "data": self.stream.name,
            "stream": self.stream.described(),
            "grid": self.grid.axes,
            "runs": self.runs,
            "seed": self.seed,
            "best": self.best,
            "tuning_error": None if self.chosen is None else self._score(self.chosen)["error"],
            "fresh": None if self.fresh is None else self.fresh.to_dict(),
            "settings": [
                {**dict(zip(self.grid.axes, point, strict=True)), **self._score(position)}
                for position, point in enumerate(self.grid.points)
            ],
            "failures": [record.failure_to_dict() for record in self.failures],
            "effort": self.cost.to_dict(),
        }

    def _score(self, position: int) -> dict[str, dict[str, float | None] | None]:
        """Return a setting's error, and its reward if there are rewards, as plain values."""
        summary = self.summaries[position]
        if summary is None:
            return {"error": None}
        reward = {"reward": summary.reward.to_dict()} if summary.rewarded else {}
        return {"error": summary.error.to_dict(), **reward}

    def plot(self) -> Figure:
        """Plot the sensitivity curve of one parameter, or the heat map of two, with matplotlib."""
        return draw_figure(draw_sweep(self))

    def page(self) -> Page:
        """Build the result page: the chosen setting's result on fresh streams, figures, all settings."""
        return sweep_page(self)

    def edges(self) -> list[str]:
        """Return the parameters whose chosen value is at an end of the grid."""
        assert self.best is not None
        numeric = {name: values for name, values in self.grid.axes.items() if is_numeric(values) and len(values) > 2}
        return [name for name, values in numeric.items() if self.best[name] in (min(values), max(values))]


def sweep(
    learner: Any,
    X: Any,
    y: Any = None,
    *,
    grid: Mapping[str, object],
    options: Mapping[str, Any] | None = None,
    runs: int = TUNING_RUNS,
    fresh_runs: int = FRESH_RUNS,
    seed: int = 0,
    out: str | Path | None = None,
    on: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
    command: str = "",
    **settings: Any,
) -> Sweep:
    """Run a rule with every setting of a grid, and run the best setting again on fresh streams.

    The best setting has the lowest error, or the highest mean reward where the stream has rewards. `grid` has the values of each parameter, a
    list or a text such as "0.001..0.3:log:8"; `options` are the other parameters. `X`, `y`, `out` and `on` mean the same as in `onebit.compare`,
    and the side effects are the same.

    >>> import onebit
    >>> tuned = onebit.sweep("bpa", "synsep9", grid={"aggressiveness": [0.01, 1.0]}, rounds=500, runs=2, fresh_runs=2)
    >>> tuned.best
    {'aggressiveness': 1.0}
    """
    checked_count("runs", runs, MAX_RUNS)
    checked_count("fresh_runs", fresh_runs, MAX_RUNS)
    checked_seed(seed)
    require_known("a sweep", settings, {**named_parameters(sweep), **stream_parameters()})
    cells = Grid(learner, grid, options or {})
    streamed = stream(X, y, **settings)
    tuning_seeds = range(seed, seed + runs)
    fresh_seeds = range(seed + FRESH_SEED_OFFSET, seed + FRESH_SEED_OFFSET + fresh_runs)
    chosen: int | None = None

    trials = [Trial(entry, streamed, run_seed) for entry in cells.entries for run_seed in tuning_seeds]

    def tune_and_confirm(collector: TrialCollector) -> None:
        nonlocal chosen
        collector.collect(trials)
        summaries = [collector.summary(entry, streamed, tuning_seeds) for entry in cells.entries]
        means = [math.inf if summary is None else summary.loss.mean for summary in summaries]
        if min(means) < math.inf:
            chosen = means.index(min(means))
            fresh_trials = [Trial(cells.entries[chosen], streamed, run_seed) for run_seed in fresh_seeds]
            trials.extend(fresh_trials)
            collector.collect(fresh_trials)

    def build_sweep(collector: TrialCollector) -> Sweep:
        summaries = [collector.summary(entry, streamed, tuning_seeds) for entry in cells.entries]
        fresh = None if chosen is None else collector.summary(cells.entries[chosen], streamed, fresh_seeds)
        failures, folder, cost = collector.failures(trials), collector.folder, collector.cost
        return Sweep(cells, streamed, summaries, chosen, fresh, failures, runs, fresh_runs, seed, command, folder, cost)

    result = run_experiment(tune_and_confirm, build_sweep, out, on, threads, progress)
    check_failures(result.failures, len(trials))
    return result
