"""Zhong, Daucé and Ralaivola 2015: three lemmas on one step of PAB, measured by repeated draws.

The step is U1 + U2, in units of x: U1 = 1[right]/P times the step of PA-II from the greedy label to the one played, U2 = rho
(1[right] - P)/(P D) on the greedy label, with D = 2 ||x||^2 + 1/(2C). With l the loss of the greedy label and P the chance of the true one:

    Lemma 1   E U1 = the step of PA-II, l/D up for the true label and down for the greedy one
    Lemma 2   E U2 = 0
    Lemma 3   E <U1, U2> <= 0

The paper concludes that U2 lowers the variance. The second moment changes by exactly (1 - P)/P ||x||^2/D^2 (rho^2 - 2 rho l), which grows
if the greedy label is right: then l = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.draws import DECIDING, LEARNING, Draws, seed_key
from onebit.contract.rule import Choice, RuleInput
from onebit.rules.pab import PAB, RULE
from onebit.theory.bound import Bound
from onebit.theory.constraints import Numbers
from onebit.theory.setting import Setting

PAPER = "Zhong et al. 2015"
ROUNDS = 100  # of each sort: greedy label right, greedy label wrong
DRAWS = 20_000  # in all rounds of a sort; more if the rule rarely explores,
FOUND = 400  # so that each label is drawn at least about this often
MOST_DRAWS = 400_000
FALSE = "where the greedy label is right, l is 0 and U2 adds (1 - P)/P ||x||^2 rho^2/D^2 to the second moment"


@dataclass(frozen=True)
class Draw:
    """One draw in one round: the two parts of the step and that of PA-II, each with a value per class."""

    first: Numbers
    second: Numbers
    aim: Numbers
    divisor: float
    propensity: float  # probability of playing the true label


def draw_step(params: PAB, scores: Numbers, squared: float, truth: int, key: np.uint64, number: int) -> Draw:
    """Let the rule draw a label and step once; return the parts of the step."""
    work, memory = np.zeros((2, params.classes)), np.zeros(3)
    choice = RULE.decide(params, RuleInput(memory, scores, squared, Draws(key, number, DECIDING), work))
    first, whole, aim = (np.zeros(params.classes) for _ in range(3))
    right = choice.label == truth
    given = RuleInput(memory, scores, squared, Draws(key, number, LEARNING), work, reward=float(right))
    revealed = truth if right else -1
    RULE.learn(params._replace(rho=0.0), given, choice, revealed, first)
    RULE.learn(params, given, choice, revealed, whole)
    divisor = 2.0 * squared + 0.5 / params.aggressiveness
    if choice.greedy != truth:
        size = (1.0 + scores[choice.greedy] - scores[truth]) / divisor
        aim[truth], aim[choice.greedy] = size, -size
    return Draw(first, whole - first, aim, divisor, chance_of(params, choice, truth))


def chance_of(params: PAB, choice: Choice, label: int) -> float:
    """Return the probability of playing a label, given the greedy one."""
    return params.exploration / params.classes + (1.0 - params.exploration if label == choice.greedy else 0.0)


@dataclass(frozen=True)
class Measured:
    """One value per draw of each quantity, averaged over rounds of one sort."""

    along: list[float]  # <U1, PA-II>/||PA-II||^2
    second: list[float]  # the sum of U2, in units of rho/D
    product: list[float]  # <U1, U2>, in units of rho/D^2
    added: list[float]  # |U1 + U2|^2 - |U1|^2, in the same units times rho
    share: list[float]  # the same as a share of (1 - P)/P
    across: list[float]  # the largest part of U1 that is no multiple of PA-II, by D: one number


def measure_rounds(setting: Setting, rounds: NDArray[np.int64], draws: int) -> Measured:
    """Draw in every round this many times, with the scores that the first run had in it."""
    params, trace, key = setting.record, setting.traces[0], seed_key(setting.seed)
    found: list[list[list[float]]] = [[[] for _ in range(draws)] for _ in range(5)]
    across = 0.0
    with np.errstate(over="ignore"):
        for index in rounds.tolist():
            scores, truth = trace.scores[index], int(setting.rounds.y[index])
            squared = float(setting.rounds.squared[index])
            for number in range(draws):
                one = draw_step(params, scores, squared, truth, key, index * draws + number)
                length, D, weight = float(one.aim @ one.aim), one.divisor, params.rho or 1.0
                along = float(one.first @ one.aim) / length if length else 0.0
                product = float(one.first @ one.second) * D**2
                added = 2.0 * product + float(one.second @ one.second) * D**2
                missed = (1.0 - one.propensity) / one.propensity
                values = (along, float(one.second.sum()) * D / weight, product / weight, added / weight**2)
                for kept, value in zip(found, (*values, added / weight**2 / missed), strict=True):
                    kept[number].append(value)
                across = max(across, D * float(np.abs(one.first - along * one.aim).max()))
    means = [[float(np.mean(values)) for values in kept] for kept in found]
    return Measured(means[0], means[1], means[2], means[3], means[4], [across])


def pab(setting: Setting) -> list[Bound]:
    """Return the three lemmas and the paper's conclusion; U1 is 0 if the greedy label is right."""
    trace = setting.traces[0]
    count = len(trace.greedy)
    there = setting.rounds.squared[:count] > 0.0
    wrong = trace.greedy != setting.rounds.y[:count]
    missed = _Sort(setting, np.flatnonzero(there & wrong), "wrong")
    met = _Sort(setting, np.flatnonzero(there & ~wrong), "right")
    return [
        missed.bound("Lemma 1", "along"),
        missed.bound("Lemma 1 (across)", "across"),
        met.bound("Lemma 2", "second"),
        missed.bound("Lemma 2 (on mistakes)", "second"),
        missed.bound("Lemma 3", "product"),
        met.bound("Second moment", "share"),
        met.bound("Conclusion", "added"),
    ]


