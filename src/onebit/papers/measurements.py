"""What items of papers measure on a learner when its run is done: the regions it sees in the plane, what feedback tells it, what theorems promise.

All are kept in the record of the run, so that an item is shown from records alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from onebit.learner import Learner
from onebit.regions import regions_of
from onebit.report.parts import HeatMap, Part, Regions, Scatter
from onebit.theory.promises import promised
from onebit.theory.rounds import rounds_of
from onebit.theory.setting import Setting
from onebit.trials.trial import Trial, marks_for

POINTS = 3000  # of a scatter


@cache
def source_mark(*modules: str) -> str:
    """A hash of the source of some modules and packages of onebit: what was measured by them holds while this is the same."""
    digest = hashlib.blake2b(digest_size=12)
    for name in modules:
        found = resources.files("onebit").joinpath(*name.split("."))
        files = [found.with_name(f"{found.name}.py")] if not found.is_dir() else sorted(found.rglob("*.py"))  # type: ignore[attr-defined]
        for file in files:
            digest.update(file.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class BoundaryMeasurement:
    """The regions of a learner in the plane, and the boundary of the class that it learnt best (easiest) or worst (hardest)."""

    of: str
    what = "its boundary"

    @property
    def described(self) -> dict[str, Any]:
        """Which class, with which code."""
        return {"kind": "boundary", "of": self.of, "code": source_mark("regions", "papers.measurements")}

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """The regions as plain values, with fresh points on top, and how many points of the class are named wrongly."""
        fresh = replace(trial.stream, rounds=POINTS).data(1)
        rows, labels = fresh.X[:POINTS], fresh.y[:POINTS]
        wrong = np.array([learner.best(x) for x in rows]) != np.array(fresh.classes)[labels]
        shares = [float(wrong[labels == index].mean()) for index in range(len(fresh.classes))]
        index = int(np.argmin(shares) if self.of == "easiest" else np.argmax(shares))
        found = regions_of(learner, rows, np.array(fresh.classes)[labels].tolist(), label=fresh.classes[index])
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


def drawn_regions(title: str, measured: dict[str, Any]) -> Regions:
    """What a `BoundaryMeasurement` found, as a part of a page."""
    points = measured["points"]
    return Regions(
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


def _without_nan(grid: Sequence[Sequence[float]]) -> list[list[float | None]]:
    """JSON has no NaN, which stands for points of which a learner has no opinion."""
    return [[None if math.isnan(one) else one for one in line] for line in grid]


def _with_nan(grid: Sequence[Sequence[float | None]]) -> list[list[Any]]:
    return [[math.nan if one is None else one for one in line] for line in grid]


@dataclass(frozen=True)
class FeedbackMeasurement:
    """The label of every round beside the one that the learner plays."""

    what = "what feedback tells it"

    @property
    def described(self) -> dict[str, Any]:
        """With which code."""
        return {"kind": "feedback", "code": source_mark("theory.setting", "papers.measurements")}

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """The run again, step by step."""
        rounds, entry = rounds_of(trial.stream, None, trial.seed, {}), trial.entry
        trace = Setting(entry.rule, entry.options, rounds, 1, trial.seed, marks_for(rounds.count)).traces[0]
        labels = rounds.y[: len(trace.played)]
        return {
            "classes": [str(name) for name in rounds.classes],
            "labels": labels.tolist(),
            "played": trace.played.tolist(),
        }


def drawn_feedback(title: str, measured: dict[str, Any]) -> list[Part]:
    """What a `FeedbackMeasurement` found, as two parts of a page: 1 where a class is known to be the label, 0 where it is known not to be."""
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


@dataclass(frozen=True)
class BoundsMeasurement:
    """What the theorems promise of a learner on the rounds of its trial; `runs` is how many runs it is held against."""

    runs: int
    what = "what theorems promise of it"

    @property
    def described(self) -> dict[str, Any]:
        """How many runs, with which code."""
        return {"kind": "bounds", "runs": self.runs, "code": source_mark("theory")}

    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """The bounds as plain values, as `Promises.from_dict` reads them."""
        rounds = rounds_of(trial.stream, None, trial.seed, {})
        entry, marks = trial.entry, marks_for(rounds.count)
        return promised(Setting(entry.rule, entry.options, rounds, self.runs, trial.seed, marks)).to_dict()
