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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.draws import DECIDING, LEARNING, Draws, seed_key
from onebit.contract.rule import RuleInput
from onebit.rules.pab import PAB, RULE
from onebit.theory.bound import Bound
from onebit.theory.constraints import Numbers
from onebit.theory.setting import Setting

PAPER = "Zhong et al. 2015"
ROUNDS = 100  # of each kind: greedy label right, greedy label wrong
DRAWS = 20_000  # in all rounds of a kind; more if the rule rarely explores,
LEAST_DRAWS = 400  # so that each label is drawn at least about this often
MOST_DRAWS = 400_000


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
    propensity = params.exploration / params.classes + (1.0 - params.exploration if truth == choice.greedy else 0.0)
    return Draw(first, whole - first, aim, divisor, propensity)


@dataclass(frozen=True)
class DrawMeans:
    """One value per draw of each quantity, averaged over the rounds of one kind."""

    along: list[float]  # <U1, PA-II>/||PA-II||^2
    second: list[float]  # the sum of U2, in units of rho/D
    product: list[float]  # <U1, U2>, in units of rho/D^2
    added: list[float]  # |U1 + U2|^2 - |U1|^2, in the same units times rho
    share: list[float]  # the same as a share of (1 - P)/P
    across: list[float]  # the largest part of U1 that is no multiple of PA-II, by D: one number


def measure_rounds(setting: Setting, rounds: NDArray[np.int64], draws: int) -> DrawMeans:
    """Draw `draws` times in every round, with the scores that the first run had in it."""
    params, trace, key = setting.params, setting.traces[0], seed_key(setting.seed)
    samples = np.empty((5, draws, len(rounds)))
    across = 0.0
    with np.errstate(over="ignore"):
        for place, index in enumerate(rounds.tolist()):
            scores, truth = trace.scores[index], int(setting.rounds.y[index])
            squared = float(setting.rounds.squared[index])
            for number in range(draws):
                draw = draw_step(params, scores, squared, truth, key, index * draws + number)
                length, D, weight = float(draw.aim @ draw.aim), draw.divisor, params.rho or 1.0
                along = float(draw.first @ draw.aim) / length if length else 0.0
                product = float(draw.first @ draw.second) * D**2
                added = 2.0 * product + float(draw.second @ draw.second) * D**2
                missed = (1.0 - draw.propensity) / draw.propensity
                second, share = float(draw.second.sum()) * D / weight, added / weight**2 / missed
                samples[:, number, place] = along, second, product / weight, added / weight**2, share
                across = max(across, D * float(np.abs(draw.first - along * draw.aim).max()))
    along, second, product, added, share = samples.mean(axis=2).tolist()
    return DrawMeans(along, second, product, added, share, [across])


def _claim(name: str, says: str, of: str, value: float = 0.0, **fields: Any) -> Bound:
    return Bound(name, PAPER, says, value, of=of, **{"setting": "in expectation", **fields})


SECOND_MOMENT = _claim(
    "Second moment",
    "E |U1 + U2|^2 - E |U1|^2 = (1 - P)/P ||x||^2/D^2 (rho^2 - 2 rho l)",
    "what U2 adds, as a share of that, greedy label right",
    1.0,
    equal=True,
)
CONCLUSION = _claim(
    "Conclusion",
    "U2 lowers the variance",
    "second moment that U2 adds, by rho^2/D^2, greedy label right",
    holds="false",
    why="where the greedy label is right, l is 0 and U2 adds (1 - P)/P ||x||^2 rho^2/D^2 to the second moment",
)
# Whether the greedy label is right or wrong in the rounds looked at, the quantity measured there, and what is stated of it.
STATEMENTS = (
    (
        "wrong",
        "along",
        _claim("Lemma 1", "E U1 = the step of PA-II", "share of the PA-II step in U1", 1.0, equal=True),
    ),
    (
        "wrong",
        "across",
        _claim(
            "Lemma 1 (across)",
            "U1 is a multiple of the step of PA-II",
            "largest part of U1 across it, by D",
            setting="every run",
        ),
    ),
    ("right", "second", _claim("Lemma 2", "E U2 = 0", "U2 by rho/D, greedy label right", equal=True)),
    ("wrong", "second", _claim("Lemma 2 (on mistakes)", "E U2 = 0", "U2 by rho/D, greedy label wrong", equal=True)),
    ("wrong", "product", _claim("Lemma 3", "E <U1, U2> <= 0", "<U1, U2> by rho/D^2, greedy label wrong")),
    ("right", "share", replace(SECOND_MOMENT, paper="onebit")),
    ("right", "added", CONCLUSION),
)


def bound_pab(setting: Setting) -> list[Bound]:
    """Return the lemmas and the paper's conclusion, each with its measurements or why there are none.

    U1 is 0 if the greedy label is right.
    """
    params, trace = setting.params, setting.traces[0]
    count = len(trace.greedy)
    nonzero = setting.rounds.squared[:count] > 0.0
    wrong = trace.greedy != setting.rounds.y[:count]
    rounds = {"wrong": _thin(np.flatnonzero(nonzero & wrong)), "right": _thin(np.flatnonzero(nonzero & ~wrong))}
    # So many show rare events: the true label if another is greedy, and another label if the true one is greedy.
    wanted = max(DRAWS, math.ceil(LEAST_DRAWS * params.classes / params.exploration))
    measured: dict[str, DrawMeans] = {}
    bounds = []
    for greedy, quantity, stated in STATEMENTS:
        looked_at, why = rounds[greedy], ""
        if not params.rho and not stated.name.startswith("Lemma 1"):
            why = "with rho = 0 there is no U2"
        elif not len(looked_at):
            why = f"in no round looked at was the greedy label {greedy}"
        elif wanted > MOST_DRAWS:
            why = f"so little exploration takes {wanted:,} draws, more than {MOST_DRAWS:,}"
        if why:
            bounds.append(replace(stated, left=[], applies=False, why=why))
            continue
        draws = math.ceil(wanted / len(looked_at))
        if greedy not in measured:
            measured[greedy] = measure_rounds(setting, looked_at, draws)
        assumptions = {"rounds": len(looked_at), "draws of each": draws}
        bounds.append(replace(stated, left=getattr(measured[greedy], quantity), assumptions=assumptions))
    return bounds


def _thin(rounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most `ROUNDS` of the rounds, evenly spaced."""
    return rounds[np.linspace(0, len(rounds) - 1, min(ROUNDS, len(rounds))).astype(np.int64)]
