"""Auto: the default learner. It has no parameters.

Own work, built on LinUCB's optimism, the Laplace approximation and Bayesian averaging; measured, with what was tried and lost, on the
page about auto. What it learns with depends on the rows: several members on dense ones (`auto.dense`), a regression beside naive Bayes on
sparse ones (`auto.sparse`). Either space describes a row in three blocks of K numbers:

    beliefs   p_i, the probability that class i is right
    hopes     u_i, the same with the score of i alone raised by one deviation (`write_hopes`, computed for a decision)
    logits    the scores of the members, weighted by their shares: for explanations

The rule plays argmax u, and passes on the feedback (`onebit.auto`). If the mistakes show that the stream has changed, it restarts from scratch
(`auto.change_detector`). Deterministic except for ties: its logs can evaluate another learner only with an exploration floor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from onebit.auto import ABOUT, FEEDBACK_NUMBERS, LABEL, REWARD, RIGHT, change_detector
from onebit.auto.dense.space import AutoDense
from onebit.auto.sparse.space import AutoSparse
from onebit.contract.candidates import Labels, Narrowing, fewer_classes
from onebit.contract.choices import fill, greedy_label, share_greedy
from onebit.contract.description import ExplorationReport
from onebit.contract.rule import LEARNT, OWN, Choice, Composite, Contrast, Matrix, Rule, RuleInput, Vector
from onebit.spaces.choose import Blueprint, Form

# Positions in the memory.
EXPLORED = OWN  # rounds in which another class was played than the one with the highest belief
RECENT_EXPLORED = EXPLORED + 1  # their recent share
EXPLORED_RIGHT = EXPLORED + 2  # how many of them were right
EXPLORED_BELIEF = EXPLORED + 3  # the sum over them of the belief in the best class
RESTARTS = EXPLORED + 4
DETECTOR = EXPLORED + 5

RECENT_ROUNDS = 200.0  # rounds that the recent share averages over
LEAST_CHANCE = 1e-12  # added to both sides of odds to avoid division by 0


class Auto(NamedTuple):
    classes: int
    all_classes: int = 0  # number of all classes, even if only few are candidates


def prepare(params: Auto, options: Mapping[str, object]) -> tuple[Auto, tuple[float, ...]]:
    """Return the parameters and the initial memory, with room for counts and the change detector."""
    first = (*(0.0,) * (DETECTOR - OWN), *change_detector.initial_state(params.classes))
    return params._replace(all_classes=params.classes), first


def decide(params: Auto, given: RuleInput) -> Choice:
    """Play the class with the highest hope."""
    classes, scores = params.classes, given.scores
    label = greedy_label(scores[classes : 2 * classes], classes, given.draws)
    greedy = greedy_label(scores[:classes], classes, given.draws)
    return Choice(label, greedy, 1.0, scores[greedy], 0.0)


def learn(params: Auto, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Pass the feedback on to the space; return 0 if a change was detected and it must forget, else 1."""
    memory, right = given.memory, revealed == choice.label
    count_exploration(memory, choice, right)
    write_feedback(params, choice.label, right, given.reward, step)
    # Based on all classes: with sets of different sizes, one error rate would look like several.
    if change_detector.detect_change(memory, DETECTOR, params.all_classes, not right):
        memory[RESTARTS] += 1.0
        return 0.0
    return 1.0


def count_exploration(memory: Vector, choice: Choice, right: bool) -> None:
    """Update the statistics of exploration, for `describe`."""
    explores = 1.0 if choice.label != choice.greedy else 0.0
    memory[EXPLORED] += explores
    memory[RECENT_EXPLORED] += (explores - memory[RECENT_EXPLORED]) / min(RECENT_ROUNDS, memory[LEARNT] + 1.0)
    if explores == 1.0:
        memory[EXPLORED_RIGHT] += 1.0 if right else 0.0
        memory[EXPLORED_BELIEF] += choice.note


def write_feedback(params: Auto, label: int, right: bool, reward: float, step: Vector) -> None:
    """Write the feedback for the space: which classes it concerns, the label, and the outcome.

    For a reward between right and wrong, the members' shares and the regressions use the reward itself; everything
    else uses `right`, which is true with that probability.
    """
    classes = params.classes
    fill(step, classes, ABOUT)
    step[classes + LABEL] = label
    step[classes + RIGHT] = 1.0 if right else 0.0
    step[classes + REWARD] = reward


