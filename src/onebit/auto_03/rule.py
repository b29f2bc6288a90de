"""The auto of versions up to 0.3, the default then: kept for its existing files and logs. It has no parameters.

Own work, built on LinUCB's optimism, the Laplace approximation and Bayesian averaging. No regret bound. Dense rows are seen by several members, each in its own view (`onebit.auto_03`):

    linear:  p = softmax(s) of scores in a view,  u_i = the probability of i where its score is one deviation sqrt(q_i) up
    play     argmax_i sum_m v_m u_mi
    learn    every member finds the most likely scores, given the feedback and what was known (`laplace`)
    weigh    v_m is proportional to the probability that m gave to all feedback

Sparse rows have one member, a regression on 1 and 0 with the benefit of the doubt, s + 2 deviation sqrt(q) (`contract.ridge`). In both, if
the mistakes show that the stream has changed, it restarts from scratch (`auto.change_detector`). Deterministic except for ties: its logs
can evaluate another learner only with an exploration floor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from onebit.auto import change_detector
from onebit.auto_03.dense import Auto03Dense
from onebit.auto_03.laplace import START, believe, laplace_step, raised
from onebit.auto_03.sparse import Auto03Sparse
from onebit.contract.belief import nearest_distribution, softmax_rows
from onebit.contract.calibration import sigmoid
from onebit.contract.candidates import (
    Labels,
    Narrowing,
    class_at,
    fewer_classes,
)
from onebit.contract.choices import fill, greedy_label, highest, share_greedy
from onebit.contract.contrast import Contrast, class_contrast
from onebit.contract.covariance import Order
from onebit.contract.description import ExplorationReport
from onebit.contract.ridge import optimistic, regress_one_sided
from onebit.contract.rule import LEARNT, OWN, Choice, Matrix, Rule, RuleInput, Vector
from onebit.contract.surety import margin_and_score
from onebit.spaces.layout import SpaceLayout

MOST_MEMBERS = 5

# The positions in the memory.
LOSSES = OWN  # of the members: how much less likely than to the best what was heard was to them, as logarithms
EXPLORED = LOSSES + MOST_MEMBERS  # rounds in which another class was played than the one thought best
RECENTLY = EXPLORED + 1  # their share lately
EXPLORED_RIGHT = EXPLORED + 2  # how many of them were right
HOPED = EXPLORED + 3  # what was expected of the class thought best, summed over them
RESTARTS = EXPLORED + 4
DETECTOR = EXPLORED + 5

HANDICAP = 3.0  # of the member with the random waves, in the beginning
LEAST_CHANCE = 0.01  # no member is ruled out by a single answer
DEVIATIONS = 2.0  # of the regression's noise, which a class is given
LATELY = 200.0  # rounds
NO_CHANCE = 1e-12  # what is added to both sides of odds


class Auto03(NamedTuple):
    """It has no parameters; what it is made of depends on the rows."""

    classes: int
    members: int = 1
    waved: int = -1  # which of them looks through random waves
    full: int = 0  # whether covariances are matrices
    regresses: int = 0  # whether there is one member, which regresses
    all_classes: int = 0  # how many there are, also where few can be played


def prepare(params: Auto03, options: Mapping[str, object]) -> tuple[Auto03, tuple[float, ...]]:
    """Room for what it remembers."""
    return params._replace(all_classes=params.classes), (
        *(0.0,) * (DETECTOR - OWN),
        *change_detector.initial(params.classes),
    )


def loss_of(params: Auto03, memory: Vector, member: int) -> float:
    """The loss of a member so far; the one with the most weights has to make up for more."""
    return float(memory[LOSSES + member]) + (HANDICAP if member == params.waved else 0.0)


def weight_of(params: Auto03, memory: Vector, member: int) -> float:
    """The share of a member in the mixture."""
    total = 0.0
    for other in range(params.members):
        total += math.exp(min(700.0, loss_of(params, memory, member) - loss_of(params, memory, other)))
    return 1.0 / total


def weigh(params: Auto03, given: RuleInput) -> None:
    """Write into `work` what each class may be worth at best, and what it is thought to be worth."""
    classes, scores, work = params.classes, given.scores, given.work
    if params.regresses == 1:
        hope(scores, classes, work)
        return
    fill(work[0], classes, 0.0)
    fill(work[1], classes, 0.0)
    for member in range(params.members):
        share, begin = weight_of(params, given.memory, member), 2 * classes * member
        believe(scores, begin, classes, work[1], classes)
        for label in range(classes):
            chance = work[1, classes + label]
            work[0, label] += share * raised(chance, scores[begin + classes + label])
            work[1, label] += share * chance


def hope(scores: Vector, classes: int, work: Matrix) -> None:
    """The hopes of the regression: so many deviations up, but no more than the best leaves, with the same doubt."""
    width = DEVIATIONS * math.sqrt(scores[2 * classes])  # the noise, which the space gives after its variances
    optimistic(scores, classes, width, work[0])
    best = highest(scores, classes)
    left = 1.0 - scores[best] + 2.0 * width * math.sqrt(scores[classes + best])
    for label in range(classes):
        work[1, label] = scores[label]
        if label != best:
            work[0, label] = min(work[0, label], left)


def decide(params: Auto03, given: RuleInput) -> Choice:
    """Play what may be best."""
    work = given.work
    weigh(params, given)
    label = greedy_label(work[0], params.classes, given.draws)
    greedy = greedy_label(work[1], params.classes, given.draws)
    return Choice(label, greedy, 1.0, min(1.0, max(0.0, work[1, greedy])), 0.0)


def learn(params: Auto03, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Every member learns; 0 says that everything learnt so far is forgotten."""
    memory = given.memory
    right = revealed == choice.label
    remember(memory, choice, right)
    # By all classes: sets of different sizes would make one error look like several.
    if change_detector.detects(memory, DETECTOR, params.all_classes, not right):
        memory[RESTARTS] += 1.0
        fill(step, step.shape[0], 0.0)
        for member in range(params.members):
            memory[LOSSES + member] = 0.0
        return 0.0
    move(params, given, choice.label, right, given.reward, step)
    return 1.0


