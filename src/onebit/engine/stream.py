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
    learn,
    narrow_params,
    needs_room,
    probabilities,
    scatter,
    score,
    surety,
    teach,
    write_hopes,
)

# Flags for what the loop does with a row; they can be added.
DECIDE = 1  # decide, and keep the choice
LEARN = 2  # learn from the choice made now, or from the one kept
MEASURE = 4  # with DECIDE: also compute the probabilities, and keep that of the label played

REVEALED = 8  # reveal the class to the rule even when it was wrong: full information
COUNT = 16  # with DECIDE: the labels are known, so count the mistakes
ALONE = 32  # the rule also learns if there was only one candidate
OVER_ALL = 64  # it learns over all classes if the right one may be no candidate, or there was only one
CALIBRATE = 128  # with DECIDE: compute the confidence; with LEARN: calibrate it by the feedback

# An event combines a round and what to do with it: round * EVENT + (DECIDE, LEARN, or both).
EVENT = 4

LONGEST_STEP_32, LONGEST_STEP_64 = 1e60, 1e300  # limits of the squared length of a step, by the bits of the weights

# Columns of a choice: what the rule returned, the propensity over ties and the floor, the rule's own measure of how sure it
# was, the calibrated confidence, and the confidence from which on the decision is sure. Unknown values are NaN. Any
# further columns have the probability of every label.
LABEL, GREEDY, RULE_PROPENSITY, NOTE, SECOND_NOTE, PROPENSITY, RAW, CONFIDENCE, THRESHOLD = range(9)
CHOICE_COLUMNS = 9

# The lines of the buffers.
SCORES, STEP, PROBABILITIES, WORK = 0, 1, 2, 3
CANDIDATES_SCORES, CANDIDATES_STEP = 5, 6
BUFFERS = 7


