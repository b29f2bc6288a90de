"""What was called otherwise before 0.4: it works for one version more, and says where it is now."""

from __future__ import annotations

import functools
import importlib
import operator
import warnings
from typing import Any

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
    "feature_options": "runtime.feature_options",
    "reads_names": "runtime.reads_names",
    "support": "runtime.support",
    "variances": "runtime.variances",
    "beginning": "runtime.beginning",
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
    "plot_boundary": ("onebit.boundary", "plot_boundary", "onebit.plot_boundary(learner, ...)"),
}


def moved(learner: Any, name: str) -> Any:
    """An attribute of a learner under its old name."""
    if name in FUNCTIONS:
        module, function, instead = FUNCTIONS[name]
        _warn(f"learner.{name}(...)", instead)
        return functools.partial(getattr(importlib.import_module(module), function), learner)
    if name not in LEARNER:
        raise AttributeError(f"{type(learner).__name__!r} object has no attribute {name!r}")
    _warn(f"learner.{name}", f"learner.{LEARNER[name]}")
    return operator.attrgetter(LEARNER[name])(learner)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is {new} since 0.4, and will go in 0.5", DeprecationWarning, stacklevel=4)
