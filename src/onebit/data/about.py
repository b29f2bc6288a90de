"""What rows are like, in one line for people."""

from __future__ import annotations

import numpy as np

from onebit.data.rewards import best_constant
from onebit.data.tables import Dataset
from onebit.errors import brief
from onebit.validation import listed

_ORDERS = {"file": "in the order of the file", "shuffle": "shuffled", "resample": "drawn with replacement"}


def about_rows(data: Dataset, order: str, candidates: int) -> str:
    """How many rows, features and classes, in which order, and what is easily had; `candidates` is how many are drawn a round."""
    shape: tuple[int, ...] = getattr(data.X, "shape", (data.rows,))
    width = f", {shape[1]:,} features" if len(shape) == 2 else ""
    about = f"{data.rows:,} rows{width}, {len(data.classes)} classes ({listed(data.classes)}), {_ORDERS[order]}"
    if candidates or data.candidates is not None:
        sizes = np.array([candidates]) if data.candidates is None else data.candidates.sizes
        least, most = int(sizes.min()), int(sizes.max())
        count = f"{least} to {most}" if least < most else str(least)
        return f"{about}; {count} candidate{'' if most == 1 else 's'} in each round"
    if data.rewards is not None:
        best, mean = best_constant(data.rewards)
        return f"{about}; always naming {brief(data.classes[best])} has a mean reward of {mean:.3f}"
    share = np.bincount(data.y, minlength=len(data.classes)).max() / data.rows
    return f"{about}; always naming the most frequent class has an error of {100 * (1 - share):.1f} %"
