"""Items that are drawn: data in the plane and how they are separable, regions of learners, what feedback tells, the surrogate gap.

What is measured for a picture is kept in the record of a run, so that an item is shown from records alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onebit.data.streams import Stream
from onebit.errors import OnebitError
from onebit.experiments.regions import compute_regions
from onebit.experiments.report import HeatMap, Part, Regions, Scatter
from onebit.experiments.runner import TrialCollector
from onebit.experiments.trials import Trial, choose_marks, make_entry
from onebit.experiments.trials.records import Record
from onebit.learner.learner import Learner
from onebit.papers import PaperData
from onebit.papers.plans import ItemMeasurement, ItemPlan
from onebit.papers.verdicts import DIFFERS, MISSING, REPRODUCED, ItemResult, Verdict
from onebit.theory.margins import KINDS, margin
from onebit.theory.rounds import read_rounds
from onebit.theory.setting import Setting
from onebit.theory.theorems.hoeven2020 import figure1

POINTS = 3000  # of a scatter
CARRIER = "perceptron"  # margins need no learner, but what is measured is kept in the record of a run


class ScatterPlan(ItemPlan):
    """An item that draws data in the plane."""

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
class SeparabilityMeasurement(ItemMeasurement):
    """The margins of the rows of a trial, of one kind and of the next stricter one."""

    kind = "separability"
    what = "its separability"
    modules = ("theory",)

    of: str
    groups: Sequence[Sequence[int]] | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are looked at; they are listed from strict to lax."""
        place = KINDS.index(self.of)
        return KINDS[max(0, place - 1) : place + 1]

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """The margin of each kind, 0 where there is none."""
        rounds = read_rounds(trial.stream, None, trial.seed, {})
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
        done = self.records(collector, [self._trial(data, given)]) if isinstance(given, Stream) else MISSING
        if isinstance(done, str):
            return self.unmeasured(data.name, what, done)
        margins = done[0].measured["margins"]
        stricter = [kind for kind in margins if kind != data.separable]
        said = ", ".join(
            f"{kind} margin {value:.4f}" if value else f"no {kind} margin" for kind, value in margins.items()
        )
        fits = margins[data.separable] > 0.0 and not any(margins[kind] for kind in stricter)
        wanted = "".join(f", not {words[kind]}" for kind in stricter)
        verdict = REPRODUCED if fits else DIFFERS
        return Verdict(self.item.name, data.name, what + wanted, "drawn", None, said, verdict, data.why)


@dataclass(frozen=True)
class BoundaryMeasurement(ItemMeasurement):
    """The regions of a learner in the plane, and the boundary of the class that it learnt best (easiest) or worst (hardest)."""

    kind = "boundary"
    what = "its boundary"
    modules = ("experiments.regions", "papers.pictures")

    of: str

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """The regions as plain values, with fresh points on top, and how many points of the class are named wrongly."""
        fresh = replace(trial.stream, rounds=POINTS).data(1)
        rows, labels = fresh.X[:POINTS], fresh.y[:POINTS]
        wrong = np.array([learner.best(x) for x in rows]) != np.array(fresh.classes)[labels]
        shares = [float(wrong[labels == index].mean()) for index in range(len(fresh.classes))]
        index = int(np.argmin(shares) if self.of == "easiest" else np.argmax(shares))
        found = compute_regions(learner, rows, np.array(fresh.classes)[labels].tolist(), label=fresh.classes[index])
        assert found.points is not None
        assert found.scores is not None
        return {
            "class": str(fresh.classes[index]),
            "wrong": shares[index],
            "classes": list(found.classes),
            "x": list(found.x),
            "y": list(found.y),
            "labels": _without_nan(found.labels),
            "scores": _without_nan(found.scores),
            "points": {"x": list(found.points.x), "y": list(found.points.y), "labels": list(found.points.labels)},
        }

    def draw(self, title: str, measured: dict[str, Any]) -> list[Part]:
        points = measured["points"]
        regions = Regions(
            title,
            measured["x"],
            measured["y"],
            _with_nan(measured["labels"]),
            measured["classes"],
            _with_nan(measured["scores"]),
            Scatter("", points["x"], points["y"], points["labels"], []),
            "feature 0",
            "feature 1",
            f"Class {measured['class']}: {100 * measured['wrong']:.1f} % of its fresh points are named wrongly. "
            "Points are fresh; the black line is where its score is 0.",
        )
        return [regions]


