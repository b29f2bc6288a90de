"""`onebit.compare`: several learners on the same streams, sorted by error, with intervals and differences in pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.data.streams import Stream, stream
from onebit.errors import OnebitError
from onebit.experiments.drawing import curves_of, failure_table, number
from onebit.experiments.effort import Effort
from onebit.experiments.gathering import Gathered, Interrupted, Standing, facts, gather, whose_speed
from onebit.experiments.places import place_of
from onebit.experiments.rows import Row, Rows, frame
from onebit.experiments.run import Stopped
from onebit.experiments.saving import save_page
from onebit.experiments.statistics import Estimate
from onebit.experiments.trial import Entry, Progress, Trial, counted, entry_of
from onebit.learner import Learner
from onebit.names import checked_seed
from onebit.report.parts import EVERY_LABEL, ONE_BIT, Column, Number, Page, Part, Section, Table, Text
from onebit.report.parts import Row as TableRow
from onebit.report.tables import table_html
from onebit.rules import registry

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

AGGRESSIVENESS = (0.001, 1.0)  # tried beside the default where nothing is said
RUNS = 5


@dataclass(frozen=True)
class Scene:
    """One stream, and how the learners did on it: lowest error first."""

    stream: Stream
    standings: list[Standing]
    failures: list[Row]

    @property
    def best(self) -> Standing | None:
        """The learner with the lowest error among those that hear one bit, or among all where none does."""
        honest = [one for one in self.standings if not one.hears_labels]
        return next(iter(honest or self.standings), None)

    def difference(self, one: Standing) -> Estimate:
        """How much more a learner errs than the best, run by run."""
        assert self.best is not None
        return one.difference(self.best)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        standings = [{**one.to_dict(), "difference_to_best": self.difference(one).to_dict()} for one in self.standings]
        failures = [{name: row.fields[name] for name in ("learner", "options", "seed", "why")} for row in self.failures]
        return {
            "data": self.stream.name,
            "stream": self.stream.described(),
            "standings": standings,
            "failures": failures,
        }


@dataclass(frozen=True)
class Comparison:
    """What a comparison gave: a scene for each stream."""

    scenes: list[Scene]
    runs: int
    seed: int
    command: str
    folder: Path | None = field(repr=False)
    effort: Effort

    def __getitem__(self, place: int | str) -> Scene:
        """A scene by its place or by the name of its data."""
        if isinstance(place, int):
            return self.scenes[place]
        for scene in self.scenes:
            if place in (scene.stream.name, scene.stream.source.name):
                return scene
        raise OnebitError(f"there is no {place!r} in this comparison")

    def __repr__(self) -> str:
        said = [f"{scene.stream.name}: {scene.best.entry.title if scene.best else 'none'}" for scene in self.scenes]
        return f"Comparison({self.runs} runs; best on {'; '.join(said)})"

    def _repr_html_(self) -> str:
        """The tables, for a notebook."""
        return "".join(f"<h4>{escape(scene.stream.name)}</h4>{table_html(self._table(scene))}" for scene in self.scenes)

    def save(self, folder: str | Path | None = None) -> Path:
        """Write the page and its figures into a folder, by itself the one that the runs are kept in; the path of the page."""
        if folder is None and self.folder is None:
            raise OnebitError("this comparison has no folder of its own: name one to save it in")
        return save_page(self.page(), folder or self.folder or "")

    @property
    def failures(self) -> list[Row]:
        """The runs that failed."""
        return [row for scene in self.scenes for row in scene.failures]

    def frame(self) -> pandas.DataFrame:
        """All runs as a pandas frame, one line a run."""
        return frame([row for scene in self.scenes for one in scene.standings for row in one.rows] + self.failures)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, as `onebit compare --json` prints it."""
        return {
            "runs": self.runs,
            "seed": self.seed,
            "data": [scene.to_dict() for scene in self.scenes],
            "effort": self.effort.to_dict(),
        }

    def plot(self, data: int | str = 0, measure: str = "played", logarithmic: bool = False) -> Figure:
        """The error curves on one of the streams as a matplotlib figure."""
        from onebit.report.figures import figure

        scene = self[data]
        return figure(curves_of(scene.stream.name, scene.standings, logarithmic), measure)

    def page(self) -> Page:
        """The page: for each stream a table and the curves."""
        sections = [Section(scene.stream.name, self._parts(scene)) for scene in self.scenes]
        parts: Sequence[Part] = sections[0].parts if len(sections) == 1 else [*self._overview(), *sections]
        title = "Learners compared on " + ", ".join(scene.stream.name for scene in self.scenes)
        return Page(title, self.command, parts, facts(self.folder, self.effort))

    def _parts(self, scene: Scene) -> list[Part]:
        data = scene.stream
        text = [
            f"{self.runs} runs of {data.rounds:,} rounds, seeds {self.seed} to {self.seed + self.runs - 1}. All learners saw the "
            "same rows in the same order, with the same noise: differences are taken run by run. The intervals are 95 % "
            "intervals of the mean over runs (Student)."
        ]
        if data.about:
            text.append(f"{data.about}.")
        if data.source.fixed and data.order == "file":
            text.append(
                "The rows came in the order of the file in every run: intervals show the learners' own chance alone."
            )
        if data.source.note:
            text.append(data.source.note)
        parts: list[Part] = [Text(text)]
        if scene.standings:
            parts += [self._table(scene), curves_of(f"Error so far on {data.name}", scene.standings)]
        if scene.failures:
            parts.append(failure_table(scene.failures))
        return parts

    def _table(self, scene: Scene) -> Table:
        columns = [
            Column("learner"),
            Column("set"),
            Column("error, %", True, "labels played, exploration included"),
            Column("more than the best", True, "difference to the best learner that hears one bit, run by run"),
            Column("greedy, %", True, "labels that the learner thought best"),
            Column("million rounds/s", True, f"on {whose_speed(scene.standings)}"),
        ]
        rows = [
            TableRow(
                [
                    f"`{one.entry.rule.name}`",
                    one.entry.said,
                    number(one.error, bar=True),
                    Number(0.0, "best") if one is scene.best else number(scene.difference(one), signed=True),
                    number(one.greedy_error),
                    Number(one.rounds_per_second / 1e6, f"{one.rounds_per_second / 1e6:.1f}"),
                ],
                EVERY_LABEL if one.hears_labels else ONE_BIT,
            )
            for one in sorted(scene.standings, key=lambda one: one.hears_labels)
        ]
        return Table(f"Errors on {scene.stream.name}", columns, rows, "lowest error first; click a head to sort")

    def _overview(self) -> list[Part]:
        """Every learner on every stream, where there are several."""
        entries = {one.entry.title: one for scene in self.scenes for one in scene.standings}
        columns = [Column("learner"), *(Column(scene.stream.name, True) for scene in self.scenes)]
        rows = []
        for title, sample in sorted(entries.items(), key=lambda item: item[1].hears_labels):
            cells: list[Any] = [title]
            for scene in self.scenes:
                found = next((one for one in scene.standings if one.entry.title == title), None)
                cells.append(Number(None, "") if found is None else number(found.error, bar=True))
            rows.append(TableRow(cells, EVERY_LABEL if sample.hears_labels else ONE_BIT))
        return [Table("All data at a glance: error, %", columns, rows)]


