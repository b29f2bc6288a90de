"""The shapes, dtypes and ranges of a space's arrays, described once, in the space's `layout`.

So the memory of a learner is known before it is allocated, and the arrays of a file are checked before anything is
built from them: compiled code checks no bounds, and a file from an untrusted source may have a valid checksum and any
content. NaN and infinity, which `learner.model_file` refuses in a file, pass where there is no upper bound: a learner
whose weights have left their range has them, and refuses every row.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.covariance import Order
from onebit.errors import InputError, brief

SMALLEST_SCALE, LARGEST_SCALE = 1e-6, 1e6  # a scale of weights outside this range is multiplied into them
ANY = -1  # in a shape: any size


class ArraySpec(NamedTuple):
    """The shape and dtype of an array, the range of its numbers (or of each row's), and its initial value."""

    shape: tuple[int, ...]
    dtype: Any
    least: float | tuple[float, ...] = -math.inf
    most: float | tuple[float, ...] = math.inf
    start: float | tuple[float, ...] = 0.0  # initial value of every number, or of each in a line

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * int(np.dtype(self.dtype).itemsize)


SCALE = ArraySpec((1,), np.float64, SMALLEST_SCALE, LARGEST_SCALE, start=1.0)
LARGEST_FLOAT = sys.float_info.max  # the largest finite number
# The factor into the ball, and the squared length of the weights before it.
BALL_SCALE = ArraySpec((2,), np.float64, (sys.float_info.min, -LARGEST_FLOAT), (1.0, LARGEST_FLOAT), start=(1.0, 0.0))
LARGEST_COUNT = 2**62  # never reached by counting, so adding one does not overflow
REPAIRS = ArraySpec((1,), np.int64, 0, LARGEST_COUNT)


class SpaceLayout(NamedTuple):
    """The layout of a space before allocation: its arrays, those saved, its output width, its numbers.

    `width` is how many numbers the space writes for a row; `numbers` are its fields that are no arrays.
    """

    arrays: Mapping[str, ArraySpec]
    saved: Mapping[str, ArraySpec]
    width: int
    numbers: Mapping[str, float]

    @classmethod
    def of(
        cls, arrays: Mapping[str, ArraySpec], saved: Iterable[str], width: int, numbers: Mapping[str, float]
    ) -> SpaceLayout:
        """Return the layout of a space that saves some of its arrays unchanged."""
        return cls(arrays, {name: arrays[name] for name in saved}, width, numbers)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays in bytes, at the largest size they may reach."""
        return sum(spec.nbytes for spec in self.arrays.values())


def allocate(arrays: Mapping[str, ArraySpec]) -> dict[str, NDArray[Any]]:
    """Allocate arrays as described, filled with their initial values."""
    allocated = {name: np.zeros(spec.shape, spec.dtype) for name, spec in arrays.items()}
    for name, spec in arrays.items():
        if spec.start != 0.0:  # zeroed memory is not touched until it is used
            allocated[name][...] = spec.start
    return allocated


def covariance_fields(bias: bool, order: Order) -> dict[str, float]:
    """Return the fields that describe the covariance in a diagonal space."""
    flags = {"bias": int(bias), "own": int(not order.shared), "sums": int(order.sums), "root": int(order.root)}
    return {**flags, "start": float(order.start), "radius": float(order.radius)}


def refuse_unlike(arrays: Mapping[str, NDArray[Any]], wanted: Mapping[str, ArraySpec]) -> None:
    """Raise InputError for the first array that is missing, unknown, or does not match its description."""
    for name in wanted:
        if name not in arrays:
            raise InputError(f"the array {brief(name)} is missing")
    for name in arrays:
        if name not in wanted:
            raise InputError(f"the array {brief(name)} is unknown: a learner like this has {', '.join(sorted(wanted))}")
    for name, spec in wanted.items():
        _compare(name, arrays[name], spec)


def _compare(name: str, array: NDArray[Any], wanted: ArraySpec) -> None:
    fits = len(array.shape) == len(wanted.shape) and all(
        size in (length, ANY) for length, size in zip(array.shape, wanted.shape, strict=True)
    )
    if not fits:
        sizes = ", ".join("any" if size == ANY else str(size) for size in wanted.shape)
        raise InputError(f"the array {brief(name)} has the shape {array.shape}, but must have ({sizes})")
    if array.dtype != np.dtype(wanted.dtype):
        raise InputError(f"the array {brief(name)} has the dtype {array.dtype}, but must have {np.dtype(wanted.dtype)}")
    if isinstance(wanted.least, tuple) and isinstance(wanted.most, tuple):
        for row, least, most in zip(array, wanted.least, wanted.most, strict=True):
            _refuse_outside(name, np.atleast_1d(row), least, most)
    elif isinstance(wanted.least, float | int) and isinstance(wanted.most, float | int):
        _refuse_outside(name, array, wanted.least, wanted.most)


def _refuse_outside(name: str, array: NDArray[Any], least: float, most: float) -> None:
    if least == -math.inf and most == math.inf:
        return
    # NaN is outside every range with two ends: a score computed from it might not show it.
    outside = ~((array >= least) & (array <= most)) if most < math.inf else array < least
    if outside.any():
        number = array[outside].flat[0]
        bounds = f"at least {least}" if most == math.inf else f"from {least} to {most}"
        raise InputError(f"the array {brief(name)} contains {number}, but its numbers must be {bounds}")
