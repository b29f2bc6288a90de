"""Conservative one-vs-all with passive-aggressive learners: no exploration, steps only where certain.

Chen, Chen, Zhang, Chen and Zhang, "Beyond Banditron: A Conservative and Efficient Reduction for Online Multiclass Prediction
with Bandit Setting Model", ICDM 2009. Binary learners f_s = w_s.x over a coding matrix M in {-1, 0, 1}^(K x l).

    play the decoded label (one-vs-all: the largest f)
    right: every column s with M(played, s) != 0 steps towards it
    wrong: every column that "not the played class" determines steps that way (one-vs-all: f_played towards -1)

    binary step: l = [1 - z f]_+,   tau = l/n  |  min(C, l/n)  |  l/(n + 1/(2C)),   w += z tau x

For one-vs-all, loss-based decoding with the hinge is exactly the largest score. All pairs determine nothing when wrong, for
three classes or more: `strict` then learns nothing (and stays at chance), `lenient` moves every column that no other class
contradicts, which is the one to use. Time and memory O(l d).

Fast and strong where rows have norm one and classes a margin (MNIST 14 %, C = 1); on data without a margin use a small C
(SynSep10: 82 % at C = 1, 35 % at 0.001, and 16 % at 0.001 with all pairs). Theorem 2 of the paper is false: the rule can lock in on a
class whose score stays highest at -1 or below. `guess_if_all_negative` removes that trap and costs exploration.

Departure: with two classes both columns of one-vs-all are determined by a wrong answer, and both learn. Algorithm 1 of the paper, as
printed, moves that of the played class alone: `wrong=played`, which differs for two classes only.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, NamedTuple

import numpy as np

from onebit.contract.belief import best_rival, class_contrast
from onebit.contract.candidates import Labels, Narrowing, class_at, copy_all, gather_heads, scatter_heads
from onebit.contract.choices import count_at_least, fill, greedy_label, share_greedy, uniform_label
from onebit.contract.parameters import Flag, OneOf, Real
from onebit.contract.rule import OWN, Choice, Contrast, Matrix, Rule, RuleInput, Vector
from onebit.contract.steps import Variant, binary_step, hinge
from onebit.errors import InputError, brief


class Coding(IntEnum):
    """How classes are told apart by binary learners."""

    ONE_VS_ALL = 0
    ALL_PAIRS = 1
    MATRIX = 2


class Decoding(IntEnum):
    """How the binary answers determine a class."""

    LOSS = 0
    HAMMING = 1


class WrongColumns(IntEnum):
    """Which columns a wrong answer moves."""

    STRICT = 0
    LENIENT = 1
    PLAYED = 2


class ConservativeOVA(NamedTuple):
    classes: int
    variant: Annotated[int, OneOf(Variant, "how the aggressiveness limits a step")] = Variant.PA_I
    aggressiveness: Annotated[float, Real("(0, inf)", "C, the largest step of PA-I, the damping of PA-II")] = 1.0
    coding: Annotated[
        int, OneOf(Coding, "the binary learners; in place of a name, a K x l matrix in {-1, 0, 1}", Coding.MATRIX)
    ] = Coding.ONE_VS_ALL
    decoding: Annotated[int, OneOf(Decoding, "how their answers name a class")] = Decoding.LOSS
    wrong: Annotated[
        int,
        OneOf(
            WrongColumns,
            "wrong moves the columns it determines, all it does not contradict, or that of the played class (one-vs-all only)",
        ),
    ] = WrongColumns.LENIENT
    guess_if_all_negative: Annotated[int, Flag("guess if every score is negative; one-vs-all only")] = 0
    columns: int = 0


def prepare(params: ConservativeOVA, options: Mapping[str, object]) -> tuple[ConservativeOVA, tuple[float, ...]]:
    """Set the number of columns, and put a coding matrix into the memory; check the options."""
    if params.guess_if_all_negative and params.coding != Coding.ONE_VS_ALL:
        raise InputError("guess_if_all_negative is for the coding one-vs-all only")
    if params.wrong == WrongColumns.PLAYED and params.coding != Coding.ONE_VS_ALL:
        raise InputError("wrong=played is for the coding one-vs-all only: with others a class has no column of its own")
    if params.coding == Coding.MATRIX:
        matrix = checked_matrix(options["coding"], params.classes)
        return params._replace(columns=matrix.shape[1]), tuple(matrix.ravel().tolist())
    pairs = params.classes * (params.classes - 1) // 2
    return params._replace(columns=pairs if params.coding == Coding.ALL_PAIRS else params.classes), ()


def checked_matrix(coding: object, classes: int) -> Matrix:
    """Return the coding matrix as numbers; raise InputError if it is not valid."""
    try:
        matrix = np.asarray(coding, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = np.zeros(0)
    if matrix.ndim != 2 or matrix.shape[1] == 0 or not np.isin(matrix, (-1.0, 0.0, 1.0)).all():
        raise InputError(f"coding is {brief(coding)}, but must be one-vs-all, all-pairs or a matrix of -1, 0 and 1")
    if matrix.shape[0] != classes:
        raise InputError(f"the coding matrix has {matrix.shape[0]} rows, but there are {classes} classes")
    for column in range(matrix.shape[1]):
        if not matrix[:, column].any():
            raise InputError(f"column {column} of the coding matrix is 0 for every class and tells nothing apart")
    if len({tuple(code) for code in matrix.tolist()}) < classes:
        raise InputError("two classes have the same code in the coding matrix and cannot be told apart")
    return matrix


def fewer_classes(params: ConservativeOVA, count: int) -> ConservativeOVA:
    """Return the record for fewer classes, with their columns only; a coding matrix keeps all columns."""
    columns = params.columns
    if params.coding == Coding.ONE_VS_ALL:
        columns = count
    elif params.coding == Coding.ALL_PAIRS:
        columns = count * (count - 1) // 2
    return ConservativeOVA(count, *params[1:-1], columns)


def gather(params: ConservativeOVA, scores: Vector, candidates: Labels, out: Vector) -> None:
    """Write the candidates' scores: one per class, one per pair, or all columns, by coding."""
    if params.coding == Coding.ONE_VS_ALL:
        gather_heads(params, scores, candidates, out)
    elif params.coding == Coding.MATRIX:
        copy_all(params, scores, candidates, out)
    else:
        for second in range(candidates.shape[0]):
            for first in range(second):
                out[pair_column(first, second)] = scores[pair_column(candidates[first], candidates[second])]


