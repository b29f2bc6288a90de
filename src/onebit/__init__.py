"""onebit learns to classify when all it ever hears is "right" or "wrong".

    learner = onebit.BPA(classes=["sport", "politics", "tech"])
    decision = learner.decide(x)
    learner.learn(decision, right=True)

Names are imported when they are first used, so that `import onebit` is quick and does not load the compiler.
"""

from __future__ import annotations

import importlib
from typing import Any

from onebit.version import VERSION

__version__ = VERSION

_PLACES = {
    "Learner": "onebit.learner",
    "Decision": "onebit.decision",
    "OnebitError": "onebit.errors",
    "Rule": "onebit.contract.rule",
    "load": "onebit.learner",
    "plot_boundary": "onebit.boundary",
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
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        module = importlib.import_module(_PLACES[name])
        found = module if _PLACES[name] == f"onebit.{name}" else getattr(module, name)
    else:
        if name.startswith("_"):
            raise AttributeError(f"module 'onebit' has no attribute {name!r}")
        from onebit.learner import learner_classes

        classes = learner_classes()
        if name not in classes:
            from onebit.errors import nearest

            raise AttributeError(f"module 'onebit' has no attribute {name!r}; {nearest(name, __dir__())}")
        found = classes[name]
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    from onebit.rules import registry

    return sorted([*_PLACES, *(rule.title for rule in registry().values()), "__version__"])
