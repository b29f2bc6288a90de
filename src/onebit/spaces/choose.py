"""Which space a learner's weights live in. The one place that tells weights alone, a kernel, a covariance and several members apart.

A choice is made when a learner is: from its rule, and from what was said of a kernel. The space itself is made when the form of
the rows is known.

A rule that has members for dense and for sparse rows begins in the form in which rows are handed over. The learner counts the cells that are not 0 in the first
rows that it learns, and then settles for good; what those few rows taught is forgotten where the form changes. Nothing but rows learnt, in their
order, has a say in it, so that a run, its replay and a copy elsewhere go the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.covariance import FITTING_MATRICES, Covariance, Order
from onebit.contract.options import DEFAULT_SUPPORT, Options
from onebit.contract.rule import Rule
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

SLACK = 1.0 + 1e-5  # the norm of a row scaled to the limit is rounded
USUAL_SUPPORT = 2000  # rows stored by a rule that stores one in nearly every round
MOST_SUPPORT = 2**31
FITTING_WITH_BALL = 10**4  # which takes factorisations
LARGEST_MATRICES = 10**7  # numbers in the matrices of a learner that was asked for full ones

ROWS = 4  # learnt before it settles
FILLED = 0.1  # rows of which at least this share of the cells is filled are treated as dense, others as sparse
MOST_DENSE = 5_000  # columns, with more of which sparse rows stay so
LEAST_SPARSE = 200  # columns, with fewer of which dense rows stay so
MOST_BYTES = 2**30  # of a space to move to: one larger than that is not made unasked

Arrays = dict[str, NDArray[Any]]


class Form(NamedTuple):
    """What a space must know of the rows that it will see."""

    dense: bool
    columns: int
    named: bool
    dtype: Any


class Blueprint(NamedTuple):
    """A space of which nothing is allocated yet: what makes it, and what its arrays will be."""

    make: partial[Any]
    layout: SpaceLayout


@dataclass(frozen=True)
class SpaceChoice:
    """Weights of features and nothing else: the space of a first-order rule."""

    rule: Rule
    bias: bool
    seed: int

    def blueprint(self, params: Any, form: Form, heads: int, planned: int) -> Blueprint:
        """The space for rows of this form, in which nothing has been learnt.

        `planned` is the number of heads that a learner began with: those added later do not change the kind of its space.
        """
        kind = Dense if form.dense else Sparse
        given = (heads, form.columns, self.bias, form.dtype)
        return Blueprint(partial(kind.empty, *given), kind.layout(*given))

    def stored_bytes(self, params: Any, form: Form, heads: int, rows: int) -> int:
        """The memory of so many rows where all may be stored, and there is no limit; else 0."""
        return 0

    def settled(self, params: Any, space: Any) -> Any:
        """The record as the rule sees it once there is a space."""
        return params

    def sq_norms(self, sq_norms: NDArray[np.float64]) -> NDArray[np.float64]:
        """The squared lengths of rows, bias included, as the space measures them."""
        return sq_norms

    def too_long(self, sq_norm: float, largest: float, limit: float) -> str | None:
        """What to say of a row of this squared length, without its bias, if it is longer than the rule takes."""
        if sq_norm > largest:
            return f"x has length {np.sqrt(sq_norm):g}, but this learner takes at most {np.sqrt(largest):g}"
        return None

    @property
    def routes(self) -> bool:
        """Whether the first rows that are learnt decide on their form, dense or sparse (`spaces.choose`)."""
        return False

    @property
    def slack(self) -> float:
        """What the constant feature adds to the squared length that a row may have: it is no part of what the rule speaks of."""
        return float(self.bias)

    @property
    def no_variances(self) -> str | None:
        """Why scores have no variance; None where they have."""
        return "keeps no covariance"

    def weights(self, space: Any, known: int) -> NDArray[Any]:
        """One line for each head, one column for each known feature, the bias last."""
        matrix: NDArray[Any] = space.matrix()
        return np.concatenate([matrix[:, :known], matrix[:, matrix.shape[1] - self.bias :]], axis=1)


@dataclass(frozen=True)
class CovarianceChoice(SpaceChoice):
    """Weights and a covariance: the spaces of second-order rules."""

    def blueprint(self, params: Any, form: Form, heads: int, planned: int) -> Blueprint:
        """The space that was asked for, if its matrices are not too large."""
        assert self.rule.second_order is not None
        order = self.rule.second_order(params)
        kind = self._kind(params.matrix, order, form, planned)
        given = (heads, form.columns, self.bias, form.dtype, order)
        return Blueprint(partial(kind.ordered, *given), kind.layout(*given))

    def _kind(self, wanted: int, order: Order, form: Form, heads: int) -> Any:
        size = form.columns + self.bias
        numbers = (heads * size) ** 2 if order.joint else size * size * (1 if order.shared else heads)
        if wanted == Covariance.FULL and (not form.dense or numbers > LARGEST_MATRICES):
            why = (
                f"{numbers:,} numbers, and {LARGEST_MATRICES:,} are the most"
                if form.dense
                else "dense rows, and these are sparse"
            )
            raise InputError(
                f"matrix='full' would need {why}: say 'diagonal', or 'fit' for full where it is small enough"
            )
        if wanted == Covariance.FULL and (order.root or (order.radius < np.inf and not order.joint)):
            raise InputError(f"{self.rule.title} asks for a root or a ball, which a full matrix does not have")
        fitting = FITTING_WITH_BALL if order.radius < np.inf else FITTING_MATRICES
        if wanted == Covariance.FULL or (wanted == Covariance.FIT and form.dense and numbers <= fitting):
            return JointDense if order.joint else FullDense
        return DiagonalDense if form.dense else DiagonalSparse

    def settled(self, params: Any, space: Any) -> Any:
        """Whether the matrix is full, which it remains when there are more classes."""
        whole = isinstance(space, FullDense | JointDense)
        return params._replace(matrix=int(Covariance.FULL if whole else Covariance.DIAGONAL))

    @property
    def no_variances(self) -> str | None:
        return None


@dataclass(frozen=True)
class KernelChoice(SpaceChoice):
    """Stored rows in place of weights: any first-order rule with a kernel."""

    text: str
    plan: Plan

    def blueprint(self, params: Any, form: Form, heads: int, planned: int) -> Blueprint:
        """No row is stored."""
        if self.text == "rbf" and form.named:
            raise InputError("named features grow in number, so rbf needs its gamma: kernel='rbf:0.5'")
        # The gamma of an rbf may depend on the number of features, which is known now.
        plan = self.plan._replace(kernel=Kernel.read(self.text, form.columns))
        kind = KernelDense if form.dense else KernelSparse
        make = partial(kind.planned, heads, form.columns, self.bias, form.dtype, plan)
        return Blueprint(make, kind.layout(heads, form.columns, form.dtype, plan))

    def stored_bytes(self, params: Any, form: Form, heads: int, rows: int) -> int:
        """Without a budget, what a budget of so many rows would take."""
        if self.plan.budget:
            return 0
        return replace(self, plan=self.plan._replace(budget=rows)).blueprint(params, form, heads, heads).layout.nbytes

    def sq_norms(self, sq_norms: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.plan.kernel.selves(sq_norms)

    def too_long(self, sq_norm: float, largest: float, limit: float) -> str | None:
        own = float(self.sq_norms(np.array([sq_norm + self.bias]))[0])
        if np.isnan(own):
            return (
                f"x has length {np.sqrt(sq_norm + self.bias):g}, but the rational kernel takes at most 1: prepare the rows "
                "(unit-norm, unit-ball), or say kernel='rational:shorten'"
            )
        if own > limit:
            return (
                f"x has length {np.sqrt(own):g} in the space of the kernel, but this learner takes at most "
                f"{np.sqrt(largest / SLACK):g}"
            )
        return None

    @property
    def slack(self) -> float:
        """Inside a kernel a constant feature cannot be told apart."""
        return float(self.bias) if self.plan.kernel.code == LINEAR else 0.0


@dataclass(frozen=True)
class CompositeChoice(SpaceChoice):
    """A space with several members, which its rule brings along: `auto`."""

    def blueprint(self, params: Any, form: Form, heads: int, planned: int) -> Blueprint:
        """The members that fit the form of the rows."""
        assert self.rule.composite is not None
        make, layout = self.rule.composite.space(params, form, heads, planned, self.seed)
        return Blueprint(make, layout)

    @property
    def routes(self) -> bool:
        """It has members for either form, and chooses."""
        return True

    @property
    def no_variances(self) -> str | None:
        return "has several members"

    def weights(self, space: Any, known: int) -> NDArray[Any]:
        matrix: NDArray[Any] = space.matrix(known)
        return matrix


def choose(rule: Rule, options: Options) -> SpaceChoice:
    """The kind of space for a rule and the options of a learner; what does not fit together is refused."""
    bias, seed, kernel, max_support = options.bias, options.seed, options.kernel, options.max_support
    if bias and rule.composite:
        raise InputError(f"{rule.title} has a constant feature in every view, and takes no bias")
    if kernel is None:
        if max_support != DEFAULT_SUPPORT:
            raise InputError("max_support is for a kernel: give kernel as well")
        if rule.composite:
            return CompositeChoice(rule, bias, seed)
        return (SpaceChoice if rule.second_order is None else CovarianceChoice)(rule, bias, seed)
    if rule.second_order is not None or rule.composite:
        raise InputError(f"{rule.title} keeps a covariance of features, and takes no kernel")
    read = Kernel.read(kernel)
    if read.code == RATIONAL and bias:
        raise InputError("the rational kernel has a constant part already, and takes no bias")
    plan = Plan(read, _budget(rule, max_support), rule.keeps_norm)
    return KernelChoice(rule, bias, seed, kernel, plan)


def _budget(rule: Rule, max_support: object) -> int:
    """The most rows that are stored; 0 for all."""
    if isinstance(max_support, str) and max_support == DEFAULT_SUPPORT:
        return 0 if rule.stores_rarely else USUAL_SUPPORT
    if max_support is None:
        return 0
    whole = isinstance(max_support, int | np.integer) and not isinstance(max_support, bool)
    if whole and 1 <= max_support <= MOST_SUPPORT:  # type: ignore[operator]
        return int(max_support)  # type: ignore[call-overload, no-any-return]
    raise InputError(
        f"max_support is {brief(max_support)}, but must be a whole number from 1 to {MOST_SUPPORT}, usual, or none"
    )


# --- dense or sparse -----------------------------------------------------------------------------------------------------


def form_for(came: str, share: float, columns: int) -> str:
    """The form in which rows are treated that came in another or the same, with this share of their cells filled.

    >>> form_for("sparse", 0.6, 36), form_for("dense", 0.01, 10_000), form_for("dense", 0.01, 64)
    ('dense', 'sparse', 'dense')
    """
    if came == "sparse":
        return "dense" if share >= FILLED and columns <= MOST_DENSE else "sparse"
    return "sparse" if share < FILLED and columns >= LEAST_SPARSE else "dense"


class Routing(NamedTuple):
    """How the rows came, and what has been counted of those learnt so far."""

    came: str  # dense or sparse
    rows: int = 0
    filled: int = 0  # cells that are not 0

    @property
    def is_open(self) -> bool:
        """Whether rows are still counted."""
        return self.rows < ROWS

    def counted(self, filled: int) -> Routing:
        """With one row more, of which so many cells are filled."""
        return Routing(self.came, self.rows + 1, self.filled + filled)

    def may_move(self, columns: int) -> bool:
        """Whether rows of so many columns may still be treated in another form than they came in."""
        return self.is_open and any(form_for(self.came, share, columns) != self.came for share in (0.0, 1.0))

    def form(self, columns: int) -> str:
        """The form that rows of so many columns are treated in by what is known of them now."""
        return self.came if self.is_open else form_for(self.came, self._share(columns), columns)

    def _share(self, columns: int) -> float:
        return self.filled / (self.rows * columns)

    def said(self, columns: int, form: str) -> str:
        """The form that is used, and why.

        >>> Routing("sparse", 8, 176).said(36, "dense")
        'rows came sparse, 61 % filled: treated as dense'
        """
        if self.is_open:
            after = f"after {ROWS} are learnt it settles on dense or sparse"
            return f"rows come {self.came}: {after if self.may_move(columns) else f'treated as {form}'}"
        percent = 100.0 * self._share(columns)
        shown = f"{percent:.0f}" if percent >= 1.0 else f"{percent:.2g}"
        wanted = self.form(columns)
        lack = "" if wanted == form else f", for want of memory for {wanted} ones"
        return f"rows came {self.came}, {shown} % filled: treated as {form}{lack}"
