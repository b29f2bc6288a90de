"""Items of papers as they are run: which trials an item of each kind needs, and what it shows of their records."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from onebit.data.sources import Source, source_of
from onebit.data.streams import Stream, stream
from onebit.errors import OnebitError
from onebit.experiments.drawing import curves_of, percent
from onebit.experiments.grid import Grid, axis_of
from onebit.experiments.pages import sweep_pictures
from onebit.experiments.runner import Collected
from onebit.experiments.statistics import MeanEstimate
from onebit.experiments.summary import Summary
from onebit.experiments.sweep import Sweep
from onebit.papers.measurements import POINTS, BoundaryMeasurement, BoundsMeasurement, drawn_regions
from onebit.papers.paper import Claim, PaperData, PaperItem, PaperLearner
from onebit.papers.verdicts import (
    DIFFERS,
    FAILED,
    MISSING,
    REPRODUCED,
    SHOWN,
    UNDECIDED,
    VACUOUS,
    ItemResult,
    Verdict,
)
from onebit.report.parts import Curves, HeatMap, Part, Scatter, Section
from onebit.theory.mistakes import FEW, CheckedBound, kept_by, mistake_curves, regret_table
from onebit.theory.promises import Promises, check_theorems
from onebit.theory.rounds import fixed_rounds
from onebit.trials.trial import ComparisonEntry, Trial, entry_of, shown

QUICK_RUNS = 2


class PaperStreams:
    """The streams of a paper; data that are not to be had are asked for once."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._sources: dict[tuple[str, str], Source | OnebitError] = {}

    def of(self, item: PaperItem, data: PaperData) -> Stream | OnebitError:
        """The stream of a data set of an item, or why it is not to be had."""
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


class ItemPlan(ABC):
    """An item as it is run: the trials it needs, and what their records show."""

    def __init__(self, item: PaperItem, streams: PaperStreams, quick: bool) -> None:
        self.item, self.runs = item, min(item.runs, QUICK_RUNS) if quick else item.runs
        self.streams = {data.name: streams.of(item, data) for data in item.data}

    def trials(self) -> list[Trial]:
        """What is to be run and kept; nothing where an item needs no runs."""
        return []

    @abstractmethod
    def result(self, collected: Collected) -> ItemResult:
        """The verdicts, and what is drawn; nothing is run for it."""


class ErrorsPlan(ItemPlan):
    """An item that compares learners: curves, published errors, claims."""

    def __init__(self, item: PaperItem, streams: PaperStreams, quick: bool) -> None:
        super().__init__(item, streams, quick)
        self.entries: dict[tuple[str, str], ComparisonEntry] = {}
        for learner in item.learners:
            for data in item.data:
                self.entries[learner.name, data.name] = entry_of(learner.rule, learner.options_on(data.name))

    def trials(self) -> list[Trial]:
        """Every learner on every data set with every seed."""
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
        """A verdict for each published error and each claim, and the curves."""
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

    def _measure(self, found: Summary) -> MeanEstimate:
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


class GridPlan(ItemPlan):
    """An item that searches settings of each learner on each data set, to see whether the published ones are among the good ones."""

    def __init__(self, item: PaperItem, streams: PaperStreams, quick: bool) -> None:
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
        """Every setting on every data set with every seed."""
        return [
            Trial(entry, streamed, seed, curve=False)
            for name, streamed in self.streams.items()
            if isinstance(streamed, Stream)
            for seed in range(self.runs)
            for learner in self.item.learners
            for entry in self.grids[learner.name, name].entries
        ]

    def result(self, collected: Collected) -> ItemResult:
        """A verdict for each learner and data set, and the pictures of the grid."""
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


class ScatterPlan(ItemPlan):
    """An item that draws data in the plane."""

    def result(self, collected: Collected) -> ItemResult:
        """The points."""
        parts: list[Part] = []
        for name, streamed in self.streams.items():
            if isinstance(streamed, Stream):
                data = replace(streamed, rounds=POINTS).data(0)
                x, y = np.asarray(data.X, dtype=np.float64)[:POINTS, :2].T.round(4).tolist()
                classes = [str(one) for one in data.classes]
                parts.append(Scatter(name, x, y, data.y[:POINTS].tolist(), classes))
        return ItemResult(self.item, 0, [], parts)