def _without_nan(grid: Sequence[Sequence[float]]) -> list[list[float | None]]:
    """JSON has no NaN, which stands for points of which a learner has no opinion."""
    return [[None if math.isnan(one) else one for one in line] for line in grid]


def _with_nan(grid: Sequence[Sequence[float | None]]) -> list[list[Any]]:
    return [[math.nan if one is None else one for one in line] for line in grid]


@dataclass(frozen=True)
class FeedbackMeasurement(ItemMeasurement):
    """The label of every round beside the one that the learner plays."""

    kind = "feedback"
    what = "what feedback tells it"
    modules = ("theory.setting", "papers.pictures")

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """The run again, step by step."""
        rounds, entry = read_rounds(trial.stream, None, trial.seed, {}), trial.entry
        trace = Setting(entry.rule, entry.options, rounds, 1, trial.seed, choose_marks(rounds.count)).traces[0]
        labels = rounds.y[: len(trace.played)]
        return {
            "classes": [str(name) for name in rounds.classes],
            "labels": labels.tolist(),
            "played": trace.played.tolist(),
        }

    def draw(self, title: str, measured: dict[str, Any]) -> list[Part]:
        """Draw what each sort of feedback tells: 1 where a class is known to be the label, 0 where it is known not to be."""
        classes, labels, played = measured["classes"], measured["labels"], measured["played"]
        rounds = list(zip(labels, played, strict=True))
        full: list[list[float | None]] = [[float(kind == label) for label, _ in rounds] for kind in range(len(classes))]
        bandit: list[list[float | None]] = [
            [float(kind == label) if play in (label, kind) else None for label, play in rounds]
            for kind in range(len(classes))
        ]
        right = sum(label == play for label, play in rounds)
        bits = {
            "(a) full information": "The label is told in every round.",
            "(b) bandit feedback": f"Told is whether the label played is right: in {right} of {len(rounds)} rounds it is, and the label is known; "
            "in all others one class is ruled out.",
        }
        return [
            HeatMap(
                f"{title}: {name}",
                "round",
                list(range(1, len(rounds) + 1)),
                "class",
                classes,
                known,
                [
                    [_marked(one, kind == play) for one, (_, play) in zip(line, rounds, strict=True)]
                    for kind, line in enumerate(known)
                ],
                note=f"{note} 1: known to be the label, 0: known not to be, ?: not known; in brackets the label played.",
            )
            for (name, note), known in zip(bits.items(), (full, bandit), strict=True)
        ]


def _marked(known: float | None, played: bool) -> str:
    text = "?" if known is None else f"{known:.0f}"
    return f"[{text}]" if played else text


class PicturePlan(ItemPlan):
    """An item that draws what is measured of one run of a learner on each data set."""

    @property
    def picture(self) -> BoundaryMeasurement | FeedbackMeasurement:
        return BoundaryMeasurement(self.item.boundary_of) if self.item.kind == "boundary" else FeedbackMeasurement()

    def trials(self) -> list[Trial]:
        return [self._trial(name, streamed) for name, streamed in self.streams.items() if isinstance(streamed, Stream)]

    def _trial(self, data: str, streamed: Stream) -> Trial:
        (learner,) = self.item.learners
        entry = make_entry(learner.rule, learner.options_on(data))
        return Trial(entry, streamed, streamed.seed, measurement=self.picture)

    def result(self, collector: TrialCollector) -> ItemResult:
        parts: list[Part] = []
        verdicts = []
        for name, streamed in self.streams.items():
            done: list[Record] | str = MISSING
            if isinstance(streamed, Stream):
                done = self.records(collector, [self._trial(name, streamed)])
            if isinstance(done, str):
                verdicts.append(self.unmeasured(name, "the picture", done))
            else:
                parts += self.picture.draw(name, done[0].measured)
        return ItemResult(self.item, 0, verdicts, parts)


class GapPlan(ItemPlan):
    """The surrogate gap of Gaptron, which needs no data."""

    def result(self, collector: TrialCollector) -> ItemResult:
        return ItemResult(self.item, 0, [], [figure1(loss) for loss in ("logistic", "hinge", "smooth")])
