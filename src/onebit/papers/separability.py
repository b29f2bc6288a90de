"""Sets of a paper that are separable in one way and not in a stricter one: drawn, and their margins found by a solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onebit.data.streams import Stream
from onebit.errors import OnebitError
from onebit.experiments.runner import Collected
from onebit.learner import Learner
from onebit.papers.measurements import source_mark
from onebit.papers.paper import PaperData
from onebit.papers.plans import ScatterPlan
from onebit.papers.verdicts import DIFFERS, FAILED, MISSING, REPRODUCED, ItemResult, Verdict
from onebit.theory.margins import KINDS, margin
from onebit.theory.rounds import rounds_of
from onebit.trials.trial import Trial, entry_of

CARRIER = "perceptron"  # margins need no learner, but what is measured is kept in the record of a run


@dataclass(frozen=True)
class SeparabilityMeasurement:
    """The margins of the rows of a trial, of one kind and of the next stricter one."""

    kind: str
    groups: Sequence[Sequence[int]] | None
    what = "its separability"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are looked at; they are listed from strict to lax."""
        place = KINDS.index(self.kind)
        return KINDS[max(0, place - 1) : place + 1]

    @property
    def described(self) -> dict[str, Any]:
        """Which kind and which groups, with which code."""
        groups = None if self.groups is None else [list(group) for group in self.groups]
        return {"kind": "separability", "of": self.kind, "groups": groups, "code": source_mark("theory")}

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """The margin of each kind, 0 where there is none."""
        rounds = rounds_of(trial.stream, None, trial.seed, {})
        found = {}
        for kind in self.kinds:
            groups = self.groups if kind == "group" else None
            one = margin(rounds.X, rounds.labels, kind=kind, groups=groups, classes=rounds.classes)
            found[kind] = one.margin if one.separable else 0.0
        return {"margins": found}


class SeparabilityPlan(ScatterPlan):
    """An item that draws data in the plane, and says how they are separable."""

    def _trial(self, data: PaperData, given: Stream) -> Trial:
        measurement = SeparabilityMeasurement(data.separable, data.groups)
        return Trial(entry_of(CARRIER), given, given.seed, curve=False, measurement=measurement)

    def trials(self) -> list[Trial]:
        """One for each data set."""
        pairs = [(data, self.streams[data.name]) for data in self.item.data]
        return [self._trial(data, given) for data, given in pairs if isinstance(given, Stream)]

    def result(self, collected: Collected) -> ItemResult:
        """A verdict for each data set, and the points."""
        verdicts = [self._verdict(data, collected) for data in self.item.data]
        return ItemResult(self.item, 0, verdicts, super().result(collected).parts)

    def _verdict(self, data: PaperData, collected: Collected) -> Verdict:
        given, words = self.streams[data.name], {"strong": "strongly", "weak": "weakly", "group": "group weakly"}
        what = f"{words[data.separable]} separable"
        if isinstance(given, OnebitError):
            return Verdict(self.item.name, data.name, what, "", None, "", MISSING, str(given))
        records = [record for record in collected.of([self._trial(data, given)]) if not record.failed]
        if not records:
            return Verdict(self.item.name, data.name, what, "", None, "", FAILED, "its run failed, or was not done")
        margins = records[0].measured["margins"]
        stricter = [kind for kind in margins if kind != data.separable]
        said = ", ".join(
            f"{kind} margin {value:.4f}" if value else f"no {kind} margin" for kind, value in margins.items()
        )
        fits = margins[data.separable] > 0.0 and not any(margins[kind] for kind in stricter)
        wanted = "".join(f", not {words[kind]}" for kind in stricter)
        verdict = REPRODUCED if fits else DIFFERS
        return Verdict(self.item.name, data.name, what + wanted, "drawn", None, said, verdict, data.why)
