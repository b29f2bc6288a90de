"""What each step does to a block of rows."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from onebit.data.preparation.blocks import Block, dense_block
from onebit.data.preparation.spelling import MOST_COLUMNS
from onebit.errors import InputError


class Step(ABC):
    """Looks at every block first where `looks` is set, then turns each into another. This one is for what needs no look."""

    looks = False

    def observe(self, block: Block) -> None:  # noqa: B027 - most steps have nothing to look at
        """Take in what `apply` has to know of the whole table."""

    @abstractmethod
    def apply(self, block: Block) -> Block:
        """The block after this step."""

    def columns(self, width: int) -> int:
        """How many columns there are at most after this step, where there were `width` before."""
        return width


class Scale(Step):
    """x / max |x|."""

    looks = True

    def __init__(self) -> None:
        self.largest = 0.0

    def observe(self, block: Block) -> None:
        """Keep the largest absolute value."""
        self.largest = max(self.largest, float(np.abs(block.values).max(initial=0.0)))

    def apply(self, block: Block) -> Block:
        """Divide by it; a table of zeros stays."""
        return block.with_values(block.values / (self.largest or 1.0))


class Standard(Step):
    """(x - mean) / standard deviation, by columns; blocks are joined as Chan, Golub and LeVeque (1979) do."""

    looks = True

    def __init__(self) -> None:
        self.rows = 0
        self.mean: Any = 0.0
        self.squares: Any = 0.0  # of the differences from the mean, summed
        self.lowest: Any = math.inf
        self.highest: Any = -math.inf

    def observe(self, block: Block) -> None:
        """Join the block's mean and squares to those of the rows before."""
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
        """Subtract and divide."""
        # A constant column's mean may be off by a rounding error, which a deviation just as small would blow up.
        spread = np.where(self.lowest == self.highest, 0.0, np.sqrt(self.squares / self.rows))
        values = np.zeros_like(block.values)
        return block.with_values(np.divide(block.values - self.mean, spread, out=values, where=spread > 0.0))


class UnitNorm(Step):
    """x / ||x||."""

    def apply(self, block: Block) -> Block:
        """Divide each row by its length, or by 1 where that is 0."""
        lengths = np.sqrt(block.row_sums(np.square(block.values)))
        lengths[lengths == 0.0] = 1.0
        return block.with_values(block.values / lengths[block.row])


class Binary(Step):
    """1 where x is not 0."""

    def apply(self, block: Block) -> Block:
        """Mark what is not 0."""
        return block.with_values((block.values != 0.0).astype(np.float64))


class ColumnCounts(Step):
    """What has to know in how many rows each column is not 0."""

    looks = True

    def __init__(self) -> None:
        self.rows = 0
        self.counts: Any = 0

    def observe(self, block: Block) -> None:
        """Count."""
        self.rows += block.rows
        self.counts = self.counts + block.non_zeros()


class TfIdf(ColumnCounts):
    """(1 + ln tf) ln(N / df)."""

    def apply(self, block: Block) -> Block:
        """Weigh each count; what is no count is refused."""
        wrong = (block.values != 0.0) & (block.values < 1.0)
        if wrong.any():
            where, value = block.place(wrong)
            raise InputError(f"{where} is {value:g} before tf-idf, which takes counts: 0, or 1 and more")
        rarity = np.log(self.rows / np.maximum(self.counts, 1))
        weight = np.log(block.values, out=np.zeros_like(block.values), where=block.values > 0.0)
        return block.with_values((weight + (block.values > 0.0)) * rarity[block.column])


class Rare(ColumnCounts):
    """The columns that are not 0 in at most a share of the rows."""

    def __init__(self, share: str) -> None:
        super().__init__()
        self.share = share

    def apply(self, block: Block) -> Block:
        """Leave out the others."""
        most = math.floor(Fraction(self.share) * self.rows)  # 0.29 * 100 is below 29 in floating point
        kept = self.counts <= most
        if not kept.any():
            raise InputError(
                f"rare:{self.share} leaves no column: each is not 0 in more than {most} of the {self.rows} rows "
                f"(the rarest in {self.counts.min()})"
            )
        return block.only(kept)


