"""How probably a label is right: what a rule says of it, its `raw` score, is turned into a probability by the answers heard so far.

    z = u/(1 + |u|/5), u = (raw - centre)/spread    centre and spread are running means of raw and |raw - centre|
    p = sigmoid((b + a z)/sqrt(1 + pi v/8))         v = h'Vh, h = (1, z): what is not known of b and a pulls p towards 1/2
    confidence = p + what answers were above p, lately and where the logit of p was about this

The first is online Platt scaling, by Newton's steps with a prior; the last is calibeating (Gupta and Ramdas, "Online Platt Scaling with
Calibeating", ICML 2023; Foster and Hart 2023), with cells that overlap and are shrunk. A learner gets better, so all of this forgets: with
every answer what earlier ones count is multiplied by 1 - 1/W, W a fifth of the answers heard, at least 100 and at most 1,000.

For a promise of risk the answers are also counted by confidence, in cells of half an octave of 1 - confidence, and never forgotten.

Plain functions of a vector, the `state`, which is kept beside a model. It moves by the answers in the order of learning, and by nothing
else. The page about confidence has the formulas, and what they keep.
"""

from __future__ import annotations

import math

from onebit.contract.confidence_sequence import DELTA, is_below
from onebit.contract.rule import Vector

# The positions in the state.
HEARD, WEIGHT, CENTRE, SPREAD, BIAS, SLOPE, BIAS_VARIANCE, COVARIANCE, SLOPE_VARIANCE = range(9)
CELLS = 16  # of the logit of p
LEVELS = 19  # of confidence
CELL_WEIGHTS = 9
CELL_RESIDUALS = CELL_WEIGHTS + CELLS
LEVEL_HEARD = CELL_RESIDUALS + CELLS
LEVEL_WRONG = LEVEL_HEARD + LEVELS
ASKED = LEVEL_WRONG + LEVELS  # answers to decisions of which somebody asked whether they are sure
SURE, SURE_WRONG = ASKED + 1, ASKED + 2  # those that were, and how wrong they were
NUMBERS = ASKED + 3

SHARE = 0.2  # of the answers heard, which the memory is long
SHORTEST, LONGEST = 100.0, 1000.0
PRIOR = 1.0  # the variance of bias and slope before anything is heard, and the most that forgetting leads back to
CORRELATION = 0.999  # the most that bias and slope are correlated: forgetting must not make their covariance singular
LEAST_EVIDENCE = 1e-3  # the least that an answer counts for bias and slope, however sure it was
WIDEST = 6.0  # the logit of the outermost cells
SHRINKAGE = 5.0  # answers that each cell is taken to have had, all as expected
LEAST = 1e-4  # nothing is surer than this
FURTHEST = 1e100  # raw scores beyond this are taken for it
TAMING = 0.2  # z is between -5 and 5
MOST = 2.0**53  # no count is larger
SLACK = 1e-6  # rounding
OUTLIER = 10.0  # so many spreads from the centre a raw score counts at most: one that is out of all proportion must not hide the others


def initial_state() -> tuple[float, ...]:
    """The state of a learner that has heard nothing."""
    return 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, PRIOR, 0.0, PRIOR, *(0.0,) * (NUMBERS - CELL_WEIGHTS)


def find_flaw(state: Vector) -> str:
    """What is wrong with a state that somebody else wrote; nothing where it is one that answers may have led to."""
    counts = state[CELL_WEIGHTS:CELL_RESIDUALS], state[LEVEL_HEARD:], state[[HEARD, WEIGHT]]
    if not all((part >= 0.0).all() and (part < MOST).all() for part in counts):
        return "has a count below 0, or beyond all counts"
    variances = state[[BIAS_VARIANCE, SLOPE_VARIANCE]]
    if not ((variances >= 0.0) & (variances <= PRIOR)).all() or state[COVARIANCE] ** 2 > variances.prod():
        return "has no covariance of bias and slope"
    if not (abs(state[[CENTRE, SPREAD, BIAS, SLOPE]]) <= FURTHEST).all() or not min(state[SPREAD], state[SLOPE]) >= 0.0:
        return "has a centre, spread, bias or slope beyond all scores"
    if not (abs(state[CELL_RESIDUALS:LEVEL_HEARD]) <= state[CELL_WEIGHTS:CELL_RESIDUALS] + SLACK).all():
        return "has a cell in which more is amiss than there was"
    return ""


def standing(state: Vector, raw: float) -> float:
    """z: where a raw score stands among those of late."""
    distance = min(FURTHEST, max(-FURTHEST, raw)) - state[CENTRE]
    return float(distance / (state[SPREAD] + TAMING * abs(distance))) if distance != 0.0 else 0.0


def uncertainty(state: Vector, z: float) -> float:
    """v: the variance of b + a z."""
    return float(state[BIAS_VARIANCE] + z * (2.0 * state[COVARIANCE] + z * state[SLOPE_VARIANCE]))


def moderated(state: Vector, z: float) -> float:
    """The logit of p, no further than that of the outermost cells."""
    logit = (state[BIAS] + state[SLOPE] * z) / math.sqrt(1.0 + math.pi / 8.0 * uncertainty(state, z))
    return min(WIDEST, max(-WIDEST, float(logit)))


