"""What `auto` says of itself, and `onebit run --explain`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onebit.cli import main
from onebit.contract.description import VERDICTS, ExplorationReport, share
from onebit.learner import Learner
from tests.auto.streams import drawn_digits, gaussians, permuted, run_auto, topics


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
        assert list(members) == ["directed", "centred", "standardised", "waved", "clusters"]
        assert started["waved"] == pytest.approx(np.exp(-3.0) / (4.0 + np.exp(-3.0)))
        assert started["clusters"] == pytest.approx(1.0 / (4.0 + np.exp(-3.0)))
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
    assert described.error == share(wrong, 600)
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
    assert "began anew once" in text
    assert f"in {described.exploration.rounds:,} of 4,000 rounds" in text
    assert all(name in text for name in described.members)
    assert VERDICTS[described.exploration.paid] in text
    plain = json.loads(json.dumps(described.to_dict()))
    assert plain["exploration"]["paid"] == described.exploration.paid
    assert plain["members"] == described.members


def test_a_learner_that_has_seen_nothing_says_so() -> None:
    described = Learner("auto", classes=3).describe()
    assert described.error is None
    assert described.members == {}
    assert "0 feedbacks" in str(described)


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
