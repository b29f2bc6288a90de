"""Auto: the default learner. It has no parameters.

Own work, built on LinUCB's optimism, the Laplace approximation and Bayesian averaging; measured, with what was tried and lost, on the
page about auto. What it learns with depends on the rows: several members on dense ones (`auto.dense`), a regression beside naive Bayes on
sparse ones (`auto.sparse`). Either space describes a row in three blocks of K numbers:

    beliefs   p_i, the probability that class i is right
    hopes     u_i, the same with the score of i alone raised by one deviation (`hope`, computed for a decision)
    logits    the scores of the members, weighted by their shares: for explanations

The rule plays argmax u, and passes on the feedback (`onebit.auto`). If the mistakes show that the stream has changed, it restarts from scratch
(`auto.change_detector`). Deterministic except for ties: its logs can evaluate another learner only with an exploration floor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from onebit.auto import ABOUT, HEARD, LABEL, REWARD, RIGHT, change_detector
from onebit.auto.dense.space import AutoDense
from onebit.auto.sparse.space import AutoSparse
from onebit.contract.candidates import Labels, Narrowing, fewer_classes
from onebit.contract.choices import fill, greedy_label, share_greedy
from onebit.contract.description import ExplorationReport
from onebit.contract.rule import LEARNT, OWN, Choice, Composite, Contrast, Matrix, Rule, RuleInput, Vector
from onebit.spaces.layout import SpaceLayout

# The positions in the memory.
EXPLORED = OWN  # rounds in which another class was played than the one thought best
RECENTLY = EXPLORED + 1  # their share lately
EXPLORED_RIGHT = EXPLORED + 2  # how many of them were right
HOPED = EXPLORED + 3  # what was expected of the class thought best, summed over them
RESTARTS = EXPLORED + 4
DETECTOR = EXPLORED + 5

LATELY = 200.0  # rounds
NO_CHANCE = 1e-12  # what is added to both sides of odds


class Auto(NamedTuple):
    """Auto has no parameters."""

    classes: int
    all_classes: int = 0  # how many there are, also where few can be played


def prepare(params: Auto, options: Mapping[str, object]) -> tuple[Auto, tuple[float, ...]]:
    """Room for what it remembers."""
    first = (*(0.0,) * (DETECTOR - OWN), *change_detector.initial(params.classes))
    return params._replace(all_classes=params.classes), first


def decide(params: Auto, given: RuleInput) -> Choice:
    """Play what may be best."""
    classes, scores = params.classes, given.scores
    label = greedy_label(scores[classes : 2 * classes], classes, given.draws)
    greedy = greedy_label(scores[:classes], classes, given.draws)
    return Choice(label, greedy, 1.0, scores[greedy], 0.0)


def learn(params: Auto, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Hand on what was heard; 0 says that everything learnt so far is forgotten."""
    memory, right = given.memory, revealed == choice.label
    count_exploration(memory, choice, right)
    write_feedback(params, choice.label, right, given.reward, step)
    # By all classes: sets of different sizes would make one error look like several.
    if change_detector.detects(memory, DETECTOR, params.all_classes, not right):
        memory[RESTARTS] += 1.0
        return 0.0
    return 1.0


def count_exploration(memory: Vector, choice: Choice, right: bool) -> None:
    """Keep account of exploration, for `describe`."""
    explores = 1.0 if choice.label != choice.greedy else 0.0
    memory[EXPLORED] += explores
    memory[RECENTLY] += (explores - memory[RECENTLY]) / min(LATELY, memory[LEARNT] + 1.0)
    if explores == 1.0:
        memory[EXPLORED_RIGHT] += 1.0 if right else 0.0
        memory[HOPED] += choice.note


def write_feedback(params: Auto, label: int, right: bool, reward: float, step: Vector) -> None:
    """Write down what was heard for the space: of which classes, about which label, and what.

    A reward between right and wrong is what members are weighed by and regressions aim at; `right`, which is true with that probability, is what
    all else hears.
    """
    classes = params.classes
    fill(step, classes, ABOUT)
    step[classes + LABEL] = label
    step[classes + RIGHT] = 1.0 if right else 0.0
    step[classes + REWARD] = reward


