"""Whether rows are treated as dense or as sparse, where a rule has members for either: it depends on the first rows that are learnt.

A learner begins in the form in which rows are handed over. It counts the cells that are not 0 in the first rows that it learns, and then
settles for good. What those few rows taught is forgotten where the form changes. Nothing but rows learnt, in their order, has a say in it: not
how they are handed over, nor the memory of a machine, so that a run, its replay and a copy elsewhere go the same way.
"""

from __future__ import annotations

from typing import NamedTuple

ROWS = 4  # learnt before it settles
FILLED = 0.1  # rows of which at least this share of the cells is filled are treated as dense, others as sparse
MOST_DENSE = 5_000  # columns, with more of which sparse rows stay so
LEAST_SPARSE = 200  # columns, with fewer of which dense rows stay so
MOST_BYTES = 2**30  # of a space to move to: one larger than that is not made unasked


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
