"""Gaptron: explore as much as the gap between the surrogate loss and the zero-one loss pays for.

van der Hoeven, "Exploiting the Surrogate Gap in Online Multiclass Classification", NeurIPS 2020, Algorithm 1, in both settings.
Promise: expected mistakes <= sum of surrogate losses of any U + ||U||^2/(2 rate) (full information), + O(K sqrt(T)) (bandit).

    ystar = argmax s,   mstar = its lead,   q = max(gap(s), gamma)
    play ystar with probability 1 - q, and any label with probability q;   P = the probability of what was played
    v = 1 (full information)  |  1[right]/P (bandit)
    W -= rate v grad loss(W),   then W is scaled back to ||W|| <= radius where one is given

    loss       gap                                        rate in theory, full information
    logistic   1 - max softmax if that is >= 1/2, else 1  ln 2/(2 K X^2)
    hinge      1 - mstar if mstar <= 1/K, else 0          (1 - 1/K)/(K X^2)
    smooth     (1 - min(1, mstar))^2                      1/(4 K X^2)

With theory-set constants (`horizon` T, `radius` D, `max_norm` X) the bandit version explores nearly always at T = 1e5, and its
bound mostly exceeds T; give `rate` and `exploration` for practice. Time and memory O(K d).

Departures: the printed hinge gap is negative for mstar > 1 and is clipped at 0; the smooth hinge is [1-m]_+^2; gamma of Theorem
6 has a 2 in place of the 4; Theorem 4 only says that a gamma exists, and ours is derived in the same way as Theorem 5's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, NamedTuple

from onebit.contract.choices import (
    explored_label,
    explored_propensity,
    fill,
    greedy_label,
    highest,
    rival,
    share_greedy,
    softmax,
)
from onebit.contract.parameters import OneOf, Real
from onebit.contract.rule import NORM, Choice, Rule, RuleInput, Vector
from onebit.errors import InputError


class FeedbackSetting(IntEnum):
    """What is revealed to the learner."""

    BANDIT = 0
    FULL = 1


class Loss(IntEnum):
    """The surrogate of the zero-one loss."""

    LOGISTIC = 0
    HINGE = 1
    SMOOTH = 2


class Gaptron(NamedTuple):
    classes: int
    setting: Annotated[int, OneOf(FeedbackSetting, "bandit feedback, or full information")] = FeedbackSetting.BANDIT
    loss: Annotated[int, OneOf(Loss, "the surrogate loss")] = Loss.HINGE
    rate: Annotated[float, Real("(0, 1e9]", "eta; set by theory if not given", True)] = math.nan
    exploration: Annotated[float, Real("[0, 1]", "gamma, the least exploration; set by theory if not given", True)] = (
        math.nan
    )
    radius: Annotated[
        float, Real("(0, inf)", "D, the radius of the ball that W is kept in; no ball if not given", True)
    ] = math.nan
    max_norm: Annotated[float, Real("(0, inf)", "X, the longest x; longer ones are refused", True)] = math.nan
    horizon: Annotated[float, Real("[1, inf)", "T, the number of rounds that theory plans for", True)] = math.nan


def prepare(params: Gaptron, options: Mapping[str, object]) -> tuple[Gaptron, tuple[float, ...]]:
    """Set rate and exploration to the theoretical values where they are not given."""
    full_information = has_full_information(params)
    if full_information and math.isnan(params.exploration):
        params = params._replace(exploration=0.0)
    if math.isnan(params.rate) or math.isnan(params.exploration):
        needed = ("max_norm",) if full_information else ("horizon", "radius", "max_norm")
        missing = [name for name in needed if options[name] is None]
        if missing:
            instead = "rate" if full_information else "rate and exploration"
            raise InputError(f"Gaptron lacks {' and '.join(missing)}: give {', '.join(needed)}, or {instead}")
        rate, exploration = full_constants(params) if full_information else bandit_constants(params)
        params = params._replace(
            rate=rate if math.isnan(params.rate) else params.rate,
            exploration=exploration if math.isnan(params.exploration) else params.exploration,
        )
    return params, ()


def plan(options: Mapping[str, object], rounds: int, longest: float) -> Mapping[str, object]:
    """Return the options of theory that the run determines; the radius, which is unknown, is set to 1."""
    if options.get("rate") is not None and options.get("exploration") is not None:
        return {}
    known = {"horizon": rounds, "max_norm": longest}
    if options.get("setting") != "full":
        known["radius"] = 1.0
    return {name: value for name, value in known.items() if options.get(name) is None}


def full_constants(params: Gaptron) -> tuple[float, float]:
    """Return the rate and exploration of Theorems 1-3."""
    squared = params.classes * params.max_norm**2
    if params.loss == Loss.LOGISTIC:
        return math.log(2.0) / (2.0 * squared), 0.0
    if params.loss == Loss.HINGE:
        return (1.0 - 1.0 / params.classes) / squared, 0.0
    return 1.0 / (4.0 * squared), 0.0


def bandit_constants(params: Gaptron) -> tuple[float, float]:
    """Return the rate and exploration of Theorems 4-6."""
    count, horizon = float(params.classes), params.horizon
    square = (count * params.max_norm) ** 2  # K^2 X^2
    reach = square * params.radius**2  # K^2 X^2 D^2
    if params.loss == Loss.HINGE:
        spread = 1.0 - 1.0 / count
        exploration = min(1.0, math.sqrt(count * reach / (2.0 * spread * (count - 1.0) * horizon)))
        return exploration * spread / square, exploration
    if params.loss == Loss.SMOOTH:
        exploration = min(1.0, math.sqrt(2.0 * reach / horizon))
        return exploration / (4.0 * square), exploration
    cost = reach / math.log(2.0)
    longest_lead = params.radius * params.max_norm * math.sqrt(count / (count - 1.0))
    least_gap = (count - 1.0) / (count - 1.0 + math.exp(min(700.0, longest_lead)))  # the smallest gap inside the ball
    tried = min(1.0, math.sqrt(cost * count / ((count - 1.0) * horizon)))
    pays = cost / max(tried, least_gap) + tried * (count - 1.0) * horizon / count < cost / least_gap
    exploration = tried if pays else 0.0
    return max(exploration, least_gap) * math.log(2.0) / (2.0 * square), exploration


def largest_norm(params: Gaptron) -> float:
    """Return the largest allowed ||x||^2."""
    return math.inf if math.isnan(params.max_norm) else params.max_norm * params.max_norm


def has_full_information(params: Gaptron) -> bool:
    """Return True if the label is always revealed."""
    return params.setting == FeedbackSetting.FULL


def lead(scores: Vector, classes: int, label: int) -> float:
    """Return how far a label's score is ahead of its best rival's; 0 for a tie up to rounding."""
    return max(0.0, float(scores[label] - scores[rival(scores, classes, label)]))


def gap(params: Gaptron, scores: Vector, ahead: float, work: Vector) -> float:
    """Return how much exploration the surrogate loss pays for if the greedy label leads by `ahead`."""
    if params.loss == Loss.HINGE:
        return max(0.0, 1.0 - ahead) if ahead <= 1.0 / params.classes else 0.0
    if params.loss == Loss.SMOOTH:
        return (1.0 - min(1.0, ahead)) ** 2
    softmax(scores, params.classes, work)
    best = highest(work, params.classes)
    other_mass = 0.0  # 1 - the largest, by summing the small numbers instead of subtracting
    for label in range(params.classes):
        if label != best:
            other_mass += work[label]
    return other_mass if work[best] >= 0.5 else 1.0


def decide(params: Gaptron, given: RuleInput) -> Choice:
    """Play the greedy label, or explore with the probability that the gap gives."""
    scores = given.scores
    greedy = greedy_label(scores, params.classes, given.draws)
    ahead = lead(scores, params.classes, greedy)
    mixed = max(gap(params, scores, ahead, given.work[0]), params.exploration)
    label = explored_label(greedy, params.classes, mixed, given.draws)
    return Choice(label, greedy, explored_propensity(label, greedy, params.classes, mixed), ahead, 0.0)


def gradient(params: Gaptron, scores: Vector, label: int, greedy: int, ahead: float, rate: float, step: Vector) -> None:
    """Write -rate times the gradient of the surrogate loss at this label.

    `greedy` and its lead `ahead` are those of the decision.
    """
    if params.loss == Loss.LOGISTIC:
        softmax(scores, params.classes, step)
        for head in range(params.classes):
            step[head] *= -rate / math.log(2.0)
        step[label] += rate / math.log(2.0)
        return
    fill(step, params.classes, 0.0)
    rival_label = rival(scores, params.classes, label)
    margin = scores[label] - scores[rival_label]
    if params.loss == Loss.HINGE:
        settled = greedy == label and ahead > 1.0 / params.classes
        slope = 0.0 if settled or margin >= 1.0 else 1.0
    else:
        slope = 2.0 if margin <= 0.0 else 2.0 * max(0.0, 1.0 - margin)
    step[label] = rate * slope
    step[rival_label] = -rate * slope


def project(params: Gaptron, given: RuleInput, step: Vector) -> float:
    """Return the factor that brings W + step (x) x back into the ball; apply it to the step."""
    if math.isnan(params.radius):
        return 1.0
    after = given.memory[NORM]
    for head in range(params.classes):
        after += step[head] * (2.0 * given.scores[head] + step[head] * given.sq_norm)
    if after <= params.radius * params.radius:
        return 1.0
    factor = params.radius / math.sqrt(after)
    for head in range(params.classes):
        step[head] *= factor
    return factor


def learn(params: Gaptron, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Take a gradient step; in the bandit setting only when right, divided by the label's probability."""
    rate = params.rate
    if params.setting == FeedbackSetting.BANDIT:
        if revealed != choice.label:
            fill(step, params.classes, 0.0)
            return 1.0
        rate /= choice.propensity
    gradient(params, given.scores, revealed, choice.greedy, choice.note, rate, step)
    return project(params, given, step)