def probabilities(params: Auto, given: RuleInput, out: Vector) -> None:
    """The tied share alike."""
    classes = params.classes
    share_greedy(given.scores[classes : 2 * classes], classes, 0.0, out)


def teach(params: Auto, given: RuleInput, label: int, step: Vector) -> float:
    """With the label known: as if it had been played."""
    write_feedback(params, label, True, 1.0, step)
    return 1.0


def gather(params: Auto, scores: Vector, candidates: Labels, out: Vector) -> None:
    """Beliefs and hopes, given that the right class is a candidate; of one candidate alone what is believed of it among all classes."""
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
            out[place], out[count + place] = among, raise_alike(among, belief, hope)


def raise_alike(among: float, belief: float, hope: float) -> float:
    """A belief among few classes, its odds raised as much as those among all are."""
    odds, before = hope * (1.0 - belief), belief * (1.0 - hope)
    if not odds > before:
        return among
    return among * odds / (among * odds + (1.0 - among) * before)


def scatter(params: Auto, step: Vector, candidates: Labels, out: Vector) -> None:
    """What was heard is about the candidates, and the label one of all classes."""
    classes, count = params.classes, candidates.shape[0]
    fill(out, classes, 0.0)
    for place in range(count):
        out[candidates[place]] = step[place]
    for index in range(HEARD):
        out[classes + index] = step[count + index]
    out[classes + LABEL] = candidates[int(step[count + LABEL])]


def belief(params: Auto, memory: Vector, scores: Matrix) -> Matrix:
    """The first block."""
    return scores[:, : params.classes].copy()


def contrast(params: Auto, memory: Vector, label: int, rival: int) -> Contrast:
    """The difference of two logits."""
    begin = 2 * params.classes
    return (begin + label, 1.0), (begin + rival, -1.0)


def surety(params: Auto, given: RuleInput, label: int) -> float:
    """The log-odds of what is believed of the label."""
    chance, rest = given.scores[label], 0.0
    for other in range(params.classes):
        if other != label:
            rest += given.scores[other]
    if params.classes == 1:
        rest = 1.0 - chance
    return math.log((chance + NO_CHANCE) / (rest + NO_CHANCE))


def describe(params: Auto, memory: Vector, space: Any) -> Mapping[str, Any]:
    """The members and their shares, the classes that were never right, and what exploring brought."""
    explored, report = int(memory[EXPLORED]), space.report()
    return {
        "composition": report,
        "never_right": space.never_right,
        "exploration": ExplorationReport(
            rounds=explored,
            recent=float(memory[RECENTLY]),
            right=int(memory[EXPLORED_RIGHT]),
            hoped=float(memory[HOPED]) / max(1, explored),
        ),
        "restarts": int(memory[RESTARTS]),
    }


def planned_space(params: Auto, form: Any, heads: int, planned: int, seed: int) -> tuple[partial[Any], SpaceLayout]:
    """What makes the members for rows of this form, and what their arrays will be."""
    rows = (heads, form.columns, form.dtype)
    if form.dense:
        return partial(AutoDense.planned, *rows, seed, planned), AutoDense.layout(*rows, planned)
    return partial(AutoSparse.planned, *rows), AutoSparse.layout(*rows)


RULE = Rule(
    name="auto",
    paper="this project",
    summary="the default, which needs no tuning: several weighted members, and restarts",
    record=Auto,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    prepare=prepare,
    composite=Composite(
        planned_space,
        describe,
        counts=((EXPLORED, LEARNT), (EXPLORED_RIGHT, EXPLORED), (RESTARTS, LEARNT)),
    ),
    belief=belief,
    contrast=contrast,
    takes_rewards=True,
    narrowing=Narrowing(fewer_classes(Auto), gather, scatter),
    surety=surety,
)