def usual_entries() -> list[Entry]:
    """Every learner as it comes, and those whose aggressiveness caps a step also with a small and with a large one."""
    entries = []
    for name, rule in registry().items():
        entries.append(entry_of(name))
        default = rule.defaults.get("aggressiveness")
        if default is not None and "variant" in rule.parameters:  # PAB's caps nothing: with 1 it seldom settles
            entries += [entry_of(name, {"aggressiveness": tried}) for tried in AGGRESSIVENESS if tried != default]
    return entries


def compare(
    data: Any,
    learners: Iterable[Any] | None = None,
    *,
    runs: int = RUNS,
    seed: int = 0,
    out: str | Path | None = None,
    on: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
    command: str = "",
    **settings: Any,
) -> Comparison:
    """Run learners on the same streams and compare their errors.

    `data` is what `onebit.stream` takes (a name, a path, a stream, or a pair of rows and labels), or a list of those; the rows of files and arrays are
    shuffled unless `order` says otherwise. `learners` are names, learner classes or rules, or pairs of one and its options; without
    them all take part. Where `out` names a folder, every run is kept there as soon as it is done, and not run again.
    `on` says where they run: `auto`, `threads` of this process, `gpu`, or a cluster: `dask`, `dask://host:port`, `ray`, `ray://host:port`.

    >>> import onebit
    >>> found = onebit.compare("synsep9", ["bpa", ("bpa", {"aggressiveness": 1})], rounds=500, runs=3)
    >>> [one.entry.title for one in found[0].standings]
    ['bpa, aggressiveness=1', 'bpa']
    """
    counted("runs", runs)
    checked_seed(seed)
    if isinstance(learners, str) or not isinstance(learners, Iterable | None):
        learners = [learners]
    entries = usual_entries() if learners is None else [_entry(one) for one in learners]
    if not entries:
        raise OnebitError("there are no learners to compare")
    if len({entry.title for entry in entries}) < len(entries):
        twice = [entry.title for entry in entries]
        raise OnebitError(f"{next(t for t in twice if twice.count(t) > 1)!r} is named twice; name each learner once")
    streams = [_stream(one, settings) for one in (data if isinstance(data, list) else [data])]
    if not streams:
        raise OnebitError("there are no data to compare on")
    keys = [one.key for one in streams]
    for one in streams:
        if keys.count(one.key) > 1:
            raise OnebitError(f"{one.name} is named twice; name each data set once")
    seeds = range(seed, seed + runs)
    trials = [Trial(entry, one, each) for one in streams for each in seeds for entry in entries]

    def result(gathered: Gathered, folder: Path | None) -> Comparison:
        scenes = []
        for one in streams:
            standings, failures = [], []
            for entry in entries:
                found = gathered.of(Trial(entry, one, each) for each in seeds)
                good = [row for row in found if not row.failed]
                failures += [row for row in found if row.failed]
                if good and len(good) == len(found):
                    standings.append(Standing(entry, good))
            scenes.append(Scene(one, sorted(standings, key=lambda standing: standing.error.mean), failures))
        return Comparison(scenes, runs, seed, command, folder, gathered.effort)

    with closing(place_of(on, threads)) as place, closing(Rows(out)) as rows:
        try:
            return result(gather(trials, rows, place, progress), rows.folder)
        except Interrupted as stopped:
            raise Stopped(result(stopped.gathered, rows.folder)) from None


def _entry(given: Any) -> Entry:
    learner, options = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
    if isinstance(learner, Learner):
        raise OnebitError("a comparison starts every learner anew: name its class and its options instead")
    return entry_of(learner, options)


def _stream(given: Any, settings: dict[str, Any]) -> Stream:
    X, y = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    return stream(X, y, usual_order="shuffle", **settings)