def probabilities(params: Auto, given: RuleInput, out: Vector) -> None:
    """Share the probability equally among the classes that tie for the highest hope."""
    classes = params.classes
    share_greedy(given.scores[classes : 2 * classes], classes, 0.0, out)


def teach(params: Auto, given: RuleInput, label: int, step: Vector) -> float:
    """Learn a known label as if it had been played."""
    write_feedback(params, label, True, 1.0, step)
    return 1.0


def gather(params: Auto, scores: Vector, candidates: Labels, out: Vector) -> None:
    """Write beliefs and hopes given that the right class is a candidate.

    For a single candidate they stay what they are among all classes.
    """
    classes, count, total = params.classes, candidates.shape[0], 0.0
    for place in range(count):
        total += scores[candidates[place]]
    if count in (1, classes):
        total = 1.0
    for place in range(count):
        belief, hope = scores[candidates[place]], scores[classes + candidates[place]]
        out[place], out[count + place] = belief, hope
        if total < 1.0:
            among = belief / total if total > 0.0 else 1.0 / count
            out[place], out[count + place] = among, raise_odds_alike(among, belief, hope)


def raise_odds_alike(among: float, belief: float, hope: float) -> float:
    """Return a belief among few classes, with its odds raised by the same factor as among all classes."""
    odds, before = hope * (1.0 - belief), belief * (1.0 - hope)
    if not odds > before:
        return among
    return among * odds / (among * odds + (1.0 - among) * before)


def scatter(params: Auto, step: Vector, candidates: Labels, out: Vector) -> None:
    """Write the feedback on the candidates as feedback on all classes, with the label as one of all."""
    classes, count = params.classes, candidates.shape[0]
    fill(out, classes, 0.0)
    for place in range(count):
        out[candidates[place]] = step[place]
    for index in range(FEEDBACK_NUMBERS):
        out[classes + index] = step[count + index]
    out[classes + LABEL] = candidates[int(step[count + LABEL])]


def belief(params: Auto, memory: Vector, scores: Matrix) -> Matrix:
    """Return the beliefs, which are the first block of the scores."""
    return scores[:, : params.classes].copy()


def contrast(params: Auto, memory: Vector, label: int, rival: int) -> Contrast:
    """Return the difference of two logits."""
    begin = 2 * params.classes
    return (begin + label, 1.0), (begin + rival, -1.0)


def surety(params: Auto, given: RuleInput, label: int) -> float:
    """Return the log-odds of the belief in the label."""
    chance, other_mass = given.scores[label], 0.0
    for index in range(params.classes):
        if index != label:
            other_mass += given.scores[index]
    if params.classes == 1:
        other_mass = 1.0 - chance
    return math.log((chance + LEAST_CHANCE) / (other_mass + LEAST_CHANCE))


def describe(params: Auto, memory: Vector, space: Any) -> Mapping[str, Any]:
    """Return the members and their shares, the classes never right, and what exploration gained."""
    explored, report = int(memory[EXPLORED]), space.report()
    return {
        "composition": report,
        "never_right": space.never_right,
        "exploration": ExplorationReport(
            rounds=explored,
            recent=float(memory[RECENT_EXPLORED]),
            right=int(memory[EXPLORED_RIGHT]),
            hoped=float(memory[EXPLORED_BELIEF]) / max(1, explored),
        ),
        "restarts": int(memory[RESTARTS]),
    }


def plan_space(params: Auto, form: Form, heads: int, planned: int, seed: int) -> Blueprint:
    """Return the blueprint of the space for rows of this form."""
    rows = (heads, form.columns, form.dtype)
    if form.dense:
        return Blueprint(partial(AutoDense.empty, *rows, seed, planned), AutoDense.layout(*rows, planned))
    return Blueprint.of(AutoSparse, *rows)


RULE = Rule(
    name="auto",
    paper="this project",
    summary="The default, which needs no tuning: several weighted members, and restarts",
    record=Auto,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    prepare=prepare,
    composite=Composite(
        plan_space,
        describe,
        counts=((EXPLORED, LEARNT), (EXPLORED_RIGHT, EXPLORED), (RESTARTS, LEARNT)),
    ),
    belief=belief,
    contrast=contrast,
    takes_rewards=True,
    narrowing=Narrowing(fewer_classes(Auto), gather, scatter),
    surety=surety,
)
