"""Declared preprocessing of rows before a run: a tuple of steps that is part of the run's identity.

Each step is fitted to the output of the steps before it, over the whole table. That is hindsight: a learner in
production has not seen the rows to come, and divides by constants that are known beforehand. Numbers are float64
between steps and float32 at the end. Rows pass in blocks, once for each step that must see them first and once for the
result, so that memory stays bounded when the table and the result are on disk.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from onebit.data.row_blocks import Block, dense_block, table_of
from onebit.errors import InputError, brief, nearest

STEPS = {
    "scale": "every value divided by the largest absolute value of the whole table",
    "standard": "each column minus its mean, over its standard deviation; constant columns become 0; not for sparse rows",
    "unit-norm": "each row divided by its Euclidean length; rows of zeros stay",
    "binary": "every value that is not 0 becomes 1",
    "tf-idf": "each count tf becomes (1 + ln tf) ln(N / df), where df of the N rows have its column; unit-norm makes it cosine",
    "rare:SHARE": "only the columns that are not 0 in at most SHARE of the rows, as in rare:0.01",
    "bias": "one more column, the last, of ones",
    "unit-ball": "every row divided by the length of the longest one",
    "fourier:COUNT:GAMMA": "COUNT random Fourier features, whose dot products are near those of the kernel rbf:GAMMA; for dense rows",
}
NAMES = tuple(name.partition(":")[0] for name in STEPS)

MOST_COLUMNS = 20_000  # that a step may make


def prepared(X: Any, steps: str | Iterable[str] | None, folder: Path | None = None) -> Any:
    """Return the rows after all steps as float32, dense or CSR like X; without steps return X itself.

    If `folder` is given, the result is written to files there (X.npy; or data.npy, indices.npy and indptr.npy) and
    memory-mapped. The files are written completely or not at all.

    >>> prepared([[3, 4], [0, 8]], "unit-norm,bias")
    array([[0.6, 0.8, 1. ],
           [0. , 1. , 1. ]], dtype=float32)
    """
    names = steps_of(steps)
    if not names:
        return X
    table, chain = table_of(X), [step_of(name) for name in names]
    for place, step in enumerate(chain):
        if step.looks:
            for block in apply_steps(table.blocks(), chain[:place]):
                step.observe(block)
    try:
        return table.result(lambda: apply_steps(table.blocks(), chain), folder)
    except OSError as error:
        raise InputError(f"the prepared rows cannot be written to {folder}: {error.strerror or error}") from None


def columns_after(steps: tuple[str, ...], width: int) -> int:
    """Return the maximum number of columns after all steps, for rows with `width` columns.

    >>> columns_after(("fourier:500:0.5", "bias"), 100)
    501
    """
    for name in steps:
        width = step_of(name).columns(width)
    return width


def steps_of(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the steps of a list or comma-separated text, in the canonical spelling that names a run.

    >>> steps_of("rare:.01, tf-idf, unit-norm")
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
    steps = tuple(_spelt(step.strip()) for part in parts for step in part.split(","))
    names = [step.partition(":")[0] for step in steps]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(f"the preparation has {name} twice, but each step must be there only once")
    return steps


def _spelt(step: str) -> str:
    name, colon, parameter = step.partition(":")
    if not name:
        raise InputError(f"the preparation has an empty step; {nearest(name, STEPS)}")
    if name not in NAMES:
        raise InputError(f"there is no step {brief(name)} in a preparation; {nearest(name, NAMES)}")
    if name in _SPELT:
        return f"{name}:{_SPELT[name](step, parameter)}"
    if colon:
        raise InputError(f"the step {brief(step)} has a parameter, but {name} takes none")
    return name


def _share(step: str, parameter: str) -> str:
    try:
        share = float(parameter)
    except ValueError:
        raise InputError(f"the step {brief(step)} must have a share of the rows, as in rare:0.01") from None
    if not 0.0 < share <= 1.0:
        raise InputError(f"the share of the step {brief(step)} must be above 0 and at most 1, as in rare:0.01")
    return repr(share).removesuffix(".0")


def _count_and_gamma(step: str, parameter: str) -> str:
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


_SPELT = {"rare": _share, "fourier": _count_and_gamma}


class Step(ABC):
    """A preprocessing step, which transforms blocks of rows.

    If `looks` is set, it first observes every block.
    """

    looks = False

    def observe(self, block: Block) -> None:  # noqa: B027 - most steps have nothing to look at
        """Collect the statistics of the whole table that `apply` needs."""

    @abstractmethod
    def apply(self, block: Block) -> Block:
        """Return the block after this step."""

    def columns(self, width: int) -> int:
        """Return the maximum number of columns after this step, given the number before it."""
        return width


class Scale(Step):
    """The step x / max |x|, over the whole table."""

    looks = True

    def __init__(self) -> None:
        self.largest = 0.0

    def observe(self, block: Block) -> None:
        self.largest = max(self.largest, float(np.abs(block.values).max(initial=0.0)))

    def apply(self, block: Block) -> Block:
        return block.with_values(block.values / (self.largest or 1.0))


class UnitBall(Scale):
    """The step x / max ||x||, over all rows."""

    def observe(self, block: Block) -> None:
        self.largest = max(self.largest, float(np.sqrt(block.row_sums(np.square(block.values)).max(initial=0.0))))


class Standard(Step):
    """The step (x - mean) / standard deviation, by columns.

    Statistics of blocks are merged as in Chan, Golub and LeVeque (1979).
    """

    looks = True

    def __init__(self) -> None:
        self.rows = 0
        self.mean: Any = 0.0
        self.squares: Any = 0.0  # sum of squared differences from the mean
        self.lowest: Any = math.inf
        self.highest: Any = -math.inf

    def observe(self, block: Block) -> None:
        if block.sparse:
            raise InputError(
                "standard is not for sparse rows: minus the mean they would not be sparse; use scale or unit-norm"
            )
        mean = block.values.mean(axis=0)
        away, total = mean - self.mean, self.rows + block.rows
        self.squares = self.squares + np.square(block.values - mean).sum(axis=0)
        self.squares += np.square(away) * (self.rows * block.rows / total)
        self.mean = self.mean + away * (block.rows / total)
        self.rows = total
        self.lowest = np.minimum(self.lowest, block.values.min(axis=0))
        self.highest = np.maximum(self.highest, block.values.max(axis=0))

    def apply(self, block: Block) -> Block:
        # The mean of a constant column may have a rounding error, which dividing by a tiny deviation would blow up.
        spread = np.where(self.lowest == self.highest, 0.0, np.sqrt(self.squares / self.rows))
        values = np.zeros_like(block.values)
        return block.with_values(np.divide(block.values - self.mean, spread, out=values, where=spread > 0.0))


class UnitNorm(Step):
    """The step x / ||x||, row by row."""

    def apply(self, block: Block) -> Block:
        lengths = np.sqrt(block.row_sums(np.square(block.values)))
        lengths[lengths == 0.0] = 1.0
        return block.with_values(block.values / lengths[block.row])


class Binary(Step):
    """The step that replaces every nonzero value by 1."""

    def apply(self, block: Block) -> Block:
        return block.with_values((block.values != 0.0).astype(np.float64))


class ColumnCounts(Step):
    """Base of the steps that need the number of rows in which each column is nonzero."""

    looks = True

    def __init__(self) -> None:
        self.rows = 0
        self.counts: Any = 0

    def observe(self, block: Block) -> None:
        self.rows += block.rows
        self.counts = self.counts + block.non_zeros()


class TfIdf(ColumnCounts):
    """The step (1 + ln tf) ln(N / df)."""

    def apply(self, block: Block) -> Block:
        wrong = (block.values != 0.0) & (block.values < 1.0)
        if wrong.any():
            where, value = block.place(wrong)
            raise InputError(f"{where} is {value:g} before tf-idf, which takes counts: 0, or 1 and more")
        rarity = np.log(self.rows / np.maximum(self.counts, 1))
        weight = np.log(block.values, out=np.zeros_like(block.values), where=block.values > 0.0)
        return block.with_values((weight + (block.values > 0.0)) * rarity[block.column])


class Rare(ColumnCounts):
    """The step that keeps the columns that are nonzero in at most a given share of the rows."""

    def __init__(self, share: str) -> None:
        super().__init__()
        self.share = share

    def apply(self, block: Block) -> Block:
        most = math.floor(Fraction(self.share) * self.rows)  # exact: 0.29 * 100 is below 29 in floating point
        kept = self.counts <= most
        if not kept.any():
            raise InputError(
                f"rare:{self.share} leaves no column: each is not 0 in more than {most} of the {self.rows} rows "
                f"(the rarest in {self.counts.min()})"
            )
        return block.only(kept)


class Bias(Step):
    """The step that appends a column of ones: (x, 1)."""

    def apply(self, block: Block) -> Block:
        return block.with_ones()

    def columns(self, width: int) -> int:
        return width + 1


class Fourier(Step):
    """The step of random Fourier features (Rahimi and Recht 2007).

    A feature is sqrt(2 / m) cos(<w_i, x> + b_i), with w_i normal of variance 2 gamma and b_i uniform.
    """

    def __init__(self, parameter: str) -> None:
        count, _, gamma = parameter.partition(":")
        self.count, self.gamma = int(count), float(gamma)

    def apply(self, block: Block) -> Block:
        if block.sparse:
            raise InputError(
                "fourier is not for sparse rows: its features are none of them 0; a kernel takes sparse rows as they are"
            )
        generator = np.random.default_rng([30, self.count, block.width])  # the same directions for every block
        directions = generator.normal(scale=math.sqrt(2.0 * self.gamma), size=(block.width, self.count))
        turns = generator.uniform(0.0, 2.0 * math.pi, size=self.count)
        return dense_block(math.sqrt(2.0 / self.count) * np.cos(block.values @ directions + turns), block.first)

    def columns(self, width: int) -> int:
        return self.count


def step_of(spelt: str) -> Step:
    """Return the step for a name in the canonical spelling of `steps_of`."""
    name, *parameter = spelt.split(":", maxsplit=1)
    kinds: dict[str, Callable[..., Step]] = {
        "scale": Scale,
        "standard": Standard,
        "unit-norm": UnitNorm,
        "binary": Binary,
        "tf-idf": TfIdf,
        "rare": Rare,
        "bias": Bias,
        "unit-ball": UnitBall,
        "fourier": Fourier,
    }
    return kinds[name](*parameter)


def apply_steps(blocks: Iterable[Block], chain: Sequence[Step]) -> Iterator[Block]:
    """Yield the blocks after all steps."""
    for block in blocks:
        yield reduce(lambda done, step: step.apply(done), chain, block)
