"""The public names of `onebit` beside its learner classes, and the modules that they are imported from when first used."""

from __future__ import annotations

HOMES = {
    "Learner": "onebit.learner",
    "Decision": "onebit.decision",
    "OnebitError": "onebit.errors",
    "InputError": "onebit.errors",
    "MissingExtraError": "onebit.errors",
    "NetworkError": "onebit.errors",
    "OutOfMemoryError": "onebit.errors",
    "OnebitWarning": "onebit.errors",
    "Rule": "onebit.contract.rule",
    "load": "onebit.learner",
    "plot_boundary": "onebit.regions",
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
