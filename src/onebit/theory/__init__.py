"""What theory says about data and learners: how separable data are, which mistake bounds hold, and which no learner can beat."""

from __future__ import annotations

from onebit.theory.adversaries import Forced, adversary
from onebit.theory.margins import Margin, margin
from onebit.theory.mistakes import Bounds, bounds

__all__ = ["Bounds", "Forced", "Margin", "adversary", "bounds", "margin"]