def probabilities(params: Gaptron, given: RuleInput, out: Vector) -> None:
    """Write the greedy label's probability, shared among ties, with exploration spread over all labels."""
    scores = given.scores
    best = highest(scores, params.classes)
    mixed = max(gap(params, scores, lead(scores, params.classes, best), given.work[0]), params.exploration)
    share_greedy(scores, params.classes, mixed, out)


def teach(params: Gaptron, given: RuleInput, label: int, step: Vector) -> float:
    """Take the full-information step, as the label is known."""
    scores = given.scores
    greedy = greedy_label(scores, params.classes, given.draws)
    gradient(params, scores, label, greedy, lead(scores, params.classes, greedy), params.rate, step)
    return project(params, given, step)


RULE = Rule(
    name="gaptron",
    paper="van der Hoeven 2020",
    summary="Explores as much as the surrogate gap pays for",
    record=Gaptron,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    prepare=prepare,
    plan=plan,
    full_information=has_full_information,
    keeps_norm=True,
    largest_norm=largest_norm,
    examples=(
        {"rate": 0.1, "exploration": 0.05},
        {"loss": "logistic", "horizon": 1000, "radius": 1.5, "max_norm": 10.0},
        {"loss": "smooth", "rate": 0.02, "exploration": 0.1, "radius": 1.0},
        {"setting": "full", "loss": "logistic", "max_norm": 10.0},
        {"setting": "full", "loss": "smooth", "max_norm": 10.0, "radius": 0.5},
    ),
)
