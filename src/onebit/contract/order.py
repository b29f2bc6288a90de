"""The former name of `onebit.contract.covariance`: it works until after 1.0, with a warning."""

from __future__ import annotations

import warnings
from typing import Any

from onebit.contract import covariance


def __getattr__(name: str) -> Any:
    found = getattr(covariance, name)
    if not name.startswith("__"):
        warnings.warn(f"onebit.contract.order.{name} is now onebit.contract.covariance.{name}", DeprecationWarning, 2)
    return found
