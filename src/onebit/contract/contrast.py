"""How much more a rule prefers one class than another: a weighed sum of scores, to which every value of a row adds its part.

With one head a class it is the difference of two scores. A tree compares two classes at the node where their ways part, and all pairs have
a head for every two classes. `Rule.contrast` says which sum it is; the space says what each value adds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Contrast = tuple[tuple[int, float], ...]  # positions among the scores, each with its weight


class Contributions(NamedTuple):
    """What a contrast is the sum of: something for each value of a row, in their order, and what no value of it has to do with."""

    values: NDArray[np.float64]
    constant: float


def class_contrast(params: Any, memory: NDArray[np.float64], label: int, rival: int) -> Contrast:
    """With one head a class: the score of the one less that of the other.

    >>> class_contrast(None, np.zeros(3), 2, 0)
    ((2, 1.0), (0, -1.0))
    """
    return ((label, 1.0), (rival, -1.0))


def amount(contrast: Contrast, scores: NDArray[np.float64]) -> float:
    """The sum itself.

    >>> amount(((2, 1.0), (0, -1.0)), np.array([1.0, 5.0, 3.5]))
    2.5
    """
    return float(sum(weight * scores[position] for position, weight in contrast))