def scatter(params: ConservativeOVA, step: Vector, candidates: Labels, out: Vector) -> None:
    """Write the steps of these columns, and 0 for all others."""
    if params.coding == Coding.ONE_VS_ALL:
        scatter_heads(params, step, candidates, out)
    elif params.coding == Coding.MATRIX:
        copy_all(params, step, candidates, out)
    else:
        fill(out, params.columns, 0.0)
        for second in range(candidates.shape[0]):
            for first in range(second):
                out[pair_column(candidates[first], candidates[second])] = step[pair_column(first, second)]


def heads(params: ConservativeOVA) -> int:
    """Return the number of weight vectors, one for each column."""
    return params.columns


def sign_of(value: float) -> float:
    """Return -1, 0 or 1."""
    if value == 0.0:
        return 0.0
    return 1.0 if value > 0.0 else -1.0


def distance(decoding: int, agreement: float) -> float:
    """Return how far a column is from a class, given M f: its hinge, or half of 1 minus its sign."""
    if decoding == Decoding.LOSS:
        return hinge(agreement)
    return 0.5 * (1.0 - sign_of(agreement))


def pair_column(label: int, rival: int) -> int:
    """Return the column of a pair of classes."""
    first, second = min(label, rival), max(label, rival)
    return second * (second - 1) // 2 + first


def pair_side(label: int, rival: int) -> float:
    """Return the side on which a class wants the column of its pair with another.

    The first of the two wants it up, the second down.
    """
    return 1.0 if label < rival else -1.0


def decode(params: ConservativeOVA, given: RuleInput, first: int, apart: int) -> None:
    """Write into `work[0]` how close each class is to the binary answers; the closest is played."""
    scores, closeness = given.scores, given.work[0]
    if params.coding == Coding.ONE_VS_ALL:
        # The distance is a constant plus a strictly decreasing function of the class's own score, or of its sign.
        for label in range(first, params.classes, apart):
            closeness[label] = scores[label] if params.decoding == Decoding.LOSS else sign_of(scores[label])
        return
    if params.coding == Coding.ALL_PAIRS:
        # The zero entries of a code cost the same for every class and drop out.
        for label in range(first, params.classes, apart):
            total = 0.0
            column = pair_column(0, label)  # the columns with this class second are contiguous
            for _ in range(label):
                total += distance(params.decoding, -scores[column])
                column += 1
            column += label
            for rival in range(label + 1, params.classes):
                total += distance(params.decoding, scores[column])
                column += rival
            closeness[label] = -total
        return
    for label in range(first, params.classes, apart):
        closeness[label] = 0.0
        for column in range(params.columns):
            entry = given.memory[OWN + class_at(given, label) * params.columns + column]
            closeness[label] -= distance(params.decoding, entry * scores[column])


def is_guess(params: ConservativeOVA, scores: Vector) -> bool:
    """Return True if every score is negative and the user wants a guess in that case."""
    return params.guess_if_all_negative == 1 and count_at_least(scores, params.classes, 0.0) == 0


def decide(params: ConservativeOVA, given: RuleInput) -> Choice:
    """Play the decoded class."""
    decode(params, given, 0, 1)
    greedy = greedy_label(given.work[0], params.classes, given.draws)
    if is_guess(params, given.scores):
        return Choice(uniform_label(params.classes, given.draws), greedy, 1.0 / params.classes, 0.0, 0.0)
    return Choice(greedy, greedy, 1.0, 0.0, 0.0)


