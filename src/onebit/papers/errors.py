"""Items on errors: error curves, published errors, and claims that compare learners."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np

from onebit.data.streams import Stream
from onebit.errors import OnebitError
from onebit.experiments.drawing import draw_curves, format_estimate
from onebit.experiments.report import Part
from onebit.experiments.runner import TrialCollector
from onebit.experiments.statistics import MeanEstimate, Summary, estimate
from onebit.experiments.trials import ComparisonEntry, Trial, make_entry
from onebit.papers import Claim, PaperData, PaperItem, PaperLearner
from onebit.papers.plans import ItemPlan, PaperStreams
from onebit.papers.verdicts import ItemResult, Status, Verdict, explain_verdict, judge_between, judge_gain


class ErrorsPlan(ItemPlan):
    """The plan of an item that compares learners: curves, published errors, claims."""

    def __init__(self, item: PaperItem, streams: PaperStreams, quick: bool) -> None:
        super().__init__(item, streams, quick)
        self.entries: dict[tuple[str, str], ComparisonEntry] = {}
        for learner in item.learners:
            for data in item.data:
                self.entries[learner.name, data.name] = make_entry(learner.rule, learner.options_on(data.name))

    def trials_on(self, data: str, data_stream: Stream) -> list[Trial]:
        entries = [self.entries[learner.name, data] for learner in self.item.learners]
        return [Trial(entry, data_stream, seed) for seed in range(self.runs) for entry in entries]

    def summary(self, collector: TrialCollector, learner: str, data: str) -> Summary | Status:
        """Summarise a learner's runs on a data set, or return the status that says why there are none."""
        data_stream, entry = self.streams[data], self.entries[learner, data]
        if isinstance(data_stream, OnebitError):
            return Status.MISSING
        # After Ctrl-C there are fewer records than runs.
        records = collector.records_of(Trial(entry, data_stream, seed) for seed in range(self.runs))
        if not records:
            return Status.NOT_RUN
        return Status.FAILED if any(record.why for record in records) else Summary(entry, records)

    def result(self, collector: TrialCollector) -> ItemResult:
        verdicts = []
        parts: list[Part] = []
        for data in self.item.data:
            summaries, names = [], []
            for learner in self.item.learners:
                summary = self.summary(collector, learner.name, data.name)
                verdicts.append(self._verdict(learner, data, summary))
                if isinstance(summary, Summary):
                    summaries.append(summary)
                    names.append(learner.name)
            if summaries:
                parts.append(draw_curves(data.name, summaries, names=names))
        verdicts += [self._judge_claim(claim, name, collector) for claim in self.item.claims for name in claim.data]
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _measure(self, summary: Summary) -> MeanEstimate:
        return summary.error if self.item.measure == "played" else summary.greedy_error

    def _verdict(self, learner: PaperLearner, data: PaperData, summary: Summary | Status) -> Verdict:
        published = learner.published.get(data.name)
        number = "" if published is None else f"{published:g}"
        why = learner.why.get(data.name, "") or data.why
        if isinstance(summary, str):
            return self.missing_verdict(data.name, learner.name, summary, number)
        measured, tolerance = self._measure(summary), self.item.tolerance / 100
        if published is None:
            verdict = Status.SHOWN
        elif data.fitted:
            verdict, why = Status.FITTED, " ".join(filter(None, (data.fitted, learner.why.get(data.name))))
        else:
            verdict = judge_between(measured, published / 100 - tolerance, published / 100 + tolerance)
        explanation = explain_verdict(verdict, measured, why)
        return Verdict(
            self.item.name, data.name, learner.name, number, measured, self._format_error(summary), verdict, explanation
        )

    def _format_error(self, summary: Summary) -> str:
        """Format an error with its interval, and with the number of runs if Ctrl-C left some out."""
        run_count = f" ({summary.runs} of {self.runs} runs)" if summary.runs < self.runs else ""
        return format_estimate(self._measure(summary)) + run_count

    def _judge_claim(self, claim: Claim, data: str, collector: TrialCollector) -> Verdict:
        """Judge a claim on one data set."""
        number = f"{claim.gain[data]:g}" if data in claim.gain else "claimed"
        results: list[Summary] = []
        for data_name in filter(None, (data, claim.since)):
            for name in claim.learners:
                summary = self.summary(collector, name, data_name)
                if isinstance(summary, str):
                    missing = self.missing_verdict(data_name, claim.text, summary, number)
                    return missing if summary == Status.MISSING else replace(missing, why=f"{name}: {missing.why}")
                results.append(summary)
        if claim.within is not None:
            number = f"claimed, here within {claim.within:g}"
        if claim.among:
            gain, text, verdict = self._compare_all(claim, results)
        else:
            gain, text, verdict = self._compare_two(claim, data, results)
        explanation = explain_verdict(verdict, gain, claim.why.get(data, ""))
        return Verdict(self.item.name, data, claim.text, number, gain, text, verdict, explanation)

    def _compare_two(self, claim: Claim, data: str, summaries: list[Summary]) -> tuple[MeanEstimate, str, Status]:
        """Return the difference that a claim on two learners is about, its text, and its verdict."""
        lower, higher, measure = summaries[0], summaries[1], self.item.measure
        text = f"{self._format_error(lower)} against {self._format_error(higher)}"
        if claim.gain:
            gain, claimed = higher.difference(lower, measure), claim.gain[data] / 100
            tolerance = self.item.tolerance / 100
            return gain, format_points(gain), judge_between(gain, claimed - tolerance, claimed + tolerance)
        if claim.within is not None:
            gain = lower.difference(higher, measure)
            return gain, text, judge_between(gain, -math.inf, claim.within / 100)
        if claim.since:
            gain, text = self._compare_rises(*summaries)
        else:
            gain = higher.difference(lower, measure)
        return gain, text, judge_gain(gain)

    def _compare_all(self, claim: Claim, summaries: list[Summary]) -> tuple[MeanEstimate, str, Status]:
        """Return the largest difference between any two learners, its text, and its verdict.

        The claim is that all learners are close to each other.
        """
        assert claim.within is not None
        gaps = [first.difference(second, self.item.measure) for first, second in combinations(summaries, 2)]
        gain = max(gaps, key=lambda gap: abs(gap.mean))
        statuses = {judge_between(gap, -claim.within / 100, claim.within / 100) for gap in gaps}
        verdict = next(status for status in (Status.DIFFERS, Status.UNDECIDED, Status.REPRODUCED) if status in statuses)
        errors = " / ".join(format_estimate(self._measure(summary)) for summary in summaries)
        return gain, f"{errors}: {format_points(gain)}", verdict

    def _compare_rises(
        self, lower: Summary, higher: Summary, lower_since: Summary, higher_since: Summary
    ) -> tuple[MeanEstimate, str]:
        """Return how much more the higher learner's error rises than the lower one's, and both rises as text.

        Differences are taken run by run.
        """
        measure = self.item.measure
        low, high = lower.excess(lower_since, measure), higher.excess(higher_since, measure)
        gain = estimate(np.array([high[seed] - low[seed] for seed in low if seed in high]))
        rises = [format_estimate(estimate(np.array(list(rise.values())))) for rise in (low, high)]
        return gain, f"rises by {rises[0]} against {rises[1]}"


class ClaimsPlan(ErrorsPlan):
    """The plan of an item that only makes claims, on the runs of the item that it refers to."""

    def trials(self) -> list[Trial]:
        """Return the trials of each claim's learners on its data, with every seed."""
        pairs = {(name, data) for claim in self.item.claims for name in claim.learners for data in claim.compared_on}
        return [
            Trial(self.entries[name, data], data_stream, seed)
            for name, data in sorted(pairs)
            if isinstance(data_stream := self.streams[data], Stream)
            for seed in range(self.runs)
        ]

    def result(self, collector: TrialCollector) -> ItemResult:
        verdicts = [self._judge_claim(claim, name, collector) for claim in self.item.claims for name in claim.data]
        return ItemResult(self.item, self.runs, verdicts, [])


def format_points(difference: MeanEstimate) -> str:
    """Format a difference of errors in percentage points, with its interval."""
    return f"{format_estimate(difference, signed=True)} points"
