"""What may be asked of a decision and said of it: what each rule makes of that, and in any order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onebit
from onebit.checks.examples import refused, state
from onebit.contract.candidates import pack_candidates
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner
from onebit.rules import registry
from tests.learner.learners import BANDIT, NAMES, X, assert_unchanged_by, fresh, trained
from tests.oracles.draws import draws

BITS = [name for name in BANDIT if not registry()[name].takes_rewards]
INFERRING = ("auto", "conservative-ova")


def state_after(learner: Learner, decision: Decision, **said: Any) -> dict[str, Any]:
    """What a copy of a learner is once it has heard that."""
    other = copy_learner(learner)
    other.learn(decision, **said)
    return state(other)


# --- what "wrong" says of the others ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in BANDIT if name not in INFERRING])
def test_rules_that_infer_nothing_do_the_same_whether_a_set_is_complete_or_not(name: str) -> None:
    learner = trained(name)
    for row, among in enumerate((NAMES[:2], NAMES[1:4], NAMES[3:4])):
        for right in (True, False):
            made = [learner.decide(X[row], id="one", among=among, complete=known) for known in (False, True)]
            one, other = (
                decision._replace(raw=None, confidence=None) for decision in made
            )  # it may be surer in one of them
            assert state_after(learner, one, right=right) == state_after(learner, other, right=right)


@pytest.mark.parametrize("coding", ["one-vs-all", "all-pairs", [[1, 1, 0, 1], [-1, 1, 1, 1], [1, -1, -1, 1]]])
def test_conservative_ova_infers_the_other_of_two_only_where_one_of_them_is_right(coding: Any) -> None:
    """`strict`: all pairs move what is certain alone. Columns that all words agree on move in both cases."""
    learner = Learner("conservative-ova", classes=3, coding=coding, wrong="strict", features=2, space="dense")
    one, other = (learner.decide([1.0, 0.5], id="one", among=[0, 1], complete=known) for known in (False, True))
    moved = []
    for decision in (one, other):
        heard = copy_learner(learner)
        heard.learn(decision, right=False)
        moved.append(np.flatnonzero(heard.weights.any(axis=1)).tolist())
    played = int(one.label)
    if coding == "one-vs-all":
        assert moved == [[played], [0, 1]]
    elif coding == "all-pairs":
        assert moved == [[], [0]]
    else:
        words = np.array(coding)
        others = [np.delete(words, played, axis=0), words[[1 - played]]]
        assert moved == [np.flatnonzero((part == part[0]).all(axis=0) & (part[0] != 0)).tolist() for part in others]


@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_auto_learns_over_all_classes_from_a_set_that_may_be_without_the_right_one(space: str) -> None:
    learner = trained("auto", space=space)
    for row, among in enumerate((NAMES[:2], NAMES[1:4], NAMES[3:4])):
        decision = learner.decide(X[row], id="one", among=among)
        known = decision._replace(complete=True)
        for right in (True, False):
            over_all = state_after(learner, decision._replace(among=None), right=right)
            assert state_after(learner, decision, right=right) == over_all
            if len(among) < 3:  # of two, "wrong" names the other one; of one, there is nothing to compare with
                assert (state_after(learner, known, right=right) == over_all) == (len(among) == 1)


# --- rewards ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BITS)
def test_the_step_for_a_reward_is_that_for_right_with_its_probability_and_else_that_for_wrong(name: str) -> None:
    """300 ids: the share of right steps is within 5.5 deviations, so a right rule fails once in 25 million times."""
    learner, reward, count = trained(name), 0.3, 300
    decision, right = learner.decide(X[3], id=0), 0
    for identity in range(count):
        one = decision._replace(id=f"number {identity}")
        rewarded, drawn = copy_learner(learner), []
        rewarded.learn(one, reward=reward)
        for answer in (True, False):
            told = copy_learner(learner)
            told.learn(one, right=answer)
            drawn.append(np.array_equal(rewarded.weights, told.weights))
        assert any(drawn)
        if drawn == [True, True]:  # steps that are the same say nothing
            count -= 1
        right += drawn == [True, False]
        if identity == 20 and count == 0:
            pytest.skip("this decision teaches the rule nothing")
    assert abs(right - reward * count) <= 5.5 * math.sqrt(count * reward * (1.0 - reward))


MEANS: dict[str, Callable[[float], float]] = {
    "linucb": lambda score: score,
    "thompson": lambda score: score,
    "squarecb": lambda score: score,
    "softmax": lambda score: score,
    "epsilon-greedy": lambda score: score,
    "confidit": lambda score: (1.0 + score) / 2.0,  # alpha is 1
}


@pytest.mark.parametrize("mean", [0.2, 0.75])
@pytest.mark.parametrize("name", MEANS)
def test_regressions_converge_to_the_mean_of_random_rewards(name: str, mean: float) -> None:
    """2,000 rewards from a beta distribution. The mean of them is within 0.03 of `mean` (5 deviations), and the prior costs 0.01 at most."""
    learner = fresh(name)
    x = np.array([1.0])
    decision = learner.from_log(x, "bee", propensity=0.5, id="one")
    rewards = np.random.default_rng(40).beta(2.0 * mean, 2.0 * (1.0 - mean), size=2000)
    decisions = [decision._replace(id=f"number {row}") for row in range(len(rewards))]
    learner.learn_many(decisions, rewards=rewards)
    assert abs(MEANS[name](float(learner.scores(x)[NAMES.index("bee")])) - mean) < 0.04
    assert abs(learner.describe().reward - rewards.mean()) < 1e-9
    assert learner.describe().error is None


def test_rewards_in_numbers_are_right_and_wrong_where_the_truth_is_given() -> None:
    """Rows of a table of one's own, for a rule that has a step for known labels and for one that has none."""
    for name in ("linucb", "bpa"):
        learner = trained(name)
        other = copy_learner(learner)
        ids = ["a", "b", "c"]
        among = pack_candidates([[0, 2], [1], [0, 1, 4]])
        choices = learner.runtime.decide_rows(X[:3], ids, among)
        truths = np.array([-1, 1, 4])
        wrong = np.zeros(3, dtype=bool)
        learner.runtime.learn_rows(X[:3], ids, choices, wrong, among=among, truths=truths)
        rewards = np.array([0.0, 0.4, 0.4])
        other.runtime.learn_rows(X[:3], ids, choices, wrong, among=among, truths=truths, rewards=rewards)
        assert state(learner) == state(other)


