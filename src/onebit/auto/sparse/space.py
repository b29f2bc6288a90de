"""The space of `auto` for sparse rows: a regression and a naive Bayes on the nonzeros of a row.

It does not depend on the scale of features and rows.

**The view.** Each value is compared with the usual size of its feature (1 for a feature that was never seen), large
ones are damped, and the row is scaled to length one. With r the scale of the row, the mean over its known features of
|x_j| over their usual size m_j:

    u_j = |x_j|/r over the mean so far, this one included;    b_j = 1.25 u_j/(1 + u_j/4);    z_j = sign(x_j) b_j/|b|

**The regression** of right and wrong sees z, and beside it a constant of 1/2. s_i = z.w_i, and q_i = sum z_j^2/(noise
+ A_ji), where the evidence A is the sum of z^2 of the rows in which the class was played. `noise` is the mean squared
residual so far: weights of size one are likely, whatever the features are.

**Naive Bayes** counts in which rows a class was right, against the background of all rows: the logarithm of how much
more often feature j comes with class i is G_ji = log(1 + H_ji). Its opinion is g_i = sum_j b_j G_ji - l log(1 + n_i
background), divided by the root of l = sum_j b_j.

**How common** a class is, c_i, is the logarithm of how often it was right, relative to the average; 0 if it never
was.

**Together** they believe in p = softmax(t1 g + t2 s + t3 c), and the hope for a class is its probability with its
score raised by one standard deviation. The trusts t are weights of a logistic regression of the answers: the leads of
the class played by g, s and c predict how likely it was right.

What is known of features and of the background stays when everything else is forgotten.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onebit.auto.sparse.learning import absorb
from onebit.auto.sparse.scoring import (
    CLASSES_AT_ONCE,
    COMMON,
    CONSTANT,
    COUNTED,
    FACT_COUNT,
    FACTOR,
    INITIAL_VALUES,
    LED_BAYES,
    LED_SCORE,
    LENGTH,
    OPINION,
    OPINIONS,
    SCORE,
    WEIGHT,
    AutoSparseArrays,
    background_for,
    needs_room,
    reset_trusts,
    score,
    write_hopes,
)
from onebit.contract.belief import Contributions
from onebit.contract.description import MemberReport, MembersReport
from onebit.contract.rule import Contrast
from onebit.spaces.layout import ArraySpec, SpaceLayout
from onebit.spaces.space import Space
from onebit.spaces.sparse import SparseRows, SparseSpace

__all__ = ["AutoSparse", "absorb", "needs_room", "score", "write_hopes"]

BAYES_LOOKS_AT = "how much more often a feature comes with a class than with all rows"
REGRESSION_LOOKS_AT = "a weight for each feature and class, whatever the scales of features and rows"


def stride_for(heads: int) -> int:
    """Return the number of heads, rounded up to whole lanes."""
    return -(-heads // CLASSES_AT_ONCE) * CLASSES_AT_ONCE


class AutoSparse(AutoSparseArrays, Space):
    """The space of `auto` for sparse rows."""

    __slots__ = ()
    SAVED = ("weights", "features", "constants", "counts", "facts", "trusts", "doubts")
    BY_FEATURE = ("weights", "features")
    example_rows = staticmethod(SparseSpace.example_rows)

    @classmethod
    def empty(cls, heads: int, features: int, dtype: Any) -> AutoSparse:
        space = super().empty(heads, features, dtype)
        reset_trusts(space)
        return space

    def copy_into(self, larger: AutoSparse) -> AutoSparse:
        known = len(self.weights)
        for part in range(4):
            cells = self.weights[:, part * self.stride : part * self.stride + self.heads]
            larger.weights[:known, part * larger.stride : part * larger.stride + self.heads] = cells
        arrays = {name: getattr(self, name) for name in self.SAVED if name != "weights"}
        return larger.load_arrays(arrays)._replace(sizes=self.sizes.copy())

    def with_more_room(self, rows: SparseRows) -> AutoSparse:
        """Return a copy with room for the view of the longest of these rows."""
        return self._replace(sizes=np.zeros(int(np.diff(rows.starts).max()) + 1, dtype=self.sizes.dtype))

    @staticmethod
    def layout(heads: int, features: int, dtype: Any) -> SpaceLayout:
        """Describe the arrays; a row is scored with beliefs, hopes and logits."""
        stride = stride_for(heads)
        arrays = {
            "weights": ArraySpec((features, 4 * stride), dtype),
            "features": ArraySpec((features, 2), dtype, 0.0),
            "constants": ArraySpec((heads, 2), np.float64),
            "counts": ArraySpec((heads,), np.float64, 0.0),
            "facts": ArraySpec((FACT_COUNT,), np.float64),
            "trusts": ArraySpec((OPINIONS,), np.float64),
            "doubts": ArraySpec((OPINIONS, OPINIONS), np.float64),
            "row": ArraySpec((4,), np.float64),
            "class_values": ArraySpec((5, heads), np.float64),
            "sizes": ArraySpec((INITIAL_VALUES,), dtype),
            "sums": ArraySpec((3 * stride,), dtype),
            "moving": ArraySpec((heads,), np.int64),
        }
        return SpaceLayout.of(arrays, AutoSparse.SAVED, 3 * heads, {"heads": heads, "stride": stride})

    @property
    def room(self) -> tuple[int, int]:
        return self.heads, len(self.weights)

    @property
    def never_right(self) -> list[int]:
        return np.flatnonzero(self.counts == 0.0).tolist()

    def report(self) -> MembersReport:
        """Return each member's share of the played classes' recent lead; equal before any learning."""
        bayes, regression = float(self.facts[LED_BAYES]), float(self.facts[LED_SCORE])
        share = bayes / (bayes + regression) if bayes + regression > 0.0 else 0.5
        return MembersReport(
            (
                MemberReport("naive Bayes", BAYES_LOOKS_AT, share),
                MemberReport("regression", REGRESSION_LOOKS_AT, 1.0 - share),
            )
        )

    def matrix(self, known: int) -> Any:
        """Return the weights of the known features, one line for each class."""
        return self.weights[:known, : self.heads].T.copy()

    def contributions(self, rows: SparseRows, contrast: Contrast) -> Contributions:
        """Return what each value of the row just scored adds to a contrast of logits.

        Both the regression and naive Bayes contribute. How often a class was right belongs to no feature, so it goes
        into the constant; a feature that was never seen adds nothing.
        """
        length, values, constant = self.row[LENGTH], np.zeros(len(rows.values)), 0.0
        by_bayes = self.trusts[OPINION] / math.sqrt(length) if length > 0.0 else 0.0
        by_score, background = self.trusts[SCORE], background_for(self.facts, length) if length > 0.0 else 0.0
        sizes = self.sizes[: len(rows.values)].astype(np.float64)
        view = np.where(rows.values >= 0.0, sizes, -sizes) * self.row[FACTOR]
        cells = self.weights[rows.columns].astype(np.float64)
        for position, weight in contrast:
            head = position - 2 * self.heads  # logits come last
            values += weight * (by_score * view * cells[:, head] + by_bayes * sizes * cells[:, 2 * self.stride + head])
            expected = self.row[COUNTED] * math.log(1.0 + self.counts[head] * background)
            constant += weight * (by_score * CONSTANT * self.constants[head, WEIGHT] - by_bayes * expected)
            constant += weight * self.trusts[COMMON] * self.class_values[COMMON, head]
        return Contributions(values, float(constant))
