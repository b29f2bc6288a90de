"""Calibration: turning the raw score of a label into the probability that it is right.

    z = u/(1 + |u|/5), u = (raw - centre)/spread    centre and spread are running means of raw and |raw - centre|
    p = sigmoid((b + a z)/sqrt(1 + pi v/8))         v = h'Vh, h = (1, z): uncertainty about b and a pulls p towards 1/2
    confidence = p + mean excess of the answers over p, recently and where the logit of p was similar

The first step is online Platt scaling, by Newton steps with a prior; the last is calibeating (Gupta and Ramdas,
"Online Platt Scaling with Calibeating", ICML 2023; Foster and Hart 2023), with cells that overlap and are shrunk. A
learner improves over time, so all of this forgets: with every answer the weight of earlier ones is multiplied by 1
- 1/W, where W is a fifth of the answers so far, at least 100 and at most 1,000.

To bound the risk, answers are also counted by confidence, in levels of half an octave of 1 - confidence, and these
counts are never forgotten.

The functions work on a vector, the `state`, which is kept beside a model. It changes only by answers, in the order of learning. The page
about confidence has the formulas and their guarantees.
"""

from __future__ import annotations

import math

from onebit.contract.confidence_sequence import DELTA, is_below
from onebit.contract.rule import Vector

# Positions in the state.
ANSWERS, WEIGHT, CENTRE, SPREAD, BIAS, SLOPE, BIAS_VARIANCE, COVARIANCE, SLOPE_VARIANCE = range(9)
CELLS = 16  # for the logit of p
LEVELS = 19  # for counts by confidence
CELL_WEIGHTS = 9
CELL_RESIDUALS = CELL_WEIGHTS + CELLS
LEVEL_ANSWERS = CELL_RESIDUALS + CELLS
LEVEL_WRONG = LEVEL_ANSWERS + LEVELS
SURE_REQUESTS = LEVEL_WRONG + LEVELS  # answers to decisions with a requested confidence
SURE, SURE_WRONG = SURE_REQUESTS + 1, SURE_REQUESTS + 2  # sure decisions among them, and the sum of their errors
NUMBERS = SURE_REQUESTS + 3

SHARE = 0.2  # the memory's length as a share of the answers so far
SHORTEST, LONGEST = 100.0, 1000.0
PRIOR = 1.0  # initial variance of bias and slope, and the maximum that forgetting restores
CORRELATION = 0.999  # maximum correlation of bias and slope, so that forgetting cannot make their covariance singular
LEAST_EVIDENCE = 1e-3  # minimum weight of an answer for bias and slope, however sure it was
WIDEST = 6.0  # logit of the outermost cells
SHRINKAGE = 5.0  # prior count of answers in each cell, all as expected
LEAST = 1e-4  # confidence stays this far from 0 and 1
FURTHEST = 1e100  # raw scores are clipped to this magnitude
TAMING = 0.2  # limits z to -5 .. 5
MOST = 2.0**53  # upper limit of counts
SLACK = 1e-6  # tolerance for rounding
OUTLIER = 10.0  # raw scores are clipped to this many spreads from the centre, so that outliers cannot hide the rest


def initial_state() -> tuple[float, ...]:
    """Return the state before any answers."""
    return 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, PRIOR, 0.0, PRIOR, *(0.0,) * (NUMBERS - CELL_WEIGHTS)


def find_flaw(state: Vector) -> str:
    """Return what is wrong with a state from a file; an empty string if it is plausible."""
    counts = state[CELL_WEIGHTS:CELL_RESIDUALS], state[LEVEL_ANSWERS:], state[[ANSWERS, WEIGHT]]
    if not all((part >= 0.0).all() and (part < MOST).all() for part in counts):
        return "has a count that is negative or too large"
    variances = state[[BIAS_VARIANCE, SLOPE_VARIANCE]]
    if not ((variances >= 0.0) & (variances <= PRIOR)).all() or state[COVARIANCE] ** 2 > variances.prod():
        return "has an invalid covariance of bias and slope"
    if not (abs(state[[CENTRE, SPREAD, BIAS, SLOPE]]) <= FURTHEST).all() or not min(state[SPREAD], state[SLOPE]) >= 0.0:
        return "has a centre, spread, bias or slope out of range"
    if not (abs(state[CELL_RESIDUALS:LEVEL_ANSWERS]) <= state[CELL_WEIGHTS:CELL_RESIDUALS] + SLACK).all():
        return "has a cell whose residual is larger than its weight"
    return ""