class Bias(Step):
    """(x, 1)."""

    def apply(self, block: Block) -> Block:
        """Append the ones."""
        return block.with_ones()

    def columns(self, width: int) -> int:
        """One more."""
        return width + 1


class UnitBall(Step):
    """x / max ||x||."""

    looks = True

    def __init__(self) -> None:
        self.longest = 0.0

    def observe(self, block: Block) -> None:
        """Keep the largest length."""
        self.longest = max(self.longest, float(np.sqrt(block.row_sums(np.square(block.values)).max(initial=0.0))))

    def apply(self, block: Block) -> Block:
        """Divide by it; a table of zeros stays."""
        return block.with_values(block.values / (self.longest or 1.0))


class Fourier(Step):
    """sqrt(2 / m) cos(<w_i, x> + b_i), w_i normal with variance 2 gamma, b_i uniform (Rahimi and Recht 2007)."""

    def __init__(self, parameter: str) -> None:
        count, _, gamma = parameter.partition(":")
        self.count, self.gamma = int(count), float(gamma)

    def apply(self, block: Block) -> Block:
        """Draw the same directions for every block, and take the cosines along them."""
        _refuse_sparse("fourier", block)
        generator = np.random.default_rng([30, self.count, block.width])
        directions = generator.normal(scale=math.sqrt(2.0 * self.gamma), size=(block.width, self.count))
        turns = generator.uniform(0.0, 2.0 * math.pi, size=self.count)
        return dense_block(math.sqrt(2.0 / self.count) * np.cos(block.values @ directions + turns), block.first)

    def columns(self, width: int) -> int:
        """As many as were asked for."""
        return self.count


class Taylor(Step):
    """All monomials of degree n up to the highest, times sqrt(2^-n n! / (a! b! ...)): their products sum to 2^-n <x, x'>^n."""

    def __init__(self, parameter: str) -> None:
        self.degree = int(parameter)

    def apply(self, block: Block) -> Block:
        """Multiply them out, each from one of the degree below."""
        _refuse_sparse("taylor", block)
        width = block.width
        made = self.columns(width)
        if made > MOST_COLUMNS:
            raise InputError(
                f"taylor:{self.degree} would make {made:,} columns of {width}, but at most {MOST_COLUMNS:,}: take a lower degree, "
                "or fourier"
            )
        columns = []
        for total in range(self.degree + 1):
            for chosen in itertools.combinations_with_replacement(range(width), total):
                ways = math.factorial(total)
                for column in set(chosen):
                    ways //= math.factorial(chosen.count(column))
                factor = math.sqrt(ways * 0.5**total)
                columns.append(factor * np.prod(block.values[:, list(chosen)], axis=1))
        return dense_block(np.stack(columns, axis=1), block.first)

    def columns(self, width: int) -> int:
        """One for each monomial."""
        return math.comb(width + self.degree, self.degree)


def _refuse_sparse(name: str, block: Block) -> None:
    if block.sparse:
        raise InputError(
            f"{name} is not for sparse rows: its features are none of them 0; a kernel takes sparse rows as they are"
        )


def step_of(spelt: str) -> Step:
    """The step of this name, as `steps_of` spells it."""
    name, _, parameter = spelt.partition(":")
    with_parameter: dict[str, Callable[[str], Step]] = {"rare": Rare, "fourier": Fourier, "taylor": Taylor}
    if name in with_parameter:
        return with_parameter[name](parameter)
    plain: dict[str, type[Step]] = {
        "scale": Scale,
        "standard": Standard,
        "unit-norm": UnitNorm,
        "binary": Binary,
        "tf-idf": TfIdf,
        "bias": Bias,
        "unit-ball": UnitBall,
    }
    return plain[name]()


def through(blocks: Iterable[Block], chain: Sequence[Step]) -> Iterator[Block]:
    """These blocks after these steps."""
    for block in blocks:
        done = block
        for step in chain:
            done = step.apply(done)
        yield done
