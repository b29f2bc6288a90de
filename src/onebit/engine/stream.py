"""The loops: score, decide, learn, absorb. Everything that decides or learns goes through them.

One decision from Python is `stream` over one row, a batch is `stream` over a few, a run is `stream` over everything. So stepping
by hand and running give the same numbers bit for bit: it is the same machine code. `lessons` is its sister for labelled rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.calibration import confidence, count_answer, threshold
from onebit.contract.candidates import Labels, place_of
from onebit.contract.choices import explored_label
from onebit.contract.draws import DECIDING, FLOORING, LEARNING, REVEALING, REWARDING, Draws, uniform
from onebit.contract.rule import LEARNT, RIGHT, Choice, Matrix, RuleInput, Vector
from onebit.engine.generic import (
    absorb,
    decide,
    follow,
    gather,
    hope,
    learn,
    narrowed,
    needs_room,
    probabilities,
    scatter,
    score,
    surety,
    teach,
)

# What the loop does with a row; any sum of these.
DECIDE = 1  # decide, and keep the choice
LEARN = 2  # learn from the choice made now, or from the one kept
MEASURE = 4  # with DECIDE: also compute the probabilities, and keep that of the label played

REVEALED = 8  # reveal the class to the rule even when it was wrong: full information
COUNT = 16  # with DECIDE: the labels are known, so count the mistakes
ALONE = 32  # the rule learns also where there was one candidate
OVER_ALL = 64  # it learns over all classes where the right one need not be among the candidates, or there was one alone
CALIBRATE = 128  # with DECIDE: say how sure the rule is; with LEARN: take in whether it was right to be

# An event is a round and what is done with it now: round * EVENT + (DECIDE, LEARN, or both).
EVENT = 4

LONGEST_STEP_32, LONGEST_STEP_64 = 1e60, 1e300  # squared, for weights of that many bits

# The columns in which a choice is kept: what the rule said, the propensity over ties and the floor, how sure the rule was of the label in
# its own terms, how probably that was right, and from which confidence on the decision is sure. What is not known is NaN. Where there
# are more columns, the probability of every label stands behind them.
LABEL, GREEDY, RULE_PROPENSITY, NOTE, SECOND_NOTE, PROPENSITY, RAW, CONFIDENCE, THRESHOLD = range(9)
CHOICE_COLUMNS = 9

# The buffers, one below the other.
SCORES, STEP, PROBABILITIES, WORK = 0, 1, 2, 3
CANDIDATES_SCORES, CANDIDATES_STEP = 5, 6
BUFFERS = 7


class Tally(NamedTuple):
    """Mistakes and rewards so far, and what they were at the rounds marked."""

    mistakes: NDArray[np.int64]  # played, greedy, and how many marks have been passed
    marks: NDArray[np.int64]
    curve: NDArray[np.int64]  # (2, marks)
    rewards: Vector  # played, greedy
    reward_curve: Matrix  # (2, marks)

    @classmethod
    def empty(cls, marks: NDArray[np.int64]) -> Tally:
        """Nothing has been counted."""
        curves = np.zeros((2, len(marks)), dtype=np.int64), np.zeros(2), np.zeros((2, len(marks)))
        return cls(np.zeros(3, dtype=np.int64), marks, *curves)


def stream(  # noqa: PLR0917 -- called past Numba's dispatcher, for which flat arguments are quickest to unpack
    params: Any,
    space: Any,
    rows: Any,
    order: NDArray[np.int64],
    events: NDArray[np.int64],
    labels: NDArray[np.int64],
    among: Labels,
    rewards: Matrix,
    memory: Vector,
    calibration: Vector,
    buffers: Matrix,
    kept: Matrix,
    tally: Tally,
    key: np.uint64,
    ids: NDArray[np.uint64],
    first_id: np.uint64,
    start: int,
    stop: int,
    total_rows: int,
    mode: int,
    largest_norm: float,
    floor: float,
    corrections: float,
    sure: float,
    risk: float,
) -> int:
    """Walk from position `start` to `stop`; the position that could not be walked, or `stop`.

    At a position is a round, or where events are given one of them: the feedback of a round may then come late or never. Round t is row
    order[t], or row t (again from the start when rows run out) where no order is given, as it must be with events. Its id is
    ids[t], or first_id + t; labels[t] is the class, or -1 for one that is not the class played; kept[t] holds its choice. `among` has its
    candidates (`contract.candidates`), where there are any. `rewards` has what classes are worth, where right and wrong are not all there
    is: of each row the reward of every class, or of each round that of the label played. A position is
    refused, before weights have moved, when the norm, the scores or the step are not finite numbers or too large, or when the space must
    grow first; the norm of a row whose scores are not finite is NaN, and `largest_norm` is finite. With probability `floor`
    any label is played, whatever the rule says. With probability `corrections` the class is revealed after a wrong label: the loop then
    ends, for somebody to teach it, with -1 less the position, which is done but for that. A decision is sure from the confidence `sure` on, or
    from one that keeps the `risk`; NaN where nobody asks.
    """
    scores, step, out, work = buffers[SCORES], buffers[STEP], buffers[PROBABILITIES], buffers[WORK:CANDIDATES_SCORES]
    row = start % total_rows
    played_wrong, greedy_wrong, mark = tally.mistakes[0], tally.mistakes[1], tally.mistakes[2]
    ended, what = stop, mode
    longest = LONGEST_STEP_32 if space.weights.itemsize == 4 else LONGEST_STEP_64
    few_scores, few_steps, everything = buffers[CANDIDATES_SCORES], buffers[CANDIDATES_STEP], among[:0]
    some, raw, trust, limit = among.shape[0] > 0, np.nan, np.nan, np.nan
    special = some or rewards.shape[0] > 0 or corrections > 0.0 or mode & CALIBRATE != 0
    for position in range(start, stop):
        now = position
        if events.shape[0] > 0:
            now = events[position] // EVENT
            what = (mode & ~(DECIDE | LEARN)) | (events[position] % EVENT)
        if order.shape[0] > 0:
            row = order[now]
        if needs_room(space, rows, row):
            ended = position
            break
        sq_norm = score(space, rows, row, scores)
        if not sq_norm <= largest_norm:  # nor if it is no number
            ended = position
            break
        identity = ids[now] if ids.shape[0] > 0 else first_id + np.uint64(now)
        # What the rule is given: everything, or what there is of the candidates.
        candidates = among
        complete = True
        count = params.classes
        seen = scores
        moved = step
        if some:
            candidates = among[among[now] >> 1 : among[now + 1] >> 1]
            complete = among[now] & 1 == 1
            count = candidates.shape[0]
            seen = few_scores
            moved = few_steps
        if what & DECIDE:
            hope(space, scores, candidates)
        if some:
            gather(params, scores, candidates, seen)

        if what & DECIDE:
            playing = narrowed(params, count)
            given = RuleInput(memory, seen, sq_norm, Draws(key, identity, DECIDING), work, 0.0, candidates, complete)
            if count > 1:
                choice = decide(playing, given)
            else:
                choice = Choice(0, 0, 1.0, 0.0, 0.0)
            if floor > 0.0 or what & MEASURE:
                measure(playing, given, count, out, floor)
            if floor > 0.0:
                any_label = Draws(key, identity, FLOORING)
                place = explored_label(choice.label, count, floor, any_label)
                choice = Choice(place, choice.greedy, out[place], choice.note, choice.second_note)
            label, greedy = choice.label, choice.greedy
            if some:
                label, greedy = candidates[label], candidates[greedy]
            if what & CALIBRATE:
                judging = given
                judged = choice.label
                rivals = count
                if some and not complete:  # the right class may be any
                    judging = RuleInput(memory, scores, sq_norm, given.draws, work, 0.0, everything, complete)
                    judged = label
                    rivals = params.classes
                raw = surety(narrowed(params, rivals), judging, judged)
                trust = confidence(calibration, raw)
                limit = min(1.0, threshold(calibration, risk)) if risk == risk else sure  # noqa: PLR0124 -- unless NaN
            if kept.shape[0] > 0:
                columns = kept[now]
                columns[RAW] = raw
                columns[CONFIDENCE] = trust
                columns[THRESHOLD] = limit
                columns[LABEL] = label
                columns[GREEDY] = greedy
                columns[RULE_PROPENSITY] = choice.propensity
                columns[NOTE] = choice.note
                columns[SECOND_NOTE] = choice.second_note
            if what & MEASURE:
                columns = kept[now]
                columns[PROPENSITY] = out[choice.label]
                for column in range(CHOICE_COLUMNS, kept.shape[1]):
                    columns[column] = 0.0 if some else out[column - CHOICE_COLUMNS]
                if some and kept.shape[1] > CHOICE_COLUMNS:
                    for place in range(count):
                        columns[CHOICE_COLUMNS + candidates[place]] = out[place]
            if what & COUNT:
                if rewards.shape[0] > 0:  # wrong is what is worth less than the best, of which there may be several
                    best = rewards[row, labels[now]]
                    played_wrong += rewards[row, label] < best
                    greedy_wrong += rewards[row, greedy] < best
                    tally.rewards[0] += rewards[row, label]
                    tally.rewards[1] += rewards[row, greedy]
                else:
                    played_wrong += labels[now] != label
                    greedy_wrong += labels[now] != greedy
                if mark < tally.marks.shape[0] and tally.marks[mark] == now + 1:
                    tally.curve[0, mark] = played_wrong
                    tally.curve[1, mark] = greedy_wrong
                    tally.reward_curve[0, mark] = tally.rewards[0]
                    tally.reward_curve[1, mark] = tally.rewards[1]
                    mark += 1
        else:
            columns = kept[now]
            label, greedy = int(columns[LABEL]), int(columns[GREEDY])
            propensity, note, second_note = columns[RULE_PROPENSITY], columns[NOTE], columns[SECOND_NOTE]
            raw, trust, limit = columns[RAW], columns[CONFIDENCE], columns[THRESHOLD]
            choice = Choice(label, greedy, propensity, note, second_note)
            if some:
                label_place, greedy_place = place_of(candidates, label), place_of(candidates, greedy)
                choice = Choice(label_place, greedy_place, propensity, note, second_note)

        if what & LEARN:
            told = labels[now]
            right = told == label
            reward = 1.0 if right else 0.0
            if not right and not what & REVEALED:
                told = -1
            if special:  # a round that is more than right or wrong about one of all classes
                if corrections > 0.0 and not right:
                    wrong = rewards.shape[0] == 0 or rewards[row, label] < rewards[row, labels[now]]
                    if wrong and uniform(Draws(key, identity, REVEALING), 0) < corrections:
                        ended = -1 - position
                        break
                if rewards.shape[0] > 0:
                    reward = rewards[row, label] if rewards.shape[1] > 1 else rewards[now, 0]
                    if not what & REVEALED:
                        bit = 0.0 < reward < 1.0 and uniform(Draws(key, identity, REWARDING), 0) < reward
                        told = label if bit or reward >= 1.0 else -1
                if what & CALIBRATE and raw == raw:  # noqa: PLR0124 -- unless it is NaN
                    count_answer(calibration, raw, trust, limit, reward)
                if some and (not complete or count == 1) and what & OVER_ALL:
                    candidates = everything
                    complete = True
                    count = params.classes
                    seen = scores
                    moved = step
                    choice = Choice(label, greedy, choice.propensity, choice.note, choice.second_note)
                elif some and told >= 0:
                    told = place_of(candidates, told)
            if sq_norm > 0.0 and (count > 1 or what & ALONE):  # nothing can be learnt from x = 0
                learning = narrowed(params, count)
                draws = Draws(key, identity, LEARNING)
                given = RuleInput(memory, seen, sq_norm, draws, work, reward, candidates, complete)
                scale = learn(learning, given, choice, told, moved)
                if candidates.shape[0] > 0:
                    scatter(params, moved, candidates, step)
                if not bearable(step, step.shape[0], sq_norm, choice.propensity, longest):
                    ended = position
                    break
                memory[LEARNT] += 1.0
                memory[RIGHT] += reward
                absorb(space, rows, row, step, scale)
                follow(params, space, RuleInput(memory, scores, sq_norm, draws, work), step, scale)
        row += 1
        if row == total_rows:
            row = 0
    tally.mistakes[0], tally.mistakes[1], tally.mistakes[2] = played_wrong, greedy_wrong, mark
    return ended


def measure(params: Any, given: RuleInput, count: int, out: Vector, floor: float) -> None:
    """Write the probabilities of the labels that can be played, as they are played: the rule's, over the floor."""
    if count == 1:
        out[0] = 1.0
        return
    probabilities(params, given, out)
    if floor > 0.0:
        for label in range(count):
            out[label] = (1.0 - floor) * out[label] + floor / count


