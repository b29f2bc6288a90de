"""Lower bounds and separable sets of a paper: measured by trials, kept, and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.experiments.executors.gpu import find_obstacle
from onebit.experiments.report import Scatter, Table
from onebit.experiments.trials import Trial
from onebit.papers import parse_paper
from onebit.papers.bounds import AdversaryMeasurement, AdversaryPlan
from onebit.papers.pictures import SeparabilityMeasurement
from onebit.papers.plans import PaperStreams
from onebit.papers.reproduce import reproduce
from onebit.papers.verdicts import Status
from onebit.rules import rule_named

PAPER = """
title = "Mine 2026: a paper of our own"

[[item]]
name = "lower"
title = "Lower bounds"
kind = "adversary"
runs = 3
[[item.adversary]]
name = "all"
feedback = "full"
kind = "weak"
classes = 3
ratio = 2.0
[[item.adversary]]
name = "one bit"
feedback = "bandit"
kind = "strong"
classes = 3
ratio = 3.0

[[item]]
name = "sets"
title = "Sets"
kind = "separability"
rounds = 200
[[item.data]]
name = "caps"
source = "strong2d"
separable = "strong"
[[item.data]]
name = "sectors"
source = "weak2d"
separable = "weak"
[[item.data]]
name = "strips"
source = "group2d-unequal"
separable = "group"
groups = [[0, 1, 2], [3, 4, 5, 6], [7]]
[[item.data]]
name = "caps, called weak"
source = "strong2d"
separable = "weak"
"""


@pytest.fixture(autouse=True)
def _mine(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: rule_named(name) for name in ("banditron", "perceptron")}
    monkeypatch.setattr("onebit.papers.bounds.chosen_rules", lambda: few)
    monkeypatch.setattr("onebit.papers.reproduce.load_paper", lambda name: parse_paper("mine2026", PAPER))


def test_every_learner_plays_against_the_adversaries_of_its_feedback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reproduce("mine2026", ["lower"], out=tmp_path, on="threads")
    assert [(one.data, one.what, one.published, one.verdict) for one in found.verdicts] == [
        ("all", "mistakes of each of 2 learners", "at least 2", Status.REPRODUCED),
        ("one bit", "mistakes of each of 1 learners", "of the order of 27", Status.REPRODUCED),
    ]
    assert found.verdicts[0].said.startswith("adaptive: at least 4; oblivious: ")
    assert found.verdicts[1].said.endswith("expected at least 4")
    tables = found.results[0].parts
    assert [len(part.groups[""]) for part in tables if isinstance(part, Table)] == [2, 1]

    def refused(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("it plays while it shows")

    monkeypatch.setattr(AdversaryMeasurement, "measure", refused)
    again = reproduce("mine2026", ["lower"], out=tmp_path, on="threads")
    assert again.cost.found == 9
    assert [one.to_dict() for one in again.verdicts] == [one.to_dict() for one in found.verdicts]


def test_a_learner_that_gets_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def spared(self: AdversaryMeasurement, learner: Any, trial: Trial) -> dict[str, Any]:
        return {"mistakes": self.adversary.rounds - (trial.entry.rule.name == "perceptron"), "margin": 1.0}

    monkeypatch.setattr(AdversaryMeasurement, "measure", spared)
    found = reproduce("mine2026", ["lower"], on="threads")
    assert [(one.verdict, one.why) for one in found.verdicts] == [
        (Status.DIFFERS, "fewer were made by perceptron"),
        (Status.REPRODUCED, ""),
    ]


def test_runs_that_failed_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: AdversaryMeasurement, learner: Any, trial: Trial) -> dict[str, Any]:
        raise onebit.OnebitError("no game")

    monkeypatch.setattr(AdversaryMeasurement, "measure", fails)
    found = reproduce("mine2026", ["lower"], on="threads")
    assert {one.verdict for one in found.verdicts} == {Status.FAILED}


def test_a_gpu_leaves_them_to_threads() -> None:
    plan = AdversaryPlan(parse_paper("mine2026", PAPER).items[0], PaperStreams(None), quick=False)
    assert find_obstacle(plan.trials()[0]) == "what an adversary forces on it is measured"


def test_sets_are_separable_as_they_are_said_to_be_and_not_more_strictly(tmp_path: Path) -> None:
    found = reproduce("mine2026", ["sets"], out=tmp_path, on="threads")
    assert [(one.data, one.verdict) for one in found.verdicts] == [
        ("caps", Status.REPRODUCED),
        ("sectors", Status.REPRODUCED),
        ("strips", Status.REPRODUCED),
        ("caps, called weak", Status.DIFFERS),
    ]
    assert found.verdicts[1].said.startswith("no strong margin, weak margin 0.1")
    assert found.verdicts[2].what == "group weakly separable, not weakly"
    assert [type(part) for part in found.results[0].parts] == [Scatter] * 4
    again = reproduce("mine2026", ["sets"], out=tmp_path, on="threads")
    assert again.cost.found == 4
    assert [one.to_dict() for one in again.verdicts] == [one.to_dict() for one in found.verdicts]


def test_the_kinds_looked_at_are_its_own_and_the_next_stricter() -> None:
    assert [SeparabilityMeasurement(kind, None).kinds for kind in ("strong", "weak", "group")] == [
        ("strong",),
        ("strong", "weak"),
        ("weak", "group"),
    ]