def remember(memory: Vector, choice: Choice, right: bool) -> None:
    """Keep account of exploration, for `describe`."""
    explores = 1.0 if choice.label != choice.greedy else 0.0
    memory[EXPLORED] += explores
    memory[RECENTLY] += (explores - memory[RECENTLY]) / min(LATELY, memory[LEARNT] + 1.0)
    if explores == 1.0:
        memory[EXPLORED_RIGHT] += 1.0 if right else 0.0
        memory[HOPED] += choice.note


def move(params: Auto03, given: RuleInput, label: int, right: bool, reward: float, step: Vector) -> None:
    """Fill in the steps of all members, and weigh them by what they gave to what was heard.

    A reward between right and wrong is what the regression aims at, and what the members are weighed by; `right`, which is true with
    that probability, is what all else hears.
    """
    classes, memory, scores, work = params.classes, given.memory, given.scores, given.work
    if params.regresses == 1:
        residual = regress_one_sided(scores, classes, label, right, reward, step)
        step[2 * classes] = min(1.0, residual * residual)
        step[2 * classes + 1] = class_at(given, label)
        step[2 * classes + 2] = -1.0
        if right or classes == 2:
            step[2 * classes + 2] = class_at(given, label if right else 1 - label)
        return
    least = math.inf
    for member in range(params.members):
        begin = 2 * classes * member
        believe(scores, begin, classes, work[0], 0)
        chance = work[0, label]
        memory[LOSSES + member] -= heard_likelihood(chance, reward)
        least = min(least, memory[LOSSES + member])
        if member < params.members - 1:
            laplace_step(scores, begin, classes, params.full == 1, label, right, work, step)
    fill_clusters(params, label, right, step)
    for member in range(params.members):
        memory[LOSSES + member] -= least


def heard_likelihood(chance: float, reward: float) -> float:
    """The logarithm of how likely what was heard is to one who believes in the label so much."""
    return reward * math.log(max(LEAST_CHANCE, chance)) + (1.0 - reward) * math.log(max(LEAST_CHANCE, 1.0 - chance))


def fill_clusters(params: Auto03, label: int, right: bool, step: Vector) -> None:
    """The last member hears which class was right, where that is known."""
    begin = 2 * params.classes * (params.members - 1)
    for index in range(begin, begin + 2 * params.classes):
        step[index] = 0.0
    if right or params.classes == 2:
        step[begin + (label if right else 1 - label)] = 1.0


def probabilities(params: Auto03, given: RuleInput, out: Vector) -> None:
    """The tied share alike."""
    weigh(params, given)
    share_greedy(given.work[0], params.classes, 0.0, out)


def teach(params: Auto03, given: RuleInput, label: int, step: Vector) -> float:
    """With the label known: as if it had been played."""
    move(params, given, label, True, 1.0, step)
    return 1.0


