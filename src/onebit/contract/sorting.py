"""Sorting without allocation, as a rule needs it on a CPU and on a GPU."""

from __future__ import annotations

from onebit.contract.rule import Vector


def sort_descending(keys: Vector, labels: Vector, count: int) -> None:
    """Sort `keys` in place, largest first, and carry `labels` along.

    Shell's method: for the few dozen classes of most problems it is insertion sort with a head start, and at K = 1000 it
    still costs little beside K dot products.
    """
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for index in range(gap, count):
            key = keys[index]
            label = labels[index]
            hole = index
            while hole >= gap and keys[hole - gap] < key:
                keys[hole] = keys[hole - gap]
                labels[hole] = labels[hole - gap]
                hole -= gap
            keys[hole] = key
            labels[hole] = label
        gap //= 3
