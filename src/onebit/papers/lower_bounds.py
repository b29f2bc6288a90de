"""Lower bounds of a paper: adversaries that force them on every learner there is."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from onebit.experiments.runner import Collected
from onebit.learner import Learner
from onebit.papers.item_plan import ItemPlan
from onebit.papers.measurements import source_mark
from onebit.papers.verdicts import DIFFERS, FAILED, REPRODUCED, ItemResult, Verdict
from onebit.report.parts import Badge, Cell, Column, Number, Part, Table
from onebit.rules import chosen_rules
from onebit.theory.adversaries import Adversary, Forced, fresh_learner
from onebit.trials.trial import Trial, entry_of


@dataclass(frozen=True)
class AdversaryMeasurement:
    """What the adaptive adversary forces on a learner of the trial's kind; the trial itself is against the oblivious one."""

    adversary: Adversary
    what = "what an adversary forces on it"

    @property
    def described(self) -> dict[str, Any]:
        """Which adversary, with which code."""
        return {"kind": "adversary", **asdict(self.adversary), "code": source_mark("theory.adversaries")}

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Its mistakes, and the margin of the classes that the adversary settled on."""
        game = self.adversary.play(fresh_learner(trial.entry, trial.stream, trial.seed))
        return {"mistakes": game.mistakes, "margin": self.adversary.certified(game.labels)}


class AdversaryPlan(ItemPlan):
    """An item of lower bounds: every learner against every adversary that is one for its feedback."""

    def _names(self, adversary: Adversary) -> list[str]:
        return [
            name
            for name, rule in chosen_rules().items()
            if adversary.feedback == "full" or rule.full_information is not True
        ]

    def _trials(self, name: str, adversary: Adversary) -> list[Trial]:
        entry, given = entry_of(name), adversary.stream()
        measurement = AdversaryMeasurement(adversary)
        return [Trial(entry, given, seed, curve=False, measurement=measurement) for seed in range(self.runs)]

    def trials(self) -> list[Trial]:
        """Every learner against every adversary with every seed."""
        return [
            trial
            for _, adversary in self.item.adversaries
            for name in self._names(adversary)
            for trial in self._trials(name, adversary)
        ]

    def result(self, collected: Collected) -> ItemResult:
        """A verdict for each adversary, and what it forced on each learner."""
        verdicts: list[Verdict] = []
        parts: list[Part] = []
        for title, adversary in self.item.adversaries:
            found = [self._forced(name, adversary, collected) for name in self._names(adversary)]
            done = [one for one in found if one is not None]
            verdicts.append(self._verdict(title, adversary, done, len(found)))
            parts += [forced_table(title, done)] if done else []
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _forced(self, name: str, adversary: Adversary, collected: Collected) -> Forced | None:
        trials = self._trials(name, adversary)
        records = [record for record in collected.of(trials) if not record.failed]
        if len(records) < len(trials):
            return None
        return Forced(
            adversary,
            name,
            {},
            tuple(record.measured["mistakes"] for record in records),
            tuple(round(record.error * adversary.rounds) for record in records),
            min(record.measured["margin"] for record in records),
        )

    def _verdict(self, title: str, adversary: Adversary, found: list[Forced], learners: int) -> Verdict:
        what = f"mistakes of each of {learners} learners"
        published = f"{'at least' if adversary.feedback == 'full' else 'of the order of'} {adversary.published:g}"
        if len(found) < learners:
            why = "some of the runs failed, or were not done"
            return Verdict(self.item.name, title, what, published, None, "", FAILED, why)
        means = [one.mean.mean for one in found]
        least, bound = min(min(one.adaptive) for one in found), f"expected at least {adversary.expected:g}"
        said = f"adaptive: at least {least}; oblivious: {min(means):.1f} to {max(means):.1f}, {bound}"
        spared = [one.rule for one in found if not one.held]
        why = f"fewer were made by {', '.join(spared)}" if spared else ""
        return Verdict(self.item.name, title, what, published, None, said, DIFFERS if spared else REPRODUCED, why)


def forced_table(title: str, found: list[Forced]) -> Table:
    """What an adversary forced on each learner."""
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
        f"{title}: {adversary.rounds} rounds, {adversary.expected:g} mistakes expected at least", columns, rows
    )
