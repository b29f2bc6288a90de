"""`onebit.reproduce`: a paper's tables and figures, with its data, parameters and number of runs; published beside measured."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onebit.data.sources import Source, source_of
from onebit.data.streams import Stream, stream
from onebit.errors import OnebitError
from onebit.executors import executor_of
from onebit.experiments.drawing import curves_of, percent
from onebit.experiments.grid import Grid, axis_of
from onebit.experiments.pages import sweep_pictures
from onebit.experiments.run import Stopped, run
from onebit.experiments.runner import Collected, Interrupted, collect
from onebit.experiments.statistics import Estimate
from onebit.experiments.summary import Summary
from onebit.experiments.sweep import Sweep
from onebit.papers.paper import Claim, Item, PaperData, PaperLearner, paper_named
from onebit.papers.verdicts import (
    DIFFERS,
    FAILED,
    MISSING,
    REPRODUCED,
    SHOWN,
    UNDECIDED,
    VACUOUS,
    ItemResult,
    Reproduction,
    Verdict,
)
from onebit.regions import regions_of
from onebit.report.parts import Curves, HeatMap, Part, Scatter, Section
from onebit.trials.records import Records
from onebit.trials.trial import ComparisonEntry, Progress, Trial, entry_of, shown

if TYPE_CHECKING:
    from onebit.theory.mistakes import Kept

QUICK_RUNS = 2
POINTS = 3000  # of a scatter

# --- an item at work ----------------------------------------------------------------------------------------------------


class _Streams:
    """The streams of a paper; data that are not to be had are asked for once."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._sources: dict[tuple[str, str], Source | OnebitError] = {}

    def of(self, item: Item, data: PaperData) -> Stream | OnebitError:
        settings = dict(data.settings)
        prepare = settings.pop("prepare", ())
        key = data.source, str(prepare)
        if key not in self._sources:
            try:
                self._sources[key] = source_of(data.source, prepare=prepare, progress=self._progress)
            except OnebitError as error:
                self._sources[key] = error
        source = self._sources[key]
        if isinstance(source, OnebitError):
            return source
        if settings.pop("same_rows", False):
            source = source_of(data.source, prepare=prepare, same_rows=True)
        return stream(source, rounds=settings.pop("rounds", item.rounds), **settings)


class _Work(ABC):
    """An item at work: the trials it needs, and what came of them."""

    def __init__(self, item: Item, streams: _Streams, quick: bool) -> None:
        self.item, self.runs = item, min(item.runs, QUICK_RUNS) if quick else item.runs
        self.streams = {data.name: streams.of(item, data) for data in item.data}

    def trials(self) -> list[Trial]:
        """What is to be run and kept; nothing where an item runs what it needs by itself."""
        return []

    @abstractmethod
    def result(self, collected: Collected) -> ItemResult:
        """The verdicts, and what is drawn."""


