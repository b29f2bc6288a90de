"""Names of the version before, which work for one version more and say what they are called now."""

from __future__ import annotations

import functools
import importlib
import operator
import warnings
from typing import Any


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn whoever called the caller that a name will go."""
    warnings.warn(f"{old} is now {new}; the old name goes after 1.0", DeprecationWarning, stacklevel)


class Renamed:
    """An attribute under the name it had before.

    >>> class Sweep:
    ...     summaries = [1, 2]
    ...     standings = Renamed("summaries")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Sweep().standings, str(caught[0].message)
    ([1, 2], 'Sweep.standings is now Sweep.summaries; the old name goes after 1.0')
    """

    def __init__(self, new: str) -> None:
        self._new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self._old = name

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        warn_renamed(f"{owner.__name__}.{self._old}", f"{owner.__name__}.{self._new}")
        return getattr(instance, self._new)


# Names of a learner, and where they are now.
LEARNER = {
    "rule": "runtime.rule",
    "parameters": "runtime.parameters",
    "seed": "runtime.seed",
    "bias": "runtime.bias",
    "kernel": "runtime.kernel",
    "exploration_floor": "runtime.exploration_floor",
    "identity": "runtime.identity",
    "needs_labels": "runtime.needs_labels",
    "feature_options": "runtime.features.options",
    "reads_names": "runtime.reads_names",
    "support": "runtime.support",
    "variances": "runtime.variances",
    "beginning": "runtime.model.beginning",
    "fix_features": "runtime.fix_features",
    "table": "runtime.table",
    "walk": "runtime.walk",
    "finish_walk": "runtime.finish_walk",
    "decide_rows": "runtime.decide_rows",
    "learn_rows": "runtime.learn_rows",
    "lesson": "runtime.batch",
    "study": "runtime.learn_batch",
    "trust": "runtime.disable_ledger",
    "label_indices": "runtime.names.indices",
    "decided_elsewhere": "from_log",
}


# Methods that are functions of a learner now, and what to write instead.
FUNCTIONS = {
    "clone": ("onebit.learner", "copy_of", "copy.deepcopy(learner)"),
    "plot_boundary": ("onebit.regions", "plot_boundary", "onebit.plot_boundary(learner, ...)"),
}


class Moved:
    """An attribute of a learner under its old name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, learner: Any, owner: type) -> Any:
        if learner is None:
            return self
        name = self._name
        if name in FUNCTIONS:
            module, function, instead = FUNCTIONS[name]
            warn_renamed(f"learner.{name}(...)", instead)
            return functools.partial(getattr(importlib.import_module(module), function), learner)
        warn_renamed(f"learner.{name}", f"learner.{LEARNER[name]}")
        return operator.attrgetter(LEARNER[name])(learner)


class FormerNames:
    """What a learner has under old names. Each is an attribute: with a `__getattr__` Python would take longer to find any other."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in LEARNER and name not in FUNCTIONS]


for _name in (*LEARNER, *FUNCTIONS):
    setattr(FormerNames, _name, Moved(_name))
