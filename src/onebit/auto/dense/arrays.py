"""What the space of `auto` for dense rows is made of: its members, and what they know of earlier rows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numpy.typing import NDArray

from onebit.auto.dense.basis import Basis, components_of
from onebit.auto.dense.clusters import Clusters
from onebit.auto.dense.linear import LinearMembers, View
from onebit.auto.dense.mixture import ABSENT, BASED, PRESENT, SIZES, Mixture
from onebit.auto.dense.shaped_factors import Shaped
from onebit.auto.dense.views import FeatureStatistics, Waves
from onebit.contract.covariance import FITTING_MATRICES
from onebit.contract.rule import Vector

MOST_WAVES, WAVE_NUMBERS = 400, 5 * 10**5  # at most so many waves, and numbers in the matrices on them
MOST_WAVED_CLASSES = 50  # with more there are too few waves for each to be of use
NARROW = 128  # columns
# The progress: whether rows are being learnt again, how many were; the trust in the opinion of the shaped clusters, and its squared slopes;
# whether what corrects them looks at standardised columns, and whether it need not learn them again.
PENDING, REPLAYED, TRUST, SLOPES, STANDARD, STAYS = range(6)
FIRST_PROGRESS = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
LOOKED, SQUARES = 0, 1  # of the row just seen: whether nothing was learnt since, and its squared norm


class MembersPlan(NamedTuple):
    """Which members there are: it depends on the number of classes in the beginning, not on those added since."""

    views: tuple[View, ...]
    there: tuple[int, ...]
    waves: int  # of the columns
    more_waves: int  # for what corrects the shaped clusters
    wave_columns: int  # what these are waves of: the columns, or of wide rows the principal components

    @classmethod
    def of(cls, features: int, classes: int) -> MembersPlan:
        """Those for so many features and classes."""
        whole, components = classes * (features + 1) ** 2 <= FITTING_MATRICES, components_of(features)
        waves = min(MOST_WAVES, int(math.sqrt(WAVE_NUMBERS / classes))) if classes <= MOST_WAVED_CLASSES else 0
        plain, none, waved = View(features + 1, whole), View(0, full=True), View(waves + 1, full=True)
        fits = classes * (components + 1) ** 2 <= FITTING_MATRICES
        views = (
            plain,
            plain if whole else none,
            plain,
            waved if waves else none,
            View(components + 1, full=True) if fits else none,
            waved if waves else none,
        )
        kinds = (PRESENT, PRESENT, PRESENT, PRESENT if whole else BASED, BASED, BASED)
        linear = (kind if view.size > 0 else ABSENT for kind, view in zip(kinds, views, strict=True))
        return cls(
            views,
            (*linear, PRESENT, *(BASED,) * SIZES),
            waves if whole else 0,
            waves,
            features if features <= NARROW else components,
        )


class AutoDenseArrays(NamedTuple):
    """The members, what is known of rows, and how the row just seen looks."""

    weights: NDArray[Any]  # of the linear members, for what asks for a dtype
    linear: LinearMembers
    clusters: Clusters
    mixture: Mixture
    statistics: FeatureStatistics
    waves: Waves
    basis: Basis
    shaped: Shaped
    more_waves: Waves
    progress: Vector  # of what is learnt on the basis
    everything: Vector  # that feedback is about all classes
    seen: NDArray[Any]  # the row just seen, as it came
    latest: Vector  # LOOKED, SQUARES
    opinion: Vector  # of the shaped clusters on it
    components: NDArray[Any]
    waved_row: NDArray[Any]
    taken: NDArray[Any]
    units: NDArray[Any]
    plain: NDArray[Any]
