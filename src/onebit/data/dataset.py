"""Labelled rows, the common result of all data sources, with optional rewards and candidates.

Rewards are from 0 to 1. Where they are given, the label of a row is the class with the highest reward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName, checked_classes, join_names
from onebit.data.candidate_sets import CandidateSets, read_candidates
from onebit.errors import InputError, brief
from onebit.features.features import require_table
from onebit.features.frames import NamedRows, Names, is_frame, read_column_names, read_named_rows, wrap_frame
from onebit.features.rows import checked_csr, is_sparse


@dataclass(frozen=True)
class Csr:
    """A sparse matrix in CSR form, with attributes named as in SciPy."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Dataset:
    """Rows, their labels as class indices, and the names of the classes."""

    X: Any
    y: NDArray[np.int64]
    classes: tuple[ClassName, ...]
    names: Names | None = None  # of the columns, if learners are to know them by name
    candidates: CandidateSets | None = None  # of each row, if they are listed
    rewards: NDArray[np.float64] | None = None  # of each row and class, if there is more than right and wrong

    @property
    def given(self) -> Any:
        """The rows in the form a learner takes, with column names if there are any."""
        return self.X if self.names is None else NamedRows(self.X, self.names)

    @property
    def rows(self) -> int:
        return len(self.y)

    def with_candidates(self, given: Any, subject: str = "candidates") -> Dataset:
        """Return a copy with candidates for each row, which must include the label.

        `subject` names the candidates in messages.
        """
        return replace(self, candidates=read_candidates(given, self.rows, self.classes, self.y, subject))


class Answers(NamedTuple):
    """What is right in each row: labels as class indices, the classes, and any rewards and candidates."""

    y: NDArray[np.int64]
    classes: tuple[ClassName, ...]
    rewards: NDArray[np.float64] | None = None
    candidates: CandidateSets | None = None

    def refuse_unmatched(self, X: Any) -> None:
        """Raise InputError unless X has as many rows."""
        rows = int(X.shape[0]) if hasattr(X, "shape") else len(X)
        if rows != len(self.y):
            count = f"{len(self.y)} labels" if self.rewards is None else f"rewards for {len(self.y)}"
            raise InputError(f"there are {rows} rows and {count}")


def make_dataset(X: Any, answers: Answers) -> Dataset:
    """Return a data set from rows and what is right in them.

    Values and column names are extracted from frames. Raise InputError if there are no rows, or not as many as answers.
    """
    require_table(X)
    names = None
    if is_frame(X):
        named = read_named_rows(X)
        X, names = named.values, named.names
    elif is_sparse(X):
        csr = checked_csr(X)
        X = Csr(csr.values, csr.columns, csr.starts, (csr.height, csr.width))
    answers.refuse_unmatched(X)
    if len(answers.y) == 0:
        raise InputError("there are no rows")
    return Dataset(X, answers.y, answers.classes, names, answers.candidates, answers.rewards)


SCALE = "rewards must be from 0 to 1: scale them as (r - lowest) / (highest - lowest), or costs as 1 - cost / highest"
REWARD = "a number from 0 to 1, such as 0.5, without text, percent sign or decimal comma"  # for an error message


def refuse_out_of_range(rewards: NDArray[np.float64], describe: Callable[[int, int], str]) -> None:
    """Raise InputError for rewards that are not from 0 to 1.

    `describe` names a reward by its row and column in messages: "rewards['a'] in row 3".
    """
    is_valid = (rewards >= 0.0) & (rewards <= 1.0)
    if is_valid.all():
        return
    row, column = (int(index) for index in np.argwhere(~is_valid)[0])
    raise InputError(f"{describe(row, column)} is {brief(float(rewards[row, column]))}, but {SCALE}")


def read_rewards(
    given: Any, classes: Iterable[ClassName] | None, subject: str = "rewards"
) -> tuple[NDArray[np.float64], tuple[ClassName, ...]]:
    """Return rewards as a matrix with one column per class, and the classes.

    The classes are those given, else the columns of a frame, else 0, 1, ...
    """
    if is_frame(given):
        columns = read_column_names(given)
        classes = columns if classes is None else checked_classes(classes)
        if columns is not None and set(columns) != set(classes or ()):
            raise InputError(
                f"{subject} has the columns {brief(list(columns))}, but must have one for each of the classes {brief(list(classes or ()))}"
            )
        given = wrap_frame(given).to_numpy()
        if columns is not None:
            given = given[:, [columns.index(str(name)) for name in classes or ()]]
    try:
        rewards = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        _refuse_cell(given, classes, subject)
        raise InputError(
            f"{subject} is {brief(given)}, but must be a matrix of numbers, a column for each class"
        ) from None
    if rewards.ndim != 2:
        raise InputError(f"{subject} has shape {rewards.shape}, but must be a matrix with a column for each class")
    known = checked_classes(rewards.shape[1] if classes is None else classes)
    if len(known) != rewards.shape[1]:
        raise InputError(f"{subject} has {rewards.shape[1]} columns, but there are {len(known)} classes")
    refuse_out_of_range(rewards, lambda row, column: f"{subject} of {brief(known[column])} in row {row}")
    return np.ascontiguousarray(rewards), known