# --- what is given, and how ------------------------------------------------------------------------------------------------


def test_candidates_may_be_anything_that_can_be_walked() -> None:
    learner = trained("bpa")
    expected = learner.decide_many(X[:2], ids=["a", "b"], among=["cat", "ant"])
    given: list[Any] = [
        ("cat", "ant"),
        {"cat", "ant"},
        np.array(["cat", "ant"]),
        iter(["cat", "ant"]),
        (name for name in ("cat", "ant", "cat")),
        iter([["cat", "ant"], ("ant", "cat")]),
    ]
    for among in given:
        assert learner.decide_many(X[:2], ids=["a", "b"], among=among) == expected
    assert learner.decide(X[0], id="a", among=iter(["cat", "ant"])) == expected[0]


def test_a_decision_of_somebody_else_says_nothing_of_how_sure_this_learner_was() -> None:
    learner = trained("linucb")
    own = learner.decide(X[0], id="one")
    other = next(name for name in NAMES if name != own.label)
    theirs = learner.from_log(X[0], other, 0.5, id="one", among=[other, own.label])
    assert theirs.among == tuple(name for name in NAMES if name in (other, own.label))
    assert (theirs.raw, theirs.confidence, theirs.probabilities) == (None, None, None)
    assert learner.from_log(X[0], own.label, 0.5, id="one").raw == own.raw
    assert "must be one of the candidates" in assert_unchanged_by(
        learner, lambda: learner.from_log(X[0], other, 0.5, id="one", among=[own.label])
    )


def test_the_bit_of_a_reward_is_drawn_from_the_decision() -> None:
    learner = trained("bpa", seed=3)
    decision = learner.decide(X[0], id=77)
    for reward in (0.2, 0.8):
        right = draws(3, 77, 5)(0) < reward
        heard = copy_learner(learner)
        heard.learn(decision, reward=reward)
        told = copy_learner(learner)
        told.learn(decision, right=right)
        assert np.array_equal(heard.weights, told.weights)


# --- in any order ----------------------------------------------------------------------------------------------------------

CHOICES = st.sampled_from(["right", "reward", "truth", "many", "json", "saved", "add", "remove", "decide", "decide"])
STEPS = st.lists(st.tuples(CHOICES, st.integers(0, 2**16)), min_size=1, max_size=40)


def _candidates(learner: Learner, number: int) -> list[Any] | None:
    found = [name for place, name in enumerate(learner.classes) if number >> place & 1]
    return found or None


def _said(decision: Decision, what: str, number: int) -> dict[str, Any]:
    if what == "right":
        return {"right": number % 2 == 0}
    if what == "reward":
        return {"reward": (number % 101) / 100}
    known = decision.among or NAMES
    return {"truth": known[number % len(known)]}


