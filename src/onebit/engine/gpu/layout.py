"""What the replicates of a kernel have in common, and how one lies on the device: lanes, registers, shared memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from onebit.contract.covariance import Order
from onebit.contract.rule import Rule
from onebit.engine.gpu.round import ORDERS

WARP = 32
BLOCK = 64  # threads, where weights are in registers
MOST_HELD = 160  # weights that a lane holds in its registers
HELD_BESIDE = 150  # the same where there are more in memory
SCRATCH_BYTES = 20 * 1024  # for the rules of a block, where weights are in registers
SHARED_BYTES = 187 * 1024  # of shared memory for rows and weights, on the devices that have most
CROWDED_BYTES = 28 * 1024  # the same where there are several replicates in it
USUAL_SHARED_BYTES = 40 * 1024  # beside what the kernel has anyway
# Of a lane where rows are sparse: so many that all the weights on their way are in one, and few enough for 12 such warps.
SPARSE_REGISTERS = 168
NO_ORDER = Order(start=0.0)


class Variances(NamedTuple):
    """How the replicates of a kernel keep and move the variances of their weights."""

    own: bool  # each head has its own; else one line is for all
    form: str  # residual, sums or root
    ball: bool  # weights are projected on one

    @classmethod
    def of(cls, order: Order) -> Variances:
        form = "root" if order.root else "sums" if order.sums else "residual"
        return cls(not order.shared, form, order.radius < math.inf)


class Shape(NamedTuple):
    """What the replicates of a kernel have in common."""

    rule: Rule
    codes: tuple[int, ...]  # the whole numbers of the record, in its order
    heads: int
    memory: int  # numbers in the rule's memory
    features: int  # with the constant one
    full_information: bool
    variances: Variances | None = None
    late: bool = False  # feedback may come late or never
    sparse: bool = False  # rows are

    @classmethod
    def of(cls, rule: Rule, params: Any, memory: int, features: int, late: bool = False, sparse: bool = False) -> Shape:
        codes = tuple(int(getattr(params, name)) for name, kind in rule.kinds.items() if kind is int)
        variances = None if rule.second_order is None else Variances.of(rule.second_order(params))
        revealed = rule.has_full_information(params)
        return cls(rule, codes, rule.heads(params), memory, features, revealed, variances, late, sparse)

    @property
    def lines(self) -> int:
        """Lines that a replicate keeps: the weights of every head, and the variances of each or of all."""
        return self.heads + (0 if self.variances is None else self.heads if self.variances.own else 1)

    @property
    def sums(self) -> int:
        """Lines that are summed along a row; of the root of a variance nobody asks."""
        return self.heads if self.variances is not None and self.variances.form == "root" else self.lines

    @property
    def scores(self) -> int:
        """Numbers that the rule reads of a row."""
        return self.heads if self.variances is None else 2 * self.heads

    def limits(self, params: Any, longest: float) -> tuple[float, float, float]:
        """The squared length that a row may have, what variances start at, and the radius of the ball, of one replicate."""
        order = NO_ORDER if self.rule.second_order is None else self.rule.second_order(params)
        return longest, order.start, order.radius

    @property
    def floats(self) -> list[int]:
        """The fields of the record, by number, that replicates may differ in."""
        return [index for index, kind in enumerate(self.rule.kinds.values()) if kind is float]

    def numbers(self, params: Any) -> list[float]:
        """What a replicate's record has in these fields."""
        return [float(params[index]) for index in self.floats]

    @property
    def classes(self) -> int:
        names = [name for name, kind in self.rule.kinds.items() if kind is int]
        return self.codes[names.index("classes")]


class Layout(NamedTuple):
    """How a replicate lies on the device."""

    lanes: int  # that share a replicate
    # Where its weights are: registers, shared or memory; sparse, where they are in memory feature by feature.
    where: str
    threads: int  # of a block

    @classmethod
    def of(cls, shape: Shape, shared_bytes: int = SHARED_BYTES) -> Layout | None:
        """The fewest lanes whose registers hold the weights, since a warp runs the rule once for all its replicates; else memory.

        A block may have so much of `shared_bytes`. None where even one replicate has no room.
        """
        if shape.sparse:
            alone = cls(WARP, "sparse", 2 * WARP)
            return alone if alone.scratch_bytes(shape) <= USUAL_SHARED_BYTES else None
        for lanes in (1, 2, 4, 8, 16, 32):
            found = cls(lanes, "registers", BLOCK)
            if shape.lines * found.width(shape) <= MOST_HELD and found.scratch_bytes(shape) <= SCRATCH_BYTES:
                return found
        # In shared memory fewer lanes pay only while enough warps have room; one replicate may have nearly all of it.
        tried = [cls(lanes, "shared", WARP) for lanes in (8, 16, 32)]
        for found in (
            *(one for one in tried if one.shared_bytes(shape) <= CROWDED_BYTES),
            tried[-1],
            cls(WARP, "memory", WARP),
        ):
            if found.shared_bytes(shape) <= shared_bytes and found.scratch_bytes(shape) <= USUAL_SHARED_BYTES:
                return found
        return None

    @property
    def limits(self) -> dict[str, int]:
        """What the compiler is told beside the kernel."""
        return {"max_registers": SPARSE_REGISTERS} if self.where == "sparse" else {}

    @property
    def groups(self) -> int:
        return self.threads // self.lanes

    def unrolled(self, shape: Shape) -> int:
        """Features of a lane that are summed in one go: all where they are in registers, else what needs the least padding."""
        least = -(-shape.features // self.lanes)
        return least if self.where == "registers" else min((8, 7, 6, 5, 4), key=lambda some: -(-least // some) * some)

    def width(self, shape: Shape) -> int:
        some = self.unrolled(shape)
        return -(-shape.features // (self.lanes * some)) * some

    def padded(self, shape: Shape) -> int:
        """Numbers of a line as it lies on the device; where rows are dense, of a row as well."""
        return shape.features if shape.sparse else self.width(shape) * self.lanes

    def held_lines(self, shape: Shape) -> int:
        """Lines that are in registers: all, or as many weights as there is room for. Variances are where the weights of their head are."""
        if self.where == "registers":
            return shape.lines
        return min(shape.heads, HELD_BESIDE // self.width(shape)) if shape.variances is None else 0

    def scratch_bytes(self, shape: Shape) -> int:
        """Shared memory for what the rules of a block read and write."""
        wide = max(shape.heads, shape.classes) | 1
        numbers = 2 * (shape.scores | 1) + 2 * wide + (shape.memory | 1) + ORDERS
        return self.groups * (8 * numbers + (0 if shape.sparse else 4 * (shape.scores | 1)))

    def group_words(self, shape: Shape) -> int:
        """Numbers of a replicate in shared memory: its row, and the lines that are not in registers.

        Beginnings are so far apart that the groups of a warp read from different banks.
        """
        if self.where in ("registers", "sparse"):
            return 0
        rows = 1 + (shape.lines - self.held_lines(shape) if self.where == "shared" else 0)
        words = rows * self.padded(shape)
        return words + (self.lanes - words) % WARP

    def shared_bytes(self, shape: Shape) -> int:
        """Shared memory of a block for rows and weights."""
        return 4 * self.groups * self.group_words(shape)
