"""EPABF: exact passive-aggressive learning from bandit feedback, all classes moved at once.

Arora and Manwani, "Exact Passive-Aggressive Algorithms for Multiclass Classification Using Bandit Feedbacks", ACML 2020,
Algorithms 1-3 (EPABF, EPABF-I, EPABF-II; here `variant`).

    play y: the greedy label, or with probability gamma any label;   P = its probability,   a = 1[right]/P
    min 1/2 sum_r ||w_r - w_r^t||^2 (+ C sum xi_r  |  + C sum xi_r^2)    subject to
        a w_y.x - w_r.x >= 1 (- xi_r)       for all r, r = y included

The paper's closed form is not the minimiser of this program when y is one of its support classes, so there are three updates:

    printed   the paper's steps, which made its numbers (the default)
    stated    the exact minimiser of the program above
    others    the exact minimiser without the constraint r = y, which has no meaning when right; when wrong, `wrong`
              says whether every class moves ("all", as stated) or only the played one ("played", the step of BPA)

A wrong answer pushes every class, the true one too, to a score of at most -1: a margin that is not there costs dearly
(SynSep10: 80 % plain with exploration 0.0001, 42 % with PA-I, C = 0.001 and exploration 0.2). Time O(K d + K log K), memory O(K d). "others" with "played" is ours.

Departure: the step of class y is beta/n, never a sum of steps minus one of them, which loses ten digits at a = K/gamma = 1e5.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from onebit.contract.choices import fill, sort_descending
from onebit.contract.exploration import decide_epsilon_greedy, epsilon_greedy_probabilities
from onebit.contract.parameters import OneOf, Real
from onebit.contract.rule import Choice, Rule, RuleInput, Vector
from onebit.contract.steps import Variant, binary_step, step_size

SWEEPS = 60  # the printed search of EPABF-I settled long before this in 200,000 random instances


class Update(IntEnum):
    """The interpretation of the paper that is used."""

    PRINTED = 0
    STATED = 1
    OTHERS = 2


class MovedClasses(IntEnum):
    """Which classes a wrong answer moves when the update is "others"."""

    ALL = 0
    PLAYED = 1


class EPABF(NamedTuple):
    classes: int
    exploration: Annotated[float, Real("(0, 0.5)", "gamma, the probability of exploring")] = 0.1
    variant: Annotated[int, OneOf(Variant, "how slack is penalised: EPABF, EPABF-I or EPABF-II")] = Variant.PA_I
    aggressiveness: Annotated[float, Real("(0, inf)", "C, the price of slack")] = 0.1
    update: Annotated[int, OneOf(Update, "which reading of the paper")] = Update.PRINTED
    wrong: Annotated[int, OneOf(MovedClasses, "with update others: the classes that a wrong answer moves")] = (
        MovedClasses.ALL
    )


class Played(NamedTuple):
    """The played label, as the search for support classes needs it."""

    label: int
    loss: float
    a: float  # 1/P
    damping: float  # of PA-II, else 0


def learn(params: EPABF, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Take the step of the chosen update."""
    if revealed != choice.label:
        push_down(params, given, choice.label, step)
    elif params.update == Update.PRINTED:
        printed_step(params, given, choice.label, 1.0 / choice.propensity, step)
    else:
        exact_step(params, given, choice.label, 1.0 / choice.propensity, step)
    return 1.0


def push_down(params: EPABF, given: RuleInput, label: int, step: Vector) -> None:
    """Take the step for a wrong answer (a = 0), where the constraints separate into w_r.x <= -1."""
    played_only = params.update == Update.OTHERS and params.wrong == MovedClasses.PLAYED
    for head in range(params.classes):
        step[head] = 0.0
        if head == label or not played_only:
            step[head] = binary_step(params.variant, params.aggressiveness, given.scores[head], -1.0, given.sq_norm)


def printed_step(params: EPABF, given: RuleInput, label: int, a: float, step: Vector) -> None:
    """Take the step for a right answer as the paper prints it.

    Support classes are found by SCA, SCA-I or SCA-II, and the step is then in closed form.
    """
    scores, sq_norm, losses, labels = given.scores, given.sq_norm, given.work[0], given.work[1]
    for head in range(params.classes):
        losses[head] = max(0.0, 1.0 - a * scores[label] + scores[head])
        labels[head] = head
    damping = 0.5 / (params.aggressiveness * sq_norm) if params.variant == Variant.PA_II else 0.0
    played = Played(label, losses[label], a, damping)
    sort_descending(losses, labels, params.classes)
    if params.variant == Variant.PA_I:
        mark_by_sweeps(params, played, losses, labels, step)
    else:
        mark_by_walking(params, played, losses, labels, step)

    support, total, own = 0, 0.0, False
    for rank in range(params.classes):
        if step[int(labels[rank])] == 1.0:
            support += 1
            total += losses[rank]
            own = own or int(labels[rank]) == label
    numerator, divisor = printed_shift(played, support, total, own)
    shift = numerator / divisor
    moved = 0.0
    for rank in range(params.classes):
        head = int(labels[rank])
        if step[head] == 1.0:
            size = (losses[rank] + shift) / (sq_norm * (1.0 + damping))
            if params.variant == Variant.PA_I:
                size = min(params.aggressiveness, size)
            step[head] = -size
            moved += size
    step[label] += a * moved


def printed_shift(played: Played, support: int, total: float, own: bool) -> tuple[float, float]:
    """Return the paper's q, by which the loss of each support class is lowered, as a fraction.

    The result is numerator and divisor; the divisor is positive. `own`: the played label is a support class.
    """
    a = played.a
    divisor = 1.0 + support * a * a + played.damping
    if own:
        return a * played.loss - a * a * total, divisor - a
    return -a * a * total, divisor


