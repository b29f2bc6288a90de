"""The feedback dictionaries of Open Bandit Pipeline: rounds, and estimates that are those of its formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import onebit
from onebit.learner import Learner, copy_of
from onebit.offpolicy import evaluate, obp_log, train
from onebit.offpolicy.model import model_for
from tests.offpolicy.logs import drawn, gaussians

Array = NDArray[np.float64]


def feedback_of(rounds: int = 600, actions: int = 4, seed: int = 0) -> dict[str, Any]:
    """As `obp.dataset` makes them: a behaviour policy that prefers some actions, and rewards 0 and 1."""
    context, truth = gaussians(rounds, actions, seed)
    generator = np.random.default_rng(seed)
    chances = generator.dirichlet(np.ones(actions), size=rounds) * 0.8 + 0.2 / actions
    action = drawn(chances, generator)
    return {
        "n_rounds": rounds,
        "n_actions": actions,
        "context": context,
        "action_context": np.eye(actions),
        "action": action,
        "position": None,
        "reward": (action == truth).astype(int),
        "expected_reward": np.eye(actions)[truth],
        "pi_b": chances[:, :, None],
        "pscore": chances[np.arange(rounds), action],
    }


def walked(learner: Learner, feedback: dict[str, Any], learning: bool) -> tuple[Array, Array]:
    """What the learner would play in each round, and what the model of rewards expects there: action_dist and q_hat in obp's words."""
    learner, model = copy_of(learner), model_for(learner)
    played, expected = [], []
    seen = hoped = 1.0
    for x, action, reward, pscore in zip(
        *(feedback[name] for name in ("context", "action", "reward", "pscore")), strict=True
    ):
        chances = np.array(list(learner.probabilities(x).values()))
        q = np.array(list(model.probabilities(x).values()))
        played.append(chances)
        expected.append(min(1.0, seen / hoped) * q)
        weight = chances[action] / pscore
        seen += weight**2 * q[action] * reward
        hoped += weight**2 * q[action] ** 2
        model.learn(model.from_log(x, int(action), float(pscore), len(played)), bool(reward))
        if learning:
            learner.learn(learner.from_log(x, int(action), float(pscore), len(played)), bool(reward))
    return np.array(played), np.array(expected)


def ips(feedback: dict[str, Any], action_dist: Array) -> float:
    """mean of w r."""
    rows = np.arange(feedback["n_rounds"])
    return float((action_dist[rows, feedback["action"]] / feedback["pscore"] * feedback["reward"]).mean())


def snips(feedback: dict[str, Any], action_dist: Array) -> float:
    """mean of r w / mean of w."""
    rows = np.arange(feedback["n_rounds"])
    weight = action_dist[rows, feedback["action"]] / feedback["pscore"]
    return float((feedback["reward"] * weight / weight.mean()).mean())


def doubly_robust(feedback: dict[str, Any], action_dist: Array, q_hat: Array) -> float:
    """mean of sum_a pi(a) q(a) + w (r - q(action))."""
    rows = np.arange(feedback["n_rounds"])
    weight = action_dist[rows, feedback["action"]] / feedback["pscore"]
    baseline = np.average(q_hat, weights=action_dist, axis=1)
    return float((weight * (feedback["reward"] - q_hat[rows, feedback["action"]]) + baseline).mean())


@pytest.mark.parametrize("learning", [True, False])
@pytest.mark.parametrize("name", ["linucb", "softmax"])
def test_estimates_are_those_of_the_formulas(name: str, learning: bool) -> None:
    feedback = feedback_of()
    learner = onebit.Learner(name, classes=range(4), exploration_floor=0.1, features=3)
    found = evaluate(learner, obp_log(feedback), learning=learning)
    action_dist, q_hat = walked(learner, feedback, learning)
    assert found.ips is not None
    assert found.snips is not None
    assert found.doubly_robust is not None
    assert found.ips.value == pytest.approx(ips(feedback, action_dist), abs=1e-9)
    assert found.snips.value == pytest.approx(snips(feedback, action_dist), abs=1e-9)
    assert found.doubly_robust.value == pytest.approx(doubly_robust(feedback, action_dist, q_hat), abs=1e-9)


