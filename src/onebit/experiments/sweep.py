"""`onebit.sweep`: a rule over a grid of settings. The choice is made on tuning streams, and reported on fresh ones.

The lowest of many noisy means is too low, so the error at which a setting was chosen says little about it. The setting chosen is
therefore run again, with seeds that the choice has not seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onebit.data.streams import Stream, stream
from onebit.errors import OnebitError
from onebit.experiments.drawing import band, curves_of, failure_table, number, percent
from onebit.experiments.effort import NOTHING, Effort
from onebit.experiments.gathering import Gathered, Interrupted, Standing, facts, gather
from onebit.experiments.grid import Grid
from onebit.experiments.places import place_of
from onebit.experiments.rows import Row, Rows, frame
from onebit.experiments.run import Stopped
from onebit.experiments.saving import save_page
from onebit.experiments.trial import Progress, Trial, counted, shown
from onebit.names import checked_seed
from onebit.report.parts import Band, Column, Curves, HeatMap, Number, Page, Part, Series, Table, Text

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

TUNING_RUNS, FRESH_RUNS = 3, 10
FRESH = 1_000_000  # the fresh seeds begin so far above the tuning seeds
MOST_ROWS = 500  # of settings in the table of a page


@dataclass(frozen=True)
class Sweep:
    """What a sweep gave. `standings` has a place for each setting of the grid, None where a run failed or was not done."""

    grid: Grid
    stream: Stream
    standings: list[Standing | None]
    chosen: int | None
    fresh: Standing | None
    failures: list[Row]
    runs: int
    fresh_runs: int
    seed: int
    command: str
    folder: Path | None = field(repr=False)
    effort: Effort = NOTHING

    @property
    def best(self) -> dict[str, Any] | None:
        """The setting with the lowest mean error on the tuning streams, or None where none was run whole."""
        if self.chosen is None:
            return None
        return dict(zip(self.grid.axes, self.grid.points[self.chosen], strict=True))

    def __repr__(self) -> str:
        fresh = "" if self.fresh is None else f", {percent(self.fresh.error)} % on fresh streams"
        return f"Sweep({self.grid.rule.name} on {self.stream.name}, {len(self.grid.entries)} settings; best {self.best}{fresh})"

    def save(self, folder: str | Path | None = None) -> Path:
        """Write the page and its figures into a folder, by itself the one that the runs are kept in; the path of the page."""
        if folder is None and self.folder is None:
            raise OnebitError("this sweep has no folder of its own: name one to save it in")
        return save_page(self.page(), folder or self.folder or "")

    def frame(self) -> pandas.DataFrame:
        """All runs as a pandas frame, one line a run; those with seeds from 1,000,000 above the first on are the fresh ones."""
        standings = [*self.standings, self.fresh]
        return frame([row for one in standings if one is not None for row in one.rows] + self.failures)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, as `onebit sweep --json` prints it."""
        return {
            "learner": self.grid.rule.name,
            "data": self.stream.name,
            "stream": self.stream.described(),
            "grid": self.grid.axes,
            "runs": self.runs,
            "seed": self.seed,
            "best": self.best,
            "tuning_error": None if self.chosen is None else self._at(self.chosen),
            "fresh": None if self.fresh is None else self.fresh.to_dict(),
            "settings": [
                {**dict(zip(self.grid.axes, point, strict=True)), "error": self._at(place)}
                for place, point in enumerate(self.grid.points)
            ],
            "failures": [{name: row.fields[name] for name in ("options", "seed", "why")} for row in self.failures],
            "effort": self.effort.to_dict(),
        }

    def _at(self, place: int) -> dict[str, float | None] | None:
        found = self.standings[place]
        return None if found is None else found.error.to_dict()

    def plot(self) -> Figure:
        """The sensitivity curve of one parameter, or the heat map of two, as a matplotlib figure."""
        from onebit.report.figures import figure

        return figure(self.pictures()[0])

    # --- what is shown ---------------------------------------------------------------------------------------------

    def page(self) -> Page:
        """The page: the setting chosen and how it did on fresh streams, the pictures, all settings."""
        parts: list[Part] = [Text(self._words())]
        if self.chosen is not None:
            parts += self.pictures()
        if self.fresh is not None:
            parts.append(curves_of("The setting chosen, on fresh streams", [self.fresh]))
        parts.append(self._table())
        if self.failures:
            parts.append(failure_table(self.failures))
        title = f"{self.grid.rule.name} on {self.stream.name}: a sweep"
        return Page(title, self.command, parts, facts(self.folder, self.effort))

    def _words(self) -> list[str]:
        what = (
            "fresh orders of the same rows, and fresh chance of the learner"
            if self.stream.source.fixed
            else "rows drawn afresh"
        )
        if self.stream.source.fixed and self.stream.order == "file":
            what = "fresh chance of the learner alone, since the rows come in the order of the file"
        words = [
            f"{len(self.grid.entries)} settings, {self.runs} tuning runs of {self.stream.rounds:,} rounds each (seeds from {self.seed} "
            f"on). The setting with the lowest mean error on these was chosen, and then run on {self.fresh_runs} fresh streams (seeds "
            f"from {self.seed + FRESH} on: {what}). What counts is the fresh error: the lowest of many tuning errors is too low."
        ]
        if self.chosen is not None and self.best is not None:
            tuned = self.standings[self.chosen]
            assert tuned is not None
            line = f"Chosen: `{shown(self.best)}`. Error on the tuning streams {percent(tuned.error)} %"
            line += "." if self.fresh is None else f", on fresh streams {percent(self.fresh.error)} % (95 %)."
            words.append(line)
            edges = self.edges()
            if edges:
                words.append(
                    f"The choice lies on the edge of the grid for {', '.join(edges)}: a wider grid may do better."
                )
        return words

    def edges(self) -> list[str]:
        """The parameters whose value was chosen at the end of the grid."""
        assert self.best is not None
        numeric = {name: values for name, values in self.grid.axes.items() if _is_numeric(values) and len(values) > 2}
        return [name for name, values in numeric.items() if self.best[name] in (min(values), max(values))]

    def pictures(self) -> list[Curves | HeatMap]:
        """One parameter: its sensitivity curve. More: a heat map of the two with most values, the others as chosen."""
        assert self.best is not None
        names = sorted(self.grid.axes, key=lambda name: -len(self.grid.axes[name]))
        if len(names) > 1 and len(self.grid.axes[names[1]]) > 1:
            return [self._heat_map(*sorted(names[:2], key=list(self.grid.axes).index))]
        values = self.grid.axes[names[0]]
        if not _is_numeric(values):
            return [self._heat_map(names[0], None)]
        return [self._sensitivity(names[0])]

    def _standing(self, point: Mapping[str, Any]) -> Standing | None:
        return self.standings[self.grid.places[tuple(point[name] for name in self.grid.axes)]]

    def _sensitivity(self, name: str) -> Curves:
        assert self.best is not None
        values = sorted(self.grid.axes[name])
        found = [self._standing({**self.best, name: value}) for value in values]
        kept = [(value, one) for value, one in zip(values, found, strict=True) if one is not None]
        series = Series(
            self.grid.rule.name,
            {
                "played": _joined([band(one.errors[:, None]) for _, one in kept]),
                "greedy": _joined([band(np.array([[row.greedy_error] for row in one.rows])) for _, one in kept]),
            },
        )
        logarithmic = bool(values[0] > 0 and values[-1] / values[0] > 20)
        return Curves(
            f"How the error depends on {name}", [value for value, _ in kept], name, "error, %", [series], logarithmic
        )

    def _heat_map(self, y_name: str, x_name: str | None) -> HeatMap:
        assert self.best is not None
        y_values = self.grid.axes[y_name]
        x_values = [""] if x_name is None else self.grid.axes[x_name]
        values: list[list[float | None]] = []
        text: list[list[str]] = []
        for y in y_values:
            across = {} if x_name is None else {x_name: None}
            found = [self._standing({**self.best, y_name: y, **dict.fromkeys(across, x)}) for x in x_values]
            values.append([None if one is None else 100 * one.error.mean for one in found])
            text.append(["failed" if one is None else f"{100 * one.error.mean:.1f}" for one in found])
        column = 0 if x_name is None else x_values.index(self.best[x_name])
        others = {name: value for name, value in self.best.items() if name not in (y_name, x_name)}
        note = "mean error on the tuning streams, %" + (f"; {shown(others)} as chosen" if others else "")
        title = f"Error over {y_name}" + (f" and {x_name}" if x_name else "")
        return HeatMap(
            title,
            x_name or "",
            _axis(x_values),
            y_name,
            _axis(y_values),
            values,
            text,
            (y_values.index(self.best[y_name]), column),
            note,
        )

    def _table(self) -> Table:
        names = list(self.grid.axes)
        columns = [*(Column(name, _is_numeric(self.grid.axes[name])) for name in names), Column("error, %", True)]
        columns.append(Column("greedy, %", True))
        ranked = sorted(
            ((one, point) for one, point in zip(self.standings, self.grid.points, strict=True) if one is not None),
            key=lambda pair: pair[0].error.mean,
        )
        rows = [
            [*(_cell(value) for value in point), number(one.error, bar=True), number(one.greedy_error)]
            for one, point in ranked[:MOST_ROWS]
        ]
        note = f"the {MOST_ROWS} best of {len(ranked)}; rows.jsonl has all" if len(ranked) > MOST_ROWS else ""
        return Table("All settings, on the tuning streams", columns, rows, note)


