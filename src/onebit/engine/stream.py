"""The loops: score, decide, learn, absorb. Everything that decides or learns goes through them.

One decision from Python is `stream` over one row, a batch is `stream` over a few, a run is `stream` over everything. So stepping
by hand and running give the same numbers bit for bit: it is the same machine code. `lessons` is its sister for labelled rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.choices import explored_label
from onebit.contract.draws import DECIDING, FLOORING, LEARNING, TEACHING, Draws
from onebit.contract.rule import LEARNT, RIGHT, Choice, Matrix, RuleInput, Vector
from onebit.engine.generic import absorb, decide, follow, learn, needs_room, probabilities, score, teach

# What the loop does with a row; any sum of these.
DECIDE = 1  # decide, and keep the choice
LEARN = 2  # learn from the choice made now, or from the one kept
MEASURE = 4  # with DECIDE: also compute the probabilities, and keep that of the label played

REVEALED = 8  # reveal the class to the rule even when it was wrong: full information
COUNT = 16  # with DECIDE: the labels are known, so count the mistakes

# An event is a round and what is done with it now: round * EVENT + (DECIDE, LEARN, or both).
EVENT = 4

LONGEST_STEP_32, LONGEST_STEP_64 = 1e60, 1e300  # squared, for weights of that many bits

# The columns in which a choice is kept: what the rule said, and the propensity over ties and the floor. Where there are more, the
# probability of every label stands behind them.
LABEL, GREEDY, RULE_PROPENSITY, NOTE, SECOND_NOTE, PROPENSITY = range(6)
CHOICE_COLUMNS = 6

# The buffers, one below the other.
SCORES, STEP, PROBABILITIES, WORK = 0, 1, 2, 3
BUFFERS = 5


class Tally(NamedTuple):
    """Mistakes so far, and what they were at the rounds marked."""

    mistakes: NDArray[np.int64]  # played, greedy, and how many marks have been passed
    marks: NDArray[np.int64]
    curve: NDArray[np.int64]  # (2, marks)


def stream(  # noqa: PLR0917 -- called past Numba's dispatcher, for which flat arguments are quickest to unpack
    params: Any,
    space: Any,
    rows: Any,
    order: NDArray[np.int64],
    events: NDArray[np.int64],
    labels: NDArray[np.int64],
    memory: Vector,
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
) -> int:
    """Walk from position `start` to `stop`; the position that could not be walked, or `stop`.

    At a position is a round, or where events are given one of them: the feedback of a round may then come late or never. Round t is row
    order[t], or row t (again from the start when rows run out) where no order is given, as it must be with events. Its id is
    ids[t], or first_id + t; labels[t] is the class, or -1 for one that is not the class played; kept[t] holds its choice. A position is
    refused, before weights have moved, when the norm, the scores or the step are not finite numbers or too large, or when the space must
    grow first; the norm of a row whose scores are not finite is NaN, and `largest_norm` is finite. With probability `floor`
    any label is played, whatever the rule says.
    """
    scores, step, out, work = buffers[SCORES], buffers[STEP], buffers[PROBABILITIES], buffers[WORK:]
    row = start % total_rows
    played_wrong, greedy_wrong, mark = tally.mistakes[0], tally.mistakes[1], tally.mistakes[2]
    ended, what = stop, mode
    longest = LONGEST_STEP_32 if space.weights.itemsize == 4 else LONGEST_STEP_64
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

        if what & DECIDE:
            given = RuleInput(memory, scores, sq_norm, Draws(key, identity, DECIDING), work)
            choice = decide(params, given)
            if floor > 0.0:
                measure(params, given, out, floor)
                any_label = Draws(key, identity, FLOORING)
                label = explored_label(choice.label, params.classes, floor, any_label)
                choice = Choice(label, choice.greedy, out[label], choice.note, choice.second_note)
            if kept.shape[0] > 0:
                columns = kept[now]
                columns[LABEL] = choice.label
                columns[GREEDY] = choice.greedy
                columns[RULE_PROPENSITY] = choice.propensity
                columns[NOTE] = choice.note
                columns[SECOND_NOTE] = choice.second_note
            if what & MEASURE:
                if not floor > 0.0:  # else they are there
                    measure(params, given, out, floor)
                kept[now, PROPENSITY] = out[choice.label]
                for label in range(kept.shape[1] - CHOICE_COLUMNS):
                    kept[now, CHOICE_COLUMNS + label] = out[label]
            if what & COUNT:
                played_wrong += labels[now] != choice.label
                greedy_wrong += labels[now] != choice.greedy
                if mark < tally.marks.shape[0] and tally.marks[mark] == now + 1:
                    tally.curve[0, mark] = played_wrong
                    tally.curve[1, mark] = greedy_wrong
                    mark += 1
        else:
            columns = kept[now]
            label, greedy, propensity = int(columns[LABEL]), int(columns[GREEDY]), columns[RULE_PROPENSITY]
            choice = Choice(label, greedy, propensity, columns[NOTE], columns[SECOND_NOTE])

        if what & LEARN:
            revealed = labels[now]
            if revealed != choice.label and not what & REVEALED:
                revealed = -1
            if sq_norm > 0.0:  # nothing can be learnt from x = 0
                given = RuleInput(memory, scores, sq_norm, Draws(key, identity, LEARNING), work)
                scale = learn(params, given, choice, revealed, step)
                if not bearable(step, step.shape[0], sq_norm, choice.propensity, longest):
                    ended = position
                    break
                memory[LEARNT] += 1.0
                memory[RIGHT] += revealed == choice.label
                absorb(space, rows, row, step, scale)
                follow(params, space, given, step, scale)
        row += 1
        if row == total_rows:
            row = 0
    tally.mistakes[0], tally.mistakes[1], tally.mistakes[2] = played_wrong, greedy_wrong, mark
    return ended


def measure(params: Any, given: RuleInput, out: Vector, floor: float) -> None:
    """Write the probabilities of the labels as they are played: the rule's, over the floor."""
    probabilities(params, given, out)
    if floor > 0.0:
        for label in range(params.classes):
            out[label] = (1.0 - floor) * out[label] + floor / params.classes


def lessons(  # noqa: PLR0917 -- as above
    params: Any,
    space: Any,
    rows: Any,
    labels: NDArray[np.int64],
    memory: Vector,
    buffers: Matrix,
    key: np.uint64,
    first_id: np.uint64,
    start: int,
    largest_norm: float,
) -> int:
    """Take the step for a known label on every row from `start` on; the row that could not be used, or their number."""
    scores, step, work = buffers[SCORES], buffers[STEP], buffers[WORK:]
    longest = LONGEST_STEP_32 if space.weights.itemsize == 4 else LONGEST_STEP_64
    for row in range(start, labels.shape[0]):
        if needs_room(space, rows, row):
            return row
        sq_norm = score(space, rows, row, scores)
        if not sq_norm <= largest_norm:  # nor if it is no number
            return row
        if sq_norm > 0.0:
            given = RuleInput(memory, scores, sq_norm, Draws(key, first_id + np.uint64(row), TEACHING), work)
            scale = teach(params, given, labels[row], step)
            if not bearable(step, step.shape[0], sq_norm, 1.0, longest):
                return row
            absorb(space, rows, row, step, scale)
            follow(params, space, given, step, scale)
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