def _refuse_cell(given: Any, classes: Iterable[ClassName] | None, subject: str) -> None:
    """Raise InputError for the first cell of a matrix that is not a number, with its row and class."""
    try:
        cells = np.asarray(given, dtype=object)
    except ValueError:  # rows of different lengths
        return
    if cells.ndim != 2:
        return
    names = [] if classes is None else list(classes)
    for (row, column), cell in np.ndenumerate(cells):
        try:
            float(cell)
        except (TypeError, ValueError):
            name = names[column] if len(names) == cells.shape[1] else column
            raise InputError(
                f"{subject} of {brief(name)} in row {row} is {brief(cell)}, but must be {REWARD}"
            ) from None


def reward_answers(
    given: Any,
    classes: Iterable[ClassName] | None,
    candidates: Any = None,
    subject: tuple[str, str] = ("rewards", "candidates"),
) -> Answers:
    """Return the answers that follow from the rewards, and candidates, of each row.

    `subject` holds the names of rewards and candidates in messages.
    """
    rewards, known = read_rewards(given, classes, subject[0])
    sets = None if candidates is None else read_candidates(candidates, len(rewards), known, None, subject[1])
    return Answers(most_rewarded(rewards, sets), known, rewards, sets)


def best_constant(rewards: NDArray[np.float64]) -> tuple[int, float]:
    """Return the class with the highest mean reward over all rows, and that mean.

    >>> best_constant(np.array([[0.25, 0.5], [1.0, 0.0]]))
    (0, 0.625)
    """
    means = rewards.mean(axis=0)
    best = int(means.argmax())
    return best, float(means[best])


def most_rewarded(rewards: NDArray[np.float64], sets: CandidateSets | None = None) -> NDArray[np.int64]:
    """Return the class with the largest reward in each row, the first in case of ties.

    If candidate sets are given, only the candidates of the row are considered.

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


# --- descriptions of rows in words ------------------------------------------------------------------------------------

_ORDERS = {"file": "in the order of the file", "shuffle": "shuffled", "resample": "drawn with replacement"}


def describe_rows(data: Dataset, order: str, candidates: int) -> str:
    """Describe rows, features, classes, order and the best constant choice in one sentence.

    `candidates` is the number of candidates drawn in each round, 0 if none are.
    """
    shape: tuple[int, ...] = getattr(data.X, "shape", (data.rows,))
    width = f", {shape[1]:,} features" if len(shape) == 2 else ""
    description = (
        f"{data.rows:,} rows{width}, {len(data.classes)} classes ({join_names(data.classes)}), {_ORDERS[order]}"
    )
    if candidates or data.candidates is not None:
        sizes = np.array([candidates]) if data.candidates is None else data.candidates.sizes
        least, most = int(sizes.min()), int(sizes.max())
        count = f"{least} to {most}" if least < most else str(least)
        return f"{description}; {count} candidate{'' if most == 1 else 's'} in each round"
    if data.rewards is not None:
        best, mean = best_constant(data.rewards)
        return f"{description}; always naming {brief(data.classes[best])} has a mean reward of {mean:.3f}"
    share = np.bincount(data.y, minlength=len(data.classes)).max() / data.rows
    return f"{description}; always naming the most frequent class has an error of {100 * (1 - share):.1f} %"


FAR = 6.0  # standard deviations below the mean: a chance of 10^-9 in a random order
FEW = 0.8  # of the expected runs: with many rows, small and harmless deviations are significant too


class RunsTest(NamedTuple):
    """The number of runs of equal labels, and its mean and deviation under a random order."""

    runs: int
    mean: float
    deviation: float

    @property
    def are_long(self) -> bool:
        """True if runs are so few, and so long, that the order of the rows reveals labels."""
        return self.runs < self.mean - FAR * self.deviation and self.runs < FEW * self.mean


def describe_long_runs(labels: NDArray[Any]) -> str:
    """Return a warning about errors measured in this order if runs of equal labels are long, else ""."""
    test = runs_test(labels)
    if not test.are_long:
        return ""
    return (
        f"equal labels stand together in the file ({test.runs:,} runs of them, where a random order has about {test.mean:,.0f}): the error "
        "holds for this order, in which repeating the last class is often right; order shuffle gives the error on new rows"
    )


def runs_test(labels: NDArray[Any]) -> RunsTest:
    """Count runs of equal labels and compare their number with that of a random order.

    >>> runs_test(np.array([0, 0, 0, 1, 1, 1]))
    RunsTest(runs=2, mean=4.0, deviation=1.0954451150103321)
    """
    n = float(len(labels))
    if n < 2:
        return RunsTest(len(labels), n, 0.0)
    counts = np.unique(labels, return_counts=True)[1].astype(float)
    squares, cubes = float((counts**2).sum()), float((counts**3).sum())
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n * n * (n - 1))
    runs = 1 + int(np.count_nonzero(labels[1:] != labels[:-1]))
    return RunsTest(runs, (n * (n + 1) - squares) / n, float(np.sqrt(max(0.0, variance))))
