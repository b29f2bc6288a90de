"""Declared preprocessing of rows before a run: a tuple of steps that is part of the run's identity.

Each step is fitted to the output of the steps before it, over the whole table. That is hindsight: a learner in
production has not seen the rows to come, and divides by constants that are known beforehand. Numbers are float64
between steps and float32 at the end. Rows pass in blocks, once for each step that must see them first and once for the
result, so that memory stays bounded when the table and the result are on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.dataset import Csr
from onebit.data.file_blocks import ArrayStore, MemoryStore
from onebit.data.row_blocks import Block, Blocks, dense_block, join_blocks, read_blocks
from onebit.errors import InputError, brief, nearest
from onebit.features.rows import to_csr

MOST_COLUMNS = 20_000  # that a step may make


def prepare_rows(X: Any, steps: str | Iterable[str] | None, store: ArrayStore | None = None) -> Any:
    """Return the rows after all steps as float32, dense or CSR like X; without steps return X itself.

    The result is held by `store`, an empty one (X; or data, indices and indptr), by default in memory.

    >>> prepare_rows([[3, 4], [0, 8]], "unit-norm,bias")
    array([[0.6, 0.8, 1. ],
           [0. , 1. , 1. ]], dtype=float32)
    """
    names = parse_steps(steps)
    if not names:
        return X
    blocks = read_blocks(X)
    for name in names:
        kind, *parameter = name.split(":")
        blocks = _FUNCTIONS[kind](blocks, *parameter)
    rows = join_blocks(blocks, MemoryStore() if store is None else store)
    if isinstance(rows, np.ndarray) or isinstance(X, Csr):
        return rows
    return type(to_csr(X))((rows.data, rows.indices, rows.indptr), shape=rows.shape)


def columns_after(steps: tuple[str, ...], width: int) -> int:
    """Return the maximum number of columns after all steps, for rows with `width` columns.

    >>> columns_after(("fourier:500:0.5", "bias"), 100)
    501
    """
    for step in steps:
        name, *parameter = step.split(":")
        width = int(parameter[0]) if name == "fourier" else width + (name == "bias")
    return width


def parse_steps(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the steps of a list or comma-separated text, in the canonical spelling that names a run.

    >>> parse_steps("rare:.01, tf-idf, unit-norm")
    ('rare:0.01', 'tf-idf', 'unit-norm')
    """
    if given is None:
        return ()
    parts = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for part in parts:
        if not isinstance(part, str):
            raise InputError(f"a step of the preparation is {brief(part)}, but must be a string such as 'unit-norm'")
    if not "".join(parts).strip():
        return ()
    steps = tuple(_parse_step(step.strip()) for part in parts for step in part.split(","))
    names = [step.partition(":")[0] for step in steps]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"the preparation has {name} twice, but each step may occur only once")
    return steps


def _parse_step(step: str) -> str:
    name, colon, parameter = step.partition(":")
    if not name:
        raise InputError(f"the preparation has an empty step; {nearest(name, STEPS)}")
    if name not in _FUNCTIONS:
        raise InputError(f"there is no preparation step {brief(name)}; {nearest(name, _FUNCTIONS)}")
    if name in _PARAMETERS:
        return f"{name}:{_PARAMETERS[name](step, parameter)}"
    if colon:
        raise InputError(f"the step {brief(step)} has a parameter, but {name} takes none")
    return name


def _parse_share(step: str, parameter: str) -> str:
    try:
        share = float(parameter)
    except ValueError:
        raise InputError(f"the step {brief(step)} must have a share of the rows, as in rare:0.01") from None
    if not 0.0 < share <= 1.0:
        raise InputError(f"the share of the step {brief(step)} must be above 0 and at most 1, as in rare:0.01")
    return repr(share).removesuffix(".0")


def _parse_count_and_gamma(step: str, parameter: str) -> str:
    count, _, gamma = parameter.partition(":")
    try:
        number, width = int(count), float(gamma)
    except ValueError:
        number, width = 0, 0.0
    if not (1 <= number <= MOST_COLUMNS and 0.0 < width < 1e12):
        raise InputError(
            f"the step {brief(step)} must have from 1 to {MOST_COLUMNS:,} features and a gamma above 0, as in fourier:500:0.5"
        )
    return f"{number}:{width:g}"


_PARAMETERS = {"rare": _parse_share, "fourier": _parse_count_and_gamma}


# --- the steps: each takes blocks that can be gone through again and again, and returns such blocks ---------------------


def _map_blocks(blocks: Blocks, change: Callable[[Block], Block]) -> Blocks:
    return lambda: map(change, blocks())


def scale(blocks: Blocks) -> Blocks:
    """Divide by max |x|, over the whole table."""
    largest = max(float(np.abs(block.values).max(initial=0.0)) for block in blocks()) or 1.0
    return _map_blocks(blocks, lambda block: block.with_values(block.values / largest))


def unit_ball(blocks: Blocks) -> Blocks:
    """Divide by max ||x||, over all rows."""
    squares = (block.row_sums(np.square(block.values)) for block in blocks())
    longest = max(float(np.sqrt(lengths.max(initial=0.0))) for lengths in squares) or 1.0
    return _map_blocks(blocks, lambda block: block.with_values(block.values / longest))


