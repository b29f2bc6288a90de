"""The theorems, one file per paper or algorithm, and what they promise a learner on fixed rounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onebit.errors import InputError
from onebit.experiments.trials import ComparisonEntry, format_options
from onebit.theory.bound import Bound
from onebit.theory.setting import Setting
from onebit.theory.theorems import (
    arora2020,
    chen2009,
    hoeven2020,
    passive_aggressive,
    perceptron,
    prompak2017,
    zhong2015,
)

THEOREMS: dict[str, Callable[[Setting], list[Bound]]] = {
    "perceptron": perceptron.bound_perceptron,
    "banditron": perceptron.bound_banditron,
    "passive-aggressive": passive_aggressive.bound_passive_aggressive,
    "exact-pa": passive_aggressive.bound_passive_aggressive,
    "conservative-ova": chen2009.bound_conservative_ova,
    "epabf": arora2020.bound_epabf,
    "pab": zhong2015.bound_pab,
    "gaptron": hoeven2020.bound_gaptron,
    "bandit-perceptron": prompak2017.bound_bandit_perceptron,
}
KERNEL_RULES = ("perceptron", "bandit-perceptron")  # rules whose theorems need only a margin


def check_theorems(entry: ComparisonEntry) -> None:
    """Raise InputError if no theorem covers the learner."""
    name = entry.rule.name
    if name not in THEOREMS:
        raise InputError(f"the papers give no bound for {name}; they give bounds for {', '.join(sorted(THEOREMS))}")
    if entry.options.get("kernel") is not None and name not in KERNEL_RULES:
        raise InputError(f"with a kernel, bounds are known only for {' and '.join(KERNEL_RULES)}, not for {name}")


def compute_promises(setting: Setting) -> list[Bound]:
    """Compute what the theorems promise in a setting."""
    return [bound.judge(setting.raw_rounds.count) for bound in THEOREMS[setting.rule.name](setting)]


def describe_setting(setting: Setting) -> list[str]:
    """Return notes on what is not a bound: the options, and Theorem 5's polynomial if there are groups."""
    notes = [f"Set: {format_options(setting.planned_options)}."] if setting.planned_options else []
    if setting.rule.name != "bandit-perceptron" or setting.groups is None or setting.rounds.longest > 1.0 + 1e-5:
        return notes
    group = setting.margin("group")
    if not group.separable:
        return [*notes, "Theorem 5: the rows are not group weakly separable, so there is no polynomial."]
    position = {name: index for index, name in enumerate(setting.raw_rounds.classes)}
    groups = [[position[name] for name in members] for members in group.groups]
    rows = np.asarray(setting.rounds.X.todense() if hasattr(setting.rounds.X, "todense") else setting.rounds.X)
    values = prompak2017.polynomial_values(
        rows, setting.rounds.y, groups, np.asarray(group.between), np.asarray(group.within), group.margin
    )
    own = np.arange(setting.rounds.kinds) == setting.rounds.y[:, None]
    least, most = float(values[own].min()), float(values[~own].max())
    power, degree = prompak2017.polynomial_degree(len(groups) - 1, group.margin)
    return [
        *notes,
        f"Theorem 5: the polynomial of degree {power * degree} is at least {least:.3g} on the rows of its class (1/2 is promised) and at most "
        f"{most:.3g} on all others (-1/2 is promised).",
    ]