class Tally(NamedTuple):
    """Mistakes and rewards so far, and what they were at the rounds marked."""

    mistakes: NDArray[np.int64]  # played, greedy, and the number of marks passed
    marks: NDArray[np.int64]
    curve: NDArray[np.int64]  # (2, marks)
    rewards: Vector  # played, greedy
    reward_curve: Matrix  # (2, marks)

    @classmethod
    def empty(cls, marks: NDArray[np.int64]) -> Tally:
        """Return a tally in which nothing has been counted."""
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
    """Walk from position `start` to `stop`; return `stop`, or the position that could not be walked.

    A position is a round, or where events are given one event of a round, whose feedback may then come late or never.
    Round t uses row order[t]; where no order is given (it must be given with events), it uses row t, starting again
    at row 0 when the rows run out. Its id is ids[t], or first_id + t; labels[t] is the class, or -1 for one that is
    not the class played; kept[t] holds its choice. `among` has its candidates (`contract.candidates`), if any.
    `rewards` has the rewards of classes where these are more than right and wrong: for each row the reward of every
    class, or for each round the reward of the label played.

    A position is refused, before any weight has moved, if the norm, the scores or the step are not finite or too
    large, or if the space must grow first. The norm of a row whose scores are not finite is NaN, and `largest_norm`
    is finite.

    With probability `floor` any label is played, whatever the rule says. With probability `corrections` the class is
    revealed after a wrong label: the loop then ends so that the caller can teach it, and returns -1 minus the
    position, which is complete except for that. A decision is sure from the confidence `sure` on, or from one that
    keeps the error rate at `risk`; both are NaN if unused.
    """
    scores, step, out, work = buffers[SCORES], buffers[STEP], buffers[PROBABILITIES], buffers[WORK:CANDIDATES_SCORES]
    row = start % total_rows
    played_wrong, greedy_wrong, mark = tally.mistakes[0], tally.mistakes[1], tally.mistakes[2]
    ended, flags = stop, mode
    longest = LONGEST_STEP_32 if space.weights.itemsize == 4 else LONGEST_STEP_64
    few_scores, few_steps, everything = buffers[CANDIDATES_SCORES], buffers[CANDIDATES_STEP], among[:0]
    has_candidates, raw, trust, limit = among.shape[0] > 0, np.nan, np.nan, np.nan
    special = has_candidates or rewards.shape[0] > 0 or corrections > 0.0 or mode & CALIBRATE != 0
    for position in range(start, stop):
        now = position
        if events.shape[0] > 0:
            now = events[position] // EVENT
            flags = (mode & ~(DECIDE | LEARN)) | (events[position] % EVENT)
        if order.shape[0] > 0:
            row = order[now]
        if needs_room(space, rows, row):
            ended = position
            break
        sq_norm = score(space, rows, row, scores)
        if not sq_norm <= largest_norm:  # also refused if NaN
            ended = position
            break
        identity = ids[now] if ids.shape[0] > 0 else first_id + np.uint64(now)
        # What the rule sees: all classes, or only the candidates.
        candidates = among
        complete = True
        count = params.classes
        rule_scores = scores
        rule_step = step
        if has_candidates:
            candidates = among[among[now] >> 1 : among[now + 1] >> 1]
            complete = among[now] & 1 == 1
            count = candidates.shape[0]
            rule_scores = few_scores
            rule_step = few_steps
        if flags & DECIDE:
            write_hopes(space, scores, candidates)
        if has_candidates:
            gather(params, scores, candidates, rule_scores)

        if flags & DECIDE:
            playing = narrow_params(params, count)
            given = RuleInput(
                memory, rule_scores, sq_norm, Draws(key, identity, DECIDING), work, 0.0, candidates, complete
            )
            if count > 1:
                choice = decide(playing, given)
            else:
                choice = Choice(0, 0, 1.0, 0.0, 0.0)
            if floor > 0.0 or flags & MEASURE:
                measure(playing, given, count, out, floor)
            if floor > 0.0:
                any_label = Draws(key, identity, FLOORING)
                place = explored_label(choice.label, count, floor, any_label)
                choice = Choice(place, choice.greedy, out[place], choice.note, choice.second_note)
            label, greedy = choice.label, choice.greedy
            if has_candidates:
                label, greedy = candidates[label], candidates[greedy]
            if flags & CALIBRATE:
                judging = given
                judged = choice.label
                rivals = count
                if has_candidates and not complete:  # the right class may be none of the candidates
                    judging = RuleInput(memory, scores, sq_norm, given.draws, work, 0.0, everything, complete)
                    judged = label
                    rivals = params.classes
                raw = surety(narrow_params(params, rivals), judging, judged)
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
            if flags & MEASURE:
                columns = kept[now]
                columns[PROPENSITY] = out[choice.label]
                for column in range(CHOICE_COLUMNS, kept.shape[1]):
                    columns[column] = 0.0 if has_candidates else out[column - CHOICE_COLUMNS]
                if has_candidates and kept.shape[1] > CHOICE_COLUMNS:
                    for place in range(count):
                        columns[CHOICE_COLUMNS + candidates[place]] = out[place]
            if flags & COUNT:
                if rewards.shape[0] > 0:  # a label is wrong if its reward is below the best, which several may share
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
            if has_candidates:
                label_place, greedy_place = place_of(candidates, label), place_of(candidates, greedy)
                choice = Choice(label_place, greedy_place, propensity, note, second_note)

        if flags & LEARN:
            revealed = labels[now]
            right = revealed == label
            reward = 1.0 if right else 0.0
            if not right and not flags & REVEALED:
                revealed = -1
            if special:  # not just right or wrong about one of all classes
                if corrections > 0.0 and not right:
                    wrong = rewards.shape[0] == 0 or rewards[row, label] < rewards[row, labels[now]]
                    if wrong and uniform(Draws(key, identity, REVEALING), 0) < corrections:
                        ended = -1 - position
                        break
                if rewards.shape[0] > 0:
                    reward = rewards[row, label] if rewards.shape[1] > 1 else rewards[now, 0]
                    if not flags & REVEALED:
                        bit = 0.0 < reward < 1.0 and uniform(Draws(key, identity, REWARDING), 0) < reward
                        revealed = label if bit or reward >= 1.0 else -1
                if flags & CALIBRATE and raw == raw:  # noqa: PLR0124 -- unless it is NaN
                    count_answer(calibration, raw, trust, limit, reward)
                if has_candidates and (not complete or count == 1) and flags & OVER_ALL:
                    candidates = everything
                    complete = True
                    count = params.classes
                    rule_scores = scores
                    rule_step = step
                    choice = Choice(label, greedy, choice.propensity, choice.note, choice.second_note)
                elif has_candidates and revealed >= 0:
                    revealed = place_of(candidates, revealed)
            if sq_norm > 0.0 and (count > 1 or flags & ALONE):  # nothing can be learnt from x = 0
                learning = narrow_params(params, count)
                draws = Draws(key, identity, LEARNING)
                given = RuleInput(memory, rule_scores, sq_norm, draws, work, reward, candidates, complete)
                scale = learn(learning, given, choice, revealed, rule_step)
                if candidates.shape[0] > 0:
                    scatter(params, rule_step, candidates, step)
                if not is_bearable(step, step.shape[0], sq_norm, choice.propensity, longest):
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
    """Write the probabilities with which the labels are played: the rule's, mixed with the floor."""
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
    """Learn the known label of every row from `start` on.

    Return the number of rows, or the first row that could not be used. If choices are given (`kept`), the labels are
    answers to them, which count as feedback.
    """
    scores, step, work = buffers[SCORES], buffers[STEP], buffers[WORK:CANDIDATES_SCORES]
    longest = LONGEST_STEP_32 if space.weights.itemsize == 4 else LONGEST_STEP_64
    for row in range(start, labels.shape[0]):
        if needs_room(space, rows, row):
            return row
        sq_norm = score(space, rows, row, scores)
        if not sq_norm <= largest_norm:  # also refused if NaN
            return row
        label, candidates, count, rule_scores, rule_step = labels[row], among, params.classes, scores, step
        if among.shape[0] > 0:
            candidates = among[among[row] >> 1 : among[row + 1] >> 1]
            count, rule_scores, rule_step = candidates.shape[0], buffers[CANDIDATES_SCORES], buffers[CANDIDATES_STEP]
            gather(params, scores, candidates, rule_scores)
            label = place_of(candidates, label)
        if kept.shape[0] > 0 and kept[row, RAW] == kept[row, RAW]:
            reward = 1.0 if labels[row] == kept[row, LABEL] else 0.0
            count_answer(calibration, kept[row, RAW], kept[row, CONFIDENCE], kept[row, THRESHOLD], reward)
        if sq_norm > 0.0 and count > 1:
            identity = ids[row] if ids.shape[0] > 0 else first_id + np.uint64(row)
            draws = Draws(key, identity, purpose)
            given = RuleInput(memory, rule_scores, sq_norm, draws, work, 1.0, candidates, True)
            scale = teach(narrow_params(params, count), given, label, rule_step)
            if candidates.shape[0] > 0:
                scatter(params, rule_step, candidates, step)
            if not is_bearable(step, step.shape[0], sq_norm, 1.0, longest):
                return row
            if kept.shape[0] > 0:
                memory[LEARNT] += 1.0
                memory[RIGHT] += labels[row] == kept[row, LABEL]
            absorb(space, rows, row, step, scale)
            follow(params, space, RuleInput(memory, scores, sq_norm, draws, work), step, scale)
    return int(labels.shape[0])


def is_bearable(step: Vector, heads: int, sq_norm: float, propensity: float, longest: float) -> bool:
    """Return True if weights can take a step: it is finite and within the range of their dtype.

    `longest` is the limit of its squared length. Only an extreme row or probability can lead to a step that is too
    long, so other steps are not checked.
    """
    if 1e-20 < sq_norm < 1e20 and propensity > 1e-12:
        return True
    length = 0.0
    for head in range(heads):
        length += step[head] * step[head] * sq_norm
    return length <= longest
