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
    "perceptron": perceptron.perceptron,
    "banditron": perceptron.banditron,
    "passive-aggressive": passive_aggressive.multiclass,
    "exact-pa": passive_aggressive.multiclass,
    "conservative-ova": chen2009.conservative,
    "epabf": arora2020.epabf,
    "pab": zhong2015.pab,
    "gaptron": hoeven2020.gaptron,
    "bandit-perceptron": prompak2017.bandit_perceptron,
}
IN_A_KERNEL = ("perceptron", "bandit-perceptron")  # rules whose theorems need only a margin


def check_theorems(entry: ComparisonEntry) -> None:
    """Raise InputError for a learner that no theorem is about."""
    name = entry.rule.name
    if name not in THEOREMS:
        raise InputError(f"the papers give no bound for {name}, but for {', '.join(sorted(THEOREMS))}")
    if entry.options.get("kernel") is not None and name not in IN_A_KERNEL:
        raise InputError(f"bounds in the space of a kernel are known for {' and '.join(IN_A_KERNEL)}, not for {name}")


def compute_promises(setting: Setting) -> list[Bound]:
    """Compute what the theorems promise in a setting."""
    return [bound.judged(setting.given.count) for bound in THEOREMS[setting.rule.name](setting)]


def describe_setting(setting: Setting) -> list[str]:
    """Return notes on what is not a bound: the options, and Theorem 5's polynomial if there are groups."""
    found = [f"Set: {format_options(setting.planned)}."] if setting.planned else []
    if setting.rule.name != "bandit-perceptron" or setting.groups is None or setting.rounds.longest > 1.0 + 1e-5:
        return found
    group = setting.margin("group")
    if not group.separable:
        return [*found, "Theorem 5: the rows are not group weakly separable, so there is no polynomial."]
    position = {name: index for index, name in enumerate(setting.given.classes)}
    groups = [[position[name] for name in members] for members in group.groups]
    rows = np.asarray(setting.rounds.X.todense() if hasattr(setting.rounds.X, "todense") else setting.rounds.X)
    values = prompak2017.polynomial_values(
        rows, setting.rounds.y, groups, np.asarray(group.between), np.asarray(group.within), group.margin
    )
    own = np.arange(setting.rounds.kinds) == setting.rounds.y[:, None]
    least, most = float(values[own].min()), float(values[~own].max())
    power, degree = prompak2017.polynomial_degree(len(groups) - 1, group.margin)
    return [
        *found,
        f"Theorem 5: the polynomial of degree {power * degree} is at least {least:.3g} on the rows of its class (1/2 is promised) and at most "
        f"{most:.3g} on all others (-1/2 is promised).",
    ]