def test_estimates_are_those_of_obp_itself() -> None:
    ope = pytest.importorskip("obp.ope")
    feedback = feedback_of()
    learner = onebit.Learner("linucb", classes=range(4), exploration_floor=0.1, features=3)
    found = evaluate(learner, obp_log(feedback))
    action_dist, q_hat = walked(learner, feedback, True)
    given = {name: feedback[name] for name in ("reward", "action", "pscore")} | {"action_dist": action_dist[:, :, None]}
    assert found.ips is not None
    assert found.snips is not None
    assert found.doubly_robust is not None
    assert found.ips.value == pytest.approx(ope.InverseProbabilityWeighting().estimate_policy_value(**given), abs=1e-9)
    assert found.snips.value == pytest.approx(
        ope.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given), abs=1e-9
    )
    theirs = ope.DoublyRobust().estimate_policy_value(**given, estimated_rewards_by_reg_model=q_hat[:, :, None])
    assert found.doubly_robust.value == pytest.approx(theirs, abs=1e-9)


def test_rounds_are_those_of_the_dictionary() -> None:
    feedback = feedback_of(50)
    log = obp_log(feedback)
    assert (log.classes, len(log)) == ((0, 1, 2, 3), 50)
    for row, one in enumerate(log):
        assert (one.id, one.label, one.right) == (row, feedback["action"][row], bool(feedback["reward"][row]))
        assert one.propensity == feedback["pscore"][row]
        assert one.probabilities is not None
        assert np.array_equal(np.asarray(one.probabilities), feedback["pi_b"][row, :, 0])
        assert np.array_equal(one.x, feedback["context"][row])
    assert train(onebit.BPA(classes=log.classes), log) == 50
    feedback.update(pi_b=None, position=np.zeros(50, dtype=int))
    assert [one.probabilities for one in obp_log(feedback)] == [None] * 50


def test_rewards_may_be_numbers() -> None:
    feedback = feedback_of(200)
    feedback["reward"] = feedback["reward"] * 0.75
    log = obp_log(feedback)
    assert {(one.right, one.reward) for one in log} == {(False, None), (None, 0.75)}
    learner = onebit.Learner("linucb", classes=range(4), exploration_floor=0.1, features=3)
    found = evaluate(learner, log, learning=False)
    action_dist = np.array([list(learner.probabilities(x).values()) for x in feedback["context"]])
    assert found.rewarded
    assert found.ips is not None
    assert found.ips.value == pytest.approx(ips(feedback, action_dist), abs=1e-9)


BAD: dict[str, dict[str, Any]] = {
    "the feedback has no context": {"context": None},
    r"reward\[0\] is 1.5, but must be from 0 to 1: of rewards": {"reward": np.full(50, 1.5)},
    r"reward\[0\] is nan, but": {"reward": np.full(50, np.nan)},
    "reward must be a number": {"reward": np.full(50, "1")},
    "there are 50 rounds": {"pscore": np.ones(49)},
    "2 positions": {"position": np.arange(50) % 2},
    "pi_b has the shape": {"pi_b": np.ones((50, 4, 3)) / 4},
    "action must be a whole number": {"action": np.full(50, 0.5)},
    "context has the shape": {"context": np.ones(50)},
    "there is no class 3": {"n_actions": 3, "pi_b": None},
}


@pytest.mark.parametrize("sentence", BAD)
def test_what_cannot_be_a_log(sentence: str) -> None:
    with pytest.raises(onebit.InputError, match=sentence):
        evaluate(onebit.BPA(classes=3), obp_log({**feedback_of(50), **BAD[sentence]}))


def test_a_dictionary_it_must_be() -> None:
    with pytest.raises(onebit.InputError, match="the feedback is a list"):
        obp_log([])  # type: ignore[arg-type]
