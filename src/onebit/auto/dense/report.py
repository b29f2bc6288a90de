"""Reports about the members of `auto` on dense rows, in words."""

from __future__ import annotations

import math

import numpy as np

from onebit.auto.dense.basis import ROWS_KEPT, STAGES, most_rows_kept
from onebit.auto.dense.basis import SQUARES as KEPT_SQUARES
from onebit.auto.dense.basis import STANDARDISED as BY_DEVIATIONS
from onebit.auto.dense.mixture import (
    ABSENT,
    BASED,
    CENTRED,
    CLUSTERS,
    COMPONENTS,
    CORRECTED,
    DIRECTED,
    HOPELESS_LOSS,
    MEMBER_NAMES,
    MEMBERS,
    RECENT_ROUNDS,
    ROUNDS,
    SHAPED,
    STANDARDISED,
    WAVED,
)
from onebit.auto.dense.scoring import RELEARNS, SEES_STANDARDISED, AutoDenseArrays, waves_of_columns
from onebit.auto.dense.shaped import PREFIXES
from onebit.auto.dense.shaped_factors import shares_factor
from onebit.auto.dense.views import DIVIDES, VARYING
from onebit.contract.description import ColumnsReport, MemberReport, MembersReport


def report_of(space: AutoDenseArrays) -> MembersReport:
    """Return a report about the members and the columns; the shaped members are reported as one."""
    members = [member for member in range(SHAPED + 1) if space.mixture.kinds[member] != ABSENT]
    return MembersReport(tuple(_member(space, member) for member in members), _columns(space))


def _member(space: AutoDenseArrays, member: int) -> MemberReport:
    mixture, shares = space.mixture, _shares(space)
    parts = range(SHAPED, MEMBERS) if member == SHAPED else range(member, member + 1)
    best = min(parts, key=lambda part: mixture.losses[part])
    # Recent losses start at 0, so those of a member that joined later are too small for a while.
    least = RECENT_ROUNDS if mixture.kinds[member] == BASED else 1.0
    judged = mixture.facts[ROUNDS] >= least and mixture.rates[best] > 0.0
    return MemberReport(
        name=MEMBER_NAMES[member],
        about=_about(space, member),
        share=float(sum(shares[part] for part in parts)),
        chance=math.exp(-mixture.rates[best]) if judged else None,
        behind=float(mixture.losses[best]),
        every=int(mixture.strides[best]),
        waits_for=_awaited(space) if mixture.kinds[member] == BASED else None,
    )


def _shares(space: AutoDenseArrays) -> list[float]:
    """Return the members' shares, as if all that count were awake."""
    mixture, waiting = space.mixture, _awaited(space) is not None
    gaps = [
        math.inf if kind == ABSENT or (kind == BASED and waiting) else loss
        for kind, loss in zip(mixture.kinds, mixture.losses, strict=True)
    ]
    weights = [math.exp(least - gap) if gap - least < HOPELESS_LOSS else 0.0 for least in [min(gaps)] for gap in gaps]
    return [weight / sum(weights) for weight in weights]


def _awaited(space: AutoDenseArrays) -> str | None:
    if space.basis.generation[0] == 0:
        return f"the components of the first {min(STAGES[0], most_rows_kept(len(space.scaled_row)))} rows"
    return "the first rows, to learn them again on new principal components" if space.progress[RELEARNS] else None


def _about(space: AutoDenseArrays, member: int) -> str:
    if member == WAVED and space.mixture.kinds[WAVED] != BASED:
        return "random waves of the columns in units of their deviations (a Gaussian kernel)"
    components = len(space.components)
    kind = "in units of their deviations" if space.progress[SEES_STANDARDISED] else "less their means"
    waved = f"the columns {kind}" if waves_of_columns(space) else f"the first {components} principal components"
    *fewer, most = (str(size) for size in sorted({min(size, components) for size in PREFIXES}))
    sizes = f"{', '.join(fewer)} and {most}" if fewer else most
    shape = "one shape for all" if shares_factor(space.shaped) else "a shape of its own"
    return {
        DIRECTED: "the direction of the row, whatever its length",
        CENTRED: "the columns less their means; follows functions that change",
        STANDARDISED: "the columns in units of their deviations",
        WAVED: f"random waves of {waved} (a Gaussian kernel)",
        COMPONENTS: f"the first {components} principal components, made alike",
        CORRECTED: f"random waves of {waved}, on top of what the shaped clusters say",
        CLUSTERS: "each class as a cluster, with one spread per column",
        SHAPED: f"each class as a cluster with {shape}, on the first {sizes} principal components",
    }[member]


def _columns(space: AutoDenseArrays) -> ColumnsReport:
    rows, basis, features = space.statistics.rows, space.basis, len(space.scaled_row)
    variances = basis.columns[KEPT_SQUARES] / max(1.0, basis.facts[ROWS_KEPT])
    squares = float(np.sum(variances**2))
    ready = basis.generation[0] > 0
    return ColumnsReport(
        count=features,
        varying=int(rows[VARYING]),
        divided=bool(rows[DIVIDES]),
        standardised=bool(basis.facts[BY_DEVIATIONS]) if ready else None,
        effective=float(np.sum(variances)) ** 2 / squares if ready and squares > 0.0 else None,
    )
