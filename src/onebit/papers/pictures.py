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
from onebit.theory.theorems.hoeven2020 import draw_figure1

POINTS = 3000  # points in a scatter plot
ACROSS = 160  # points of the grid on which regions are drawn, in each direction
CARRIER = "perceptron"  # margins need no learner, but measurements are stored in the record of a run


class ScatterPlan(ItemPlan):
    """The plan of an item that draws data in the plane."""

    def result(self, collector: TrialCollector) -> ItemResult:
        parts: list[Part] = []
        verdicts = []
        for name, data_stream in self.streams.items():
            if isinstance(data_stream, OnebitError):
                verdicts.append(self.missing_verdict(name, "the picture"))
            else:
                data = replace(data_stream, rounds=POINTS).data(0)
                x, y = np.asarray(data.X, dtype=np.float64)[:POINTS, :2].T.round(4).tolist()
                classes = [str(label) for label in data.classes]
                parts.append(Scatter(name, x, y, data.y[:POINTS].tolist(), classes))
        return ItemResult(self.item, 0, verdicts, parts)


@dataclass(frozen=True)
class SeparabilityMeasurement(Measurement):
    """The margins of a trial's rows, for one kind of separability and the next stricter one."""

    kind = "separability"
    subject = "its separability"

    of: str
    groups: Sequence[Sequence[int]] | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of separability to measure, from strict to lax."""
        place = KINDS.index(self.of)
        return KINDS[max(0, place - 1) : place + 1]

    def measure(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Return the margin of each kind, 0 if there is none."""
        rounds = read_rounds(trial.stream, trial.seed)
        margins = {}
        for kind in self.kinds:
            groups = self.groups if kind == "group" else None
            separability = margin(rounds.X, rounds.labels, kind=kind, groups=groups, classes=rounds.classes)
            margins[kind] = separability.margin if separability.separable else 0.0
        return {"margins": margins}


class SeparabilityPlan(ScatterPlan):
    """The plan of an item that draws data in the plane and checks how separable they are."""

    def trials_on(self, data: str, data_stream: Stream) -> list[Trial]:
        (paper_data,) = (entry for entry in self.item.data if entry.name == data)
        measurement = SeparabilityMeasurement(paper_data.separable, paper_data.groups)
        return [Trial(make_entry(CARRIER), data_stream, data_stream.seed, curve=False, measurement=measurement)]

    def result(self, collector: TrialCollector) -> ItemResult:
        verdicts = [self._verdict(data, collector) for data in self.item.data]
        return ItemResult(self.item, 0, verdicts, super().result(collector).parts)

    def _verdict(self, data: PaperData, collector: TrialCollector) -> Verdict:
        words = {"strong": "strongly", "weak": "weakly", "group": "group weakly"}
        claim = f"{words[data.separable]} separable"
        records = self.records_on(collector, data.name)
        if isinstance(records, str):
            return self.missing_verdict(data.name, claim, records)
        margins = records[0].measured["margins"]
        stricter = [kind for kind in margins if kind != data.separable]
        text = ", ".join(
            f"{kind} margin {value:.4f}" if value else f"no {kind} margin" for kind, value in margins.items()
        )
        fits = margins[data.separable] > 0.0 and not any(margins[kind] for kind in stricter)
        wanted = "".join(f", not {words[kind]}" for kind in stricter)
        verdict = Status.REPRODUCED if fits else Status.DIFFERS
        return Verdict(self.item.name, data.name, claim + wanted, "drawn", None, text, verdict, data.why)


@dataclass(frozen=True)
class BoundaryMeasurement(Measurement):
    """A learner's decision regions in the plane, with the boundary of one class.

    The class is the one that it learnt best (easiest) or worst (hardest).
    """

    kind = "boundary"
    subject = "its boundary"

    of: str

    def measure(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Return the regions with newly drawn points, and the share of misclassified points of the class."""
        dataset = replace(trial.stream, rounds=POINTS).data(1)
        rows, labels = dataset.X[:POINTS], dataset.y[:POINTS]
        wrong = np.array([learner.best(x) for x in rows]) != np.array(dataset.classes)[labels]
        shares = [float(wrong[labels == index].mean()) for index in range(len(dataset.classes))]
        index = int(np.argmin(shares) if self.of == "easiest" else np.argmax(shares))
        regions = compute_regions(learner, rows, labels, index)
        return {"class": str(dataset.classes[index]), "wrong": shares[index], "regions": asdict(regions)}


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

    def trials_on(self, data: str, data_stream: Stream) -> list[Trial]:
        (learner,) = self.item.learners
        entry = make_entry(learner.rule, learner.options_on(data))
        return [Trial(entry, data_stream, data_stream.seed, measurement=BoundaryMeasurement(self.item.boundary_of))]

    def result(self, collector: TrialCollector) -> ItemResult:
        parts: list[Part] = []
        verdicts = []
        for name in self.streams:
            records = self.records_on(collector, name)
            if isinstance(records, str):
                verdicts.append(self.missing_verdict(name, "the picture", records))
            else:
                parts.append(draw_boundary(name, records[0].measured))
        return ItemResult(self.item, 0, verdicts, parts)


def draw_boundary(title: str, measured: dict[str, Any]) -> Regions:
    """Turn the values measured by `BoundaryMeasurement` into a drawing of the regions."""
    fields = measured["regions"]
    note = (
        f"Class {measured['class']}: {100 * measured['wrong']:.1f} % of its new points are misclassified. "
        "Points are newly drawn; the black line is where its score is 0."
    )
    return Regions(**{**fields, "title": title, "points": Scatter(**fields["points"]), "note": note})


class GapPlan(ItemPlan):
    """The plan of an item that draws the surrogate gap of Gaptron, which needs no data."""

    def result(self, collector: TrialCollector) -> ItemResult:
        return ItemResult(self.item, 0, [], [draw_figure1(loss) for loss in ("logistic", "hinge", "smooth")])
