"""Sentences of a paper on the errors of another item: that some are near each other, how large a difference is, where it is larger."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

from onebit.data.streams import Stream
from onebit.experiments.drawing import percent
from onebit.experiments.runner import Collected
from onebit.experiments.statistics import MeanEstimate
from onebit.experiments.summary import Summary
from onebit.papers.paper import Claim
from onebit.papers.plans import ErrorsPlan
from onebit.papers.verdicts import (
    DIFFERS,
    MISSING,
    REPRODUCED,
    UNDECIDED,
    ItemResult,
    Verdict,
    at_most,
    explanation,
    near,
    positive,
)
from onebit.trials.trial import Trial


class ClaimsPlan(ErrorsPlan):
    """An item of claims; its runs are those of the item that it is like."""

    def trials(self) -> list[Trial]:
        """The learners of each claim on its data, with every seed."""
        pairs = {(name, data) for claim in self.item.claims for name in claim.learners for data in claim.data}
        entries = [(self.entries[name, data], self.streams[data]) for name, data in sorted(pairs)]
        return [
            Trial(entry, given, seed)
            for entry, given in entries
            if isinstance(given, Stream)
            for seed in range(self.runs)
        ]

    def result(self, collected: Collected) -> ItemResult:
        """A verdict for each claim and data set."""
        verdicts = []
        for claim in self.item.claims:
            if claim.rising:
                verdicts.append(self._rising(claim, collected))
            elif claim.within is not None or claim.gain:
                verdicts += [self._measured_claim(claim, name, collected) for name in claim.data]
            else:
                verdicts += [self._claimed(claim, name, collected) for name in claim.data]
        return ItemResult(self.item, self.runs, verdicts, [])

    def _measured_claim(self, claim: Claim, data: str, collected: Collected) -> Verdict:
        """A claim with a number of points, on one data set."""
        found = self._summaries(claim, data, collected)
        if isinstance(found, Verdict):
            return found
        tolerance, published = self.item.tolerance / 100, claim.gain.get(data)
        if published is not None:
            gain = found[1].difference(found[0], self.item.measure)
            verdict = near(gain, published / 100, tolerance)
            said, number = points(gain), f"{published:g}"
        else:
            assert claim.within is not None
            within = claim.within / 100
            if claim.among:  # the pair that is furthest apart
                pairs = [one.difference(other, self.item.measure) for one, other in combinations(found, 2)]
                gain = max(pairs, key=lambda pair: abs(pair.mean))
                words = {near(pair, 0.0, within) for pair in pairs}
                verdict = next(word for word in (DIFFERS, UNDECIDED, REPRODUCED) if word in words)
            else:
                gain = found[0].difference(found[1], self.item.measure)
                verdict = at_most(gain, within)
            number = f"claimed; in its table {self._published(claim, data)}"
            said = f"{' / '.join(percent(self._measure(one)) for one in found)}: {points(gain)}"
        why = explanation(verdict, gain, claim.why.get(data, ""))
        return Verdict(self.item.name, data, claim.text, number, gain, said, verdict, why)

    def _rising(self, claim: Claim, collected: Collected) -> Verdict:
        """Whether the difference of two learners is smaller on one data set than on another; their runs are independent."""
        gains, where = [], " and ".join(claim.rising)
        for data in claim.rising:
            found = self._summaries(claim, data, collected)
            if isinstance(found, Verdict):
                return found
            gains.append(found[1].difference(found[0], self.item.measure))
        more = difference(gains[1], gains[0])
        verdict = positive(more)
        said, why = " against ".join(map(points, gains)), claim.why.get(claim.rising[0], "")
        why = explanation(verdict, more, why)
        return Verdict(self.item.name, where, claim.text, "claimed", more, said, verdict, why)

    def _summaries(self, claim: Claim, data: str, collected: Collected) -> list[Summary] | Verdict:
        """How the learners of a claim did, or the verdict where that is not known."""
        found = []
        for name in claim.learners:
            one = self.summary(collected, name, data)
            if isinstance(one, str):
                number = f"{claim.gain[data]:g}" if data in claim.gain else "claimed"
                nothing = self.unmeasured(data, claim.text, one, number)
                return nothing if one == MISSING else replace(nothing, why=f"{name}: {nothing.why}")
            found.append(one)
        return found

    def _published(self, claim: Claim, data: str) -> str:
        """How far apart the errors of the claim's learners are in the paper's own table."""
        errors = [one.published[data] for name in claim.learners for one in self.item.learners if one.name == name]
        return f"{max(errors) - min(errors):.2f}" if claim.among else f"{errors[0] - errors[1]:+.2f}"


def difference(one: MeanEstimate, other: MeanEstimate) -> MeanEstimate:
    """The difference of two independent means; the half widths of their intervals add up as squares."""
    mean = one.mean - other.mean
    half = math.hypot(one.high - one.mean, other.high - other.mean)
    return MeanEstimate(mean, mean - half, mean + half)


def points(found: MeanEstimate) -> str:
    """A difference of errors in points, with its interval."""
    half = "" if math.isnan(found.low) else f" ± {100 * (found.high - found.mean):.2f}"
    return f"{100 * found.mean:+.2f}{half} points"
