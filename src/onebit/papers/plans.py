"""Items of papers as they are run: which trials an item of each kind needs, and what it shows of their records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onebit.data.streams import Stream
from onebit.errors import OnebitError
from onebit.experiments.drawing import curves_of, percent
from onebit.experiments.runner import Collected
from onebit.experiments.statistics import MeanEstimate
from onebit.experiments.summary import Summary
from onebit.papers.grid_plan import GridPlan
from onebit.papers.item_plan import ItemPlan, PaperStreams
from onebit.papers.measurements import POINTS, BoundaryMeasurement, BoundsMeasurement, drawn_regions
from onebit.papers.paper import Claim, PaperData, PaperItem, PaperLearner
from onebit.papers.verdicts import (
    DIFFERS,
    FAILED,
    FITTED,
    LACKING,
    MISSING,
    REPRODUCED,
    SHOWN,
    VACUOUS,
    ItemResult,
    Verdict,
    near,
    positive,
)
from onebit.report.parts import Part, Scatter
from onebit.theory.mistakes import FEW, CheckedBound, kept_by, mistake_curves, regret_table
from onebit.theory.promises import Promises, check_theorems
from onebit.theory.rounds import fixed_rounds
from onebit.trials.trial import ComparisonEntry, Trial, entry_of


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
        if not records:
            return LACKING
        return FAILED if any(record.failed for record in records) else Summary(entry, records)

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
            return self.unmeasured(data.name, learner.name, found, number)
        measured = self._measure(found)
        if published is None:
            verdict = SHOWN
        elif data.fitted:
            verdict, why = FITTED, " ".join(filter(None, (data.fitted, learner.why.get(data.name))))
        else:
            verdict = near(measured, published / 100, self.item.tolerance / 100)
        told = "" if verdict == REPRODUCED else why
        return Verdict(self.item.name, data.name, learner.name, number, measured, self._said(found), verdict, told)

    def _said(self, found: Summary) -> str:
        """An error with its interval; after Ctrl-C also how many runs it is of."""
        done = f" ({found.runs} of {self.runs} runs)" if found.runs < self.runs else ""
        return percent(self._measure(found)) + done

    def _claimed(self, claim: Claim, data: str, collected: Collected) -> Verdict:
        lower, higher = (self.summary(collected, name, data) for name in (claim.lower, claim.higher))
        for name, found in ((claim.lower, lower), (claim.higher, higher)):
            if isinstance(found, str):
                nothing = self.unmeasured(data, claim.text, found, "claimed")
                return nothing if found == MISSING else replace(nothing, why=f"{name}: {nothing.why}")
        assert isinstance(lower, Summary)
        assert isinstance(higher, Summary)
        gain = higher.difference(lower, self.item.measure)
        verdict = positive(gain)
        said = f"{self._said(lower)} against {self._said(higher)}"
        told = claim.why.get(data, "") if verdict != REPRODUCED else ""
        return Verdict(self.item.name, data, claim.text, "claimed", gain, said, verdict, told)


class ScatterPlan(ItemPlan):
    """An item that draws data in the plane."""

    def result(self, collected: Collected) -> ItemResult:
        """The points."""
        parts: list[Part] = []
        verdicts = []
        for name, streamed in self.streams.items():
            if isinstance(streamed, OnebitError):
                verdicts.append(self.unmeasured(name, "the picture"))
            else:
                data = replace(streamed, rounds=POINTS).data(0)
                x, y = np.asarray(data.X, dtype=np.float64)[:POINTS, :2].T.round(4).tolist()
                classes = [str(one) for one in data.classes]
                parts.append(Scatter(name, x, y, data.y[:POINTS].tolist(), classes))
        return ItemResult(self.item, 0, verdicts, parts)


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
        verdicts = []
        for name, streamed in self.streams.items():
            done = collected.of([self._trial(name, streamed)]) if isinstance(streamed, Stream) else []
            if done and not done[0].failed:
                parts.append(drawn_regions(name, done[0].measured))
            else:
                nothing = MISSING if isinstance(streamed, OnebitError) else FAILED if done else LACKING
                verdicts.append(self.unmeasured(name, "the picture", nothing))
        return ItemResult(self.item, 0, verdicts, parts)


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
                    verdicts.append(self.unmeasured(name, learner.name))
                    continue
                trials = self._trials(learner, name, fixed)
                records = [record for record in collected.of(trials) if not record.failed]
                first = collected.of(trials[:1])
                if not first or first[0].failed:
                    verdicts.append(self.unmeasured(name, learner.name, FAILED if first else LACKING))
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
            vacuous = one.bound.of.startswith("mistakes") and one.bound.value >= rounds
            verdict = VACUOUS if vacuous else REPRODUCED
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
