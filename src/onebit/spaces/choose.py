"""Choose the space of a learner: plain weights, a kernel, a covariance, or the members of `auto`.

The kind is chosen when a learner is created, from its rule and its kernel options. The space itself is created when
the form of the rows is known.

A rule with spaces for both dense and sparse rows begins with the form in which rows are passed. The learner counts
the nonzero cells in the first rows that it learns and then settles on a form for good; if the form changes, what it
learnt from those few rows is forgotten. Only the learnt rows, in their order, affect the decision, so that a run, its
replay and a copy elsewhere make the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.covariance import FITTING_MATRICES, Covariance, Order
from onebit.contract.options import DEFAULT_SUPPORT, Options
from onebit.contract.rule import Rule
from onebit.contract.validation import is_whole_number
from onebit.errors import InputError, brief
from onebit.spaces.dense import Dense
from onebit.spaces.diagonal_dense import DiagonalDense
from onebit.spaces.diagonal_sparse import DiagonalSparse
from onebit.spaces.full_dense import FullDense
from onebit.spaces.joint_dense import JointDense
from onebit.spaces.kernel import Plan
from onebit.spaces.kernel_dense import KernelDense
from onebit.spaces.kernel_sparse import KernelSparse
from onebit.spaces.kernels import LINEAR, RATIONAL, Kernel
from onebit.spaces.layout import SpaceLayout
from onebit.spaces.sparse import Sparse

LENGTH_SLACK = 1.0 + 1e-5  # tolerance: the norm of a row scaled to the limit is rounded
USUAL_SUPPORT = 2000  # default budget of a rule that stores a row in nearly every round
MOST_SUPPORT = 2**31
FITTING_WITH_BALL = 10**4  # lower, since projecting onto a ball takes factorisations
LARGEST_MATRICES = 10**7  # limit of numbers in the matrices if full ones are requested

ROWS_TO_SETTLE = 4  # rows learnt before the form is settled
FILLED = 0.1  # rows with at least this share of nonzero cells are treated as dense, others as sparse
MOST_DENSE = 5_000  # columns; sparse rows with more stay sparse
LEAST_SPARSE = 200  # columns; dense rows with fewer stay dense
MOST_BYTES = 2**30  # of a space to move to; a larger one is not created without being requested

Arrays = dict[str, NDArray[Any]]


class Form(NamedTuple):
    """The form of the rows that a space will see."""

    dense: bool
    columns: int
    named: bool
    dtype: Any


class Blueprint(NamedTuple):
    """A space before anything is allocated: a function that creates it, and the layout of its arrays."""

    make: Callable[[], Any]
    layout: SpaceLayout

    @classmethod
    def of(cls, kind: Any, *given: Any) -> Blueprint:
        """Return the blueprint of a kind of space, whose `empty` and `layout` take the same arguments."""
        return cls(partial(kind.empty, *given), kind.layout(*given))


@dataclass(frozen=True)
class SpaceChoice:
    """The space of a first-order rule: weights of features and nothing else."""

    rule: Rule
    bias: bool
    seed: int

    def blueprint(self, params: Any, form: Form, heads: int, planned: int) -> Blueprint:
        """Return the blueprint of an empty space for rows of this form.

        `planned` is the number of heads that the learner began with: heads added later do not change the kind of
        space.
        """
        kind = Dense if form.dense else Sparse
        return Blueprint.of(kind, heads, form.columns, self.bias, form.dtype)

    def complete_params(self, params: Any, space: Any) -> Any:
        """Return the rule's record, completed with what the space determines."""
        return params

    def sq_norms(self, sq_norms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the squared lengths of rows (bias included) as the space measures them."""
        return sq_norms

    def explain_too_long(self, sq_norm: float, largest: float, limit: float) -> str | None:
        """Return an error message if a row is longer than the rule allows, else None.

        `sq_norm` is its squared length without the bias.
        """
        if sq_norm > largest:
            return f"x has length {np.sqrt(sq_norm):g}, but this learner takes at most {np.sqrt(largest):g}"
        return None

    @property
    def slack(self) -> float:
        """The amount that the bias adds to the allowed squared length of a row, as rules do not count it."""
        return float(self.bias)


@dataclass(frozen=True)
class CovarianceChoice(SpaceChoice):
    """The space of a second-order rule: weights and a covariance."""

    def blueprint(self, params: Any, form: Form, heads: int, planned: int) -> Blueprint:
        """Return the blueprint of the requested space; raise InputError if its matrices are too large."""
        assert self.rule.second_order is not None
        order = self.rule.second_order(params)
        kind = self._kind(params.matrix, order, form, planned)
        return Blueprint.of(kind, heads, form.columns, self.bias, form.dtype, order)

    def _kind(self, wanted: int, order: Order, form: Form, heads: int) -> Any:
        size = form.columns + self.bias
        numbers = (heads * size) ** 2 if order.joint else size * size * (1 if order.shared else heads)
        if wanted == Covariance.FULL and (not form.dense or numbers > LARGEST_MATRICES):
            needs = (
                f"{numbers:,} numbers, but at most {LARGEST_MATRICES:,} are allowed"
                if form.dense
                else "dense rows, but these are sparse"
            )
            raise InputError(
                f"matrix='full' would need {needs}: use 'diagonal', or 'fit' for full matrices where they are small enough"
            )
        if wanted == Covariance.FULL and (order.root or (order.radius < np.inf and not order.joint)):
            raise InputError(f"{self.rule.title} needs a root or a ball, which a full matrix does not support")
        fitting = FITTING_WITH_BALL if order.radius < np.inf else FITTING_MATRICES
        if wanted == Covariance.FULL or (wanted == Covariance.FIT and form.dense and numbers <= fitting):
            return JointDense if order.joint else FullDense
        return DiagonalDense if form.dense else DiagonalSparse

    def complete_params(self, params: Any, space: Any) -> Any:
        """Record whether the matrix is full; this does not change when classes are added."""
        whole = isinstance(space, FullDense | JointDense)
        return params._replace(matrix=int(Covariance.FULL if whole else Covariance.DIAGONAL))


@dataclass(frozen=True)
class KernelChoice(SpaceChoice):
    """The space of a first-order rule with a kernel: stored rows in place of weights."""

    text: str
    plan: Plan

    def blueprint(self, params: Any, form: Form, heads: int, planned: int) -> Blueprint:
        """Return the blueprint of a space in which no row is stored.

        Raise InputError if an rbf kernel without gamma is used with named features.
        """
        if self.text == "rbf" and form.named:
            raise InputError("the number of named features can grow, so rbf needs an explicit gamma: kernel='rbf:0.5'")
        # The gamma of an rbf may depend on the number of features, which is known now.
        plan = self.plan._replace(kernel=Kernel.read(self.text, form.columns))
        kind = KernelDense if form.dense else KernelSparse
        return Blueprint.of(kind, heads, form.columns, self.bias, form.dtype, plan)

    def sq_norms(self, sq_norms: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.plan.kernel.self_values(sq_norms)

    def explain_too_long(self, sq_norm: float, largest: float, limit: float) -> str | None:
        own = float(self.sq_norms(np.array([sq_norm + self.bias]))[0])
        if np.isnan(own):
            return (
                f"x has length {np.sqrt(sq_norm + self.bias):g}, but the rational kernel takes at most 1: prepare the rows "
                "(unit-norm, unit-ball)"
            )
        if own > limit:
            return (
                f"x has length {np.sqrt(own):g} in the space of the kernel, but this learner takes at most "
                f"{np.sqrt(largest / LENGTH_SLACK):g}"
            )
        return None

    @property
    def slack(self) -> float:
        """The amount that the bias adds to the allowed squared length; 0 for nonlinear kernels."""
        return float(self.bias) if self.plan.kernel.code == LINEAR else 0.0


@dataclass(frozen=True)
class CompositeChoice(SpaceChoice):
    """A space with several members, provided by its rule: `auto`."""

    def blueprint(self, params: Any, form: Form, heads: int, planned: int) -> Blueprint:
        """Return the blueprint of the rule's space for this form of rows."""
        assert self.rule.composite is not None
        blueprint: Blueprint = self.rule.composite.space(params, form, heads, planned, self.seed)
        return blueprint


def choose(rule: Rule, options: Options) -> SpaceChoice:
    """Return the kind of space for a rule and options; raise InputError if they do not fit together."""
    bias, seed, kernel, max_support = options.bias, options.seed, options.kernel, options.max_support
    if bias and rule.composite:
        raise InputError(f"{rule.title} has a constant feature in every view, and takes no bias")
    if kernel is None:
        if max_support != DEFAULT_SUPPORT:
            raise InputError("max_support needs a kernel: give `kernel` as well")
        if rule.composite:
            return CompositeChoice(rule, bias, seed)
        return (SpaceChoice if rule.second_order is None else CovarianceChoice)(rule, bias, seed)
    if rule.second_order is not None or rule.composite:
        raise InputError(f"{rule.title} keeps a covariance of features, and takes no kernel")
    parsed = Kernel.read(kernel)
    if parsed.code == RATIONAL and bias:
        raise InputError("the rational kernel has a constant part already, and takes no bias")
    plan = Plan(parsed, _budget(rule, max_support), rule.keeps_norm)
    return KernelChoice(rule, bias, seed, kernel, plan)


def _budget(rule: Rule, max_support: object) -> int:
    """Return the most rows that are stored; 0 for all."""
    if isinstance(max_support, str) and max_support == DEFAULT_SUPPORT:
        return 0 if rule.stores_rarely else USUAL_SUPPORT
    if max_support is None:
        return 0
    if is_whole_number(max_support, 1, MOST_SUPPORT):
        return int(max_support)  # type: ignore[call-overload, no-any-return]
    raise InputError(
        f"max_support is {brief(max_support)}, but must be a whole number from 1 to {MOST_SUPPORT}, usual, or none"
    )


# --- dense or sparse -----------------------------------------------------------------------------------------------------


def form_for(original: str, share: float, columns: int) -> str:
    """Return the form in which rows are treated, given the form in which they came and their fill rate.

    `share` is the share of nonzero cells.

    >>> form_for("sparse", 0.6, 36), form_for("dense", 0.01, 10_000), form_for("dense", 0.01, 64)
    ('dense', 'sparse', 'dense')
    """
    if original == "sparse":
        return "dense" if share >= FILLED and columns <= MOST_DENSE else "sparse"
    return "sparse" if share < FILLED and columns >= LEAST_SPARSE else "dense"


class Routing(NamedTuple):
    """The form in which rows came, and the nonzero cells counted in those learnt so far."""

    came: str  # dense or sparse
    rows: int = 0
    filled: int = 0  # nonzero cells

    @property
    def is_open(self) -> bool:
        """True while rows are still counted."""
        return self.rows < ROWS_TO_SETTLE

    def counted(self, filled: int) -> Routing:
        """Return the routing after one more row with this many nonzero cells."""
        return Routing(self.came, self.rows + 1, self.filled + filled)

    def may_move(self, columns: int) -> bool:
        """Return True if rows with this many columns may still change to the other form."""
        return self.is_open and any(form_for(self.came, share, columns) != self.came for share in (0.0, 1.0))

    def form(self, columns: int) -> str:
        """Return the form in which rows with this many columns are treated, given the rows counted so far."""
        return self.came if self.is_open else form_for(self.came, self._share(columns), columns)

    def _share(self, columns: int) -> float:
        return self.filled / (self.rows * columns)

    def describe(self, columns: int, form: str) -> str:
        """Describe the form that is used, and why.

        >>> Routing("sparse", 8, 176).describe(36, "dense")
        'rows came sparse, 61 % filled: treated as dense'
        """
        if self.is_open:
            after = f"after {ROWS_TO_SETTLE} are learnt it settles on dense or sparse"
            return f"rows come {self.came}: {after if self.may_move(columns) else f'treated as {form}'}"
        percent = 100.0 * self._share(columns)
        share_text = f"{percent:.0f}" if percent >= 1.0 else f"{percent:.2g}"
        wanted = self.form(columns)
        reason = "" if wanted == form else f", as there is not enough memory for {wanted} ones"
        return f"rows came {self.came}, {share_text} % filled: treated as {form}{reason}"
