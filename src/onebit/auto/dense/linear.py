"""Members of `auto` with linear scores: a softmax, each in its own view, with a covariance per class.

    s_i = w_i.z,   q_i = z'P_i z,   p = softmax(s)

How they learn is in `laplace.py`. A variance costs as much as everything else together, so few are computed: `bounds`
has an upper bound of the variance of each class that holds in most rows and changes only in learning. A class is
skipped if it could not gain or lose more than a threshold by that bound. The set of members varies, so their arrays
are stored one behind the other. Covariances are matrices in tiles, or diagonals if rows are wide. Vectors over
columns have room for whole tiles, are 0 behind the last column, and begin at a cache line, without which reading
takes a sixth longer.

Writing a matrix takes longer than reading it. So the vectors g whose gg' a step subtracts from it are collected
behind it, until there are eight: `waiting` says how many there are, and images are of P minus all of them.

One member follows functions that change slowly: whenever its P is written, the diagonal grows a little (`let_drift`), as
if the weights had moved at random meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense.algebra import (
    VECTORS_AT_ONCE,
    downdate,
    line_offset,
    number_offset,
    padded,
    reduce_image,
    repair_matrix,
    write_diagonal_image,
    write_image,
)
from onebit.auto.dense.mixture import CENTRED
from onebit.contract.rule import Matrix, Vector
from onebit.spaces.layout import REPAIRS, ArraySpec

INITIAL_VARIANCE = 100.0  # initial variance of a weight, so that scores of tens are possible from the start
# Number of rows over which a bound decays: more with many classes, since each is rarely played.
LEAST_DECAY_ROWS, DECAY_ROWS_PER_CLASS, MOST_DECAY_ROWS = 100.0, 10.0, 1000.0
LEAST_VARIANCE = 1e-6  # least variance after a repair
CACHE_LINE = 64  # bytes
# The member that follows changes, and the variance that it adds after every eight steps. The others do not forget.
DRIFTING_MEMBER, DRIFT = CENTRED, 1e-3 * INITIAL_VARIANCE


def allocate_aligned(spec: ArraySpec) -> NDArray[Any]:
    """Return an array of zeros that begins at a cache line."""
    room = np.zeros(spec.nbytes + CACHE_LINE, dtype=np.uint8)
    begin = -room.ctypes.data % CACHE_LINE
    array: NDArray[Any] = room[begin : begin + spec.nbytes].view(spec.dtype).reshape(spec.shape)
    return array


class View(NamedTuple):
    """The size of what a member sees of a row, and whether its covariances are full."""

    size: int  # including the constant; 0 if there is no such member
    full: bool

    @property
    def length(self) -> int:
        """Room for the view, in whole tiles."""
        return padded(self.size)

    @property
    def width(self) -> int:
        """Numbers per covariance: a matrix and the vectors waiting behind it, or a diagonal."""
        return line_offset(self.length) + VECTORS_AT_ONCE * self.length if self.full else self.length


class LinearMembers(NamedTuple):
    """The weights, covariances, images P z and views z of all linear members, one behind the other."""

    weights: NDArray[Any]
    covariances: NDArray[Any]
    bounds: Matrix  # (members, heads): upper bounds of variances that mostly hold
    waiting: NDArray[np.int64]  # (members, heads): number of vectors not yet subtracted from a covariance
    repairs: NDArray[np.int64]
    sizes: NDArray[np.int64]  # sizes of the views
    lengths: NDArray[np.int64]  # room for a view
    begins: NDArray[np.int64]  # offset of a member's view among all views,
    ends: NDArray[np.int64]  # and the end of its room
    widths: NDArray[np.int64]  # numbers in a covariance
    starts: NDArray[np.int64]  # offset of a member's covariances, for one class
    images: NDArray[Any]
    views: NDArray[Any]
    variances: Matrix  # variances for the row just seen, if
    known: NDArray[np.int8]  # they are known
    work: Matrix

    @classmethod
    def empty(cls, heads: int, views: Sequence[View], dtype: Any) -> LinearMembers:
        linear = cls(**{name: allocate_aligned(spec) for name, spec in cls.layout(heads, views, dtype).items()})
        linear.sizes[:] = [view.size for view in views]
        for lengths, begins, numbers in (
            (linear.lengths, linear.begins, [view.length for view in views]),
            (linear.widths, linear.starts, [view.width for view in views]),
        ):
            lengths[:], begins[:] = numbers, np.cumsum([0, *numbers[:-1]])
        linear.ends[:] = linear.begins + linear.lengths
        # Like `forget_member`, which uncompiled would take as long as a thousand rounds.
        linear.bounds[:] = INITIAL_VARIANCE
        for view, start in zip(views, linear.starts.tolist(), strict=True):
            known = linear.covariances[heads * start : heads * (start + view.width)].reshape(heads, view.width)
            known[:, [number_offset(column, column) if view.full else column for column in range(view.length)]] = (
                INITIAL_VARIANCE / 2.0 if view.full else INITIAL_VARIANCE
            )
        return linear

    @staticmethod
    def layout(heads: int, views: Sequence[View], dtype: Any) -> dict[str, ArraySpec]:
        count, total = len(views), sum(view.length for view in views)
        return {
            "weights": ArraySpec((heads * total,), dtype),
            "covariances": ArraySpec((heads * sum(view.width for view in views),), dtype),
            "bounds": ArraySpec((count, heads), np.float64),
            "waiting": ArraySpec((count, heads), np.int64, 0, VECTORS_AT_ONCE - 1),
            "repairs": REPAIRS,
            **dict.fromkeys(("sizes", "lengths", "begins", "ends", "widths", "starts"), ArraySpec((count,), np.int64)),
            "images": ArraySpec((heads * total,), dtype),
            "views": ArraySpec((total,), dtype),
            "variances": ArraySpec((count, heads), np.float64),
            "known": ArraySpec((count, heads), np.int8),
            "work": ArraySpec((4, heads), np.float64),
        }

    @property
    def heads(self) -> int:
        return len(self.bounds.T)

    def copy_into(self, larger: LinearMembers) -> LinearMembers:
        larger.bounds[:, : self.heads], larger.waiting[:, : self.heads] = self.bounds, self.waiting
        larger.repairs[:] = self.repairs
        for new, old, begins, lengths in (
            (larger.weights, self.weights, self.begins, self.lengths),
            (larger.covariances, self.covariances, self.starts, self.widths),
        ):
            for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True):
                target, source, count = larger.heads * begin, self.heads * begin, self.heads * length
                new[target : target + count] = old[source : source + count]
        return larger

    def weights_of(self, member: int) -> NDArray[Any]:
        """Return the weights of a member, one line for each class."""
        begin, length = self.heads * int(self.begins[member]), int(self.lengths[member])
        lines = self.weights[begin : begin + self.heads * length].reshape(self.heads, length)
        return lines[:, : self.sizes[member]]

    def view_of(self, member: int) -> NDArray[Any]:
        """Return a member's view of the row just seen."""
        begin = int(self.begins[member])
        return self.views[begin : begin + int(self.sizes[member])]