def _axis(values: Sequence[Any]) -> list[float | str]:
    return [value if isinstance(value, float | int) else str(value) for value in values]


def _cell(value: Any) -> Any:
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return Number(float(value), f"{value:g}") if is_number else str(value)


def _joined(bands: Sequence[Band]) -> Band:
    """The bands of single points as one."""
    mean = [one.mean[0] for one in bands]
    if not bands or bands[0].low is None:
        return Band(mean)
    return Band(mean, [one.low[0] for one in bands if one.low], [one.high[0] for one in bands if one.high])


def _is_numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, float | int) and not isinstance(value, bool) for value in values)


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
    """Run a rule with every setting of a grid, choose the one with the lowest error, and run that on fresh streams.

    `grid` has the values of each parameter, a list or a text such as "0.001..0.3:log:8"; `options` are the other parameters. The data are
    as for `onebit.compare`, and so are `out`, where what is there is not run again, and `on`, which says where they run.

    >>> import onebit
    >>> found = onebit.sweep("bpa", "synsep9", grid={"aggressiveness": [0.01, 1.0]}, rounds=500, runs=2, fresh_runs=2)
    >>> found.best
    {'aggressiveness': 1.0}
    """
    counted("runs", runs)
    counted("fresh_runs", fresh_runs)
    checked_seed(seed)
    cells = Grid(learner, grid, options or {})
    streamed = stream(X, y, usual_order="shuffle", **settings)
    tuning, afresh = range(seed, seed + runs), range(seed + FRESH, seed + FRESH + fresh_runs)
    tuned = Gathered()
    chosen: int | None = None

    def result(fresh: Gathered, folder: Path | None) -> Sweep:
        standings = [tuned.standing(entry, streamed, tuning) for entry in cells.entries]
        failures = tuned.failures(Trial(entry, streamed, each) for entry in cells.entries for each in tuning)
        again = None
        if chosen is not None:
            again = fresh.standing(cells.entries[chosen], streamed, afresh)
            failures += fresh.failures(Trial(cells.entries[chosen], streamed, each) for each in afresh)
        effort = tuned.effort + fresh.effort
        return Sweep(
            cells, streamed, standings, chosen, again, failures, runs, fresh_runs, seed, command, folder, effort
        )

    with closing(place_of(on, threads)) as place, closing(Rows(out)) as rows:
        try:
            trials = [Trial(entry, streamed, each) for each in tuning for entry in cells.entries]
            tuned = gather(trials, rows, place, progress)
            found = [tuned.standing(entry, streamed, tuning) for entry in cells.entries]
            means = [math.inf if one is None else one.error.mean for one in found]
            if min(means) == math.inf:
                return result(Gathered(), rows.folder)
            chosen = means.index(min(means))
            trials = [Trial(cells.entries[chosen], streamed, each) for each in afresh]
            return result(gather(trials, rows, place, progress), rows.folder)
        except Interrupted as stopped:
            fresh = Gathered()
            if chosen is None:
                tuned = stopped.gathered
            else:
                fresh = stopped.gathered
            raise Stopped(result(fresh, rows.folder)) from None
