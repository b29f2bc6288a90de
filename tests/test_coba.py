"""`onebit.coba` against coba itself: experiments with learners of onebit, and environments as streams, with the same mistakes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from coba import Environments, Experiment
from coba.environments import LambdaSimulation, SupervisedSimulation
from coba.evaluators import RejectionCB, SequentialCB
from coba.primitives import Categorical
from sklearn.datasets import load_iris

import onebit
from onebit.coba import CobaLearner, stream

pytestmark = pytest.mark.long

X, Y = load_iris(return_X_y=True)
TEXTS = [str(label) for label in Y]
LEVELS = ["0", "1", "2"]


class Rounds:
    """An environment of these rounds."""

    def __init__(self, rounds: list[dict[str, Any]]) -> None:
        self.rounds = rounds
        self.params: dict[str, Any] = {}

    def read(self) -> Iterable[dict[str, Any]]:
        return iter(self.rounds)


def shuffled(contexts: list[Any], labels: list[Any]) -> Any:
    made = Environments(SupervisedSimulation(contexts, labels, "c")).materialize().shuffle(1)
    return made[0]


ENVIRONMENTS = {
    "dense": lambda: shuffled(X.tolist(), TEXTS),
    "whole numbers": lambda: shuffled(X.tolist(), Y.tolist()),
    "two of them": lambda: shuffled(X.tolist(), (Y == 0).astype(int).tolist()),
    "categories": lambda: shuffled(X.tolist(), [Categorical(text, LEVELS) for text in TEXTS]),
    "sparse": lambda: shuffled([{f"f{int(4 * x[2])}": 1.0, "width": x[3]} for x in X], TEXTS),
    "a category in the context": lambda: shuffled(
        [[x[0], Categorical("ab"[int(x[2] > 2)], ["a", "b"])] for x in X], TEXTS
    ),
    "no context": lambda: LambdaSimulation(90, lambda i: None, lambda i, c: [3, 1, 2], lambda i, c, a: int(a == 1)),
    "a number": lambda: LambdaSimulation(
        90, lambda i: i % 3, lambda i, c: [(1, 0, 0), (0, 1, 0), (0, 0, 1)], lambda i, c, a: int(a[c] == 1)
    ),
}


def mistakes(learner: CobaLearner, environment: Any) -> int:
    return sum(1 - int(row["reward"]) for row in SequentialCB().evaluate(environment, learner))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_any_environment_is_a_stream_with_the_same_mistakes(name: str) -> None:
    for rule in ("banditron", "auto"):
        result = onebit.run(rule, stream(ENVIRONMENTS[name]()), seed=5)
        assert mistakes(CobaLearner(rule, seed=5), ENVIRONMENTS[name]()) == round(result.error * result.rounds)


def test_an_experiment_of_coba_has_the_mistakes_of_a_run() -> None:
    environments = Environments(SupervisedSimulation(X.tolist(), TEXTS, "c")).materialize().shuffle(n=2)
    ready = onebit.BPA(classes=LEVELS, seed=7)
    learners = [CobaLearner("thompson", seed=1), CobaLearner("linucb", seed=2, width=1.0), CobaLearner(ready)]
    found = Experiment(environments, learners).run(quiet=True)
    table = found.interactions.to_pandas()
    for place, environment in enumerate(environments):
        made = stream(environment)
        runs = [
            onebit.run("thompson", made, seed=1),
            onebit.run("linucb", made, seed=2, width=1.0),
            onebit.run(ready, made),
        ]
        for number, result in enumerate(runs):
            rows = table[(table.environment_id == place) & (table.learner_id == number)]
            assert len(rows) == 150
            assert int((1 - rows.reward).sum()) == round(result.error * 150)
    assert found.learners.to_pandas().family.tolist() == ["onebit.Thompson", "onebit.LinUCB", "onebit.BPA"]
    assert ready.learnt == 0  # it was copied


def test_the_classes_of_a_stream_are_the_actions() -> None:
    made = stream(ENVIRONMENTS["dense"]())
    assert made.name == "SupervisedSimulation"
    assert made.data(0).classes == ("0", "1", "2")
    assert stream(ENVIRONMENTS["categories"]()).data(0).classes == (0, 1, 2)
    assert stream(ENVIRONMENTS["no context"]()).data(0).classes == (3, 1, 2)
    assert stream(ENVIRONMENTS["dense"](), order="shuffle", noise=0.1).noise == 0.1


def test_rounds_in_batches_are_taken_row_by_row() -> None:
    def environment() -> Any:
        return Environments(SupervisedSimulation(X.tolist(), TEXTS, "c")).materialize().batch(10)[0]

    learner = CobaLearner("bpa", seed=1)
    assert len(list(SequentialCB().evaluate(environment(), learner))) == 150
    assert learner.learner is not None
    assert learner.learner.learnt == 150
    with pytest.raises(onebit.InputError, match=r"round 0 of the environment: expected a single row, got a batch"):
        stream(environment())


def test_what_others_played_is_learnt_from() -> None:
    """Off-policy learning and rejection sampling: rewards of logged actions, with their probabilities."""
    rng = np.random.default_rng(0)
    actions = ["a", "b", "c"]
    logged = [
        {"context": x.tolist(), "actions": actions, "action": actions[played], "probability": 1 / 3}
        | {"reward": int(played == label)}
        for x, label, played in zip(X, Y, rng.integers(0, 3, size=150), strict=True)
    ]
    learner = CobaLearner("bpa", seed=1)
    list(SequentialCB(learn="off", eval="ips").evaluate(Rounds(logged), learner))
    assert learner.learner is not None
    assert learner.learner.learnt == 150
    sampled = CobaLearner("epsilon-greedy", seed=1, exploration=0.2)
    assert list(RejectionCB().evaluate(Rounds(logged), sampled))
    with pytest.raises(onebit.InputError, match="the actions are not known yet"):
        CobaLearner("bpa").learn([1.0], "a", 1, 0.5)


def test_the_probability_of_an_action_is_told() -> None:
    learner = CobaLearner("banditron", seed=0, exploration=0.3)
    _, probability, kept = learner.predict([1.0, 2.0], ["a", "b"])
    assert probability == kept["decision"].propensity == 0.5
    learner.learn([1.0, 2.0], "b", 1, 0.5)
    assert learner.score([1.0, 2.0], ["b", "a"], "b") == pytest.approx(0.85)
    assert learner.predict([1.0, 2.0], ["b", "a"])[0] in ("a", "b")  # in any order


@pytest.mark.parametrize(
    ("context", "actions", "sentence"),
    [
        ([1.0], [], "no actions to choose from"),
        ([1.0], None, "no actions to choose from"),
        ([1.0], [("a", "x"), ("b", "y")], "one-hot tuples, not have features"),
        ([1.0], [(0.3, 0.5), (0.1, 0.2)], "one-hot tuples, not have features"),
        ([1.0], [{"price": 3}, {"price": 4}], "must be a class"),
        ([1.0, "red"], ["a", "b"], "a context contains 'red', but features must be numbers"),
        ("red", ["a", "b"], "a context contains 'red'"),
    ],
)
def test_what_is_no_class_or_no_row_is_refused(context: Any, actions: Any, sentence: str) -> None:
    with pytest.raises(onebit.InputError, match=sentence):
        CobaLearner("bpa").predict(context, actions)
    rounds = Rounds([{"context": context, "actions": actions, "rewards": [1, 0]}])
    if actions:
        with pytest.raises(onebit.InputError, match=f"round 0 of the environment: .*{sentence}"):
            stream(rounds)


def test_actions_and_rewards_must_be_those_of_a_class() -> None:
    learner = CobaLearner("bpa", seed=0)
    action, probability, kept = learner.predict([1.0], ["a", "b"])
    with pytest.raises(
        onebit.InputError, match=r"reward is 1\.5, but must be a number from 0 to 1; rescale rewards from a to b"
    ):
        learner.learn([1.0], action, 1.5, probability, **kept)
    with pytest.raises(onebit.InputError, match="there is no action 'c'; those of the first round are 'a', 'b'"):
        learner.predict([1.0], ["a", "b", "c"])
    with pytest.raises(onebit.InputError, match="there is no action 'c'"):
        learner.learn([1.0], "c", 1, 0.5)
    with pytest.raises(onebit.InputError, match="there is no action 'c'"):
        learner.score([1.0], ["a", "b"], "c")
    both = {"context": [1.0], "actions": ["a", "b"], "rewards": [1, 1]}
    with pytest.raises(onebit.InputError, match=r"round 1 .* \[1, 1\], but one must be 1"):
        stream(Rounds([{**both, "rewards": [0, 1]}, both]))
    with pytest.raises(onebit.InputError, match="the rewards of all actions are needed"):
        stream(Rounds([{"context": [1.0], "actions": ["a", "b"], "action": "a", "reward": 1, "probability": 0.5}]))
    with pytest.raises(
        onebit.InputError, match="the actions are 'a', 'b', 'c', but those of earlier rounds are 'a', 'b'"
    ):
        stream(Rounds([{**both, "rewards": [0, 1]}, {**both, "actions": ["a", "b", "c"], "rewards": [0, 1, 0]}]))


@pytest.mark.parametrize(
    ("learner", "options", "sentence"),
    [
        ("perceptron", {}, "Perceptron learns from labels, but coba gives rewards"),
        ("bandtron", {}, "did you mean 'banditron'"),
        ("bpa", {"classes": 3}, "'classes', which is set by the actions"),
        (onebit.BPA(classes=2), {"seed": 3}, "seed and options cannot be given with a learner"),
    ],
)
def test_what_it_cannot_be_is_said_at_once(learner: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(onebit.InputError, match=sentence):
        CobaLearner(learner, **options)


def test_rewards_are_numbers_and_actions_of_a_round_its_candidates() -> None:
    """By hand it is the same learner, and what is not among the actions is not played."""
    ready = onebit.LinUCB(classes=["a", "b", "c"], seed=4)
    learner, by_hand = CobaLearner(ready), onebit.LinUCB(classes=["a", "b", "c"], seed=4)
    sets = [["a", "c"], ["c", "b"], ["b"], ["a", "b", "c"]]
    for number in range(60):
        x, actions = [1.0, number % 5 / 5], sets[number % 4]
        assert learner.score(x, actions, actions[0]) == by_hand.probabilities(x, among=actions)[actions[0]]
        action, probability, kept = learner.predict(x, actions)
        decision = by_hand.decide(x, among=actions)
        assert (action, probability) == (decision.label, decision.propensity)
        learner.learn(x, action, 0.25 * (number % 5), probability, **kept)
        by_hand.learn(decision, reward=0.25 * (number % 5))
    assert learner.learner is not None
    assert np.array_equal(learner.learner.weights, by_hand.weights)
    hot = CobaLearner(onebit.BPA(classes=3))
    hot.predict([1.0], [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
    assert hot.predict([1.0], [(0, 0, 1)])[:2] == ((0, 0, 1), 1.0)
    with pytest.raises(onebit.InputError, match="give CobaLearner a learner with all of them"):
        learner.predict([1.0], ["a", "d"])


def test_a_learner_of_other_classes_is_refused() -> None:
    with pytest.raises(onebit.InputError, match="the actions are 'a', 'b', but the learner has the classes 0, 1"):
        CobaLearner(onebit.BPA(classes=2)).predict([1.0], ["a", "b"])


def test_several_environments_are_not_one() -> None:
    with pytest.raises(onebit.InputError, match=r"give one: environments\[0\]"):
        stream(Environments(SupervisedSimulation(X.tolist(), TEXTS, "c")))
    with pytest.raises(onebit.InputError, match="the environment has no rounds"):
        stream(Rounds([]))
