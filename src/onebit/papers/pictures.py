"""Items that are drawn: data in the plane and their separability, decision regions, surrogate gap.

What is measured for a figure is stored in the record of a run, so that an item can be shown from records alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.streams import Stream
from onebit.errors import OnebitError
from onebit.experiments.report import Part, Regions, Scatter
from onebit.experiments.runner import TrialCollector
from onebit.experiments.trials import Measurement, Trial, make_entry
from onebit.learner.learner import Learner
from onebit.papers import PaperData
from onebit.papers.plans import ItemPlan
from onebit.papers.verdicts import ItemResult, Status, Verdict
from onebit.theory.margins import KINDS, margin
from onebit.theory.rounds import read_rounds
from onebit.theory.theorems.hoeven2020 import figure1

POINTS = 3000  # points in a scatter plot
ACROSS = 160  # points of the grid on which regions are drawn, in each direction
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

    of: str
    groups: Sequence[Sequence[int]] | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of separability to measure, from strict to lax."""
        place = KINDS.index(self.of)
        return KINDS[max(0, place - 1) : place + 1]

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Return the margin of each kind, 0 if there is none."""
        rounds = read_rounds(trial.stream, trial.seed)
        found = {}
        for kind in self.kinds:
            groups = self.groups if kind == "group" else None
            one = margin(rounds.X, rounds.labels, kind=kind, groups=groups, classes=rounds.classes)
            found[kind] = one.margin if one.separable else 0.0
        return {"margins": found}


class SeparabilityPlan(ScatterPlan):
    """The plan of an item that draws data in the plane and checks how separable they are."""

    def trials_on(self, data: str, given: Stream) -> list[Trial]:
        (measured,) = (one for one in self.item.data if one.name == data)
        measurement = SeparabilityMeasurement(measured.separable, measured.groups)
        return [Trial(make_entry(CARRIER), given, given.seed, curve=False, measurement=measurement)]

    def result(self, collector: TrialCollector) -> ItemResult:
        verdicts = [self._verdict(data, collector) for data in self.item.data]
        return ItemResult(self.item, 0, verdicts, super().result(collector).parts)

    def _verdict(self, data: PaperData, collector: TrialCollector) -> Verdict:
        words = {"strong": "strongly", "weak": "weakly", "group": "group weakly"}
        what = f"{words[data.separable]} separable"
        done = self.records_on(collector, data.name)
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

    of: str

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Return the regions with fresh points, and the share of the class's points that are misclassified."""
        fresh = replace(trial.stream, rounds=POINTS).data(1)
        rows, labels = fresh.X[:POINTS], fresh.y[:POINTS]
        wrong = np.array([learner.best(x) for x in rows]) != np.array(fresh.classes)[labels]
        shares = [float(wrong[labels == index].mean()) for index in range(len(fresh.classes))]
        index = int(np.argmin(shares) if self.of == "easiest" else np.argmax(shares))
        regions = compute_regions(learner, rows, labels, index)
        return {"class": str(fresh.classes[index]), "wrong": shares[index], "regions": asdict(regions)}


def compute_regions(learner: Learner, rows: NDArray[np.float32], labels: NDArray[np.int64], label: int) -> Regions:
    """Compute a learner's decision regions around rows in the plane, and the scores of one class."""
    points = rows.astype(np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.03 * (high - low)
    x, y = (np.linspace(*ends, ACROSS) for ends in zip(low - margin, high + margin, strict=True))
    grid = np.column_stack([np.tile(x, ACROSS), np.repeat(y, ACROSS)])
    inside = np.ones(len(grid), dtype=bool)
    if learner.runtime.options.kernel == "rational":
        inside = np.square(grid).sum(axis=1) <= 1.0  # this kernel needs rows of length at most 1
    predicted, scores = np.full((2, len(grid)), np.nan)
    decisions = learner.decide_many(grid[inside], ids=range(int(inside.sum())))
    predicted[inside] = [learner.classes.index(decision.greedy) for decision in decisions]
    scores[inside] = [learner.scores(point)[label] for point in grid[inside]]
    classes = [str(name) for name in learner.classes]
    scatter = Scatter("", points[:, 0].tolist(), points[:, 1].tolist(), labels.tolist(), classes)
    regions, heights = predicted.reshape(ACROSS, ACROSS), scores.reshape(ACROSS, ACROSS)
    return Regions("", x.tolist(), y.tolist(), regions.tolist(), heights.tolist(), scatter)


class BoundaryPlan(ItemPlan):
    """The plan of an item that draws a learner's decision regions after one run on each data set."""

    def trials_on(self, data: str, given: Stream) -> list[Trial]:
        (learner,) = self.item.learners
        entry = make_entry(learner.rule, learner.options_on(data))
        return [Trial(entry, given, given.seed, measurement=BoundaryMeasurement(self.item.boundary_of))]

    def result(self, collector: TrialCollector) -> ItemResult:
        parts: list[Part] = []
        verdicts = []
        for name in self.streams:
            done = self.records_on(collector, name)
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
