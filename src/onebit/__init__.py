"""onebit: online multiclass classification from bandit feedback, which says only right or wrong.

    learner = onebit.BPA(classes=["sport", "politics", "tech"])
    decision = learner.decide(x)
    learner.learn(decision, right=True)

Names are imported when they are first used, so that `import onebit` is quick and does not load the compiler.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

from onebit.version import VERSION

__version__ = VERSION

# Public names besides the learner classes, and the modules that they are imported from on first use.
HOMES = {
    "Learner": "onebit.learner.learner",
    "Decision": "onebit.learner.decision",
    "OnebitError": "onebit.errors",
    "InputError": "onebit.errors",
    "MissingExtraError": "onebit.errors",
    "NetworkError": "onebit.errors",
    "OutOfMemoryError": "onebit.errors",
    "OnebitWarning": "onebit.errors",
    "Rule": "onebit.contract.rule",
    "load": "onebit.learner.learner",
    "open": "onebit.service.open.opening",
    "OpenTask": "onebit.service.open.task",
    "run": "onebit.experiments.run",
    "Result": "onebit.experiments.run",
    "Stopped": "onebit.experiments.run",
    "compare": "onebit.experiments.compare",
    "Comparison": "onebit.experiments.compare",
    "sweep": "onebit.experiments.sweep",
    "Sweep": "onebit.experiments.sweep",
    "reproduce": "onebit.papers.reproduce",
    "Reproduction": "onebit.papers.verdicts",
    "stream": "onebit.data.streams",
    "Stream": "onebit.data.streams",
    "checks": "onebit.checks",
    "data": "onebit.data",
    "theory": "onebit.theory",
    "offpolicy": "onebit.offpolicy",
    "client": "onebit.client",
    "rules": "onebit.rules",
    "sklearn": "onebit.sklearn",
    "river": "onebit.river",
    "coba": "onebit.coba",
}

logging.getLogger("onebit").addHandler(logging.NullHandler())  # no output unless the application configures logging


def __getattr__(name: str) -> Any:
    if name in HOMES:
        module = importlib.import_module(HOMES[name])
        value = module if HOMES[name] == f"onebit.{name}" else getattr(module, name)
    else:
        if name.startswith("_"):
            raise AttributeError(f"module 'onebit' has no attribute {name!r}")
        from onebit.errors import nearest
        from onebit.learner.learner import learner_class
        from onebit.rules import registry

        rules = {rule.title: rule for rule in registry().values()}
        if name not in rules:
            raise AttributeError(f"module 'onebit' has no attribute {name!r}; {nearest(name, __dir__())}")
        value = learner_class(rules[name])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from onebit.rules import registry

    return sorted([*HOMES, *(rule.title for rule in registry().values()), "__version__"])