def sigmoid(logit: float) -> float:
    """The probability of a logit."""
    return 1.0 / (1.0 + math.exp(-min(500.0, max(-500.0, logit))))


def place(logit: float) -> float:
    """Where a logit lies among the cells: between the whole number below and the next."""
    return (logit + WIDEST) / (2.0 * WIDEST) * (CELLS - 1)


def correction(state: Vector, cell: int) -> float:
    """How much more often than expected the answers of a cell were right."""
    return float(state[CELL_RESIDUALS + cell] / (state[CELL_WEIGHTS + cell] + SHRINKAGE))


def confidence(state: Vector, raw: float) -> float:
    """The probability that a label with this raw score is right; NaN before anything was heard."""
    if state[HEARD] == 0.0:
        return math.nan
    logit = moderated(state, standing(state, raw))
    where = place(logit)
    cell = min(CELLS - 2, int(where))
    share = where - cell
    corrected = sigmoid(logit) + (1.0 - share) * correction(state, cell) + share * correction(state, cell + 1)
    return min(1.0 - LEAST, max(LEAST, corrected))


def update(state: Vector, raw: float, confidence: float, reward: float) -> None:
    """Take in the answer to one decision: its raw score and its confidence as they were then, and its reward, 1 for right and 0 for wrong.

    A raw score that is not a number says that none is known, as in decisions that another system made: nothing can be learnt from that.
    """
    if math.isnan(raw):
        return
    state[HEARD] += 1.0
    keep = 1.0 - 1.0 / min(LONGEST, max(SHORTEST, SHARE * state[HEARD]))
    z = standing(state, raw) if state[HEARD] > 1.0 else 0.0  # the first score is its own centre
    correct_cells(state, z, reward, keep)
    newton_step(state, z, reward, keep)
    settle(state, raw, keep)
    if not math.isnan(confidence):
        level = level_of(confidence)
        state[LEVEL_HEARD + level] += 1.0
        state[LEVEL_WRONG + level] += 1.0 - reward


def count_answer(state: Vector, raw: float, confidence: float, threshold: float, reward: float) -> None:
    """Hear the answer to a decision, and count it if somebody asked from which confidence on it is sure; else that is NaN."""
    update(state, raw, confidence, reward)
    if threshold == threshold:  # noqa: PLR0124 -- unless it is NaN
        state[ASKED] += 1.0
        if confidence >= threshold:
            state[SURE] += 1.0
            state[SURE_WRONG] += 1.0 - reward


def correct_cells(state: Vector, z: float, reward: float, keep: float) -> None:
    """Count the answer in the two cells nearest to it."""
    for index in range(CELL_WEIGHTS, CELL_WEIGHTS + 2 * CELLS):
        state[index] *= keep
    logit = moderated(state, z)
    where = place(logit)
    cell = min(CELLS - 2, int(where))
    share, residual = where - cell, reward - sigmoid(logit)
    state[CELL_WEIGHTS + cell] += 1.0 - share
    state[CELL_WEIGHTS + cell + 1] += share
    state[CELL_RESIDUALS + cell] += (1.0 - share) * residual
    state[CELL_RESIDUALS + cell + 1] += share * residual


def newton_step(state: Vector, z: float, reward: float, keep: float) -> None:
    """Move bias and slope; a slope below 0, where a surer rule is wrong more often, is taken for 0."""
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


def settle(state: Vector, raw: float, keep: float) -> None:
    """Move centre and spread; the first answer says both."""
    bounded = min(FURTHEST, max(-FURTHEST, raw))
    distance = bounded - state[CENTRE]
    if state[HEARD] > 1.0 and state[SPREAD] > 0.0:
        distance = min(OUTLIER * state[SPREAD], max(-OUTLIER * state[SPREAD], distance))
    state[WEIGHT] = keep * state[WEIGHT] + 1.0
    share = 1.0 / state[WEIGHT]
    state[SPREAD] = (1.0 - share) * state[SPREAD] + share * abs(distance)
    state[CENTRE] += share * distance


def level_of(confidence: float) -> int:
    """The level of a confidence: the number of half octaves of 1 - confidence."""
    return min(LEVELS - 1, int(-2.0 * math.log2(max(LEAST, 1.0 - max(0.0, confidence)))))


def level_start(level: int) -> float:
    """The least confidence of a level."""
    return 1.0 - math.pow(2.0, -0.5 * level)


def threshold(state: Vector, risk: float) -> float:
    """The confidence from which decisions are sure, so that at most this share of them is wrong; infinite where nothing is.

    It is the lowest start of a level from which on the mean error of all decisions heard is below the risk. With a probability of at least
    1 - DELTA that is so for every threshold ever given, since each of the LEVELS is held to DELTA/LEVELS. The error is the mean, over these
    decisions, of the probability of being wrong, given all that came before each. Those that were answered as sure are the later part of them:
    where nothing changes the risk is kept for them too, and after a change only in the long run (`confidence_sequence.overshoot`).
    """
    heard, wrong = 0.0, 0.0
    for level in range(LEVELS):
        heard += state[LEVEL_HEARD + level]
        wrong += state[LEVEL_WRONG + level]
    for level in range(LEVELS):
        if is_below(heard, wrong, risk, DELTA / LEVELS):
            return level_start(level)
        heard -= state[LEVEL_HEARD + level]
        wrong -= state[LEVEL_WRONG + level]
    return math.inf
