"""Items that are drawn: data in the plane and their separability, decision regions, surrogate gap.

What is measured for a figure is stored in the record of a run, so that an item can be shown from records alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from onebit.data.streams import Stream
from onebit.errors import OnebitError
from onebit.experiments.regions import compute_regions
from onebit.experiments.report import Part, Regions, Scatter
from onebit.experiments.runner import TrialCollector
from onebit.experiments.trials import Measurement, Trial, make_entry
from onebit.experiments.trials.records import Record
from onebit.learner.learner import Learner
from onebit.papers import PaperData
from onebit.papers.plans import ItemPlan
from onebit.papers.verdicts import ItemResult, Status, Verdict
from onebit.theory.margins import KINDS, margin
from onebit.theory.rounds import read_rounds
from onebit.theory.theorems.hoeven2020 import figure1

POINTS = 3000  # points in a scatter plot
CARRIER = "perceptron"  # margins need no learner, but measurements are stored in the record of a run


class ScatterPlan(ItemPlan):
    """The plan of an item that draws data in the plane."""

    def result(self, collector: TrialCollector) -> ItemResult:
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


@dataclass(frozen=True)
class SeparabilityMeasurement(Measurement):
    """The margins of a trial's rows, for one kind of separability and the next stricter one."""

    kind = "separability"
    what = "its separability"
    modules = ("theory",)

    of: str
    groups: Sequence[Sequence[int]] | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of separability to measure, from strict to lax."""
        place = KINDS.index(self.of)
        return KINDS[max(0, place - 1) : place + 1]

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Return the margin of each kind, 0 if there is none."""
        rounds = read_rounds(trial.stream, None, trial.seed, {})
        found = {}
        for kind in self.kinds:
            groups = self.groups if kind == "group" else None
            one = margin(rounds.X, rounds.labels, kind=kind, groups=groups, classes=rounds.classes)
            found[kind] = one.margin if one.separable else 0.0
        return {"margins": found}


class SeparabilityPlan(ScatterPlan):
    """The plan of an item that draws data in the plane and checks how separable they are."""

    def _trial(self, data: PaperData, given: Stream) -> Trial:
        measurement = SeparabilityMeasurement(data.separable, data.groups)
        return Trial(make_entry(CARRIER), given, given.seed, curve=False, measurement=measurement)

    def trials(self) -> list[Trial]:
        pairs = [(data, self.streams[data.name]) for data in self.item.data]
        return [self._trial(data, given) for data, given in pairs if isinstance(given, Stream)]

    def result(self, collector: TrialCollector) -> ItemResult:
        verdicts = [self._verdict(data, collector) for data in self.item.data]
        return ItemResult(self.item, 0, verdicts, super().result(collector).parts)

    def _verdict(self, data: PaperData, collector: TrialCollector) -> Verdict:
        given, words = self.streams[data.name], {"strong": "strongly", "weak": "weakly", "group": "group weakly"}
        what = f"{words[data.separable]} separable"
        done = self.records(collector, [self._trial(data, given)]) if isinstance(given, Stream) else Status.MISSING
        if isinstance(done, str):
            return self.unmeasured(data.name, what, done)
        margins = done[0].measured["margins"]
        stricter = [kind for kind in margins if kind != data.separable]
        said = ", ".join(
            f"{kind} margin {value:.4f}" if value else f"no {kind} margin" for kind, value in margins.items()
        )
        fits = margins[data.separable] > 0.0 and not any(margins[kind] for kind in stricter)
        wanted = "".join(f", not {words[kind]}" for kind in stricter)
        verdict = Status.REPRODUCED if fits else Status.DIFFERS
        return Verdict(self.item.name, data.name, what + wanted, "drawn", None, said, verdict, data.why)


@dataclass(frozen=True)
class BoundaryMeasurement(Measurement):
    """A learner's decision regions in the plane, with the boundary of one class.

    The class is the one that it learnt best (easiest) or worst (hardest).
    """

    kind = "boundary"
    what = "its boundary"
    modules = ("experiments.regions", "papers.pictures")

    of: str

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Return the regions with fresh points, and the share of the class's points that are misclassified."""
        fresh = replace(trial.stream, rounds=POINTS).data(1)
        rows, labels = fresh.X[:POINTS], fresh.y[:POINTS]
        wrong = np.array([learner.best(x) for x in rows]) != np.array(fresh.classes)[labels]
        shares = [float(wrong[labels == index].mean()) for index in range(len(fresh.classes))]
        index = int(np.argmin(shares) if self.of == "easiest" else np.argmax(shares))
        found = compute_regions(learner, rows, np.array(fresh.classes)[labels].tolist(), label=fresh.classes[index])
        return {"class": str(fresh.classes[index]), "wrong": shares[index], "regions": asdict(found)}


class BoundaryPlan(ItemPlan):
    """The plan of an item that draws a learner's decision regions after one run on each data set."""

    def trials(self) -> list[Trial]:
        return [self._trial(name, streamed) for name, streamed in self.streams.items() if isinstance(streamed, Stream)]

    def _trial(self, data: str, streamed: Stream) -> Trial:
        (learner,) = self.item.learners
        entry = make_entry(learner.rule, learner.options_on(data))
        return Trial(entry, streamed, streamed.seed, measurement=BoundaryMeasurement(self.item.boundary_of))

    def result(self, collector: TrialCollector) -> ItemResult:
        parts: list[Part] = []
        verdicts = []
        for name, streamed in self.streams.items():
            done: list[Record] | Status = Status.MISSING
            if isinstance(streamed, Stream):
                done = self.records(collector, [self._trial(name, streamed)])
            if isinstance(done, str):
                verdicts.append(self.unmeasured(name, "the picture", done))
            else:
                parts.append(draw_boundary(name, done[0].measured))
        return ItemResult(self.item, 0, verdicts, parts)


def draw_boundary(title: str, measured: dict[str, Any]) -> Regions:
    """Turn the values measured by `BoundaryMeasurement` into a drawing of the regions."""
    fields = measured["regions"]
    note = (
        f"Class {measured['class']}: {100 * measured['wrong']:.1f} % of its fresh points are named wrongly. "
        "Points are fresh; the black line is where its score is 0."
    )
    return Regions(**{**fields, "title": title, "points": Scatter(**fields["points"]), "note": note})


class GapPlan(ItemPlan):
    """The plan of an item that draws the surrogate gap of Gaptron, which needs no data."""

    def result(self, collector: TrialCollector) -> ItemResult:
        return ItemResult(self.item, 0, [], [figure1(loss) for loss in ("logistic", "hinge", "smooth")])