def stays_above(played: Played, loss: float, support: int, total: float, own: bool) -> bool:
    """Return True if a loss stays above 0 when it is lowered by the shift; computed without dividing."""
    numerator, divisor = printed_shift(played, support, total, own)
    return loss * divisor + numerator > 0.0


def mark_by_walking(params: EPABF, played: Played, losses: Vector, labels: Vector, marks: Vector) -> None:
    """Mark support classes by SCA or SCA-II.

    Classes are taken in descending order of loss while the next one stays above the shift.
    """
    fill(marks, params.classes, 0.0)
    total, own = 0.0, False
    for rank in range(params.classes):
        if losses[rank] <= 0.0 or not stays_above(played, losses[rank], rank, total, own):
            return
        marks[int(labels[rank])] = 1.0
        total += losses[rank]
        own = own or int(labels[rank]) == played.label


def mark_by_sweeps(params: EPABF, played: Played, losses: Vector, labels: Vector, marks: Vector) -> None:
    """Mark support classes by SCA-I: sweep over the classes until the support no longer changes."""
    fill(marks, params.classes, 0.0)
    support, total, own = 0, 0.0, False
    for _ in range(SWEEPS):
        settled = True
        for rank in range(params.classes):
            head = int(labels[rank])
            entering = stays_above(played, losses[rank], support, total, own)
            if entering != (marks[head] == 1.0):
                settled = False
                marks[head] = 1.0 if entering else 0.0
                support += 1 if entering else -1
                total += losses[rank] if entering else -losses[rank]
                if head == played.label:
                    own = entering
        if settled:
            return


def exact_step(params: EPABF, given: RuleInput, label: int, a: float, step: Vector) -> None:
    """Take the exact step for a right answer.

    One number, the change beta of the played score, determines every step.
    """
    scores, sq_norm, needs, labels = given.scores, given.sq_norm, given.work[0], given.work[1]
    count = 0
    for head in range(params.classes):
        if head != label:
            needs[count] = 1.0 - a * scores[label] + scores[head]
            labels[count] = head
            count += 1
    sort_descending(needs, labels, count)
    beta = rise(params, needs, count, sq_norm, a, 0.0, 0.0)
    excess = a - 1.0
    if params.update == Update.STATED and excess > 0.0:
        own_need = 1.0 - excess * scores[label]
        if excess * beta < own_need:
            if params.variant == Variant.PA_II:
                price = 2.0 * params.aggressiveness * excess
                beta = rise(params, needs, count, sq_norm, a, price * excess, price * own_need)
            elif params.variant == Variant.PA_I:
                beta = min(
                    rise(params, needs, count, sq_norm, a, 0.0, excess * params.aggressiveness), own_need / excess
                )
            else:
                beta = own_need / excess
    for rank in range(count):
        loss = max(0.0, needs[rank] - a * beta)
        step[int(labels[rank])] = -step_size(params.variant, params.aggressiveness, loss, sq_norm)
    step[label] = beta / sq_norm


def rise(
    params: EPABF, needs: Vector, count: int, sq_norm: float, a: float, extra_slope: float, extra_push: float
) -> float:
    """Return the root of beta/n + extra_slope beta = extra_push + a sum_r step_r(beta).

    `needs` must be in descending order. The right side falls piecewise linearly in beta: class r pulls while needs_r
    > a beta, and with PA-I at most C. So walk down from infinity through the points where a class starts to pull and,
    with PA-I, where it pulls no more than C.
    """
    capped = params.variant == Variant.PA_I
    divisor = sq_norm + 0.5 / params.aggressiveness if params.variant == Variant.PA_II else sq_norm
    cap = sq_norm * params.aggressiveness
    pulling, saturated, total = 0, 0, 0.0
    while True:
        push = extra_push + a * total / divisor
        if capped:
            push += a * params.aggressiveness * saturated
        beta = push / (1.0 / sq_norm + extra_slope + a * a * (pulling - saturated) / divisor)
        starts = needs[pulling] if pulling < count else -float("inf")
        fills = needs[saturated] - cap if capped and saturated < pulling else -float("inf")
        if a * beta >= max(starts, fills):
            return beta
        if starts >= fills and pulling < count:
            total += needs[pulling]
            pulling += 1
        elif saturated < pulling:
            total -= needs[saturated]
            saturated += 1
        else:  # only if a need is NaN
            return beta


def teach(params: EPABF, given: RuleInput, label: int, step: Vector) -> float:
    """Take the exact full-information step, as the label is known: a = 1, and r = y is no constraint."""
    exact_step(params, given, label, 1.0, step)
    return 1.0


RULE = Rule(
    name="epabf",
    paper="Arora and Manwani 2020",
    summary="Exact passive-aggressive steps on all classes at once",
    record=EPABF,
    decide=decide_epsilon_greedy,
    learn=learn,
    probabilities=epsilon_greedy_probabilities,
    teach=teach,
    examples=(
        {},
        {"variant": "PA", "exploration": 0.01},
        {"variant": "PA-II", "aggressiveness": 0.03},
        {"update": "stated"},
        {"update": "stated", "variant": "PA-II", "exploration": 0.2, "aggressiveness": 1.0},
        {"update": "stated", "variant": "PA", "exploration": 0.3},
        {"update": "others", "wrong": "played", "aggressiveness": 0.01},
        {"update": "others", "variant": "PA", "exploration": 0.2},
        {"update": "others", "variant": "PA-II", "wrong": "played"},
    ),
)