def standard(blocks: Blocks) -> Blocks:
    """Return (x - mean) / standard deviation, by columns.

    Statistics of blocks are merged as in Chan, Golub and LeVeque (1979).
    """
    rows = 0
    mean: Any = 0.0
    squares: Any = 0.0  # sum of squared differences from the mean
    lowest: Any = math.inf
    highest: Any = -math.inf
    for block in blocks():
        if block.sparse:
            raise InputError(
                "standard does not take sparse rows: subtracting the mean would make them dense; use scale or unit-norm"
            )
        own_mean = block.values.mean(axis=0)
        difference, total = own_mean - mean, rows + block.rows
        squares = squares + np.square(block.values - own_mean).sum(axis=0)
        squares += np.square(difference) * (rows * block.rows / total)
        mean = mean + difference * (block.rows / total)
        rows = total
        lowest = np.minimum(lowest, block.values.min(axis=0))
        highest = np.maximum(highest, block.values.max(axis=0))
    # The mean of a constant column may have a rounding error, which dividing by a tiny deviation would blow up.
    deviation = np.where(lowest == highest, 0.0, np.sqrt(squares / rows))

    def change(block: Block) -> Block:
        values = np.zeros_like(block.values)
        return block.with_values(np.divide(block.values - mean, deviation, out=values, where=deviation > 0.0))

    return _map_blocks(blocks, change)


def unit_norm(blocks: Blocks) -> Blocks:
    """Divide each row by its length."""

    def change(block: Block) -> Block:
        lengths = np.sqrt(block.row_sums(np.square(block.values)))
        lengths[lengths == 0.0] = 1.0
        return block.with_values(block.values / lengths[block.row])

    return _map_blocks(blocks, change)


def binary(blocks: Blocks) -> Blocks:
    """Replace every nonzero value by 1."""
    return _map_blocks(blocks, lambda block: block.with_values((block.values != 0.0).astype(np.float64)))


def _count_rows(blocks: Blocks) -> tuple[int, NDArray[np.int64]]:
    """Return the number of rows, and of those in which each column is nonzero."""
    counts = [(block.rows, block.count_nonzero()) for block in blocks()]
    return sum(rows for rows, _ in counts), np.sum([nonzero for _, nonzero in counts], axis=0)


def tf_idf(blocks: Blocks) -> Blocks:
    """Return (1 + ln tf) ln(N / df)."""
    rows, counts = _count_rows(blocks)
    rarity = np.log(rows / np.maximum(counts, 1))

    def change(block: Block) -> Block:
        is_invalid = (block.values != 0.0) & (block.values < 1.0)
        if is_invalid.any():
            location, value = block.locate(is_invalid)
            raise InputError(f"{location} is {value:g} before tf-idf, which takes counts: 0, or at least 1")
        weight = np.log(block.values, out=np.zeros_like(block.values), where=block.values > 0.0)
        return block.with_values((weight + (block.values > 0.0)) * rarity[block.column])

    return _map_blocks(blocks, change)


def rare(blocks: Blocks, share: str) -> Blocks:
    """Keep the columns that are nonzero in at most a given share of the rows."""
    rows, counts = _count_rows(blocks)
    most_rows = math.floor(Fraction(share) * rows)  # exact: 0.29 * 100 is below 29 in floating point
    is_rare = counts <= most_rows
    if not is_rare.any():
        raise InputError(
            f"rare:{share} leaves no column: each is nonzero in more than {most_rows} of the {rows} rows "
            f"(the rarest in {counts.min()})"
        )
    return _map_blocks(blocks, lambda block: block.select_columns(is_rare))


def bias(blocks: Blocks) -> Blocks:
    """Append a column of ones."""
    return _map_blocks(blocks, Block.with_ones)


def fourier(blocks: Blocks, count: str, gamma: str) -> Blocks:
    """Return random Fourier features (Rahimi and Recht 2007).

    A feature is sqrt(2 / m) cos(<w_i, x> + b_i), with w_i normal of variance 2 gamma and b_i uniform.
    """
    size = int(count)

    def change(block: Block) -> Block:
        if block.sparse:
            raise InputError(
                "fourier does not take sparse rows: its features are dense; a kernel takes sparse rows as they are"
            )
        generator = np.random.default_rng([30, size, block.width])  # the same directions for every block
        directions = generator.normal(scale=math.sqrt(2.0 * float(gamma)), size=(block.width, size))
        offsets = generator.uniform(0.0, 2.0 * math.pi, size=size)
        return dense_block(math.sqrt(2.0 / size) * np.cos(block.values @ directions + offsets), block.first)

    return _map_blocks(blocks, change)


STEPS: dict[str, Callable[..., Blocks]] = {
    "scale": scale,
    "standard": standard,
    "unit-norm": unit_norm,
    "binary": binary,
    "tf-idf": tf_idf,
    "rare:SHARE": rare,
    "bias": bias,
    "unit-ball": unit_ball,
    "fourier:COUNT:GAMMA": fourier,
}
_FUNCTIONS = {spelling.partition(":")[0]: step for spelling, step in STEPS.items()}
