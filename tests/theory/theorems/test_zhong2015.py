"""The lemmas on PAB: what is measured of the rule agrees with them, and a rule with another step does not."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onebit.cli import main
from onebit.contract.rule import Choice, RuleInput, Vector
from onebit.rules.pab import PAB, RULE
from onebit.theory.bound import Bound
from onebit.theory.mistakes import Bounds, CheckedBound, bounds
from onebit.theory.theorems import zhong2015

LEMMAS = ["Lemma 1", "Lemma 1 (across)", "Lemma 2", "Lemma 2 (on mistakes)", "Lemma 3", "Second moment", "Conclusion"]


def measured(**options: Any) -> Bounds:
    """The lemmas on a few rounds."""
    options = {"rho": 1.0, "exploration": 0.5, "aggressiveness": 1.0, **options}
    return bounds("pab", "weak2d", rounds=120, runs=1, noise=0.2, **options)


@pytest.mark.parametrize("rho", [1.0, 0.3])
def test_the_lemmas_are_kept_and_the_conclusion_is_not(rho: float) -> None:
    """Four standard errors: one of five equalities fails by chance in one of 3,000 seeds."""
    found = measured(rho=rho)
    assert [one.bound.name for one in found.rows] == LEMMAS
    assert [one.held for one in found.rows] == [True] * 6 + [False]
    assert [one.bound.holds for one in found.rows] == ["proved"] * 6 + ["false"]
    assert not found.broken
    for name in ("Lemma 1", "Second moment"):
        assert found[name].mean.low > 0.5  # and not merely because nothing is known
    assert found["Lemma 3"].mean.high < 0.0
    assert found["Conclusion"].mean.low > 0.0
    json.dumps(found.to_dict(), allow_nan=False)


def test_simple_pab_has_lemma_1_alone() -> None:
    found = measured(rho=0.0)
    assert [one.held for one in found.rows] == [True, True] + [None] * 5
    assert found["Lemma 3"].bound.why == "with rho = 0 there is no U2"
    assert found["Lemma 3"].measured_text == ""


def test_what_cannot_be_seen_in_so_many_draws_is_not_judged() -> None:
    found = measured(exploration=0.0001)
    assert {one.held for one in found.rows} == {None}
    assert "12,000,000 draws" in found["Lemma 1"].bound.why
    still = bounds("pab", np.eye(2), [0, 1], runs=1, exploration=1.0)
    assert all(one.bound.why for one in still.rows if one.held is None)


def corrupted(kind: str) -> Any:
    """A rule with another step."""

    def learn(params: PAB, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
        other = choice._replace(propensity=1.0) if kind == "no weights" else choice
        RULE.learn(params, given, other, revealed, step)
        if kind == "on the label played":
            step[choice.label] += 0.1 * params.rho
        elif kind == "a step aside":
            step[(choice.greedy + 1) % params.classes] += 0.1
        return 1.0

    return SimpleNamespace(decide=RULE.decide, learn=learn)


@pytest.mark.parametrize(
    ("kind", "breaks"),
    [
        ("no weights", ["Lemma 1", "Lemma 2"]),
        ("on the label played", ["Lemma 2", "Lemma 2 (on mistakes)"]),
        ("a step aside", ["Lemma 1 (across)"]),
    ],
)
def test_a_corrupted_step_breaks_the_lemmas(kind: str, breaks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zhong2015, "RULE", corrupted(kind))
    found = measured()
    assert {one.bound.name for one in found.broken} >= set(breaks)


def test_what_is_to_be_equal_may_be_off_by_twice_the_interval_to_either_side() -> None:
    runs = (0.9, 1.0, 1.1, 1.0)  # 1 with an interval of 0.13
    for value, held in ((1.0, True), (1.2, True), (0.8, True), (1.3, False), (0.7, False)):
        assert CheckedBound(Bound("b", "p", "s", value, setting="in expectation", equal=True), runs).held is held
    assert CheckedBound(Bound("b", "p", "s", 1.0, setting="in expectation", equal=True), (1.1,)).held is None
    checked = CheckedBound(Bound("b", "p", "s", 1.0, of="a share", setting="in expectation", equal=True), runs)
    assert (checked.bound.value_text, checked.measured_text) == ("= 1", "1.000 ± 0.130")
    assert CheckedBound(Bound("b", "p", "s", 5.0), runs).measured_text == "1.0"


def test_the_command_prints_the_lemmas_with_interval_and_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bounds", "pab", "weak2d", "--rounds", "120", "--runs", "1", "--noise", "0.2", "--set", "rho=1"]
    command += ["--set", "exploration=0.5", "--quiet", "--out", str(tmp_path)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "Lemma 1" in printed
    assert "= 1" in printed
    assert "±" in printed
    assert "twice that interval" in printed
    assert "share of the PA-II step" in (tmp_path / "page.html").read_text(encoding="utf-8")
