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
from onebit.theory.adversaries import Adversary, Forced, make_learner
from onebit.theory.bound import Bound
from onebit.theory.mistakes import FEW, CheckedBound, check_bounds, mistake_curves
from onebit.theory.rounds import read_rounds
from onebit.theory.setting import Setting
from onebit.theory.theorems import check_theorems, compute_promises


@dataclass(frozen=True)
class BoundsMeasurement(Measurement):
    """The bounds that theorems promise on the rounds of a trial, to be compared with `runs` runs."""

    kind = "bounds"
    subject = "its theoretical guarantee"

    runs: int

    def measure(self, learner: Learner, trial: Trial) -> dict[str, Any]:
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
            name: read_rounds(data_stream, 0).as_stream() if isinstance(data_stream, Stream) else data_stream
            for name, data_stream in self.streams.items()
        }

    def trials_on(self, data: str, data_stream: Stream) -> list[Trial]:
        return [trial for learner in self.item.learners for trial in self._trials(learner, data, data_stream)]

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
                    verdicts.append(self.missing_verdict(name, learner.name, records))
                    continue
                bounds = [Bound(**plain) for plain in records[0].measured["bounds"]]
                runs, rounds = Summary(trials[0].entry, records), trials[0].stream.rounds
                verdicts += [
                    self._verdict(name, learner, checked, rounds)
                    for checked in check_bounds(runs.errors, rounds, bounds)
                ]
                if any(bound.line is not None for bound in bounds):
                    rule, title = trials[0].entry.rule.name, f"{learner.name} on {name}"
                    parts.append(mistake_curves(rule, records[0].marks, runs.curve("played"), bounds, title))
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _verdict(self, data: str, learner: PaperLearner, checked: CheckedBound, rounds: int) -> Verdict:
        bound = checked.bound
        claim = f"{learner.name}: {bound.name}, {bound.of}"
        small = bound.value < FEW and not bound.of.startswith("mistakes")
        text = checked.measured_text if small or not bound.applies else f"{checked.mean.mean:,.0f}"
        if checked.held is None:
            verdict = Status.SHOWN
        elif not checked.held:
            verdict = Status.DIFFERS
        else:
            beyond = bound.of.startswith("mistakes") and bound.value >= rounds
            verdict = Status.VACUOUS if beyond or bound.holds == "vacuous" else Status.REPRODUCED
        explanation = "" if verdict == Status.REPRODUCED else bound.why or f"not below the {rounds:,} rounds"
        promise = ("at most " if math.isfinite(bound.value) and not bound.equal else "") + bound.value_text
        return Verdict(self.item.name, data, claim, promise, None, text, verdict, explanation)


@dataclass(frozen=True)
class AdversaryMeasurement(Measurement):
    """The mistakes that the adaptive adversary forces on a new learner like the trial's.

    The trial itself runs against the oblivious adversary.
    """

    kind = "adversary"
    subject = "what an adversary forces on it"

    adversary: Adversary

    def measure(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Play, and return the mistakes and the margin of the classes that the adversary chose."""
        game = self.adversary.play(make_learner(trial.entry, trial.stream, trial.seed))
        return {"mistakes": game.mistakes, "margin": self.adversary.certified_margin(game.labels)}


class AdversaryPlan(ItemPlan):
    """The plan of an item of lower bounds: every learner plays every adversary for its feedback."""

    def _names(self, adversary: Adversary) -> list[str]:
        return [
            name
            for name, rule in chosen_rules().items()
            if adversary.feedback == "full" or rule.full_information is not True
        ]

    def _trials(self, name: str, adversary: Adversary) -> list[Trial]:
        entry, data_stream = make_entry(name), adversary.stream()
        measurement = AdversaryMeasurement(adversary)
        return [Trial(entry, data_stream, seed, curve=False, measurement=measurement) for seed in range(self.runs)]

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
            outcomes = [self._collect_forced(name, adversary, collector) for name in self._names(adversary)]
            finished = [forced for forced in outcomes if forced is not None]
            verdicts.append(self._verdict(title, adversary, finished, len(outcomes)))
            parts += [forced_table(title, finished)] if finished else []
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

    def _verdict(self, title: str, adversary: Adversary, results: list[Forced], learners: int) -> Verdict:
        claim = f"mistakes of each of {learners} learners"
        published = f"{'at least' if adversary.feedback == 'full' else 'of the order of'} {adversary.published:g}"
        if len(results) < learners:
            why = "some of the runs failed, or were not done"
            return Verdict(self.item.name, title, claim, published, None, "", Status.FAILED, why)
        means = [forced.mean.mean for forced in results]
        fewest, bound = min(min(forced.adaptive) for forced in results), f"expected at least {adversary.expected:g}"
        text = f"adaptive: at least {fewest}; oblivious: {min(means):.1f} to {max(means):.1f}, {bound}"
        spared = [forced.rule for forced in results if not forced.held]
        why = f"fewer were made by {', '.join(spared)}" if spared else ""
        return Verdict(
            self.item.name, title, claim, published, None, text, Status.DIFFERS if spared else Status.REPRODUCED, why
        )


def forced_table(title: str, results: list[Forced]) -> Table:
    """Return the table of the mistakes that an adversary forced on each learner."""
    columns = [
        Column("learner"),
        Column("adaptive", True, "mistakes where the adversary looks at what is played; the fewest of all runs"),
        Column("oblivious", True, "mistakes where all classes are drawn beforehand; mean over runs"),
        Column("bounds kept"),
    ]
    rows: list[list[Cell]] = []
    for forced in results:
        mean = forced.mean
        half = "" if math.isnan(mean.low) else f"± {mean.high - mean.mean:.1f}"
        badge = Badge("yes", "good") if forced.held else Badge("no", "bad")
        fewest = min(forced.adaptive)
        rows.append([forced.rule, Number(fewest, f"{fewest}"), Number(mean.mean, f"{mean.mean:.1f}", half), badge])
    adversary = results[0].adversary
    return Table(
        f"{title}: {adversary.rounds} rounds, {adversary.expected:g} mistakes expected at least", columns, {"": rows}
    )