class Statement(NamedTuple):
    """A statement, what is measured for it, and the value that it equals or is at most.

    `equal` says which of the two.
    """

    says: str
    of: str
    value: float
    equal: bool


STATEMENTS = {
    "Lemma 1": Statement("E U1 = the step of PA-II", "share of the PA-II step in U1", 1.0, True),
    "Lemma 1 (across)": Statement(
        "U1 is a multiple of the step of PA-II", "largest part of U1 across it, by D", 0.0, False
    ),
    "Lemma 2": Statement("E U2 = 0", "U2 by rho/D, greedy label right", 0.0, True),
    "Lemma 2 (on mistakes)": Statement("E U2 = 0", "U2 by rho/D, greedy label wrong", 0.0, True),
    "Lemma 3": Statement("E <U1, U2> <= 0", "<U1, U2> by rho/D^2, greedy label wrong", 0.0, False),
    "Second moment": Statement(
        "E |U1 + U2|^2 - E |U1|^2 = (1 - P)/P ||x||^2/D^2 (rho^2 - 2 rho l)",
        "what U2 adds, as a share of that, greedy label right",
        1.0,
        True,
    ),
    "Conclusion": Statement(
        "U2 lowers the variance", "second moment that U2 adds, by rho^2/D^2, greedy label right", 0.0, False
    ),
}


@dataclass(frozen=True)
class _Sort:
    """The rounds in which the greedy label is wrong, or right, and draws in some of them."""

    setting: Setting
    found: NDArray[np.int64]
    greedy: str

    @property
    def wanted(self) -> int:
        """The number of draws that shows rare events often enough.

        These are the true label if another is greedy, and another label if the true one is greedy.
        """
        params: PAB = self.setting.record
        return max(DRAWS, math.ceil(FOUND * params.classes / params.exploration))

    @cached_property
    def rounds(self) -> NDArray[np.int64]:
        """Some of the rounds, evenly spaced."""
        return self.found[np.linspace(0, len(self.found) - 1, min(ROUNDS, len(self.found))).astype(np.int64)]

    @cached_property
    def draws(self) -> int:
        return math.ceil(self.wanted / len(self.rounds))

    @cached_property
    def measured(self) -> Measured:
        return measure_rounds(self.setting, self.rounds, self.draws)

    def bound(self, name: str, kind: str) -> Bound:
        """Return a statement with what was measured for it."""
        if not self.setting.record.rho and not name.startswith("Lemma 1"):
            return _unmeasured(name, "with rho = 0 there is no U2")
        if not len(self.found):
            return _unmeasured(name, f"in no round looked at was the greedy label {self.greedy}")
        if self.wanted > MOST_DRAWS:
            return _unmeasured(name, f"so little exploration takes {self.wanted:,} draws, more than {MOST_DRAWS:,}")
        left = tuple(getattr(self.measured, kind))
        return replace(_stated(name), left=left, assumptions={"rounds": len(self.rounds), "draws of each": self.draws})


def _unmeasured(name: str, why: str) -> Bound:
    return replace(_stated(name), left=(), applies=False, why=why)


def _stated(name: str) -> Bound:
    says, of, value, equal = STATEMENTS[name]
    return Bound(
        name,
        "onebit" if name == "Second moment" else PAPER,
        says,
        value,
        holds="false" if name == "Conclusion" else "proved",
        why=FALSE if name == "Conclusion" else "",
        setting="every run" if name == "Lemma 1 (across)" else "in expectation",
        of=of,
        equal=equal,
    )
