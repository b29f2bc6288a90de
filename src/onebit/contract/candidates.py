"""Candidates: a round in which only some of the classes can be played.

Such a round is one with fewer classes. The loop gives a rule the scores of the n candidates, as there would be with n classes, and a
record that says n; labels are places in the list of the candidates; and the step that the rule takes is put where it belongs. So a rule
need not know: rivals, ties, 1/K, exploration and softmax are over the candidates, and the weights of all other classes stay as they are.

A rule whose heads are not those of its classes says how that is done (`Narrowing`), or looks at `given.candidates` itself.

Many lists are packed into one array: the first numbers, one a round and one more, say where the list of a round begins, times two, and
one more where the right class is known to be in it ("complete").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onebit.contract.rule import RuleInput, Vector

Labels = NDArray[np.int64]

ALL_CLASSES: Labels = np.zeros(0, dtype=np.int64)  # no list at all: every class can be played


class Narrowing(NamedTuple):
    """How a round with n of K classes becomes one with n classes.

    params(params, count)                      the record for so many classes
    gather(params, scores, candidates, out)    the scores that there would be
    scatter(params, step, candidates, out)     the step at its place among all heads, 0 at the others
    """

    params: Callable[[Any, int], Any]
    gather: Callable[[Any, Vector, Labels, Vector], None]
    scatter: Callable[[Any, Vector, Labels, Vector], None]


def gather_heads(params: Any, scores: Vector, candidates: Labels, out: Vector) -> None:
    """One score for each class."""
    for place in range(candidates.shape[0]):
        out[place] = scores[candidates[place]]


def scatter_heads(params: Any, step: Vector, candidates: Labels, out: Vector) -> None:
    """One number of a step for each class."""
    for label in range(params.classes):
        out[label] = 0.0
    for place in range(candidates.shape[0]):
        out[candidates[place]] = step[place]


def gather_moments(params: Any, scores: Vector, candidates: Labels, out: Vector) -> None:
    """A score and a variance for each class; behind them, where one matrix is over all classes, the covariances of their scores."""
    classes, count = params.classes, candidates.shape[0]
    for place in range(count):
        out[place] = scores[candidates[place]]
        out[count + place] = scores[classes + candidates[place]]
    if scores.shape[0] >= classes * (2 + classes):
        for place in range(count):
            for other in range(count):
                covariance = scores[(2 + candidates[place]) * classes + candidates[other]]
                out[(2 + place) * count + other] = covariance


def scatter_moments(params: Any, step: Vector, candidates: Labels, out: Vector) -> None:
    """A step and new evidence for each class."""
    for index in range(2 * params.classes):
        out[index] = 0.0
    for place in range(candidates.shape[0]):
        out[candidates[place]] = step[place]
        out[params.classes + candidates[place]] = step[candidates.shape[0] + place]


def copy_all(params: Any, numbers: Vector, candidates: Labels, out: Vector) -> None:
    """For rules that look at the candidates themselves: all numbers as they are."""
    for index in range(min(numbers.shape[0], out.shape[0])):
        out[index] = numbers[index]


def same_params(params: Any, count: int) -> Any:
    """For rules that look at the candidates themselves: the record as it is."""
    return params


AS_IT_IS = Narrowing(same_params, copy_all, copy_all)


def fewer_classes(record: type[Any]) -> Callable[[Any, int], Any]:
    """What makes a record with fewer classes, which are its first field."""

    def narrowed(params: Any, count: int) -> Any:
        return record(count, *params[1:])

    return narrowed


def narrowing_of_heads(record: type[Any], second_order: bool) -> Narrowing:
    """How it is done for rules with one head a class."""
    if second_order:
        return Narrowing(fewer_classes(record), gather_moments, scatter_moments)
    return Narrowing(fewer_classes(record), gather_heads, scatter_heads)


def place_of(candidates: Labels, label: int) -> int:
    """The place of a class among the candidates; -1 where it is none of them."""
    for place in range(candidates.shape[0]):
        if candidates[place] == label:
            return place
    return -1


def class_at(given: RuleInput, place: int) -> int:
    """The class at a place among the candidates, or the class itself where there is no list."""
    return int(given.candidates[place]) if given.candidates.shape[0] > 0 else place


def how_many(given: RuleInput, classes: int) -> int:
    """How many classes can be played."""
    return int(given.candidates.shape[0]) if given.candidates.shape[0] > 0 else classes


def pack_candidates(sets: Sequence[Iterable[int]], complete: bool | Sequence[bool] = False) -> Labels:
    """Many lists of candidates in one array.

    >>> pack_candidates([[0, 2], [1]], complete=True).tolist()
    [7, 11, 12, 0, 2, 1]
    >>> [candidates_at(pack_candidates([[0, 2], [1]]), row).tolist() for row in (0, 1)]
    [[0, 2], [1]]
    """
    listed = [np.asarray(list(one), dtype=np.int64) for one in sets]
    sizes = np.array([len(one) for one in listed], dtype=np.int64)
    return pack_lists(np.concatenate([ALL_CLASSES, *listed]), sizes, complete)


def pack_lists(labels: Labels, sizes: Labels, complete: bool | Sequence[bool] = False) -> Labels:
    """The same of lists that stand one after the other, with the length of each."""
    rounds = len(sizes)
    begins = np.concatenate([[0], np.cumsum(sizes)]) + rounds + 1
    packed_begins = 2 * begins
    packed_begins[:rounds] += np.asarray(complete, dtype=np.int64)
    return np.concatenate([packed_begins, labels]).astype(np.int64)


def candidates_at(among: Labels, row: int) -> Labels:
    """The candidates of a round."""
    return among[among[row] >> 1 : among[row + 1] >> 1]


def is_complete_at(among: Labels, row: int) -> bool:
    """Whether the right class is known to be one of them."""
    return bool(among[row] & 1)


def count_lists(among: Labels) -> int:
    """How many lists there are."""
    return 0 if len(among) == 0 else int(among[0] >> 1) - 1


def repack_list(among: Labels, row: int) -> Labels:
    """The list of one round, packed by itself."""
    return pack_candidates([candidates_at(among, row)], is_complete_at(among, row)) if len(among) else ALL_CLASSES
