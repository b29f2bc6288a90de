"""Estimates are those of the formulas of Open Bandit Pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import onebit
from onebit.learner.learner import Learner, copy_learner
from onebit.offpolicy import Round, evaluate
from onebit.offpolicy.rightness import model_for
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


def read_rounds(feedback: dict[str, Any]) -> list[Round]:
    """Return the rounds of such a dictionary; a reward that is neither 0 nor 1 is a reward, others are right or wrong."""
    names = ("context", "action", "reward", "pscore", "pi_b")
    found = []
    for row, (x, action, reward, pscore, chances) in enumerate(zip(*(feedback[name] for name in names), strict=True)):
        bit = reward in (0, 1)
        told = {"right": bool(reward)} if bit else {"right": None, "reward": float(reward)}
        found.append(Round(row, x, int(action), propensity=float(pscore), probabilities=chances[:, 0], **told))
    return found


def walked(learner: Learner, feedback: dict[str, Any], learning: bool) -> tuple[Array, Array]:
    """What the learner would play in each round, and what the model of rewards expects there: action_dist and q_hat in obp's words."""
    learner, model = copy_learner(learner), model_for(learner)
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
    found = evaluate(learner, read_rounds(feedback), learning=learning)
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
    found = evaluate(learner, read_rounds(feedback))
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


def test_rewards_may_be_numbers() -> None:
    feedback = feedback_of(200)
    feedback["reward"] = feedback["reward"] * 0.75
    log = read_rounds(feedback)
    assert {(one.right, one.reward) for one in log} == {(False, None), (None, 0.75)}
    learner = onebit.Learner("linucb", classes=range(4), exploration_floor=0.1, features=3)
    found = evaluate(learner, log, learning=False)
    action_dist = np.array([list(learner.probabilities(x).values()) for x in feedback["context"]])
    assert found.rewarded
    assert found.ips is not None
    assert found.ips.value == pytest.approx(ips(feedback, action_dist), abs=1e-9)