def standardise_score(state: Vector, raw: float) -> float:
    """Return z: a raw score relative to recent ones, between -5 and 5."""
    distance = min(FURTHEST, max(-FURTHEST, raw)) - state[CENTRE]
    return float(distance / (state[SPREAD] + TAMING * abs(distance))) if distance != 0.0 else 0.0


def logit_variance(state: Vector, z: float) -> float:
    """Return v: the variance of b + a z."""
    return float(state[BIAS_VARIANCE] + z * (2.0 * state[COVARIANCE] + z * state[SLOPE_VARIANCE]))


def moderate_logit(state: Vector, z: float) -> float:
    """Return the logit of p, clipped to the range of the cells."""
    logit = (state[BIAS] + state[SLOPE] * z) / math.sqrt(1.0 + math.pi / 8.0 * logit_variance(state, z))
    return min(WIDEST, max(-WIDEST, float(logit)))


def sigmoid(logit: float) -> float:
    """Return the probability with this logit."""
    return 1.0 / (1.0 + math.exp(-min(500.0, max(-500.0, logit))))


def cell_position(logit: float) -> float:
    """Return the position of a logit on the scale of cell indices, usually between two cells."""
    return (logit + WIDEST) / (2.0 * WIDEST) * (CELLS - 1)


def cell_correction(state: Vector, cell: int) -> float:
    """Return by how much the share of right answers of a cell exceeds the expected share."""
    return float(state[CELL_RESIDUALS + cell] / (state[CELL_WEIGHTS + cell] + SHRINKAGE))


def confidence(state: Vector, raw: float) -> float:
    """Return the probability that a label with this raw score is right; NaN before any answers."""
    if state[ANSWERS] == 0.0:
        return math.nan
    logit = moderate_logit(state, standardise_score(state, raw))
    position = cell_position(logit)
    cell = min(CELLS - 2, int(position))
    share = position - cell
    corrected = sigmoid(logit) + (1.0 - share) * cell_correction(state, cell) + share * cell_correction(state, cell + 1)
    return min(1.0 - LEAST, max(LEAST, corrected))


def update(state: Vector, raw: float, confidence: float, reward: float) -> None:
    """Update the state with the answer to one decision.

    `raw` and `confidence` are those at the time of the decision; `reward` is 1 for right and 0 for wrong. If `raw` is
    NaN, as for decisions of another system, nothing is learnt.
    """
    if math.isnan(raw):
        return
    state[ANSWERS] += 1.0
    keep = 1.0 - 1.0 / min(LONGEST, max(SHORTEST, SHARE * state[ANSWERS]))
    z = standardise_score(state, raw) if state[ANSWERS] > 1.0 else 0.0  # the first score is the centre
    correct_cells(state, z, reward, keep)
    newton_step(state, z, reward, keep)
    update_scale(state, raw, keep)
    if not math.isnan(confidence):
        level = level_of(confidence)
        state[LEVEL_ANSWERS + level] += 1.0
        state[LEVEL_WRONG + level] += 1.0 - reward


def count_answer(state: Vector, raw: float, confidence: float, threshold: float, reward: float) -> None:
    """Update the state with an answer, and count it if a confidence `threshold` was requested.

    `threshold` is the confidence from which the decision counts as sure; NaN if not requested.
    """
    update(state, raw, confidence, reward)
    if threshold == threshold:  # noqa: PLR0124 -- unless it is NaN
        state[SURE_REQUESTS] += 1.0
        if confidence >= threshold:
            state[SURE] += 1.0
            state[SURE_WRONG] += 1.0 - reward


