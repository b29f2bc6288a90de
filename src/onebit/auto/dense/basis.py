"""The principal components of the first rows, computed in pieces so that no round waits for long.

The first rows learnt are kept, with their feedback. When 64, 256 and 1,024 of them are there (fewer if rows are
wide), the components are recomputed from all of them: by subspace iteration, which starts from rows at first and
later from the components in use (if there are as many components as rows or columns, no iteration is needed), and
finally by the rotation that orders them by variance (Rayleigh-Ritz; Jacobi 1846). Columns are used as they are, or in
units of their standard deviations if the variance is concentrated in few of them: (sum v)^2 < 0.1 d sum v^2.

`loadings` includes all scaling: the components z = (x - mean) @ loadings of the rows kept have variances with mean
one. A column that is 0 in many rows is skipped where it is 0: then 0 and not the mean is subtracted from it, and the
difference that this makes is added to all rows (`origin`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense.algebra import (
    add_rows,
    diagonalise,
    multiply_chosen,
    orthonormalise,
    padded,
    sort_diagonal,
    write_products,
)
from onebit.auto.dense.views import MOST_MAGNIFIED
from onebit.contract.rule import Matrix, Vector
from onebit.spaces.layout import LARGEST_COUNT, ArraySpec, allocate

MOST_COMPONENTS = 64
MOST_NUMBERS = 2**21  # most numbers in the rows kept
STAGES = (64, 256, 1024)  # rows at each stage; the last is also the most rows kept
SWEEPS = 4  # sweeps of the subspace iteration
FEW_COLUMNS = 0.1  # columns are standardised if the variance lies in less than this share of them
CONSTANT_BELOW = 1e-12  # a column with a variance below this share of its squared mean is constant; so is a component, relative to the largest variance
MANY_ZEROS = 0.1  # a column with a larger share of zeros has a mean of at most three deviations: no precision is lost if it is subtracted later
UNWHITENED_BELOW = 1e-6  # components with less than this share of the largest variance are not whitened
CONSTANT = math.sqrt(0.5)  # length of a usual row after whitening
PIECE_MULTIPLICATIONS = 2**22  # multiplications in a piece, about half a millisecond
ROWS_AT_ONCE = 8  # rows multiplied in one pass
MOST_ROTATIONS = 12  # limit of Jacobi sweeps

IDLE, WORKING, READY = 0, 1, 2  # results of `do_work`: nothing done, a piece, or the last piece

MEAN, SQUARES = 0, 1  # lines of `columns`, over the rows kept
LABEL, RIGHT, REWARD = 0, 1, 2  # the feedback on a kept row
# State of the work: how many rows are kept, the next stage, from how many rows the components are being computed,
ROWS_KEPT, STAGE, ROWS_USED = 0, 1, 2
# the phase, the position in it, how many sweeps are left, and whether columns are standardised.
PHASE, POSITION, SWEEPS_LEFT, STANDARDISED = 3, 4, 5, 6
FACT_COUNT = 7
RESTING, ORTHONORMALISING, ITERATING, MEASURING, DIAGONALISING, ROTATING = 0, 1, 2, 3, 4, 5  # phases


class Basis(NamedTuple):
    """The rows kept, the components in use, and the intermediate state of the next ones."""

    rows: NDArray[Any]
    heard: Matrix  # LABEL, RIGHT, REWARD
    columns: Matrix  # MEAN, SQUARES
    loadings: NDArray[Any]  # (columns, components padded to whole tiles): in use; 0 for components without variance
    mean: NDArray[Any]
    usual: NDArray[Any]  # what is subtracted from a row: the mean, or 0 in columns with many zeros
    origin: NDArray[Any]  # components of the usual row
    variances: Vector  # variances of the components, in descending order; 0 if there is none
    whitening: NDArray[Any]  # factors that give all components equal variance, and a usual row the length CONSTANT
    centre: NDArray[Any]  # of the next components: the mean,
    units: NDArray[Any]  # factors of the columns,
    image: NDArray[Any]  # vectors before orthonormalisation,
    orthonormal: NDArray[Any]
    moments: Matrix  # moments along them,
    rotation: Matrix
    scaled_rows: NDArray[Any]  # scratch space: rows, their components,
    row_components: NDArray[Any]
    unusual_columns: NDArray[np.int64]  # and the columns in which a row is not as usual
    facts: Vector
    generation: NDArray[np.int64]  # number of times that components were computed

    @classmethod
    def empty(cls, features: int, dtype: Any) -> Basis:
        return cls(**allocate(cls.layout(1, features, dtype)))

    @staticmethod
    def layout(heads: int, features: int, dtype: Any) -> dict[str, ArraySpec]:
        """Describe the arrays; all but `SCRATCH` are saved to a file."""
        most, components = most_rows_kept(features), count_components(features)
        block, column = ArraySpec((components, features), dtype), ArraySpec((features,), dtype)
        room = padded(components)
        square = ArraySpec((components, components), np.float64)
        return {
            "rows": ArraySpec((most, features), dtype),
            "heard": ArraySpec((most, 3), np.float64, 0.0, max(1.0, heads - 1.0)),
            "columns": ArraySpec((2, features), np.float64),
            "loadings": ArraySpec((features, room), dtype),
            "mean": column,
            "usual": column,
            "origin": ArraySpec((room,), dtype),
            "variances": ArraySpec((components,), np.float64),
            "whitening": ArraySpec((components,), dtype),
            "centre": column,
            "units": column,
            "image": block,
            "orthonormal": block,
            "moments": square,
            "rotation": square,
            "scaled_rows": ArraySpec((ROWS_AT_ONCE, features), dtype),
            "row_components": ArraySpec((ROWS_AT_ONCE, room), dtype),
            "unusual_columns": ArraySpec((features + 1,), np.int64),
            "facts": ArraySpec((FACT_COUNT,), np.float64, 0.0, float(STAGES[-1])),
            "generation": ArraySpec((1,), np.int64, 0, LARGEST_COUNT),
        }

    @property
    def vectors(self) -> NDArray[Any]:
        """The components in use, one line for each."""
        return self.loadings[:, : len(self.variances)].T


SCRATCH = ("scaled_rows", "row_components", "unusual_columns")
ROW_ARRAYS = ("rows", "heard")  # arrays of the rows kept


def most_rows_kept(features: int) -> int:
    return max(1, min(STAGES[-1], MOST_NUMBERS // features))


def count_components(features: int) -> int:
    """Return the number of components, which is at most that of the columns or of the rows kept."""
    return min(MOST_COMPONENTS, features, most_rows_kept(features))


def needs_rows(basis: Basis) -> bool:
    """Return True if there are still components to compute from the rows kept."""
    return bool(basis.facts[STAGE] < len(STAGES) or basis.facts[PHASE] != RESTING)


def write_components(basis: Basis, x: NDArray[Any], z: NDArray[Any]) -> None:
    """Write the components of a row; 0 before there are any."""
    row, components, chosen, count = basis.scaled_rows[0], basis.row_components[0], basis.unusual_columns, 0
    for column in range(x.shape[0]):
        row[column] = x[column] - basis.usual[column]
    for column in range(x.shape[0]):  # written unconditionally, which is faster than a branch
        chosen[count] = column
        count += row[column] != 0.0
    for component in range(components.shape[0]):
        components[component] = basis.origin[component]
    multiply_chosen(row, chosen, count, basis.loadings, components)
    for component in range(z.shape[0]):
        z[component] = components[component]


def keep_row(basis: Basis, x: NDArray[Any], label: int, right: bool, reward: float) -> None:
    """Keep a learnt row and its feedback while there is room."""
    count = int(basis.facts[ROWS_KEPT])
    if count >= basis.rows.shape[0]:
        return
    row, mean, squares = basis.rows[count], basis.columns[MEAN], basis.columns[SQUARES]
    share = 1.0 / (count + 1.0)
    for column in range(x.shape[0]):
        row[column] = x[column]
        difference = float(x[column]) - mean[column]
        mean[column] += difference * share
        squares[column] += difference * (float(x[column]) - mean[column])
    feedback = basis.heard[count]
    feedback[LABEL], feedback[RIGHT], feedback[REWARD] = label, 1.0 if right else 0.0, reward
    basis.facts[ROWS_KEPT] += 1.0


def forget_basis(basis: Basis) -> None:
    """Start keeping rows from scratch; the components in use stay until the next are ready."""
    facts = basis.facts
    facts[ROWS_KEPT], facts[STAGE], facts[PHASE] = 0.0, 0.0, RESTING
    for column in range(basis.columns.shape[1]):
        basis.columns[MEAN, column] = 0.0
        basis.columns[SQUARES, column] = 0.0


def do_work(basis: Basis) -> int:
    """Do the next piece of work, if any; called after every row learnt.

    Return READY if the components in use have changed, else WORKING or NOTHING.
    """
    facts, done, spent = basis.facts, IDLE, 0
    while spent < PIECE_MULTIPLICATIONS and done != READY:
        phase = int(facts[PHASE])
        if phase == RESTING:
            if not begin_stage(basis):
                return done
            spent += basis.image.size
        elif phase == ORTHONORMALISING:
            spent += orthonormalise_some(basis, PIECE_MULTIPLICATIONS - spent)
        elif phase in (ITERATING, MEASURING):
            spent += sweep_rows(basis, phase == ITERATING, PIECE_MULTIPLICATIONS - spent)
        elif phase == DIAGONALISING:
            spent += 4 * basis.moments.size * basis.moments.shape[0]
            facts[POSITION] += 1.0
            if not diagonalise(basis.moments, basis.rotation) or facts[POSITION] >= MOST_ROTATIONS:
                sort_diagonal(basis.moments, basis.rotation)
                enter_phase(basis, ROTATING)
        else:
            spent += rotate_vectors(basis, PIECE_MULTIPLICATIONS - spent)
        done = READY if phase == ROTATING and facts[PHASE] == RESTING else WORKING
    return done


def enter_phase(basis: Basis, phase: int) -> None:
    basis.facts[PHASE], basis.facts[POSITION] = phase, 0.0


def begin_stage(basis: Basis) -> bool:
    """Start computing components if enough rows are kept for the next stage; return True if so."""
    facts, most = basis.facts, basis.rows.shape[0]
    stage, count = int(facts[STAGE]), min(int(facts[ROWS_KEPT]), most)  # an untrusted file may say more
    if stage >= len(STAGES) or count < min(STAGES[stage], most):
        return False
    first = stage == 0
    while stage < len(STAGES) and count >= min(STAGES[stage], most):
        stage += 1
    components, width = basis.image.shape
    facts[STAGE], facts[ROWS_USED] = stage, count
    facts[SWEEPS_LEFT] = SWEEPS if components < width and components < count else 0.0
    choose_units(basis, count)
    for index in range(components):
        vector = basis.image[index]
        if components == width:
            for column in range(width):
                vector[column] = 1.0 if column == index else 0.0
        elif not first and basis.variances[index] > 0.0:
            for column in range(width):
                unit = basis.units[column]
                vector[column] = basis.loadings[column, index] / unit if unit > 0.0 else 0.0
        else:
            write_scaled_row(basis, index * count // components, vector)
    enter_phase(basis, ORTHONORMALISING)
    return True


def choose_units(basis: Basis, count: int) -> None:
    """Set the mean and the scales of the columns for the next components.

    The scale is from a column's own deviation, or one for all columns, and 0 for a constant column.
    """
    mean, squares, units = basis.columns[MEAN], basis.columns[SQUARES], basis.units
    varying, total, fourth = 0, 0.0, 0.0
    for column in range(mean.shape[0]):
        basis.centre[column] = mean[column]
        variance = squares[column] / count
        if variance <= CONSTANT_BELOW * mean[column] * mean[column]:
            variance = 0.0
        units[column] = math.sqrt(variance)
        varying += 1 if variance > 0.0 else 0
        total += variance
        fourth += variance * variance
    standardise = total * total < FEW_COLUMNS * varying * fourth
    basis.facts[STANDARDISED] = 1.0 if standardise else 0.0
    for column in range(mean.shape[0]):
        if units[column] > 0.0:
            deviation = float(units[column]) if standardise else math.sqrt(total / varying)
            units[column] = min(MOST_MAGNIFIED, 1.0 / deviation)


def write_scaled_row(basis: Basis, index: int, out: NDArray[Any]) -> None:
    """Write a kept row, centred and scaled."""
    row, centre, units = basis.rows[index], basis.centre, basis.units
    for column in range(row.shape[0]):
        out[column] = (row[column] - centre[column]) * units[column]


def orthonormalise_some(basis: Basis, most: int) -> int:
    """Orthonormalise the next vectors of the image; return the number of multiplications."""
    components, width = basis.image.shape
    position, spent = int(basis.facts[POSITION]), 0
    while position < components and spent < most:
        orthonormalise(basis.orthonormal, position, basis.image[position])
        position += 1
        spent += 4 * position * width
    basis.facts[POSITION] = position
    if position >= components:
        enter_phase(basis, ITERATING if basis.facts[SWEEPS_LEFT] > 0.0 else MEASURING)
        basis.facts[SWEEPS_LEFT] = max(0.0, basis.facts[SWEEPS_LEFT] - 1.0)
    return spent


def sweep_rows(basis: Basis, iterating: bool, most: int) -> int:
    """Add the next rows to the image of the vectors, or to the moments along them.

    Both begin at 0, and some rows share a pass. Return the number of multiplications.
    """
    facts, scaled, components_of_rows = basis.facts, basis.scaled_rows, basis.row_components
    components, width = basis.image.shape
    used, position, spent = min(int(facts[ROWS_USED]), basis.rows.shape[0]), int(facts[POSITION]), 0
    while position < used and spent < most:
        for place in range(ROWS_AT_ONCE):
            write_scaled_row(basis, min(position + place, used - 1), scaled[place])
        for index in range(components):
            write_products(basis.orthonormal[index], scaled, components_of_rows[:, index])
        for place in range(ROWS_AT_ONCE):
            if position + place >= used:  # copies beyond the last row must not count
                for index in range(components):
                    components_of_rows[place, index] = 0.0
        before = components_of_rows.dtype.type(1 if position > 0 else 0)
        for index in range(components):
            if iterating:
                add_rows(basis.image[index], before, components_of_rows[:, index], scaled)
            else:
                add_rows(basis.moments[index], float(before), components_of_rows[:, index], components_of_rows)
                for column in range(components):
                    basis.rotation[index, column] = 1.0 if index == column else 0.0
        position += ROWS_AT_ONCE
        spent += ROWS_AT_ONCE * 2 * components * width
    facts[POSITION] = position
    if position >= used:
        enter_phase(basis, ORTHONORMALISING if iterating else DIAGONALISING)
    return spent


def rotate_vectors(basis: Basis, most: int) -> int:
    """Write the next rotated vectors, and after the last one switch to the new components.

    Return the number of multiplications.
    """
    components, width = basis.image.shape
    position, spent = int(basis.facts[POSITION]), 0
    while position < components and spent < most:
        vector, turned = basis.image[position], basis.rotation[position]
        for column in range(width):
            vector[column] = 0.0
        for index in range(components):
            share, old = vector.dtype.type(turned[index]), basis.orthonormal[index]
            for column in range(width):
                vector[column] += share * old[column]
        position += 1
        spent += components * width
    basis.facts[POSITION] = position
    if position >= components:
        use_components(basis)
    return spent


def use_components(basis: Basis) -> None:
    """Replace the components in use by those that are ready."""
    moments, facts = basis.moments, basis.facts
    components, width = basis.image.shape
    least, total, whitened = CONSTANT_BELOW * moments[0, 0], 0.0, 0
    for index in range(components):
        moment = moments[index, index]
        total += moment if moment > least else 0.0
        whitened += 1 if moment > UNWHITENED_BELOW * moments[0, 0] else 0
    usual = total / (facts[ROWS_USED] * components)
    for index in range(components):
        moment = moments[index, index]
        varies = moment > least
        variance = moment / facts[ROWS_USED] / usual if varies else 0.0
        basis.variances[index] = variance
        known = moment > UNWHITENED_BELOW * moments[0, 0]
        basis.whitening[index] = CONSTANT / math.sqrt(whitened * variance) if known else 0.0
        factor, ready = basis.image.dtype.type(1.0 / math.sqrt(usual) if varies else 0.0), basis.image[index]
        for column in range(width):
            basis.loadings[column, index] = factor * ready[column] * basis.units[column]
    for column in range(width):
        basis.mean[column] = basis.centre[column]
    choose_usual_row(basis)
    basis.generation[0] += 1
    enter_phase(basis, RESTING)


def choose_usual_row(basis: Basis) -> None:
    """Set the usual row, which is subtracted from rows, and its components."""
    used, components = min(int(basis.facts[ROWS_USED]), basis.rows.shape[0]), basis.variances.shape[0]
    zeros = basis.unusual_columns
    for component in range(components):
        basis.origin[component] = 0.0
    for column in range(basis.mean.shape[0]):
        zeros[column] = 0
    for row in range(used):
        values = basis.rows[row]
        for column in range(values.shape[0]):
            zeros[column] += values[column] == 0.0
    for column in range(basis.mean.shape[0]):
        basis.usual[column] = basis.mean[column]
        if zeros[column] > MANY_ZEROS * used:
            basis.usual[column] = 0.0
            for component in range(components):
                basis.origin[component] -= basis.mean[column] * basis.loadings[column, component]
