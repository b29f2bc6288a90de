"""Checks for the mistakes that a rule can make, which anyone can run on a rule of their own.

    onebit.checks.check_learner(lambda **options: onebit.Learner(my_rule, **options))

A factory takes `classes` and the common options of a learner (`seed`, `space`, `dtype`, ...) and returns a new learner. Each check is
a function of a factory that raises an AssertionError if it fails; `CHECKS` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from onebit.checks import deciding, keeping, learning
from onebit.checks.examples import Factory

__all__ = ["CHECKS", "Factory", "check_learner"]

CHECKS: dict[str, Callable[[Factory], None]] = {
    name.removeprefix("check_"): check
    for part in (deciding, learning, keeping)
    for name, check in vars(part).items()
    if name.startswith("check_")
}


def check_learner(factory: Factory, skip: Collection[str] = ()) -> None:
    """Run every check except those named in `skip`; the error names the first that fails.

    >>> import onebit
    >>> check_learner(lambda **options: onebit.Perceptron(**options), skip=["learns"])
    """
    for name, check in CHECKS.items():
        if name not in skip:
            try:
                check(factory)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
