"""Runs on streams with candidates, rewards and corrections: a run is its steps by hand, bit for bit, and says what it was worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import rows, state
from onebit.data.stream_rounds import Offer
from onebit.data.streams import Stream, stream
from onebit.experiments.executors.gpu import find_obstacle
from onebit.experiments.report.html import page_html
from onebit.experiments.run import run
from onebit.experiments.trials import Trial, make_entry, shared_data
from onebit.experiments.trials.records import Records, make_record, read_records
from onebit.learner.learner import Learner

X, Y = rows(80)
NAMES = ["ant", "bee", "cat", "dog", "eel"]
LABELS = [NAMES[label] for label in Y]
CLOSE = np.maximum(0.0, 1.0 - np.abs(Y[:, None] - np.arange(5)[None, :]) / 2.0).round(
    2
)  # near classes are worth a half
LISTS = [[NAMES[label], NAMES[(label + 1 + row % 2) % 5]] for row, label in enumerate(Y)]

STREAMS: dict[str, dict[str, Any]] = {
    "candidates": {"candidates": 3},
    "listed": {"candidates": LISTS},
    "candidates late": {"candidates": 3, "delay": 5, "missing": 0.1},
    "noise and drift": {"candidates": 2, "noise": 0.2, "drift": "abrupt:0.5"},
    "corrected": {"corrected": 0.5},
    "corrected late": {"corrected": 0.5, "delay": "geometric:4", "candidates": 4},
    "rewards": {"rewards": CLOSE},
    "all": {"rewards": CLOSE, "candidates": 3, "corrected": 0.3, "delay": 2},
}
RULES = ["bpa", "linucb", "policy-gradient", "conservative-ova", "auto"]


def made(name: str, seed: int = 4) -> Stream:
    settings = STREAMS[name]
    if "rewards" in settings:
        return stream(X, classes=NAMES, rounds=150, seed=seed, **settings)
    return stream(X, LABELS, rounds=150, seed=seed, **settings)


def by_hand(streamed: Stream, learner: Learner) -> dict[str, float]:
    """Step a learner through what happens, and count."""
    decisions, answers = {}, {}
    for what, number, value in streamed.events():
        if what == "decide" and isinstance(value, Offer):
            decisions[number] = learner.decide(value.x, among=list(value.among), complete=True)
        elif what == "decide":
            decisions[number] = learner.decide(value)
        else:
            answers[number] = value
            learner.learn(decisions[number], **value.given_for(decisions[number].label))
    return {"decided": len(decisions), "heard": len(answers)}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("rule", RULES)
def test_a_run_is_its_steps_by_hand(rule: str, name: str) -> None:
    streamed = made(name)
    result = run(rule, streamed, seed=4, calibrate=True)
    learner = Learner(rule, classes=result.learner.classes, seed=4, **result.learner.runtime.parameters)
    found = by_hand(streamed, learner)
    assert found["decided"] == 150
    assert learner.learnt == result.learner.learnt == found["heard"]
    assert {**state(learner), "identity": ""} == {**state(result.learner), "identity": ""}


@pytest.mark.parametrize("name", ["candidates", "candidates late", "corrected late", "all"])
@pytest.mark.parametrize("rule", ["bpa", "linucb"])
def test_pieces_and_the_whole_give_the_same_bits(rule: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(rule, made(name), seed=4)
    monkeypatch.setattr(shared_data, "HELD_BYTES", 0)
    monkeypatch.setattr("onebit.data.streams.PIECE_ROUNDS", 40)
    pieces = run(rule, made(name), seed=4)
    assert {**state(whole.learner), "identity": ""} == {**state(pieces.learner), "identity": ""}
    assert whole.errors == pieces.errors
    assert whole.to_dict().get("rewards") == pieces.to_dict().get("rewards")
    assert np.array_equal(whole.curve.played, pieces.curve.played)
    if whole.curve.reward is not None and pieces.curve.reward is not None:
        assert np.array_equal(whole.curve.reward, pieces.curve.reward)


def test_rewards_of_zero_and_one_are_right_and_wrong() -> None:
    """A matrix with a 1 for the label and 0 elsewhere is the labelled stream, bit for bit."""
    for rule in RULES:
        labelled = run(rule, stream(X, LABELS, classes=NAMES, rounds=200), seed=1)
        worth = run(rule, stream(X, rewards=np.eye(5)[Y], classes=NAMES, rounds=200), seed=1)
        assert {**state(labelled.learner), "identity": ""} == {**state(worth.learner), "identity": ""}
        assert labelled.errors == worth.errors
        assert worth.rewards is not None
        assert worth.rewards[0] == pytest.approx(1.0 - worth.errors[0])
        assert labelled.rewards is None
        assert labelled.reward == pytest.approx(worth.reward)


def test_an_error_is_a_class_that_is_worth_less_than_the_best() -> None:
    """Two classes that are worth the same are both right."""
    worth = np.array([[1.0, 1.0, 0.25]] * 40)
    result = run("banditron", stream(X[:40], rewards=worth, order="file"), exploration=0.5)
    assert result.rewards is not None
    assert result.greedy_rewards is not None
    assert result.errors[0] == pytest.approx((1.0 - result.rewards[0]) / 0.75)
    assert 0.0 < result.errors[0] < 0.5
    told = run("banditron", stream(X[:40], rewards=worth, order="file", corrected=1.0), exploration=0.5)
    assert told.errors[0] < 0.5


def test_policy_gradient_keeps_its_own_rewards() -> None:
    """The parameter of the rule and the setting of the stream have one name, and are told apart by their values."""
    plain = run("policy-gradient", X, LABELS, rewards="plain")
    assert plain.params["rewards"] == "plain"
    assert plain.rewards is None
    worth = run("policy-gradient", X, rewards=CLOSE)
    assert worth.params["rewards"] == "centred"
    assert worth.rewards is not None


def test_a_learner_brings_the_names_of_the_classes_of_rewards() -> None:
    result = run(onebit.LinUCB(classes=NAMES), X, rewards=CLOSE)
    assert result.learner.classes == tuple(NAMES)
    assert result.rewards is not None


def test_sums_of_rewards_are_those_of_the_labels_played() -> None:
    streamed = made("rewards")
    result = run("softmax", streamed, seed=4)
    learner = Learner("softmax", classes=NAMES, seed=4)
    total = greedy = wrong = 0.0
    for x, right in streamed:
        decision = learner.decide(x)
        total += right.reward(decision.label)
        greedy += right.reward(decision.greedy)
        wrong += not right(decision.label)
        learner.learn(decision, **right.given_for(decision.label))
    assert result.rewards is not None
    assert result.greedy_rewards is not None
    assert result.rewards[0] == pytest.approx(total / 150)
    assert result.greedy_rewards[0] == pytest.approx(greedy / 150)
    assert result.errors[0] == wrong / 150
    assert result.curve.reward is not None
    assert result.curve.reward[0, -1] == pytest.approx(result.rewards[0])


def test_classes_in_another_order_are_the_same_stream() -> None:
    """A learner with its own order of classes gets the candidates and the rewards of its own numbers."""
    turned = NAMES[::-1]
    for name in ("candidates", "all"):
        given = made(name)
        learner = onebit.LinUCB(classes=turned, seed=4)
        result = run(learner, given, seed=4, calibrate=True)
        stepped = onebit.LinUCB(classes=turned, seed=4)
        by_hand(given, stepped)
        assert {**state(stepped), "identity": ""} == {**state(result.learner), "identity": ""}


def test_records_keep_mean_rewards_and_those_of_other_streams_have_none(tmp_path: Path) -> None:
    from threading import Event

    from onebit.experiments.trials.execution import run_trials
    from onebit.experiments.trials.shared_data import SharedData

    trial = Trial(make_entry("bpa"), made("rewards"), 4)
    (outcome,) = run_trials([trial], SharedData(trial, {}), Event(), lambda count: None) or []
    record = make_record(outcome)
    kept = Records(tmp_path)
    kept.add(record)
    kept.close()
    (read,) = read_records(tmp_path / "rows.jsonl")
    assert read.reward is not None
    assert read.reward == record.reward == outcome.tally.rewards[0] / 150
    assert np.array_equal(read.curve_of("reward"), record.curve_of("reward"))
    assert read.curve_of("greedy_reward")[-1] == read.greedy_reward
    plain = Trial(make_entry("bpa"), stream(X, LABELS), 4)
    (outcome,) = run_trials([plain], SharedData(plain, {}), Event(), lambda count: None) or []
    assert "reward" not in make_record(outcome).to_dict()
    assert make_record(outcome).reward is None


@pytest.mark.parametrize(
    ("name", "words"),
    [("candidates", "candidates"), ("listed", "candidates"), ("rewards", "rewards"), ("corrected", "corrected")],
)
def test_a_gpu_leaves_such_trials_to_threads(name: str, words: str) -> None:
    assert words in (find_obstacle(Trial(make_entry("bpa"), made(name), 0)) or "")


def test_corrections_lower_the_error() -> None:
    shares = [
        float(run("linucb", "digits", prepare="scale", rounds=1500, corrected=share).error) for share in (0.0, 1.0)
    ]
    assert shares[1] < shares[0]


def test_comparisons_and_sweeps_rank_by_reward(tmp_path: Path) -> None:
    found = onebit.compare(made("rewards"), ["bpa", "linucb", "perceptron"], runs=2, out=tmp_path)
    (result,) = found.results
    rewards = [one.reward.mean for one in result.summaries]
    assert rewards == sorted(rewards, reverse=True)
    assert "a mean reward of" in found.finding
    said = found.to_dict()["data"][0]["standings"][0]
    assert said["reward"]["mean"] == rewards[0]
    best = result.best
    assert best is not None
    for one in result.summaries:
        assert result.difference(one).mean == pytest.approx(best.reward.mean - one.reward.mean)
    page = found.page()
    titles = [getattr(part, "title", "") for part in page.parts]
    assert any(title.startswith("Mean reward so far") for title in titles)
    assert found.save(tmp_path).is_file()
    assert "mean reward" in page_html(found.page())
    swept = onebit.sweep("bpa", made("rewards"), grid={"aggressiveness": [0.001, 0.1, 1.0]}, runs=2, fresh_runs=2)
    means = [one.reward.mean for one in swept.summaries if one is not None]
    assert swept.chosen == means.index(max(means))
    assert "mean reward" in repr(swept)
    assert swept.to_dict()["settings"][0]["reward"]["mean"] == means[0]
    assert swept.save(tmp_path / "sweep").is_file()
    two = onebit.sweep(
        "bpa", made("rewards"), grid={"aggressiveness": [0.1, 1.0], "exploration": [0.1, 0.2]}, runs=1, fresh_runs=1
    )
    assert two.save(tmp_path / "two").is_file()
    assert onebit.run("bpa", made("rewards")).rewards is not None
