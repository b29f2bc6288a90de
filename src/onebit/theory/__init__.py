"""What theory says of data and learners: how separable data are, which mistake bounds hold on them, and which none can beat."""

from __future__ import annotations

from onebit.theory.adversaries import Forced, adversary
from onebit.theory.margins import Margin, margin
from onebit.theory.mistakes import Bounds, bounds

__all__ = ["Bounds", "Forced", "Margin", "adversary", "bounds", "margin"]
