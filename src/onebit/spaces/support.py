"""What a kernel space has stored: for a user to see, and as the arrays of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, brief
from onebit.spaces.kernel import LANES, LEFT_OUT, NEXT, STORED
from onebit.spaces.layout import ANY, MOST_COUNTED, NUMBERS, SCALE, ArraySpec


@dataclass(frozen=True, eq=False)
class Support:
    """What a learner with a kernel has stored: rows (an array, or the parts of a CSR matrix) and coefficients, heads by rows."""

    rows: Any
    coefficients: NDArray[Any]
    gone: int  # how many rows were not stored, or have given way since

    def __len__(self) -> int:
        return int(self.coefficients.shape[1])


def support_of(space: Any) -> Support:
    """What a kernel space has stored, as a copy."""
    parts = space.stored()
    return Support(parts.get("supports", parts), coefficients_of(space) * space.scale[0], int(space.counts[LEFT_OUT]))


def coefficients_of(space: Any) -> NDArray[Any]:
    """The coefficients without their scale, heads by rows."""
    heads = space.weights.shape[1]
    return np.asarray(space.weights.transpose(1, 0, 2).reshape(heads, -1)[:, : space.counts[STORED]])


def arrays_of(space: Any) -> dict[str, NDArray[Any]]:
    """All that a kernel space has learnt, as arrays to be written down."""
    stored = int(space.counts[STORED])
    return {
        "coefficients": coefficients_of(space).copy(),
        "scale": space.scale.copy(),
        "counts": space.counts.copy(),
        "norms": space.norms[:stored].copy(),
        "selves": space.selves[:stored].copy(),
        **{f"support_{name}": part for name, part in space.stored().items()},
    }


def saved_parts(heads: int, dtype: Any) -> dict[str, ArraySpec]:
    """What those arrays must be that both kernel spaces have; that they fit each other is seen to by `from_arrays`."""
    return {
        "coefficients": ArraySpec((heads, ANY), dtype),
        "scale": SCALE,
        "counts": ArraySpec((3,), np.int64, 0, MOST_COUNTED),
        "norms": ArraySpec((ANY,), NUMBERS, 0.0),
        "selves": ArraySpec((ANY,), NUMBERS, 0.0),
    }


def checked_counts(counts: NDArray[np.int64], budget: int) -> int:
    """How many rows are stored, if these are counts that a space with this budget can have: rows are looked up by them."""
    stored, oldest = int(counts[STORED]), int(counts[NEXT])
    if stored > budget > 0:
        raise InputError(f"the array 'counts' speaks of {stored} stored rows, but max_support is {budget}")
    if oldest >= max(1, budget):
        raise InputError(f"the array 'counts' has the oldest row at {oldest}, but must have it below {max(1, budget)}")
    return stored


def refuse_length(name: str, length: int, stored: int) -> None:
    """A sentence for an array that is not of the rows that are stored."""
    if length != stored:
        raise InputError(f"the array {brief(name)} is of {length} stored rows, but 'counts' speaks of {stored}")


def from_arrays(space: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """A fresh space with what was written down; arrays that do not fit each other are refused before anything is allocated."""
    stored = checked_counts(arrays["counts"], space.budget)
    refuse_length("coefficients", arrays["coefficients"].shape[1], stored)
    for name in ("norms", "selves"):
        refuse_length(name, len(arrays[name]), stored)
    blocks = max(1, -(-stored // LANES))
    heads = space.weights.shape[1]
    weights = np.zeros((heads, blocks * LANES), dtype=space.weights.dtype)
    weights[:, :stored] = arrays["coefficients"]
    lengths = {name: np.zeros(blocks * LANES) for name in ("norms", "selves", "values", "others")}
    for name in ("norms", "selves"):
        lengths[name][:stored] = arrays[name]
    filled = space._replace(
        weights=np.ascontiguousarray(weights.reshape(heads, blocks, LANES).transpose(1, 0, 2)),
        counts=arrays["counts"].copy(),
        scale=arrays["scale"].copy(),
        **lengths,
    )
    rows = {name.removeprefix("support_"): part for name, part in arrays.items() if name.startswith("support_")}
    return filled.filled(rows)