class _ErrorsWork(_Work):
    """An item that compares learners: curves, published errors, claims."""

    def __init__(self, item: Item, streams: _Streams, quick: bool) -> None:
        super().__init__(item, streams, quick)
        self.entries: dict[tuple[str, str], ComparisonEntry] = {}
        for learner in item.learners:
            for data in item.data:
                self.entries[learner.name, data.name] = entry_of(learner.rule, learner.options_on(data.name))

    def trials(self) -> list[Trial]:
        found = []
        for name, streamed in self.streams.items():
            if isinstance(streamed, Stream):
                entries = [self.entries[learner.name, name] for learner in self.item.learners]
                found += [Trial(entry, streamed, seed) for seed in range(self.runs) for entry in entries]
        return found

    def summary(self, collected: Collected, learner: str, data: str) -> Summary | str:
        """How a learner did, or in one of the words of a verdict why not."""
        streamed, entry = self.streams[data], self.entries[learner, data]
        if isinstance(streamed, OnebitError):
            return MISSING
        records = collected.of(Trial(entry, streamed, seed) for seed in range(self.runs))  # fewer after Ctrl-C
        return Summary(entry, records) if records and not any(record.failed for record in records) else FAILED

    def result(self, collected: Collected) -> ItemResult:
        verdicts = []
        parts: list[Part] = []
        for data in self.item.data:
            summaries, names = [], []
            for learner in self.item.learners:
                found = self.summary(collected, learner.name, data.name)
                verdicts.append(self._verdict(learner, data, found))
                if isinstance(found, Summary):
                    summaries.append(found)
                    names.append(learner.name)
            if summaries:
                parts.append(curves_of(data.name, summaries, names=names))
        verdicts += [self._claimed(claim, name, collected) for claim in self.item.claims for name in claim.data]
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _measure(self, found: Summary) -> Estimate:
        return found.error if self.item.measure == "played" else found.greedy_error

    def _verdict(self, learner: PaperLearner, data: PaperData, found: Summary | str) -> Verdict:
        published = learner.published.get(data.name)
        number = "" if published is None else f"{published:g}"
        why = learner.why.get(data.name, "") or data.why
        if isinstance(found, str):
            told = "some of its runs failed" if found == FAILED else str(self.streams[data.name])
            return Verdict(self.item.name, data.name, learner.name, number, None, "", found, told)
        measured = self._measure(found)
        if published is None:
            verdict = SHOWN
        elif abs(measured.mean - published / 100) <= self.item.tolerance / 100:
            verdict = REPRODUCED
        else:  # an interval that holds both says nothing
            verdict = UNDECIDED if measured.low <= published / 100 <= measured.high else DIFFERS
        told = "" if verdict == REPRODUCED else why
        return Verdict(self.item.name, data.name, learner.name, number, measured, percent(measured), verdict, told)

    def _claimed(self, claim: Claim, data: str, collected: Collected) -> Verdict:
        lower, higher = (self.summary(collected, name, data) for name in (claim.lower, claim.higher))
        for name, found in ((claim.lower, lower), (claim.higher, higher)):
            if isinstance(found, str):
                return Verdict(self.item.name, data, claim.text, "claimed", None, "", found, f"{name}: {found}")
        assert isinstance(lower, Summary)
        assert isinstance(higher, Summary)
        gain = higher.difference(lower, self.item.measure)
        if math.isnan(gain.low):
            verdict = REPRODUCED if gain.mean > 0 else DIFFERS
        else:
            verdict = REPRODUCED if gain.low > 0 else DIFFERS if gain.high < 0 else UNDECIDED
        said = f"{percent(self._measure(lower))} against {percent(self._measure(higher))}"
        told = claim.why.get(data, "") if verdict != REPRODUCED else ""
        return Verdict(self.item.name, data, claim.text, "claimed", gain, said, verdict, told)


