"""The space of `auto` for sparse rows: a regression and a naive Bayes on the non-zeros of a row, whatever the scale of features and rows.

**The view.** Each value is compared with the usual size of its feature (a feature that was never seen gives 1), large ones are tamed, and
the row is made of length one. With r the scale of the row, the mean over its known features of |x_j| over their usual size m_j:

    u_j = |x_j|/r over the mean so far, this one included;    b_j = 1.25 u_j/(1 + u_j/4);    z_j = sign(x_j) b_j/|b|

**The regression.** s_i = z.w_i, and q_i = sum z_j^2/(noise + A_ji), where the evidence A is the sum of z^2 of the rows in which the class
was played. `noise` is the mean squared residual so far: weights of size one are likely, whatever the features are.

**Naive Bayes** counts in which rows a class was right, against the background of all rows: the logarithm of how much more often feature
j comes with class i is G_ji = log(1 + H_ji). Its opinion g = softmax(sum_j b_j G_ji - ..., over the root of the row's length) is one more
feature of the regression, with one weight for all classes: where it is wrong, as it is with classes of unequal size, it is not believed.

What is known of features and of the background stays when everything else is forgotten.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.choices import softmax
from onebit.contract.contrast import Contrast, Contributions
from onebit.contract.rule import Vector
from onebit.engine import generic
from onebit.spaces.layout import NUMBERS, ArraySpec, SpaceLayout
from onebit.spaces.scaled import moved, refreshed_norm
from onebit.spaces.space import Space
from onebit.spaces.sparse import SparseRows, SparseSpace

__all__ = ["Auto03Sparse", "absorb", "moved", "needs_room", "refreshed_norm", "score"]

SEEN, SIZE = 0, 1  # what is known of a feature: in how many rows it was, and its usual size there
# What is known of everything: the sum of squared residuals and their number; the weight of the opinion of naive Bayes, and its evidence;
# the total length of all rows, and their number.
RESIDUALS, ROUNDS, TRUST, TRUST_EVIDENCE, LENGTHS, ROWS = range(6)
SCALE, LENGTH, FACTOR = range(
    3
)  # what is known of the row just seen: its scale, its length, and the factor from b to z
BACKGROUND = 10.0  # rows that each class is taken to have had, like all others, before it had any
LANES = 8  # classes are done so many at a time
EVEN = 1e-6  # where naive Bayes finds two classes as likely as this, its opinion of them is linear in its evidence
FIRST = 64  # values that the view has room for at the beginning


def stride_for(heads: int) -> int:
    """The number of heads, rounded up to lanes."""
    return -(-heads // LANES) * LANES


class Auto03SparseArrays(NamedTuple):
    """Cells of shape (features, 4 strides): the weights of a feature, their evidence, and G and H of naive Bayes."""

    weights: NDArray[Any]
    features: NDArray[Any]
    counts: Vector  # the total length of the rows in which each class was right
    facts: Vector
    row: Vector
    opinion: Vector  # of naive Bayes on the row just seen
    sizes: NDArray[Any]  # b, of that row; one more than it has values, so that they come in pairs
    sums: NDArray[Any]
    heads: int
    stride: int  # the number of heads, rounded up to lanes


class Auto03Sparse(Auto03SparseArrays, Space):
    """The space of `auto` for sparse rows."""

    __slots__ = ()
    SAVED = ("weights", "features", "counts", "facts")
    example_rows = staticmethod(SparseSpace.example_rows)

    @classmethod
    def planned(cls, heads: int, features: int, dtype: Any) -> Auto03Sparse:
        """Nothing is known."""
        facts = np.zeros(6)
        facts[[RESIDUALS, ROUNDS, TRUST]] = 1.0
        stride = stride_for(heads)
        return cls(
            np.zeros((features, 4 * stride), dtype=dtype),
            np.zeros((features, 2), dtype=dtype),
            np.zeros(heads),
            facts,
            np.zeros(3),
            np.zeros(heads),
            np.zeros(FIRST, dtype=dtype),
            np.zeros(3 * stride, dtype=dtype),
            heads,
            stride,
        )

    def grown(self, heads: int, features: int) -> Auto03Sparse:
        """A copy with room for more heads and features; the new ones know nothing."""
        made = Auto03Sparse.planned(heads, features, self.weights.dtype)
        known = len(self.weights)
        for part in range(4):
            cells = self.weights[:, part * self.stride : part * self.stride + self.heads]
            made.weights[:known, part * made.stride : part * made.stride + self.heads] = cells
        rest = {"features": self.features, "counts": self.counts, "facts": self.facts}
        return made.loaded(rest)._replace(sizes=self.sizes.copy())

    def roomier(self, rows: SparseRows) -> Auto03Sparse:
        """A copy with room for the view of the longest of these rows."""
        return self._replace(sizes=np.zeros(int(np.diff(rows.starts).max()) + 1, dtype=self.sizes.dtype))

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """What is written into a file: the cells of the first so many features, or of all."""
        return {
            "weights": self.weights[:features].copy(),
            "features": self.features[:features].copy(),
            "counts": self.counts.copy(),
            "facts": self.facts.copy(),
        }

    @staticmethod
    def layout(heads: int, features: int, dtype: Any) -> SpaceLayout:
        """What the arrays are; scores, variances and the noise are given, and `absorb` takes two numbers more."""
        stride = stride_for(heads)
        arrays = {
            "weights": ArraySpec((features, 4 * stride), dtype),
            "features": ArraySpec((features, 2), dtype),
            "counts": ArraySpec((heads,), NUMBERS),
            "facts": ArraySpec((6,), NUMBERS),
            "row": ArraySpec((3,), NUMBERS),
            "opinion": ArraySpec((heads,), NUMBERS),
            "sizes": ArraySpec((FIRST,), dtype),
            "sums": ArraySpec((3 * stride,), dtype),
        }
        return SpaceLayout.of(arrays, Auto03Sparse.SAVED, width=2 * heads + 3)

    @property
    def room(self) -> tuple[int, int]:
        """How many heads and features there is room for."""
        return self.heads, len(self.weights)

    @property
    def has_views(self) -> bool:
        """Whether members see a row in ways of their own, so that columns of weights are not those of a row."""
        return False

    @property
    def member_names(self) -> list[str]:
        """What the members are called."""
        return ["regression"]

    @property
    def kind(self) -> dict[str, int]:
        """What the rule must know of it."""
        return {"members": 1, "waved": -1, "full": 0, "regresses": 1}

    def matrix(self) -> Any:
        """The weights, heads by features."""
        return self.weights[:, : self.heads].T.copy()

    def contributions(self, rows: SparseRows, contrast: Contrast) -> Contributions:
        """What each value of the row just scored adds to a contrast of classes, by the regression and by naive Bayes.

        The opinion of naive Bayes is a softmax of sums over features: what it adds is parted among them in proportion to those. How much
        was heard of a class is no feature's doing: that is the constant, and a feature that was never seen adds nothing.
        """
        if not rows.values.any():
            return Contributions(np.zeros(len(rows.values)), 0.0)
        sizes = self.sizes[: len(rows.values)].astype(np.float64)
        view = np.where(rows.values >= 0.0, sizes, -sizes) * self.row[FACTOR]
        cells = self.weights[rows.columns].astype(np.float64)
        background, length = background_of(self), self.row[LENGTH]
        values, evidence, heard, opinions = np.zeros(len(sizes)), np.zeros(len(sizes)), 0.0, np.zeros(2)
        for head, weight in contrast:
            values += weight * view * cells[:, head]
            evidence += weight * sizes * cells[:, 2 * self.stride + head]
            heard -= weight * length * math.log(1.0 + self.counts[head] * background)
            opinions += (weight * self.opinion[head], abs(weight) * self.opinion[head])
        root, total = math.sqrt(length), float(evidence.sum()) + heard
        share = opinions[0] / total if abs(total) > EVEN * root else opinions[1] / (2.0 * root)
        share *= self.facts[TRUST]
        return Contributions(values + share * evidence, float(share * heard))


generic.SPACES[Auto03Sparse] = sys.modules[__name__]


def needs_room(space: Auto03Sparse, rows: SparseRows, row: int) -> bool:
    """Whether the row has more values than the view has room for."""
    return bool(rows.starts[row + 1] - rows.starts[row] >= space.sizes.shape[0])


def look(space: Auto03Sparse, rows: SparseRows, row: int) -> float:
    """Write b, and what is known of the row; its squared norm."""
    start, count = rows.starts[row], rows.starts[row + 1] - rows.starts[row]
    norm, plain, scale, trust, nonzeros = 0.0, 0.0, 0.0, 0.0, 0
    for entry in range(count):
        size = abs(float(rows.values[start + entry]))
        if size > 0.0:
            nonzeros += 1
            norm += size * size
            plain += size
            known = space.features[rows.columns[start + entry]]
            if known[SEEN] > 0.0:
                trusted = float(known[SEEN]) / (float(known[SEEN]) + 1.0)
                scale += trusted * size / float(known[SIZE])
                trust += trusted
    if nonzeros == 0:
        return 0.0
    scale = scale / trust if trust > 0.0 else plain / nonzeros
    squares, length, total = 0.0, 0.0, 0.0
    for entry in range(count):
        size = abs(float(rows.values[start + entry])) / scale
        if size > 0.0:
            known = space.features[rows.columns[start + entry]]
            seen = float(known[SEEN])
            size *= (seen + 1.0) / (seen * float(known[SIZE]) + size)
            total += size
            size = 1.25 * size / (1.0 + 0.25 * size)
            squares += size * size
            length += size
        space.sizes[entry] = size
    space.row[SCALE] = scale * total / nonzeros
    space.row[LENGTH] = length
    space.row[FACTOR] = 1.0 / math.sqrt(squares)
    return norm


def score(space: Auto03Sparse, rows: SparseRows, row: int, scores: Vector) -> float:
    """Write the scores, the variances, and the noise; the squared norm of the row, NaN where one of them is not finite."""
    heads, stride, start, facts = space.heads, space.stride, rows.starts[row], space.facts
    noise = facts[RESIDUALS] / facts[ROUNDS]
    norm = look(space, rows, row)
    for head in range(2 * heads):
        scores[head] = 0.0
    scores[2 * heads] = noise
    if norm == 0.0:
        return norm
    sums, count = space.sums, rows.starts[row + 1] - start
    for index in range(3 * stride):
        sums[index] = 0.0
    factor = space.weights.dtype.type(space.row[FACTOR])
    for entry in range(0, count - 1, 2):
        add_two(space, rows, start, entry, entry + 1, noise, factor)
    if count % 2 == 1:
        space.sizes[count] = 0.0
        add_two(space, rows, start, count - 1, count, noise, factor)
    judge(space)
    flaw = 0.0
    for head in range(heads):
        opinion = space.opinion[head]
        scores[head] = sums[head] + facts[TRUST] * opinion
        scores[heads + head] = sums[stride + head] + opinion * opinion / (noise + facts[TRUST_EVIDENCE])
        flaw += 0.0 * (scores[head] + scores[heads + head])  # 0 times a number is 0, 0 times infinity or NaN is NaN
    return norm + flaw


def add_two(
    space: Auto03Sparse, rows: SparseRows, start: int, entry: int, next_entry: int, noise: float, factor: Any
) -> None:
    """Add what two features say to the sums. Two at a time halves the divisions: a/b + c/d = (a d + c b)/(b d)."""
    kind, stride, sums = space.weights.dtype.type, space.stride, space.sums
    prior = kind(noise)
    size, other_size = space.sizes[entry], space.sizes[next_entry]
    cell = space.weights[rows.columns[start + entry]]
    other_cell, other = cell, kind(0)
    if other_size > 0.0:
        other_cell = space.weights[rows.columns[start + next_entry]]
        other = other_size * factor if rows.values[start + next_entry] >= 0.0 else -other_size * factor
    value = size * factor if rows.values[start + entry] >= 0.0 else -size * factor
    square, other_square = value * value, other * other
    # Slices, since an index that is a sum is tested for being negative, which keeps a loop from being done in vectors.
    likely, evidence, other_evidence = (
        sums[stride : 2 * stride],
        cell[stride : 2 * stride],
        other_cell[stride : 2 * stride],
    )
    bayes, known, other_known = sums[2 * stride :], cell[2 * stride : 3 * stride], other_cell[2 * stride : 3 * stride]
    for head in range(stride):
        sums[head] += value * cell[head] + other * other_cell[head]
    for head in range(stride):
        one, two = prior + evidence[head], prior + other_evidence[head]
        likely[head] += (square * two + other_square * one) / (one * two)
    for head in range(stride):
        bayes[head] += size * known[head] + other_size * other_known[head]


def background_of(space: Auto03Sparse) -> float:
    """One over the length of the rows that each class is taken to have had, the row just seen among all rows."""
    facts = space.facts
    return float((facts[ROWS] + 1.0) / (BACKGROUND * (facts[LENGTHS] + space.row[LENGTH])))


def judge(space: Auto03Sparse) -> None:
    """Write the opinion of naive Bayes on the row just seen."""
    heads, length = space.heads, space.row[LENGTH]
    background = background_of(space)
    root = 1.0 / math.sqrt(length)
    for head in range(heads):
        likely = space.sums[2 * space.stride + head] - length * math.log(1.0 + space.counts[head] * background)
        space.opinion[head] = likely * root
    softmax(space.opinion, heads, space.opinion)


def absorb(space: Auto03Sparse, rows: SparseRows, row: int, coefficients: Vector, scale: float) -> None:
    """Move what the row just scored says, and count the row in.

    After the steps and amounts come the squared residual, the class played, and the class that was right, or -1.
    """
    cells, heads, stride, start, facts = space.weights, space.heads, space.stride, rows.starts[row], space.facts
    kind = cells.dtype.type
    count = rows.starts[row + 1] - start
    if scale == 0.0:
        forget(space)
        return
    noise = facts[RESIDUALS] / facts[ROUNDS]
    prior, factor = kind(noise), kind(space.row[FACTOR])
    for head in range(heads):
        step, amount = kind(coefficients[head]), kind(coefficients[heads + head])
        if step != 0.0 or amount != 0.0:
            for entry in range(count):
                size = space.sizes[entry] * factor
                value = size if rows.values[start + entry] >= 0.0 else -size
                cell = cells[rows.columns[start + entry]]
                cell[head] += step * value / (prior + cell[stride + head])
                cell[stride + head] += amount * size * size
    played, right = int(coefficients[2 * heads + 1]), int(coefficients[2 * heads + 2])
    trusted = space.opinion[played]
    facts[TRUST] += coefficients[played] * trusted / (noise + facts[TRUST_EVIDENCE])
    facts[TRUST_EVIDENCE] += trusted * trusted
    facts[RESIDUALS] += coefficients[2 * heads]
    facts[ROUNDS] += 1.0
    facts[LENGTHS] += space.row[LENGTH]
    facts[ROWS] += 1.0
    if right >= 0:
        space.counts[right] += space.row[LENGTH]
    usual, scaling, one = kind(facts[ROWS] / BACKGROUND), kind(1.0 / space.row[SCALE]), kind(1)
    for entry in range(count):
        size = space.sizes[entry]
        if size > 0.0:
            column = rows.columns[start + entry]
            known = space.features[column]
            known[SEEN] += one
            share = one / known[SEEN]
            known[SIZE] += (abs(rows.values[start + entry]) * scaling - known[SIZE]) * share
            if right >= 0:
                cell = cells[column]
                more = cell[3 * stride + right] + size * usual * share
                cell[3 * stride + right] = more
                cell[2 * stride + right] = math.log(one + more)


def forget(space: Auto03Sparse) -> None:
    """Begin anew; what is known of features and of the background is kept."""
    for feature in range(space.weights.shape[0]):
        for index in range(space.weights.shape[1]):
            space.weights[feature, index] = 0.0
    for head in range(space.heads):
        space.counts[head] = 0.0
    space.facts[RESIDUALS] = 1.0
    space.facts[ROUNDS] = 1.0
    space.facts[TRUST] = 1.0
    space.facts[TRUST_EVIDENCE] = 0.0