def lessons(  # noqa: PLR0917 -- as above
    params: Any,
    space: Any,
    rows: Any,
    labels: NDArray[np.int64],
    among: Labels,
    memory: Vector,
    calibration: Vector,
    buffers: Matrix,
    kept: Matrix,
    key: np.uint64,
    ids: NDArray[np.uint64],
    first_id: np.uint64,
    purpose: int,
    start: int,
    largest_norm: float,
) -> int:
    """Take the step for a known label on every row from `start` on; the row that could not be used, or their number.

    Where choices are given (`kept`), the labels are answers to them, which count as feedback.
    """
    scores, step, work = buffers[SCORES], buffers[STEP], buffers[WORK:CANDIDATES_SCORES]
    longest = LONGEST_STEP_32 if space.weights.itemsize == 4 else LONGEST_STEP_64
    for row in range(start, labels.shape[0]):
        if needs_room(space, rows, row):
            return row
        sq_norm = score(space, rows, row, scores)
        if not sq_norm <= largest_norm:  # nor if it is no number
            return row
        label, candidates, count, seen, moved = labels[row], among, params.classes, scores, step
        if among.shape[0] > 0:
            candidates = among[among[row] >> 1 : among[row + 1] >> 1]
            count, seen, moved = candidates.shape[0], buffers[CANDIDATES_SCORES], buffers[CANDIDATES_STEP]
            gather(params, scores, candidates, seen)
            label = place_of(candidates, label)
        if kept.shape[0] > 0 and kept[row, RAW] == kept[row, RAW]:
            reward = 1.0 if labels[row] == kept[row, LABEL] else 0.0
            count_answer(calibration, kept[row, RAW], kept[row, CONFIDENCE], kept[row, THRESHOLD], reward)
        if sq_norm > 0.0 and count > 1:
            identity = ids[row] if ids.shape[0] > 0 else first_id + np.uint64(row)
            draws = Draws(key, identity, purpose)
            given = RuleInput(memory, seen, sq_norm, draws, work, 1.0, candidates, True)
            scale = teach(narrowed(params, count), given, label, moved)
            if candidates.shape[0] > 0:
                scatter(params, moved, candidates, step)
            if not bearable(step, step.shape[0], sq_norm, 1.0, longest):
                return row
            if kept.shape[0] > 0:
                memory[LEARNT] += 1.0
                memory[RIGHT] += labels[row] == kept[row, LABEL]
            absorb(space, rows, row, step, scale)
            follow(params, space, RuleInput(memory, scores, sq_norm, draws, work), step, scale)
    return int(labels.shape[0])


def bearable(step: Vector, heads: int, sq_norm: float, propensity: float, longest: float) -> bool:
    """Whether a step is one that weights can take: a number, and not longer (squared) than the range of their dtype allows.

    Only a row or a probability out of all proportion asks for such a step, so others are not looked at.
    """
    if 1e-20 < sq_norm < 1e20 and propensity > 1e-12:
        return True
    length = 0.0
    for head in range(heads):
        length += step[head] * step[head] * sq_norm
    return length <= longest
