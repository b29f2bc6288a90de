"""The algorithms, one file a paper. Adding a file with a `RULE` here is all it takes to add one; `auto` has a folder of its own."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from onebit.contract.rule import Rule
from onebit.errors import InputError, brief, nearest

DEFAULT = "auto"  # the rule of a learner for which none is named


@cache
def registry() -> dict[str, Rule]:
    """Every rule that onebit comes with, by its command-line name, in alphabetical order."""
    names = [f"{__name__}.{found.name}" for found in pkgutil.iter_modules(__path__)]
    names.append("onebit.auto.rule")  # by its name, since it stands above this package
    rules = [importlib.import_module(name).RULE for name in names]
    return {rule.name: rule for rule in sorted(rules, key=lambda rule: str(rule.name))}


def rule_named(name: str) -> Rule:
    """The rule with this command-line name.

    >>> rule_named("banditron").title
    'Banditron'
    """
    rules = registry()
    if name not in rules:
        raise InputError(f"there is no learner {brief(name)}; {nearest(name, rules)}")
    return rules[name]
