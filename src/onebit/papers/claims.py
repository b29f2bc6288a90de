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
    explanation,
    near,
)
from onebit.trials.trial import Trial


class ClaimsPlan(ErrorsPlan):
    """An item of claims; its runs are those of the item that it is like."""

    def trials(self) -> list[Trial]:
        """The learners of each claim on its data, with every seed."""
        pairs = {(name, data) for claim in self.item.claims for name in claim.learners for data in claim.compared_on}
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
            judge = self._measured_claim if claim.among or claim.gain else self._claimed
            verdicts += [judge(claim, name, collected) for name in claim.data]
        return ItemResult(self.item, self.runs, verdicts, [])

    def _measured_claim(self, claim: Claim, data: str, collected: Collected) -> Verdict:
        """A claim with a number of points, on one data set."""
        found = self._summaries(claim, data, collected)
        if isinstance(found, Verdict):
            return found
        if claim.among:
            assert claim.within is not None
            pairs = [one.difference(other, self.item.measure) for one, other in combinations(found, 2)]
            gain = max(pairs, key=lambda pair: abs(pair.mean))  # the pair that is furthest apart
            words = {near(pair, 0.0, claim.within / 100) for pair in pairs}
            verdict = next(word for word in (DIFFERS, UNDECIDED, REPRODUCED) if word in words)
            said = f"{' / '.join(percent(self._measure(one)) for one in found)}: {points(gain)}"
            number = f"claimed, here within {claim.within:g}"
        else:
            gain = found[1].difference(found[0], self.item.measure)
            verdict = near(gain, claim.gain[data] / 100, self.item.tolerance / 100)
            said, number = points(gain), f"{claim.gain[data]:g}"
        why = explanation(verdict, gain, claim.why.get(data, ""))
        return Verdict(self.item.name, data, claim.text, number, gain, said, verdict, why)

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


def points(found: MeanEstimate) -> str:
    """A difference of errors in points, with its interval."""
    half = "" if math.isnan(found.low) else f" ± {100 * (found.high - found.mean):.2f}"
    return f"{100 * found.mean:+.2f}{half} points"
