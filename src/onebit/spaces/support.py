"""The stored rows of a kernel space, as shown to users and as saved to a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, brief
from onebit.spaces.kernel import BLOCK_ROWS, REMOVED, STORED, Plan
from onebit.spaces.layout import ANY, LARGEST_COUNT, SCALE, ArraySpec, SpaceLayout
from onebit.spaces.space import Space


@dataclass(frozen=True, eq=False)
class Support:
    """The rows that a learner with a kernel has stored, and their coefficients (heads by rows).

    The rows are an array, or the parts of a CSR matrix.
    """

    rows: Any
    coefficients: NDArray[Any]
    gone: int  # how many rows were removed for others

    def __len__(self) -> int:
        return int(self.coefficients.shape[1])


def kernel_layout(
    heads: int, bias: bool, dtype: Any, plan: Plan, own: dict[str, ArraySpec], own_saved: dict[str, ArraySpec]
) -> SpaceLayout:
    """Return the layout of a kernel space at its full budget; `own` describes its arrays of stored rows.

    `KernelSpace.load_arrays` checks that the arrays of a file are consistent with each other.
    """
    slots, lines = ArraySpec((slots_for(plan),), np.float64), ArraySpec((heads,), np.float64)
    arrays = {
        "weights": ArraySpec((slots_for(plan) // BLOCK_ROWS, heads, BLOCK_ROWS), dtype),
        **dict.fromkeys(("norms", "selves", "values", "removed_values"), slots),
        **dict.fromkeys(("last_scores", "removed"), lines),
        "norm_change": ArraySpec((1,), np.float64),
        "counts": ArraySpec((2,), np.int64),
        "scale": SCALE,
    }
    saved = {
        "coefficients": ArraySpec((heads, ANY), dtype),
        "scale": SCALE,
        "counts": ArraySpec((2,), np.int64, 0, LARGEST_COUNT),
        **dict.fromkeys(("norms", "selves"), ArraySpec((ANY,), np.float64, 0.0)),
    }
    numbers = {"bias": int(bias), "code": int(plan.kernel.code), "number": float(plan.kernel.number)}
    options = {"budget": int(plan.budget), "follows_norm": int(plan.follows_norm)}
    return SpaceLayout({**arrays, **own}, {**saved, **own_saved}, heads, {**numbers, **options})


def slots_for(plan: Plan) -> int:
    """Return how many rows a space has room for, in whole blocks."""
    return BLOCK_ROWS * max(1, -(-plan.budget // BLOCK_ROWS))


def refuse_length(name: str, length: int, stored: int) -> None:
    """Raise InputError if an array does not have one element for each stored row."""
    if length != stored:
        raise InputError(f"the array {brief(name)} has {length} stored rows, but 'counts' says {stored}")


NO_WEIGHTS = (
    "a learner with a kernel has no weights per feature: see learner.runtime.support for its rows and coefficients"
)


class KernelSpace(Space):
    """The Python side of both kernel spaces: stored rows and coefficients (blocks, heads, lanes)."""

    __slots__ = ()
    KEEPS_ROWS = True

    @classmethod
    def empty(cls: Any, heads: int, features: int, bias: bool, dtype: Any, plan: Plan) -> Any:
        """Return a space in which nothing is stored, with room for one block."""
        one_block: Any = super().empty(heads, features, bias, dtype, plan._replace(budget=0))
        return one_block._replace(budget=int(plan.budget))

    def support(self: Any) -> Support:
        parts = self.stored_rows()
        return Support(parts.get("supports", parts), self.coefficients() * self.scale[0], int(self.counts[REMOVED]))

    def coefficients(self: Any) -> NDArray[Any]:
        """Return the coefficients before scaling, heads by rows."""
        heads = self.weights.shape[1]
        return np.asarray(self.weights.transpose(1, 0, 2).reshape(heads, -1)[:, : self.counts[STORED]])

    def arrays(self: Any, features: int | None) -> dict[str, NDArray[Any]]:
        """Return copies of the arrays that are saved to a file; `features` has no effect on stored rows."""
        stored = int(self.counts[STORED])
        return {
            "coefficients": self.coefficients().copy(),
            "scale": self.scale.copy(),
            "counts": self.counts.copy(),
            "norms": self.norms[:stored].copy(),
            "selves": self.selves[:stored].copy(),
            **{f"support_{name}": part for name, part in self.stored_rows().items()},
        }

    def load_arrays(self: Any, arrays: dict[str, NDArray[Any]]) -> Any:
        """Return a space like this one with the state from `arrays`.

        Raise InputError, before anything is allocated, if the arrays are not consistent with each other.
        """
        stored = int(arrays["counts"][STORED])  # used as an index below
        if stored > self.budget > 0:
            raise InputError(f"the array 'counts' says {stored} stored rows, but max_support is {self.budget}")
        refuse_length("coefficients", arrays["coefficients"].shape[1], stored)
        for name in ("norms", "selves"):
            refuse_length(name, len(arrays[name]), stored)
        return self._filled(arrays, max(1, -(-stored // BLOCK_ROWS)))

    def _filled(self: Any, arrays: dict[str, NDArray[Any]], blocks: int) -> Any:
        """Return a space like this one with the state from `arrays`, in this many blocks."""
        stored, heads = int(arrays["counts"][STORED]), self.weights.shape[1]
        weights = np.zeros((heads, blocks * BLOCK_ROWS), dtype=self.weights.dtype)
        weights[: len(arrays["coefficients"]), :stored] = arrays["coefficients"]
        lengths = {name: np.zeros(blocks * BLOCK_ROWS) for name in ("norms", "selves", "values", "removed_values")}
        for name in ("norms", "selves"):
            lengths[name][:stored] = arrays[name]
        filled = self._replace(
            weights=np.ascontiguousarray(weights.reshape(heads, blocks, BLOCK_ROWS).transpose(1, 0, 2)),
            counts=arrays["counts"].copy(),
            scale=arrays["scale"].copy(),
            **lengths,
        )
        rows = {name.removeprefix("support_"): part for name, part in arrays.items() if name.startswith("support_")}
        return filled.with_rows(rows)

    def copy_into(self: Any, larger: Any) -> Any:
        return larger._filled(self.arrays(None), len(self.weights))

    def with_more_room(self: Any, rows: Any) -> Any:
        """Return a copy with room for twice as many stored rows, or up to the budget."""
        blocks = 2 * len(self.weights)
        return self._filled(self.arrays(None), min(blocks, -(-self.budget // BLOCK_ROWS)) if self.budget else blocks)

    def matrix(self, known: int) -> Any:
        """Raise InputError: a kernel space has no weights of features."""
        raise InputError(NO_WEIGHTS)
