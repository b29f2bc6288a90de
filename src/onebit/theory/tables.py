"""Labelled rows as coordinates, in the plain space or in a kernel's, and what is certified on them.

A kernel's space has too many dimensions for vectors: there they are sums of rows. The eigenvectors of the matrix of kernel values
give every row as many coordinates as there are rows, at most, with the same dot products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onebit.errors import InputError, OnebitError
from onebit.spaces.kernels import LINEAR, Kernel
from onebit.theory.constraints import Labels, MarginRows, Numbers
from onebit.theory.programs import Solution

MOST_KERNEL_ROWS = 3_000  # the matrix of their kernel values is taken apart


@dataclass(frozen=True)
class LabelledRows:
    """Rows, their labels, and in a kernel's space the matrix that the coordinates of the rows come from."""

    rows: MarginRows
    labels: Labels
    classes: int
    kernel: str | None = None
    matrix: Numbers | None = None

    @classmethod
    def read(cls, X: Any, labels: Labels, classes: int, bias: bool, kernel: str | None) -> LabelledRows:
        """From what a user gives; what is no table, or not for this kernel, is refused."""
        rows = MarginRows.read(X, bias)
        chosen = None if kernel is None else Kernel.read(kernel, int(rows.values.shape[1]))
        if chosen is None or chosen.code == LINEAR:
            return cls(rows, labels, classes)
        if rows.height > MOST_KERNEL_ROWS:
            raise InputError(
                f"there are {rows.height:,} rows, and a kernel's space takes {MOST_KERNEL_ROWS:,} at most: "
                f"say rounds={MOST_KERNEL_ROWS} (--rounds {MOST_KERNEL_ROWS}) for a sample"
            )
        dense = rows.values if isinstance(rows.values, np.ndarray) else rows.values.toarray()
        with np.errstate(over="ignore", invalid="ignore"):
            matrix = _checked(chosen, dense) + float(bias)
        if not np.isfinite(matrix).all():
            raise InputError(f"the {chosen} kernel of these rows leaves the range of float64; scale the rows")
        values, vectors = np.linalg.eigh(matrix)
        kept = values > len(matrix) * np.finfo(np.float64).eps * values[-1]
        coordinates = np.ascontiguousarray(vectors[:, kept] * np.sqrt(values[kept]))
        longest = float(np.sqrt(matrix.diagonal().max()))
        return cls(MarginRows(coordinates, False, longest), labels, classes, str(chosen), matrix)

    def vectors(self, solutions: Sequence[Solution | None], scales: Sequence[float]) -> Numbers:
        """The vectors of solutions, so many times and one below the other: by columns, or in a kernel's space by rows."""
        found = []
        for solution, scale in zip(solutions, scales, strict=True):
            heads = 1 if solution is None else len(solution.vectors)
            if self.matrix is None:
                vectors = np.zeros((heads, self.rows.width))
                if solution is not None:
                    vectors = scale * solution.vectors
            else:
                vectors = np.zeros((heads, self.rows.height))
                if solution is not None:
                    np.add.at(vectors.T, solution.rows, scale * solution.weights)
            found.append(vectors)
        return np.vstack(found)

    def scores(self, vectors: Numbers) -> tuple[Numbers, float]:
        """The scores of all rows, and the sum of the squared lengths of the vectors, from the rows or the kernel alone."""
        if self.matrix is None:
            return self.rows.scores(vectors), float(np.square(vectors).sum())
        scores = self.matrix @ vectors.T
        return scores, float((vectors.T * scores).sum())


def _checked(kernel: Kernel, dense: Numbers) -> Numbers:
    """The matrix of kernel values; where a row is not for this kernel, the longest is named."""
    try:
        return kernel.matrix(dense, dense)
    except OnebitError as error:
        lengths = np.sqrt(np.square(dense).sum(axis=1))
        longest = int(lengths.argmax())
        raise InputError(f"row {longest} has length {lengths[longest]:g}; {error}") from None
