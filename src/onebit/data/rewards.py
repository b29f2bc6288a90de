"""Rewards: what each class is worth in each row, from 0 to 1. The label of a row is the class that is worth most there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.candidates import CandidateSets
from onebit.data.listed_candidates import listed_candidates
from onebit.data.tables import Dataset, matched, refuse_unmatched
from onebit.errors import InputError, brief
from onebit.features import refuse_what_is_no_table
from onebit.frames import is_frame, names_of, narwhals_frame
from onebit.validation import ClassName, checked_classes

SCALE = (
    "rewards go from 0 to 1: scale them, (r - lowest) / (highest - lowest), or 1 - cost / highest where they are costs"
)
REWARD = (
    "a number from 0 to 1, such as 0.5: no text, no percent, no decimal comma"  # what is no number should have been
)


def refuse_out_of_range(rewards: NDArray[np.float64], said: Callable[[int, int], str]) -> None:
    """Refuse rewards below 0, above 1 or not finite; `said` names one by its row and its column: "rewards['a'] in row 3"."""
    fits = (rewards >= 0.0) & (rewards <= 1.0)
    if fits.all():
        return
    row, column = (int(place) for place in np.argwhere(~fits)[0])
    raise InputError(f"{said(row, column)} is {brief(float(rewards[row, column]))}, but {SCALE}")


def given_rewards(
    given: Any, classes: Iterable[ClassName] | None, what: str = "rewards"
) -> tuple[NDArray[np.float64], tuple[ClassName, ...]]:
    """A matrix with a row for each row and a column for each class, and these: those given, a frame's columns, or 0, 1, and so on."""
    if is_frame(given):
        columns = names_of(given)
        classes = columns if classes is None else checked_classes(classes)
        if columns is not None and set(columns) != set(classes or ()):
            raise InputError(
                f"{what} has the columns {brief(list(columns))}, but must have one for each of the classes {brief(list(classes or ()))}"
            )
        given = narwhals_frame(given).to_numpy()
        if columns is not None:
            given = given[:, [columns.index(str(name)) for name in classes or ()]]
    try:
        rewards = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        _refuse_cell(given, classes, what)
        raise InputError(
            f"{what} is {brief(given)}, but must be a matrix of numbers, a column for each class"
        ) from None
    if rewards.ndim != 2:
        raise InputError(f"{what} has shape {rewards.shape}, but must be a matrix with a column for each class")
    known = checked_classes(rewards.shape[1] if classes is None else classes)
    if len(known) != rewards.shape[1]:
        raise InputError(f"{what} has {rewards.shape[1]} columns, but there are {len(known)} classes")
    refuse_out_of_range(rewards, lambda row, column: f"{what} of {brief(known[column])} in row {row}")
    return np.ascontiguousarray(rewards), known


def _refuse_cell(given: Any, classes: Iterable[ClassName] | None, what: str) -> None:
    """Refuse the first cell of a matrix that is no number, with its row and its class."""
    try:
        cells = np.asarray(given, dtype=object)
    except ValueError:  # rows of unlike lengths
        return
    if cells.ndim != 2:
        return
    names = [] if classes is None else list(classes)
    for (row, column), cell in np.ndenumerate(cells):
        try:
            float(cell)
        except (TypeError, ValueError):
            name = names[column] if len(names) == cells.shape[1] else column
            raise InputError(f"{what} of {brief(name)} in row {row} is {brief(cell)}, but must be {REWARD}") from None


def rewarded(
    X: Any,
    given: Any,
    classes: Iterable[ClassName] | None,
    candidates: Any = None,
    what: tuple[str, str] = ("rewards", "candidates"),
) -> Dataset:
    """Rows with rewards, from which the labels follow; `what` is what rewards and candidates are called in a sentence."""
    rewards, known = given_rewards(given, classes, what[0])
    sets = None if candidates is None else listed_candidates(candidates, len(rewards), known, None, what[1])
    refuse_what_is_no_table(X)
    refuse_unmatched(X, f"rewards for {len(rewards)}", len(rewards))
    data = matched(X, most_rewarded(rewards, sets), known)
    return replace(data, rewards=rewards, candidates=sets)


def best_constant(rewards: NDArray[np.float64]) -> tuple[int, float]:
    """The class with the highest mean reward over these rows, and that: what always naming one class would get.

    >>> best_constant(np.array([[0.25, 0.5], [1.0, 0.0]]))
    (0, 0.625)
    """
    means = rewards.mean(axis=0)
    best = int(means.argmax())
    return best, float(means[best])


def most_rewarded(rewards: NDArray[np.float64], sets: CandidateSets | None = None) -> NDArray[np.int64]:
    """The class with the largest reward in each row, the first of equals; among its candidates where there are such.

    >>> most_rewarded(np.array([[0.2, 0.5, 0.5], [1.0, 0.0, 0.3]])).tolist()
    [1, 0]
    """
    if sets is None:
        best_of_all: NDArray[np.int64] = rewards.argmax(axis=1)
        return best_of_all
    owners = sets.owners
    values = rewards[owners, sets.members]
    best: NDArray[np.float64] = np.maximum.reduceat(values, sets.starts[:-1])
    at_best = np.flatnonzero(values == best[owners])
    first: NDArray[np.int64] = sets.members[at_best[np.unique(owners[at_best], return_index=True)[1]]]
    return first
