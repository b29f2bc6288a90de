"""The algorithms, one file for each paper; `auto` has a folder of its own.

A new file with a `RULE` here is all that it takes to add one. Beside the rules that onebit comes with, users can have
rules of their own, in a file given to a command (`--rule FILE.py:NAME`). Its code is run, so only the user can add
one: a service accepts only the rules it was started with, and a learner's file never names code.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType

from onebit.contract.rule import Rule
from onebit.errors import InputError, brief, nearest

DEFAULT = "auto"  # the rule of a learner if none is named

_added: dict[str, Rule] = {}  # rules added to this process by `add_rule`


@cache
def registry() -> dict[str, Rule]:
    """Return every rule that onebit comes with by its command-line name, in alphabetical order."""
    names = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    names.append("onebit.auto.rule")  # imported by name, since it is in a package above this one
    rules = [importlib.import_module(name).RULE for name in names]
    return {rule.name: rule for rule in sorted(rules, key=lambda rule: str(rule.name))}


def chosen_rules() -> dict[str, Rule]:
    """Return the rules that onebit comes with and those added to this process, by name."""
    return {**registry(), **_added}


def is_rule(name: str) -> bool:
    """Return True if a rule has this name."""
    return name in chosen_rules()


def rule_named(name: str) -> Rule:
    """Return the rule with this command-line name; raise InputError if there is none.

    It may be one of onebit's or one added to this process.

    >>> rule_named("banditron").title
    'Banditron'
    """
    rules = chosen_rules()
    if name not in rules:
        raise InputError(f"there is no learner {brief(name)}; {nearest(name, rules)}")
    return rules[name]


def add_rule(where: str) -> Rule:
    """Add a user's own rule, given as `file.py:NAME`, to this process.

    The file is run as a module, which can import from its own folder too. Raise InputError if there is no such rule
    or its name is taken.
    """
    path, colon, name = where.rpartition(":")
    if not colon or not path.endswith(".py") or not name:
        raise InputError(f"expected a rule as file.py:NAME, got {brief(where)}")
    rule = _find_rule(_import_file(Path(path)), name, path)
    if rule.name in registry():
        raise InputError(
            f"the rule of {where} is called {brief(rule.name)}, like one of onebit's: give it another name"
        )
    if _added.setdefault(rule.name, rule) is not rule:
        raise InputError(
            f"the rule of {where} is called {brief(rule.name)}, like another added rule: give it another name"
        )
    return rule


def _import_file(path: Path) -> ModuleType:
    """Import a file as a module; the same file is run only once."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    path = path.resolve()
    name = f"onebit_rule_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # records resolve their annotations through it
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InputError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    finally:
        with suppress(ValueError):  # the file may have changed the list itself
            sys.path.remove(str(path.parent))
    return module


def _find_rule(module: ModuleType, name: str, path: str) -> Rule:
    rule = getattr(module, name, None)
    if rule is None:
        rules = [known for known, value in vars(module).items() if isinstance(value, Rule)]
        raise InputError(
            f"there is no {name} in {path}{'; ' + nearest(name, rules) if rules else ', and no other rule'}"
        )
    if not isinstance(rule, Rule):
        raise InputError(f"{name} of {path} is a {type(rule).__name__}, but must be a Rule")
    return rule
