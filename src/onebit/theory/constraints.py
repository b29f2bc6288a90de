"""The separability constraints on the scores of rows, and the spaces in which scores are computed.

Constraints are arranged as (row, column) and numbered row by row. A constraint's value is linear in the scores of its row and in the
thresholds, and must be at least the margin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.installation import require
from onebit.contract.options import Options
from onebit.errors import InputError, OnebitError
from onebit.features.features import Features
from onebit.features.rows import squared_lengths
from onebit.spaces.kernels import LINEAR, Kernel
from onebit.spaces.sparse import SparseRows

if TYPE_CHECKING:
    from onebit.theory.programs import Solution

MOST_KERNEL_ROWS = 3_000  # limited by the eigendecomposition of the kernel matrix

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]


def import_extra(module: str) -> Any:
    """Import a module of the extra `theory`; raise MissingExtraError if it is not installed."""
    return require(module, "a margin", "theory")


def append_ones(table: Any) -> Any:
    """Return a table, dense or a SciPy CSR matrix, with a column of ones added."""
    ones = np.ones((table.shape[0], 1))
    if isinstance(table, np.ndarray):
        return np.hstack([table, ones])
    sparse = import_extra("scipy.sparse")
    return sparse.csr_array(sparse.hstack([table, ones]))


@dataclass(frozen=True)
class MarginRows:
    """A table in float64, dense or a SciPy CSR matrix."""

    values: Any
    longest: float  # length of the longest row

    @classmethod
    def read(cls, X: Any) -> MarginRows:
        """Convert user input; raise InputError unless it is a table of finite numbers."""
        features = Features(Options(dtype="float64"))
        features.fix_form(X)
        table = features.read_table(X)
        longest = float(np.sqrt(squared_lengths(table).max()))
        if not longest < 1e100:
            raise InputError(f"the longest row has length {longest:g}, which is too long to be squared; scale the rows")
        if not isinstance(table, SparseRows):
            return cls(table.values, longest)
        parts, shape = (table.values, table.columns, table.starts), (table.height, table.width)
        return cls(import_extra("scipy.sparse").csr_matrix(parts, shape=shape), longest)

    @property
    def height(self) -> int:
        return int(self.values.shape[0])

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    def with_constant(self) -> MarginRows:
        """Return every x as (x, 1)."""
        return MarginRows(append_ones(self.values), float(np.sqrt(self.longest**2 + 1.0)))

    def select(self, numbers: NDArray[Any]) -> MarginRows:
        """Return these rows; `longest` stays that of all rows, as margins are relative to it."""
        return MarginRows(self.values[numbers], self.longest)

    def scores(self, vectors: Numbers) -> Numbers:
        """Return <x, v> for every row and every vector."""
        return np.asarray(self.values @ vectors.T)

    def gram(self, numbers: Labels) -> Numbers:
        """Return the Gram matrix of the rows at the given indices."""
        rows = self.values[numbers]
        product = rows @ rows.T
        return np.asarray(product if isinstance(product, np.ndarray) else product.toarray())

    def combine(self, numbers: Labels, weights: Numbers) -> Numbers:
        """Return sums of these rows weighted by `weights` (rows, vectors), one vector per column."""
        return np.asarray((self.values[numbers].T @ weights).T)


@dataclass(frozen=True)
class LabelledRows:
    """Rows and their labels; in a kernel's space, also the kernel matrix of the rows.

    A kernel's space has too many dimensions for explicit vectors: there they are sums of rows. The eigenvectors of the kernel matrix give
    every row at most as many coordinates as there are rows, with the same dot products.
    """

    rows: MarginRows
    labels: Labels
    classes: int
    kernel: str | None = None
    matrix: Numbers | None = None

    @classmethod
    def read(cls, X: Any, labels: Labels, classes: int, bias: bool, kernel: str | None) -> LabelledRows:
        """Convert user input; raise InputError unless it is a table that is valid for this kernel."""
        rows = MarginRows.read(X)
        space = None if kernel is None else Kernel.read(kernel, rows.width)
        if space is None or space.code == LINEAR:
            return cls(rows.with_constant() if bias else rows, labels, classes)
        if rows.height > MOST_KERNEL_ROWS:
            raise InputError(
                f"{rows.height:,} rows are too many for a kernel, which takes at most {MOST_KERNEL_ROWS:,}: "
                f"use a sample, with rounds={MOST_KERNEL_ROWS} (--rounds {MOST_KERNEL_ROWS})"
            )
        dense = rows.values if isinstance(rows.values, np.ndarray) else rows.values.toarray()
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                matrix = space.matrix(dense, dense) + float(bias)
        except OnebitError as error:
            lengths = np.sqrt(np.square(dense).sum(axis=1))
            longest = int(lengths.argmax())
            raise InputError(f"row {longest} has length {lengths[longest]:g}; {error}") from None
        if not np.isfinite(matrix).all():
            raise InputError(f"the {space} kernel of these rows leaves the range of float64; scale the rows")
        values, vectors = np.linalg.eigh(matrix)
        is_significant = values > len(matrix) * np.finfo(np.float64).eps * values[-1]
        coordinates = np.ascontiguousarray(vectors[:, is_significant] * np.sqrt(values[is_significant]))
        return cls(
            MarginRows(coordinates, float(np.sqrt(matrix.diagonal().max()))), labels, classes, str(space), matrix
        )

    def vectors(self, solutions: Sequence[Solution | None], scales: Sequence[float]) -> Numbers:
        """Return the vectors of the solutions, each times its scale, stacked.

        A vector has coefficients for the columns, or in a kernel's space for the rows.
        """
        parts = []
        for solution, scale in zip(solutions, scales, strict=True):
            width = self.rows.width if self.matrix is None else self.rows.height
            vectors = np.zeros((1 if solution is None else len(solution.vectors), width))
            if solution is not None and self.matrix is None:
                vectors = scale * solution.vectors
            elif solution is not None:
                np.add.at(vectors.T, solution.rows, scale * solution.weights)
            parts.append(vectors)
        return np.vstack(parts)

    def scores(self, vectors: Numbers) -> tuple[Numbers, float]:
        """Return the scores of all rows and the sum of the squared lengths of the vectors.

        Both are computed from the original rows or the kernel matrix alone.
        """
        if self.matrix is None:
            return self.rows.scores(vectors), float(np.square(vectors).sum())
        scores = self.matrix @ vectors.T
        return scores, float((vectors.T * scores).sum())


@dataclass(frozen=True)
class Constraints(ABC):
    """The constraints of one program; which ones a row has depends on its label."""

    labels: Labels

    @property
    def columns(self) -> int:
        """The number of constraints per row."""
        return 1

    @abstractmethod
    def values(self, scores: Numbers, thresholds: Numbers) -> Numbers:
        """Return the value of every constraint (rows, columns); infinite where there is none."""

    @abstractmethod
    def coefficients(self, numbers: Labels, columns: Labels) -> tuple[Numbers, Numbers]:
        """Return the coefficients of these constraints for their row's scores and for the thresholds."""

    def best_thresholds(self, scores: Numbers) -> Numbers:
        """Return the best thresholds for these scores; empty if the constraints have no thresholds."""
        return np.zeros(0)

    def has_constraint(self, label: int, column: int) -> bool:
        """Return True if rows with this label have a constraint in this column."""
        return True

    def choose_initial(self, count: int) -> Labels:
        """Return about `count` constraints to start with, as row * columns + column.

        They cover every column, with evenly spaced rows of every label.
        """
        labels = np.unique(self.labels)
        rows_per_label = max(2, count // (len(labels) * self.columns))
        numbers = []
        for label in labels:
            rows = np.flatnonzero(self.labels == label)
            sample = rows[np.unique(np.linspace(0, len(rows) - 1, rows_per_label).astype(np.int64))]
            numbers += [
                sample * self.columns + column for column in range(self.columns) if self.has_constraint(label, column)
            ]
        return np.sort(np.concatenate(numbers))


class OneVersusRest(Constraints):
    """One class against all others: positive scores for rows with label 1, else negative ones.

    The boundary goes through the origin.
    """

    def values(self, scores: Numbers, thresholds: Numbers) -> Numbers:
        return np.where(self.labels[:, None] == 1, scores, -scores)

    def coefficients(self, numbers: Labels, columns: Labels) -> tuple[Numbers, Numbers]:
        return np.where(self.labels[numbers] == 1, 1.0, -1.0)[:, None], np.zeros((len(numbers), 0))


@dataclass(frozen=True)
class LabelLead(Constraints):
    """The score of a row's label leads all other scores."""

    heads: int

    @property
    def columns(self) -> int:
        return self.heads

    def has_constraint(self, label: int, column: int) -> bool:
        return label != column

    def values(self, scores: Numbers, thresholds: Numbers) -> Numbers:
        numbers = np.arange(len(scores))
        leads = scores[numbers, self.labels][:, None] - scores
        leads[numbers, self.labels] = np.inf
        return np.asarray(leads)

    def coefficients(self, numbers: Labels, columns: Labels) -> tuple[Numbers, Numbers]:
        unit = np.eye(self.heads)
        return unit[self.labels[numbers]] - unit[columns], np.zeros((len(numbers), 0))


@dataclass(frozen=True)
class LabelOrder(Constraints):
    """The labels lie in order along one score, with a threshold between neighbouring labels."""

    count: int

    @property
    def columns(self) -> int:
        return self.count - 1

    def has_constraint(self, label: int, column: int) -> bool:
        """Return True for the thresholds just below and just above the label."""
        return column in (label - 1, label)

    def values(self, scores: Numbers, thresholds: Numbers) -> Numbers:
        above = self.labels[:, None] > np.arange(self.columns)
        next_to = self.labels[:, None] - np.arange(self.columns) == above
        return np.where(next_to, np.where(above, 1.0, -1.0) * (scores - thresholds), np.inf)

    def coefficients(self, numbers: Labels, columns: Labels) -> tuple[Numbers, Numbers]:
        side = np.where(self.labels[numbers] > columns, 1.0, -1.0)
        return side[:, None], -side[:, None] * (columns[:, None] == np.arange(self.columns))

    def best_thresholds(self, scores: Numbers) -> Numbers:
        """Return the midpoints between the highest score of a label and the lowest of the next label."""
        score = scores[:, 0]
        highest = np.array([score[self.labels == label].max() for label in range(self.columns)])
        lowest = np.array([score[self.labels == label + 1].min() for label in range(self.columns)])
        return np.asarray(0.5 * (highest + lowest))