def gather(params: Auto03, scores: Vector, candidates: Labels, out: Vector) -> None:
    """What every member says of the candidates, and the noise, which is one for all."""
    classes, count = params.classes, candidates.shape[0]
    for block in range(2 * params.members):
        for place in range(count):
            out[block * count + place] = scores[block * classes + candidates[place]]
    if params.regresses == 1:
        out[2 * count] = scores[2 * classes]


def scatter(params: Auto03, step: Vector, candidates: Labels, out: Vector) -> None:
    """The steps of every member, and what the regression says beside them."""
    classes, count = params.classes, candidates.shape[0]
    fill(out, 2 * classes * params.members, 0.0)
    for block in range(2 * params.members):
        for place in range(count):
            out[block * classes + candidates[place]] = step[block * count + place]
    for index in range(3 if params.regresses == 1 else 0):
        out[2 * classes + index] = step[2 * count + index]


def belief(params: Auto03, memory: Vector, scores: Matrix) -> Matrix:
    """What the members believe, by their shares; of the regression, the probabilities nearest to its scores."""
    classes = params.classes
    if params.regresses == 1:
        return nearest_distribution(scores[:, :classes])
    begins = [2 * classes * member for member in range(params.members)]
    parts = [softmax_rows(scores[:, begin : begin + classes]) for begin in begins]
    return sum(weight_of(params, memory, member) * part for member, part in enumerate(parts))  # type: ignore[return-value]


def contrast(params: Auto03, memory: Vector, label: int, rival: int) -> Contrast:
    """The differences of the scores of all members, by their shares; of the regression, that of its scores."""
    if params.regresses == 1:
        return class_contrast(params, memory, label, rival)
    shares = [weight_of(params, memory, member) for member in range(params.members)]
    begins = [2 * params.classes * member for member in range(params.members)]
    return tuple(
        (begin + head, sign * share)
        for begin, share in zip(begins, shares, strict=True)
        for head, sign in ((label, 1.0), (rival, -1.0))
    )


def surety(params: Auto03, given: RuleInput, label: int) -> float:
    """The log-odds of the label in the mixture; of the regression, the label's score, and once more what it is ahead."""
    if params.regresses == 1:
        return margin_and_score(given.scores, params.classes, label)
    weigh(params, given)
    chance, rest = given.work[1, label], 0.0
    for other in range(params.classes):
        if other != label:
            rest += given.work[1, other]
    if params.classes == 1:  # every member gives it the probability 1: against a class that scores 0 they say more
        chance = 0.0
        for member in range(params.members):
            chance += weight_of(params, given.memory, member) * sigmoid(given.scores[2 * member])
        rest = 1.0 - chance
    return math.log((chance + NO_CHANCE) / (rest + NO_CHANCE))


def order(params: Auto03) -> Order:
    """The variances with which members start."""
    return Order(start=START)


def describe(params: Auto03, memory: Vector, space: Any) -> Mapping[str, Any]:
    """The weights of the members, and what exploring brought."""
    explored = int(memory[EXPLORED])
    return {
        "members": {name: weight_of(params, memory, member) for member, name in enumerate(space.member_names)},
        "exploration": ExplorationReport(
            rounds=explored,
            recent=float(memory[RECENTLY]),
            right=int(memory[EXPLORED_RIGHT]),
            hoped=float(memory[HOPED]) / max(1, explored),
        ),
        "restarts": int(memory[RESTARTS]),
    }


def planned_space(params: Auto03, form: Any, heads: int, planned: int, seed: int) -> tuple[partial[Any], SpaceLayout]:
    """What makes the members for rows of this form, and what their arrays will be."""
    if form.dense:
        given = (heads, form.columns, form.dtype, order(params))
        return partial(Auto03Dense.planned, *given, seed, planned), Auto03Dense.layout(*given, planned)
    rows = (heads, form.columns, form.dtype)
    return partial(Auto03Sparse.planned, *rows), Auto03Sparse.layout(*rows)


RULE = Rule(
    name="auto-0.3",
    paper="this project",
    summary="the default up to 0.3, kept for its existing files and tasks; replaced by auto",
    record=Auto03,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    prepare=prepare,
    second_order=order,
    composite=planned_space,
    counts=((EXPLORED, LEARNT), (EXPLORED_RIGHT, EXPLORED), (RESTARTS, LEARNT)),
    describe=describe,
    belief=belief,
    contrast=contrast,
    takes_rewards=True,
    narrowing=Narrowing(fewer_classes(Auto03), gather, scatter),
    learns_over_all=True,
    surety=surety,
)