class _GridWork(_Work):
    """An item that searches settings of each learner on each data set, to see whether the published ones are among the good ones."""

    def __init__(self, item: Item, streams: _Streams, quick: bool) -> None:
        super().__init__(item, streams, quick)
        self.runs = 1 if quick else item.runs
        self.grids: dict[tuple[str, str], Grid] = {}
        for learner in item.learners:
            for data in item.data:
                axes = {name: axis_of(name, values) for name, values in learner.grid.items()}
                for name, value in learner.chosen.get(data.name, {}).items():
                    axes[name] = axes[name] if value in axes[name] else sorted([*axes[name], value])
                self.grids[learner.name, data.name] = Grid(learner.rule, axes, learner.options_on(data.name))

    def trials(self) -> list[Trial]:
        return [
            Trial(entry, streamed, seed, curve=False)
            for name, streamed in self.streams.items()
            if isinstance(streamed, Stream)
            for seed in range(self.runs)
            for learner in self.item.learners
            for entry in self.grids[learner.name, name].entries
        ]

    def result(self, collected: Collected) -> ItemResult:
        verdicts: list[Verdict] = []
        parts: list[Part] = []
        for data in self.item.data:
            pictures: list[Part] = []
            for learner in self.item.learners:
                verdict, found = self._searched(learner, data, collected)
                verdicts.append(verdict)
                if found is not None:
                    of = data.name if len(self.item.learners) == 1 else learner.name
                    pictures += [self._titled(picture, of, verdict) for picture in sweep_pictures(found)]
            several = len(self.item.learners) > 1 and pictures
            parts += [Section(data.name, pictures)] if several else pictures
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _searched(self, learner: PaperLearner, data: PaperData, collected: Collected) -> tuple[Verdict, Sweep | None]:
        streamed, grid = self.streams[data.name], self.grids[learner.name, data.name]
        chosen = learner.chosen.get(data.name, {})
        failed = Verdict(self.item.name, data.name, learner.name, shown(chosen), None, "", FAILED)
        if isinstance(streamed, OnebitError):
            return replace(failed, verdict=MISSING, why=str(streamed)), None
        summaries = [collected.summary(entry, streamed, range(self.runs)) for entry in grid.entries]
        means = [math.inf if one is None else one.error.mean for one in summaries]
        best = means.index(min(means))
        lowest = summaries[best]
        if lowest is None:
            return failed, None
        found = Sweep(grid, streamed, summaries, best, None, [], self.runs, 0, 0, "", None)
        assert found.best is not None
        said = f"{percent(lowest.error)} at {shown(found.best)}"
        if not chosen:
            return replace(failed, measured=lowest.error, said=said, verdict=SHOWN), found
        published = summaries[grid.positions[tuple(chosen[name] for name in grid.axes)]]
        if published is None:
            return replace(failed, said=said), found
        near = published.error.mean - lowest.error.mean <= self.item.tolerance / 100
        verdict = replace(
            failed,
            measured=published.error,
            said=f"{percent(published.error)} there; {said}",
            verdict=REPRODUCED if near else DIFFERS,
            why="" if near else learner.why.get(data.name, "") or data.why,
        )
        return verdict, found

    def _titled(self, picture: Curves | HeatMap, of: str, verdict: Verdict) -> Curves | HeatMap:
        titled = replace(picture, title=f"{of}: {picture.title}")
        if isinstance(titled, Curves):
            return titled
        runs = "error of one run" if self.runs == 1 else f"mean error of {self.runs} runs"
        return replace(titled, note=f"{runs}, %" + (f"; published: {verdict.published}" if verdict.published else ""))


class _ScatterWork(_Work):
    """An item that draws data in the plane."""

    def result(self, collected: Collected) -> ItemResult:
        parts: list[Part] = []
        for name, streamed in self.streams.items():
            if isinstance(streamed, Stream):
                data = replace(streamed, rounds=POINTS).data(0)
                x, y = np.asarray(data.X, dtype=np.float64)[:POINTS, :2].T.round(4).tolist()
                classes = [str(one) for one in data.classes]
                parts.append(Scatter(name, x, y, data.y[:POINTS].tolist(), classes))
        return ItemResult(self.item, 0, [], parts)


class _BoundaryWork(_Work):
    """An item that draws the regions of a learner in the plane, and the boundary of one class."""

    def result(self, collected: Collected) -> ItemResult:
        (learner,), parts = self.item.learners, []
        for name, streamed in self.streams.items():
            if isinstance(streamed, Stream):
                trained = run(learner.rule, streamed, **learner.options_on(name)).learner
                fresh = replace(streamed, rounds=POINTS).data(1)
                rows, labels = fresh.X[:POINTS], fresh.y[:POINTS]
                wrong = np.array([trained.best(x) for x in rows]) != np.array(fresh.classes)[labels]
                shares = [float(wrong[labels == place].mean()) for place in range(len(fresh.classes))]
                place = int(np.argmin(shares) if self.item.boundary_of == "easiest" else np.argmax(shares))
                drawn = regions_of(
                    trained,
                    rows,
                    np.array(fresh.classes)[labels].tolist(),
                    label=fresh.classes[place],
                    title=name,
                )
                note = (
                    f"Class {fresh.classes[place]}: {100 * shares[place]:.1f} % of its fresh points are named wrongly."
                )
                parts.append(replace(drawn, note=f"{note} Points are fresh; the black line is where its score is 0."))
        return ItemResult(self.item, 0, [], list(parts))


