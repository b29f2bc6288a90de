"""The space of `auto` for dense rows; its compiled functions are in `scoring.py` and `learning.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense import basis, shaped_factors
from onebit.auto.dense.basis import Basis, count_components
from onebit.auto.dense.clusters import Clusters
from onebit.auto.dense.contributions import contributions_of
from onebit.auto.dense.learning import absorb
from onebit.auto.dense.linear import LinearMembers
from onebit.auto.dense.mixture import LINEAR, Mixture
from onebit.auto.dense.report import report_of
from onebit.auto.dense.scoring import (
    FIRST_PROGRESS,
    IS_CURRENT,
    RELEARNS,
    AutoDenseArrays,
    MembersPlan,
    score,
    write_hopes,
)
from onebit.auto.dense.shaped_factors import Shaped, needs_shared_factor
from onebit.auto.dense.views import FeatureStatistics, Waves
from onebit.contract.belief import Contributions
from onebit.contract.rule import Contrast
from onebit.errors import InputError, brief
from onebit.spaces.dense import DenseRows, DenseSpace
from onebit.spaces.layout import ANY, ArraySpec, SpaceLayout, allocate
from onebit.spaces.space import Space

__all__ = ["AutoDense", "absorb", "score", "write_hopes"]

SAVED_PARTS = ("linear", "clusters", "mixture", "statistics", "waves", "basis", "shaped", "more_waves")
SCRATCH = {
    "linear": (
        *("sizes", "lengths", "begins", "ends", "widths", "starts"),
        *("images", "views", "variances", "known", "work"),
    ),
    "mixture": ("kinds", "awake", "shares", "scores", "beliefs", "variances"),
    "waves": ("angles",),
    "basis": basis.SCRATCH,
    "shaped": shaped_factors.SCRATCH,
    "more_waves": ("angles",),
}
KEPT_ROWS = tuple(f"basis.{name}" for name in basis.ROW_ARRAYS)


class AutoDense(AutoDenseArrays, Space):
    """The space of `auto` for dense rows."""

    __slots__ = ()
    KEEPS_ROWS = True  # the first rows, and clusters of a single row
    example_rows = staticmethod(DenseSpace.example_rows)

    @classmethod
    def empty(cls, heads: int, features: int, dtype: Any, seed: int, classes: int) -> AutoDense:
        plan, generator = MembersPlan.of(features, classes), np.random.default_rng(seed)
        linear, components = LinearMembers.empty(heads, plan.views, dtype), count_components(features)
        own = allocate(_own_arrays(heads, features, dtype, plan))
        own["progress"][:], own["everything"][:] = FIRST_PROGRESS, 1.0
        return cls(
            weights=linear.weights,
            linear=linear,
            clusters=Clusters.empty(heads, features, dtype),
            mixture=Mixture.empty(heads, plan.kinds),
            statistics=FeatureStatistics.empty(features, dtype),
            waves=Waves.drawn(features, plan.waves, dtype, generator),
            basis=Basis.empty(features, dtype),
            shaped=Shaped.empty(heads, components, dtype, needs_shared_factor(classes, components)),
            more_waves=Waves.drawn(plan.wave_columns, plan.more_waves, dtype, generator),
            **own,
        )

    def copy_into(self, larger: AutoDense) -> AutoDense:
        """Copy the state of the members; new heads start untrained."""
        linear = self.linear.copy_into(larger.linear)
        return self._replace(
            weights=linear.weights,
            linear=linear,
            clusters=self.clusters.copy_into(larger.clusters, self.statistics),
            mixture=self.mixture.copy_into(larger.mixture),
            shaped=self.shaped.copy_into(larger.shaped),
            everything=larger.everything,
            latest=larger.latest,
            opinion=larger.opinion,
        )

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """Return copies of the arrays that are saved to a file.

        The rows kept are saved only while they are needed, for components or to be relearnt.
        """
        arrays = {
            f"{part}.{name}": array
            for part in SAVED_PARTS
            for name, array in getattr(self, part)._asdict().items()
            if name not in SCRATCH.get(part, ())
        }
        if not basis.needs_rows(self.basis) and self.progress[RELEARNS] == 0.0:
            arrays |= {name: arrays[name][:0] for name in KEPT_ROWS}
        return {name: array.copy() for name, array in {**arrays, "progress": self.progress}.items()}

    def load_arrays(self, arrays: dict[str, NDArray[Any]]) -> AutoDense:
        for name in KEPT_ROWS:
            if len(arrays[name]) > len(self.basis.rows):
                raise InputError(
                    f"the array {brief(name)} has {len(arrays[name])} rows, but may have {len(self.basis.rows)}"
                )
        self.latest[IS_CURRENT] = 0.0
        return super().load_arrays(arrays)

    @staticmethod
    def layout(heads: int, features: int, dtype: Any, classes: int) -> SpaceLayout:
        plan, components = MembersPlan.of(features, classes), count_components(features)
        parts = {
            "linear": LinearMembers.layout(heads, plan.views, dtype),
            "clusters": Clusters.layout(heads, features, dtype),
            "mixture": Mixture.layout(heads),
            "statistics": FeatureStatistics.layout(features, dtype),
            "waves": Waves.layout(features, plan.waves, dtype),
            "basis": Basis.layout(heads, features, dtype),
            "shaped": Shaped.layout(heads, components, dtype, needs_shared_factor(classes, components)),
            "more_waves": Waves.layout(plan.wave_columns, plan.more_waves, dtype),
        }
        own = _own_arrays(heads, features, dtype, plan)
        arrays = {f"{part}.{name}": spec for part, arrays in parts.items() for name, spec in arrays.items()}
        scratch = {f"{part}.{name}" for part, names in SCRATCH.items() for name in names}
        saved = {name: spec for name, spec in {**arrays, "progress": own["progress"]}.items() if name not in scratch}
        # The rows are all saved or not at all; room for those not saved is 2^21 numbers at most.
        saved |= {name: saved[name]._replace(shape=(ANY, *saved[name].shape[1:])) for name in KEPT_ROWS}
        return SpaceLayout({**arrays, **own}, saved, 3 * heads, {})

    @property
    def room(self) -> tuple[int, int]:
        return self.clusters.means.shape[0], self.clusters.means.shape[1]

    @property
    def never_right(self) -> list[int]:
        return np.flatnonzero(self.clusters.counts == 0.0).tolist()

    report = report_of

    @property
    def repairs(self) -> NDArray[np.int64]:
        """How often a covariance lost its positive definiteness."""
        return self.linear.repairs

    def matrix(self, known: int) -> Any:
        """Return the weights of the linear members, each in its own view, side by side: a line for each class."""
        return np.concatenate([self.linear.weights_of(member) for member in range(LINEAR)], axis=1)

    def contributions(self, rows: DenseRows, contrast: Contrast) -> Contributions:
        return contributions_of(self, contrast)


def _own_arrays(heads: int, features: int, dtype: Any, plan: MembersPlan) -> dict[str, ArraySpec]:
    """Describe the arrays that belong to no member."""
    return {
        "progress": ArraySpec((len(FIRST_PROGRESS),), np.float64),
        **dict.fromkeys(("everything", "opinion"), ArraySpec((heads,), np.float64)),
        "latest": ArraySpec((2,), np.float64),
        "components": ArraySpec((count_components(features),), dtype),
        "waved_row": ArraySpec((plan.wave_columns + 1,), dtype),
        **dict.fromkeys(("last_row", "scaled_row", "standard_units", "standardised"), ArraySpec((features,), dtype)),
    }
