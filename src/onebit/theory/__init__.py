"""Theory of data and learners: separability, mistake bounds, and lower bounds for every learner."""

from __future__ import annotations

from onebit.theory.adversaries import Forced, adversary
from onebit.theory.margins import Margin, margin
from onebit.theory.mistakes import Bounds, bounds

__all__ = ["Bounds", "Forced", "Margin", "adversary", "bounds", "margin"]
