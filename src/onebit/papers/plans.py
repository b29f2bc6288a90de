"""Items of papers as they are run: which trials an item of each kind needs, and what it shows of their records."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from onebit.data.streams import Stream
from onebit.errors import OnebitError
from onebit.experiments.drawing import curves_of, percent
from onebit.experiments.runner import Collected
from onebit.experiments.statistics import MeanEstimate, estimate
from onebit.experiments.summary import Summary
from onebit.papers.item_plan import ItemPlan, PaperStreams
from onebit.papers.measurements import (
    POINTS,
    BoundaryMeasurement,
    BoundsMeasurement,
    FeedbackMeasurement,
    drawn_feedback,
    drawn_regions,
)
from onebit.papers.paper import Claim, PaperData, PaperItem, PaperLearner
from onebit.papers.verdicts import (
    DIFFERS,
    FAILED,
    FITTED,
    MISSING,
    NOT_RUN,
    REPRODUCED,
    SHOWN,
    VACUOUS,
    ItemResult,
    Verdict,
    at_most,
    explanation,
    near,
    positive,
)
from onebit.report.parts import Part, Scatter
from onebit.theory.mistakes import FEW, CheckedBound, kept_by, mistake_curves, regret_table
from onebit.theory.promises import Promises, check_theorems
from onebit.theory.rounds import fixed_rounds
from onebit.trials.trial import ComparisonEntry, Measurement, Trial, entry_of


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
            return NOT_RUN
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
        told = explanation(verdict, measured, why)
        return Verdict(self.item.name, data.name, learner.name, number, measured, self._said(found), verdict, told)

    def _said(self, found: Summary) -> str:
        """An error with its interval; after Ctrl-C also how many runs it is of."""
        done = f" ({found.runs} of {self.runs} runs)" if found.runs < self.runs else ""
        return percent(self._measure(found)) + done

    def _claimed(self, claim: Claim, data: str, collected: Collected) -> Verdict:
        done: dict[tuple[str, str], Summary] = {}
        for on in filter(None, (data, claim.since)):
            for name in (claim.lower, claim.higher):
                found = self.summary(collected, name, on)
                if isinstance(found, str):
                    nothing = self.unmeasured(on, claim.text, found, "claimed")
                    return nothing if found == MISSING else replace(nothing, why=f"{name}: {nothing.why}")
                done[name, on] = found
        lower, higher = done[claim.lower, data], done[claim.higher, data]
        said, claimed = f"{self._said(lower)} against {self._said(higher)}", "claimed"
        if claim.within is not None:
            gain, claimed = lower.difference(higher, self.item.measure), f"claimed, here within {claim.within:g}"
            verdict = at_most(gain, claim.within / 100)
        else:
            if claim.since:
                gain, said = self._risen(*done.values())
            else:
                gain = higher.difference(lower, self.item.measure)
            verdict = positive(gain)
        told = explanation(verdict, gain, claim.why.get(data, ""))
        return Verdict(self.item.name, data, claim.text, claimed, gain, said, verdict, told)

    def _risen(
        self, lower: Summary, higher: Summary, lower_since: Summary, higher_since: Summary
    ) -> tuple[MeanEstimate, str]:
        """How much more the error of one rises than that of another, run by run, and both in words."""
        measure = self.item.measure
        one, other = lower.excess(lower_since, measure), higher.excess(higher_since, measure)
        gain = estimate(np.array([other[seed] - one[seed] for seed in one if seed in other]))
        rises = [percent(estimate(np.array(list(rise.values())))) for rise in (one, other)]
        return gain, f"rises by {rises[0]} against {rises[1]}"


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


class PicturePlan(ItemPlan):
    """An item that draws what is measured of one run of a learner on each data set."""

    @abstractmethod
    def measurement(self) -> Measurement:
        """What is measured."""

    @abstractmethod
    def drawn(self, data: str, measured: dict[str, Any]) -> list[Part]:
        """What is drawn of it."""

    def trials(self) -> list[Trial]:
        """One run on each data set."""
        return [self._trial(name, streamed) for name, streamed in self.streams.items() if isinstance(streamed, Stream)]

    def _trial(self, data: str, streamed: Stream) -> Trial:
        (learner,) = self.item.learners
        entry = entry_of(learner.rule, learner.options_on(data))
        return Trial(entry, streamed, streamed.seed, measurement=self.measurement())

    def result(self, collected: Collected) -> ItemResult:
        """The pictures."""
        parts: list[Part] = []
        verdicts = []
        for name, streamed in self.streams.items():
            done = collected.of([self._trial(name, streamed)]) if isinstance(streamed, Stream) else []
            if done and not done[0].failed:
                parts += self.drawn(name, done[0].measured)
            else:
                nothing = MISSING if isinstance(streamed, OnebitError) else FAILED if done else NOT_RUN
                verdicts.append(self.unmeasured(name, "the picture", nothing))
        return ItemResult(self.item, 0, verdicts, parts)


class BoundaryPlan(PicturePlan):
    """The regions of a learner in the plane, and the boundary of one class."""

    def measurement(self) -> Measurement:
        """The boundary of the class that the item names."""
        return BoundaryMeasurement(self.item.boundary_of)

    def drawn(self, data: str, measured: dict[str, Any]) -> list[Part]:
        """The regions."""
        return [drawn_regions(data, measured)]


class FeedbackPlan(PicturePlan):
    """What a learner knows of the label in each round, by full information and by bandit feedback."""

    def measurement(self) -> Measurement:
        """All rounds of the item."""
        return FeedbackMeasurement()

    def drawn(self, data: str, measured: dict[str, Any]) -> list[Part]:
        """One picture for each sort of feedback."""
        return drawn_feedback(data, measured)


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
                    verdicts.append(self.unmeasured(name, learner.name, FAILED if first else NOT_RUN))
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
            beyond = one.bound.of.startswith("mistakes") and one.bound.value >= rounds
            verdict = VACUOUS if beyond or one.bound.holds == "vacuous" else REPRODUCED
        told = "" if verdict == REPRODUCED else one.bound.why or f"more than the {rounds:,} rounds there are"
        promise = (
            f"at most {one.bound.shown}"
            if math.isfinite(one.bound.value) and not one.bound.equal
            else one.bound.promised
        )
        return Verdict(self.item.name, data, what, promise, None, said, verdict, told)


class GapPlan(ItemPlan):
    """The surrogate gap of Gaptron, which needs no data."""

    def result(self, collected: Collected) -> ItemResult:
        """The curves of the gap."""
        from onebit.theory.gap import figure1

        return ItemResult(self.item, 0, [], [figure1(loss) for loss in ("logistic", "hinge", "smooth")])