class _BoundsWork(_Work):
    """An item that holds measured mistakes against what theorems promise, or (kind regrets) their orders side by side."""

    def result(self, collected: Collected) -> ItemResult:
        from onebit.theory.mistakes import bounds

        verdicts: list[Verdict] = []
        parts: list[Part] = []
        for name, streamed in self.streams.items():
            for learner in self.item.learners:
                if isinstance(streamed, OnebitError):
                    told = str(streamed)
                    verdicts.append(Verdict(self.item.name, name, learner.name, "", None, "", MISSING, told))
                    continue
                found = bounds(learner.rule, streamed, runs=self.runs, **learner.options_on(name))
                if self.item.kind == "regrets":
                    parts.append(found.table1())
                    continue
                verdicts += [self._verdict(name, learner, one, streamed.rounds) for one in found.rows]
                if any(one.bound.line is not None for one in found.rows):
                    parts.append(replace(found.curves(), title=f"{learner.name} on {name}"))
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _verdict(self, data: str, learner: PaperLearner, one: Kept, rounds: int) -> Verdict:
        what = f"{learner.name}: {one.bound.name}, {one.bound.of}"
        said = f"{one.mean.mean:,.0f}" if one.bound.applies else ""
        if one.held is None:
            verdict = SHOWN
        elif not one.held:
            verdict = DIFFERS
        else:
            verdict = REPRODUCED if one.bound.value < rounds else VACUOUS
        told = "" if verdict == REPRODUCED else one.bound.why or f"more than the {rounds:,} rounds there are"
        return Verdict(self.item.name, data, what, f"at most {one.bound.shown}", None, said, verdict, told)


class _GapWork(_Work):
    """The surrogate gap of Gaptron, which needs no data."""

    def result(self, collected: Collected) -> ItemResult:
        from onebit.theory.gap import figure1

        return ItemResult(self.item, 0, [], [figure1(loss) for loss in ("logistic", "hinge", "smooth")])


_WORK: dict[str, type[_Work]] = {
    "errors": _ErrorsWork,
    "grid": _GridWork,
    "scatter": _ScatterWork,
    "boundary": _BoundaryWork,
    "bounds": _BoundsWork,
    "regrets": _BoundsWork,
    "gap": _GapWork,
}


def reproduce(
    paper: str,
    items: Sequence[str] = (),
    *,
    quick: bool = False,
    out: str | Path | None = None,
    on: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
    began: Any = None,
    heard: Any = None,
    command: str = "",
) -> Reproduction:
    """Run a paper's experiments, or some of its items, and compare with what was published.

    `quick` takes two runs of each, and one of each setting of a grid. `out`, `on` and `threads` are as for `onebit.compare`; `began` is told the number of rounds ahead, `heard` of downloads.

    >>> import onebit
    >>> found = onebit.reproduce("hoeven2020", ["figure1"])
    >>> [part.title for part in found.results[0].parts][0]
    'Surrogate gap, logistic loss, rate 0.1733'
    """
    found = paper_named(paper)
    chosen = found.chosen(items)
    streams = _Streams(heard)
    works: list[_Work] = []
    trials: list[Trial] = []

    def result(collected: Collected, folder: Path | None) -> Reproduction:
        results = [work.result(collected) for work in works]
        return Reproduction(found, results, collected.failures(trials), command, folder, collected.cost)

    with (
        closing(executor_of(on, threads)) as executor,
        closing(Records(out)) as records,
    ):  # before data are fetched for nothing
        works += [_WORK[item.kind](item, streams, quick) for item in chosen]
        trials += [trial for work in works for trial in work.trials()]
        if began is not None:
            began(sum(trial.stream.rounds for trial in trials))
        try:
            return result(collect(trials, records, executor, progress), records.folder)
        except Interrupted as stopped:
            raise Stopped(result(stopped.collected, records.folder)) from None
