"""Candidates: rounds in which only some of the classes can be played.

Such a round is one with fewer classes. The loop gives a rule the scores of the n candidates, as if there were n
classes, and a record that says n; labels are positions in the list of candidates; and the step that the rule takes
is scattered back to the right heads. So a rule need not know about candidates: rivals, ties, 1/K, exploration and
softmax are over the candidates, and the weights of all other classes are unchanged.

A rule whose heads do not correspond to classes defines its own `Narrowing`, or looks at `given.candidates` itself.

Many lists are packed into one array. It begins with one number for each round and one more: twice the position at
which the round's list begins, plus 1 if the right class is known to be in the list ("complete").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onebit.contract.rule import RuleInput, Vector

Labels = NDArray[np.int64]

ALL_CLASSES: Labels = np.zeros(0, dtype=np.int64)  # an empty list: every class can be played


class Narrowing(NamedTuple):
    """The functions that turn a round with n of K classes into one with n classes.

    params(params, count)                      return the record for `count` classes
    gather(params, scores, candidates, out)    write the scores of the candidates
    scatter(params, step, candidates, out)     write the step to the candidates' heads, and 0 to the others
    """

    params: Callable[[Any, int], Any]
    gather: Callable[[Any, Vector, Labels, Vector], None]
    scatter: Callable[[Any, Vector, Labels, Vector], None]


def gather_heads(params: Any, scores: Vector, candidates: Labels, out: Vector) -> None:
    """Copy the candidates' scores, one for each class."""
    for position in range(candidates.shape[0]):
        out[position] = scores[candidates[position]]


def scatter_heads(params: Any, step: Vector, candidates: Labels, out: Vector) -> None:
    """Write a step to the candidates' heads, one for each class, and 0 to the others."""
    for label in range(params.classes):
        out[label] = 0.0
    for position in range(candidates.shape[0]):
        out[candidates[position]] = step[position]


def gather_moments(params: Any, scores: Vector, candidates: Labels, out: Vector) -> None:
    """Copy a score and a variance for each candidate.

    If one matrix covers all classes, the covariances of the scores follow.
    """
    classes, count = params.classes, candidates.shape[0]
    for position in range(count):
        out[position] = scores[candidates[position]]
        out[count + position] = scores[classes + candidates[position]]
    if scores.shape[0] >= classes * (2 + classes):
        for position in range(count):
            for second in range(count):
                covariance = scores[(2 + candidates[position]) * classes + candidates[second]]
                out[(2 + position) * count + second] = covariance


def scatter_moments(params: Any, step: Vector, candidates: Labels, out: Vector) -> None:
    """Write a step and new evidence to the candidates' heads, and 0 to the others."""
    for index in range(2 * params.classes):
        out[index] = 0.0
    for position in range(candidates.shape[0]):
        out[candidates[position]] = step[position]
        out[params.classes + candidates[position]] = step[candidates.shape[0] + position]


def copy_all(params: Any, numbers: Vector, candidates: Labels, out: Vector) -> None:
    """Copy all numbers unchanged, for rules that look at the candidates themselves."""
    for index in range(min(numbers.shape[0], out.shape[0])):
        out[index] = numbers[index]


def same_params(params: Any, count: int) -> Any:
    """Return the record unchanged, for rules that look at the candidates themselves."""
    return params


NO_NARROWING = Narrowing(same_params, copy_all, copy_all)


def fewer_classes(record: type[Any]) -> Callable[[Any, int], Any]:
    """Return a function that replaces the number of classes, the first field of a record."""

    def replace_count(params: Any, count: int) -> Any:
        return record(count, *params[1:])

    return replace_count


def narrowing_of_heads(record: type[Any], second_order: bool) -> Narrowing:
    """Return the narrowing for rules with one head per class."""
    if second_order:
        return Narrowing(fewer_classes(record), gather_moments, scatter_moments)
    return Narrowing(fewer_classes(record), gather_heads, scatter_heads)


def place_of(candidates: Labels, label: int) -> int:
    """Return the position of a class among the candidates; -1 if it is not one of them."""
    for position in range(candidates.shape[0]):
        if candidates[position] == label:
            return position
    return -1


def class_at(given: RuleInput, position: int) -> int:
    """Return the class at a position among the candidates; the position itself if there is no list."""
    return int(given.candidates[position]) if given.candidates.shape[0] > 0 else position


def count_playable(given: RuleInput, classes: int) -> int:
    """Return the number of classes that can be played."""
    return int(given.candidates.shape[0]) if given.candidates.shape[0] > 0 else classes


def pack_candidates(sets: Sequence[Iterable[int]], complete: bool | Sequence[bool] = False) -> Labels:
    """Pack many lists of candidates into one array.

    >>> pack_candidates([[0, 2], [1]], complete=True).tolist()
    [7, 11, 12, 0, 2, 1]
    >>> [candidates_at(pack_candidates([[0, 2], [1]]), row).tolist() for row in (0, 1)]
    [[0, 2], [1]]
    """
    lists = [np.asarray(list(candidates), dtype=np.int64) for candidates in sets]
    sizes = np.array([len(candidates) for candidates in lists], dtype=np.int64)
    return pack_lists(np.concatenate([ALL_CLASSES, *lists]), sizes, complete)


def pack_lists(labels: Labels, sizes: Labels, complete: bool | Sequence[bool] = False) -> Labels:
    """Pack concatenated lists of candidates; `sizes` has the length of each."""
    rounds = len(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)]) + rounds + 1
    packed_starts = 2 * starts
    packed_starts[:rounds] += np.asarray(complete, dtype=np.int64)
    return np.concatenate([packed_starts, labels]).astype(np.int64)


def candidates_at(among: Labels, row: int) -> Labels:
    """Return the candidates of a round."""
    return among[among[row] >> 1 : among[row + 1] >> 1]


def is_complete_at(among: Labels, row: int) -> bool:
    """Return True if the right class is known to be among a round's candidates."""
    return bool(among[row] & 1)


def count_lists(among: Labels) -> int:
    """Return the number of lists in a packed array."""
    return 0 if len(among) == 0 else int(among[0] >> 1) - 1


def repack_list(among: Labels, row: int) -> Labels:
    """Return the candidates of one round as a packed array of their own."""
    return pack_candidates([candidates_at(among, row)], is_complete_at(among, row)) if len(among) else ALL_CLASSES
