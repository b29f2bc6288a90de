"""The space of `auto` for sparse rows: a weight and its evidence for each feature and head, and what is known of each feature.

The view of a row is the same for any scale of the features and of the row. Each value is compared with the usual size of its feature (a
feature that was never seen gives 1 or -1), logarithms tame the large ones, and the row is made of length one:

    u_j = x_j/r over the mean of |x_j|/r so far, this one included;    z = sign(u) log(1 + |u|),  z/|z|

where r is the scale of the row, the mean over its known features of |x_j| over their usual size. A row costs its non-zeros alone. The
evidence A of a weight is the sum of z^2 of the rows in which its class was played; its variance is 1/(noise + A), where `noise` is the
mean squared residual so far, which is both the strength of the prior and what `score` gives after the variances.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Vector
from onebit.engine import generic
from onebit.spaces.scaled import moved, refreshed_norm
from onebit.spaces.sparse import Sparse, SparseRows

__all__ = ["AutoSparse", "absorb", "full", "moved", "refreshed_norm", "score"]

SEEN, SIZE = 0, 1  # what is known of a feature: how often it was not 0, and its usual size
RESIDUALS, ROUNDS, SCALE = (
    0,
    1,
    2,
)  # what is known of all rows: the sum of squared residuals, their number, and the scale of the last


class AutoSparse(NamedTuple):
    """Cells of shape (features, 2 heads): the weights of a feature, then their evidence."""

    weights: NDArray[Any]
    features: NDArray[Any]
    noise: Vector
    seen_row: Vector
    heads: int

    @classmethod
    def planned(cls, heads: int, features: int, dtype: Any) -> AutoSparse:
        """Nothing is known."""
        cells = np.zeros((features, 2 * heads), dtype=dtype)
        return cls(cells, np.zeros((features, 2), dtype=dtype), np.array([1.0, 1.0, 1.0]), np.zeros(64), heads)

    def grown(self, heads: int, features: int) -> AutoSparse:
        """A copy with room for more heads and features; the new ones know nothing."""
        made = AutoSparse.planned(heads, features, self.weights.dtype)
        known = len(self.weights)
        made.weights[:known, : self.heads] = self.weights[:, : self.heads]
        made.weights[:known, heads : heads + self.heads] = self.weights[:, self.heads :]
        made.features[:known] = self.features
        return made._replace(noise=self.noise.copy(), seen_row=self.seen_row.copy())

    def roomier(self, rows: SparseRows) -> AutoSparse:
        """A copy with room for the view of the longest of these rows."""
        return self._replace(seen_row=np.zeros(int(np.diff(rows.starts).max())))

    def kept_of(self, rows: SparseRows) -> tuple[NDArray[Any], NDArray[Any], Vector]:
        """What learning from these rows may change, for `restored`: all, since it may be forgotten."""
        return self.weights.copy(), self.features.copy(), self.noise.copy()

    def restored(self, kept: tuple[NDArray[Any], NDArray[Any], Vector]) -> AutoSparse:
        """Undo what was learnt since."""
        self.weights[:], self.features[:], self.noise[:] = kept
        return self

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """What is written into a file: the cells of the first so many features, or of all."""
        return {
            "weights": self.weights[:features].copy(),
            "features": self.features[:features].copy(),
            "noise": self.noise.copy(),
        }

    @staticmethod
    def example_rows(dtype: Any) -> SparseRows:
        """Rows as they are scored, for their types."""
        return Sparse.example_rows(dtype)

    @property
    def room(self) -> tuple[int, int]:
        """How many heads and features there is room for."""
        return self.heads, len(self.weights)

    @property
    def member_names(self) -> list[str]:
        """What the members are called."""
        return ["regression"]

    @property
    def kind(self) -> dict[str, int]:
        """What the rule must know of it."""
        return {"members": 1, "full": 0, "regresses": 1}

    @property
    def width(self) -> int:
        """How many numbers `score` gives."""
        return 2 * self.heads + 1

    def matrix(self) -> Any:
        """The weights, heads by features."""
        return self.weights[:, : self.heads].T.copy()


generic.SPACES[AutoSparse] = sys.modules[__name__]


def full(space: AutoSparse, rows: SparseRows, row: int) -> bool:
    """Whether the row has more values than the view has room for."""
    return bool(rows.starts[row + 1] - rows.starts[row] > space.seen_row.shape[0])


def look(space: AutoSparse, rows: SparseRows, row: int) -> float:
    """Write the view of a row, and its scale; its squared norm."""
    start, count = rows.starts[row], rows.starts[row + 1] - rows.starts[row]
    norm, plain, scale, trust = 0.0, 0.0, 0.0, 0.0
    for place in range(count):
        size = abs(float(rows.values[start + place]))
        norm += size * size
        plain += size
        known = space.features[rows.columns[start + place]]
        if known[SEEN] > 0.0 and size > 0.0:
            trusted = float(known[SEEN]) / (float(known[SEEN]) + 1.0)
            scale += trusted * size / float(known[SIZE])
            trust += trusted
    if norm == 0.0:
        return 0.0
    scale = scale / trust if trust > 0.0 else plain / count
    squares, sizes = 0.0, 0.0
    for place in range(count):
        value = float(rows.values[start + place]) / scale
        known = space.features[rows.columns[start + place]]
        seen = float(known[SEEN])
        size = abs(value)
        if size > 0.0:
            size *= (seen + 1.0) / (seen * float(known[SIZE]) + size)
        sizes += size
        tamed = math.log(1.0 + size)
        squares += tamed * tamed
        space.seen_row[place] = tamed if value > 0.0 else -tamed
    factor = 1.0 / math.sqrt(squares)
    for place in range(count):
        space.seen_row[place] *= factor
    space.noise[SCALE] = scale * sizes / count
    return norm


def score(space: AutoSparse, rows: SparseRows, row: int, scores: Vector) -> float:
    """Write the scores, the variances, and the noise; the squared norm of the row, NaN where one of them is not finite."""
    cells, heads, start = space.weights, space.heads, rows.starts[row]
    noise = space.noise[RESIDUALS] / space.noise[ROUNDS]
    norm = look(space, rows, row)
    for head in range(2 * heads):
        scores[head] = 0.0
    scores[2 * heads] = noise
    if norm == 0.0:
        return norm
    for place in range(rows.starts[row + 1] - start):
        value = space.seen_row[place]
        square = value * value
        cell = cells[rows.columns[start + place]]
        for head in range(heads):
            scores[head] += value * cell[head]
        for head in range(heads, 2 * heads):
            scores[head] += square / (noise + cell[head])
    flaw = 0.0
    for head in range(2 * heads):
        flaw += 0.0 * scores[head]  # 0 times a number is 0, 0 times infinity or NaN is NaN
    return norm + flaw


def absorb(space: AutoSparse, rows: SparseRows, row: int, coefficients: Vector, scale: float) -> None:
    """Move the weights and the evidence of the heads that have something to learn, and count the row in."""
    cells, heads, start = space.weights, space.heads, rows.starts[row]
    count = rows.starts[row + 1] - start
    if scale == 0.0:
        forget(space)
        return
    noise = space.noise[RESIDUALS] / space.noise[ROUNDS]
    for head in range(heads):
        step, amount = coefficients[head], coefficients[heads + head]
        if step != 0.0 or amount != 0.0:
            for place in range(count):
                value = space.seen_row[place]
                cell = cells[rows.columns[start + place]]
                evidence = float(cell[heads + head])
                cell[head] += cells.dtype.type(step * value / (noise + evidence))
                cell[heads + head] = cells.dtype.type(evidence + amount * value * value)
    space.noise[RESIDUALS] += coefficients[2 * heads]
    space.noise[ROUNDS] += 1.0
    for place in range(count):
        size = abs(float(rows.values[start + place])) / space.noise[SCALE]
        if size > 0.0:
            known = space.features[rows.columns[start + place]]
            known[SEEN] += cells.dtype.type(1)
            known[SIZE] += cells.dtype.type((size - float(known[SIZE])) / float(known[SEEN]))


def forget(space: AutoSparse) -> None:
    """Begin anew; what is known of features is kept."""
    for feature in range(space.weights.shape[0]):
        for place in range(space.weights.shape[1]):
            space.weights[feature, place] = 0.0
    space.noise[RESIDUALS] = 1.0
    space.noise[ROUNDS] = 1.0
