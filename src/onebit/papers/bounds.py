"""Items on theorems: upper bounds next to measured mistakes, and lower bounds forced by adversaries.

The lower bounds hold for every learner.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from onebit.data.streams import Stream
from onebit.experiments.report import Badge, Cell, Column, Number, Part, Table
from onebit.experiments.runner import TrialCollector
from onebit.experiments.statistics import Summary
from onebit.experiments.trials import Measurement, Trial, choose_marks, make_entry
from onebit.learner.learner import Learner
from onebit.papers import PaperItem, PaperLearner
from onebit.papers.plans import ItemPlan, PaperStreams
from onebit.papers.verdicts import ItemResult, Status, Verdict
from onebit.rules import chosen_rules
from onebit.theory.adversaries import Adversary, Forced, fresh_learner
from onebit.theory.bound import Bound
from onebit.theory.mistakes import FEW, CheckedBound, check_bounds, mistake_curves
from onebit.theory.rounds import read_rounds
from onebit.theory.setting import Setting
from onebit.theory.theorems import check_theorems, compute_promises


@dataclass(frozen=True)
class BoundsMeasurement(Measurement):
    """The bounds that theorems promise on the rounds of a trial, to be compared with `runs` runs."""

    kind = "bounds"
    what = "what theorems promise of it"

    runs: int

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Compute the bounds; return them as plain values."""
        rounds = read_rounds(trial.stream, trial.seed)
        entry, marks = trial.entry, choose_marks(rounds.count)
        promised = compute_promises(Setting(entry.rule, entry.options, rounds, self.runs, trial.seed, marks))
        return {"bounds": [asdict(bound) for bound in promised]}


class BoundsPlan(ItemPlan):
    """The plan of an item that compares measured mistakes with the bounds of theorems."""

    def __init__(self, item: PaperItem, streams: PaperStreams, quick: bool) -> None:
        super().__init__(item, streams, quick)
        self.streams = {
            name: read_rounds(given, 0).as_stream() if isinstance(given, Stream) else given
            for name, given in self.streams.items()
        }

    def trials_on(self, data: str, given: Stream) -> list[Trial]:
        return [trial for learner in self.item.learners for trial in self._trials(learner, data, given)]

    def _trials(self, learner: PaperLearner, data: str, fixed: Stream) -> list[Trial]:
        """Return the trials of a learner; the first one also computes the bounds."""
        entry = make_entry(learner.rule, learner.options_on(data))
        check_theorems(entry)
        first = Trial(entry, fixed, 0, measurement=BoundsMeasurement(self.runs))
        return [first, *(Trial(entry, fixed, seed) for seed in range(1, self.runs))]

    def result(self, collector: TrialCollector) -> ItemResult:
        verdicts: list[Verdict] = []
        parts: list[Part] = []
        for name, fixed in self.streams.items():
            for learner in self.item.learners:
                trials = self._trials(learner, name, fixed) if isinstance(fixed, Stream) else []
                records = self.records(collector, trials) if trials else Status.MISSING
                if isinstance(records, str):
                    verdicts.append(self.unmeasured(name, learner.name, records))
                    continue
                found = [Bound(**plain) for plain in records[0].measured["bounds"]]
                runs, rounds = Summary(trials[0].entry, records), trials[0].stream.rounds
                verdicts += [
                    self._verdict(name, learner, one, rounds) for one in check_bounds(runs.errors, rounds, found)
                ]
                if any(bound.line is not None for bound in found):
                    rule, title = trials[0].entry.rule.name, f"{learner.name} on {name}"
                    parts.append(mistake_curves(rule, records[0].marks, runs.curve("played"), found, title))
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _verdict(self, data: str, learner: PaperLearner, one: CheckedBound, rounds: int) -> Verdict:
        what = f"{learner.name}: {one.bound.name}, {one.bound.of}"
        small = one.bound.value < FEW and not one.bound.of.startswith("mistakes")
        said = one.measured_text if small or not one.bound.applies else f"{one.mean.mean:,.0f}"
        if one.held is None:
            verdict = Status.SHOWN
        elif not one.held:
            verdict = Status.DIFFERS
        else:
            beyond = one.bound.of.startswith("mistakes") and one.bound.value >= rounds
            verdict = Status.VACUOUS if beyond or one.bound.holds == "vacuous" else Status.REPRODUCED
        told = "" if verdict == Status.REPRODUCED else one.bound.why or f"more than the {rounds:,} rounds there are"
        promise = ("at most " if math.isfinite(one.bound.value) and not one.bound.equal else "") + one.bound.shown
        return Verdict(self.item.name, data, what, promise, None, said, verdict, told)


