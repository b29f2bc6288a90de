"""The bandit perceptron for strongly separable classes: it learns only from answers that surprise it.

Beygelzimer, Pal, Szorenyi, Thiruvenkatachari, Wei and Zhang, "Bandit Multiclass Linear Classification: Efficient Algorithms for
the Separable Case", ICML 2019; kernelised by Prompak 2017. Promise: strongly separable with margin g and ||x|| <= R gives at
most (K-1) floor(4 R^2/g^2) expected mistakes.

    S = {i : s_i >= 0}
    S empty:      play any label;        right: w_played += x;   wrong: nothing
    S not empty:  play a member of S;    wrong: w_played -= x;   right: nothing

Nothing to tune. The analysis allows any member; the largest score made the fewest mistakes in every setting tried.
Time and memory O(K d). Only for data that are strongly separable (in a kernel's space, say): SynSep10 86 %.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from onebit.contract.choices import count_at_least, fill, greedy_label, label_at_least, share_greedy, uniform_label
from onebit.contract.parameters import OneOf
from onebit.contract.rule import Choice, Rule, RuleInput, Vector


class Choose(IntEnum):
    """The rule by which a member of S is chosen."""

    ARGMAX = 0
    RANDOM = 1
    FIRST = 2


class BanditPerceptron(NamedTuple):
    classes: int
    choose: Annotated[int, OneOf(Choose, "which of the labels with a score of at least 0 is played")] = Choose.ARGMAX


def decide(params: BanditPerceptron, given: RuleInput) -> Choice:
    """Play a label with a nonnegative score, or any label if there is none."""
    scores, draws = given.scores, given.draws
    greedy = greedy_label(scores, params.classes, draws)
    positive = count_at_least(scores, params.classes, 0.0)
    if positive == 0:
        return Choice(uniform_label(params.classes, draws), greedy, 1.0 / params.classes, 1.0, 0.0)
    if params.choose == Choose.RANDOM:
        label = label_at_least(scores, params.classes, 0.0, uniform_label(positive, draws))
        return Choice(label, greedy, 1.0 / positive, 0.0, 0.0)
    if params.choose == Choose.FIRST:
        return Choice(label_at_least(scores, params.classes, 0.0, 0), greedy, 1.0, 0.0, 0.0)
    return Choice(greedy, greedy, 1.0, 0.0, 0.0)


def learn(params: BanditPerceptron, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Learn from a guess that was right or a positive score that was wrong, and from nothing else."""
    fill(step, params.classes, 0.0)
    guessed = choice.note == 1.0
    right = revealed == choice.label
    if guessed and right:
        step[choice.label] = 1.0
    elif not guessed and not right:
        step[choice.label] = -1.0
    return 1.0


def probabilities(params: BanditPerceptron, given: RuleInput, out: Vector) -> None:
    """Write the probabilities: uniform over all labels if S is empty, else over what `choose` allows."""
    scores = given.scores
    positive = count_at_least(scores, params.classes, 0.0)
    if positive == 0:
        fill(out, params.classes, 1.0 / params.classes)
        return
    fill(out, params.classes, 0.0)
    if params.choose == Choose.RANDOM:
        for label in range(params.classes):
            if scores[label] >= 0.0:
                out[label] = 1.0 / positive
    elif params.choose == Choose.FIRST:
        out[label_at_least(scores, params.classes, 0.0, 0)] = 1.0
    else:
        share_greedy(scores, params.classes, 0.0, out)


RULE = Rule(
    name="bandit-perceptron",
    paper="Beygelzimer et al. 2019; Prompak 2017",
    summary="Guesses when no class says yes; for strongly separable classes",
    record=BanditPerceptron,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    stores_rarely=True,
    examples=({}, {"choose": "random"}, {"choose": "first"}),
)