@settings(max_examples=25, deadline=None, derandomize=True)
@given(steps=STEPS, name=st.sampled_from(["linucb", "bpa", "offset-tree"]))
def test_any_order_of_asking_answering_saving_and_new_and_retired_classes(
    steps: list[tuple[str, int]], name: str
) -> None:
    """One learner goes through files and JSON, the other never does; what is refused changes neither, and they stay the same."""
    whole = fresh(name)
    stopped = copy_learner(whole)
    waiting: list[Decision] = []
    for row, (what, number) in enumerate(steps):
        before, refusals = state(whole), []
        x = X[number % len(X)]
        if what == "decide" or (what in ("right", "reward", "truth", "many") and not waiting):
            for learner in (whole, stopped):
                try:
                    made = learner.decide(x, among=_candidates(learner, number), complete=number % 3 == 0)
                    waiting.append(made)
                    refusals.append("")
                except ValueError as error:
                    refusals.append(str(error))
            assert refusals[0] == refusals[1]
            if refusals[0]:
                assert "no class that can be played" in refusals[0]
                assert state(whole) == before
            else:
                assert waiting[-2] == waiting.pop()
                assert not set(whole.runtime.names.retired) & {whole.classes.index(waiting[-1].label)}
        elif what == "many":
            rewards = [((number + place) % 11) / 10 for place in range(len(waiting))]
            whole.learn_many(waiting, rewards=rewards)
            for decision, reward in zip(waiting, rewards, strict=True):
                stopped.learn(decision, reward=reward)
            waiting = []
        elif what in ("right", "reward", "truth"):
            decision = waiting.pop(number % len(waiting))
            for learner in (whole, stopped):
                learner.learn(decision, **_said(decision, what, number))
        elif what == "json":
            waiting = [Decision.from_json(decision.to_json()) for decision in waiting]
        elif what == "saved":
            stopped = Learner.from_bytes(stopped.to_bytes())
        elif what == "add" and len(whole.classes) < 7:
            for learner in (whole, stopped):
                learner.add_class(f"new {row}")
        elif what == "remove" and len(whole.classes) - len(whole.runtime.names.retired) > 2:
            for learner in (whole, stopped):
                learner.remove_class(whole.classes[number % len(whole.classes)])
        assert state(whole) == state(stopped)


# --- what an attacker found --------------------------------------------------------------------------------------------


def test_answers_go_by_their_order_and_not_by_an_index() -> None:
    frame = pd.DataFrame({"u": [1.0, 0.0], "v": [0.0, 1.0], "worth": [1.0, 0.0]}, index=[1, 0])
    learner = onebit.LinUCB(classes=["a", "b"])
    learner.learn_many(learner.decide_many(frame[["u", "v"]], among=["a"]), rewards=frame["worth"])  # type: ignore[arg-type]
    assert learner.scores([1.0, 0.0])[0] > 0.5 > learner.scores([0.0, 1.0])[0]
    learner.learn_many(learner.decide_many(frame[["u", "v"]]), right=[False, True], truths=pd.Series([None, None]))  # type: ignore[arg-type]
    decisions = learner.decide_many(frame[["u", "v"]])
    for answers in ({0: 1.0, 1: 0.0}, {1.0, 0.0}):
        with pytest.raises(onebit.InputError, match="must be lists"):
            learner.learn_many(decisions, rewards=answers)  # type: ignore[arg-type]


def test_rewards_that_add_up_to_a_whole_number_are_no_count_of_right() -> None:
    learner = onebit.LinUCB(classes=["a", "b"])
    for number in range(10):
        learner.learn(learner.decide([1.0, float(number)]), reward=0.5)
    assert learner.describe().error is None
    assert Learner.from_bytes(learner.to_bytes()).describe().reward == 0.5


def test_who_may_be_none_of_the_candidates_is_not_sure_of_them() -> None:
    """The right class may be any where nobody says that it is among the candidates: then all count against the label."""
    chance = np.random.default_rng(0)
    for rule in ("linucb", "offset-tree"):
        learner = Learner(rule, classes=["a", "b", "c"])
        for x in chance.normal(size=(300, 2)):
            decision = learner.decide(x)
            learner.learn(decision, right=decision.label == ("a" if x[0] > 0 else "b"))
        open_end, closed = (learner.decide([2.0, 0.0], among=["b", "c"], complete=known) for known in (False, True))
        assert open_end.confidence is not None
        assert closed.confidence is not None
        assert open_end.confidence < closed.confidence, rule


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"raw": "x"}, "raw"),
        ({"raw": math.inf}, "raw"),
        ({"confidence": 7.0}, "confidence"),
        ({"sure": "x"}, "sure"),
        ({"among": 5}, "candidates"),
    ],
)
def test_decisions_with_fields_that_are_none_of_theirs_are_refused(wrong: dict[str, Any], said: str) -> None:
    learner = onebit.BPA(classes=["a", "b"])
    decision = learner.decide([1.0, 2.0])._replace(**wrong)
    assert said in refused(lambda: learner.learn(decision, right=True))
    assert learner.learnt == 0


def test_a_log_that_is_refused_takes_no_number() -> None:
    learner = onebit.BPA(classes=["a", "b"])
    assert "must be 1: there is only one candidate" in refused(lambda: learner.from_log([1.0], "a", 0.5, among=["a"]))
    assert learner.from_log([1.0], "a", np.float32(0.5)).id == 0  # type: ignore[arg-type]
