"""List the learners, their parameters and what they hear."""

from __future__ import annotations

import argparse
import json
from typing import Any

from onebit.contract.rule import Rule
from onebit.experiments.trial import OPTIONS
from onebit.rules import registry


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit learners`."""
    command.add_argument("--json", action="store_true", help="print the list as JSON")


def execute(chosen: argparse.Namespace) -> None:
    """Print the learners."""
    rules = registry().values()
    if chosen.json:
        print(json.dumps([described(rule) for rule in rules], indent=2, ensure_ascii=False))
        return
    for rule in rules:
        print(f"{rule.name}  (onebit.{rule.title}, hears {hears(rule)}; {rule.paper})")
        print(f"    {rule.summary}")
        for name, parameter in rule.parameters.items():
            print(f"      {name} = {shown(rule.defaults[name])}    {parameter.range}    {parameter.meaning}")
    print("every learner")
    for name, meaning in OPTIONS.items():
        print(f"      {name}    {meaning}")


def described(rule: Rule) -> dict[str, Any]:
    """A rule as plain values."""
    return {
        "name": rule.name,
        "class": rule.title,
        "hears": hears(rule),
        "paper": rule.paper,
        "summary": rule.summary,
        "parameters": [
            {"name": name, "default": rule.defaults[name], "range": parameter.range, "meaning": parameter.meaning}
            for name, parameter in rule.parameters.items()
        ],
    }


def hears(rule: Rule) -> str:
    """What a rule is told after it has played."""
    if callable(rule.full):
        return "one bit or the label"
    return "the label" if rule.full else "one bit"


def shown(value: object) -> str:
    """A default for people."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