def weights_offset(linear: LinearMembers, member: int, head: int) -> int:
    """Return the offset of a member's weights for a class; its images have the same offset."""
    return int(linear.bounds.shape[1] * linear.begins[member] + head * linear.lengths[member])


def covariance_offset(linear: LinearMembers, member: int, head: int) -> int:
    """Return the offset of a member's covariance for a class: P in tiles and what waits, or a diagonal."""
    return int(linear.bounds.shape[1] * linear.starts[member] + head * linear.widths[member])


def score_linear(linear: LinearMembers, member: int, scores: Vector) -> None:
    """Write the scores of a member, whose view has been written; four classes share a pass."""
    heads, size = linear.bounds.shape[1], linear.lengths[member]
    begin = weights_offset(linear, member, 0)
    view = linear.views[linear.begins[member] : linear.ends[member]]
    nothing = linear.weights.dtype.type(0)
    head = 0
    while head + 4 <= heads:
        first = linear.weights[begin : begin + size]
        second = linear.weights[begin + size : begin + 2 * size]
        third = linear.weights[begin + 2 * size : begin + 3 * size]
        fourth = linear.weights[begin + 3 * size : begin + 4 * size]
        sum_1, sum_2, sum_3, sum_4 = nothing, nothing, nothing, nothing
        for column in range(size):
            value = view[column]
            sum_1 += first[column] * value
            sum_2 += second[column] * value
            sum_3 += third[column] * value
            sum_4 += fourth[column] * value
        scores[head], scores[head + 1], scores[head + 2], scores[head + 3] = sum_1, sum_2, sum_3, sum_4
        begin += 4 * size
        head += 4
    while head < heads:
        vector, total = linear.weights[begin : begin + size], nothing
        for column in range(size):
            total += vector[column] * view[column]
        scores[head] = total
        begin += size
        head += 1
    for head in range(heads):
        linear.known[member, head] = 0


