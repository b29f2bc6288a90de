"""The shape that all replicates of a kernel share, and their layout in lanes, registers and memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from onebit.contract.covariance import Order
from onebit.contract.rule import Rule
from onebit.engine.gpu.round import ORDERS

WARP = 32
BLOCK_THREADS = 64  # threads per block, if weights are in registers
MOST_REGISTER_WEIGHTS = 160  # weights that a lane holds in registers, at most
MOST_REGISTER_WEIGHTS_BESIDE = 150  # the same if there are more in memory
SCRATCH_BYTES = 20 * 1024  # for the rules of a block, if weights are in registers
SHARED_BYTES = 187 * 1024  # of shared memory for rows and weights, on the devices with most
CROWDED_SHARED_BYTES = 28 * 1024  # the same if several replicates share it
USUAL_SHARED_BYTES = 40 * 1024  # of shared memory that a kernel can use without asking for more
# Per lane if rows are sparse: enough for all weights being loaded, and few enough for 12 such warps.
SPARSE_REGISTERS = 168
NO_ORDER = Order(start=0.0)


class Variances(NamedTuple):
    """The form of the variances that the replicates of a kernel keep for their weights."""

    own: bool  # each head has its own; else one line for all
    form: str  # residual, sums or root
    ball: bool  # weights are projected onto a ball

    @classmethod
    def of(cls, order: Order) -> Variances:
        form = "root" if order.root else "sums" if order.sums else "residual"
        return cls(not order.shared, form, order.radius < math.inf)


class Shape(NamedTuple):
    """The properties that all replicates of a kernel share."""

    rule: Rule
    codes: tuple[int, ...]  # the integers of the record, in order
    heads: int
    memory: int  # numbers in the rule's memory
    features: int  # including the constant one
    full_information: bool
    variances: Variances | None = None
    late: bool = False  # feedback may come late or never
    sparse: bool = False  # rows are sparse

    @classmethod
    def of(cls, rule: Rule, params: Any, memory: int, features: int, late: bool = False, sparse: bool = False) -> Shape:
        codes = tuple(int(getattr(params, name)) for name, kind in rule.kinds.items() if kind is int)
        variances = None if rule.second_order is None else Variances.of(rule.second_order(params))
        revealed = rule.has_full_information(params)
        return cls(rule, codes, rule.heads(params), memory, features, revealed, variances, late, sparse)

    @property
    def lines(self) -> int:
        """Number of lines of a replicate: the weights of every head, and the variances of each or of all."""
        return self.heads + (0 if self.variances is None else self.heads if self.variances.own else 1)

    @property
    def sums(self) -> int:
        """Number of lines that are summed along a row; the root of a variance is not."""
        return self.heads if self.variances is not None and self.variances.form == "root" else self.lines

    @property
    def scores(self) -> int:
        """Number of values that the rule reads for a row."""
        return self.heads if self.variances is None else 2 * self.heads

    def limits(self, params: Any, longest: float) -> tuple[float, float, float]:
        """Return a replicate's largest squared length of a row, initial variance, and radius of the ball."""
        order = NO_ORDER if self.rule.second_order is None else self.rule.second_order(params)
        return longest, order.start, order.radius

    @property
    def floats(self) -> list[int]:
        """Indices of the record's fields in which replicates may differ."""
        return [index for index, kind in enumerate(self.rule.kinds.values()) if kind is float]

    def numbers(self, params: Any) -> list[float]:
        """Return the values of a replicate's record in these fields."""
        return [float(params[index]) for index in self.floats]

    @property
    def classes(self) -> int:
        names = [name for name, kind in self.rule.kinds.items() if kind is int]
        return self.codes[names.index("classes")]


class Layout(NamedTuple):
    """The placement of a replicate on the device: its lanes and where its weights are."""

    lanes: int  # lanes that share a replicate
    # Where the weights are: registers, shared or memory; sparse: in memory, feature by feature.
    where: str
    threads: int  # per block

    @classmethod
    def of(cls, shape: Shape, shared_bytes: int = SHARED_BYTES) -> Layout | None:
        """Return the best layout for a shape; None if even one replicate has no room.

        It uses the fewest lanes whose registers hold the weights, since a warp runs the rule once for all its
        replicates; if there are too many weights, they are in shared or device memory. A block may use `shared_bytes`
        of shared memory.
        """
        if shape.sparse:
            alone = cls(WARP, "sparse", 2 * WARP)
            return alone if alone.scratch_bytes(shape) <= USUAL_SHARED_BYTES else None
        for lanes in (1, 2, 4, 8, 16, 32):
            layout = cls(lanes, "registers", BLOCK_THREADS)
            weights = shape.lines * layout.width(shape)
            if weights <= MOST_REGISTER_WEIGHTS and layout.scratch_bytes(shape) <= SCRATCH_BYTES:
                return layout
        # With shared memory, fewer lanes pay off only while enough warps have room; one replicate may use nearly all of it.
        shared = [cls(lanes, "shared", WARP) for lanes in (8, 16, 32)]
        crowded = [layout for layout in shared if layout.shared_bytes(shape) <= CROWDED_SHARED_BYTES]
        for layout in (*crowded, shared[-1], cls(WARP, "memory", WARP)):
            if layout.shared_bytes(shape) <= shared_bytes and layout.scratch_bytes(shape) <= USUAL_SHARED_BYTES:
                return layout
        return None

    @property
    def limits(self) -> dict[str, int]:
        """Compiler options that the kernel needs."""
        return {"max_registers": SPARSE_REGISTERS} if self.where == "sparse" else {}

    @property
    def groups(self) -> int:
        return self.threads // self.lanes

    def unrolled(self, shape: Shape) -> int:
        """Return how many features a lane sums at once.

        That is all of them if they are in registers, else the number that needs the least padding.
        """
        least = -(-shape.features // self.lanes)
        if self.where == "registers":
            return least
        return min((8, 7, 6, 5, 4), key=lambda count: -(-least // count) * count)

    def width(self, shape: Shape) -> int:
        unrolled = self.unrolled(shape)
        return -(-shape.features // (self.lanes * unrolled)) * unrolled

    def padded(self, shape: Shape) -> int:
        """Return the length of a line on the device; where rows are dense, this is also the length of a row."""
        return shape.features if shape.sparse else self.width(shape) * self.lanes

    def held_lines(self, shape: Shape) -> int:
        """Return the number of lines in registers: all, or as many lines of weights as fit.

        Variances are where the weights of their head are.
        """
        if self.where == "registers":
            return shape.lines
        return min(shape.heads, MOST_REGISTER_WEIGHTS_BESIDE // self.width(shape)) if shape.variances is None else 0

    def scratch_bytes(self, shape: Shape) -> int:
        """Return the bytes of shared memory that a block needs for what its rules read and write."""
        wide = max(shape.heads, shape.classes) | 1
        numbers = 2 * (shape.scores | 1) + 2 * wide + (shape.memory | 1) + ORDERS
        return self.groups * (8 * numbers + (0 if shape.sparse else 4 * (shape.scores | 1)))

    def group_words(self, shape: Shape) -> int:
        """Return how many words of shared memory a replicate uses, for its row and lines not in registers.

        This is padded so that the groups of a warp read from different banks.
        """
        if self.where in ("registers", "sparse"):
            return 0
        rows = 1 + (shape.lines - self.held_lines(shape) if self.where == "shared" else 0)
        words = rows * self.padded(shape)
        return words + (self.lanes - words) % WARP

    def shared_bytes(self, shape: Shape) -> int:
        """Return the bytes of shared memory that a block uses for rows and weights."""
        return 4 * self.groups * self.group_words(shape)
