"""What theory says of data and learners: how separable data are, and which mistake bounds hold on them."""

from __future__ import annotations

from onebit.theory.margins import Margin, margin
from onebit.theory.mistakes import Bounds, bounds

__all__ = ["Bounds", "Margin", "bounds", "margin"]
