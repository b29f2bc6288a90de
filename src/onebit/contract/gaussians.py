"""Normal random numbers, and the probability that one of several independent ones is the largest."""

from __future__ import annotations

import math

from onebit.contract.choices import fill, share_greedy
from onebit.contract.draws import Draws, uniform
from onebit.contract.rule import Vector

ROOT_HALF = math.sqrt(0.5)
ROOT_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
FAR = 8.0  # in deviations: normal numbers beyond this are neglected (probability 1e-15)
TINY = 1e-12  # deviations below this fraction of the numbers count as 0
HUGE = 1e300  # beyond this, sums of a few deviations overflow
FINE = 5e-4  # largest product of the changes of two distributions within a cell (`share_largest`)


def normal(draws: Draws, index: int) -> float:
    """Return a standard normal draw from the uniform draws at `index` and `index + 1` (Box-Muller)."""
    return math.sqrt(-2.0 * math.log(1.0 - uniform(draws, index))) * math.cos(2.0 * math.pi * uniform(draws, index + 1))


def normal_cdf(value: float) -> float:
    """Return the probability that a standard normal number is at most `value`."""
    return 0.5 * math.erfc(-value * ROOT_HALF)


def normal_cdf_integral(value: float) -> float:
    """Return the integral of `normal_cdf` up to `value`; its means over cells are differences of two."""
    if value < -FAR:
        return 0.0
    return value * normal_cdf(value) + ROOT_DENSITY * math.exp(-0.5 * value * value)


def share_largest(means: Vector, deviations: Vector, count: int, out: Vector, logs: Vector) -> None:
    """Write the probability that each of these independent normal numbers is the largest, to 0.002.

    Cells are processed from left to right. Within a cell the distributions are replaced by their means, with an error
    of at most half the product of the changes of two of them; so a cell is made smaller until that is small. A
    deviation of 0 is replaced by a tiny one, so that equal numbers have equal shares. `logs` is scratch.
    """
    size, widest = 0.0, 0.0
    for label in range(count):
        size = max(size, abs(means[label]) + deviations[label])
        widest = max(widest, deviations[label])
    least = TINY * size
    if not least < widest < HUGE or not size < HUGE:  # no deviation matters, or numbers are too large for cells
        share_greedy(means, count, 0.0, out)
        return
    low, high, narrowest = -math.inf, -math.inf, math.inf
    for label in range(count):
        deviations[label] = max(deviations[label], least)
        low = max(low, means[label] - FAR * deviations[label])
        high = max(high, means[label] + FAR * deviations[label])
        narrowest = min(narrowest, deviations[label])
    fill(out, count, 0.0)
    left, step = low, (high - low) / 16.0
    while left < high:
        right = left + step
        if step > 0.01 * narrowest and not is_fine_enough(means, deviations, count, left, right):
            step *= 0.5
            continue
        total = 0.0
        for label in range(count):
            logs[label] = math.log(max(1e-300, mean_cdf(means[label], deviations[label], left, right)))
            total += logs[label]
        for label in range(count):
            inside = interval_probability(means[label], deviations[label], left, right)
            if inside > 0.0:
                out[label] += inside * math.exp(total - logs[label])
        left = right
        step *= 2.0
    total = 0.0
    for label in range(count):
        total += out[label]
    for label in range(count):
        out[label] /= total


def is_fine_enough(means: Vector, deviations: Vector, count: int, left: float, right: float) -> bool:
    """Return True if at most one distribution changes much within this cell."""
    largest, second = 0.0, 0.0
    for label in range(count):
        change = interval_probability(means[label], deviations[label], left, right)
        if change > largest:
            largest, second = change, largest
        elif change > second:
            second = change
    return largest * second <= FINE


def interval_probability(mean: float, deviation: float, left: float, right: float) -> float:
    """Return the probability of lying in (left, right]."""
    return normal_cdf((right - mean) / deviation) - normal_cdf((left - mean) / deviation)


def mean_cdf(mean: float, deviation: float, left: float, right: float) -> float:
    """Return the mean of the distribution function over a cell (left, right]."""
    width = (right - left) / deviation
    return (normal_cdf_integral((right - mean) / deviation) - normal_cdf_integral((left - mean) / deviation)) / width
