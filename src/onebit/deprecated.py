"""What was called otherwise before 0.4: it works for one version more, and says where it is now."""

from __future__ import annotations

import functools
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


def moved(learner: Any, name: str) -> Any:
    """An attribute of a learner under its old name."""
    if name == "clone":
        from onebit.learner import copy_of

        _warn("learner.clone()", "copy.deepcopy(learner)")
        return functools.partial(copy_of, learner)
    if name == "plot_boundary":
        from onebit.boundary import plot_boundary

        _warn("learner.plot_boundary(...)", "onebit.plot_boundary(learner, ...)")
        return functools.partial(plot_boundary, learner)
    if name not in LEARNER:
        raise AttributeError(f"{type(learner).__name__!r} object has no attribute {name!r}")
    _warn(f"learner.{name}", f"learner.{LEARNER[name]}")
    return operator.attrgetter(LEARNER[name])(learner)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is {new} since 0.4, and will go in 0.5", DeprecationWarning, stacklevel=4)
