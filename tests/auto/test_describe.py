"""What `auto` says of itself, and `onebit run --explain`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from onebit.auto.dense.mixture import CLUSTERS
from onebit.cli import main
from onebit.contract.description import (
    VERDICTS,
    ColumnsReport,
    Description,
    ExplorationReport,
    MemberReport,
    MembersReport,
    NeverRight,
    wilson_interval,
)
from onebit.learner.learner import Learner
from tests.auto.streams import Array, drawn_digits, gaussians, permuted, run_auto, topics

DENSE = ["directed", "centred", "standardised", "waved", "components", "corrected", "clusters", "shaped"]


def described_members(learner: Learner) -> dict[str, MemberReport]:
    found = learner.describe()
    assert found.composition is not None
    assert found.members == {one.name: one.share for one in found.composition.members}
    return {one.name: one for one in found.composition.members}


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_members_weights_are_shares(kind: str) -> None:
    X, y = drawn_digits(1500, seed=1) if kind == "dense" else topics(1500, 5, 200, seed=1)
    learner = Learner("auto", classes=int(y.max()) + 1, space=kind)
    learner.decide(X[0], id="the form of x")
    started = learner.describe().members
    members = run_auto(X, y).learner.describe().members
    assert list(members) == list(started)
    for weights in (members, started):
        assert sum(weights.values()) == pytest.approx(1.0)
        assert all(0.0 <= weight <= 1.0 for weight in weights.values())
    if kind == "dense":
        assert list(members) == DENSE
        assert started["waved"] == pytest.approx(np.exp(-3.0) / (4.0 + np.exp(-3.0)))
        assert started["clusters"] == pytest.approx(1.0 / (4.0 + np.exp(-3.0)))
        assert started["shaped"] == 0.0
        assert members != started
    else:
        assert started == {"naive Bayes": 0.5, "regression": 0.5}
        assert members != started


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_exploration_is_counted(kind: str) -> None:
    """Stepped by hand: how often the class played was not the one thought best, when it was right, and what was hoped."""
    X, y = drawn_digits(600, seed=2) if kind == "dense" else topics(600, 6, 100, seed=2)
    learner = Learner("auto", classes=int(y.max()) + 1, space=kind)
    explored, right, hoped, wrong, lately = 0, 0, 0.0, 0, 0.0
    for row, label in enumerate(y):
        decision = learner.decide(X[row])
        answer = bool(decision.label == label)
        wrong += not answer
        explores = decision.label != decision.greedy
        lately += (explores - lately) / min(200.0, row + 1.0)
        if explores:
            explored, right, hoped = explored + 1, right + answer, hoped + decision.notes[0]
        learner.learn(decision, right=answer)
    described = learner.describe()
    assert described.exploration is not None
    assert explored > 0
    assert described.exploration.rounds == explored
    assert described.exploration.right == right <= explored
    assert described.exploration.hoped == pytest.approx(hoped / explored)
    assert described.exploration.recent == pytest.approx(lately)
    assert described.learnt == 600
    assert described.error is not None
    assert described.error == wilson_interval(wrong, 600)
    assert 0.0 <= described.exploration.hoped <= 1.0


def test_the_error_with_its_interval_is_that_of_the_run() -> None:
    X, y = gaussians(2000, 4, 5, spread=1.0, seed=3)
    result = run_auto(X, y)
    found = result.learner.describe().error
    assert found is not None
    assert found[0] == pytest.approx(result.error)
    assert found[1] < result.error < found[2]
    assert found[2] - found[1] == pytest.approx(2 * 1.96 * np.sqrt(result.error * (1 - result.error) / 2000), rel=0.02)


def test_exploration_paid_where_it_was_better_than_the_best_would_have_been() -> None:
    assert ExplorationReport(rounds=100, recent=0.1, right=80, hoped=0.6).paid is True
    assert ExplorationReport(rounds=100, recent=0.1, right=10, hoped=0.6).paid is False
    assert ExplorationReport(rounds=100, recent=0.1, right=60, hoped=0.6).paid is None
    assert ExplorationReport(rounds=0, recent=0.0, right=0, hoped=0.0).paid is None


def test_words_say_what_the_numbers_say() -> None:
    X, y = drawn_digits(4000, seed=4)
    described = run_auto(X, permuted(y, 10, 4)).learner.describe()
    assert described.restarts == 1
    assert described.error is not None
    assert described.exploration is not None
    text = str(described)
    assert f"{100 * described.error[0]:.2f} %" in text
    assert "restarted once" in text
    assert f"in {described.exploration.rounds:,} of 4,000 rounds" in text
    assert described.composition is not None
    for one in described.composition.members:
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {one.name} "))
        assert f"{100 * one.share:.1f} %" in line
        assert one.chance is not None
        assert f"{100 * one.chance:.1f} %  {one.about}" in line
        assert (f"; asleep, looks at one row in {one.every}" in line) == one.asleep
    assert str(described.composition.columns) in text
    assert VERDICTS[described.exploration.paid] in text
    plain = json.loads(json.dumps(described.to_dict()))
    assert plain["exploration"]["paid"] == described.exploration.paid
    assert plain["members"] == described.members
    assert [one["share"] for one in plain["composition"]["members"]] == list(described.members.values())
    assert plain["composition"]["columns"]["count"] == 64


def test_a_learner_that_has_seen_nothing_says_so() -> None:
    described = Learner("auto", classes=3).describe()
    assert described.error is None
    assert described.members == {}
    assert described.composition is None
    assert described.never_right is None
    assert "0 feedbacks" in str(described)


def test_members_on_a_basis_wait_for_it_and_members_that_are_far_behind_sleep() -> None:
    X, y = drawn_digits(1600, seed=1)
    learner = Learner("auto", classes=10, space="dense")
    learner.decide(X[0], id="the form of x")
    waiting = {name for name, one in described_members(learner).items() if one.waits_for is not None}
    assert waiting == {"components", "corrected", "shaped"}
    assert all(one.chance is None for one in described_members(learner).values())
    assert "waits for the components of the first 64 rows" in str(learner.describe())
    for x, label in zip(X, y, strict=True):
        decision = learner.decide(x)
        learner.learn(decision, right=bool(decision.label == label))
    members = described_members(learner)
    assert all(one.waits_for is None for one in members.values())
    best = max(members.values(), key=lambda one: one.share)
    assert best.behind == 0.0
    assert best.every == 1
    asleep = [one for one in members.values() if one.asleep]
    assert asleep
    for one in asleep:
        assert one.share == 0.0
        assert one.behind > 20.0
        assert 1 < one.every <= 16
        assert one.chance is not None
        assert best.chance is not None
        assert one.chance < best.chance


def test_what_is_likely_to_a_member_is_what_it_gave_to_what_was_heard() -> None:
    X, y = gaussians(40, 3, 5, spread=1.0, seed=3)
    learner = Learner("auto", classes=3, space="dense")
    losses = []
    for x, label in zip(X, y, strict=True):
        decision = learner.decide(x)
        mixture = learner.runtime.model.space.mixture
        odds = np.exp(
            mixture.trusts[CLUSTERS] * mixture.scores.reshape(-1, 3)[CLUSTERS]
        )  # as far as its scores are trusted
        chance = (odds / odds.sum())[int(str(decision.label))]
        right = bool(decision.label == label)
        losses.append(-np.log(max(0.01, chance if right else 1.0 - chance)))
        learner.learn(decision, right=right)
    assert described_members(learner)["clusters"].chance == pytest.approx(np.exp(-np.mean(losses)))


def columns_of(X: Array) -> ColumnsReport:
    learner = Learner("auto", classes=2, features=X.shape[1], space="dense")
    for x in X:
        learner.learn(learner.decide(x), right=bool(x[0] > 0.0))
    found = learner.describe().composition
    assert found is not None
    assert found.columns is not None
    return found.columns


def test_it_says_how_columns_are_taken_and_why() -> None:
    X = np.random.default_rng(3).normal(size=(90, 30)).astype(np.float32)
    X[:, 7] = 2.0
    alike = columns_of(X)
    assert (alike.count, alike.varying, alike.divided, alike.standardised) == (30, 29, False, False)
    assert alike.effective is not None
    assert 25.0 < alike.effective <= 29.0
    assert str(alike).startswith(
        "29 of 30 columns vary; principal components take them as they are, since the variance"
    )
    unlike = columns_of(X * np.geomspace(1e-3, 1e3, 30))
    assert unlike.standardised is True
    assert unlike.effective is not None
    assert 1.0 <= unlike.effective < 2.9
    assert "in units of their deviations, since the variance lies in no more than about" in str(unlike)
    early = columns_of(X[:5])
    assert (early.standardised, early.effective) == (None, None)
    assert str(early) == "29 of 30 columns vary"
    rows = columns_of(X * 10.0 ** np.random.default_rng(4).uniform(-6, 6, (90, 1)))
    assert rows.divided
    assert "each is divided by its scale" in str(rows)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_classes_that_were_never_right_are_named(kind: str) -> None:
    X, _ = gaussians(3, 3, 5, spread=1.0, seed=3)
    names = [f"class {number}" for number in range(14)]
    learner = Learner("auto", classes=names, features=5, space=kind)
    assert learner.describe().never_right == NeverRight(14, tuple(names[:10]))
    learner.teach(X[:1], ["class 3"])
    found = learner.describe().never_right
    assert found is not None
    assert found.count == 13
    assert found.classes == tuple(name for name in names if name != "class 3")[:10]
    assert str(learner.describe()).count("'class 10' and 3 more") == 1
    learner.remove_class("class 0")
    learner.teach(X[1:3], ["class 5", "class 7"])
    found = learner.describe().never_right
    assert found is not None
    assert found.count == len(found.classes) == 10
    assert "class 0" not in found.classes
    assert "'class 12', 'class 13'\n" in str(learner.describe())
    assert json.loads(json.dumps(learner.describe().to_dict()))["never_right"]["count"] == 10


def test_where_every_class_was_right_nothing_is_said_of_that() -> None:
    X, _ = gaussians(3, 3, 5, spread=1.0, seed=3)
    learner = Learner("auto", classes=3, features=5, space="dense")
    learner.teach(X, [0, 1, 2])
    found = learner.describe()
    assert found.never_right is not None
    assert found.never_right.count == 0
    assert "never right" not in str(found)


def test_classes_have_not_been_right_since_it_began_anew() -> None:
    found = Description("Auto", 10, 5, {}, restarts=1, never_right=NeverRight(1, ("b",)))
    assert "never right since the last restart: 'b'" in str(found)


@pytest.mark.parametrize("x", [{}, "", scipy.sparse.csr_matrix((1, 3))], ids=["dict", "text", "sparse"])
def test_feedback_that_teaches_nothing_is_counted_as_elsewhere_and_said(x: Any) -> None:
    """The learner and the service counted it as learnt, and `describe` did not: 0 feedbacks beside 2."""
    learner = Learner("auto", classes=["a", "b"], text=isinstance(x, str))
    full = (
        "ball" if isinstance(x, str) else {"ball": 1.0} if isinstance(x, dict) else scipy.sparse.csr_matrix([[1, 0, 1]])
    )
    for given in (x, full, x):
        learner.learn(learner.decide(given), right=False)
    found = learner.describe()
    assert (found.learnt, found.taught_nothing) == (learner.learnt, 2) == (3, 2)
    assert str(found).startswith("Auto, 3 feedbacks learnt\n2 of them taught nothing: x was all 0")
    assert found.error is not None
    assert found.error[0] == 1.0, "of the one that taught"
    assert "in 0 of 1 rounds" in str(found) or "in 1 of 1 rounds" in str(found)
    assert "taught" not in str(Learner("auto", classes=2).describe())


def test_every_column_of_the_members_has_a_head() -> None:
    """There were two percentages, and the line above did not say which was which."""
    members = (MemberReport("centred", "the columns", 0.75, chance=0.5), MemberReport("waved", "waves", 0.25))
    lines = str(Description("Auto", 10, 5, {}, composition=MembersReport(members))).splitlines()
    assert lines[2:] == [
        "members: share in the beliefs, and the probability given to recent feedback (predicted)",
        "             share  predicted  looks at",
        "  centred   75.0 %     50.0 %  the columns",
        "  waved     25.0 %             waves",
    ]
    unjudged = MembersReport(tuple(MemberReport(one.name, one.about, one.share) for one in members))
    lines = str(Description("Auto", 10, 5, {}, composition=unjudged)).splitlines()
    assert lines[3:5] == ["             share  looks at", "  centred   75.0 %  the columns"]


def test_explain_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["run", "digits", "--order", "resample", "--rounds", "800", "--explain", "--quiet"]
    assert main([*options, "--json"]) == 0
    given = json.loads(capsys.readouterr().out)
    described = given["description"]
    assert given["rule"] == "auto"
    assert sum(described["members"].values()) == pytest.approx(1.0)
    assert described["error"][0] == pytest.approx(given["error_mean"])
    assert described["error"][1] < given["error_mean"] < described["error"][2]
    assert main(options) == 0
    shown = capsys.readouterr().out
    assert "members: " in shown
    assert f"error so far {100 * given['error_mean']:.2f} %" in shown
    assert main([*options[:-2], "--quiet", "--json"]) == 0
    assert "description" not in json.loads(capsys.readouterr().out)
