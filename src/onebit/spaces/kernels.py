"""The kernels, as functions of <x, x'> and both squared lengths: spaces compute only dot products.

| kernel | k(x, x') | takes |
|---|---|---|
| `linear` | <x, x'> | every x |
| `polynomial:DEGREE` | (<x, x'> + 1)^DEGREE | every x |
| `rational` | 1 / (1 - <x, x'> / 2) | ||x|| <= 1, others are refused |
| `rbf:GAMMA` | exp(-GAMMA ||x - x'||^2) | every x; GAMMA is 1 / number of features where it is not given |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, brief, nearest

LINEAR, POLYNOMIAL, RATIONAL, RBF = range(4)
KERNEL_CODES = {"linear": LINEAR, "polynomial": POLYNOMIAL, "rational": RATIONAL, "rbf": RBF}
LARGEST_DEGREE = 20
DEGREE = 3  # default
LONGEST_SQUARED = 1.0 + 1e-5  # squared length of a row that the rational kernel accepts, with room for rounding
HALVINGS = 8  # of the argument of an exponential, which is then squared as often
LARGEST_EXPONENT = 60.0  # e^-60 is negligible beside 1


class Kernel(NamedTuple):
    """A kernel, given by its code and one number: the degree, gamma, or 0 if it has none."""

    code: int
    number: float

    @classmethod
    def read(cls, text: str, features: int | None = None) -> Kernel:
        """Parse a kernel; `features` sets the gamma of an `rbf` without one. Raise InputError if invalid.

        >>> Kernel.read("rbf:0.5"), Kernel.read("polynomial")
        (Kernel(code=3, number=0.5), Kernel(code=1, number=3.0))
        """
        if not isinstance(text, str):
            raise InputError(f"kernel is {brief(text)}; {nearest(str(text), KERNEL_CODES)}")
        name, colon, number_text = text.partition(":")
        if name not in KERNEL_CODES:
            raise InputError(f"kernel is {brief(text)}; {nearest(name, KERNEL_CODES)}")
        code = KERNEL_CODES[name]
        if code in (LINEAR, RATIONAL):
            if colon:
                raise InputError(f"kernel is {brief(text)}, but {name} takes no number")
            return cls(code, 0.0)
        try:
            number = float(number_text) if colon else float(DEGREE) if code == POLYNOMIAL else 1.0 / (features or 1)
        except ValueError:
            number = float("nan")
        if code == POLYNOMIAL and not (number.is_integer() and 1 <= number <= LARGEST_DEGREE):
            raise InputError(
                f"kernel is {brief(text)}, but its degree must be a whole number from 1 to {LARGEST_DEGREE}"
            )
        if code == RBF and not 0.0 < number < 1e12:
            raise InputError(f"kernel is {brief(text)}, but its gamma must be a number above 0, as in rbf:0.5")
        return cls(code, number)

    def __str__(self) -> str:
        name = next(name for name, code in KERNEL_CODES.items() if code == self.code)
        return name if self.code in (LINEAR, RATIONAL) else f"{name}:{repr(self.number).removesuffix('.0')}"

    def self_values(self, norms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return k(x, x) for squared lengths; NaN for rows that the kernel does not accept."""
        accepted = np.where(norms <= LONGEST_SQUARED, norms, np.nan) if self.code == RATIONAL else norms
        return np.full_like(norms, self_value(self.code, self.number, accepted))

    def matrix(self, A: Any, B: Any) -> NDArray[np.float64]:
        """Return the kernel matrix of every row of A with every row of B, for small tables.

        >>> Kernel.read("rational").matrix([[0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]])
        array([[2., 1.]])
        """
        first, second = (np.asarray(table, dtype=np.float64) for table in (A, B))
        dots = first @ second.T
        norms = np.square(first).sum(axis=1)[:, None], np.square(second).sum(axis=1)[None, :]
        if self.code == LINEAR:
            return np.asarray(dots)
        if self.code == POLYNOMIAL:
            return np.asarray((dots + 1.0) ** int(self.number))
        if self.code == RBF:
            return np.asarray(np.exp(-self.number * np.maximum(0.0, norms[0] + norms[1] - 2.0 * dots)))
        if any((norm > LONGEST_SQUARED).any() for norm in norms):
            raise InputError("the rational kernel takes rows of length 1 at most: prepare them (unit-norm, unit-ball)")
        return np.asarray(1.0 / (1.0 - dots / 2.0))


def apply_kernel(code: int, number: float, norm: float, dots: NDArray[Any], norms: NDArray[Any], count: int) -> None:
    """Turn the first `count` dot products of x with other rows into kernel values, in place.

    `norm` and `norms` are the squared lengths of x and of the others. There is one loop for each kernel, with only
    additions and multiplications, so that the compiler vectorises it.
    """
    if code == POLYNOMIAL:
        for index in range(count):
            base = dots[index] + 1.0
            power = base
            for _ in range(1, int(number)):
                power *= base
            dots[index] = power
    elif code == RATIONAL:
        for index in range(count):
            dots[index] = 1.0 / (1.0 - 0.5 * dots[index])
    elif code == RBF:
        for index in range(count):
            distance = max(0.0, norm + norms[index] - 2.0 * dots[index])
            dots[index] = exponential(min(number * distance, LARGEST_EXPONENT))


def exponential(y: float) -> float:
    """Return e^-y for 0 <= y <= FARTHEST, to 13 digits: a polynomial of y / 2^8, squared eight times.

    The library's function takes one value at a time; this one is vectorised, for eight at once.
    """
    x = -y / (1 << HALVINGS)
    value = 1.0 + x * (1.0 / 11.0)
    value = 1.0 + x * (1.0 / 10.0) * value
    value = 1.0 + x * (1.0 / 9.0) * value
    value = 1.0 + x * (1.0 / 8.0) * value
    value = 1.0 + x * (1.0 / 7.0) * value
    value = 1.0 + x * (1.0 / 6.0) * value
    value = 1.0 + x * (1.0 / 5.0) * value
    value = 1.0 + x * (1.0 / 4.0) * value
    value = 1.0 + x * (1.0 / 3.0) * value
    value = 1.0 + x * (1.0 / 2.0) * value
    value = 1.0 + x * value
    for _ in range(HALVINGS):
        value *= value
    return value


def self_value(code: int, number: float, norm: Any) -> Any:
    """Return k(x, x) for a squared length, or in Python for several."""
    if code == POLYNOMIAL:
        return (norm + 1.0) ** number
    if code == RATIONAL:
        return 1.0 / (1.0 - 0.5 * norm)
    return 1.0 if code == RBF else norm
