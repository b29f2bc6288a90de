"""Declared preparation: what is done to the rows before a run, as a tuple of steps that is part of the run's identity.

Each step is fitted on what those before it give, over the whole table. That is hindsight: a learner in production has not seen
the rows to come, and divides by constants that are known beforehand. Numbers are float64 from step to step and float32 in the
end. Rows pass in blocks, once for each step that has to look at them first and once (sparse rows: twice) for the result, so that
memory stays bounded where table and result are on disk.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from onebit.errors import OnebitError, nearest
from onebit.features import is_sparse, refuse_what_is_no_table

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
    "taylor:DEGREE": "the features of the rational kernel up to this degree, for few columns and ||x|| <= 1; for dense rows",
}
NAMES = tuple(name.partition(":")[0] for name in STEPS)

BLOCK_ROWS = 20_000
BLOCK_VALUES = 4_000_000
LARGEST = float(np.finfo(np.float32).max)
MOST_COLUMNS = 20_000  # that a step makes


def steps_of(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """The steps in a list or between commas, spelt in the one way that names a run.

    >>> steps_of("rare:.01, tf-idf, unit-norm")
    ('rare:0.01', 'tf-idf', 'unit-norm')
    """
    if given is None:
        return ()
    parts = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for part in parts:
        if not isinstance(part, str):
            raise OnebitError(f"a step of the preparation is {part!r}, but must be a string such as 'unit-norm'")
    if not "".join(parts).strip():
        return ()
    steps = tuple(_spelt(step.strip()) for part in parts for step in part.split(","))
    names = [step.partition(":")[0] for step in steps]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise OnebitError(f"the preparation has {name} twice, but each step must be there only once")
    return steps


def _spelt(step: str) -> str:
    name, colon, parameter = step.partition(":")
    if not name:
        raise OnebitError(f"the preparation has an empty step; {nearest(name, STEPS)}")
    if name not in NAMES:
        raise OnebitError(f"there is no step {name!r} in a preparation; {nearest(name, NAMES)}")
    if name in _SPELT:
        return f"{name}:{_SPELT[name](step, parameter)}"
    if colon:
        raise OnebitError(f"the step {step!r} has a parameter, but {name} takes none")
    return name


def _share(step: str, parameter: str) -> str:
    try:
        share = float(parameter)
    except ValueError:
        raise OnebitError(f"the step {step!r} must have a share of the rows, as in rare:0.01") from None
    if not 0.0 < share <= 1.0:
        raise OnebitError(f"the share of the step {step!r} must be above 0 and at most 1, as in rare:0.01")
    return repr(share).removesuffix(".0")


def _count_and_gamma(step: str, parameter: str) -> str:
    count, _, gamma = parameter.partition(":")
    try:
        number, width = int(count), float(gamma)
    except ValueError:
        number, width = 0, 0.0
    if not (1 <= number <= MOST_COLUMNS and 0.0 < width < 1e12):
        raise OnebitError(
            f"the step {step!r} must have from 1 to {MOST_COLUMNS:,} features and a gamma above 0, as in fourier:500:0.5"
        )
    return f"{number}:{width:g}"


def _degree(step: str, parameter: str) -> str:
    if not (parameter.isascii() and parameter.isdigit() and 1 <= int(parameter) <= 40):
        raise OnebitError(f"the step {step!r} must have a degree from 1 to 40, as in taylor:8")
    return str(int(parameter))


_SPELT = {"rare": _share, "fourier": _count_and_gamma, "taylor": _degree}


def prepared(X: Any, steps: str | Iterable[str] | None, folder: Path | None = None) -> Any:
    """The rows after all steps: an array or a CSR matrix of float32, as X was one; without steps X itself.

    With a folder the result is in files there (X.npy; or data.npy, indices.npy and indptr.npy), mapped into memory, and written
    completely or not at all.

    >>> prepared([[3, 4], [0, 8]], "unit-norm,bias")
    array([[0.6, 0.8, 1. ],
           [0. , 1. , 1. ]], dtype=float32)
    """
    names = steps_of(steps)
    if not names:
        return X
    table = _table(X)
    chain = [_step(name) for name in names]
    for place, step in enumerate(chain):
        if step.looks:
            for block in _through(table, chain[:place]):
                step.observe(block)
    try:
        return table.result(chain, folder)
    except OSError as error:
        raise OnebitError(f"the prepared rows cannot be written to {folder}: {error.strerror or error}") from None


# --- a block of rows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """Some rows. `values` is a matrix, or a vector of the stored ones; `row` and `column`, their places, broadcast to it."""

    values: NDArray[np.float64]
    row: NDArray[Any]
    column: NDArray[Any]
    first: int  # the table's row that is row 0 here
    rows: int
    width: int

    @property
    def sparse(self) -> bool:
        """Whether only some values are stored."""
        return self.values.ndim == 1

    def row_sums(self, numbers: NDArray[Any]) -> NDArray[np.float64]:
        """One sum a row of numbers that lie where the values lie."""
        if not self.sparse:
            return np.asarray(numbers.sum(axis=1), dtype=np.float64)
        return np.bincount(self.row, weights=numbers, minlength=self.rows).astype(np.float64)

    def non_zeros(self) -> NDArray[np.int64]:
        """How many rows have a value other than 0 in each column."""
        if not self.sparse:
            return np.asarray(np.count_nonzero(self.values, axis=0), dtype=np.int64)
        return np.bincount(self.column[self.values != 0.0], minlength=self.width).astype(np.int64)

    def with_values(self, values: NDArray[np.float64]) -> Block:
        """The same places with other values."""
        return dataclasses.replace(self, values=values)

    def only(self, kept: NDArray[np.bool_]) -> Block:
        """The columns that are marked, numbered anew."""
        width = int(np.count_nonzero(kept))
        if not self.sparse:
            return _dense_block(self.values[:, kept], self.first)
        stays = kept[self.column]
        column = (np.cumsum(kept) - 1)[self.column[stays]]
        return Block(self.values[stays], self.row[stays], column, self.first, self.rows, width)

    def with_ones(self) -> Block:
        """One more column, of ones."""
        if not self.sparse:
            return _dense_block(np.column_stack([self.values, np.ones(self.rows)]), self.first)
        ends = np.cumsum(np.bincount(self.row, minlength=self.rows))
        row = np.insert(self.row, ends, np.arange(self.rows))
        column = np.insert(self.column, ends, self.width)
        return Block(np.insert(self.values, ends, 1.0), row, column, self.first, self.rows, self.width + 1)

    def place(self, wrong: NDArray[np.bool_]) -> tuple[str, float]:
        """Where the first of the marked values is, in words, and the value."""
        row, column = np.broadcast_arrays(self.row, self.column)
        at = int(np.flatnonzero(wrong)[0])
        where = f"row {self.first + int(row.flat[at])}, column {int(column.flat[at])} of X (counted from 0)"
        return where, float(self.values.flat[at])


def _dense_block(values: NDArray[np.float64], first: int) -> Block:
    rows, width = values.shape
    return Block(values, np.arange(rows)[:, None], np.arange(width)[None, :], first, rows, width)


# --- the steps -----------------------------------------------------------------------------------------------------------


class Step(ABC):
    """Looks at every block first where `looks` is set, then turns each into another. This one is for what needs no look."""

    looks = False

    def observe(self, block: Block) -> None:  # noqa: B027 - most steps have nothing to look at
        """Take in what `apply` has to know of the whole table."""

    @abstractmethod
    def apply(self, block: Block) -> Block:
        """The block after this step."""


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
            raise OnebitError(
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
            raise OnebitError(f"{where} is {value:g} before tf-idf, which takes counts: 0, or 1 and more")
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
            raise OnebitError(
                f"rare:{self.share} leaves no column: each is not 0 in more than {most} of the {self.rows} rows "
                f"(the rarest in {self.counts.min()})"
            )
        return block.only(kept)


class Bias(Step):
    """(x, 1)."""

    def apply(self, block: Block) -> Block:
        """Append the ones."""
        return block.with_ones()


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
        return _dense_block(math.sqrt(2.0 / self.count) * np.cos(block.values @ directions + turns), block.first)


class Taylor(Step):
    """All monomials of degree n up to the highest, times sqrt(2^-n n! / (a! b! ...)): their products sum to 2^-n <x, x'>^n."""

    def __init__(self, parameter: str) -> None:
        self.degree = int(parameter)

    def apply(self, block: Block) -> Block:
        """Multiply them out, each from one of the degree below."""
        _refuse_sparse("taylor", block)
        width = block.width
        made = math.comb(width + self.degree, self.degree)
        if made > MOST_COLUMNS:
            raise OnebitError(
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
        return _dense_block(np.stack(columns, axis=1), block.first)


def _refuse_sparse(name: str, block: Block) -> None:
    if block.sparse:
        raise OnebitError(
            f"{name} is not for sparse rows: its features are none of them 0; a kernel takes sparse rows as they are"
        )


def _step(spelt: str) -> Step:
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


# --- tables: where blocks come from and go to ------------------------------------------------------------------------------


class Writer:
    """Arrays that grow piece by piece, in memory or in .npy files that get their names when all are complete."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.results: dict[str, NDArray[Any]] = {}
        self.filled: dict[str, int] = {}
        self.files: dict[str, BinaryIO] = {}

    def __enter__(self) -> Writer:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def add(self, name: str, shape: tuple[int, ...], piece: NDArray[Any]) -> None:
        """Append a piece to the array of this name, which is to have this shape in the end."""
        if self.folder is None:
            if name not in self.results:
                self.results[name], self.filled[name] = np.empty(shape, dtype=piece.dtype), 0
            start, self.filled[name] = self.filled[name], self.filled[name] + len(piece)
            self.results[name][start : self.filled[name]] = piece
            return
        if name not in self.files:
            self.files[name] = (self.folder / f"{name}.npy.part").open("wb")
            header = {"descr": np.lib.format.dtype_to_descr(piece.dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(self.files[name], header)
        self.files[name].write(np.ascontiguousarray(piece).data)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for file in self.files.values():
            file.close()
        for name, file in self.files.items():
            part = Path(file.name)
            if error is not None:
                part.unlink()
                continue
            part.replace(part.with_suffix(""))
            self.results[name] = np.load(part.with_suffix(""), mmap_mode="r")


def _through(table: DenseTable | SparseTable, chain: Sequence[Step]) -> Iterator[Block]:
    """The blocks of the table after these steps."""
    for block in table.blocks():
        done = block
        for step in chain:
            done = step.apply(done)
        yield done


class DenseTable:
    """A matrix, all values stored."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X = X
        self.rows, self.width = X.shape

    def blocks(self) -> Iterator[Block]:
        """Blocks of rows, their values checked."""
        size = max(1, min(BLOCK_ROWS, BLOCK_VALUES // self.width))
        for first in range(0, self.rows, size):
            yield _checked(_dense_block(self.X[first : first + size].astype(np.float64), first))

    def result(self, chain: Sequence[Step], folder: Path | None) -> Any:
        """The matrix after the steps."""
        with Writer(folder) as writer:
            for block in _through(self, chain):
                writer.add("X", (self.rows, block.width), block.values.astype(np.float32))
        return writer.results["X"]


class SparseTable:
    """A CSR matrix, by its attributes."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.rows, self.width = (int(size) for size in X.shape)
        self.starts = np.asarray(X.indptr).astype(np.int64)
        fits = len(self.starts) == self.rows + 1 and self.starts[0] == 0 and not np.any(np.diff(self.starts) < 0)
        if not fits or not self.starts[-1] == len(X.data) == len(X.indices):
            raise OnebitError(
                f"indptr does not cut {len(X.data)} values into {self.rows} rows: it must rise from 0 to that"
            )

    def blocks(self) -> Iterator[Block]:
        """Blocks of rows, their values and columns checked."""
        first = 0
        while first < self.rows:
            full = int(np.searchsorted(self.starts, self.starts[first] + BLOCK_VALUES, side="right")) - 1
            stop = max(first + 1, min(full, first + BLOCK_ROWS))
            part = slice(self.starts[first], self.starts[stop])
            row = np.repeat(np.arange(stop - first), np.diff(self.starts[first : stop + 1]))
            column = np.asarray(self.X.indices[part]).astype(np.int64)
            values = np.asarray(self.X.data[part]).astype(np.float64)
            yield _checked(Block(values, row, column, first, stop - first, self.width))
            first = stop

    def result(self, chain: Sequence[Step], folder: Path | None) -> Any:
        """The matrix after the steps; its size is not known before all rows have passed once."""
        sizes = np.zeros(self.rows + 1, dtype=np.int64)
        for block in _through(self, chain):
            sizes[1 + block.first : 1 + block.first + block.rows] = np.bincount(block.row, minlength=block.rows)
            width = block.width
        starts = np.cumsum(sizes)
        with Writer(folder) as writer:
            writer.add("indptr", starts.shape, starts)
            for block in _through(self, chain):
                writer.add("data", (int(starts[-1]),), block.values.astype(np.float32))
                writer.add("indices", (int(starts[-1]),), block.column.astype(np.int32))
        parts, shape = writer.results, (self.rows, width)
        if dataclasses.is_dataclass(self.X) and not isinstance(self.X, type):
            return dataclasses.replace(self.X, **parts, shape=shape)
        return type(self.X)((parts["data"], parts["indices"], parts["indptr"]), shape=shape)


def _table(X: Any) -> DenseTable | SparseTable:
    """What is to be prepared, as a table of numbers."""
    refuse_what_is_no_table(X)
    if is_sparse(X):
        matrix = X if getattr(X, "format", "csr") == "csr" else X.tocsr()
        kinds = [part.dtype.kind for part in (matrix.data, matrix.indices, matrix.indptr)]
        if kinds[0] not in "fiub" or kinds[1] not in "iu" or kinds[2] not in "iu":
            raise OnebitError("the data of a sparse X must be numbers, and its indices and indptr whole numbers")
    else:
        if isinstance(X, Sequence) and any(isinstance(row, Mapping | str) for row in X[:1]):
            raise OnebitError("X is a list of dicts or texts, which no step can prepare: give a matrix, or no steps")
        try:
            matrix = np.asarray(X)
        except ValueError:
            raise OnebitError("the rows of X differ in length, but all must have the same number of columns") from None
        if matrix.dtype.kind not in "fiub":
            raise OnebitError(f"X has dtype {matrix.dtype}, but must be made of numbers to be prepared")
    if len(matrix.shape) != 2 or 0 in matrix.shape:
        raise OnebitError(f"X has shape {tuple(matrix.shape)}, but must have rows and columns, at least one of each")
    return SparseTable(matrix) if is_sparse(X) else DenseTable(matrix)


def _checked(block: Block) -> Block:
    """The block, unless a number in it cannot be used or a row's columns do not rise."""
    wrong = ~(np.abs(block.values) <= LARGEST)  # so written, NaN is wrong as well
    if wrong.any():
        where, value = block.place(wrong)
        why = "which float32 cannot hold" if math.isfinite(value) else "but must be a finite number"
        raise OnebitError(f"{where} is {value}, {why}")
    if block.sparse:
        wrong = (block.column < 0) | (block.column >= block.width)
        if wrong.any():
            raise OnebitError(f"{block.place(wrong)[0]} is outside: column indices must be from 0 to {block.width - 1}")
        wrong = np.append(False, (np.diff(block.column) <= 0) & (np.diff(block.row) == 0))
        if wrong.any():
            raise OnebitError(
                f"{block.place(wrong)[0]} is stored after a column not below it, but indices must rise within a row; scipy's "
                "sort_indices() and sum_duplicates() do that"
            )
    return block