def variance_of(linear: LinearMembers, member: int, head: int) -> float:
    """Return the variance of a score, computed at most once for each row."""
    if linear.known[member, head] == 0:
        view = linear.views[linear.begins[member] : linear.ends[member]]
        begin, at = covariance_offset(linear, member, head), weights_offset(linear, member, head)
        covariance = linear.covariances[begin : begin + linear.widths[member]]
        image = linear.images[at : at + view.shape[0]]
        if covariance.shape[0] == view.shape[0]:
            variance = write_diagonal_image(covariance, view, image)
        else:
            matrix = line_offset(view.shape[0])
            variance = write_image(covariance[:matrix], view, image)
            variance -= reduce_image(covariance[matrix:], linear.waiting[member, head], view, image)
        linear.variances[member, head] = max(0.0, float(variance))
        linear.known[member, head] = 1
    return float(linear.variances[member, head])


def learnt_variance(linear: LinearMembers, member: int, head: int) -> float:
    """Return the variance of a score, and update its upper bound."""
    variance, rows = variance_of(linear, member, head), DECAY_ROWS_PER_CLASS * linear.bounds.shape[1]
    decay = 1.0 - 1.0 / min(MOST_DECAY_ROWS, max(LEAST_DECAY_ROWS, rows))
    linear.bounds[member, head] = max(variance, decay * linear.bounds[member, head])
    return variance


def move_class(linear: LinearMembers, member: int, head: int, change: float, curvature: float) -> None:
    """Move the weights of a class along P z, and shrink P by the curvature along z.

    P is repaired if it is no longer positive definite.
    """
    view, kind = linear.views[linear.begins[member] : linear.ends[member]], linear.weights.dtype.type
    begin, at = covariance_offset(linear, member, head), weights_offset(linear, member, head)
    covariance = linear.covariances[begin : begin + linear.widths[member]]
    vector, image = linear.weights[at : at + view.shape[0]], linear.images[at : at + view.shape[0]]
    exact = kind(change)
    for column in range(vector.shape[0]):
        vector[column] += exact * image[column]
    if curvature == 0.0:
        return
    if covariance.shape[0] == vector.shape[0]:
        unit, bend = kind(1), kind(curvature)
        for column in range(vector.shape[0]):
            covariance[column] /= unit + bend * image[column] * view[column]
        return
    size = vector.shape[0]
    matrix = line_offset(size)
    begin = matrix + linear.waiting[member, head] * size
    amount = curvature / (1.0 + curvature * linear.variances[member, head])
    last, root = covariance[begin : begin + size], kind(math.sqrt(amount))
    for column in range(size):
        last[column] = root * image[column]
    linear.waiting[member, head] += 1
    if linear.waiting[member, head] == VECTORS_AT_ONCE:
        linear.waiting[member, head] = 0
        if not downdate(covariance[:matrix], covariance[matrix:], size):
            repair_matrix(covariance[:matrix], size, LEAST_VARIANCE, INITIAL_VARIANCE)
            linear.repairs[0] += 1
        if member == DRIFTING_MEMBER:
            let_drift(linear, member, head, covariance[:matrix])


def let_drift(linear: LinearMembers, member: int, head: int, tiles: NDArray[Any]) -> None:
    """Raise the variances that are below their initial value, and the bound: old knowledge fades."""
    more = tiles.dtype.type(DRIFT / 2.0)  # the diagonal is stored halved
    for column in range(linear.sizes[member]):
        place = number_offset(column, column)
        if tiles[place] < INITIAL_VARIANCE / 2.0:
            tiles[place] += more
    linear.bounds[member, head] += DRIFT


def forget_member(linear: LinearMembers, member: int) -> None:
    """Reset a member to its initial state."""
    for head in range(linear.bounds.shape[1]):
        linear.bounds[member, head], linear.waiting[member, head] = INITIAL_VARIANCE, 0
        begin, at = covariance_offset(linear, member, head), weights_offset(linear, member, head)
        for index in range(at, at + linear.lengths[member]):
            linear.weights[index] = 0.0
        for index in range(begin, begin + linear.widths[member]):
            linear.covariances[index] = 0.0
        for column in range(linear.lengths[member]):
            if linear.widths[member] == linear.lengths[member]:
                linear.covariances[begin + column] = INITIAL_VARIANCE
            else:
                linear.covariances[begin + number_offset(column, column)] = INITIAL_VARIANCE / 2.0


def forget_linear(linear: LinearMembers) -> None:
    for member in range(linear.sizes.shape[0]):
        forget_member(linear, member)