class BoundaryPlan(ItemPlan):
    """An item that draws the regions of a learner in the plane, and the boundary of one class."""

    def trials(self) -> list[Trial]:
        """One run on each data set."""
        return [self._trial(name, streamed) for name, streamed in self.streams.items() if isinstance(streamed, Stream)]

    def _trial(self, data: str, streamed: Stream) -> Trial:
        (learner,) = self.item.learners
        entry = entry_of(learner.rule, learner.options_on(data))
        return Trial(entry, streamed, streamed.seed, measurement=BoundaryMeasurement(self.item.boundary_of))

    def result(self, collected: Collected) -> ItemResult:
        """The regions."""
        parts: list[Part] = []
        for name, streamed in self.streams.items():
            if isinstance(streamed, Stream):
                done = collected.of([self._trial(name, streamed)])
                parts += [drawn_regions(name, record.measured) for record in done if not record.failed]
        return ItemResult(self.item, 0, [], parts)


class BoundsPlan(ItemPlan):
    """An item that holds measured mistakes against what theorems promise, or (kind regrets) their orders side by side."""

    def __init__(self, item: PaperItem, streams: PaperStreams, quick: bool) -> None:
        super().__init__(item, streams, quick)
        self.fixed = {
            name: one if isinstance(one, OnebitError) else fixed_rounds(one, 0) for name, one in self.streams.items()
        }
        for learner in item.learners:
            for data in item.data:
                check_theorems(entry_of(learner.rule, learner.options_on(data.name)))

    def trials(self) -> list[Trial]:
        """Every learner on the same rounds of each data set, with every seed."""
        return [
            trial
            for name, fixed in self.fixed.items()
            for learner in self.item.learners
            if isinstance(fixed, Stream)
            for trial in self._trials(learner, name, fixed)
        ]

    def _trials(self, learner: PaperLearner, data: str, fixed: Stream) -> list[Trial]:
        """The runs of a learner, the first of which finds out what is promised."""
        entry = entry_of(learner.rule, learner.options_on(data))
        first = Trial(entry, fixed, 0, measurement=BoundsMeasurement(self.runs))
        return [first, *(Trial(entry, fixed, seed) for seed in range(1, self.runs))]

    def result(self, collected: Collected) -> ItemResult:
        """A verdict for each bound, and the mistakes beside the bounds."""
        verdicts: list[Verdict] = []
        parts: list[Part] = []
        for name, fixed in self.fixed.items():
            for learner in self.item.learners:
                if isinstance(fixed, OnebitError):
                    told = str(fixed)
                    verdicts.append(Verdict(self.item.name, name, learner.name, "", None, "", MISSING, told))
                    continue
                trials = self._trials(learner, name, fixed)
                records = [record for record in collected.of(trials) if not record.failed]
                if not records or records[0].fields["id"] != trials[0].identity:
                    told = "its first run failed, or was not done"
                    verdicts.append(Verdict(self.item.name, name, learner.name, "", None, "", FAILED, told))
                    continue
                found = Promises.from_dict(records[0].measured)
                if self.item.kind == "regrets":
                    parts.append(regret_table(found.compared))
                    continue
                runs = Summary(trials[0].entry, records)  # fewer after Ctrl-C
                kept = kept_by(runs.errors, fixed.rounds, found.bounds)
                verdicts += [self._verdict(name, learner, one, fixed.rounds) for one in kept]
                if any(one.line is not None for one in found.bounds):
                    rule, title = trials[0].entry.rule.name, f"{learner.name} on {name}"
                    parts.append(mistake_curves(rule, records[0].marks, runs.curve("played"), found.bounds, title))
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _verdict(self, data: str, learner: PaperLearner, one: CheckedBound, rounds: int) -> Verdict:
        what = f"{learner.name}: {one.bound.name}, {one.bound.of}"
        small = one.bound.value < FEW and not one.bound.of.startswith("mistakes")
        said = one.said if small or not one.bound.applies else f"{one.mean.mean:,.0f}"
        if one.held is None:
            verdict = SHOWN
        elif not one.held:
            verdict = DIFFERS
        else:
            verdict = REPRODUCED if one.bound.value < rounds else VACUOUS
        told = "" if verdict == REPRODUCED else one.bound.why or f"more than the {rounds:,} rounds there are"
        promise = one.bound.promised if one.bound.equal else f"at most {one.bound.shown}"
        return Verdict(self.item.name, data, what, promise, None, said, verdict, told)


class GapPlan(ItemPlan):
    """The surrogate gap of Gaptron, which needs no data."""

    def result(self, collected: Collected) -> ItemResult:
        """The curves of the gap."""
        from onebit.theory.gap import figure1

        return ItemResult(self.item, 0, [], [figure1(loss) for loss in ("logistic", "hinge", "smooth")])


PLANS: dict[str, type[ItemPlan]] = {
    "errors": ErrorsPlan,
    "grid": GridPlan,
    "scatter": ScatterPlan,
    "boundary": BoundaryPlan,
    "bounds": BoundsPlan,
    "regrets": BoundsPlan,
    "gap": GapPlan,
}