def sign_when_right(params: ConservativeOVA, given: RuleInput, label: int, column: int) -> float:
    """Return M(label, column), the sign that this class wants the column to have."""
    if params.coding == Coding.ONE_VS_ALL:
        return 1.0 if column == label else -1.0
    return float(given.memory[OWN + class_at(given, label) * params.columns + column])


def sign_when_wrong(params: ConservativeOVA, given: RuleInput, label: int, column: int) -> float:
    """Return the sign that "not this class" wants the column to have.

    Strict: the sign that all others want. Lenient: a sign that no other class contradicts.
    """
    if params.coding == Coding.ONE_VS_ALL:
        if column == label:
            return -1.0
        return 1.0 if names_the_other(params, given) and params.wrong != WrongColumns.PLAYED else 0.0
    up, down, indifferent = False, False, False
    # If the right class need not be a candidate, it may be any other class.
    possible = params.classes if given.complete else (given.memory.shape[0] - OWN) // params.columns
    for index in range(possible):
        rival = class_at(given, index) if given.complete else index
        if rival != class_at(given, label):
            entry = given.memory[OWN + rival * params.columns + column]
            up = up or entry > 0.0
            down = down or entry < 0.0
            indifferent = indifferent or entry == 0.0
    if up == down or (indifferent and params.wrong == WrongColumns.STRICT):
        return 0.0
    return 1.0 if up else -1.0


def names_the_other(params: ConservativeOVA, given: RuleInput) -> bool:
    """Return True if "not this class" names the other one: one of two candidates is right."""
    return params.classes == 2 and given.complete


def move_columns(params: ConservativeOVA, given: RuleInput, label: int, right: bool, step: Vector) -> None:
    """Take a binary step on every column that "this class" or "not this class" determines."""
    if params.coding == Coding.ALL_PAIRS:
        move_pairs(params, given, label, right, step)
        return
    for column in range(params.columns):
        if right:
            sign = sign_when_right(params, given, label, column)
        else:
            sign = sign_when_wrong(params, given, label, column)
        step[column] = 0.0
        if sign != 0.0:
            step[column] = binary_step(params.variant, params.aggressiveness, given.scores[column], sign, given.sq_norm)


def move_pairs(params: ConservativeOVA, given: RuleInput, label: int, right: bool, step: Vector) -> None:
    """Take the binary steps for all pairs, of which only those of this class move.

    With `wrong=strict`, a wrong answer moves no pair unless only two candidates are left.
    """
    fill(step, params.columns, 0.0)
    if not right and params.wrong == WrongColumns.STRICT and not names_the_other(params, given):
        return
    for rival in range(params.classes):
        if rival != label:
            column = pair_column(label, rival)
            sign = pair_side(label, rival) if right else -pair_side(label, rival)
            step[column] = binary_step(params.variant, params.aggressiveness, given.scores[column], sign, given.sq_norm)


def learn(params: ConservativeOVA, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Learn what the feedback determines, and nothing else."""
    move_columns(params, given, choice.label, revealed == choice.label, step)
    return 1.0


def probabilities(params: ConservativeOVA, given: RuleInput, out: Vector) -> None:
    """Give all probability to the decoded label, shared equally among ties."""
    if is_guess(params, given.scores):
        fill(out, params.classes, 1.0 / params.classes)
        return
    decode(params, given, 0, 1)
    share_greedy(given.work[0], params.classes, 0.0, out)


def teach(params: ConservativeOVA, given: RuleInput, label: int, step: Vector) -> float:
    """Take a step on every column that the known label determines."""
    move_columns(params, given, label, True, step)
    return 1.0


def contrast(params: ConservativeOVA, memory: Vector, label: int, rival: int) -> Contrast | None:
    """Return the difference of two scores, or the score of the pair; None for decoding by a matrix.

    Decoding by a matrix takes hinges, which are not a sum of scores.
    """
    if params.coding == Coding.ALL_PAIRS:
        return ((pair_column(label, rival), pair_side(label, rival)),)
    return class_contrast(params, memory, label, rival) if params.coding == Coding.ONE_VS_ALL else None


def surety(params: ConservativeOVA, given: RuleInput, label: int) -> float:
    """Return how much closer the label's code is to the binary answers than that of any other class."""
    decode(params, given, 0, 1)
    return float(given.work[0, label]) - best_rival(given.work[0], params.classes, label)


RULE = Rule(
    name="conservative-ova",
    paper="Chen et al. 2009",
    summary="No exploration; every binary learner that the bit determines takes a passive-aggressive step",
    record=ConservativeOVA,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    surety=surety,
    weigh=decode,
    heads=heads,
    prepare=prepare,
    contrast=contrast,
    narrowing=Narrowing(fewer_classes, gather, scatter),
    examples=(
        {},
        {"variant": "PA", "guess_if_all_negative": True},
        {"variant": "PA-II", "decoding": "hamming"},
        {"coding": "all-pairs", "aggressiveness": 0.001},
        {"coding": "all-pairs", "wrong": "strict", "decoding": "hamming"},
    ),
)