def correct_cells(state: Vector, z: float, reward: float, keep: float) -> None:
    """Add the answer's residual to the two nearest cells."""
    for index in range(CELL_WEIGHTS, CELL_WEIGHTS + 2 * CELLS):
        state[index] *= keep
    logit = moderate_logit(state, z)
    position = cell_position(logit)
    cell = min(CELLS - 2, int(position))
    share, residual = position - cell, reward - sigmoid(logit)
    state[CELL_WEIGHTS + cell] += 1.0 - share
    state[CELL_WEIGHTS + cell + 1] += share
    state[CELL_RESIDUALS + cell] += (1.0 - share) * residual
    state[CELL_RESIDUALS + cell + 1] += share * residual


def newton_step(state: Vector, z: float, reward: float, keep: float) -> None:
    """Update bias and slope; a negative slope, by which higher scores are right less often, becomes 0."""
    first = min(PRIOR, state[BIAS_VARIANCE] / keep)
    last = min(PRIOR, state[SLOPE_VARIANCE] / keep)
    most = CORRELATION * math.sqrt(first * last)
    middle = min(most, max(-most, state[COVARIANCE] / keep))
    bias_gain, slope_gain = first + middle * z, middle + last * z
    expected = sigmoid(state[BIAS] + state[SLOPE] * z)
    evidence = max(LEAST_EVIDENCE, expected * (1.0 - expected))
    total = 1.0 + evidence * (bias_gain + z * slope_gain)
    step, shrink = (reward - expected) / total, evidence / total
    state[BIAS] += step * bias_gain
    state[SLOPE] = max(0.0, state[SLOPE] + step * slope_gain)
    state[BIAS_VARIANCE] = first - shrink * bias_gain * bias_gain
    state[COVARIANCE] = middle - shrink * bias_gain * slope_gain
    state[SLOPE_VARIANCE] = last - shrink * slope_gain * slope_gain


def update_scale(state: Vector, raw: float, keep: float) -> None:
    """Update centre and spread; the first answer initialises both."""
    bounded = min(FURTHEST, max(-FURTHEST, raw))
    distance = bounded - state[CENTRE]
    if state[ANSWERS] > 1.0 and state[SPREAD] > 0.0:
        distance = min(OUTLIER * state[SPREAD], max(-OUTLIER * state[SPREAD], distance))
    state[WEIGHT] = keep * state[WEIGHT] + 1.0
    share = 1.0 / state[WEIGHT]
    state[SPREAD] = (1.0 - share) * state[SPREAD] + share * abs(distance)
    state[CENTRE] += share * distance


def level_of(confidence: float) -> int:
    """Return the level of a confidence: the number of half octaves of 1 - confidence."""
    return min(LEVELS - 1, int(-2.0 * math.log2(max(LEAST, 1.0 - max(0.0, confidence)))))


def level_start(level: int) -> float:
    """Return the lowest confidence of a level."""
    return 1.0 - math.pow(2.0, -0.5 * level)


def threshold(state: Vector, risk: float) -> float:
    """Return the confidence from which decisions are sure, so that at most `risk` of them are wrong.

    Return infinity if there is none.

    It is the lowest start of a level from which on the mean error of all answered decisions is below the risk. With a
    probability of at least 1 - DELTA that is so for every threshold ever returned, since each of the LEVELS is held to
    DELTA/LEVELS. The error is the mean, over these decisions, of the probability of being wrong, given all that came
    before each. Those that were answered as sure are the later part of them: if nothing changes, the risk holds for
    them too; after a change, only in the long run (`confidence_sequence.overshoot`).
    """
    answers, wrong = 0.0, 0.0
    for level in range(LEVELS):
        answers += state[LEVEL_ANSWERS + level]
        wrong += state[LEVEL_WRONG + level]
    for level in range(LEVELS):
        if is_below(answers, wrong, risk, DELTA / LEVELS):
            return level_start(level)
        answers -= state[LEVEL_ANSWERS + level]
        wrong -= state[LEVEL_WRONG + level]
    return math.inf