@dataclass(frozen=True)
class AdversaryMeasurement(Measurement):
    """The mistakes that the adaptive adversary forces on a new learner like the trial's.

    The trial itself runs against the oblivious adversary.
    """

    kind = "adversary"
    what = "what an adversary forces on it"

    adversary: Adversary

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Play, and return the mistakes and the margin of the classes that the adversary chose."""
        game = self.adversary.play(fresh_learner(trial.entry, trial.stream, trial.seed))
        return {"mistakes": game.mistakes, "margin": self.adversary.certified(game.labels)}


class AdversaryPlan(ItemPlan):
    """The plan of an item of lower bounds: every learner plays every adversary for its feedback."""

    def _names(self, adversary: Adversary) -> list[str]:
        return [
            name
            for name, rule in chosen_rules().items()
            if adversary.feedback == "full" or rule.full_information is not True
        ]

    def _trials(self, name: str, adversary: Adversary) -> list[Trial]:
        entry, given = make_entry(name), adversary.stream()
        measurement = AdversaryMeasurement(adversary)
        return [Trial(entry, given, seed, curve=False, measurement=measurement) for seed in range(self.runs)]

    def trials(self) -> list[Trial]:
        return [
            trial
            for _, adversary in self.item.adversaries
            for name in self._names(adversary)
            for trial in self._trials(name, adversary)
        ]

    def result(self, collector: TrialCollector) -> ItemResult:
        verdicts: list[Verdict] = []
        parts: list[Part] = []
        for title, adversary in self.item.adversaries:
            found = [self._collect_forced(name, adversary, collector) for name in self._names(adversary)]
            done = [one for one in found if one is not None]
            verdicts.append(self._verdict(title, adversary, done, len(found)))
            parts += [forced_table(title, done)] if done else []
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _collect_forced(self, name: str, adversary: Adversary, collector: TrialCollector) -> Forced | None:
        records = self.records(collector, self._trials(name, adversary))
        if isinstance(records, str):
            return None
        return Forced(
            adversary,
            name,
            tuple(record.measured["mistakes"] for record in records),
            tuple(round(record.error * adversary.rounds) for record in records),
            min(record.measured["margin"] for record in records),
        )

    def _verdict(self, title: str, adversary: Adversary, found: list[Forced], learners: int) -> Verdict:
        what = f"mistakes of each of {learners} learners"
        published = f"{'at least' if adversary.feedback == 'full' else 'of the order of'} {adversary.published:g}"
        if len(found) < learners:
            why = "some of the runs failed, or were not done"
            return Verdict(self.item.name, title, what, published, None, "", Status.FAILED, why)
        means = [one.mean.mean for one in found]
        least, bound = min(min(one.adaptive) for one in found), f"expected at least {adversary.expected:g}"
        said = f"adaptive: at least {least}; oblivious: {min(means):.1f} to {max(means):.1f}, {bound}"
        spared = [one.rule for one in found if not one.held]
        why = f"fewer were made by {', '.join(spared)}" if spared else ""
        return Verdict(
            self.item.name, title, what, published, None, said, Status.DIFFERS if spared else Status.REPRODUCED, why
        )


def forced_table(title: str, found: list[Forced]) -> Table:
    columns = [
        Column("learner"),
        Column("adaptive", True, "mistakes where the adversary looks at what is played; the fewest of all runs"),
        Column("oblivious", True, "mistakes where all classes are drawn beforehand; mean over runs"),
        Column("bounds kept"),
    ]
    rows: list[list[Cell]] = []
    for one in found:
        mean = one.mean
        half = "" if math.isnan(mean.low) else f"± {mean.high - mean.mean:.1f}"
        kept = Badge("yes", "good") if one.held else Badge("no", "bad")
        fewest = min(one.adaptive)
        rows.append([one.rule, Number(fewest, f"{fewest}"), Number(mean.mean, f"{mean.mean:.1f}", half), kept])
    adversary = found[0].adversary
    return Table(
        f"{title}: {adversary.rounds} rounds, {adversary.expected:g} mistakes expected at least", columns, {"": rows}
    )
